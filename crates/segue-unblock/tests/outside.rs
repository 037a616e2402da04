//! Where the calls are plain ones: before `main`, in the child of a fork, on plain threads, in
//! destructors of thread-local variables, in a panic, in `no_suspend`, in fibers that have not
//! entered the scope.
#![allow(unsafe_code)] // A constructor, a fork, and calls of the C library.

mod common;

use common::{beside, errno, everywhere, guarded, unblock};
use segue_core::drivers::is_unblocked;
use segue_core::{CancelToken, no_suspend, scope, yield_now};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

static BEFORE_MAIN: AtomicI32 = AtomicI32::new(0);

/// Called by the loader before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    let mut ends = [0; 2];
    let (sent, mut got) = (*b"early", [0_u8; 5]);
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1 };
    // SAFETY: all that is named is there. No descriptor is used after it is closed.
    unsafe {
        libc::pipe(ends.as_mut_ptr());
        let mut asked = libc::pollfd { fd: ends[0], events: libc::POLLIN, revents: 0 };
        let silent = libc::poll(&raw mut asked, 1, 1);
        let written = libc::write(ends[1], sent.as_ptr().cast(), 5);
        let found = libc::poll(&raw mut asked, 1, -1);
        let read = libc::read(ends[0], got.as_mut_ptr().cast(), 5);
        let slept = libc::nanosleep(&raw const time, std::ptr::null_mut());
        let wrong = libc::read(-1, got.as_mut_ptr().cast(), 5);
        let number = *libc::__errno_location();
        libc::close(ends[0]);
        libc::close(ends[1]);
        let right = (silent, written, found, read, slept, wrong) == (0, 5, 1, 5, 0, -1);
        BEFORE_MAIN.store(if right && got == sent { number } else { -1 }, SeqCst);
    }
}

#[test]
fn before_main_the_calls_are_there() {
    assert_eq!(BEFORE_MAIN.load(SeqCst), libc::EBADF);
}

/// Two ends, of which the second writes soon, on a plain thread.
fn soon() -> UnixStream {
    let (one, mut other) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        // The thread that reads is to have begun to wait, most often.
        thread::sleep(Duration::from_millis(2));
        other.write_all(b"x").unwrap();
    });
    one
}

/// Whether a call that has to wait waits as a plain one: nobody else has a turn, and it is not
/// counted.
fn blocks(read: impl FnOnce(&mut UnixStream)) -> bool {
    let (before, mut stream) = (segue_unblock::waits(), soon());
    read(&mut stream);
    segue_unblock::waits() == before
}

fn reads(stream: &mut UnixStream) {
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn on_a_plain_thread_the_scope_changes_nothing() {
    guarded("a plain thread", || {
        assert!(blocks(|stream| unblock(|| reads(stream))));
        assert!(unblock(|| !is_unblocked()));
    });
}

#[test]
fn in_a_fiber_without_the_scope_nothing_changes() {
    everywhere(|| {
        assert!(blocks(reads));
        // Nor beside one that is in the scope, nor after it.
        unblock(|| reads(&mut soon()));
        assert!(blocks(reads));
        // What is spawned inside is not inside.
        unblock(|| scope(|s| assert!(s.spawn(|| !is_unblocked() && blocks(reads)).join().unwrap())));
        // It ends with a panic, too.
        let _ = catch_unwind(|| unblock(|| resume_unwind(Box::new(()))));
        assert!(!is_unblocked() && blocks(reads));
    });
}

#[test]
fn no_suspend_wins_however_the_two_are_nested() {
    everywhere(|| {
        assert!(blocks(|stream| no_suspend(|| unblock(|| reads(stream)))));
        assert!(blocks(|stream| unblock(|| no_suspend(|| reads(stream)))));
        unblock(|| {
            unblock(|| assert!(is_unblocked()));
            assert!(is_unblocked());
            no_suspend(|| assert!(!is_unblocked()));
            assert!(is_unblocked());
        });
        // A cancelled fiber, too, is plain there: no call is refused.
        let token = CancelToken::new();
        token.cancel();
        token.run(|| assert!(blocks(|stream| unblock(|| no_suspend(|| reads(stream))))));
    });
}

#[test]
fn while_a_fiber_panics_its_calls_are_plain() {
    struct Reads(UnixStream);
    impl Drop for Reads {
        fn drop(&mut self) {
            assert!(thread::panicking() && blocks(reads));
            self.0.read_exact(&mut [0]).unwrap();
        }
    }
    everywhere(|| {
        let stream = AssertUnwindSafe(Reads(soon()));
        let caught = catch_unwind(move || {
            let _stream = stream;
            unblock(|| resume_unwind(Box::new(7)))
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7));
    });
}

#[test]
fn in_destructors_of_thread_local_variables_the_calls_are_plain() {
    static READ: AtomicUsize = AtomicUsize::new(0);
    struct AtTheEnd;
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            assert!(blocks(reads) && blocks(|stream| unblock(|| reads(stream))));
            READ.fetch_add(1, SeqCst);
        }
    }
    thread_local! {
        static LAST: Cell<Option<AtTheEnd>> = const { Cell::new(None) };
    }
    guarded("the end of a thread", || {
        thread::spawn(|| {
            LAST.set(Some(AtTheEnd));
            segue::runtime().workers(1).run(|| unblock(|| reads(&mut soon()))).unwrap();
        })
        .join()
        .unwrap();
    });
    assert_eq!(READ.load(SeqCst), 1);
}

