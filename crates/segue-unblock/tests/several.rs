//! Waits for any of several descriptors, and for events of epoll, in the scope.
#![allow(unsafe_code)] // Calls of the C library.

mod common;

use common::{beside, errno, everywhere, unblock};
use segue_core::{CancelToken, now, scope, timeout, yield_now};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::time::Duration;

fn poll(fds: &mut [libc::pollfd], timeout: i32) -> Result<i32, i32> {
    // SAFETY: the entries are there.
    match unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, timeout) } {
        -1 => Err(errno()),
        found => Ok(found),
    }
}

fn entry(fd: i32, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

#[test]
fn a_poll_of_a_hundred_finds_the_one() {
    everywhere(|| {
        let mut pairs: Vec<_> = (0..100).map(|_| UnixStream::pair().unwrap()).collect();
        let mut asked: Vec<_> = pairs.iter().map(|(one, _)| entry(one.as_raw_fd(), libc::POLLIN)).collect();
        // One that is not to be looked at, and one that is there twice.
        asked.push(entry(-1, libc::POLLIN));
        asked.push(entry(asked[71].fd, libc::POLLIN | libc::POLLPRI));
        let found = beside(|| poll(&mut asked, -1), || pairs[71].1.write_all(b"x").unwrap());
        assert_eq!(found, Ok(2));
        for (place, asked) in asked.iter().enumerate() {
            assert_eq!(asked.revents, if place == 71 || place == 101 { libc::POLLIN } else { 0 });
        }
        pairs[71].0.read_exact(&mut [0]).unwrap();
        assert_eq!(unblock(|| poll(&mut asked, 5)), Ok(0));

        // One is invalid: the call does not wait.
        asked[50].fd = 1_000_000;
        assert_eq!(unblock(|| poll(&mut asked, -1)), Ok(1));
        assert_eq!(asked[50].revents, libc::POLLNVAL);
        // The fiber waits, and then one becomes so.
        asked[50].fd = -1;
        drop(pairs.pop());
        asked.truncate(99);
        let closed = pairs.pop().unwrap();
        let found = beside(
            || poll(&mut asked, 3_600_000),
            || {
                drop(closed.0);
                pairs[3].1.write_all(b"x").unwrap();
            },
        );
        assert_eq!((found, asked[98].revents), (Ok(2), libc::POLLNVAL));
    });
}

#[test]
fn a_poll_of_none_sleeps_and_can_be_cancelled() {
    everywhere(|| {
        let begun = now();
        assert_eq!(unblock(|| poll(&mut [], 10)), Ok(0));
        assert!(now() - begun >= Duration::from_millis(10));
        let (one, _other) = UnixStream::pair().unwrap();
        let mut asked = [entry(one.as_raw_fd(), libc::POLLIN)];
        let cut = timeout(Duration::from_millis(10), || unblock(|| poll(&mut asked, -1)));
        assert_eq!(cut, Err(libc::ECANCELED));
        let token = CancelToken::new();
        token.cancel();
        assert_eq!(token.run(|| unblock(|| poll(&mut [], -1))), Err(libc::ECANCELED));
        // SAFETY: what is wrong is for the kernel to find.
        assert_eq!(unblock(|| unsafe { libc::poll(ptr::null_mut(), 3, -1) }), -1);
        assert_eq!(errno(), libc::EFAULT);
    });
}

#[test]
fn a_ppoll_counts_nanoseconds_and_with_a_mask_is_plain() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut asked = [entry(one.as_raw_fd(), libc::POLLIN)];
        let ppoll = |asked: &mut [libc::pollfd], time: Option<&libc::timespec>, mask: *const libc::sigset_t| {
            // SAFETY: all that is named is there.
            unsafe { libc::ppoll(asked.as_mut_ptr(), asked.len() as _, time.map_or(ptr::null(), ptr::from_ref), mask) }
        };
        let brief = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000 };
        assert_eq!(unblock(|| ppoll(&mut asked, Some(&brief), ptr::null())), 0);
        // SAFETY: a set of no signals is all zeros.
        let none: libc::sigset_t = unsafe { MaybeUninit::zeroed().assume_init() };
        let before = segue_unblock::waits();
        assert_eq!(unblock(|| ppoll(&mut asked, Some(&brief), &raw const none)), 0);
        assert_eq!(segue_unblock::waits(), before);
        let wrong = libc::timespec { tv_sec: 0, tv_nsec: 2_000_000_000 };
        assert_eq!((unblock(|| ppoll(&mut asked, Some(&wrong), ptr::null())), errno()), (-1, libc::EINVAL));
        assert_eq!(beside(|| ppoll(&mut asked, None, ptr::null()), || other.write_all(b"x").unwrap()), 1);
    });
}

