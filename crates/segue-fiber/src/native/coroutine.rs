//! A function on a stack of its own, with its bookkeeping at the top of that stack.
//!
//! Used by schedulers, through the crate's root. This file holds the crate's soundness argument.
//!
//! # Layout of a slot
//!
//! ```text
//! slot end      +-----------------+
//!               | colour          |  0 to 15 cache lines, by the slot's number
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
//! Creating a coroutine therefore allocates nothing and touches one page. Without colour all tops would lie
//! in the same set of the first-level cache, since slots are a power of two apart.
//!
//! # States
//!
//! *New* (never resumed), *running* (inside `resume`; this includes having resumed another, and being captured,
//! below), *suspended*, *returned*. The stack pointer in the core tells them apart, other than running: the prepared one
//! when new, null when returned, another when suspended. `resume` goes from new or suspended to
//! running, `suspend` and the end of the function go back. `finish` wants returned. `drop` looks:
//! new drops function, header and stack; returned drops header and stack; suspended leaks. Running is seen by nobody,
//! because the handle is borrowed by `resume`; debug builds keep a flag to catch a second handle.
//!
//! # Who may touch the cell
//!
//! A reference to the whole cell never exists: each part is reached through the raw pointer. The core's root and stack pointer are
//! only ever read and written by value, on the coroutine's thread: by `resume`, by `suspend`, and by `run` at the function's end.
//! What runs inside reads the header (shared) and the core's stack. The overflow handler reads the label alone.
//!
//! # Suspending an outer coroutine
//!
//! A suspension saves whatever stack pointer is current and goes to the one that the coroutine's own link names. So
//! when A resumed B, code on B's stack may suspend A: A's resumer goes on, B is *captured*, still running as far
//! as B's object is concerned, so that nobody can resume it; resuming A continues on B's stack. This is what an effect
//! handler does. It costs the same at any depth.

#![allow(unsafe_code)] // Stacks are raw memory: no type can say who runs on one.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use super::registry::Label;
use super::segments;
use super::switch::{self, PREPARED, Resting, Root};
use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::chain;
use crate::outcome::{AbortOnUnwind, Step, count_leak};

/// A function larger than this is boxed: the first page of a stack should do for header, function and a few frames.
const LARGEST_INLINE: usize = 256;

/// The largest header, for the same reason.
pub(crate) const LARGEST_HEADER: usize = 1024;

/// The cell near the top of a slot. `repr(C)` puts the header at its start; its size is a multiple of a cache line.
#[repr(C)]
struct Cell<H> {
    header: H,
    core: Core,
}

/// What every coroutine has, of whatever header: one cache line.
#[repr(C, align(64))]
struct Core {
    /// Who resumed it, and what it does.
    root: Root,
    /// Where it rests; see the states at the head of this file. Stale while it runs.
    rests: Resting,
    stack: Stack,
    /// Drops the function where it lies.
    abandon: unsafe fn(*mut Core),
    /// Kept in debug builds only.
    running: bool,
}

const _: () = assert!(mem::size_of::<Core>() == 64);

/// A function on a stack of its own, with a header `H` kept at the top of that stack.
///
/// It is one pointer. It stays on its thread. Dropped before its first resume or after its end, it drops
/// what it has; dropped while suspended, it leaks its stack with all that is on it, see
/// [`leaked_stacks`](crate::leaked_stacks).
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<segue_fiber::Coroutine<u32>>();
/// ```
pub struct Coroutine<H> {
    cell: NonNull<Cell<H>>,
    /// Owns an H.
    _header: PhantomData<H>,
}

impl<H> Coroutine<H> {
    /// Puts `header` and `main` on the stack. `main` is called with the header at the first [`resume`](Self::resume).
    ///
    /// Nothing is allocated for functions of up to 256 bytes of captures; larger ones are boxed. A header has
    /// at most 1 KiB and an alignment of at most 64, which is checked when the program is compiled.
    ///
    /// `main` must not panic: it has no caller. If a panic leaves it, the process aborts.
    #[inline]
    pub fn new<F: FnOnce(&H) + 'static>(stack: Stack, header: H, main: F) -> Coroutine<H>
    where
        H: 'static,
    {
        const {
            assert!(mem::size_of::<H>() <= LARGEST_HEADER, "the header of a coroutine is larger than 1 KiB");
            assert!(mem::align_of::<H>() <= 64, "the header of a coroutine is aligned to more than 64");
        }
        if is_small::<F>() {
            Self::place(stack, header, main)
        } else {
            let main = Box::new(main);
            Self::place(stack, header, move |header: &H| main(header))
        }
    }

