//! The switch on x86-64, in the calling convention of Windows.
//!
//! Used by `super`; its head has the idea. Windows asks for more than the System V convention:
//!
//! - Each thread has a block of information (`gs`), with the bounds of the stack on which it runs.
//!   The kernel grows a stack between these bounds, `__chkstk` probes large frames down to them,
//!   and an exception, a panic for one, looks for handlers in frames between them alone. So the
//!   bounds are switched with the stack pointer, and so is the chain of handlers, which lies in
//!   frames.
//! - Nothing below a stack pointer is kept: exceptions are delivered there. So the pointer is moved
//!   below the words before they are stored, and above them after they were loaded.
//! - A word that is stored may be the first touch of the guard page, at which the kernel lowers the
//!   limit. So the limit is read when all other words are stored, and these are stored downwards: a
//!   frame just short of a page may have left all of the guard page out, and then the lowest word
//!   may lie below the guard page, where a touch is a fault.
//! - A function keeps xmm6 to xmm15, rdi and rsi as well. They are claimed, so that the compiler
//!   saves those in use, as it does with r12 to r15. rbx and rbp are saved by hand.
//!
//! ```text
//!   the side that rests      the block at gs
//!   stack pointer --->
//!   |  rbx          | -8
//!   |  goes on at   | -16
//!   |  rbp          | -24
//!   |  base         | -32    0x08    the address above the stack
//!   |  limit        | -40    0x10    the lowest page that was touched; a guard page lies below
//!   |  lowest       | -48    0x1478  the lowest address of the reservation
//!   |  guaranteed   | -56    0x1748  what the kernel keeps for the handlers of an overflow
//!   |  handlers     | -64    0x00    a chain of handlers in frames: of 32-bit programs, and of Wine
//! ```
//!
//! The block also has the thread's own things, as thread-local variables and the data of Windows's
//! own fibers.

#![allow(unsafe_code)] // Assembly.

use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::ptr;

use super::{PREPARED, Resting, Root, Words};

pub(super) const GOES_ON_AT: usize = 16;
pub(super) const FRAME_POINTER: usize = 24;

/// The distance of the bounds, which lie in the order of [`Bounds`].
const BOUNDS: usize = 56;

/// The end of the chain of handlers.
const NO_HANDLERS: usize = usize::MAX;

/// The bounds of a stack, as Windows wants to know them of the stack on which a thread runs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bounds {
    /// So many bytes at the low end are kept for the handlers of an overflow.
    pub guaranteed: usize,
    /// The lowest address of the memory that is reserved.
    pub lowest: usize,
    /// The lowest address that may be accessed: right above the guard page.
    pub limit: usize,
    /// The address above the stack.
    pub base: usize,
}

/// As `super::prepare`. The bounds are those of memory that may be accessed in whole.
#[inline]
pub(super) unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: 128 bytes below `base` are ours by the contract. rbx is left unchanged: `root` does
    // not look there.
    unsafe {
        base.byte_sub(8).cast::<*mut Root>().write(root);
        let rests = base.byte_sub(PREPARED);
        // The address to which `root` would return: a search for handlers ends here.
        rests.cast::<*const ()>().write(ptr::null());
        rests.byte_sub(16).cast::<unsafe extern "C" fn() -> !>().write(self::root);
        rests.byte_sub(24).cast::<*const ()>().write(ptr::null());
        rests.byte_sub(64).cast::<usize>().write(NO_HANDLERS);
        set_bounds(rests, Bounds { guaranteed: 0, lowest: 0, limit: 0, base: base.addr() });
        rests
    }
}

/// Says the bounds of its stack to a side that was just [prepared](super::prepare). Without this
/// the stack is taken for memory that may be accessed in whole, from address zero on: a touch of
/// any guard page below its base, of another stack for one, is then taken for growth of this one.
///
/// # Safety
///
/// `rests` is prepared and has not gone on. Where memory below `limit` can't be accessed, a guard
/// page lies right below, and the memory from `lowest` to `base` is one reservation.
#[inline]
pub unsafe fn set_bounds(rests: Resting, bounds: Bounds) {
    // SAFETY: the words are there, by the contract.
    unsafe { rests.byte_sub(BOUNDS).cast::<Bounds>().write(bounds) }
}

