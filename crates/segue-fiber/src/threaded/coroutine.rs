//! A coroutine on the host with a thread for each: a cell on the heap, and a thread that runs only
//! while its resumer waits.
//!
//! Used by `crate::coroutine`, which has the handle and the states; `native/coroutine.rs` is the
//! real one.
//!
//! Resuming passes the baton and waits for its return; suspending passes it back. An outer
//! coroutine may be suspended from an inner one's thread: that thread then waits for the outer's
//! baton. A coroutine that is dropped while suspended leaks its cell and its thread, which waits
//! for ever.

#![allow(unsafe_code)] // The cell is reached by raw pointers from two threads in turn.

use std::mem;
use std::ptr::NonNull;
use std::thread::{self, JoinHandle};

use super::baton::{Baton, State};
use super::copies::{Copied, StackCopies};
use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::coroutine::Cell;
use crate::outcome::{Main, Step, count_leak, run_main};
use segue_core::switch::{NO_WORDS, Switch, Words};

/// The part that every coroutine has, with any header.
pub(crate) struct Core {
    baton: Baton,
    /// The word that came along when the baton was passed back last.
    words: Words,
    stack: Stack,
    /// The function, until the first resume.
    main: Option<Box<dyn FnOnce()>>,
    /// From the first resume until the function returned.
    thread: Option<JoinHandle<()>>,
}

/// The work of a coroutine's thread: run the function, then pass the baton back for good.
struct Job {
    main: Box<dyn FnOnce()>,
    baton: NonNull<Baton>,
}

// SAFETY: strictly, the captures of a function need not be fit for another thread. But the thread
// runs only while the thread that passed the baton waits, and the mutex of the baton orders the
// two; so that reference counts and cells are never used at once. Values tied to one thread's local
// variables remain, and are the reason that this host is for tests. The baton may be used from any
// thread.
unsafe impl Send for Job {}

impl Job {
    fn run(self) {
        (self.main)();
        // SAFETY: the cell with the baton lives until its function returned and this thread was
        // joined.
        unsafe { self.baton.as_ref() }.set(State::Returned);
    }
}

/// Puts a coroutine into a cell.
///
/// # Safety
///
/// The contract of `Coroutine::new_borrowing`.
pub(crate) unsafe fn place<H>(stack: Stack, header: H, main: impl Main<H>) -> NonNull<Cell<H>> {
    let core = Core { baton: Baton::new(), words: NO_WORDS, stack, main: None, thread: None };
    let cell = NonNull::from(Box::leak(Box::new(Cell { header, core })));
    // A large function is not to be copied on the thread's stack by each caller.
    let main = main.boxed();
    let run: Box<dyn FnOnce() + '_> = Box::new(move || {
        // SAFETY: runs within a `resume`, so that the cell is alive until the function returned;
        // nobody makes a mutable reference to the header before.
        run_main(|| main.run(unsafe { &(*cell.as_ptr()).header }));
    });
    // SAFETY: only the lifetime changes, for which the caller of this function answers.
    let run = unsafe { mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(run) };
    // SAFETY: the cell is new and known to nobody else.
    unsafe { (*cell.as_ptr()).core.main = Some(run) };
    cell
}

/// A coroutine without the type of its header: the part that switches need. The raw form keeps
/// nothing alive.
#[derive(Clone, Copy)]
pub(crate) struct RawCoroutine(pub NonNull<Core>);

impl RawCoroutine {
    /// As [`Coroutine::resume`](crate::Coroutine::resume), and leaves the chain of effect handlers
    /// alone.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished before this returns, and nobody else resumes
    /// the coroutine meanwhile. The thread is the creator's.
    pub unsafe fn resume(self) -> Step {
        // SAFETY: by the contract.
        unsafe { self.resume_hearing().0 }
    }

