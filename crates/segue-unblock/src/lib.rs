//! placeholder

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("segue-unblock is for Linux on 64-bit processors: leave it out of builds for other systems");

mod bytes;
mod connections;
mod descriptor;
mod errno;
mod names;
mod raw;
mod scope;
mod several;
mod sleeps;
mod sockets;

/// placeholder
///
/// # Safety
/// placeholder
#[track_caller]
#[allow(unsafe_code)]
pub unsafe fn unblock<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the caller's.
    unsafe { scope::enter(f) }
}

/// placeholder
#[must_use]
pub fn waits() -> u64 {
    scope::waits()
}
