//! The registers of interrupted code on macOS.
//!
//! Used by `registers`.

#![allow(unsafe_code)] // Follows the context's pointer.

use crate::platform::Registers;

/// The registers of the code that a signal interrupted. Async-signal-safe.
///
/// # Safety
///
/// The context is that of a signal handler that is running.
pub(in crate::platform) unsafe fn interrupted(context: &libc::ucontext_t) -> Registers {
    // SAFETY: the kernel's pointer, in the context of a handler that is running.
    let state = unsafe { &(*context.uc_mcontext).__ss };
    #[cfg(target_arch = "x86_64")]
    let (instruction, stack, frame, link) = (state.__rip, state.__rsp, state.__rbp, state.__rip);
    #[cfg(target_arch = "aarch64")]
    let (instruction, stack, frame, link) = (state.__pc, state.__sp, state.__fp, state.__lr);
    Registers { instruction: instruction as usize, stack: stack as usize, frame: frame as usize, link: link as usize }
}
