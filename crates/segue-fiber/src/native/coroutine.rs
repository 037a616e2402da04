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
//!               | Core, 1 line    |  coroutine object, stack
//!               +-----------------+
//!               | H               |  the header, the cell's start: the pointer that stands for the coroutine
//! base          +-----------------+
//!               | parent link     |  corosensei's; then the function's frames, downwards
//!               ~       ...       ~
//!               +-----------------+
//!               | guard           |
//! slot start    +-----------------+
//! ```
//!
//! Creating a coroutine therefore allocates nothing and touches one page. Without colour all tops would lie
//! in the same set of the first-level cache, since slots are a power of two apart. corosensei would keep the function
//! below the link, and copy it twice on its way to the call; it is given one pointer instead.
//!
//! # States
//!
//! *New* (never resumed), *running* (inside `resume`; this includes having resumed another, and being captured,
//! below), *suspended*, *returned*. corosensei's stack pointer tells them apart, other than running: the initial one
//! when new, none when returned, another when suspended. `resume` goes from new or suspended to
//! running, `suspend` and the end of the function go back. `finish` wants returned. `drop` looks:
//! new drops function, header and stack; returned drops header and stack; suspended leaks. Running is seen by nobody,
//! because the handle is borrowed by `resume`; debug builds keep a flag to catch a second handle.
//!
//! # Who may touch the cell
//!
//! A reference to the whole cell never exists: each part is reached through the raw pointer. While a coroutine
//! runs, `resume` holds `&mut` to the coroutine object only. What runs inside reads the header (shared) and other
//! fields of the core. The overflow handler reads the label alone.
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
use std::ptr::{self, NonNull};

use corosensei::stack::{Stack as Footing, StackPointer};
use corosensei::{CoroutineResult, Yielder};

use super::registry::Label;
use crate::arena::Stack;
use crate::outcome::{AbortOnUnwind, Step, count_leak};

/// A function larger than this is boxed: the first page of a stack should do for header, function and a few frames.
const LARGEST_INLINE: usize = 256;

/// The largest header, for the same reason.
const LARGEST_HEADER: usize = 1024;

type Inner = corosensei::Coroutine<(), (), (), Bounds>;
type Link = Yielder<(), ()>;

/// The cell near the top of a slot. `repr(C)` puts the header at its start; its size is a multiple of a cache line.
#[repr(C)]
struct Cell<H> {
    header: H,
    core: Core,
}

/// What every coroutine has, of whatever header: one cache line on x86-64.
#[repr(C, align(64))]
struct Core {
    inner: Inner,
    stack: Stack,
    /// Where corosensei's link is, unless that is known anyway. Written at the first resume, before the function runs.
    link: [*const Link; LINK_BELOW_BASE.is_none() as usize],
    /// Kept in debug builds only: the time of a switch would grow by a third.
    running: bool,
}

/// How far below the base corosensei keeps the link that is the yielder, where that is known: then a suspension need
/// not load the yielder's address, which is a sixth of its time. Checked whenever a coroutine starts. The distance
/// differs where corosensei is built for address sanitizer, and the size with it.
const LINK_BELOW_BASE: Option<usize> = match mem::size_of::<Inner>() {
    40 if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) => Some(16),
    _ => None,
};

const _: () = assert!(LINK_BELOW_BASE.is_none() || mem::size_of::<Core>() == 64);

/// What corosensei needs to know of a stack: base and limit. Owns nothing; the `Stack` beside it in `Core` does.
struct Bounds {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: both addresses are multiples of 16 (a cell's address, a slot's start). The range ends below the cell, and a
// `Layout` leaves at least 16 KiB above the guard, of which colour, label, function, core and header take less than
// 3 KiB: more than the required 4 KiB are usable. The guard was installed before the slot was first granted.
unsafe impl Footing for Bounds {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.limit
    }
}

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
pub struct Coroutine<H: 'static> {
    cell: NonNull<Cell<H>>,
    /// Owns an H.
    _header: PhantomData<H>,
}

