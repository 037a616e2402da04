//! The coroutine on real stacks: its bookkeeping at the top of its stack, its start, its switches
//! and its end.
//!
//! Used by `crate::coroutine`, which has the handle and the states, and by `effect` and
//! `generator`, which switch through [`RawCoroutine`]. With `segue_core::switch` this file
//! holds the crate's soundness argument.
//!
//! # Layout of a slot
//!
//! ```text
//! slot end      +-----------------+
//!               | colour          |  0 to 15 cache lines, by the slot's number; below one more on Windows
//! top           +-----------------+
//!               | Label, 1 line   |  at `top - 64` whatever H is, for the overflow handler
//!               +-----------------+
//!               | F               |  the function, until it is called; nothing if it is boxed
//!               +-----------------+
//!               | Core, 1 line    |  root, stack pointer, stack
//!               +-----------------+
//!               | H               |  the header, the cell's start: the pointer that stands for the coroutine
//! base          +-----------------+
//!               |                 |  the function's frames, downwards
//!               ~       ...       ~
//!               +-----------------+
//!               | guard           |
//! slot start    +-----------------+
//! ```
//!
//! Creating a coroutine therefore allocates nothing and touches one page. Without colour all tops
//! would lie in the same set of the first-level cache, since slots are whole pages apart.
//!
//! # States
//!
//! The stack pointer in the core tells the states apart, other than running: the prepared one when
//! new, null when returned, another when suspended. That pointer is stale during a run; debug
//! builds keep a flag to catch a second handle.
//!
//! # Access to the core
//!
//! Root and stack pointer are only ever read and written by value, on the coroutine's thread: by
//! `resume`, by `suspend`, by `pass_on`, and by `run` at the function's end. Code that runs inside
//! reads the core's stack. The overflow handler reads the label alone.
//!
//! # Suspending an outer coroutine
//!
//! A suspension saves whatever stack pointer is current and goes to the one that the coroutine's
//! own link names. So nothing has to be done for those between.

#![allow(unsafe_code)] // Stacks are raw memory: no type can say what runs on one.

use std::mem;
use std::ptr::{self, NonNull};

use super::copies::{Copied, StackCopies};
use super::registry::{self, Label};
use super::segments;
use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::coroutine::Cell;
use crate::outcome::{Main, Step, count_leak, run_main};
use crate::platform::memory;
use segue_core::switch::{self, NO_WORDS, PREPARED, Resting, Root, Switch, Words};

/// A function larger than this is boxed: the first page of a stack should do for header, function
/// and a few frames.
const LARGEST_INLINE: usize = 256;

/// The part that every coroutine has, with any header: one cache line.
#[repr(C, align(64))]
pub(crate) struct Core {
    /// Its resumer, and its function.
    root: Root,
    /// The point of its rest; see the states at the head of this file. Stale during a run.
    rests: Resting,
    stack: Stack,
    /// Drops the function in place.
    abandon: unsafe fn(*mut Core),
    /// Kept in debug builds only.
    running: bool,
}

const _: () = assert!(mem::size_of::<Core>() == 64);

/// Puts a coroutine on its stack.
///
/// # Safety
///
/// The contract of `Coroutine::new_borrowing`.
#[inline]
pub(crate) unsafe fn place<H, M: Main<H>>(stack: Stack, header: H, main: M) -> NonNull<Cell<H>> {
    if is_small::<M>() {
        // SAFETY: as the caller promises.
        unsafe { place_small(stack, header, main) }
    } else {
        // SAFETY: as the caller promises; a box is small.
        unsafe { place_small(stack, header, main.boxed()) }
    }
}

