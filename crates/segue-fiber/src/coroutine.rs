//! A coroutine's handle: one pointer to the cell with its header, the same on either host.
//!
//! Used by schedulers, through the crate's root; by `effect` and `generator`, which put their data
//! into the header. A host supplies the part behind the header ([`Core`]), the switches
//! ([`RawCoroutine`]), and four functions: `place`, `take_apart`, `into_stack`, `let_go`.
//!
//! # States
//!
//! *New* (never resumed), *running* (inside `resume`; this includes having resumed another, and
//! being captured, below), *suspended*, *returned*. `resume` goes from new or suspended to running,
//! `suspend` and the end of the function go back. `finish` and `into_stack` want returned. `drop`
//! looks: new drops function, header and stack; returned drops header and stack; suspended leaks.
//! No other code sees a running coroutine: `resume` borrows the handle, and the code that passes a
//! turn on answers for that.
//!
//! # Access to the cell
//!
//! A reference to the whole cell never exists: each part is reached through the raw pointer. The
//! code inside reads the header (shared), as does the owner of the handle; the header is moved out
//! or dropped when the function has returned. The core is the host's.
//!
//! # Suspending an outer coroutine
//!
//! When A resumed B, code on B's stack may suspend A: A's resumer goes on, B is *captured*, still
//! running as far as B's object is concerned, so that nobody can resume B; resuming A continues on
//! B's stack. An effect handler does this. The cost is the same at any depth.

#![allow(unsafe_code)] // The cell is reached by its address, from inside and from outside.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;

use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::effect::outside;
use crate::host::{self, Core, RawCoroutine};
use crate::host::{Copied, StackCopies};
use crate::outcome::{Main, Step};
use segue_core::chain;
use segue_core::switch::Switch;

/// Switches to a place where none of the caller's surroundings are in place.
#[inline(always)]
fn without_surroundings<T>(switch: impl Fn() -> T) -> T {
    #[cold]
    #[inline(never)]
    fn aside<T>(switch: impl Fn() -> T) -> T {
        outside(switch)
    }
    if chain::top().is_null() { switch() } else { aside(switch) }
}

/// The largest header: the first page of a stack should do for header, function and a few frames.
const LARGEST_HEADER: usize = 1024;

/// Its largest alignment: a cache line, as that of a slot's top.
const LARGEST_ALIGNMENT: usize = 64;

/// Whether a coroutine may have such a header.
pub(crate) const fn may_be_header<H>() -> bool {
    size_of::<H>() <= LARGEST_HEADER && align_of::<H>() <= LARGEST_ALIGNMENT
}

/// The cell at the address that stands for a coroutine. `repr(C)` puts the header at its start.
#[repr(C)]
pub(crate) struct Cell<H> {
    pub header: H,
    pub core: Core,
}