impl<H: 'static> Coroutine<H> {
    /// Puts `header` and `main` on the stack. `main` is called with the header at the first [`resume`](Self::resume).
    ///
    /// Nothing is allocated for functions of up to 256 bytes of captures; larger ones are boxed. A header has
    /// at most 1 KiB and an alignment of at most 64, which is checked when the program is compiled.
    ///
    /// `main` must not panic: it has no caller. If a panic leaves it, the process aborts.
    #[inline]
    pub fn new<F: FnOnce(&H) + 'static>(stack: Stack, header: H, main: F) -> Coroutine<H> {
        const {
            assert!(mem::size_of::<H>() <= LARGEST_HEADER, "the header of a coroutine is larger than 1 KiB");
            assert!(mem::align_of::<H>() <= 64, "the header of a coroutine is aligned to more than 64");
        }
        if mem::size_of::<F>() <= LARGEST_INLINE && mem::align_of::<F>() <= 64 {
            Self::place(stack, header, main)
        } else {
            let main = Box::new(main);
            Self::place(stack, header, move |header: &H| main(header))
        }
    }

    #[inline]
    fn place<F: FnOnce(&H) + 'static>(stack: Stack, header: H, main: F) -> Coroutine<H> {
        let (start, top) = stack.arena().region().slot(stack.slot());
        let below_top = Label::SIZE + Main::<H, F>::SIZE + mem::size_of::<Cell<H>>();
        // SAFETY: that is at most 64 + 256 + (1 KiB + 64) bytes, and the slot has more than 15 KiB below its top.
        let cell = unsafe { top.byte_sub(below_top) }.cast::<Cell<H>>();
        debug_assert!(cell.is_aligned());
        let bounds = Bounds { base: cell.addr(), limit: start };
        let run = Main::<H, F> { cell, _main: PhantomData };
        let inner = Inner::with_stack(bounds, move |link: &Link, ()| run.call(link));
        let at = cell.as_ptr();
        // SAFETY: the slot belongs to `stack`, which is ours, and is readable and writable above its guard. All is
        // aligned: `top` is a multiple of 64, each size a multiple of 64 and each alignment at most that. What `inner`
        // has already written lies below. Field by field, since a copy of the whole waits for the writes to its parts.
        unsafe {
            Label::clear(Label::of(top));
            Main::<H, F>::place(cell).write(main);
            (&raw mut (*at).header).write(header);
            (&raw mut (*at).core.inner).write(inner);
            (&raw mut (*at).core.stack).write(stack);
            (&raw mut (*at).core.link).write([ptr::null(); _]);
            (&raw mut (*at).core.running).write(false);
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

    /// Runs the coroutine until it is suspended or its function returns.
    ///
    /// # Panics
    ///
    /// When it has returned already.
    #[inline]
    pub fn resume(&mut self) -> Step {
        let core = self.core();
        if cfg!(debug_assertions) {
            // SAFETY: the cell lives at least until this call returns: only `finish` and `drop` end it, which need the
            // handle by value.
            let was_running = unsafe { (&raw mut (*core).running).replace(true) };
            assert!(!was_running, "a coroutine is resumed through a second handle while it runs");
        }
        // SAFETY: the cell is alive as above. This is the only reference to `inner`: another could only be made by a
        // `resume` nested in this one, which would need a second handle, and `from_header` promises that none is used.
        // Code that runs inside reaches other fields of `core` only.
        let inner = unsafe { &mut (*core).inner };
        let step = if inner.done() { None } else { Some(inner.resume(())) };
        if cfg!(debug_assertions) {
            // SAFETY: the cell is alive as above.
            unsafe { (*core).running = false };
        }
        match step {
            Some(CoroutineResult::Yield(())) => Step::Suspended,
            Some(CoroutineResult::Return(())) => Step::Returned,
            None => has_returned(),
        }
    }

    /// Takes apart a coroutine whose function returned.
    ///
    /// # Panics
    ///
    /// When it did not return yet; the coroutine is then dropped.
    #[inline]
    pub fn finish(self) -> (H, Stack) {
        let core = self.core();
        // SAFETY: the cell is alive, and `inner` is not in use: nothing runs inside, or this handle would be borrowed.
        let returned = unsafe { (*core).inner.done() };
        assert!(returned, "a coroutine is finished before its function returned");
        let this = ManuallyDrop::new(self);
        // SAFETY: the function returned, so nothing on the stack is in use, and nobody has a reference to the header,
        // which the function had for its duration only. Both are moved out once: the handle is gone.
        // `inner` is left alone: done, it owns nothing.
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
        // SAFETY: as in `finish`.
        let returned = unsafe { (*core).inner.done() };
        assert!(returned, "a coroutine is finished before its function returned");
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `finish`; the header is dropped instead of moved out. Should its drop panic, the stack goes
        // back to its arena.
        unsafe {
            let stack = ptr::read(&raw const (*core).stack);
            ptr::drop_in_place(&raw mut (*this.cell.as_ptr()).header);
            stack
        }
    }

    /// Gives the coroutine a number and a name for the report of a stack overflow. Names are copied up to 55 bytes.
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

/// The function of a coroutine that has not started, which lies right above its cell; owns it.
struct Main<H: 'static, F: FnOnce(&H)> {
    cell: NonNull<Cell<H>>,
    _main: PhantomData<F>,
}

