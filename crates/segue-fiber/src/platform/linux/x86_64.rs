//! A thread that a signal interrupted in the middle of a switch.
//!
//! Used by `registers`, for reports of where a thread is. Between the two stores or loads of a
//! switch the registers are those of neither side, and no unwind table says so. Such places are
//! told by the instructions of `segue_core::switch` themselves.

#![allow(unsafe_code)] // Instructions are read.

use segue_core::switch::Resting;

/// If a thread was interrupted in the middle of a switch: where the side rests that owns the stack.
/// Async-signal-safe.
///
/// The stack pointer is the other side's already, and the frame pointer or the instruction is not.
///
/// # Safety
///
/// The context is that of a signal that interrupted this thread.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(super) unsafe fn half_way(context: &libc::mcontext_t) -> Option<Resting> {
    let register = |index: i32| context.gregs[index as usize] as usize;
    let at = register(libc::REG_RIP);
    let rests = register(libc::REG_RSP);
    // SAFETY: the thread is about to execute the instruction there. The bytes are compared one by
    // one, and each is read only if those before it are an instruction's beginning, of which there
    // must be more, or one that does not jump, which must be followed by another.
    let stands = |code: &[u8]| code.iter().enumerate().all(|(n, &byte)| unsafe { *((at + n) as *const u8) } == byte);
    let loads_frame_pointer = [0x48, 0x8b, 0x6e, 0xe8, 0xff, 0x66, 0xf0];
    let jumps = [0xff, 0x66, 0xf0];
    let between = rests == register(libc::REG_RSI) && (stands(&loads_frame_pointer) || stands(&jumps));
    between.then_some(rests as Resting)
}

/// As on x86-64: the words of the side that goes to rest are stored and its stack pointer is below
/// them, or the stack pointer is the other side's and the instruction is not.
///
/// # Safety
///
/// As there.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(super) unsafe fn half_way(context: &libc::mcontext_t) -> Option<Resting> {
    /// str x19, [sp, #16]; ldp x29, x3, [x1, #-32]; ldr x19, [x1, #-16]; mov sp, x1; br x3.
    const CODE: [u32; 5] = [0xf900_0bf3, 0xa97e_0c3d, 0xf85f_0033, 0x9100_003f, 0xd61f_0060];
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
