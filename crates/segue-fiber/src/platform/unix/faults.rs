//! The handler of a fault: SIGSEGV, and SIGBUS where a guard says that.
//!
//! Used by `native/overflow.rs`, which knows the guards. The handler runs on the thread's alternate
//! stack, in front of the one that was there before, std's for instance, or of the default.

#![allow(unsafe_code)] // Signal handling.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr;

use super::signals::{ASKING, Signals, default_action};
use crate::platform::{OnFault, Registers};

static SIGNALS: Signals<2> = Signals::new([libc::SIGSEGV, libc::SIGBUS]);

/// Has `F` look at all faults from now on. Installed once for the process; later calls do nothing.
///
/// # Errors
///
/// The kernel refuses a signal handler, without a reason to do so.
pub(crate) fn install<F: OnFault>() -> io::Result<()> {
    // The handlers of this crate all use the thread's alternate stack: not another on top of this
    // one.
    // SAFETY: `handle` is async-signal-safe, as `F` is.
    unsafe { SIGNALS.install(handle::<F>, 0, Some(ASKING)) }
}

/// Ends the process, from a handler.
pub(crate) fn abort() -> ! {
    // SAFETY: async-signal-safe by POSIX.
    unsafe { libc::abort() }
}

/// Writes to standard error, from a handler, and says how much; nothing after an error.
pub(in crate::platform) fn write(text: &[u8]) -> usize {
    // SAFETY: async-signal-safe; the slice is valid.
    let written = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    usize::try_from(written).unwrap_or(0)
}

unsafe extern "C" fn handle<F: OnFault>(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers with SA_SIGINFO, and these signals have an address
    // when they come from a fault. If another process sent the signal, the bytes are the sender's
    // choice: still a number.
    let (address, registers) = unsafe { ((*info).si_addr() as usize, Registers::of(context)) };
    // SAFETY: this is the handler, on the thread's alternate stack, if there is one.
    unsafe { F::fault(address, &registers) };
    // SAFETY: passes the kernel's arguments on.
    unsafe { chain(signal, info, context) };
}

/// Hands a fault to the handler that was there before us.
///
/// # Safety
///
/// The arguments are those of a signal handler that is running.
unsafe fn chain(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: by the contract.
    if unsafe { SIGNALS.pass_on(signal, info, context) } {
        return;
    }
    // Back to the default; the faulting instruction runs again when this returns, and the process
    // dies as without us. If the signal was sent rather than caused, this handler has to send the
    // signal again.
    // SAFETY: all of these are async-signal-safe, and the pointers are valid.
    unsafe {
        libc::sigaction(signal, &default_action(), ptr::null_mut());
        if (*info).si_code <= 0 {
            libc::raise(signal);
        }
    }
}
