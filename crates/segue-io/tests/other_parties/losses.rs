//! What a cancelled call has lost, which is nothing, and what it holds up, which is no other call.

use crate::cells::{LOTS, Scratch, open_master};
use crate::fuse::{self, Fuse};
use crate::{DRIVERS, LONGEST, alone, guarded, on_one_worker};
use segue_core::{Cancelled, scope, timeout};
use segue_io::Backend;
use segue_io::fs::{self, File};
use std::io::{self, ErrorKind, IoSliceMut, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes that come while a read is being cancelled are there for the next: through each handle.
#[test]
fn a_read_that_was_cancelled_has_taken_nothing() {
    guarded("a read that was cancelled".to_owned(), || DRIVERS.into_iter().for_each(reads_in_vain));
}

fn reads_in_vain(driver: Backend) {
    on_one_worker(driver, || {
        let scratch = Scratch::new();
        let fifo = std::fs::File::options().read(true).write(true).open(scratch.fifo()).unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let (master, terminal) = open_master();
        let pairs = [
            (OwnedFd::from(reader), OwnedFd::from(writer)),
            (fifo.try_clone().unwrap().into(), fifo.into()),
            (terminal.try_clone().unwrap(), master.try_clone().unwrap()),
            (master, terminal),
        ];
        for (from, to) in pairs {
            let (mut file, mut read) = (File::from(from), Vec::new());
            scope(|s| {
                let _writer = s.spawn(|| {
                    for byte in 0..200_u8 {
                        rustix::io::write(&to, &[byte]).unwrap();
                        segue_core::sleep(Duration::from_micros(700)).unwrap();
                    }
                });
                while read.len() < 200 {
                    let mut room = [0; 7];
                    match timeout(Duration::from_millis(1), || file.read(&mut room)) {
                        Ok(count) => read.extend_from_slice(&room[..count]),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                    }
                }
            });
            assert!(read.into_iter().eq(0..200), "{driver:?}: bytes are lost, or came twice");
        }
    });
}

/// A write that is cut short says how much was taken: all of that comes out, and nothing else.
#[test]
fn what_a_cancelled_write_says_is_what_was_written() {
    guarded("a write that was cancelled".to_owned(), || DRIVERS.into_iter().for_each(writes_in_part));
}

fn writes_in_part(driver: Backend) {
    on_one_worker(driver, || {
        let (master, terminal) = open_master();
        let (reader, writer) = io::pipe().unwrap();
        for (to, from) in [(terminal, master), (writer.into(), OwnedFd::from(reader))] {
            let (file, content) = (File::from(to), (0..LOTS).map(|byte| byte as u8).collect::<Vec<_>>());
            let mut written = 0;
            let (from, mut came, mut room) = (File::from(from), Vec::new(), vec![0; 5000]);
            while written < LOTS {
                match timeout(Duration::from_millis(2), || (&file).write(&content[written..])) {
                    Ok(count) => written += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::TimedOut);
                        let read = timeout(Duration::from_millis(2), || (&from).read(&mut room));
                        came.extend_from_slice(&room[..read.unwrap_or(0)]);
                    }
                }
            }
            while came.len() < LOTS {
                let count = timeout(LONGEST, || (&from).read(&mut room)).unwrap();
                came.extend_from_slice(&room[..count]);
            }
            assert!(came == content, "{driver:?}: {} of {LOTS} bytes came, in order", came.len());
        }
    });
}

