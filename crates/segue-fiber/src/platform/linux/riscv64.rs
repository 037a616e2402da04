//! RISC-V 64 under Linux: the registers of interrupted code, and calls.
//!
//! Used by `registers` and `trace`.

#![allow(unsafe_code)] // Reads a signal's context, and instructions.

use crate::platform::Registers;

/// The registers of the code that a signal interrupted. Async-signal-safe.
///
/// # Safety
///
/// None is needed here; where the context has a pointer, a handler has to be running.
pub(in crate::platform) unsafe fn interrupted(context: &libc::ucontext_t) -> Registers {
    let general = &context.uc_mcontext.__gregs;
    Registers {
        instruction: general[libc::REG_PC] as usize,
        stack: general[libc::REG_SP] as usize,
        frame: general[libc::REG_S0] as usize,
        link: general[1] as usize,
    }
}

/// Whether the instruction before an address is a call.
///
/// # Safety
///
/// There are 8 bytes of code before the address.
pub(in crate::platform) unsafe fn follows_call(address: usize) -> bool {
    // SAFETY: by the contract; the address is a multiple of 2 by then.
    let half = |before: usize| unsafe { ((address - before) as *const u16).read_volatile() };
    // jal and jalr with ra as the link; c.jalr.
    let long = |half: u16| half & 0xfff == 0x0ef || half & 0xfff == 0x0e7;
    address.is_multiple_of(2) && (long(half(4)) || (half(2) & 0xf07f == 0x9002 && half(2) & 0xf80 != 0))
}
