//! The handler that rings the bell of a source of signals.
//!
//! Registered for each `Signals`, and for the gate of a signal that is heard once.
#![allow(unsafe_code)] // A signal handler may do little.

use super::kind::Signal;
use crate::driver::bell::Bell;
use crate::system::fork::Birth;
use signal_hook_registry::{FORBIDDEN, SigId};
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// The bell of one that is to hear the signal, if anybody can.
pub(super) fn bell_for(signal: Signal) -> io::Result<Arc<Bell>> {
    if FORBIDDEN.contains(&signal.as_raw()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a program can't wait for this signal"));
    }
    Bell::new().map(Arc::new)
}

/// Has the handler of the signal ring the bell.
pub(super) fn register(signal: Signal, bell: &Arc<Bell>) -> io::Result<SigId> {
    // SAFETY: the closure changes no word, and does nothing else.
    unsafe { register_if(signal, bell, || true) }
}

/// The same, if `rings` says so.
///
/// # Safety
/// `rings` is called in the handler: it changes words, and does nothing else.
pub(super) unsafe fn register_if(
    signal: Signal,
    bell: &Arc<Bell>,
    rings: impl Fn() -> bool + Send + Sync + 'static,
) -> io::Result<SigId> {
    let (birth, bell) = (Birth::now(), Arc::clone(bell));
    let act = move || {
        if birth.is_here() && rings() {
            bell.ring();
        }
    };
    // SAFETY: the handler is safe in any state of its thread: it loads a word of a page that is
    // mapped by now, in the child of a fork changes it and another, changes words by `rings`, as
    // the contract says, and makes a system call with a descriptor of its own. The handler takes no
    // lock, neither allocates nor frees, does not panic, and the registry keeps `errno`. Its values
    // are dropped by the code that takes it out of the registry, and not by a handler.
    unsafe { signal_hook_registry::register(signal.as_raw(), act) }
}