#[test]
fn a_select_finds_what_is_ready_and_tells_the_time_left() {
    everywhere(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        let select = |time: Option<&mut libc::timeval>| {
            // SAFETY: a set is zeros, and the descriptor's number fits.
            unsafe {
                let mut set: libc::fd_set = MaybeUninit::zeroed().assume_init();
                libc::FD_SET(fd, &raw mut set);
                let (none, time) = (ptr::null_mut(), time.map_or(ptr::null_mut(), ptr::from_mut));
                let found = libc::select(fd + 1, &raw mut set, none, none, time);
                (found, libc::FD_ISSET(fd, &raw const set))
            }
        };
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 3_000 };
        assert_eq!(unblock(|| select(Some(&mut time))), (0, false));
        assert_eq!((time.tv_sec, time.tv_usec), (0, 0));
        let mut time = libc::timeval { tv_sec: 3_600, tv_usec: 0 };
        assert_eq!(beside(|| select(Some(&mut time)), || writer.write_all(b"x").unwrap()), (1, true));
        assert!((3_000..3_600).contains(&time.tv_sec));
        assert_eq!(unblock(|| select(None)), (1, true));
        reader.read_exact(&mut [0]).unwrap();
        let mut wrong = libc::timeval { tv_sec: -1, tv_usec: 0 };
        assert_eq!((unblock(|| select(Some(&mut wrong)).0), errno()), (-1, libc::EINVAL));
        // Outside of the scope likewise.
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 1_000 };
        assert_eq!(select(Some(&mut time)), (0, false));
    });
}

#[test]
fn events_of_an_epoll_are_waited_for() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        // SAFETY: no memory is named but the event; the descriptor is new.
        let epoll = unsafe {
            let epoll: OwnedFd = std::os::fd::FromRawFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 77 };
            libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, one.as_raw_fd(), &raw mut event);
            epoll
        };
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let mut wait = |timeout| {
            // SAFETY: there is room for one.
            unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, timeout) }
        };
        assert_eq!(unblock(|| wait(0)), 0);
        assert_eq!(unblock(|| wait(4)), 0);
        assert_eq!(timeout(Duration::from_millis(4), || unblock(|| (wait(-1), errno()))), (-1, libc::ECANCELED));
        assert_eq!(beside(|| wait(-1), || other.write_all(b"x").unwrap()), 1);
        assert_eq!({ event.u64 }, 77);
        // SAFETY: the event is there.
        assert_eq!(unblock(|| unsafe { libc::epoll_wait(-1, &raw mut event, 1, -1) }), -1);
        assert_eq!(errno(), libc::EBADF);
    });
}

#[test]
fn many_polls_at_once_share_the_worker() {
    everywhere(|| {
        let mut pairs: Vec<_> = (0..50).map(|_| UnixStream::pair().unwrap()).collect();
        let asked: Vec<_> = pairs.iter().map(|(one, _)| one.as_raw_fd()).collect();
        scope(|s| {
            for fd in asked {
                s.spawn(move || unblock(|| assert_eq!(poll(&mut [entry(fd, libc::POLLIN)], 60_000), Ok(1))));
            }
            (0..5).for_each(|_| yield_now().unwrap());
            pairs.iter_mut().for_each(|(_, other)| other.write_all(b"x").unwrap());
        });
    });
}

