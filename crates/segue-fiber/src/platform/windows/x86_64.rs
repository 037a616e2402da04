//! x86-64 under Windows: the registers of interrupted code, and the bounds in the thread's block.
//!
//! Used by `registers`, `memory`, `system` and `faults`.

#![allow(unsafe_code)] // Reads and writes the thread's block.

use std::arch::asm;

use super::Context;
use crate::platform::Registers;

/// The registers of the code that an exception interrupted.
///
/// # Safety
///
/// None is needed here.
pub(in crate::platform) unsafe fn interrupted(context: &Context) -> Registers {
    let instruction = context.Rip as usize;
    Registers { instruction, stack: context.Rsp as usize, frame: context.Rbp as usize, link: instruction }
}

/// Reads a word of the thread's block, by its place.
macro_rules! of_thread {
    ($place:literal) => {{
        let word: usize;
        // SAFETY: gs has the thread's block, which any code may read.
        unsafe { asm!(concat!("mov {}, gs:[", $place, "]"), out(reg) word, options(nostack, readonly, preserves_flags)) };
        word
    }};
}

/// The address above the stack on which the caller runs.
pub(super) fn base() -> usize {
    of_thread!("0x08")
}

/// The lowest address of that stack that may be accessed.
#[inline]
pub(super) fn limit() -> usize {
    of_thread!("0x10")
}

/// The lowest address of that stack's reservation.
pub(super) fn lowest() -> usize {
    of_thread!("0x1478")
}

/// Says a new limit.
///
/// # Safety
///
/// A guard page lies right below the limit, and nobody uses the memory below.
pub(super) unsafe fn set_limit(limit: usize) {
    // SAFETY: gs has the thread's block; by the contract the word is true.
    unsafe { asm!("mov gs:[0x10], {}", in(reg) limit, options(nostack, preserves_flags)) }
}