    /// As [`new`](Self::new), for what borrows. The header has at most [`LARGEST_HEADER`] bytes and an alignment of at most 64.
    ///
    /// # Safety
    ///
    /// The coroutine is not resumed after what `header` and `main` borrow has ended, and neither dropped before it was started.
    #[inline]
    pub(crate) unsafe fn new_borrowing<F: FnOnce(&H)>(stack: Stack, header: H, main: F) -> Coroutine<H> {
        debug_assert!(mem::size_of::<H>() <= LARGEST_HEADER && mem::align_of::<H>() <= 64);
        if is_small::<F>() {
            Self::place(stack, header, main)
        } else {
            let main = Box::new(main);
            Self::place(stack, header, move |header: &H| main(header))
        }
    }

    #[inline]
    fn place<F: FnOnce(&H)>(stack: Stack, header: H, main: F) -> Coroutine<H> {
        let (_, top) = stack.arena().region().slot(stack.slot());
        let below_top = Label::SIZE + room::<F>() + mem::size_of::<Cell<H>>();
        // SAFETY: that is at most 64 + 256 + (1 KiB + 64) bytes, and the slot has more than 15 KiB below its top.
        let cell = unsafe { top.byte_sub(below_top) }.cast::<Cell<H>>();
        debug_assert!(cell.is_aligned());
        let at = cell.as_ptr();
        // SAFETY: the slot belongs to `stack`, which is ours, and is readable and writable above its guard. All is
        // aligned: `top` is a multiple of 64, each size a multiple of 64 and each alignment at most that. Field by field, since a copy
        // of the whole waits for the writes to its parts. The stack's base is the cell's address.
        unsafe {
            Label::clear(Label::of(top), (&raw mut (*at).core).cast());
            place_of::<H, F>(at).write(main);
            (&raw mut (*at).header).write(header);
            let core = &raw mut (*at).core;
            (&raw mut (*core).root).write(Root { link: ptr::null_mut(), entry: run::<H, F> });
            (&raw mut (*core).rests).write(switch::prepare(at.cast(), core.cast()));
            (&raw mut (*core).stack).write(stack);
            (&raw mut (*core).abandon).write(abandon::<H, F>);
            (&raw mut (*core).running).write(false);
        }
        Coroutine { cell, _header: PhantomData }
    }

    #[inline]
    fn core(&self) -> *mut Core {
        // SAFETY: the cell lives as long as `self`.
        unsafe { &raw mut (*self.cell.as_ptr()).core }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: the cell lives as long as `self`, and there are only shared references to its header.
        unsafe { &(*self.cell.as_ptr()).header }
    }

    /// The pointer that stands for this coroutine in [`suspend`] and [`from_header`](Self::from_header).
    ///
    /// Valid until the coroutine is dropped or [finished](Self::finish). A pointer made from a reference to
    /// the header will not do: it may be used for the header alone.
    #[inline]
    pub fn header_ptr(&self) -> NonNull<H> {
        // The header is the cell's first field.
        self.cell.cast()
    }

    /// Gives up the handle, not the coroutine: [`from_header`](Self::from_header) makes a handle again.
    #[inline]
    pub fn into_header(self) -> NonNull<H> {
        let pointer = self.header_ptr();
        mem::forget(self);
        pointer
    }

    /// Makes a handle from a pointer.
    ///
    /// # Safety
    ///
    /// - `header` came from [`into_header`](Self::into_header) or [`header_ptr`](Self::header_ptr), of the same `H`,
    ///   and the coroutine was neither dropped nor finished since.
    /// - No other handle to the coroutine is used while this one is, which includes the whole time that it runs inside
    ///   `resume`. Only one is ever dropped or finished, and not while it runs. Making a temporary one in
    ///   `ManuallyDrop`, to resume through, is fine.
    /// - The thread is the one which created the coroutine.
    #[inline]
    pub unsafe fn from_header(header: NonNull<H>) -> Coroutine<H> {
        Coroutine { cell: header.cast(), _header: PhantomData }
    }

