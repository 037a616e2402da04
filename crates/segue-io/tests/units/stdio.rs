//! Standard streams that are shared with other processes: no flag is changed, no worker held up.
//! Part of `descriptor/stdio.rs`.

use super::*;
use crate::descriptor::ops::Manner;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

/// Where the description has to be shared, its flags stay as they are, and others go on.
#[test]
fn a_shared_description_is_waited_for_without_a_flag() {
    segue_sched::Runtime::new()
        .workers(1)
        .park(crate::driver::DriverPark::new)
        .run(|| {
            let (reader, writer) = io::pipe().unwrap();
            let shared = |fd: OwnedFd| Descriptor::new(fd, Manner::Shared);
            let from = Stdin(shared(reader.try_clone().unwrap().into()));
            let to = Stdout(shared(writer.try_clone().unwrap().into()));
            let text: Vec<u8> = (0..200_000_u32).map(|byte| byte as u8).collect();
            let read = segue_core::scope(|s| {
                let reads = s.spawn(|| {
                    let mut read = vec![0; text.len()];
                    (&from).read_exact(&mut read).map(|()| read)
                });
                segue_core::yield_now().unwrap();
                (&to).write_all(&text).unwrap();
                reads.join().unwrap().unwrap()
            });
            assert!(read == text);
            for fd in [reader.as_fd(), writer.as_fd()] {
                let flags = rustix::fs::fcntl_getfl(fd).unwrap();
                assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "the others' flag was changed");
            }
        })
        .unwrap();
}

/// A terminal with a flag that is not ours has no call that does not block: a try is made
/// elsewhere, while other fibers go on, and is given up where the terminal wants more letters.
#[test]
#[cfg(target_os = "linux")]
fn a_try_of_a_shared_terminal_does_not_hold_up_the_worker() {
    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    segue_sched::Runtime::new()
        .workers(1)
        .park(crate::driver::DriverPark::new)
        .run(|| {
            let mut keyboard = crate::pty::Pty::open().unwrap();
            let terminal = keyboard.terminal().unwrap();
            let mut settings = tcgetattr(&terminal).unwrap();
            settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            settings.special_codes[SpecialCodeIndex::VMIN] = 4;
            settings.special_codes[SpecialCodeIndex::VTIME] = 20;
            tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
            let from = Stdin(Descriptor::new(terminal, Manner::Shared));
            let empty = from.try_read(&mut [0; 9]).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
            keyboard.write_all(b"k").unwrap();
            let others = std::cell::Cell::new(0);
            segue_core::scope(|s| {
                s.spawn_local(|| {
                    while others.get() < 10 {
                        others.set(others.get() + 1);
                        segue_core::yield_now().unwrap();
                    }
                });
                let mut letters = [0; 9];
                assert_eq!(from.try_read(&mut letters).unwrap(), 1);
                assert_eq!(letters[0], b'k');
                assert!(others.get() > 1, "nobody else has run meanwhile");
            });
        })
        .unwrap();
}
