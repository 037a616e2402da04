//! Files that are sent to streams, and files that are opened below a directory: on plain threads
//! and over each driver.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{BACKENDS, everywhere, on_one_worker, pair};
use rustix::fs::{Advice, OFlags};
use segue_core::{CancelToken, Cancelled, scope};
use segue_io::fs::File;
use segue_io::net::{TcpStream, UnixStream};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A directory of its own, which goes when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // On a disk, so that the kernel can forget the content.
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sending-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|byte| (byte % 251) as u8).collect()
}

/// Sends all from an offset on to the file's end, and ends the stream.
fn send_rest(file: &File, stream: &TcpStream, mut at: u64) -> io::Result<u64> {
    let start = at;
    loop {
        match file.send_to(stream, at, u64::MAX)? {
            0 => {
                stream.shutdown(std::net::Shutdown::Write)?;
                return Ok(at - start);
            }
            count => at += count,
        }
    }
}

fn check_sent(file: &File, content: &[u8], at: usize) {
    let (sender, mut receiver) = pair();
    scope(|s| {
        s.spawn(|| assert_eq!(send_rest(file, &sender, at as u64).unwrap(), (content.len() - at) as u64));
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).unwrap();
        assert!(got == content[at..], "{} bytes of {}", got.len(), content.len() - at);
    });
}

#[test]
fn a_file_arrives_whole_from_memory_and_from_the_disk() {
    let dir = Scratch::new();
    let content = bytes(3_000_000);
    let path = dir.file("large", &content);
    everywhere(|| {
        let file = File::open(&path).unwrap();
        check_sent(&file, &content, 0);
        check_sent(&file, &content, 2_999_999);
        check_sent(&file, &content, 1_234_567);
        // As far as the kernel does that: it is to be read from the disk again.
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        check_sent(&file, &content, 5);
    });
}

#[test]
fn a_file_of_the_kernels_own_is_read_and_written() {
    everywhere(|| {
        let file = File::open("/proc/self/mountinfo").unwrap();
        let (sender, mut receiver) = pair();
        let sent = file.send_to(&sender, 0, 1 << 20).unwrap();
        let mut got = vec![0; sent as usize];
        receiver.read_exact(&mut got).unwrap();
        assert!(got.contains(&b'/') && sent > 10);
    });
}

#[test]
fn nothing_is_sent_at_the_end_beyond_it_and_for_a_count_of_zero() {
    let dir = Scratch::new();
    let path = dir.file("short", b"short");
    everywhere(|| {
        let file = File::open(&path).unwrap();
        let (sender, mut receiver) = pair();
        for (offset, count) in [(5, 1), (6, 10), (1 << 40, 10), (0, 0)] {
            assert_eq!(file.send_to(&sender, offset, count).unwrap(), 0, "{offset} {count}");
        }
        assert_eq!(file.send_to(&sender, 1, 3).unwrap(), 3);
        let mut got = [0; 3];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hor");
        assert!(file.send_to(&sender, u64::MAX, 1).is_err());
    });
}

#[test]
fn a_pipe_has_no_offsets_and_is_refused() {
    let dir = Scratch::new();
    let path = dir.0.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    everywhere(|| {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        (&file).write_all(b"x").unwrap();
        let (sender, _receiver) = pair();
        assert!(file.send_to(&sender, 0, 1).is_err());
    });
}

#[test]
fn a_full_socket_is_waited_for_and_the_wait_can_be_cancelled_or_limited() {
    let dir = Scratch::new();
    let content = bytes(1 << 20);
    let path = dir.file("large", &content);
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let file = File::open(&path).unwrap();
            let (sender, mut receiver) = UnixStream::pair().unwrap();
            sender.set_write_timeout(Some(Duration::from_millis(2))).unwrap();
            let mut sent = 0;
            let error = loop {
                match file.send_to(&sender, sent % (1 << 20), 1 << 20) {
                    Ok(count) => sent += count,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            sender.set_write_timeout(None).unwrap();
            // No effect: all that was counted is there, and nothing else.
            let token = CancelToken::new();
            scope(|s| {
                let waiting = s.spawn(|| token.run(|| file.send_to(&sender, 0, 1)));
                segue_core::yield_now();
                token.cancel();
                let error = waiting.join().unwrap().unwrap_err();
                assert!(Cancelled::caused(&error), "{error}");
            });
            scope(|s| {
                let last = s.spawn(|| file.send_to(&sender, sent % (1 << 20), 1).unwrap());
                let mut got = vec![0; sent as usize + 1];
                receiver.read_exact(&mut got).unwrap();
                assert_eq!(last.join().unwrap(), 1);
                let is_right = |(at, byte): (usize, &u8)| *byte == content[at % (1 << 20)];
                assert!(got.iter().enumerate().all(is_right));
            });
        });
    }
}