/// # Safety
///
/// As for [`place`], and the function is small.
#[inline]
unsafe fn place_small<H, M: Main<H>>(stack: Stack, header: H, main: M) -> NonNull<Cell<H>> {
    let top = stack.top();
    let below_top = Label::SIZE + room::<M>() + mem::size_of::<Cell<H>>();
    // SAFETY: that is at most 64 + 256 + (1 KiB + 64) bytes, and the slot has more than 15 KiB
    // below its top.
    let cell = unsafe { top.byte_sub(below_top) }.cast::<Cell<H>>();
    debug_assert!(cell.is_aligned());
    let at = cell.as_ptr();
    // SAFETY: the slot belongs to `stack`, which is ours, and is readable and writable above its
    // guard, or where the kernel grows stacks in its highest page. All is aligned: `top` is a
    // multiple of 64, each size a multiple of 64 and each alignment at most that. Field by field,
    // since a copy of the whole waits for the writes to its parts. The stack's base is the cell's
    // address.
    unsafe {
        Label::clear(Label::of(top), (&raw mut (*at).core).cast());
        place_of::<H, M>(at).write(main);
        (&raw mut (*at).header).write(header);
        let core = &raw mut (*at).core;
        (&raw mut (*core).root).write(Root { link: ptr::null_mut(), entry: run::<H, M> });
        let rests = switch::prepare(at.cast(), core.cast());
        memory::begins(rests, top, || registry::guard(top));
        (&raw mut (*core).rests).write(rests);
        (&raw mut (*core).stack).write(stack);
        (&raw mut (*core).abandon).write(abandon::<H, M>);
        (&raw mut (*core).running).write(false);
    }
    cell
}

/// A coroutine without the type of its header: the part that switches need. The raw form keeps
/// nothing alive.
#[derive(Clone, Copy)]
pub(crate) struct RawCoroutine(pub NonNull<Core>);

/// Whether a coroutine can [pass its turn on](crate::pass_on).
pub const PASSES_ON: bool = true;

impl RawCoroutine {
    /// As [`Coroutine::resume`](crate::Coroutine::resume), and leaves the chain of effect handlers
    /// alone.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished before this returns, and nobody else resumes
    /// the coroutine meanwhile. The thread is the creator's.
    #[inline(always)]
    pub unsafe fn resume(self) -> Step {
        // SAFETY: by the contract; the clause on coroutines that have returned is checked.
        unsafe {
            let rests = self.begins_to_run();
            if rests.is_null() {
                refuse();
            }
            self.go_on(rests).0
        }
    }

    /// As [`resume`](Self::resume), of a coroutine that has not returned. With the word that the
    /// coroutine has [said](Self::suspend_saying), if suspended so.
    ///
    /// # Safety
    ///
    /// As for `resume`; and the coroutine has not returned.
    #[inline(always)]
    pub unsafe fn resume_hearing(self) -> (Step, Words) {
        // SAFETY: by the contract.
        unsafe { self.go_on(self.begins_to_run()) }
    }

    /// The switch into the coroutine, and back.
    ///
    /// # Safety
    ///
    /// As for `resume_hearing`; `rests` is the answer of `begins_to_run` just now.
    #[inline(always)]
    unsafe fn go_on(self, rests: Resting) -> (Step, Words) {
        // The cell lives at least until this call returns: only `finish` and `drop` end it, which
        // need the handle by value.
        let core = self.0.as_ptr();
        // SAFETY: `rests` was prepared or saved by `suspend`, and is used once: the pointer changes
        // before the handle can be used again, as only two functions come back here: `suspend`
        // saves another one, and `run` leaves null; if the coroutine passes its turn on, its own
        // has been saved by then. The cell with the root is alive, the stack is inside, and the
        // coroutine is not `Send`. No reference to the coroutine's parts is held across the switch:
        // only the handle is, and is borrowed for as long.
        let (words, rests) = unsafe {
            let words = switch::switch_saying(&raw mut (*core).root.link, rests, NO_WORDS);
            (words, (*core).rests)
        };
        (if rests.is_null() { Step::Returned } else { Step::Suspended }, words)
    }

