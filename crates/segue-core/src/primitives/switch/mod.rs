//! The switch between stacks: a stack pointer is put away, another is loaded, and control jumps to
//! where that one left off.
//!
//! Used by hosts of stacks, `segue-fiber` for one, which make coroutines, and by everything that
//! waits: a fiber that waits makes the switch in its own frame, see [`Switch`]. This file has the
//! idea and the argument; there is one file for each architecture, with the instructions.
//!
//! # The idea
//!
//! The side that does not run is one word: its stack pointer. Three words lie right below it, on
//! its own stack: its frame pointer, the address for its continuation, and the one other register
//! that the compiler does not let go. Everything else the compiler saves itself, where there is
//! something to save: a switch is a piece of inline assembly after which no register and no memory
//! is the same.
//!
//! There is one operation, [`switch`]: store the three words and the stack pointer, load the other
//! one and its words, jump. To resume and to suspend are the same operation with the two stack
//! pointers exchanged. The side that comes to rest may leave something to the other in registers,
//! see [`switch_saying`].
//!
//! ```text
//!   resumer's stack                    the coroutine's core               its stack
//!   |               |                                                     base +---------------+
//!   ~ ...           ~                  +------------------+                    | address of Root
//!   |               |                  | rests            | ---------+    root |---------------|
//!   |               | <---------+      +------------------+ while it |         ~ ...           ~
//!   +---------------+           |      | Root: entry      | is sus-  +-------> +---------------+
//!   | other reg.    |           |      |       link       | pended             | other reg.    |
//!   | goes on at    |           |      +------------------+                    | goes on at    |
//!   | frame pointer |           +---------- while it runs                      | frame pointer |
//!   +---------------+                                                          +---------------+
//! ```
//!
//! # Why both ways jump
//!
//! A processor predicts a return by a stack of its own, of the calls so far. If a resume is a call
//! and a suspension a return (as in the crate corosensei, which this replaced), that record is
//! right as long as the coroutine suspends in the very function that was resumed. But a coroutine
//! mostly waits some calls deep, and goes on by returns from these: each of its returns then takes
//! a record of the other side's, and is predicted wrongly, as is the return of the next suspension.
//! Measured on a Xeon, for a pair of switches: 4.1 ns if the suspension is inlined into the
//! coroutine's own loop, 27 ns if one call away.
//!
//! A jump leaves the record alone. The coroutine returns from its calls, and so the record is right
//! again, on two conditions: the code that runs between makes as many calls as returns (a
//! scheduler's loop does, with `resume` inlined there), and the coroutine that is resumed is the
//! one that was suspended, or one that waits in the same place. Jumps to computed addresses are
//! predicted from the history of branches, as the call of a resume was.
//!
//! The second condition is why a scheduler hands the switch to its caller, as a [`Switch`], and
//! does not switch itself: each function between the switch and the loop of the fiber's own is a
//! return that may be predicted wrongly. With one function less a message by a promise takes 101
//! ns, and 120 before; one by an MVar 86, and 102 before; measured on a Xeon.
//!
//! # How a coroutine begins and ends
//!
//! [`prepare`] writes the words as if a coroutine had been suspended at the first instruction of
//! `root`. `root` is a few instructions without a frame, below a word with the address of the
//! coroutine's [`Root`]: `root` jumps to `Root::entry`, and its own address is the return address
//! there. Nobody returns there: the end of a coroutine is [`leave`], a switch that puts nothing
//! away.
//!
//! # The view of debuggers and unwinders
//!
//! `root` describes its caller: the resumer that the link names, with the registers from the three
//! words there. So a backtrace goes on on the resumer's stack, as far as that goes. The chain of
//! frame pointers ends at `root`. `root` is marked as a signal's frame, since gdb takes a backtrace
//! for corrupt if its stack addresses do not grow, except at signals; gdb prints `<signal handler
//! called>` there. The caller of such a frame is looked up by the address itself and not by the one
//! before: so an address at which a side goes on must not be the end of an assembly block.
//!
//! Unwinding goes nowhere near a switch: the blocks are not marked as ones that may unwind, and
//! `coroutine` catches a panic that leaves a coroutine's function.
//!
//! # Not switched
//!
//! - The control words of the floating-point units (`mxcsr` and the x87's; `fpcr`; `fcsr`): they
//!   are the thread's. To save and load them would triple the time. Rust code must not change them;
//!   foreign code that does must put them back before anything waits.
//! - The signal mask, the alternate signal stack, thread-local variables, std's panic count.
//! - On Windows, the thread's stack of activation contexts (`ActivationContextStackPointer` in its
//!   block), which Windows's own `SwitchToFiber` does switch: it says which versions of libraries
//!   are loaded. Code that activates a context must deactivate that before anything waits.
//! - Shadow stacks (Intel CET, Arm GCS): a return on one stack would be compared with a call on
//!   another. They are not supported: a process in which they are on dies at the first wait.
//!   Nothing here asks for them, and a linker turns them on only if all of a program does.
//! - The bounds of the stack that sanitizers and valgrind keep. Use the feature `threads` of
//!   `segue-fiber` with these.
//!
//! # Examples
//!
//! A coroutine by hand, on 4 KiB of memory, that runs once and leaves:
//!
//! ```
//! # #[cfg(any(target_arch = "x86_64", all(unix, any(target_arch = "aarch64", target_arch = "riscv64"))))] {
//! use segue_core::switch::{Root, leave, prepare, switch};
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//!
//! #[repr(C, align(16))]
//! struct Stack([u8; 4096]);
//!
//! static RUNS: AtomicU32 = AtomicU32::new(0);
//!
//! unsafe extern "C" fn main(root: *mut Root) -> ! {
//!     RUNS.fetch_add(1, Relaxed);
//!     // SAFETY: the root is in place while this runs, which owns nothing.
//!     unsafe { leave((*root).link) }
//! }
//!
//! let mut stack = Box::new(Stack([0; 4096]));
//! let mut root = Root { link: std::ptr::null_mut(), entry: main };
//! // SAFETY: the base is the end of the memory, a multiple of 16; `main` leaves once, and needs
//! // less than that. The pointer to the root is made once, and used until the end.
//! unsafe {
//!     let root = &raw mut root;
//!     let rests = prepare(stack.0.as_mut_ptr_range().end, root);
//!     switch(&raw mut (*root).link, rests);
//! }
//! assert_eq!(RUNS.load(Relaxed), 1);
//! # }
//! ```