/// Neither what waits by readiness nor what a silent server holds up takes the threads for blocking
/// calls; and the threads that were left make room for another server's calls.
// Elsewhere a file of a disk is opened by the threads that wait for the server.
#[test]
#[cfg(linux)]
fn six_hundred_calls_that_wait_leave_room_for_others() {
    use std::os::unix::fs::FileExt;
    const MANY: usize = 600;
    let _alone = alone();
    guarded("six hundred calls".to_owned(), || {
        for driver in DRIVERS {
            let silent = Fuse::new();
            let other = Fuse::new();
            on_one_worker(driver, || {
                let (reader, _writer) = io::pipe().unwrap();
                let pipe = File::from(OwnedFd::from(reader));
                let server = silent.as_ref().map(|silent| File::open(silent.file()).unwrap());
                silent.iter().for_each(Fuse::fall_silent);
                let token = segue_core::CancelToken::new();
                scope(|s| {
                    let waits = |number: usize| {
                        let (pipe, server, token) = (&pipe, &server, &token);
                        move || {
                            let waited = token.run(|| match server {
                                Some(file) if number.is_multiple_of(2) => {
                                    file.read_at(&mut [0; 8], number as u64 * 2048)
                                }
                                _ => (&*pipe).read(&mut [0; 8]),
                            });
                            assert!(Cancelled::caused(&waited.unwrap_err()));
                        }
                    };
                    let all: Vec<_> = (0..2 * MANY).map(|number| s.spawn(waits(number))).collect();
                    segue_core::sleep(Duration::from_millis(50)).unwrap();
                    let scratch = Scratch::new();
                    assert_eq!(timeout(LONGEST, || segue_core::blocking(|| 7)).unwrap(), 7);
                    let path = scratch.file(10);
                    timeout(LONGEST, || fs::copy(&path, scratch.path("copy"))).unwrap();
                    token.cancel();
                    all.into_iter().for_each(|fiber| fiber.join().unwrap());
                });
                if let Some(other) = &other {
                    let read = timeout(LONGEST, || fs::read(other.file())).unwrap();
                    assert_eq!(read.len() as u64, fuse::LENGTH);
                }
                silent.iter().for_each(Fuse::speak);
            });
        }
    });
}

/// Its requests are answered by a fiber of the worker whose other fibers ask.
#[test]
fn a_server_on_the_same_worker_answers() {
    let _alone = alone();
    guarded("a server on the same worker".to_owned(), || {
        for driver in DRIVERS {
            if Fuse::new().is_none() {
                return;
            }
            on_one_worker(driver, || {
                let mut device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
                let path = fuse::mounted(&device).unwrap();
                let manners = fuse::Manners::default();
                scope(|s| {
                    let server = s.spawn(|| {
                        let mut room = vec![0; 1 << 20];
                        loop {
                            match device.read(&mut room) {
                                Ok(length) => {
                                    if let Some(answer) = manners.answer(&room[..length]) {
                                        let _ = device.write(&answer);
                                    }
                                }
                                Err(error) if fuse::is_the_end(&error) => return,
                                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
                            }
                        }
                    });
                    for _ in 0..3 {
                        assert_eq!(fs::read(path.join("file")).unwrap().len() as u64, fuse::LENGTH);
                        let mut file = File::options().read(true).write(true).open(path.join("file")).unwrap();
                        assert_eq!(file.write(b"some").unwrap(), 4);
                        assert_eq!(file.stream_position().unwrap(), 4);
                        assert_eq!(file.read(&mut [0; 100]).unwrap(), 100);
                        assert_eq!(file.seek(io::SeekFrom::End(0)).unwrap(), fuse::LENGTH);
                        let (mut one, mut other) = ([1; 3], [1; 3]);
                        let both = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
                        assert_eq!(file.read_vectored_at(both, 9).unwrap(), 6);
                        assert_eq!(file.metadata().unwrap().len(), fuse::LENGTH);
                        file.sync_all().unwrap();
                        drop(file);
                        let names = fs::read_dir(path.join("dir")).unwrap().map(|entry| entry.unwrap().file_name());
                        assert!(names.eq(["entry"]));
                        assert!(fs::metadata(path.join("dir/entry")).unwrap().is_dir());
                        let scratch = Scratch::new();
                        assert_eq!(fs::copy(path.join("file"), scratch.path("copy")).unwrap(), fuse::LENGTH);
                    }
                    segue_core::blocking(|| fuse::unmounted(&path)).unwrap();
                    server.join().unwrap();
                });
            });
        }
    });
}

/// A server that listens to interrupts has not done it.
#[test]
fn an_interrupted_request_is_over_when_its_caller_is_told() {
    let _alone = alone();
    guarded("an interrupted request".to_owned(), || {
        for driver in DRIVERS {
            let Some(fuse) = Fuse::new() else { return };
            on_one_worker(driver, || {
                let mut file = File::options().read(true).write(true).open(fuse.file()).unwrap();
                fuse.manners.heeds_interrupts.store(true, Ordering::Relaxed);
                fuse.fall_silent();
                let error = timeout(Duration::from_millis(20), || file.read(&mut [0; 8])).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                fuse.speak();
                assert_eq!(file.stream_position().unwrap(), 0, "the read was left, and has moved the position");
                assert_eq!(file.read(&mut [0; 8]).unwrap(), 8);
            });
        }
    });
}