    /// What switches need of the coroutine, whatever its header.
    #[inline]
    pub(crate) fn raw(&self) -> RawCoroutine {
        // SAFETY: a place in the cell, which is not at null.
        RawCoroutine(unsafe { NonNull::new_unchecked(self.core()) })
    }

    /// Runs the coroutine until it is suspended or its function returns.
    ///
    /// Effect handlers around this call are not those of what runs inside; see [`effect`](crate::effect).
    ///
    /// # Panics
    ///
    /// When it has returned already.
    #[inline]
    pub fn resume(&mut self) -> Step {
        let raw = self.raw();
        // SAFETY: the handle is borrowed until this returns: nobody else resumes the coroutine or ends it.
        chain::without_handlers(|| unsafe { raw.resume() })
    }

    /// As [`resume`](Self::resume), for schedulers, which do not want to look for handlers each time.
    ///
    /// # Safety
    ///
    /// No effect handler is in place: this is called inside of [`effect::outside`](crate::effect::outside), and not of a handler in that.
    #[inline(always)]
    pub unsafe fn resume_outside(&mut self) -> Step {
        debug_assert!(chain::top().is_null());
        // SAFETY: the handle is borrowed until this returns: nobody else resumes the coroutine or ends it.
        unsafe { self.raw().resume() }
    }

    /// Whether it rests, and at its end; not to be asked while it runs.
    #[inline]
    fn returned(&self) -> bool {
        // SAFETY: the cell lives as long as `self`, and nothing runs inside, or this handle would be borrowed by `resume`.
        unsafe { (*self.core()).rests.is_null() }
    }

    /// Takes apart a coroutine whose function returned.
    ///
    /// # Panics
    ///
    /// When it did not return yet; the coroutine is then dropped.
    #[inline]
    pub fn finish(self) -> (H, Stack) {
        let core = self.core();
        assert!(self.returned(), "a coroutine is finished before its function returned");
        let this = ManuallyDrop::new(self);
        // SAFETY: the function returned, so nothing on the stack is in use, and nobody has a reference to the header,
        // which the function had for its duration only. Both are moved out once: the handle is gone.
        unsafe { (ptr::read(&raw const (*this.cell.as_ptr()).header), ptr::read(&raw const (*core).stack)) }
    }

    /// Takes apart a coroutine whose function returned, and drops the header where it is: for large headers.
    ///
    /// # Panics
    ///
    /// When it did not return yet; the coroutine is then dropped.
    #[inline]
    pub fn into_stack(self) -> Stack {
        let core = self.core();
        assert!(self.returned(), "a coroutine is finished before its function returned");
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `finish`; the header is dropped instead of moved out. Should its drop panic, the stack goes
        // back to its arena.
        unsafe {
            let stack = ptr::read(&raw const (*core).stack);
            ptr::drop_in_place(&raw mut (*this.cell.as_ptr()).header);
            stack
        }
    }

    /// Where it is suspended: on its own stack, and before that on those of coroutines that run inside of it and were captured with it.
    ///
    /// Empty before the first resume and after the end. Costs a fraction of a microsecond and some nanoseconds a call; the first one in a process,
    /// and the first after a library was loaded, costs milliseconds. To print it costs more, see [`Backtrace`].
    ///
    /// The handle says that it does not run: `resume` borrows it exclusively.
    pub fn backtrace(&self) -> Backtrace {
        // SAFETY: the cell is alive. The coroutine does not run, or somebody else could not have this handle, and is this thread's, as it is not `Send`.
        unsafe { self.raw().backtrace() }
    }

    /// Gives the coroutine a number and a name for the report of a stack overflow. Names are copied up to 47 bytes.
    #[inline]
    pub fn set_label(&self, id: u64, name: Option<&str>) {
        // SAFETY: the cell is alive, and its stack is shared at most, until the function returned.
        let stack = unsafe { &(*self.core()).stack };
        let (_, top) = stack.arena().region().slot(stack.slot());
        // SAFETY: the label of our own slot. Labels are read and written on this thread only, and no reference to one
        // is kept: the handler of a signal on this thread copes with a half-written one.
        unsafe { Label::set(Label::of(top), id, name) }
    }
}

