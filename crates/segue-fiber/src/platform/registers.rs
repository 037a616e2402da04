//! The registers that unwinding starts with: those of interrupted code, or of code that rests.
//!
//! Used by the handlers of faults and of `linux/asking.rs`, which get the first, and by
//! `native/segments.rs`, which reads the second.

#![allow(unsafe_code)] // Reads a signal's context, and the words of a side that rests.

use std::ffi::c_void;

use super::own::{Context, processor};
use segue_core::switch::{self, Resting};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    pub instruction: usize,
    pub stack: usize,
    #[cfg_attr(not(unwinds), allow(dead_code))] // For unwinders.
    pub frame: usize,
    /// The further values for the unwinder: the register with the return address of a function that
    /// has called none, where there is such a register, and the instruction again elsewhere.
    #[cfg_attr(not(unwinds), allow(dead_code))] // For unwinders.
    pub link: usize,
}

impl Registers {
    /// Those of the code that a signal interrupted. Async-signal-safe.
    ///
    /// # Safety
    ///
    /// `context` is that of a handler that is running: the third argument of one with SA_SIGINFO,
    /// or an exception's.
    pub unsafe fn of(context: *mut c_void) -> Registers {
        // SAFETY: by the contract.
        unsafe { processor::interrupted(&*context.cast::<Context>()) }
    }

    /// Those with which somebody at rest will go on. Async-signal-safe.
    ///
    /// # Safety
    ///
    /// Somebody rests there, and does not go on meanwhile.
    pub unsafe fn resting(rests: Resting) -> Registers {
        // SAFETY: by the contract the words are in place.
        let word = |below: usize| unsafe { rests.byte_sub(below).cast::<usize>().read() };
        let instruction = word(switch::GOES_ON_AT);
        // A side that rests has been compiled as code that calls: its return address is on its
        // stack.
        Registers { instruction, stack: rests.addr(), frame: word(switch::FRAME_POINTER), link: instruction }
    }
}
