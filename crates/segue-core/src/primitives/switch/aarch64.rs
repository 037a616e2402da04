//! The switch on AArch64, in the convention of its procedure call standard.
//!
//! Used by `super`; its head has the idea. The words of the side that rests lie below its stack
//! pointer: x19 at -16, x29 and the address for its continuation at -32. Signal handlers may use
//! the memory below a stack pointer here, so that the pointer is moved below the words before they
//! are stored, and above them after they were loaded.
//!
//! x29 and x19 are saved by hand, since the compiler may have its frame in them and does not let
//! assembly claim them. All others are claimed, so that the compiler saves those in use: x20 to x28
//! one by one, the rest, the whole vector registers included, by `clobber_abi`.
//!
//! `hint #36` is `bti j`, which allows jumps to its address where branch targets are enforced, and
//! does nothing elsewhere.

#![allow(unsafe_code)] // Assembly.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::ptr;

use super::{PREPARED, Resting, Root, Words};

pub(super) const GOES_ON_AT: usize = 24;
pub(super) const FRAME_POINTER: usize = 32;

/// As `super::prepare`.
#[inline]
pub(super) unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: 128 bytes below `base` are ours by the contract. x19 is left unchanged: `root` does
    // not look there.
    unsafe {
        base.byte_sub(8).cast::<*mut Root>().write(root);
        let rests = base.byte_sub(PREPARED);
        rests.byte_sub(24).cast::<unsafe extern "C" fn() -> !>().write(self::root);
        // Unwinders that follow frame pointers stop here.
        rests.byte_sub(32).cast::<*const ()>().write(ptr::null());
        rests
    }
}

/// The switch, with a message, if any.
macro_rules! switch {
    ($save:ident, $to:ident, $($words:tt)*) => {
        asm!(
            "adr x30, 2f",
            "mov x2, sp",
            "str x2, [x0]",
            "stp x29, x30, [sp, #-32]!",
            "str x19, [sp, #16]",
            "ldp x29, x3, [x1, #-32]",
            "ldr x19, [x1, #-16]",
            // From here on the stack is the other side's.
            "mov sp, x1",
            "br x3",
            "2:",
            "hint #36",
            inlateout("x0") $save => _,
            inlateout("x1") $to => _,
            $($words)*
            lateout("x20") _, lateout("x21") _, lateout("x22") _, lateout("x23") _, lateout("x24") _,
            lateout("x25") _, lateout("x26") _, lateout("x27") _, lateout("x28") _,
            clobber_abi("C"),
        )
    };
}

/// As `super::switch`.
#[inline(always)]
pub(super) unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: without `nostack` the stack may be pushed to, and without `nomem` the compiler takes
    // all memory for changed. From the jump to the label the caller rests, and by the contract goes
    // on at most once: at the label, with x1, x29, x19 and the stack pointer as if nothing had
    // happened. All other registers are operands. `to` has its words by the contract; they are read
    // while the stack pointer is below them or on the other stack.
    unsafe { switch!(save, to,) }
}

/// As `super::switch_saying`.
#[inline(always)]
pub(super) unsafe fn switch_saying(save: *mut Resting, to: Resting, [mut a, mut b, mut c]: Words) -> Words {
    // SAFETY: as in `switch`; and these registers stay untouched.
    unsafe { switch!(save, to, inlateout("x4") a, inlateout("x5") b, inlateout("x6") c,) }
    [a, b, c]
}

/// As `super::leave`.
#[inline(always)]
pub(super) unsafe fn leave(to: Resting) -> ! {
    // SAFETY: as in `switch`, other than that the caller never goes on, and nothing of its state is
    // needed any more.
    unsafe {
        asm!(
            "ldp x29, x3, [x1, #-32]",
            "ldr x19, [x1, #-16]",
            "mov sp, x1",
            "br x3",
            in("x1") to,
            options(noreturn),
        );
    }
}

/// How far behind its beginning the return address lies that [`root`] leaves.
pub(super) const RETURN: usize = 20;

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
        // first word: DW_CFA_def_cfa_expression, 4 bytes: DW_OP_breg31 (sp) 8, DW_OP_deref,
        // DW_OP_deref.
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_escape 0x0f, 4, 0x8f, 8, 0x06, 0x06",
        // The words, by their distance from there.
        ".cfi_offset x19, -16",
        ".cfi_offset x30, -24",
        ".cfi_offset x29, -32",
        "hint #36",
        // A call by hand: a real one would be recorded as one that will return. By x16, as a jump
        // to a function's beginning is to be.
        "ldr x0, [sp, #8]",
        "ldr x16, [x0, #{entry}]",
        "adr x30, 2f",
        "br x16",
        // Nobody comes here; but a return address lies inside of its function.
        "2:",
        "brk #0",
        ".cfi_endproc",
        entry = const offset_of!(Root, entry),
    )
}

const _: () = assert!(offset_of!(Root, link) == 0, "the unwinder finds the link at the root's address");
