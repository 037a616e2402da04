//! `nanosleep`, `clock_nanosleep`, `sleep` and `usleep`, on the clock of the fiber's scheduler.
//!
//! Used by `std::thread::sleep`, and by C.
//!
//! A sleep that is cancelled ends at once and says that it is over. std knows one error of these
//! calls, `EINTR`, sleeps on after it, and panics at any other; C programs sleep on, too. The
//! cancellation shows at the next call. No signal ends such a sleep, so there is never time left to
//! be told.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::call::{carry_out, count_wait, give_way};
use crate::errno;
use crate::mark::is_active;
use crate::raw::raw;
use std::ffi::{c_int, c_uint};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// `None` for descriptors that the kernel refuses.
pub(crate) fn duration(time: &libc::timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(time.tv_sec.try_into().ok()?, nanos))
}

#[track_caller]
fn suspend(time: Duration) -> c_int {
    count_wait();
    carry_out(|| {
        if segue_core::sleep(time).is_err() {
            give_way();
        }
        Ok(0)
    }) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    if is_active()
        // SAFETY: null, or there by the contract of this function.
        && let Some(time) = unsafe { time.as_ref() }.and_then(duration)
    {
        return suspend(time);
    }
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { raw!(SYS_nanosleep, time, left) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    if is_active()
        && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME)
        // SAFETY: null, or there by the contract of this function.
        && let Some(time) = unsafe { time.as_ref() }.and_then(duration)
    {
        let before = if flags & libc::TIMER_ABSTIME != 0 { now(clock) } else { Duration::ZERO };
        return suspend(time.saturating_sub(before));
    }
    // It says what is wrong by its result, and leaves `errno` alone.
    let before = errno::get();
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let result = unsafe { raw!(SYS_clock_nanosleep, clock, flags, time, left) };
    let error = errno::get();
    errno::set(before);
    if result == 0 { 0 } else { error }
}

/// What a clock shows.
fn now(clock: libc::clockid_t) -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: there is room for the answer; and it was written if the call says so.
    unsafe {
        match libc::clock_gettime(clock, time.as_mut_ptr()) {
            0 => duration(&time.assume_init()).unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sleep(seconds: c_uint) -> c_uint {
    let before = errno::get();
    let mut time = libc::timespec { tv_sec: seconds.into(), tv_nsec: 0 };
    let place = &raw mut time;
    // SAFETY: the time is here, and what is left of it goes there.
    let result = unsafe { nanosleep(place, place) };
    if result == 0 {
        return 0;
    }
    errno::set(before);
    time.tv_sec.try_into().unwrap_or(seconds)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn usleep(micros: c_uint) -> c_int {
    let time = libc::timespec { tv_sec: (micros / 1_000_000).into(), tv_nsec: (micros % 1_000_000 * 1_000).into() };
    // SAFETY: the time is here.
    unsafe { nanosleep(&raw const time, ptr::null_mut()) }
}
