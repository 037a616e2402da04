//! One turn of a worker: the next fiber or closure of its policy, on a stack, until the fiber
//! suspends or ends.
//!
//! Used by the worker loop.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::recorder::Leaves;
use crate::worker::common::{Whole, set_worker};
use crate::worker::header::{Coroutine, Header};
use crate::worker::inbox::Letter;
use crate::worker::local::{COUNT, Local};
use crate::worker::policy::{Policy, Started, Task};
use segue_core::Fiber;
use segue_core::scheduling::{Job, Scheduler};
use segue_fiber::{Stack, thread_stacks};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// Up to so many fibers are taken to be in reach of the translation caches, so that fetching more
/// than a line of each pays off.
const FEW: usize = 2048;

/// How many turns ahead a fiber's header is fetched. Measured with 1,000 and 100,000 fibers: 4 and
/// 8 were best, 16 and more lost.
const AHEAD: usize = 4;

/// How many turns ahead the frames are fetched in which a fiber goes on. The header says where they
/// are, and has to be there by then.
const SOON: usize = 1;

impl<P: Policy> Local<P> {
    #[inline]
    pub(crate) fn next(&self) -> Option<Task> {
        let mut policy = self.policy.borrow_mut();
        let task = policy.pop();
        if let Some(Task::Started(_)) = task {
            self.held.set(self.held.get().wrapping_sub(1));
        }
        self.fetch_ahead(&policy);
        task
    }

    #[inline(always)]
    pub(super) fn fetch_ahead(&self, policy: &P) {
        if let Some(upcoming) = policy.upcoming(AHEAD) {
            upcoming.prefetch(self.common.remote().beat.fibers() <= FEW);
            if let Some(soon) = policy.upcoming(SOON) {
                soon.prefetch_frames();
            }
        }
    }

    /// The closure that the policy has given out to a fiber that passed its turn on: it is to
    /// start.
    #[inline]
    pub(crate) fn given_out(&self) -> Option<Task> {
        self.next.take().map(Task::Fresh)
    }

    /// Reads the mail, if there is any.
    #[inline]
    pub(crate) fn read_mail(&self) {
        if !self.common.remote().inbox.is_empty() {
            self.drain();
        }
    }

    /// Runs a task until the task suspends or ends.
    ///
    /// Inlined into the loop, as is `switch_to`: a return on the worker's side, after fibers have
    /// called and returned on theirs, is one that the processor predicts wrongly (measured: a third
    /// of a ping-pong).
    #[inline(always)]
    pub(crate) fn run(&self, task: Task) {
        match task {
            Task::Started(started) => {
                let header = self.ours(started);
                // SAFETY: a `Started` is the right to run that fiber, which is this worker's.
                let _ = self.switch_to(unsafe { Coroutine::from_header(header) }, 0);
            }
            Task::Fresh(job) => self.start(job),
        }
    }

    /// A fiber that the policy gave out, which must be one of this worker's.
    #[inline(always)]
    pub(super) fn ours(&self, started: Started) -> NonNull<Header> {
        let header = started.into_header();
        // SAFETY: a fiber that is ready has not ended, so its header is in place.
        let worker = unsafe { header.as_ref() }.worker.get();
        assert!(ptr::addr_eq(worker, &self.common), "a policy gave out a fiber of another worker");
        header
    }

    #[inline(always)]
    pub(super) fn start(&self, job: Job) {
        let Some(stack) = self.stack_for(&job) else { return self.starve(job) };
        let closure = job.as_raw().addr().get();
        let fiber = self.fiber_for(stack, job);
        if P::simulates() {
            self.policy.borrow_mut().begins(&fiber.header().fiber);
        }
        if !self.switch_to(fiber, closure) {
            self.common.remote().beat.settle();
        }
    }

    #[inline(always)]
    pub(super) fn stack_for(&self, job: &Job) -> Option<Stack> {
        let pooled = if job.stack_size().is_none() { self.stacks.borrow_mut().pop() } else { None };
        pooled.or_else(|| self.new_stack(job))
    }

