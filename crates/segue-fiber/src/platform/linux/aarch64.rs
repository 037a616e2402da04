//! AArch64 under Linux: the registers of interrupted code, the middle of a switch, and calls.
//!
//! Used by `registers` and `trace`, and by `asking` for the middle of a switch.
//!
//! Between the two stores or loads of a switch the registers are those of neither side, and no
//! unwind table says so. Such places are told by the instructions of `segue_core::switch`
//! themselves.

#![allow(unsafe_code)] // Reads a signal's context, and instructions.

use crate::platform::Registers;
use segue_core::switch::Resting;

/// The registers of the code that a signal interrupted. Async-signal-safe.
///
/// # Safety
///
/// None is needed here; where the context has a pointer, a handler has to be running.
pub(in crate::platform) unsafe fn interrupted(context: &libc::ucontext_t) -> Registers {
    let context = &context.uc_mcontext;
    Registers {
        instruction: context.pc as usize,
        stack: context.sp as usize,
        frame: context.regs[29] as usize,
        link: context.regs[30] as usize,
    }
}

/// If a thread was interrupted in the middle of a switch: where the side rests that owns the stack.
/// Async-signal-safe.
///
/// The words of the side that goes to rest are stored and its stack pointer is below them, or the
/// stack pointer is the other side's and the instruction is not.
///
/// # Safety
///
/// The context is that of a signal that interrupted this thread.
#[inline]
pub(in crate::platform) unsafe fn half_way(context: &libc::ucontext_t) -> Option<Resting> {
    /// str x19, [sp, #16]; ldp x29, x3, [x1, #-32]; ldr x19, [x1, #-16]; mov sp, x1; br x3.
    const CODE: [u32; 5] = [0xf900_0bf3, 0xa97e_0c3d, 0xf85f_0033, 0x9100_003f, 0xd61f_0060];
    let context = &context.uc_mcontext;
    let (sp, at) = (context.sp as usize, context.pc as *const u32);
    // SAFETY: the thread is about to execute the instruction there; before a jump, the next ones
    // too.
    let word = |n: usize| unsafe { *at.add(n) };
    let first = word(0);
    let place = CODE.iter().position(|&instruction| instruction == first)?;
    let stands = CODE[place..].iter().enumerate().all(|(n, &instruction)| word(n) == instruction);
    match place {
        _ if !stands => None,
        4 => (sp == context.regs[1] as usize).then_some(sp as Resting),
        _ => Some((sp + 32) as Resting),
    }
}

/// Whether the instruction before an address is a call.
///
/// # Safety
///
/// There are 8 bytes of code before the address.
pub(in crate::platform) unsafe fn follows_call(address: usize) -> bool {
    // SAFETY: by the contract; the address is a multiple of 4 by then.
    let before = || unsafe { ((address - 4) as *const u32).read_volatile() };
    // bl; blr, and its forms with pointer authentication.
    address.is_multiple_of(4) && (before() >> 26 == 0b10_0101 || before() & 0xfeff_f000 == 0xd63f_0000)
}