/// A coroutine without the type of its header: the part that switches need. It keeps nothing alive.
#[derive(Clone, Copy)]
pub(crate) struct RawCoroutine(NonNull<Core>);

impl RawCoroutine {
    /// As [`Coroutine::resume`], and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished before this returns, and nobody else resumes it meanwhile. The thread is the one which created it.
    #[inline(always)]
    pub unsafe fn resume(self) -> Step {
        let core = self.0.as_ptr();
        if cfg!(debug_assertions) {
            // SAFETY: the cell lives at least until this call returns: only `finish` and `drop` end it, which need the
            // handle by value.
            let was_running = unsafe { (&raw mut (*core).running).replace(true) };
            assert!(!was_running, "a coroutine is resumed through a second handle while it runs");
        }
        // SAFETY: the cell is alive as above.
        let rests = unsafe { (*core).rests };
        if rests.is_null() {
            has_returned();
        }
        // SAFETY: `rests` was prepared or saved by `suspend`, and is let go on once: it changes before the handle can be used again, as
        // whoever comes back here is `suspend`, which saves another, or `run`, which leaves null. The cell with the root is alive, the
        // stack is in it, and the coroutine is not `Send`. This call is generic about what others do: it holds nothing but the
        // handle, which is borrowed.
        let rests = unsafe {
            switch::switch(&raw mut (*core).root.link, rests);
            (*core).rests
        };
        if cfg!(debug_assertions) {
            // SAFETY: the cell is alive as above.
            unsafe { (*core).running = false };
        }
        if rests.is_null() { Step::Returned } else { Step::Suspended }
    }

    /// As [`Coroutine::backtrace`].
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished, and does not run; what is captured does. The thread is the one which created it.
    pub unsafe fn backtrace(self) -> Backtrace {
        let core = self.0.as_ptr();
        // SAFETY: by the contract. The core starts with its root.
        unsafe { segments::of_resting((*core).rests, core.cast()) }
    }