    /// The fiber that runs this closure, of this worker from now on.
    #[inline(always)]
    pub(super) fn fiber_for(&self, stack: Stack, mut job: Job) -> Coroutine {
        let number = self.started.get();
        self.started.set(number + 1);
        let scheduler = NonNull::from(self as &dyn Scheduler);
        let id = (self.common.index as u64) << 48 | number & ((1 << COUNT) - 1);
        let header = Header {
            // SAFETY: the worker outlives its fibers: its loop ends when none is left. The fiber
            // keeps the job, below, and runs it.
            fiber: unsafe { Fiber::for_job(scheduler, id, &mut job) },
            letter: Letter::new(),
            worker: Cell::new(ptr::from_ref(self).cast()),
            seat: Cell::new(0),
        };
        let fiber = Coroutine::new(stack, header, main);
        fiber.set_label(id, fiber.header().fiber.name());
        fiber.header().fiber.set_number(number);
        // SAFETY: this is the fiber's scheduler, the fiber has not run yet, and is struck off at
        // its end.
        unsafe {
            self.common.enrol(fiber.header_ptr());
            fiber.header().fiber.set_host(fiber.header_ptr().as_ptr().cast());
            fiber.header().fiber.keep_job(job);
        }
        fiber
    }

    #[cold]
    pub(super) fn new_stack(&self, job: &Job) -> Option<Stack> {
        match job.stack_size() {
            None => self.stacks.borrow_mut().take().ok(),
            size => thread_stacks::take_of(size).ok(),
        }
    }

    /// Makes sure that the next fiber finds a stack.
    pub(crate) fn reserve_stack(&self) -> std::io::Result<()> {
        let mut stacks = self.stacks.borrow_mut();
        let stack = stacks.take()?;
        stacks.put(stack);
        Ok(())
    }

    /// No stack: somebody else may have one, or this worker later.
    #[cold]
    pub(super) fn starve(&self, job: Job) {
        self.starved.set(true);
        self.common.group.put_back(job);
    }

    pub(crate) fn is_starved(&self) -> bool {
        self.starved.get()
    }

    /// Lets the worker try again to get a stack.
    pub(crate) fn feed(&self) {
        self.starved.set(false);
    }

    /// Runs a fiber, which was just made of this closure, or of none. Answers whether the fiber has
    /// ended, in this turn.
    #[inline(always)]
    pub(super) fn switch_to(&self, mut fiber: Coroutine, closure: usize) -> bool {
        let turn = self.common.turns.get();
        if self.common.pen.is_due() {
            self.common.pen.begins(&fiber.header().fiber, closure, turn);
        }
        self.runs.set(fiber.header_ptr());
        // A worker inside of one of these fibers may have left its own behind.
        // SAFETY: this worker runs on this thread, in a loop that ends by setting another. The
        // header stays in place while it is current: the fiber ends after the one before is current
        // again.
        let before = unsafe {
            set_worker(ptr::from_ref(self).cast());
            segue_core::scheduling::set_current(&raw const fiber.header().fiber)
        };
        // Something may wait in `next` still: a driven scheduler begins with a closure of its own,
        // before its loop looks.
        let next = self.next.take();
        self.passes_on.set(before.is_null() && next.is_none());
        self.next.set(next);
        // SAFETY: worker loops run outside of handlers.
        let _ = unsafe { fiber.resume_outside() };
        // SAFETY: this one was current until the fiber's turn.
        unsafe { segue_core::scheduling::set_current(before) };
        let _ = fiber.into_header();
        // The fiber may have passed its turn on.
        // SAFETY: the fiber that came back has a header and no other handle, and rests.
        let last = unsafe { Coroutine::from_header(self.runs.get()) };
        if !last.has_returned() {
            let _ = last.into_header();
            return false;
        }
        if self.common.pen.is_on() {
            self.common.pen.left(&last.header().fiber, Leaves::Ends);
        }
        self.bury(last);
        self.common.turns.get() == turn
    }

    #[inline(always)]
    pub(super) fn bury(&self, fiber: Coroutine) {
        // The fiber has left its contexts, so nobody posts the letter any more; but an interrupt
        // may still be under way.
        self.common.await_letter(fiber.header());
        self.common.strike(fiber.header());
        self.stacks.borrow_mut().put(fiber.into_stack());
        self.starved.set(false);
    }

    /// Gives back the memory that idle fibers left behind.
    pub(crate) fn trim(&self) {
        self.common.ebb();
        while self.stacks.borrow_mut().trim() && !self.common.remote().inbox.has_mail() {}
    }
}

/// The function in which a fiber's stack begins.
#[inline]
fn main(header: &Header) {
    // On the thread-backed host each fiber has thread-local variables of its own.
    // SAFETY: worker and header are in place until the fiber has ended, and the worker sets
    // the one before.
    unsafe {
        set_worker(header.worker.get().cast());
        segue_core::scheduling::set_current(&raw const header.fiber);
    }
    // SAFETY: the job is this fiber's own, and kept there since the fiber was made.
    unsafe { header.fiber.begin() }.run();
}