#![allow(unsafe_code)] // Assembly.

#[cfg_attr(all(target_arch = "x86_64", not(windows)), path = "x86_64.rs")]
#[cfg_attr(all(target_arch = "aarch64", not(windows)), path = "aarch64.rs")]
#[cfg_attr(all(target_arch = "riscv64", not(windows)), path = "riscv64.rs")]
// With the tools of others than GNU it compiles, and `segue-fiber` does not use it.
#[cfg_attr(all(target_arch = "x86_64", windows), path = "x86_64_windows.rs")]
#[cfg_attr(
    not(any(target_arch = "x86_64", all(any(target_arch = "aarch64", target_arch = "riscv64"), not(windows)))),
    path = "elsewhere.rs"
)]
mod arch;

#[cfg(all(target_arch = "x86_64", windows))]
pub use arch::{Bounds, set_bounds};

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The stack pointer of a side that does not run.
pub type Resting = *mut u8;

/// The [message](switch_saying) of the side that comes to rest to the one that goes on: in
/// registers.
pub type Words = [MaybeUninit<*const ()>; 3];

/// Nothing.
pub const NO_WORDS: Words = [MaybeUninit::uninit(); 3];

/// The block above all frames of a coroutine. `repr(C)`: the assembly knows the places.
#[repr(C)]
pub struct Root {
    /// The resumer: written at each resume, valid while the coroutine runs.
    pub link: Resting,
    /// The function of the coroutine, from its first resume on. The function must not return or
    /// unwind.
    pub entry: unsafe extern "C" fn(*mut Root) -> !,
}

/// The distance below its stack pointer at which a side that rests has the address for its
/// continuation.
pub const GOES_ON_AT: usize = arch::GOES_ON_AT;