/// A function on a stack of its own, with a header `H` kept at the top of that stack.
///
/// A coroutine is one pointer, and stays on its thread. Its drop drops header, stack and a function
/// that has not begun; the drop of a suspended one leaks the stack with all frames there, see
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
    /// Puts `header` and `main` on the stack. `main` is called with the header at the first
    /// [`resume`](Self::resume).
    ///
    /// Nothing is allocated for functions of up to 256 bytes of captures; larger ones are boxed. A
    /// header has at most 1 KiB and an alignment of at most 64, which is checked when the program
    /// is compiled.
    ///
    /// `main` must not panic: there is no caller. If a panic leaves `main`, the process aborts.
    #[inline]
    pub fn new<F: FnOnce(&H) + 'static>(stack: Stack, header: H, main: F) -> Coroutine<H>
    where
        H: 'static,
    {
        const { assert!(may_be_header::<H>(), "a coroutine's header has at most 1 KiB, aligned to 64 at most") };
        // SAFETY: nothing here borrows, and the header fits.
        Coroutine { cell: unsafe { host::place(stack, header, main) }, _header: PhantomData }
    }

    /// As [`new`](Self::new), for closures that borrow.
    ///
    /// # Safety
    ///
    /// [`may_be_header`] is true of `H`. The coroutine is not resumed after the end of the data
    /// that `header` and `main` borrow, and not dropped before its start.
    #[inline]
    pub(crate) unsafe fn new_borrowing(stack: Stack, header: H, main: impl Main<H>) -> Self {
        debug_assert!(may_be_header::<H>());
        // SAFETY: by the contract.
        Coroutine { cell: unsafe { host::place(stack, header, main) }, _header: PhantomData }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &H {
        // SAFETY: the cell lives as long as `self`, and its header is shared by all meanwhile.
        unsafe { &(*self.cell.as_ptr()).header }
    }

    /// The pointer that stands for this coroutine in [`suspend`] and
    /// [`from_header`](Self::from_header).
    ///
    /// Valid until the coroutine is dropped or [finished](Self::finish). A pointer made from a
    /// reference to the header will not do: such a pointer may be used for the header alone.
    #[inline]
    pub fn header_ptr(&self) -> NonNull<H> {
        // The header is the cell's first field.
        self.cell.cast()
    }

    /// Gives up the handle, not the coroutine: [`from_header`](Self::from_header) makes a handle
    /// again.
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
    /// - `header` came from [`into_header`](Self::into_header) or [`header_ptr`](Self::header_ptr),
    ///   of the same `H`, and the coroutine was neither dropped nor finished since.
    /// - No other handle to the coroutine is used while this one is, which includes its whole time
    ///   inside `resume`. Only one is ever dropped or finished, and not during a run. Making a
    ///   temporary one in `ManuallyDrop`, to resume through, is fine.
    /// - The thread is the one which created the coroutine.
    #[inline]
    pub unsafe fn from_header(header: NonNull<H>) -> Coroutine<H> {
        Coroutine { cell: header.cast(), _header: PhantomData }
    }

    /// The part of the coroutine that switches need, with any header.
    #[inline]
    pub(crate) fn raw(&self) -> RawCoroutine {
        // SAFETY: a cell.
        unsafe { raw_of(self.cell) }
    }

    /// Runs the coroutine to its suspension or to the return of its function.
    ///
    /// Effect handlers around this call are not those of the code inside; see
    /// [`effect`](crate::effect).
    ///
    /// # Panics
    ///
    /// In a coroutine that has returned already. With the feature `threads`, when there are no more
    /// threads.
    #[inline]
    pub fn resume(&mut self) -> Step {
        let raw = self.raw();
        // SAFETY: the handle is borrowed until this returns: nobody else resumes or ends the
        // coroutine.
        without_surroundings(move || unsafe { raw.resume() })
    }

    /// As [`resume`](Self::resume), for schedulers, which do not want to look for handlers each
    /// time.
    ///
    /// # Safety
    ///
    /// No effect handler is in place: this is called inside of
    /// [`effect::outside`](crate::effect::outside), and not of a handler in that.
    #[inline(always)]
    pub unsafe fn resume_outside(&mut self) -> Step {
        debug_assert!(chain::top().is_null());
        // SAFETY: as in `resume`.
        unsafe { self.raw().resume() }
    }

    /// Whether its function returned.
    #[inline]
    pub fn has_returned(&self) -> bool {
        // SAFETY: the cell lives as long as `self`, and nothing runs inside, as a handle is in use.
        unsafe { self.raw().has_returned() }
    }

    #[inline]
    fn into_returned(self) -> NonNull<Cell<H>> {
        assert!(self.has_returned(), "a coroutine is finished before its function returned");
        ManuallyDrop::new(self).cell
    }

    /// Takes apart a finished coroutine.
    ///
    /// # Panics
    ///
    /// For a coroutine that has not returned; the coroutine is then dropped.
    #[inline]
    pub fn finish(self) -> (H, Stack) {
        // SAFETY: the function returned, so nobody has a reference to the header, which the
        // function had for its duration only. Once: the handle is gone.
        unsafe { host::take_apart(self.into_returned()) }
    }

    /// Takes apart a finished coroutine, and drops the header in place: for large headers.
    ///
    /// # Panics
    ///
    /// For a coroutine that has not returned; the coroutine is then dropped.
    #[inline]
    pub fn into_stack(self) -> Stack {
        // SAFETY: as in `finish`.
        unsafe { host::into_stack(self.into_returned()) }
    }

    /// The calls of a suspended coroutine: on its own stack, and before that on those of coroutines
    /// that run inside and were captured along.
    ///
    /// Empty before the first resume and after the end, and with the feature `threads`. Costs a
    /// fraction of a microsecond and some nanoseconds a call; the first one in a process, and the
    /// first after a library was loaded, costs milliseconds. A print costs more, see [`Backtrace`].
    ///
    /// The handle says that the coroutine does not run: `resume` borrows that exclusively.
    pub fn backtrace(&self) -> Backtrace {
        // SAFETY: the cell is alive. The coroutine does not run, or somebody else could not have
        // this handle, and belongs to this thread, as the handle is not `Send`.
        unsafe { self.raw().backtrace() }
    }

    /// Copies its stacks while it rests, for a [backtrace](StackCopies::backtrace) later; `None` if
    /// there is no room. Async-signal-safe.
    pub fn copy_stack(&self, copies: &mut StackCopies) -> Option<Copied> {
        // SAFETY: the cell lives as long as `self`, and nothing runs inside, as a handle is in use.
        unsafe { self.raw().copy_stack(copies) }
    }

    /// Gives the coroutine a number and a name, for backtraces and the report of a stack overflow.
    /// Names are copied up to 47 bytes.
    #[inline]
    pub fn set_label(&self, id: u64, name: Option<&str>) {
        // SAFETY: the cell is alive, and is this thread's.
        unsafe { self.raw().set_label(id, name) }
    }
}

