//! The registers of interrupted code on FreeBSD.
//!
//! Used by `registers`.

#![allow(unsafe_code)] // The contract is that of macOS.

use crate::platform::Registers;

/// The registers of the code that a signal interrupted. Async-signal-safe.
///
/// # Safety
///
/// None is needed here.
pub(in crate::platform) unsafe fn interrupted(context: &libc::ucontext_t) -> Registers {
    let state = &context.uc_mcontext;
    #[cfg(target_arch = "x86_64")]
    let (instruction, stack, frame, link) = (state.mc_rip, state.mc_rsp, state.mc_rbp, state.mc_rip);
    #[cfg(target_arch = "aarch64")]
    let (instruction, stack, frame, link) = {
        let general = &state.mc_gpregs;
        (general.gp_elr, general.gp_sp, general.gp_x[29], general.gp_lr)
    };
    Registers { instruction: instruction as usize, stack: stack as usize, frame: frame as usize, link: link as usize }
}
