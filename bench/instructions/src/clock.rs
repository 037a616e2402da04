//! A clock that stands still, unless a path sets it forward.
//!
//! A worker goes by the time when it looks after its timers, its mail and its neighbours. Valgrind
//! runs a program some fifty times more slowly, and not always equally so. With a clock that stands
//! still these looks are due by the number of turns alone, and a path takes the same instructions
//! on every machine.
//!
//! The program's own `clock_gettime` is the one that the standard library calls: the linker prefers
//! it to that of the C library. Nothing here waits for a time.

#![allow(unsafe_code)] // The C library's interface.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How far the clock was set forward, in nanoseconds.
static FORWARD: AtomicI64 = AtomicI64::new(0);

/// Nanoseconds of a second.
const SECOND: i64 = 1_000_000_000;

/// One second after whatever the clock counts from, and as far ahead as paths have set it.
///
/// # Safety
///
/// As for the function of the C library: there is a place at `time`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(_: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let now = SECOND + FORWARD.load(Ordering::Relaxed);
    // SAFETY: as the caller promises.
    unsafe { time.write(libc::timespec { tv_sec: now / SECOND, tv_nsec: now % SECOND }) };
    0
}

/// Sets the clock forward.
pub fn go_on(by: Duration) {
    FORWARD.fetch_add(by.as_nanos() as i64, Ordering::Relaxed);
}

/// Whether the standard library goes by it.
pub fn stands_still() -> bool {
    let before = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(1));
    before.elapsed().is_zero()
}
