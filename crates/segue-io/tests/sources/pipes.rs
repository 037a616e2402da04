//! Pipes with and without a name, and pseudo-terminals.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::everywhere;
use rustix::fs::OFlags;
use segue_core::{CancelToken, Cancelled, scope, timeout};
use segue_io::pipe::{PipeReader, PipeWriter, pipe};
use segue_io::process::{self, Command};
use segue_io::pty::{Pty, Size};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn does_not_block(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

fn is_late<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::TimedOut)
}

/// A pipe with a name, which goes when this is dropped.
struct Named(PathBuf);

impl Named {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-pipe-{}-{number}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_is_written_is_read_in_order_up_to_the_end() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let text: Vec<u8> = (0..1_000_000_u32).map(|byte| (byte % 251) as u8).collect();
        let read = scope(|s| {
            s.spawn(|| {
                writer.write_all(&text).unwrap();
                drop(writer);
            });
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            read
        });
        assert!(read == text);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn several_buffers_are_one_read_or_write() {
    everywhere(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        assert_eq!(writer.write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b"two")]).unwrap(), 7);
        let (mut first, mut second) = ([0; 2], [0; 9]);
        let count = reader.read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]).unwrap();
        assert_eq!((count, &first, &second[..5]), (7, b"on", &b"e two"[..]));
        // No room and no bytes are nobody's business.
        assert_eq!(reader.read(&mut []).unwrap(), 0);
        assert_eq!(reader.try_read(&mut first).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_reader_or_writer_that_is_cancelled_has_no_effect() {
    everywhere(|| {
        let (reader, writer) = pipe().unwrap();
        assert!(is_late(timeout(Duration::from_millis(2), || (&reader).read(&mut [0]))));
        let mut written = 0;
        while let Ok(count) = writer.try_write(&[7; 10_000]) {
            written += count;
        }
        assert!(is_late(timeout(Duration::from_millis(2), || (&writer).write(&[7; 10_000]))));
        assert_eq!(writer.try_write(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
        let token = CancelToken::new();
        token.cancel();
        assert!(Cancelled::caused(&token.run(|| (&reader).read(&mut [0])).unwrap_err()));
        drop(writer);
        assert_eq!(io::copy(&mut &reader, &mut io::sink()).unwrap(), written as u64);
    });
}

#[test]
fn a_writer_without_readers_is_told() {
    everywhere(|| {
        let (reader, mut writer) = pipe().unwrap();
        scope(|s| {
            s.spawn(|| {
                segue_core::yield_now().unwrap();
                drop(reader);
            });
            let error = loop {
                if let Err(error) = writer.write(&[0; 30_000]) {
                    break error;
                }
            };
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        });
    });
}

#[test]
fn readiness_is_chosen_and_takes_nothing() {
    everywhere(|| {
        let ((first, mut to_first), (second, _to_second)) = (pipe().unwrap(), pipe().unwrap());
        to_first.write_all(b"x").unwrap();
        for _ in 0..3 {
            let ready = second.readable_source().or(first.readable_source()).wait().unwrap();
            assert!(matches!(ready, segue_core::Either::Right(Ok(()))));
        }
        to_first.writable_source().wait().unwrap().unwrap();
        assert_eq!(first.try_read(&mut [0; 9]).unwrap(), 1);
    });
}

#[test]
fn what_is_handed_on_blocks_and_what_is_taken_over_does_not() {
    let (reader, writer) = io::pipe().unwrap();
    assert!(!does_not_block(&reader) && !does_not_block(&writer));
    let (reader, writer) = (PipeReader::from_std(reader).unwrap(), PipeWriter::from_std(writer).unwrap());
    assert!(does_not_block(&reader) && does_not_block(&writer));
    let reader = reader.into_std().unwrap();
    let writer: OwnedFd = writer.try_into().unwrap();
    assert!(!does_not_block(&reader) && !does_not_block(&writer));
}

#[test]
fn a_reader_of_a_named_pipe_waits_for_its_first_writer_and_ends_with_the_last() {
    everywhere(|| {
        let named = Named::new();
        let reader = PipeReader::open(&named.0).unwrap();
        // No writer yet: that is no end.
        assert!(is_late(timeout(Duration::from_millis(2), || (&reader).read(&mut [0]))));
        scope(|s| {
            let reads = s.spawn(|| {
                let mut text = String::new();
                (&reader).read_to_string(&mut text).unwrap();
                text
            });
            segue_core::yield_now().unwrap();
            let (mut first, mut second) = (PipeWriter::open(&named.0).unwrap(), PipeWriter::open(&named.0).unwrap());
            first.write_all(b"first ").unwrap();
            drop(first);
            second.write_all(b"second").unwrap();
            assert!(!reads.is_finished());
            drop(second);
            assert_eq!(reads.join().unwrap(), "first second");
        });
    });
}

#[test]
fn what_is_no_pipe_or_has_no_reader_is_an_error() {
    let named = Named::new();
    let error = PipeWriter::open(&named.0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NXIO.raw_os_error()));
    assert_eq!(PipeReader::open("/proc/self/stat").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(PipeReader::open("/there/is/nothing").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(PipeReader::open("a\0b").unwrap_err().kind(), ErrorKind::InvalidInput);
}

fn read_until(terminal: &Pty, wanted: &str) {
    let mut text = String::new();
    while !text.contains(wanted) {
        let mut piece = [0; 64];
        let count = (&mut &*terminal).read(&mut piece).unwrap();
        assert_ne!(count, 0, "the end, after {text:?}");
        text += std::str::from_utf8(&piece[..count]).unwrap();
    }
}

#[test]
fn a_program_on_a_terminal_is_typed_at_told_its_size_and_interrupted() {
    everywhere(|| {
        let terminal = Pty::open().unwrap();
        terminal.set_size(Size { rows: 10, columns: 33 }).unwrap();
        let mut command = Command::new("sh");
        let script = "trap 'stty size' WINCH; echo begin; read line; echo got $line; stty size; exec cat";
        terminal.attach(command.args(["-c", script])).unwrap();
        let mut child = process::spawn(&mut command).unwrap().kill_on_drop(true);
        drop(command);
        read_until(&terminal, "begin\r\n");
        assert!(is_late(timeout(Duration::from_millis(2), || (&terminal).read(&mut [0]))));
        (&terminal).write_all(b"words\n").unwrap();
        read_until(&terminal, "got words\r\n10 33\r\n");
        // Ctrl-C.
        (&terminal).write_all(b"more\n").unwrap();
        read_until(&terminal, "more\r\nmore\r\n");
        (&terminal).write_all(b"\x03").unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(2));
        // What was echoed, and the end.
        let mut rest = String::new();
        (&terminal).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "^C");
    });
}

#[test]
fn a_terminal_hangs_up_when_it_is_dropped() {
    everywhere(|| {
        let terminal = Pty::open().unwrap();
        let mut command = Command::new("sleep");
        terminal.attach(command.arg("1000")).unwrap();
        let mut child = process::spawn(&mut command).unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        drop(terminal);
        assert_eq!(child.wait().unwrap().signal(), Some(1));
    });
}

#[test]
fn a_terminal_that_nobody_has_opened_yet_is_waited_for() {
    everywhere(|| {
        let terminal = Pty::open().unwrap();
        assert!(is_late(timeout(Duration::from_millis(2), || (&terminal).read(&mut [0]))));
        // Opened, closed and opened again: an end, and more.
        for text in ["one", "two"] {
            let mut other = std::fs::File::from(terminal.terminal().unwrap());
            other.write_all(text.as_bytes()).unwrap();
            drop(other);
            let mut read = String::new();
            (&terminal).read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        }
    });
}