    /// The point at which the coroutine goes on now; null if it has returned.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished.
    #[inline(always)]
    unsafe fn begins_to_run(self) -> Resting {
        let core = self.0.as_ptr();
        if cfg!(debug_assertions) {
            // SAFETY: by the contract the cell is alive.
            let was_running = unsafe { (&raw mut (*core).running).replace(true) };
            assert!(!was_running, "a coroutine is resumed through a second handle while it runs");
        }
        // SAFETY: as above.
        unsafe { (*core).rests }
    }

    /// The coroutine runs, until the next switch.
    ///
    /// # Safety
    ///
    /// As for `begins_to_run`.
    #[inline(always)]
    unsafe fn rests_soon(self) {
        if cfg!(debug_assertions) {
            // SAFETY: by the contract the cell is alive.
            unsafe { (*self.0.as_ptr()).running = false };
        }
    }

    /// As [`Coroutine::backtrace`](crate::Coroutine::backtrace).
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished, and does not run; a captured one does. The
    /// thread is the creator's.
    pub unsafe fn backtrace(self) -> Backtrace {
        let core = self.0.as_ptr();
        // SAFETY: by the contract. The core starts with its root.
        unsafe { segments::of_resting((*core).rests, core.cast()) }
    }

    /// As [`Coroutine::copy_stack`](crate::Coroutine::copy_stack).
    ///
    /// # Safety
    ///
    /// As for [`backtrace`](Self::backtrace).
    pub unsafe fn copy_stack(self, copies: &mut StackCopies) -> Option<Copied> {
        let core = self.0.as_ptr();
        // SAFETY: by the contract. The core starts with its root.
        unsafe { copies.push((*core).rests, core.cast()) }
    }

    /// As [`suspend`](crate::suspend), and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`suspend`](crate::suspend), from the second clause on.
    #[inline(always)]
    pub unsafe fn suspend(self) {
        // SAFETY: the switch is made at once. The last clause is the caller's.
        unsafe { self.suspension().make() }
    }

    /// As [`suspend`](Self::suspend), and tells the resumer something.
    ///
    /// # Safety
    ///
    /// As for [`suspend`](crate::suspend), from the second clause on.
    #[inline(always)]
    pub unsafe fn suspend_saying(self, words: Words) {
        // SAFETY: the switch is made at once. The last clause is the caller's.
        unsafe { self.suspension().make_saying(words) }
    }

    /// The switch that suspends the coroutine.
    ///
    /// # Safety
    ///
    /// As for [`suspend`](crate::suspend), from the second clause on, for the code that makes the
    /// switch.
    #[inline(always)]
    unsafe fn suspension(self) -> Switch {
        let core = self.0.as_ptr();
        // SAFETY: by the first clause the cell is alive and its function runs, so that the link
        // names the `resume` to which this coroutine owes the turn, which rests and waits for this.
        // Where the caller rests is kept in the core, which `resume` reads.
        unsafe {
            self.rests_soon();
            let save = NonNull::new_unchecked(&raw mut (*core).rests);
            Switch::new(save, NonNull::new_unchecked((*core).root.link))
        }
    }

    /// As [`pass_on`](crate::pass_on).
    ///
    /// # Safety
    ///
    /// As for [`pass_on`](crate::pass_on).
    #[inline(always)]
    pub unsafe fn pass_on(self, to: Self) -> Switch {
        let from = self.0.as_ptr();
        // SAFETY: by the contract `to` is alive and rests.
        let rests = unsafe { to.begins_to_run() };
        if rests.is_null() {
            refuse();
        }
        // SAFETY: as in `suspension` and `resume`. The link of the one that runs names the `resume`
        // that rests, which is the one to come back to from the other as well.
        unsafe {
            (*to.0.as_ptr()).root.link = (*from).root.link;
            self.rests_soon();
            let save = NonNull::new_unchecked(&raw mut (*from).rests);
            Switch::new(save, NonNull::new_unchecked(rests))
        }
    }

