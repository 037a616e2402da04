//! The switch on RISC-V of 64 bits with floating-point registers, in the convention of its
//! procedure call standard (lp64d).
//!
//! Used by `super`; its head has the idea. The words of the side that rests lie below its stack
//! pointer. Signal handlers may use the memory there, so that the pointer is moved below the words
//! before they are stored, and above them after they were loaded.
//!
//! ```text
//!   rests  -> +--------------------+
//!             | goes on at         |   -8   where ra is in a frame of this convention
//!             | s0, frame pointer  |  -16   where the caller's is in such a frame
//!             | s1                 |  -24
//!             |                    |  -32   a stack pointer is a multiple of 16
//!             +--------------------+
//! ```
//!
//! s0 and s1 are saved by hand, since the compiler may have its frame in them and does not let
//! assembly claim them. All others are claimed, so that the compiler saves those in use: s2 to s11
//! and fs0 to fs11 one by one, the rest, the whole vector registers included, by `clobber_abi`. gp
//! and tp are the program's and the thread's, the same on both sides.
//!
//! The jumps go by t2: a jump by ra or t0 (x1, x5) is taken for a return, and predicted as one. A
//! jump by t2 also needs no landing pad where branch targets are enforced.

#![allow(unsafe_code)] // Assembly.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::ptr;

use super::{PREPARED, Resting, Root, Words};

pub(super) const GOES_ON_AT: usize = 8;
pub(super) const FRAME_POINTER: usize = 16;

/// As `super::prepare`.
#[inline]
pub(super) unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: 128 bytes below `base` are ours by the contract. s1 is left unchanged: `root` does
    // not look there.
    unsafe {
        base.byte_sub(8).cast::<*mut Root>().write(root);
        let rests = base.byte_sub(PREPARED);
        rests.byte_sub(8).cast::<unsafe extern "C" fn() -> !>().write(self::root);
        // Unwinders that follow frame pointers stop here.
        rests.byte_sub(16).cast::<*const ()>().write(ptr::null());
        rests
    }
}

/// The switch, with a message, if any.
macro_rules! switch {
    ($save:ident, $to:ident, $($words:tt)*) => {
        asm!(
            "lla t2, 2f",
            "sd sp, 0(a0)",
            "addi sp, sp, -32",
            "sd t2, 24(sp)",
            "sd s0, 16(sp)",
            "sd s1, 8(sp)",
            "ld t2, -8(a1)",
            "ld s0, -16(a1)",
            "ld s1, -24(a1)",
            // From here on the stack is the other side's.
            "mv sp, a1",
            "jr t2",
            "2:",
            // The address at which a side goes on is not to be the end of the block.
            "nop",
            inlateout("a0") $save => _,
            inlateout("a1") $to => _,
            $($words)*
            lateout("s2") _, lateout("s3") _, lateout("s4") _, lateout("s5") _, lateout("s6") _,
            lateout("s7") _, lateout("s8") _, lateout("s9") _, lateout("s10") _, lateout("s11") _,
            lateout("fs0") _, lateout("fs1") _, lateout("fs2") _, lateout("fs3") _, lateout("fs4") _,
            lateout("fs5") _, lateout("fs6") _, lateout("fs7") _, lateout("fs8") _, lateout("fs9") _,
            lateout("fs10") _, lateout("fs11") _,
            clobber_abi("C"),
        )
    };
}

/// As `super::switch`.
#[inline(always)]
pub(super) unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: without `nostack` the stack may be pushed to, and without `nomem` the compiler takes
    // all memory for changed. From the jump to the label the caller rests, and by the contract goes
    // on at most once: at the label, with a1, s0, s1 and the stack pointer as if nothing had
    // happened. All other registers are operands. `to` has its words by the contract; they are read
    // while the stack pointer is below them or on the other stack.
    unsafe { switch!(save, to,) }
}

/// As `super::switch_saying`.
#[inline(always)]
pub(super) unsafe fn switch_saying(save: *mut Resting, to: Resting, [mut a, mut b, mut c]: Words) -> Words {
    // SAFETY: as in `switch`; and these registers stay untouched.
    unsafe { switch!(save, to, inlateout("a2") a, inlateout("a3") b, inlateout("a4") c,) }
    [a, b, c]
}

/// As `super::leave`.
#[inline(always)]
pub(super) unsafe fn leave(to: Resting) -> ! {
    // SAFETY: as in `switch`, other than that the caller never goes on, and nothing of its state is
    // needed any more.
    unsafe {
        asm!(
            "ld t2, -8(a1)",
            "ld s0, -16(a1)",
            "ld s1, -24(a1)",
            "mv sp, a1",
            "jr t2",
            in("a1") to,
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
        // first word: DW_CFA_def_cfa_expression, 4 bytes: DW_OP_breg2 (sp) 8, DW_OP_deref,
        // DW_OP_deref.
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_escape 0x0f, 4, 0x72, 8, 0x06, 0x06",
        // The words, by their distance from there.
        ".cfi_offset ra, -8",
        ".cfi_offset s0, -16",
        ".cfi_offset s1, -24",
        // Instructions of four bytes each, so that `RETURN` is true.
        ".option push",
        ".option norvc",
        ".option norelax",
        // A call by hand: a real one would be recorded as one that will return.
        "ld a0, 8(sp)",
        "ld t2, {entry}(a0)",
        "lla ra, 2f",
        "jr t2",
        // Nobody comes here; but a return address lies inside of its function.
        "2:",
        "ebreak",
        ".option pop",
        ".cfi_endproc",
        entry = const offset_of!(Root, entry),
    )
}

const _: () = assert!(offset_of!(Root, link) == 0, "the unwinder finds the link at the root's address");
