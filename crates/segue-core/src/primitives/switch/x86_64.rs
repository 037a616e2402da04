//! The switch on x86-64, in the System V calling convention.
//!
//! Used by `super`; its head has the idea. The words of the side that rests lie right below its
//! stack pointer: rbx at -8, the address for its continuation at -16, rbp at -24. That is in the
//! 128 bytes below a stack pointer that the convention keeps from signal handlers, on either stack;
//! and the compiler, which may use these bytes too, does not do so around assembly that is not
//! marked `nostack`. To push and pop the words instead costs a twentieth more, as the processor
//! follows the stack pointer's changes by a way of its own.
//!
//! rbx and rbp are saved by hand, since the compiler may have its frame in them and does not let
//! assembly claim them. All others are claimed, so that the compiler saves those in use: r12 to r15
//! one by one, the rest by `clobber_abi`. The direction flag is clear on both sides, as everywhere
//! in this convention.

#![allow(unsafe_code)] // Assembly.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::ptr;

use super::{PREPARED, Resting, Root, Words};

pub(super) const GOES_ON_AT: usize = 16;
pub(super) const FRAME_POINTER: usize = 24;

/// As `super::prepare`.
#[inline]
pub(super) unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: 128 bytes below `base` are ours by the contract. rbx is left unchanged: `root` does
    // not look there.
    unsafe {
        base.byte_sub(8).cast::<*mut Root>().write(root);
        let rests = base.byte_sub(PREPARED);
        rests.byte_sub(16).cast::<unsafe extern "C" fn() -> !>().write(self::root);
        // Unwinders that follow frame pointers stop here.
        rests.byte_sub(24).cast::<*const ()>().write(ptr::null());
        rests
    }
}

/// The switch, with a message, if any.
macro_rules! switch {
    ($save:ident, $to:ident, $($words:tt)*) => {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rsp - 8], rbx",
            "mov [rsp - 16], rax",
            "mov [rsp - 24], rbp",
            "mov [rdi], rsp",
            // From here on the stack is the other side's.
            "mov rsp, rsi",
            "mov rbp, [rsi - 24]",
            "jmp qword ptr [rsi - 16]",
            "2:",
            "mov rbx, [rsi - 8]",
            inlateout("rdi") $save => _,
            inlateout("rsi") $to => _,
            $($words)*
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        )
    };
}

/// As `super::switch`.
#[inline(always)]
pub(super) unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: the words are stored where nobody else has any, see the head of this file. Without
    // `nomem` the compiler takes all memory for changed. From the jump to the label the caller
    // rests, and by the contract goes on at most once: at the label, with rsi, rsp and rbp as if
    // nothing had happened. All other registers are operands. `to` has its words by the contract.
    unsafe { switch!(save, to,) }
}

/// As `super::switch_saying`.
#[inline(always)]
pub(super) unsafe fn switch_saying(save: *mut Resting, to: Resting, [mut a, mut b, mut c]: Words) -> Words {
    // SAFETY: as in `switch`.
    unsafe { switch!(save, to, inlateout("rdx") a, inlateout("rcx") b, inlateout("r8") c,) }
    [a, b, c]
}

/// As `super::leave`.
#[inline(always)]
pub(super) unsafe fn leave(to: Resting) -> ! {
    // SAFETY: as in `switch`, other than that the caller never goes on, and nothing of its state is
    // needed any more.
    unsafe {
        asm!(
            "mov rsp, rsi",
            "mov rbp, [rsi - 24]",
            "jmp qword ptr [rsi - 16]",
            in("rsi") to,
            options(noreturn),
        );
    }
}

/// How far behind its beginning the return address lies that [`root`] leaves.
pub(super) const RETURN: usize = 16;

/// The beginning of every coroutine, and for a backtrace the caller of its entry.
///
/// # Safety
///
/// Not to be called: reached by a switch to the words that `prepare` has made, with the address of
/// the `Root` in the word above the stack pointer's.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn root() -> ! {
    naked_asm!(
        // The caller's frame, for unwinders. Its stack pointer is the link, which is the root's
        // first word: DW_CFA_def_cfa_expression, 4 bytes: DW_OP_breg7 (rsp) 8, DW_OP_deref,
        // DW_OP_deref.
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_escape 0x0f, 4, 0x77, 8, 0x06, 0x06",
        // The words, by their distance from there.
        ".cfi_offset rbx, -8",
        ".cfi_offset rip, -16",
        ".cfi_offset rbp, -24",
        // A call by hand: a real one would be recorded as one that will return.
        "mov rdi, [rsp + 8]",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp qword ptr [rdi + {entry}]",
        // Nobody comes here; but a return address lies inside of its function.
        "2:",
        "int3",
        ".cfi_endproc",
        entry = const offset_of!(Root, entry),
    )
}

const _: () = assert!(offset_of!(Root, link) == 0, "the unwinder finds the link at the root's address");