/// Also a call of several steps begins none of them again, and says why it has ended.
#[test]
fn an_interrupted_request_is_not_made_again_for_a_caller_that_has_gone() {
    let _alone = alone();
    guarded("requests that are not made again".to_owned(), || {
        for driver in DRIVERS {
            let Some(fuse) = Fuse::new() else { return };
            on_one_worker(driver, || {
                fuse.manners.heeds_interrupts.store(true, Ordering::Relaxed);
                fuse.fall_silent();
                let slow = fuse.dir().with_file_name("slow");
                let calls: [(&str, &dyn Fn() -> io::Result<()>); 4] = [
                    ("entries", &|| fs::read_dir(fuse.dir()).map(drop)),
                    ("a removal", &|| fs::remove_dir_all(fuse.dir())),
                    ("a path without links", &|| fs::canonicalize(&slow).map(drop)),
                    ("metadata", &|| fs::metadata(&slow).map(drop)),
                ];
                for (name, call) in calls {
                    let error = timeout(Duration::from_millis(20), call).unwrap_err();
                    assert!(Cancelled::caused(&error), "{name}: {error:?}");
                    assert_eq!(fuse.waiting(), 0, "{name} was left");
                }
            });
        }
    });
}

/// The call that was left has the position's lock, in the kernel.
#[test]
fn a_handle_whose_call_was_left_does_not_hold_the_worker_up_at_the_position() {
    let _alone = alone();
    guarded("the position of a call that was left".to_owned(), || {
        for driver in DRIVERS {
            let Some(fuse) = Fuse::new() else { return };
            on_one_worker(driver, || {
                let mut file = File::options().read(true).write(true).open(fuse.file()).unwrap();
                fuse.fall_silent();
                for _ in 0..2 {
                    let error = timeout(Duration::from_millis(20), || (&file).read(&mut [0; 8])).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                }
                let error = timeout(Duration::from_millis(20), || file.read(&mut [0; 8])).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                let error = timeout(Duration::from_millis(20), || file.write(&[0; 8])).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                let error = timeout(Duration::from_millis(20), || file.stream_position()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
            });
        }
    });
}

/// A file is ready at any time, and its server is not.
#[test]
fn to_try_a_standard_stream_that_is_a_servers_file_does_not_hold_the_worker_up() {
    use rustix::stdio;
    let _alone = alone();
    guarded("the standard input of a server".to_owned(), || {
        let before = stdio::stdin().try_clone_to_owned().unwrap();
        for driver in DRIVERS {
            let Some(fuse) = Fuse::new() else { return };
            stdio::dup2_stdin(std::fs::File::open(fuse.file()).unwrap()).unwrap();
            on_one_worker(driver, || {
                let input = segue_io::stdio::stdin().unwrap();
                fuse.fall_silent();
                scope(|s| {
                    let reads = s.spawn(|| input.try_read(&mut [0; 8]));
                    segue_core::sleep(Duration::from_millis(20)).unwrap();
                    fuse.speak();
                    // The kernel asks anew where it has read ahead in vain.
                    let _ = reads.join().unwrap();
                });
                assert_eq!(input.try_read(&mut [0; 8]).unwrap(), 8);
            });
            stdio::dup2_stdin(&before).unwrap();
        }
    });
}

/// Packets are what a pipe's description says, and stay so.
#[test]
fn each_write_to_a_pipe_of_packets_is_a_packet() {
    use rustix::pipe::{PipeFlags, pipe_with};
    for driver in DRIVERS {
        on_one_worker(driver, || {
            let (from, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::DIRECT).unwrap();
            let (from, to) = (File::from(from), File::from(to));
            for text in ["one", "other"] {
                assert_eq!((&to).write(text.as_bytes()).unwrap(), text.len());
            }
            for text in ["one", "other"] {
                let mut room = [0; 100];
                let count = (&from).read(&mut room).unwrap();
                assert_eq!(&room[..count], text.as_bytes(), "{driver:?}");
            }
        });
    }
}

/// As `VMIN` and `VTIME` say: where the terminal can be opened anew.
#[test]
#[cfg(linux)]
fn a_terminal_that_gives_nothing_within_its_time_says_so() {
    use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    for driver in DRIVERS {
        on_one_worker(driver, || {
            let (_master, terminal) = open_master();
            let mut settings = tcgetattr(&terminal).unwrap();
            settings.special_codes[SpecialCodeIndex::VMIN] = 0;
            for tenths in [0, 1] {
                settings.special_codes[SpecialCodeIndex::VTIME] = tenths;
                tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
                let file = File::from(terminal.try_clone().unwrap());
                assert_eq!(timeout(LONGEST, || (&file).read(&mut [0; 8])).unwrap(), 0, "{driver:?}, {tenths}");
            }
        });
    }
}