/// Asks an epoll, without an end.
fn wait_at(epoll: i32) -> (i32, u64) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for one.
    let found = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, -1) };
    (found, event.u64)
}

/// An epoll that says this number when that can be read.
fn epoll_of(stream: &UnixStream, number: u64) -> OwnedFd {
    // SAFETY: no memory is named but the event; the descriptor is new.
    unsafe {
        let epoll: OwnedFd = std::os::fd::FromRawFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC));
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut event);
        epoll
    }
}

#[test]
fn an_epoll_whose_number_is_given_out_again_is_still_waited_for() {
    everywhere(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let (decoy, mut behind) = UnixStream::pair().unwrap();
        let (epoll, misleads) = (epoll_of(&one, 1), epoll_of(&decoy, 2));
        let number = epoll.as_raw_fd();
        let reuse = || {
            // SAFETY: the number is this test's own, and leads elsewhere from now on.
            assert_eq!(unsafe { libc::dup2(misleads.as_raw_fd(), number) }, number);
            behind.write_all(b"x").unwrap();
            (0..5).for_each(|_| yield_now().unwrap());
            other.write_all(b"x").unwrap();
        };
        assert_eq!(beside(|| wait_at(number), reuse), (1, 1));
        assert_eq!(unblock(|| wait_at(number)), (1, 2));
    });
}

/// A file is always ready for what it is ready for. That it is asked for anything else is no error.
#[test]
fn what_never_has_anything_to_say_is_waited_for_in_vain() {
    everywhere(|| {
        let (file, device) = (std::fs::File::open("/proc/version").unwrap(), std::fs::File::open("/dev/null").unwrap());
        let all = || [&file, &device].map(|it| entry(it.as_raw_fd(), libc::POLLPRI));
        assert_eq!(unblock(|| poll(&mut all(), 3)), Ok(0));
        let (one, mut other) = UnixStream::pair().unwrap();
        let mut asked = [all()[0], entry(one.as_raw_fd(), libc::POLLIN), all()[1]];
        assert_eq!(beside(|| poll(&mut asked, -1), || other.write_all(b"x").unwrap()), Ok(1));
        assert_eq!(asked.map(|it| it.revents), [0, libc::POLLIN, 0]);
    });
}

/// C programs ask for as many words as their descriptors need, and not for a set of 1,024.
#[test]
fn a_select_touches_no_more_of_a_set_than_its_count_says() {
    everywhere(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        assert!(fd < 128);
        let words = fd as usize / 64 + 1;
        let mut memory = [0_u64; 16];
        memory[words - 1] = 1 << (fd % 64);
        let place = &raw mut memory;
        let select = |set: usize| {
            let none = ptr::null_mut();
            // SAFETY: there are as many words as the count says.
            unsafe { libc::select(fd + 1, set as *mut libc::fd_set, none, none, ptr::null_mut()) }
        };
        let set = place.expose_provenance();
        let meanwhile = || {
            // SAFETY: what comes after the set is this test's own.
            unsafe { (*place)[words] = 77 };
            writer.write_all(b"x").unwrap();
        };
        assert_eq!(beside(|| select(set), meanwhile), 1);
        assert_eq!((memory[words - 1], memory[words]), (1 << (fd % 64), 77));
    });
}

/// Programs with many descriptors have sets of their own, longer than the C library's.
#[test]
fn a_select_of_more_descriptors_than_a_set_of_the_library_has_waits_too() {
    everywhere(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let fd = reader.as_raw_fd();
        let select = move || {
            let mut set = [0_u64; 40];
            set[fd as usize / 64] = 1 << (fd % 64);
            let none = ptr::null_mut();
            // SAFETY: there are as many bits as the count says.
            let found = unsafe { libc::select(2_500, set.as_mut_ptr().cast(), none, none, ptr::null_mut()) };
            (found, set[fd as usize / 64])
        };
        assert_eq!(beside(select, || writer.write_all(b"x").unwrap()), (1, 1 << (fd % 64)));
    });
}
