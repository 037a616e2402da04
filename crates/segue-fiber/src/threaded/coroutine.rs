//! A function on a thread of its own that runs only while its resumer waits.
//!
//! Used by schedulers under test, through the crate's root; `native/coroutine.rs` documents the interface.
//!
//! The cell lies on the heap and the handle is a pointer to the header at its start, as on real stacks. Resuming
//! passes the baton and waits for it; suspending passes it back. An outer coroutine may be suspended from an inner
//! one's thread: that thread then waits for the outer's baton. A coroutine that is dropped while suspended leaks its
//! cell and its thread, which waits for ever.

#![allow(unsafe_code)] // The cell is reached by raw pointers from two threads in turn.

use std::fmt;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::thread::{self, JoinHandle};

use super::baton::{Baton, State};
use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::chain;
use crate::outcome::{AbortOnUnwind, Step, count_leak};

/// The largest header, as on real stacks.
pub(crate) const LARGEST_HEADER: usize = 1024;

/// The cell of a coroutine. The header comes first, as on real stacks, and each part is reached on its own.
#[repr(C)]
struct Cell<H> {
    header: H,
    core: Core,
}

struct Core {
    baton: Baton,
    stack: Stack,
    /// The function, until the first resume.
    main: Option<Box<dyn FnOnce()>>,
    /// From the first resume until the function returned.
    thread: Option<JoinHandle<()>>,
}

/// A function on a thread of its own: the stand-in for a function on a stack of its own.
///
/// It is one pointer. It stays with its thread. Dropped before its first resume or after its end, it drops
/// what it has; dropped while suspended, it leaks its thread with all that is on it, see
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

/// What a coroutine's thread does: run the function, then pass the baton back for good.
struct Job {
    main: Box<dyn FnOnce()>,
    baton: NonNull<Baton>,
}

// SAFETY: strictly, what a function captures need not be fit for another thread. But the thread runs only while the
// one that passed it waits, and the mutex of the baton orders what they do; so that reference counts and cells are
// never used at once. What remains, values tied to one thread's local variables, is why this host is for tests. The
// baton may be used from any thread.
unsafe impl Send for Job {}

impl Job {
    fn run(self) {
        (self.main)();
        // SAFETY: the cell with the baton lives until its function returned and this thread was joined.
        unsafe { self.baton.as_ref() }.set(State::Returned);
    }
}

impl<H> Coroutine<H> {
    /// `main` is called with the header at the first [`resume`](Self::resume). It must not panic: the process aborts.
    pub fn new<F: FnOnce(&H) + 'static>(stack: Stack, header: H, main: F) -> Coroutine<H>
    where
        H: 'static,
    {
        const {
            assert!(size_of::<H>() <= LARGEST_HEADER, "the header of a coroutine is larger than 1 KiB");
            assert!(align_of::<H>() <= 64, "the header of a coroutine is aligned to more than 64");
        }
        // SAFETY: nothing here borrows.
        unsafe { Self::new_borrowing(stack, header, main) }
    }

