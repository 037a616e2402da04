//! `poll`, `ppoll`, `select`, `epoll_wait` and `epoll_pwait`: waits for any of several descriptors.
//!
//! Used by `TcpStream::connect_timeout`, by event loops, and by C.
//!
//! The ready ones are asked for first, without waiting, by the call itself. Then the descriptors go
//! into an epoll of the call's own, which the fiber waits for as for any one descriptor; and the
//! call is asked again. A call that sets a mask of signals is passed through: the mask is the
//! thread's, which others have meanwhile.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::buffers::check_room;
use crate::call::{Outcome, admit, carry_out, outcome};
use crate::descriptor::Half;
use crate::mark::is_active;
use crate::patience::Patience;
use crate::raw::raw;
use crate::sleeps::duration;
use segue_core::now;
use segue_io::foreign::Foreign;
use std::ffi::{c_int, c_ulong, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

/// The kernel's set of signals, in bytes.
const SIGNALS: usize = 8;

const AT_ONCE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

/// How long a call may wait; `None` is for ever.
type Limit = Option<Duration>;

fn millis(timeout: c_int) -> Limit {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// Asks until something is found, or the time is over; waits in between for the descriptor that
/// `watch` makes. `look` gets the number of that descriptor.
#[track_caller]
fn until_found(
    limit: Limit,
    mut look: impl FnMut(Option<c_int>) -> Outcome,
    watch: impl FnOnce(Option<Instant>) -> Outcome<Patience>,
) -> Outcome {
    admit()?;
    let found = look(None)?;
    if found != 0 || limit == Some(Duration::ZERO) {
        return Ok(found);
    }
    let mut patience = watch(limit.and_then(|time| now().checked_add(time)))?;
    loop {
        let waited = patience.wait(Half::Read);
        let found = match look(Some(patience.fd())) {
            Err(libc::EINTR) => 0,
            found => found?,
        };
        match waited {
            _ if found != 0 => return Ok(found),
            Ok(()) => {}
            // The time is over.
            Err(libc::EAGAIN) => return Ok(0),
            Err(error) => return Err(error),
        }
    }
}

/// An epoll that is ready when one of these is, each with its events of `poll`.
fn epoll_of(wanted: impl Iterator<Item = (c_int, i16)>, deadline: Option<Instant>) -> Outcome<Patience> {
    // SAFETY: no memory is named.
    let epoll = match outcome(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize) {
        Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => return Ok(Patience::without(deadline)),
        made => made?,
    };
    // SAFETY: the descriptor is a new one, and ours.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll as c_int) };
    let mut all: Vec<(c_int, u32)> =
        wanted.filter(|(fd, _)| *fd >= 0).map(|(fd, events)| (fd, events as u16 as u32)).collect();
    all.sort_unstable();
    // One descriptor may be there several times.
    all.dedup_by(|next, one| {
        let same = next.0 == one.0;
        one.1 |= if same { next.1 } else { 0 };
        same
    });
    for (fd, events) in all {
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: the event is there for the length of the call.
        let added = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        match outcome(added as isize) {
            // A file or a device always gives the same answer, and was asked for something else.
            // And `select` passes over numbers beyond all descriptors.
            Ok(_) | Err(libc::EPERM | libc::EBADF) => {}
            Err(libc::ENOMEM | libc::ENOSPC) => return Ok(Patience::without(deadline)),
            Err(error) => return Err(error),
        }
    }
    Ok(Patience::of(Foreign::new(epoll), deadline))
}

/// Without a mask of signals.
///
/// # Safety
/// As for `poll`.
#[track_caller]
unsafe fn poll_until(fds: *mut libc::pollfd, count: libc::nfds_t, limit: Limit) -> c_int {
    let look = |_| {
        let mut at_once = AT_ONCE;
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        outcome(unsafe { raw!(SYS_ppoll, fds, count, &raw mut at_once, ptr::null::<c_void>(), SIGNALS) })
    };
    let watch = |deadline| {
        // The kernel's count has 32 bits.
        let count = count as u32 as usize;
        // SAFETY: the kernel has read and written the entries.
        let list = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(fds, count) } };
        epoll_of(list.iter().map(|entry| (entry.fd, entry.events)), deadline)
    };
    carry_out(|| until_found(limit, look, watch)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int) -> c_int {
    if is_active() && timeout != 0 {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { poll_until(fds, count, millis(timeout)) };
    }
    let mut limit = libc::timespec { tv_sec: (timeout / 1_000).into(), tv_nsec: (timeout % 1_000 * 1_000_000).into() };
    let limit = if timeout < 0 { ptr::null_mut() } else { &raw mut limit };
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { raw!(SYS_ppoll, fds, count, limit, ptr::null::<c_void>(), SIGNALS) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: null, or there by the contract of this function.
    let timeout = unsafe { timeout.as_ref() };
    if is_active()
        && mask.is_null()
        && let Some(limit) = timeout.map_or(Some(None), |timeout| duration(timeout).map(Some))
    {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { poll_until(fds, count, limit) };
    }
    // The kernel writes the rest, and the C library does not.
    let mut limit = timeout.copied();
    let limit = limit.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { raw!(SYS_ppoll, fds, count, limit, mask, SIGNALS) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: c_int, room: usize) -> c_int {
    check_room(count as usize, room / size_of::<libc::pollfd>());
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { poll(fds, count, timeout) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __ppoll_chk(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const libc::sigset_t,
    room: usize,
) -> c_int {
    check_room(count as usize, room / size_of::<libc::pollfd>());
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { ppoll(fds, count, timeout, mask) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    most: c_int,
    timeout: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let call =
        |epoll: c_int, timeout: c_int| unsafe { raw!(SYS_epoll_pwait, epoll, events, most, timeout, mask, SIGNALS) };
    if !is_active() || timeout == 0 || !mask.is_null() {
        return call(epoll, timeout) as c_int;
    }
    // A number that is closed meanwhile, and given out again, is asked through the duplicate.
    let limit = millis(timeout);
    let watch = |deadline| Ok(Patience::until(epoll, deadline));
    carry_out(|| until_found(limit, |waited| outcome(call(waited.unwrap_or(epoll), 0)), watch)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut libc::epoll_event, most: c_int, timeout: c_int) -> c_int {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { epoll_pwait(epoll, events, most, timeout, ptr::null()) }
}

/// Up to how many descriptors a `select` is caught: as many as a process has at most by default.
const MOST: c_int = 1 << 20;

/// The events of `poll` for a set of `select`.
const SETS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    reads: *mut libc::fd_set,
    writes: *mut libc::fd_set,
    errors: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    let sets = [reads, writes, errors];
    // SAFETY: null, or there by the contract of this function.
    let given = unsafe { timeout.as_mut() };
    let limit: Option<Limit> = given.as_ref().map_or(Some(None), |time| {
        let micros = u64::try_from(time.tv_usec).ok()?;
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Duration::from_secs(seconds).checked_add(Duration::from_micros(micros)).map(Some)
    });
    let call = |timeout: *mut libc::timespec| {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        unsafe { raw!(SYS_pselect6, count, reads, writes, errors, timeout, ptr::null::<c_void>()) }
    };
    let (Some(limit), true) = (limit, count >= 0) else {
        // The kernel is to name the error.
        let mut wrong = libc::timespec { tv_sec: -1, tv_nsec: 0 };
        return call(&raw mut wrong) as c_int;
    };
    let begun = now();
    let found = if is_active() && limit != Some(Duration::ZERO) && count <= MOST {
        // A set may be shorter than the C library's, or longer: the kernel goes by the count, in
        // whole words.
        let words = (count as usize).div_ceil(c_ulong::BITS as usize);
        let before = sets.map(|set| match set.is_null() {
            true => Vec::new(),
            // SAFETY: the caller's: there are so many bits.
            false => unsafe { std::slice::from_raw_parts(set.cast::<c_ulong>(), words) }.to_vec(),
        });
        let has = |set: &[c_ulong], fd: usize| {
            set.get(fd / c_ulong::BITS as usize).is_some_and(|word| word >> (fd % c_ulong::BITS as usize) & 1 == 1)
        };
        let of_set =
            |set, events| (0..count as usize).filter(move |fd| has(set, *fd)).map(move |fd| (fd as c_int, events));
        let asked: Vec<(c_int, i16)> = before.iter().zip(SETS).flat_map(|(set, events)| of_set(set, events)).collect();
        let look = |_| {
            for (set, before) in sets.iter().zip(&before) {
                // SAFETY: they were read from there.
                unsafe { ptr::copy_nonoverlapping(before.as_ptr(), set.cast(), before.len()) };
            }
            let mut at_once = AT_ONCE;
            outcome(call(&raw mut at_once))
        };
        carry_out(|| until_found(limit, look, |deadline| epoll_of(asked.into_iter(), deadline)))
    } else {
        match limit {
            None => call(ptr::null_mut()),
            Some(time) => {
                let mut left = libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
                call(&raw mut left)
            }
        }
    };
    // As on Linux: the rest of the time.
    if let (Some(given), Some(time)) = (given, limit) {
        let left = time.saturating_sub(now().saturating_duration_since(begun));
        *given = libc::timeval { tv_sec: left.as_secs() as i64, tv_usec: left.subsec_micros().into() };
    }
    found as c_int
}
