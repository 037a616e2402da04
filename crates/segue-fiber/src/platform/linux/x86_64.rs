//! x86-64 under Linux: the registers of interrupted code, the middle of a switch, and calls.
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
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
    Registers {
        instruction: register(libc::REG_RIP),
        stack: register(libc::REG_RSP),
        frame: register(libc::REG_RBP),
        link: register(libc::REG_RIP),
    }
}

/// If a thread was interrupted in the middle of a switch: where the side rests that owns the stack.
/// Async-signal-safe.
///
/// The stack pointer is the other side's already, and the frame pointer or the instruction is not.
///
/// # Safety
///
/// The context is that of a signal that interrupted this thread.
#[inline]
pub(in crate::platform) unsafe fn half_way(context: &libc::ucontext_t) -> Option<Resting> {
    let register = |index: i32| context.uc_mcontext.gregs[index as usize] as usize;
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

/// Whether the instruction before an address is a call.
///
/// # Safety
///
/// There are 8 bytes of code before the address.
pub(in crate::platform) unsafe fn follows_call(address: usize) -> bool {
    // SAFETY: at most 8 bytes before the address, which are code by the contract.
    let byte = |before: usize| unsafe { ((address - before) as *const u8).read_volatile() };
    // call rel32; call r/m64 (FF /2) with no, 8-bit and 32-bit displacement, with and without an
    // index byte.
    let indirect = |before: usize| byte(before) == 0xff && byte(before - 1) & 0x38 == 0x10;
    byte(5) == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}