#[test]
fn in_the_child_of_a_fork_the_calls_are_plain() {
    everywhere(|| {
        let (mut reader, writer) = io::pipe().unwrap();
        let (fd, mut byte) = (writer.as_raw_fd(), 0_u8);
        let before = segue_unblock::waits();
        unblock(|| {
            let [one, other] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
            // SAFETY: the child makes system calls, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: as above; all that is named is there.
                unsafe {
                    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                    libc::nanosleep(&raw const time, std::ptr::null_mut());
                    let mut asked = libc::pollfd { fd: one.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                    let silent = libc::poll(&raw mut asked, 1, 1);
                    libc::send(other.0.as_raw_fd(), (&raw const byte).cast(), 1, 0);
                    let read = libc::recv(other.1.as_raw_fd(), (&raw mut byte).cast(), 1, 0);
                    let waited = segue_unblock::waits() - before;
                    let said = if (silent, read, waited) == (0, 1, 0) { b"right" } else { b"wrong" };
                    libc::write(fd, said.as_ptr().cast(), 5);
                    libc::_exit(0);
                }
            }
            drop(writer);
            let mut said = String::new();
            reader.read_to_string(&mut said).unwrap();
            assert_eq!(said, "right");
            // SAFETY: a child of this process's, which is waited for once.
            assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        });
    });
}

#[test]
fn the_number_of_an_error_is_the_callers_own_after_a_wait() {
    everywhere(|| {
        let (silent, _other) = UnixStream::pair().unwrap();
        silent.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let others = std::sync::atomic::AtomicBool::new(true);
        scope(|s| {
            // The others of its thread leave other numbers behind all the time.
            s.spawn(|| {
                while others.load(SeqCst) {
                    // SAFETY: no memory is named.
                    assert_eq!(unsafe { libc::close(-1) }, -1);
                    assert_eq!(errno(), libc::EBADF);
                    yield_now().unwrap();
                }
            });
            unblock(|| {
                for _ in 0..3 {
                    let mut byte = 0_u8;
                    // SAFETY: the byte is there.
                    let failed = unsafe { libc::recv(silent.as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
                    assert_eq!((failed, errno()), (-1, libc::EAGAIN));
                    // A call that succeeds leaves it as it was.
                    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
                    // SAFETY: the time is there.
                    assert_eq!(unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }, 0);
                    assert_eq!(errno(), libc::EAGAIN);
                }
            });
            others.store(false, SeqCst);
        });
    });
}

/// A signal that has a handler which does nothing, and after which calls are not begun again.
fn disturbing() -> libc::c_int {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(_) as usize;
        libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut());
    }
    libc::SIGUSR2
}