    /// As [`begin_suspend`](crate::begin_suspend), and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`begin_suspend`](crate::begin_suspend), from the second clause on.
    #[inline(always)]
    pub unsafe fn begin_suspend(self) -> Option<Switch> {
        // SAFETY: the caller's.
        Some(unsafe { self.suspension() })
    }

    /// Whether the coroutine rests, and at its end.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished, and does not run.
    #[inline]
    pub unsafe fn has_returned(self) -> bool {
        // SAFETY: by the contract.
        unsafe { (*self.0.as_ptr()).rests.is_null() }
    }

    /// As [`Coroutine::set_label`](crate::Coroutine::set_label).
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished. The thread is the creator's.
    #[inline]
    pub unsafe fn set_label(self, id: u64, name: Option<&str>) {
        // SAFETY: the cell is alive, and its stack is shared at most, until the function returned.
        let stack = unsafe { &(*self.0.as_ptr()).stack };
        let top = stack.top();
        // SAFETY: the label of our own slot. Labels are read and written on this thread only, and
        // no reference to one is kept: the handler of a signal on this thread copes with a
        // half-written one.
        unsafe { Label::set(Label::of(top), id, name) }
    }
}

/// Whether a function is not boxed.
const fn is_small<F>() -> bool {
    mem::size_of::<F>() <= LARGEST_INLINE && mem::align_of::<F>() <= 64
}

/// The room that a function takes above its cell, in whole cache lines.
const fn room<F>() -> usize {
    mem::size_of::<F>().next_multiple_of(64)
}

/// Where the function of a coroutine lies that has not started.
///
/// # Safety
///
/// `cell` was placed with [`room`] for an `F` above.
#[inline]
unsafe fn place_of<H, F>(cell: *mut Cell<H>) -> *mut F {
    // SAFETY: by the contract that is in the same slot.
    unsafe { cell.add(1) }.cast()
}

/// The work of a coroutine, from its first resume to its end.
///
/// # Safety
///
/// `root` is that of a coroutine made by `place_small` with the same types. On its stack, once.
unsafe extern "C" fn run<H, M: Main<H>>(root: *mut Root) -> ! {
    // The root is the core's first field.
    // SAFETY: by the contract the core lies in a cell.
    let cell = unsafe { root.byte_sub(mem::offset_of!(Cell<H>, core)) }.cast::<Cell<H>>();
    run_main(|| {
        // SAFETY: written by `place_small` and moved out here, once: a coroutine starts once, and
        // one that has is not abandoned.
        let main = unsafe { place_of::<H, M>(cell).read() };
        // SAFETY: the header was written before any resume, is moved out or dropped only after this
        // function returned, and nobody makes a mutable reference to the header before.
        main.run(unsafe { &(*cell).header });
    });
    // SAFETY: the cell is alive: this runs in a `resume`, which put itself to rest at the link, or
    // in one that went on since, which did so again. There is nothing left on this stack: `main` is
    // consumed. Null is read by that `resume` and says that nobody will come back here.
    unsafe {
        memory::ends((*cell).core.stack.top());
        (*cell).core.rests = ptr::null_mut();
        RawCoroutine(NonNull::new_unchecked(&raw mut (*cell).core)).rests_soon();
        switch::leave((*cell).core.root.link);
    }
}

/// Drops the function of a coroutine that never starts.
///
/// # Safety
///
/// `core` is that of a coroutine made by `place_small` with the same types, which was never resumed
/// and will not be. Once.
unsafe fn abandon<H, F>(core: *mut Core) {
    // SAFETY: by the contract the core lies in a cell, and the function, written by `place_small`,
    // was not moved out.
    unsafe {
        let cell = core.byte_sub(mem::offset_of!(Cell<H>, core)).cast::<Cell<H>>();
        place_of::<H, F>(cell).drop_in_place();
    }
}