    /// As [`new`](Self::new), for what borrows.
    ///
    /// # Safety
    ///
    /// The coroutine is not resumed after what `header` and `main` borrow has ended, and neither dropped before it was started.
    pub(crate) unsafe fn new_borrowing<F: FnOnce(&H)>(stack: Stack, header: H, main: F) -> Coroutine<H> {
        let core = Core { baton: Baton::new(), stack, main: None, thread: None };
        let cell = NonNull::from(Box::leak(Box::new(Cell { header, core })));
        let run: Box<dyn FnOnce() + '_> = Box::new(move || {
            let bomb = AbortOnUnwind;
            // SAFETY: runs within a `resume`, so that the cell is alive until the function returned; nobody makes a
            // mutable reference to the header before.
            main(unsafe { &(*cell.as_ptr()).header });
            mem::forget(bomb);
        });
        // SAFETY: only the lifetime changes, for which the caller of this function answers.
        let run = unsafe { mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(run) };
        // SAFETY: the cell is new and known to nobody else.
        unsafe { (*cell.as_ptr()).core.main = Some(run) };
        Coroutine { cell, _header: PhantomData }
    }

    fn baton(&self) -> &Baton {
        // SAFETY: the cell lives as long as `self`, and its baton is only shared.
        unsafe { &(*self.cell.as_ptr()).core.baton }
    }

    /// The header.
    pub fn header(&self) -> &H {
        // SAFETY: the cell lives as long as `self`, and there are only shared references to its header.
        unsafe { &(*self.cell.as_ptr()).header }
    }

    /// The pointer that stands for this coroutine in [`suspend`] and [`from_header`](Self::from_header).
    pub fn header_ptr(&self) -> NonNull<H> {
        self.cell.cast()
    }

    /// Gives up the handle, not the coroutine: [`from_header`](Self::from_header) makes a handle again.
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
    pub unsafe fn from_header(header: NonNull<H>) -> Coroutine<H> {
        Coroutine { cell: header.cast(), _header: PhantomData }
    }

    /// What switches need of the coroutine, whatever its header.
    pub(crate) fn raw(&self) -> RawCoroutine {
        // SAFETY: a place in the cell, which is not at null.
        RawCoroutine(unsafe { NonNull::new_unchecked(&raw mut (*self.cell.as_ptr()).core) })
    }

    /// Runs the coroutine until it is suspended or its function returns.
    ///
    /// Effect handlers around this call are not those of what runs inside; see [`effect`](crate::effect).
    ///
    /// # Panics
    ///
    /// When it has returned already, or when the system has no more threads.
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

    /// Takes apart a coroutine whose function returned.
    ///
    /// # Panics
    ///
    /// When it did not return yet; the coroutine is then dropped.
    pub fn finish(self) -> (H, Stack) {
        assert!(self.baton().state() == State::Returned, "a coroutine is finished before its function returned");
        let this = ManuallyDrop::new(self);
        // SAFETY: made by `Box::leak`; the function returned and its thread was joined, so that this is the last
        // pointer.
        let cell = *unsafe { Box::from_raw(this.cell.as_ptr()) };
        (cell.header, cell.core.stack)
    }

    /// Takes apart a coroutine whose function returned, and drops the header.
    ///
    /// # Panics
    ///
    /// When it did not return yet; the coroutine is then dropped.
    pub fn into_stack(self) -> Stack {
        self.finish().1
    }

    /// An empty backtrace that says why it is empty.
    pub fn backtrace(&self) -> Backtrace {
        // SAFETY: it has no conditions here.
        unsafe { self.raw().backtrace() }
    }

    /// Does nothing: a thread's stack is guarded by std.
    pub fn set_label(&self, _id: u64, _name: Option<&str>) {}
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
    pub unsafe fn resume(self) -> Step {
        let core = self.0.as_ptr();
        // SAFETY: the cell is alive, and its baton is only shared.
        let baton = unsafe { &(*core).baton };
        match baton.state() {
            State::New => {
                // SAFETY: the cell is alive, and before the first resume only the handle's owner uses these fields.
                let (main, usable) = unsafe { ((*core).main.take(), (*core).stack.arena().usable_size()) };
                let job = Job { main: main.expect("a new coroutine has its function"), baton: NonNull::from(baton) };
                baton.set(State::Running);
                let thread = thread::Builder::new()
                    .stack_size(usable.max(1 << 20))
                    .spawn(move || job.run())
                    .expect("the system has no thread for another coroutine");
                // SAFETY: only the handle's owner uses this field.
                unsafe { (*core).thread = Some(thread) };
            }
            State::Suspended => baton.set(State::Running),
            State::Running | State::Returned => {
                panic!("a coroutine is resumed that has returned or is running")
            }
        }
        if baton.wait_while_running() == State::Suspended {
            return Step::Suspended;
        }
        // SAFETY: only the handle's owner uses this field.
        let thread = unsafe { (*core).thread.take() };
        // Ends at once, after the destructors of its local variables.
        let _ = thread.expect("a running coroutine has a thread").join();
        Step::Returned
    }

    /// As [`Coroutine::backtrace`].
    ///
    /// # Safety
    ///
    /// None on this host.
    pub unsafe fn backtrace(self) -> Backtrace {
        Backtrace::empty(super::NO_TRACES)
    }

    /// As [`suspend`], and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`suspend`], from the second clause on.
    pub unsafe fn suspend(self) {
        // SAFETY: by the first clause this is a core whose function has not returned, so that it is alive; the baton is only shared.
        unsafe { &(*self.0.as_ptr()).baton }.suspend();
    }
}

impl<H> Drop for Coroutine<H> {
    fn drop(&mut self) {
        match self.baton().state() {
            // SAFETY: made by `Box::leak`; no thread was started, or it was joined, so that this is the last pointer.
            State::New | State::Returned => drop(unsafe { Box::from_raw(self.cell.as_ptr()) }),
            State::Running | State::Suspended => count_leak(),
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
/// - The coroutine is running, and the caller runs inside it: on its thread, or on the thread of one that was
///   resumed by code inside it and has not been suspended or returned since.
/// - Whatever is borrowed across the call survives what others do meanwhile.
pub unsafe fn suspend<H: 'static>(header: NonNull<H>) {
    let cell = header.cast::<Cell<H>>().as_ptr();
    // SAFETY: by the first clause this is a cell, by the second it is alive. The rest is the caller's.
    chain::without_handlers(|| unsafe { RawCoroutine(NonNull::new_unchecked(&raw mut (*cell).core)).suspend() });
}

/// On this host there is nothing to fetch.
pub fn prefetch<H: 'static>(_header: NonNull<H>, _whole: bool) {}
