//! The registers that unwinding starts with: those of interrupted code, or of code that rests.
//!
//! Used by the signal handlers of `overflow` and `watch`, which get the first, and by `segments`,
//! which reads the second.

#![allow(unsafe_code)] // Reads a signal's context, and the words of a side that rests.

use std::ffi::c_void;

use super::half_way::half_way;
use segue_core::switch::{self, Resting};

#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub instruction: usize,
    pub stack: usize,
    pub frame: usize,
    /// The further values for the unwinder: the register with the return address of a function that
    /// has called none, where there is such a register, and the instruction again elsewhere.
    pub link: usize,
}

impl Registers {
    /// Those of the code that a signal interrupted. Async-signal-safe.
    ///
    /// # Safety
    ///
    /// `context` is the third argument of a signal handler with SA_SIGINFO that is running.
    pub unsafe fn of(context: *mut c_void) -> Registers {
        // SAFETY: by the contract.
        let context = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            let register = |index: i32| context.gregs[index as usize] as usize;
            Registers {
                instruction: register(libc::REG_RIP),
                stack: register(libc::REG_RSP),
                frame: register(libc::REG_RBP),
                link: register(libc::REG_RIP),
            }
        }
        #[cfg(target_arch = "aarch64")]
        Registers {
            instruction: context.pc as usize,
            stack: context.sp as usize,
            frame: context.regs[29] as usize,
            link: context.regs[30] as usize,
        }
    }

    /// As [`of`](Self::of). In the middle of a switch some registers belong to one side and some to
    /// the other: then this yields those of the side that owns the stack, at rest.
    /// Async-signal-safe.
    ///
    /// # Safety
    ///
    /// As for [`of`](Self::of); and the interrupted code is that of the calling thread.
    pub unsafe fn settled(context: *mut c_void) -> Registers {
        // SAFETY: by the contract; the side that rests there has its words in place, as that side
        // is neither running nor gone: the interrupted code is about to let that side go on, or has
        // just put it to rest.
        unsafe {
            match half_way(&(*context.cast::<libc::ucontext_t>()).uc_mcontext) {
                Some(rests) => Registers::resting(rests),
                None => Registers::of(context),
            }
        }
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
