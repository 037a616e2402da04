//! A crate reads from, or writes to, streams of Segue's in many fibers at once, and does as it does
//! with std's on a plain thread.
//!
//! Used by the tests of formats and of archives.

use crate::{FIBERS, Inside, Wire, on_one_worker};
use rustix::io::ioctl_fionread;
use segue::{Builder, scope, yield_now};
use std::fmt::Debug;
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `ours` makes of `bytes`, which come one at a time to each of [`FIBERS`] fibers in turn: the
/// next byte when all have taken the one before. `theirs` is the same of a stream of std's.
///
/// When half of the bytes have come, all fibers are in the middle of it.
///
/// # Panics
/// If one of them makes something else of it than `theirs`; if not all were in the middle.
pub fn read_alike<W: Wire, T: PartialEq + Debug + Send>(
    bytes: &[u8],
    ours: impl Fn(W) -> T + Sync,
    theirs: impl FnOnce(UnixStream) -> T,
) -> T {
    let (mut writer, reader) = UnixStream::pair().expect("a pair of sockets");
    let expected = std::thread::scope(|s| {
        s.spawn(move || bytes.iter().try_for_each(|&byte| writer.write_all(&[byte])));
        theirs(reader)
    });
    for read in on_one_worker(|| read_at_once(bytes, ours)) {
        assert_eq!(read, expected, "a fiber has read what a plain thread has not");
    }
    expected
}

/// A reader that a fiber has, as the feeder sees it.
struct Tap {
    reader: OwnedFd,
    over: AtomicBool,
}

impl Tap {
    fn has_taken_all(&self) -> bool {
        self.over.load(Ordering::SeqCst) || ioctl_fionread(&self.reader).expect("a stream tells what is in it") == 0
    }
}

fn read_at_once<W: Wire, T: Send>(bytes: &[u8], read: impl Fn(W) -> T + Sync) -> Vec<T> {
    let (inside, read) = (Inside::default(), &read);
    let pairs = (0..FIBERS).map(|_| W::pair().expect("a pair of streams"));
    let (mut writers, readers): (Vec<_>, Vec<_>) = pairs.unzip();
    let tap = |reader: &W| reader.as_fd().try_clone_to_owned().expect("a descriptor");
    let taps: Vec<_> = readers.iter().map(|reader| Tap { reader: tap(reader), over: AtomicBool::new(false) }).collect();
    scope(|s| {
        let row = readers.into_iter().zip(&taps);
        let fibers: Vec<_> = row
            .map(|(reader, tap)| {
                let inside = &inside;
                s.spawn(move || {
                    let result = inside.during(|| read(reader));
                    tap.over.store(true, Ordering::SeqCst);
                    result
                })
            })
            .collect();
        inside.wait_for(FIBERS);
        for (at, byte) in bytes.iter().enumerate() {
            if at == bytes.len() / 2 {
                assert_eq!(inside.count(), FIBERS, "a fiber has ended before it had half of its bytes");
            }
            for writer in &mut writers {
                writer.write_all(&[*byte]).expect("the tap keeps the stream open");
            }
            while !taps.iter().all(Tap::has_taken_all) {
                yield_now().expect("nobody cancels a test");
            }
        }
        drop(writers);
        fibers.into_iter().map(|fiber| fiber.join().expect("it does not panic")).collect()
    })
}

/// What `ours` writes, in each of [`FIBERS`] fibers, from which small pieces are taken in turn as
/// soon as all have filled their pipes. `theirs` writes the same to a pipe of std's.
///
/// # Panics
/// If one of them writes something else than `theirs`; if not all had to wait.
pub fn write_alike<W: Wire>(
    ours: impl Fn(W::Writer) + Sync,
    theirs: impl FnOnce(std::io::PipeWriter) + Send,
) -> Vec<u8> {
    write_alike_on::<W>(Builder::new, ours, theirs)
}

/// As [`write_alike`], in fibers that `fiber` describes: with larger stacks, for one.
///
/// # Panics
/// As [`write_alike`].
pub fn write_alike_on<W: Wire>(
    fiber: impl Fn() -> Builder,
    ours: impl Fn(W::Writer) + Sync,
    theirs: impl FnOnce(std::io::PipeWriter) + Send,
) -> Vec<u8> {
    let (mut reader, writer) = pipe().expect("a pipe");
    let mut expected = vec![];
    std::thread::scope(|s| {
        s.spawn(|| theirs(writer));
        reader.read_to_end(&mut expected).expect("a pipe is read");
    });
    for written in on_one_worker(|| write_at_once::<W>(fiber, ours)) {
        assert!(written == expected, "a fiber has written what a plain thread has not");
    }
    expected
}

fn write_at_once<W: Wire>(fiber: impl Fn() -> Builder, write: impl Fn(W::Writer) + Sync) -> Vec<Vec<u8>> {
    let (inside, write) = (Inside::default(), &write);
    let pairs = (0..FIBERS).map(|_| W::pair().expect("a pair of streams"));
    let (writers, mut readers): (Vec<_>, Vec<_>) = pairs.unzip();
    let mut written = vec![vec![]; FIBERS];
    scope(|s| {
        for writer in writers {
            let inside = &inside;
            fiber().within(s).spawn(move || inside.during(|| write(writer)));
        }
        inside.wait_for(FIBERS);
        let (mut piece, mut open, mut first) = ([0; 61], FIBERS, true);
        while open > 0 {
            open = 0;
            for (reader, written) in readers.iter_mut().zip(&mut written) {
                let count = reader.read(&mut piece).expect("a stream is read");
                written.extend_from_slice(&piece[..count]);
                open += usize::from(count > 0);
            }
            if std::mem::take(&mut first) {
                assert_eq!(inside.count(), FIBERS, "a fiber had no need to wait; it has to write more");
            }
        }
    });
    written
}