#[test]
fn a_socket_that_another_owner_has_made_block_holds_up_nobody() {
    let dir = Scratch::new();
    let content = bytes(1 << 20);
    let path = dir.file("large", &content);
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let file = File::open(&path).unwrap();
            let (sender, mut receiver) = pair();
            rustix::io::ioctl_fionbio(&sender, false).unwrap();
            scope(|s| {
                s.spawn(|| {
                    for _ in 0..20 {
                        let mut at = 0;
                        while at < 1 << 20 {
                            at += file.send_to(&sender, at, (1 << 20) - at).unwrap();
                        }
                    }
                });
                let mut got = vec![0; 20 << 20];
                receiver.read_exact(&mut got).unwrap();
                assert!(got.chunks(1 << 20).all(|part| part == content));
            });
        });
    }
}

#[test]
fn paths_lead_below_a_directory_and_never_out() {
    let dir = Scratch::new();
    dir.file("root/a/file", b"inside");
    dir.file("root/b/file", b"inside");
    dir.file("secret", b"secret");
    let link = |to: &str, at: &str| symlink(to, dir.0.join("root").join(at)).unwrap();
    link("../b/file", "a/near");
    link("../../secret", "a/out");
    link("/etc/passwd", "a/absolute");
    link("/proc/self/root/etc/passwd", "a/magic");
    link("loop", "a/loop");
    link("../..", "a/up");
    assert!(std::process::Command::new("mkfifo").arg(dir.0.join("root/pipe")).status().unwrap().success());
    everywhere(|| {
        let root = File::open(dir.0.join("root")).unwrap();
        let read = |path: &str| {
            let mut text = String::new();
            File::open_below(&root, path)?.read_to_string(&mut text)?;
            io::Result::Ok(text)
        };
        for path in ["a/file", "./b/file", "a//file"] {
            assert_eq!(read(path).unwrap(), "inside", "{path}");
        }
        if cfg!(linux) {
            assert_eq!(read("a/near").unwrap(), "inside");
            assert_eq!(read("a/../b/file").unwrap(), "inside");
        }
        let out = ["..", "../secret", "/etc/passwd", "a/out", "a/absolute", "a/magic", "a/loop", "a/../../secret"];
        for path in out {
            assert_eq!(read(path).unwrap_err().kind(), ErrorKind::CrossesDevices, "{path}");
        }
        let through = read("a/up/secret").unwrap_err().kind();
        assert!(matches!(through, ErrorKind::CrossesDevices | ErrorKind::NotADirectory), "{through}");
        assert_eq!(read("a/none").unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read("a/file/x").unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(read("a\0b").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(File::open_below(&root, "a").unwrap().metadata().unwrap().is_dir());
        // The flag of the open is taken away: a ring would take the flag for a wish not to wait.
        let file = File::open_below(&root, "a/file").unwrap();
        assert!(!rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::NONBLOCK));
        // Nobody writes to this pipe.
        assert!(!File::open_below(&root, "pipe").unwrap().metadata().unwrap().is_file());
    });
}

#[test]
fn a_name_that_turns_into_a_link_meanwhile_never_leads_out() {
    let dir = Scratch::new();
    dir.file("root/a/file", b"inside");
    dir.file("out/file", b"secret");
    symlink("../out", dir.0.join("root/b")).unwrap();
    let root_path = dir.0.join("root");
    let done = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        // The name `a` is a directory, nothing, and a link that leads out, in turn.
        threads.spawn(|| {
            let rename = |from: &str, to: &str| std::fs::rename(root_path.join(from), root_path.join(to)).unwrap();
            while done.load(Ordering::Relaxed) == 0 {
                rename("a", "c");
                rename("b", "a");
                rename("a", "b");
                rename("c", "a");
            }
        });
        struct Done<'a>(&'a AtomicUsize);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(1, Ordering::Relaxed);
            }
        }
        let _done = Done(&done);
        everywhere(|| {
            let root = File::open(&root_path).unwrap();
            // Each of both is seen, however long that takes, and much beside.
            let (mut found, mut refused) = (0, 0);
            while found == 0 || refused == 0 || found + refused < 500 {
                let mut text = String::new();
                match File::open_below(&root, "a/file").and_then(|mut file| file.read_to_string(&mut text)) {
                    Ok(_) => {
                        assert_eq!(text, "inside");
                        found += 1;
                    }
                    Err(error) => {
                        use ErrorKind::{CrossesDevices, NotADirectory, NotFound, WouldBlock};
                        let kinds = [CrossesDevices, NotADirectory, NotFound, WouldBlock];
                        assert!(kinds.contains(&error.kind()), "{error}");
                        refused += 1;
                    }
                }
            }
        });
    });
}

#[test]
fn a_mount_below_is_below() {
    everywhere(|| {
        let root = File::open("/").unwrap();
        let mut text = String::new();
        File::open_below(&root, "proc/version").unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("Linux"));
    });
}

#[test]
fn a_cancelled_caller_sends_and_opens_nothing() {
    let dir = Scratch::new();
    let path = dir.file("file", b"content");
    everywhere(|| {
        let (file, root) = (File::open(&path).unwrap(), File::open(&dir.0).unwrap());
        let (sender, receiver) = pair();
        let token = CancelToken::new();
        token.cancel();
        token.run(|| {
            assert!(Cancelled::caused(&file.send_to(&sender, 0, 1).unwrap_err()));
            assert!(Cancelled::caused(&File::open_below(&root, "file").unwrap_err()));
        });
        assert_eq!(receiver.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}