/// # Safety
///
/// `cell` is that of a coroutine that was neither dropped nor finished.
#[inline]
pub(crate) unsafe fn raw_of<H>(cell: NonNull<Cell<H>>) -> RawCoroutine {
    // SAFETY: by the contract this is a place in the cell, which is not at null.
    RawCoroutine(unsafe { NonNull::new_unchecked(&raw mut (*cell.as_ptr()).core) })
}

impl<H> Drop for Coroutine<H> {
    fn drop(&mut self) {
        // SAFETY: the cell is alive, and nothing runs inside, or this handle would be borrowed.
        // Once: the header is gone now.
        unsafe { host::let_go(self.cell) }
    }
}

segue_core::impl_debug!([H: fmt::Debug] Coroutine<H>, |it| header: *it.header());

/// Suspends the coroutine that has this header: its [`resume`](Coroutine::resume) returns
/// [`Step::Suspended`], and this call returns after the next resume.
///
/// # Safety
///
/// - `header` came from [`Coroutine::header_ptr`] or [`Coroutine::into_header`], of the same `H`.
/// - The coroutine is running on this thread, and the caller runs inside: on its stack, or on the
///   stack of one that was resumed by code inside it and has not been suspended or returned since.
///   In the second case the coroutines between are captured and go on when this one is resumed.
/// - All borrows across the call survive the acts of others meanwhile.
#[inline(always)]
pub unsafe fn suspend<H: 'static>(header: NonNull<H>) {
    // SAFETY: the caller's.
    if let Some(switch) = unsafe { begin_suspend(header) } {
        // SAFETY: at once.
        unsafe { switch.make() };
    }
}

/// As [`suspend`], but leaves the switch to the caller where possible: then the answer is the
/// switch, and the caller makes that at once, in its own frame. With `None` the coroutine was
/// suspended and has been resumed.
///
/// For schedulers, which waiting code calls: see [`segue_core::switch`] for the gain of a frame
/// less.
///
/// # Safety
///
/// As for [`suspend`]; and that the caller of this makes the switch.
#[inline(always)]
pub unsafe fn begin_suspend<H: 'static>(header: NonNull<H>) -> Option<Switch> {
    // SAFETY: by the first clause this is a cell, by the second the cell is alive. The rest is the
    // caller's.
    let raw = unsafe { raw_of(header.cast::<Cell<H>>()) };
    if chain::top().is_null() {
        // SAFETY: as above.
        return unsafe { raw.begin_suspend() };
    }
    // SAFETY: as above.
    without_surroundings(move || unsafe { raw.suspend() });
    None
}