    /// As [`resume`](Self::resume). With the word that the coroutine has
    /// [said](Self::suspend_saying), if suspended so.
    ///
    /// # Safety
    ///
    /// As for `resume`.
    pub unsafe fn resume_hearing(self) -> (Step, Words) {
        let core = self.0.as_ptr();
        // SAFETY: the cell is alive, and its baton is only shared.
        let baton = unsafe { &(*core).baton };
        match baton.state() {
            State::New => {
                // SAFETY: the cell is alive, and before the first resume only the handle's owner
                // uses these fields.
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
            // SAFETY: written before the baton was passed back, and the other thread waits.
            return (Step::Suspended, unsafe { (*core).words });
        }
        // SAFETY: only the handle's owner uses this field.
        let thread = unsafe { (*core).thread.take() };
        // Ends at once, after the destructors of its local variables.
        let _ = thread.expect("a running coroutine has a thread").join();
        (Step::Returned, NO_WORDS)
    }

    /// As [`Coroutine::copy_stack`](crate::Coroutine::copy_stack).
    ///
    /// # Safety
    ///
    /// None.
    pub unsafe fn copy_stack(self, _copies: &mut StackCopies) -> Option<Copied> {
        Some(Copied)
    }

    /// As [`Coroutine::backtrace`](crate::Coroutine::backtrace).
    ///
    /// # Safety
    ///
    /// None on this host.
    pub unsafe fn backtrace(self) -> Backtrace {
        Backtrace::empty(super::NO_TRACES)
    }

    /// As [`suspend`](crate::suspend), and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`suspend`](crate::suspend), from the second clause on.
    pub unsafe fn suspend(self) {
        // SAFETY: by the first clause the core's function has not returned, so that the core is
        // alive; the baton is only shared.
        unsafe { &(*self.0.as_ptr()).baton }.suspend();
    }

    /// As [`suspend`](Self::suspend), and tells the resumer something.
    ///
    /// # Safety
    ///
    /// As for [`suspend`](crate::suspend), from the second clause on.
    pub unsafe fn suspend_saying(self, words: Words) {
        // SAFETY: the core is alive, and the resumer's thread, which reads this, waits.
        unsafe {
            (&raw mut (*self.0.as_ptr()).words).write(words);
            self.suspend();
        }
    }

    /// As [`begin_suspend`](crate::begin_suspend), and leaves the chain of effect handlers alone.
    ///
    /// # Safety
    ///
    /// As for [`begin_suspend`](crate::begin_suspend), from the second clause on.
    pub unsafe fn begin_suspend(self) -> Option<Switch> {
        // SAFETY: the caller's.
        unsafe { self.suspend() };
        None
    }

    /// As [`pass_on`](crate::pass_on): never called on this host.
    ///
    /// # Safety
    ///
    /// As for [`pass_on`](crate::pass_on).
    pub unsafe fn pass_on(self, _to: Self) -> Switch {
        unreachable!("a thread that waits for a coroutine's thread waits for that one")
    }

    /// Whether its function returned.
    ///
    /// # Safety
    ///
    /// The coroutine is neither dropped nor finished.
    pub unsafe fn has_returned(self) -> bool {
        // SAFETY: the cell is alive, and its baton is only shared.
        unsafe { &(*self.0.as_ptr()).baton }.state() == State::Returned
    }

    /// Does nothing: a thread's stack is guarded by std.
    ///
    /// # Safety
    ///
    /// None on this host.
    pub unsafe fn set_label(self, _id: u64, _name: Option<&str>) {}
}

/// Moves header and stack out.
///
/// # Safety
///
/// The coroutine's function returned, and nobody uses the cell any more. Once.
pub(crate) unsafe fn take_apart<H>(cell: NonNull<Cell<H>>) -> (H, Stack) {
    // SAFETY: made by `Box::leak`; the function returned and its thread was joined, so that this is
    // the last pointer.
    let cell = *unsafe { Box::from_raw(cell.as_ptr()) };
    (cell.header, cell.core.stack)
}

/// Drops the header, and moves the stack out.
///
/// # Safety
///
/// As for [`take_apart`].
pub(crate) unsafe fn into_stack<H>(cell: NonNull<Cell<H>>) -> Stack {
    // SAFETY: by the contract.
    unsafe { take_apart(cell) }.1
}

/// The drop of a handle.
///
/// # Safety
///
/// The coroutine does not run, and nobody uses the cell any more, other than the frames suspended
/// there. Once.
pub(crate) unsafe fn let_go<H>(cell: NonNull<Cell<H>>) {
    // SAFETY: the cell is alive, and its baton is only shared.
    match unsafe { &(*cell.as_ptr()).core.baton }.state() {
        // SAFETY: made by `Box::leak`; no thread was started, or the thread was joined, so that
        // this is the last pointer.
        State::New | State::Returned => drop(unsafe { Box::from_raw(cell.as_ptr()) }),
        State::Running | State::Suspended => count_leak(),
    }
}

/// On this host each coroutine goes back to its resumer.
pub const PASSES_ON: bool = false;

/// On this host there is nothing to fetch.
pub fn prefetch<H: 'static>(_header: NonNull<H>, _whole: bool) {}

/// On this host there is nothing to fetch.
///
/// # Safety
///
/// None is needed here.
pub unsafe fn prefetch_frames<H: 'static>(_header: NonNull<H>) {}