/// One byte from a socket, or the number of what came instead.
fn receive(stream: &UnixStream) -> Result<u8, i32> {
    let mut byte = 0_u8;
    // SAFETY: the byte is there.
    match unsafe { libc::recv(stream.as_raw_fd(), (&raw mut byte).cast(), 1, 0) } {
        -1 => Err(errno()),
        _ => Ok(byte),
    }
}

#[test]
fn a_signal_ends_a_plain_call_and_no_wait_of_a_fiber() {
    let signal = disturbing();
    guarded("a plain call", || {
        let (one, _other) = UnixStream::pair().unwrap();
        let (told, tell) = std::sync::mpsc::channel();
        let plain = thread::spawn(move || {
            // SAFETY: no memory is named.
            told.send(unsafe { libc::pthread_self() }).unwrap();
            receive(&one)
        });
        let thread_of_it = tell.recv().unwrap();
        while !plain.is_finished() {
            // SAFETY: it is joined later.
            unsafe { libc::pthread_kill(thread_of_it, signal) };
            thread::yield_now();
        }
        assert_eq!(plain.join().unwrap(), Err(libc::EINTR));
    });
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let signals = || {
            for _ in 0..100 {
                // SAFETY: this thread has not ended.
                unsafe { libc::pthread_kill(libc::pthread_self(), signal) };
                yield_now().unwrap();
            }
            other.write_all(b"x").unwrap();
        };
        assert_eq!(beside(|| receive(&one), signals), Ok(b'x'));
    });
}

/// As in the kernel: a send of which something was sent says how much, and the next one raises the
/// signal.
#[test]
fn a_send_that_has_sent_a_part_raises_no_signal() {
    static RAISED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: libc::c_int) {
        RAISED.fetch_add(1, SeqCst);
    }
    let handle = |handler: usize| {
        // SAFETY: the handler counts.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler;
            libc::sigaction(libc::SIGPIPE, &raw const action, std::ptr::null_mut());
        }
    };
    let text = vec![b'x'; 30_000_000];
    type Send = fn(i32, &[u8]) -> isize;
    // SAFETY: the bytes are there.
    let plain: Send = |fd, text| unsafe { libc::send(fd, text.as_ptr().cast(), text.len(), 0) };
    // SAFETY: likewise.
    let write: Send = |fd, text| unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    let message: Send = |fd, text| {
        let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
        // SAFETY: zeros are an empty message; all that it names is there.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
            libc::sendmsg(fd, &raw const message, 0)
        }
    };
    everywhere(|| {
        handle(count as extern "C" fn(_) as usize);
        for send in [plain, write, message] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _silent = listener.accept().unwrap();
            let before = RAISED.load(SeqCst);
            let end = || client.shutdown(std::net::Shutdown::Write).unwrap();
            let sent = beside(|| send(client.as_raw_fd(), &text), end);
            assert!((1..30_000_000).contains(&sent), "{sent}");
            assert_eq!(RAISED.load(SeqCst), before, "a signal although something was sent");
            assert_eq!(unblock(|| (send(client.as_raw_fd(), &text), errno())), (-1, libc::EPIPE));
            assert_eq!(RAISED.load(SeqCst), before + 1);
        }
        handle(libc::SIG_IGN);
    });
}

#[test]
fn nothing_is_captured_across_the_scope() {
    everywhere(|| {
        let mut given = segue::effect::generator(|yielder| {
            // Inside of it a generator of its own works as everywhere.
            assert_eq!(unblock(|| segue::effect::generator(|y| y.give(2)).count()), 1);
            yielder.give(1);
            let refused = catch_unwind(AssertUnwindSafe(|| unblock(|| yielder.give(3)))).unwrap_err();
            let refused = refused.downcast_ref::<String>().unwrap();
            assert!(refused.contains("code whose blocking calls suspend its fiber"), "{refused}");
        });
        assert_eq!(given.next(), Some(1));
        assert!(!is_unblocked());
        assert_eq!(given.next(), None);
    });
}