    /// As [`suspend`], and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`suspend`], from the second clause on.
    #[inline(always)]
    pub unsafe fn suspend(self) {
        let core = self.0.as_ptr();
        // SAFETY: by the first clause the cell is alive and its function runs, so that the link names the `resume` that let it go on last, which rests
        // since and waits for this. Where the caller rests is kept in the core, which `resume` reads. The last clause is the caller's.
        unsafe { switch::switch(&raw mut (*core).rests, (*core).root.link) }
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
/// `cell` was placed with [`room`] for an `F` above it.
#[inline]
unsafe fn place_of<H, F>(cell: *mut Cell<H>) -> *mut F {
    // SAFETY: by the contract that is in the same slot.
    unsafe { cell.add(1) }.cast()
}

/// What a coroutine does, from its first resume to its end.
///
/// # Safety
///
/// `root` is that of a coroutine made by `Coroutine::place` with the same types. On its stack, once.
unsafe extern "C" fn run<H, F: FnOnce(&H)>(root: *mut Root) -> ! {
    // The root is the core's first field.
    // SAFETY: by the contract the core lies in a cell.
    let cell = unsafe { root.byte_sub(mem::offset_of!(Cell<H>, core)) }.cast::<Cell<H>>();
    let call = || {
        // SAFETY: written by `Coroutine::place` and moved out here, once: a coroutine starts once, and one that has is
        // not abandoned.
        let main = unsafe { place_of::<H, F>(cell).read() };
        let bomb = AbortOnUnwind;
        // SAFETY: the header was written before any resume, is moved out or dropped only after this
        // function returned, and nobody makes a mutable reference to it before.
        main(unsafe { &(*cell).header });
        mem::forget(bomb);
    };
    // A panic looks for somebody who catches it before it unwinds anything: here, so that it does not look further, on the stack of whoever
    // resumed this. It does not get here, as the bomb comes first.
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        std::process::abort();
    }
    // SAFETY: the cell is alive: this runs in a `resume`, which put itself to rest at the link, or in one that it has let go on since, which did
    // so again. There is nothing left on this stack: `main` is consumed. Null is read by that `resume` and says that nobody will
    // come back here.
    unsafe {
        (*cell).core.rests = ptr::null_mut();
        switch::leave((*cell).core.root.link);
    }
}

/// Drops the function of a coroutine that never starts.
///
/// # Safety
///
/// `core` is that of a coroutine made by `Coroutine::place` with the same types, which was never resumed and will not be. Once.
unsafe fn abandon<H, F: FnOnce(&H)>(core: *mut Core) {
    // SAFETY: by the contract the core lies in a cell, and the function, written by `Coroutine::place`, was not moved out.
    unsafe {
        let cell = core.byte_sub(mem::offset_of!(Cell<H>, core)).cast::<Cell<H>>();
        place_of::<H, F>(cell).drop_in_place();
    }
}

#[cold]
#[inline(never)]
fn has_returned() -> ! {
    panic!("a coroutine is resumed that has returned");
}

impl<H> Drop for Coroutine<H> {
    fn drop(&mut self) {
        /// Drops header and stack, also when dropping the function panics.
        struct Rest<H>(NonNull<Cell<H>>);
        impl<H> Drop for Rest<H> {
            fn drop(&mut self) {
                let cell = self.0.as_ptr();
                // SAFETY: made below, when nothing runs on the stack or ever will; both fields are dropped once. The
                // stack is read out of the slot before it gives the slot away, and dropped although the header's drop
                // may panic.
                unsafe {
                    let _stack = ptr::read(&raw const (*cell).core.stack);
                    ptr::drop_in_place(&raw mut (*cell).header);
                }
            }
        }

        let core = self.core();
        // SAFETY: the cell is alive, and nothing runs inside, or this handle would be borrowed.
        let rests = unsafe { (*core).rests };
        if rests.is_null() {
            drop(Rest(self.cell));
        } else if rests.addr() == self.cell.addr().get() - PREPARED {
            let _rest = Rest(self.cell);
            // SAFETY: who rests there was never resumed, and the handle is gone. With the types that it was placed with.
            unsafe { ((*core).abandon)(core) };
        } else {
            count_leak();
        }
    }
}

impl<H: fmt::Debug> fmt::Debug for Coroutine<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine").field("header", self.header()).finish_non_exhaustive()
    }
}

/// Suspends the coroutine whose header this is: its [`resume`](Coroutine::resume) returns [`Step::Suspended`], and
/// this call returns when it is resumed again.
///
/// # Safety
///
/// - `header` came from [`Coroutine::header_ptr`] or [`Coroutine::into_header`], of the same `H`.
/// - The coroutine is running on this thread, and the caller runs inside it: on its stack, or on the stack of one that
///   was resumed by code inside it and has not been suspended or returned since. In the second case the coroutines
///   between are captured and go on when this one is resumed.
/// - Whatever is borrowed across the call survives what others do meanwhile.
#[inline]
pub unsafe fn suspend<H: 'static>(header: NonNull<H>) {
    let cell = header.cast::<Cell<H>>().as_ptr();
    // SAFETY: by the first clause this is a cell, by the second it is alive. The rest is the caller's.
    chain::without_handlers(|| unsafe { RawCoroutine(NonNull::new_unchecked(&raw mut (*cell).core)).suspend() });
}

/// Starts to fetch what a suspended coroutine touches first when it is resumed. A hint, without effect on what a program does.
///
/// With `whole`, all lines of its header and of the coroutine: for coroutines that are in a cache, if not the nearest. Not the frames below, of which
/// only some are touched: to fetch eight lines more made a turn among a thousand fibers a third dearer. Without, one line,
/// whose use is the walk through the page tables: with very many coroutines, each on a page of its own, that is most of what a switch
/// costs, and further lines of the same page only wait for the same walk.
#[inline]
pub fn prefetch<H: 'static>(header: NonNull<H>, whole: bool) {
    /// The cache lines from the cell up: header and coroutine.
    const ABOVE: isize = 4;
    let lines = if whole { 0..ABOVE } else { 0..1 };
    let cell = header.as_ptr().cast::<i8>();
    for line in lines {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is harmless.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(cell.wrapping_offset(line * 64));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (cell, line);
    }
}
