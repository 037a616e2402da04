//! What code does that looks at faults.
//!
//! Implemented by `native/overflow.rs`, called by the handlers of `unix` and `windows`.

#![allow(unsafe_code)] // The contract of a handler.

use super::Registers;

/// Code that looks at the faults of the process.
pub(crate) trait OnFault {
    /// Called at a fault, with its address and the registers of the interrupted code. Returns from
    /// a fault that is somebody else's. The address is any number if a process has sent the signal.
    /// Where the system says itself that a stack has overflowed, the address is the lowest of that
    /// stack.
    ///
    /// # Safety
    ///
    /// Called on the thread that has faulted, by a handler that interrupts it: on the thread's
    /// alternate stack, or on the rest that is kept for handlers. The function is
    /// async-signal-safe.
    unsafe fn fault(address: usize, registers: &Registers);
}
