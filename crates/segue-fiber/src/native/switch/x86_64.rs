//! The switch on x86-64, in the System V calling convention.
//!
//! Used by `super`, whose head has the idea. The three words of who rests, from its stack pointer up: rbp, the address at which it goes on,
//! rbx. The first two have the shape of a frame's record.
//!
//! rbx and rbp are saved by hand, since the compiler may have its frame in them and does not let assembly claim them. All
//! others are claimed, so that the compiler saves what it needs: r12 to r15 one by one, the rest by `clobber_abi`. The direction flag is clear on both sides, as
//! everywhere in this convention.

#![allow(unsafe_code)] // Assembly.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use super::{Resting, Root};

/// The size of the three words.
pub(super) const SAVED: usize = 24;

/// As `super::prepare`.
#[inline]
pub(super) unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: `SAVED` bytes below `base` are ours by the contract. rbx is left as it is: `root` does not look at it.
    unsafe {
        let at = base.byte_sub(SAVED);
        at.cast::<*mut Root>().write(root);
        at.byte_add(8).cast::<unsafe extern "C" fn() -> !>().write(self::root);
        at
    }
}

/// As `super::switch`.
#[inline(always)]
pub(super) unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: without `nostack` the stack may be pushed to, and without `nomem` the compiler takes all memory for changed. Between the pushes
    // and the label the caller rests at `save`, and by the contract goes on at most once: at the label, with the stack pointer
    // at the third word and rbp restored. All other registers are operands. `to` has three words by the contract.
    unsafe {
        asm!(
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "push rbp",
            "mov [rdi], rsp",
            // From here on it is the other side's stack.
            "mov rsp, rsi",
            "pop rbp",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            inlateout("rdi") save => _,
            inlateout("rsi") to => _,
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// As `super::leave`.
#[inline(always)]
pub(super) unsafe fn leave(to: Resting) -> ! {
    // SAFETY: as in `switch`, other than that the caller never goes on, and nothing of it is needed any more.
    unsafe {
        asm!(
            "mov rsp, {to}",
            "pop rbp",
            "pop rax",
            "jmp rax",
            to = in(reg) to,
            options(noreturn),
        );
    }
}

/// Where every coroutine begins, and what a backtrace takes for the caller of its entry.
///
/// # Safety
///
/// Not to be called: reached by a switch to what `prepare` has made, with rbp at the `Root` and the stack pointer at the third word.
#[unsafe(naked)]
unsafe extern "C" fn root() -> ! {
    naked_asm!(
        // The caller's frame, for unwinders. Its stack pointer before it was put to rest is `link` + 24:
        // DW_CFA_def_cfa_expression, 5 bytes: DW_OP_breg6 (rbp) 0, DW_OP_deref, DW_OP_plus_uconst 24.
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_escape 0x0f, 5, 0x76, 0x00, 0x06, 0x23, 24",
        // The three words, by their distance from there.
        ".cfi_offset rbx, -8",
        ".cfi_offset rip, -16",
        ".cfi_offset rbp, -24",
        // A call by hand: a real one would be recorded as one that will return. The third word is still on the stack, and makes room for
        // the return address.
        "mov rdi, rbp",
        "lea rax, [rip + 2f]",
        "mov [rsp], rax",
        "jmp qword ptr [rbp + {entry}]",
        // Nobody comes here; but a return address lies inside of its function.
        "2:",
        "int3",
        ".cfi_endproc",
        entry = const offset_of!(Root, entry),
    )
}

const _: () = assert!(offset_of!(Root, link) == 0, "the unwinder finds the link at rbp");