/// And the distance of its frame pointer.
pub const FRAME_POINTER: usize = arch::FRAME_POINTER;

/// Whether an address that was found on a stack is the one to which a coroutine's function would
/// return: nothing of that stack lies beyond.
pub fn is_root(return_address: usize) -> bool {
    return_address.wrapping_sub(arch::root as *const () as usize) == arch::RETURN
}

/// Whether an address lies in the few instructions with which a coroutine begins, below all of its
/// frames.
pub fn is_in_root(instruction: usize) -> bool {
    instruction.wrapping_sub(arch::root as *const () as usize) <= arch::RETURN
}

/// How far below the base of its stack a coroutine rests that was [prepared](prepare) and not
/// resumed since. A coroutine that was resumed never rests as high: the frame of `entry` is on the
/// stack.
pub const PREPARED: usize = 16;

/// Makes the stack below `base` rest at the beginning of `root.entry`.
///
/// # Safety
///
/// `base` is a multiple of 16, with 128 writable bytes below that nobody uses.
#[inline]
pub unsafe fn prepare(base: *mut u8, root: *mut Root) -> Resting {
    // SAFETY: by the contract.
    unsafe { arch::prepare(base, root) }
}

/// Puts the caller to rest, stores where into `save`, and lets `to` go on. Returns when somebody
/// lets that go on in turn.
///
/// # Safety
///
/// - `save` may be written, and is, before anything else happens.
/// - `to` rests: it comes from [`prepare`], or was saved by this function, and has not gone on
///   since. Its stack is in place, and its rest was on this thread.
/// - A prepared one finds its `root` in place.
/// - All borrows and assumptions of the caller survive the acts of others until this returns.
#[inline(always)]
pub unsafe fn switch(save: *mut Resting, to: Resting) {
    // SAFETY: by the contract.
    unsafe { arch::switch(save, to) }
}

/// As [`switch`], with a message to the other side. Returns the message of the side that lets the
/// caller go on, by this function; anything after another function.
///
/// # Safety
///
/// As for [`switch`].
#[inline(always)]
pub unsafe fn switch_saying(save: *mut Resting, to: Resting, words: Words) -> Words {
    // SAFETY: by the contract.
    unsafe { arch::switch_saying(save, to, words) }
}

/// Lets `to` go on, for ever.
///
/// # Safety
///
/// As for `to` in [`switch`]. Nothing on the caller's stack is used or dropped any more.
#[inline(always)]
pub unsafe fn leave(to: Resting) -> ! {
    // SAFETY: by the contract.
    unsafe { arch::leave(to) }
}

/// A switch that is about to be made: the caller's place of rest, and the side that goes on
/// instead.
///
/// A scheduler answers with one where a fiber suspends, so that the caller switches in the frame
/// that waits.
#[derive(Debug)]
#[must_use = "the caller is to make it at once"]
pub struct Switch {
    save: NonNull<Resting>,
    to: NonNull<u8>,
}

impl Switch {
    /// The switch that stores into `save` and lets `to` go on.
    ///
    /// # Safety
    /// The demands of [`switch`] hold until the switch is made, which is the next act on this
    /// thread.
    #[inline(always)]
    pub unsafe fn new(save: NonNull<Resting>, to: NonNull<u8>) -> Self {
        Self { save, to }
    }

    /// Makes the switch. Returns when somebody lets the caller go on.
    ///
    /// # Safety
    /// The call is the next act on this thread after the switch was given out, once. All borrows
    /// and assumptions of the caller survive the acts of others until this returns.
    #[inline(always)]
    pub unsafe fn make(self) {
        // SAFETY: by the contracts of both.
        unsafe { switch(self.save.as_ptr(), self.to.as_ptr()) }
    }

    /// As [`make`](Self::make), and tells the other side something.
    ///
    /// # Safety
    /// As for `make`.
    #[inline(always)]
    pub unsafe fn make_saying(self, words: Words) {
        // SAFETY: by the contracts of both.
        unsafe { switch_saying(self.save.as_ptr(), self.to.as_ptr(), words) };
    }
}