/// Lets the side go on that rests at rsi: its bounds, its registers, its stack, its instruction.
macro_rules! go_on {
    () => {
        "mov rax, [rsi - 32]
        mov r9, [rsi - 40]
        mov r10, [rsi - 48]
        mov r11, [rsi - 56]
        mov gs:[0x08], rax
        mov gs:[0x10], r9
        mov gs:[0x1478], r10
        mov gs:[0x1748], r11d
        mov rax, [rsi - 64]
        mov gs:[0x00], rax
        mov rbx, [rsi - 8]
        mov rbp, [rsi - 24]
        mov rax, [rsi - 16]
        mov rsp, rsi
        jmp rax"
    };
}

/// The switch, with a message, if any.
macro_rules! switch {
    ($save:ident, $to:ident, $($words:tt)*) => {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rdi], rsp",
            "sub rsp, 64",
            "mov [rsp + 56], rbx",
            "mov [rsp + 48], rax",
            "mov [rsp + 40], rbp",
            "mov rax, gs:[0x08]",
            "mov r10, gs:[0x1478]",
            "mov r11d, gs:[0x1748]",
            "mov [rsp + 32], rax",
            "mov [rsp + 16], r10",
            "mov [rsp + 8], r11",
            "mov rax, gs:[0x00]",
            "mov [rsp], rax",
            "mov r9, gs:[0x10]",
            "mov [rsp + 24], r9",
            go_on!(),
            "2:",
            inlateout("rdi") $save => _,
            inlateout("rsi") $to => _,
            $($words)*
            lateout("r12") _, lateout("r13") _, lateout("r14") _, lateout("r15") _,
            // It claims rdi, rsi and all of the xmm registers.
            clobber_abi("sysv64"),
        )
    };
}

/// As `super::switch`.
#[inline(always)]
pub(super) unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: without `nostack` the stack may be pushed to, and without `nomem` the compiler takes
    // all memory for changed. From the jump to the label the caller rests, and by the contract goes
    // on at most once: at the label, with rsp, rbp and rbx as if nothing had happened, and the
    // thread's block with the bounds of this stack. All other registers are operands. `to` has its
    // words by the contract; they are read while the stack pointer is on the other stack.
    unsafe { switch!(save, to,) }
}

/// As `super::switch_saying`.
#[inline(always)]
pub(super) unsafe fn switch_saying(save: *mut Resting, to: Resting, [mut a, mut b, mut c]: Words) -> Words {
    // SAFETY: as in `switch`; and these registers stay untouched.
    unsafe { switch!(save, to, inlateout("rdx") a, inlateout("rcx") b, inlateout("r8") c,) }
    [a, b, c]
}

/// As `super::leave`.
#[inline(always)]
pub(super) unsafe fn leave(to: Resting) -> ! {
    // SAFETY: as in `switch`, other than that the caller never goes on, and nothing of its state is
    // needed any more.
    unsafe { asm!(go_on!(), in("rsi") to, options(noreturn)) }
}

/// How far behind its beginning the return address lies that [`root`] leaves.
pub(super) const RETURN: usize = 20;

/// The beginning of every coroutine, and the caller of its entry. The entry may use the 32 bytes
/// above its return address, as any function here.
///
/// # Safety
///
/// Not to be called: reached by a switch to the words that `prepare` has made, with the address of
/// the `Root` in the word above the stack pointer's.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn root() -> ! {
    naked_asm!(
        // For the search of handlers: this frame has 32 bytes, and above it there is nobody.
        ".seh_proc {root}",
        "sub rsp, 32",
        ".seh_stackalloc 32",
        ".seh_endprologue",
        // A call by hand: a real one would be recorded as one that will return.
        "mov rcx, [rsp + 40]",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp qword ptr [rcx + {entry}]",
        // Nobody comes here; but a return address lies inside of its function.
        "2:",
        "int3",
        ".seh_endproc",
        root = sym root,
        entry = const offset_of!(Root, entry),
    )
}