impl<H: 'static, F: FnOnce(&H)> Main<H, F> {
    /// The room it takes, in whole cache lines.
    const SIZE: usize = mem::size_of::<F>().next_multiple_of(64);

    #[inline]
    fn place(cell: NonNull<Cell<H>>) -> NonNull<F> {
        // SAFETY: `Coroutine::place` leaves `SIZE` bytes above the cell, in the same slot.
        unsafe { cell.add(1) }.cast()
    }

    #[inline]
    fn call(self, link: &Link) {
        let this = ManuallyDrop::new(self);
        let cell = this.cell;
        match LINK_BELOW_BASE {
            Some(below) if ptr::from_ref(link).addr() != cell.addr().get() - below => unknown_link(),
            Some(_) => {}
            // SAFETY: this runs within the first `resume`, which holds a reference to `inner` alone. The cell stays
            // where it is until the function returned.
            None => unsafe { (*cell.as_ptr()).core.link = [link; _] },
        }
        // SAFETY: written by `Coroutine::place` and moved out here, once: `this` is not dropped, and a coroutine
        // starts once.
        let main = unsafe { Self::place(cell).read() };
        let bomb = AbortOnUnwind;
        // SAFETY: the header was written before any resume, is moved out or dropped only after this
        // function returned, and nobody makes a mutable reference to it before.
        main(unsafe { &(*cell.as_ptr()).header });
        mem::forget(bomb);
    }
}

impl<H: 'static, F: FnOnce(&H)> Drop for Main<H, F> {
    fn drop(&mut self) {
        // SAFETY: written by `Coroutine::place`, not moved out, since `call` forgets `self`, and dropped once, here.
        // This happens when corosensei drops the closure of a coroutine that never started.
        unsafe { Self::place(self.cell).drop_in_place() }
    }
}

#[cold]
#[inline(never)]
fn unknown_link() -> ! {
    eprintln!("this version of corosensei keeps its link elsewhere than segue-fiber expects; aborting");
    std::process::abort();
}

#[cold]
#[inline(never)]
fn has_returned() -> ! {
    panic!("a coroutine is resumed that has returned");
}

impl<H: 'static> Drop for Coroutine<H> {
    fn drop(&mut self) {
        /// Drops header and stack, also when dropping the function panics.
        struct Rest<H: 'static>(NonNull<Cell<H>>);
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
        // SAFETY: the cell is alive, and `inner` is not in use: nothing runs inside, or this handle would be borrowed.
        let (returned, started) = unsafe { ((*core).inner.done(), (*core).inner.started()) };
        if returned {
            drop(Rest(self.cell));
        } else if !started {
            let _rest = Rest(self.cell);
            // SAFETY: never resumed, so this drops the function where it lies on the stack and switches nowhere. It
            // makes `inner` done, so that there is nothing else to drop in it.
            unsafe { (*core).inner.force_unwind() };
        } else {
            count_leak();
        }
    }
}

impl<H: 'static + fmt::Debug> fmt::Debug for Coroutine<H> {
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
    // SAFETY: by the first clause this is a cell, by the second it is alive and its function runs, so that the link's
    // address was checked or written. It is the link at the stack's base, which lives as long as the function runs and
    // names the frame that resumed it, which waits for this by the second clause.
    unsafe {
        let link = match LINK_BELOW_BASE {
            Some(below) => cell.byte_sub(below).cast_const().cast::<Link>(),
            None => (*cell).core.link.as_slice()[0],
        };
        (*link).suspend(());
    }
}

/// Starts to fetch what a suspended coroutine touches first when it is resumed. A hint, without effect on what a program does.
///
/// With `frames`, its header and the frames nearest to the base of its stack: for coroutines that are in a cache, if not the nearest. Without, one line,
/// whose use is the walk through the page tables: with very many coroutines, each on a page of its own, that is most of what a switch
/// costs, and further lines of the same page only wait for the same walk.
#[inline]
pub fn prefetch<H: 'static>(header: NonNull<H>, frames: bool) {
    /// The cache lines from the cell up: header and coroutine.
    const ABOVE: isize = 4;
    /// The lines below it.
    const BELOW: isize = 8;
    let lines = if frames { -BELOW..ABOVE } else { 0..1 };
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
