//! Where the tests run: on one worker and on two, over each driver.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unsafe_code)] // The scope is entered, and terminals are made.

use segue_core::scheduling::WaitPark;
use segue_io::{Backend, DriverPark};
use segue_sched::{Fifo, Runtime};
use std::fmt::Debug;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

pub const BACKENDS: [Backend; 2] = [Backend::Ring, Backend::Native];

/// Enters the scope. What the tests run in it holds nothing of the thread's across a call.
pub fn unblock<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: as above.
    unsafe { segue_unblock::unblock(f) }
}

/// Longer than a test takes on a machine that has other things to do: only what hangs does.
const PATIENCE: Duration = Duration::from_secs(300);

/// A call that blocks its worker must fail its test and not hang it. One test at a time, since the
/// waits are counted for the whole process.
pub fn guarded<T>(what: impl Debug, test: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let what = format!("{what:?}");
    let (done, watch) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if watch.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what}: nothing more happens; a call has blocked its worker");
            std::process::abort();
        }
    });
    let result = test();
    drop(done);
    result
}

/// Runs a test on one worker. Who waits for another fiber there has to be suspended.
pub fn on_one_worker<T>(backend: Backend, test: impl FnOnce() -> T) -> T {
    guarded(("one worker", backend), || {
        Runtime::new().workers(1).park(move || DriverPark::with(backend)).run_with(Fifo::default, test).unwrap()
    })
}

/// Runs a test on one worker and on two, over each driver; and on one without a driver.
pub fn everywhere(test: impl Fn()) {
    everywhere_by(&test);
}

/// Compiled once, whatever the closures of a test program.
fn everywhere_by(test: &dyn Fn()) {
    guarded("no driver", || {
        Runtime::new().workers(1).park(|| Ok(WaitPark::new())).run(test).unwrap();
    });
    for backend in BACKENDS {
        on_one_worker(backend, test);
        guarded(("two workers", backend), || {
            Runtime::new().workers(2).park(move || DriverPark::with(backend)).run(test).unwrap();
        });
    }
}

/// Runs `f` in a fiber of its own, in the scope, while `meanwhile` runs outside of it, which begins
/// when the fiber waits; answers with what `f` does.
pub fn beside<R: Send>(f: impl FnOnce() -> R + Send, meanwhile: impl FnOnce()) -> R {
    segue_core::scope(|s| {
        let before = segue_unblock::waits();
        let fiber = s.spawn(|| unblock(f));
        while segue_unblock::waits() == before {
            segue_core::yield_now().unwrap();
        }
        meanwhile();
        fiber.join().unwrap()
    })
}

/// The number that the last call has left behind.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// A terminal that passes all on as it is, whose reads want so many bytes, or end after so many
/// tenths of a second; and its other side.
pub fn terminal(bytes: u8, tenths: u8) -> (OwnedFd, OwnedFd) {
    let (mut other, mut this, null) = (-1, -1, ptr::null_mut());
    // SAFETY: there is room for the two numbers, which are ours from then on, and for the settings.
    unsafe {
        assert_eq!(libc::openpty(&raw mut other, &raw mut this, null, null.cast(), null.cast()), 0);
        let mut settings = std::mem::zeroed();
        libc::tcgetattr(this, &raw mut settings);
        libc::cfmakeraw(&raw mut settings);
        (settings.c_cc[libc::VMIN], settings.c_cc[libc::VTIME]) = (bytes, tenths);
        libc::tcsetattr(this, libc::TCSANOW, &raw const settings);
        (OwnedFd::from_raw_fd(this), OwnedFd::from_raw_fd(other))
    }
}
