//! Handlers of signals, each in front of the one that was there before.
//!
//! Used by `faults`, and by the ports in which threads ask each other.

#![allow(unsafe_code)] // Signal handling.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;

use super::check;

/// The signal by which threads ask each other, where they do.
pub(in crate::platform) const ASKING: c_int = libc::SIGURG;

/// The arguments of a handler: the signal, its information, and the interrupted context.
pub(in crate::platform) type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// A handler for some signals, of the whole process.
pub(in crate::platform) struct Signals<const N: usize> {
    signals: [c_int; N],
    /// The earlier action. Set before the handler can run.
    previous: OnceLock<[libc::sigaction; N]>,
    installed: OnceLock<Result<(), c_int>>,
}

impl<const N: usize> Signals<N> {
    pub const fn new(signals: [c_int; N]) -> Self {
        Self { signals, previous: OnceLock::new(), installed: OnceLock::new() }
    }

    /// Has `handler` called, on the thread's alternate stack; the signal `held` waits meanwhile.
    /// Installed once for the process; later calls do nothing.
    ///
    /// # Safety
    ///
    /// The handler is async-signal-safe.
    pub unsafe fn install(&self, handler: Handler, flags: c_int, held: Option<c_int>) -> io::Result<()> {
        let install = || -> io::Result<()> {
            let mut previous = [default_action(); N];
            for (&signal, previous) in self.signals.iter().zip(&mut previous) {
                // SAFETY: only reads the present action into a place of ours.
                check(unsafe { libc::sigaction(signal, ptr::null(), previous) })?;
            }
            let _ = self.previous.set(previous);
            let mut action = default_action();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
            if let Some(held) = held {
                // SAFETY: a set of signals in a structure of ours.
                unsafe { libc::sigaddset(&mut action.sa_mask, held) };
            }
            for signal in self.signals {
                // SAFETY: the handler has the signature that SA_SIGINFO asks for; the rest is by
                // the contract.
                check(unsafe { libc::sigaction(signal, &action, ptr::null_mut()) })?;
            }
            Ok(())
        };
        let installed = self.installed.get_or_init(|| install().map_err(|error| error.raw_os_error().unwrap_or(0)));
        installed.map_err(io::Error::from_raw_os_error)
    }

    /// Hands a signal to the handler that was there before; `false` if there was none.
    ///
    /// # Safety
    ///
    /// The arguments are those of a handler that is running, for one of these signals.
    pub unsafe fn pass_on(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        let mut known = self.signals.iter().zip(self.previous.get().into_iter().flatten());
        let Some((_, action)) = known.find(|(known, _)| **known == signal) else { return false };
        if [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
            return false;
        }
        // SAFETY: a handler of the signature that its flags say, as it was registered, called with
        // its usual arguments.
        unsafe {
            if action.sa_flags & libc::SA_SIGINFO != 0 {
                mem::transmute::<usize, Handler>(action.sa_sigaction)(signal, info, context);
            } else {
                mem::transmute::<usize, unsafe extern "C" fn(c_int)>(action.sa_sigaction)(signal);
            }
        }
        true
    }
}

/// The default action, without flags.
pub(in crate::platform) fn default_action() -> libc::sigaction {
    // SAFETY: a C structure of integers, a set of bits and an optional function pointer, all of
    // which may be zero: the default action, no flags, an empty mask.
    unsafe { mem::zeroed() }
}