#[cold]
#[inline(never)]
fn refuse() -> ! {
    panic!("a coroutine is resumed that has returned");
}

/// Moves header and stack out.
///
/// # Safety
///
/// The coroutine's function returned, and nobody uses the cell any more. Once.
#[inline]
pub(crate) unsafe fn take_apart<H>(cell: NonNull<Cell<H>>) -> (H, Stack) {
    let cell = cell.as_ptr();
    // SAFETY: by the contract nothing on the stack is in use; both are moved out once.
    unsafe { (ptr::read(&raw const (*cell).header), ptr::read(&raw const (*cell).core.stack)) }
}

/// Drops the header in place, and moves the stack out. Should the drop panic, the stack goes back
/// to its arena.
///
/// # Safety
///
/// As for [`take_apart`].
#[inline]
pub(crate) unsafe fn into_stack<H>(cell: NonNull<Cell<H>>) -> Stack {
    let cell = cell.as_ptr();
    // SAFETY: by the contract nothing on the stack is in use; one is moved out and the other
    // dropped, once.
    unsafe {
        let stack = ptr::read(&raw const (*cell).core.stack);
        ptr::drop_in_place(&raw mut (*cell).header);
        stack
    }
}

/// The drop of a handle.
///
/// # Safety
///
/// The coroutine does not run, and nobody uses the cell any more, other than the frames suspended
/// there. Once.
pub(crate) unsafe fn let_go<H>(cell: NonNull<Cell<H>>) {
    /// Drops header and stack, also when dropping the function panics.
    struct Rest<H>(NonNull<Cell<H>>);
    impl<H> Drop for Rest<H> {
        fn drop(&mut self) {
            // SAFETY: made below, when nothing runs on the stack or ever will, once. The stack's
            // drop is its slot's return.
            drop(unsafe { into_stack(self.0) });
        }
    }

    // SAFETY: by the contract the cell is alive.
    let core = unsafe { &raw mut (*cell.as_ptr()).core };
    // SAFETY: as above.
    let rests = unsafe { (*core).rests };
    if rests.is_null() {
        drop(Rest(cell));
    } else if rests.addr() == cell.addr().get() - PREPARED {
        let _rest = Rest(cell);
        // SAFETY: the coroutine that rests there was never resumed, and the handle is gone. With
        // the types of its placement.
        unsafe { ((*core).abandon)(core) };
    } else {
        count_leak();
    }
}

/// Starts to fetch the header of a coroutine, and the words for its switch. A hint, without effect
/// on the program's behaviour.
///
/// With `whole`, all lines of them: for coroutines that are in a cache, if not the nearest.
/// Without, one line, for the walk through the page tables: with very many coroutines, each on a
/// page of its own, that is most of a switch's cost, and further lines of the same page only wait
/// for the same walk.
#[inline]
pub fn prefetch<H: 'static>(header: NonNull<H>, whole: bool) {
    /// The cache lines from the cell up: header and coroutine.
    const ABOVE: isize = 4;
    let lines = if whole { 0..ABOVE } else { 0..1 };
    for line in lines {
        fetch(header.as_ptr().cast::<i8>().wrapping_offset(line * 64));
    }
}

/// Starts to fetch the frames in which a suspended coroutine goes on, those that its next switch
/// touches. A hint, as [`prefetch`], which brings the pointers to these frames.
///
/// # Safety
///
/// The coroutine is neither dropped nor finished, and this is the creator's thread.
#[inline]
pub unsafe fn prefetch_frames<H: 'static>(header: NonNull<H>) {
    // SAFETY: by the contract the cell is alive; and only its thread ever writes there.
    let rests: *const i8 = unsafe { (*header.cast::<Cell<H>>().as_ptr()).core.rests }.cast();
    // The saved words lie below, in the red zone; the frames begin above.
    fetch(rests.wrapping_offset(-24));
    fetch(rests.wrapping_offset(40));
}

#[inline(always)]
fn fetch(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
