//! How a thread that blocks in a system call is interrupted: by a signal with a handler that does
//! nothing, and after which the kernel does not begin the call again.
//!
//! Used by `apart` for its own threads, and for no others.
//!
//! # Which signal
//!
//! The signal must have a handler, without `SA_RESTART`: one that is ignored interrupts nothing. So
//! the signal can't be one that a program may have a handler for, nor, on Linux, SIGURG, which
//! `segue-fiber` handles with `SA_RESTART`. There the last real-time signal is taken that has no
//! handler when the first call is interrupted. The signal is sent to threads of `apart` alone,
//! which let the signal through even if the program blocks all signals everywhere. If a program
//! later takes that signal for itself, none is sent any more: then a call that blocks is left and
//! not interrupted.

#![allow(unsafe_code)] // Signals.

use std::ffi::c_int;
use std::mem::{MaybeUninit, zeroed};
use std::ptr;
use std::sync::OnceLock;

/// A thread that has said that it runs.
pub(crate) struct Thread(libc::pthread_t);

// SAFETY: a name for `pthread_kill`, which any thread may call for a thread that has not ended.
// That is the contract of `interrupt`.
unsafe impl Send for Thread {}

/// The calling thread.
pub(crate) fn this_thread() -> Thread {
    // SAFETY: asks for a number.
    Thread(unsafe { libc::pthread_self() })
}

extern "C" fn nothing(_signal: c_int) {}

#[cfg(linux)]
fn candidates() -> impl Iterator<Item = c_int> {
    (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev()
}

/// There are no real-time signals; these are ignored by default.
#[cfg(not(linux))]
fn candidates() -> impl Iterator<Item = c_int> {
    [libc::SIGURG, libc::SIGWINCH].into_iter()
}

/// The handler that a signal has.
fn handler(signal: c_int) -> Option<usize> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads the action into a place of ours, which has numbers and pointers that may be
    // zero.
    unsafe {
        (libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init().sa_sigaction)
    }
}

fn take(signal: c_int) -> bool {
    if handler(signal) != Some(libc::SIG_DFL) {
        return false;
    }
    // SAFETY: the handler does nothing, so that it may interrupt anything; without flags it has the
    // signature of `nothing`.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// The signal, if there is one to be had.
fn signal() -> Option<c_int> {
    static SIGNAL: OnceLock<Option<c_int>> = OnceLock::new();
    *SIGNAL.get_or_init(|| candidates().find(|signal| take(*signal)))
}

/// The calling thread lets the signal through from now on.
pub(crate) fn listen() {
    let Some(signal) = signal() else { return };
    // SAFETY: a set of signals of ours, for the calling thread, which is a thread of `apart`.
    unsafe {
        let mut set: libc::sigset_t = zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

impl Thread {
    /// Interrupts the system call that the thread is in, if it is in one that can be.
    ///
    /// # Safety
    /// The thread [listens](listen), and has not ended.
    pub(crate) unsafe fn interrupt(&self) {
        let ours = nothing as extern "C" fn(c_int) as usize;
        if let Some(signal) = signal().filter(|signal| handler(*signal) == Some(ours)) {
            // SAFETY: the thread has not ended, by the contract; the signal's handler does nothing.
            unsafe { libc::pthread_kill(self.0, signal) };
        }
    }
}
