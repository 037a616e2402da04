//! The C library's `errno` of this thread.
//!
//! Used by `call`, which keeps it right across a wait, and wherever a call's result is looked at.
#![allow(unsafe_code)] // A thread-local variable of the C library.

use std::ffi::c_int;

/// The place is asked for each time.
pub(crate) fn get() -> c_int {
    // SAFETY: the C library's word for this thread, as long as that runs.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error }
}
