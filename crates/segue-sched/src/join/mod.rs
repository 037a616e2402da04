//! Fork-join: `join(a, b)` runs `a` at once and keeps `b` at hand, so that an idle worker can have
//! `b`.
//!
//! Used by applications for parallel computation; the worker loop and the contract's `suspend` meet
//! the join at two places.
//!
//! # The idea
//!
//! Most children are never stolen, so forking must cost no more than noting that `b` exists. Each
//! worker has a private stack of notes, which its thread alone touches: `join` pushes one, runs
//! `a`, and pops that; if the note is still there, `b` is run in place, on the parent's stack, as a
//! plain call. Nothing is allocated and nothing is atomic but one relaxed load, which sees whether
//! somebody wants the worker.
//!
//! A note leaves the private stack in two ways, both by the parent's own thread. If an idle worker
//! has begged, the parent *exposes* the oldest note (the biggest piece of work, as a rule): the
//! note goes to the worker's shelf as a job. If the parent is about to suspend inside of `a`, all
//! its notes are exposed, since nobody knows when the parent goes on, and `a` may well wait for an
//! act of `b`.
//!
//! # States of a child
//!
//! ```text
//!   private --pop--> run in place                   (the common case)
//!   private --expose--> on the shelf --reclaim--> run in place
//!                                    \--taken---> runs on a fiber of its own --> done: the parent goes on
//! ```
//!
//! The private notes all belong to the running fiber: a fiber that suspends leaves none behind.
//! They are numbered from `bottom`, the oldest that is still private, to `top`; a note with a
//! number below `bottom` was exposed.
//!
//! **A fiber of another scheduler** may run in one of the worker's, as on a thread. Such a fiber
//! suspends unseen by this worker, and so leaves no note here: its join runs in place.
//!
//! **No fiber, but a worker's thread**: code that a fiber runs as a plain thread does
//! (`run_as_thread`, `blocking_here`, a blocking call for which no thread can be had) blocks the
//! worker in its waits, so its note would stay private for as long as `a` waits, perhaps for `b`.
//! Its join gets a scheduler of one worker for itself, on this thread, and both halves are fibers
//! there.
//!
//! **Without a stack**, a child that was taken lies on the outside shelf until one is free. There
//! the parent finds the child, and runs that. If the parent waits already, then perhaps on the very
//! stack that is missing. So it marks the child as *awaited* before looking on that shelf. A worker
//! that can't start a child looks for the mark under that shelf's lock, and drops an awaited one:
//! the drop wakes the parent, and the parent runs the child. One of the two sees the other.
//!
//! **Commit point**: pop, reclaim under the shelf's lock, or the taking off the shelf.
//! **Cancellation** has *no effect* on a join: both closures are run, and see the cancellation at
//! their own waits. **The race to fear**: the parent's frame ends while a thief runs the child out
//! of that frame. This can't happen: the parent waits, shielded, for `done`, also when `a`
//! panicked; the thief's signal of `done` is its last touch of the frame.
//!
//! The lazy exposure on request follows the prototypes behind the design (private deques with steal
//! requests, in the manner of Acar, Charguéraud and Rainey, "Scheduling parallel programs by work
//! stealing with private deques", 2013).
#![allow(unsafe_code)] // Notes name frames of the parents.

pub(crate) mod context;

use crate::worker::common::{Common, with_caller};
use crate::worker::forks::Note;
use crate::worker::residents;
use crate::worker::stack_job::StackJob;
use segue_core::WaitsFor;
use segue_core::chain::{self, barrier};
use segue_core::scheduling::{Job, Place};
use segue_core::unwind::{NoUnwind, contain};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// The number of a parent's looks for the end of a stolen child, before a suspension: about the
/// time of a suspension and a resume by mail.
const LOOKS: u32 = 32;

/// A child with its note.
#[repr(C)] // The note comes first: the ring holds its address.
struct Child<B, RB> {
    note: Note,
    job: StackJob<B, RB>,
}

impl Common {
    /// Somebody wants this worker: an idle worker, which gets the oldest note, or a closure from
    /// outside or from another worker's policy, which gets a turn.
    #[cold]
    #[inline(never)]
    fn attend(&self) {
        if self.group.outside.seems_to_hold() || self.remote().sent.seems_to_hold() {
            self.remote().set_wanted(false);
            // A panicking fiber goes on without giving up its turn.
            self.displaced.set(true);
            let yielded = segue_core::in_fiber() && segue_core::shield(segue_core::yield_now).is_ok();
            self.displaced.set(false);
            if !yielded {
                self.give();
            } else if self.group.has_sleepers() {
                // One of them may have wanted a child; the next fork gives one.
                self.remote().put_off();
            }
        } else {
            self.give();
        }
    }

    /// Not inlined, so that this function recurs in a recursive program, with the program's own
    /// inlined: the callers' frames are small, and leaves of the recursion are no calls.
    #[inline(never)]
    pub(crate) fn fork<RA, RB: Send>(&self, a: impl FnOnce() -> RA, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
        if chain::top().is_null() { self.fork_here(a, b) } else { self.fork_surrounded(a, b) }
    }

    #[inline(always)]
    fn fork_here<B: FnOnce() -> RB + Send, RA, RB: Send>(&self, a: impl FnOnce() -> RA, b: B) -> (RA, RB) {
        if !self.runs_caller() {
            return fork_outside(a, b);
        }
        let note = Note { expose: expose::<B, RB>, place: Place::here() };
        let child = Child { note, job: StackJob::new(b) };
        // SAFETY: the child begins with its note, and stays in this frame until the note was popped
        // below, or the child that was exposed has run or come back.
        let number = unsafe { self.forks.push(NonNull::from(&child).cast()) };
        if self.remote().is_wanted() {
            self.attend();
        }
        let a = catch_unwind(AssertUnwindSafe(a));
        // SAFETY: the number is the one above, and `a` has popped its own notes.
        let private = unsafe { self.forks.pop(number) };
        match a {
            // SAFETY: nobody else knows the child any more.
            Ok(a) if private => (a, unsafe { child.job.call() }),
            Ok(a) => (a, self.fetch(&child.job).unwrap_or_else(|payload| resume_unwind(payload))),
            Err(payload) => {
                match private {
                    // SAFETY: as above.
                    true => unsafe { child.job.discard() },
                    // Its panic, or that of its drop, is the second one.
                    false => _ = contain(|| drop(self.fetch(&child.job))),
                }
                resume_unwind(payload)
            }
        }
    }

    /// Forks behind a barrier, both halves with their heritage. Else an effect in `a` could capture
    /// the parent's frame, which would be left in the ring, or go on elsewhere, while `b` runs in
    /// contexts that end meanwhile.
    #[cold]
    #[inline(never)]
    fn fork_surrounded<RA, RB: Send>(&self, a: impl FnOnce() -> RA, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
        // SAFETY: the join ends after its halves, and is captured neither without them nor with
        // them.
        let (a, b) = unsafe { heirs(a, b) };
        barrier(WaitsFor::new("a join"), || self.fork_here(a, b))
    }

    /// Runs `a` with `b` at hand, for a caller that would rather have `b` back than run here:
    /// `None` says that nobody has taken `b`. Then `b` was dropped and not called. If somebody has,
    /// `gone` is called after `a`, before the wait.
    #[inline]
    pub(crate) fn fork_or_keep<RA, RB: Send>(
        &self,
        a: impl FnOnce() -> RA,
        b: impl FnOnce() -> RB + Send,
        gone: impl FnOnce(),
    ) -> (RA, Option<RB>) {
        match chain::top().is_null() {
            true => self.fork_or_keep_here(a, b, gone),
            false => self.fork_or_keep_surrounded(a, b, gone),
        }
    }

    #[inline(always)]
    fn fork_or_keep_here<B: FnOnce() -> RB + Send, RA, RB: Send>(
        &self,
        a: impl FnOnce() -> RA,
        b: B,
        gone: impl FnOnce(),
    ) -> (RA, Option<RB>) {
        let note = Note { expose: expose::<B, RB>, place: Place::here() };
        let child = Child { note, job: StackJob::new(b) };
        // SAFETY: the child begins with its note, and stays in this frame until the note was popped
        // below, or the child that was exposed has run or come back.
        let number = unsafe { self.forks.push(NonNull::from(&child).cast()) };
        let a = catch_unwind(AssertUnwindSafe(a));
        // SAFETY: the number is the one above, and `a` has popped its own notes.
        let private = unsafe { self.forks.pop(number) };
        if private || self.take_child_back(&child.job) {
            // SAFETY: nobody else knows the child any more.
            unsafe { child.job.discard() };
            return (a.unwrap_or_else(|payload| resume_unwind(payload)), None);
        }
        // The child uses this frame.
        let no_unwind = NoUnwind::new("a step of a parallel loop panicked");
        gone();
        no_unwind.disarm();
        // SAFETY: the child was exposed, and its job is not on the shelf.
        let Some(b) = (unsafe { self.wait_for_child(&child.job, WaitsFor::new("the rest of a parallel loop")) }) else {
            // SAFETY: the child came back, so that nobody else knows it any more.
            unsafe { child.job.discard() };
            return (a.unwrap_or_else(|payload| resume_unwind(payload)), None);
        };
        match (a, b) {
            (Ok(a), Ok(b)) => (a, Some(b)),
            (Ok(_), Err(payload)) => resume_unwind(payload),
            (Err(payload), b) => {
                contain(|| drop(b));
                resume_unwind(payload)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn fork_or_keep_surrounded<RA, RB: Send>(
        &self,
        a: impl FnOnce() -> RA,
        b: impl FnOnce() -> RB + Send,
        gone: impl FnOnce(),
    ) -> (RA, Option<RB>) {
        // SAFETY: as in `fork_surrounded`.
        let (a, b) = unsafe { heirs(a, b) };
        barrier(WaitsFor::new("a parallel loop"), || self.fork_or_keep_here(a, b, gone))
    }

    /// Takes a child that was exposed off the shelf, if still there.
    #[cold]
    fn take_child_back<B: FnOnce() -> RB, RB>(&self, child: &StackJob<B, RB>) -> bool {
        let Some(job) = self.reclaim(child.header()) else { return false };
        let _ = job.into_raw();
        // SAFETY: the child was on the shelf, so nobody has started it, and was taken off.
        unsafe { child.unmake() };
        true
    }

    /// The result of a child that was exposed: by a run, if the child is still on the shelf or
    /// comes back, else by a wait.
    #[cold]
    fn fetch<B: FnOnce() -> RB, RB>(&self, child: &StackJob<B, RB>) -> std::thread::Result<RB> {
        let result = match self.take_child_back(child) {
            true => None,
            // SAFETY: the child was exposed, and its job is not on the shelf.
            false => unsafe { self.wait_for_child(child, WaitsFor::new("the other half of a join")) },
        };
        // SAFETY: the child was taken back, so that nobody else knows it any more.
        result.unwrap_or_else(|| catch_unwind(AssertUnwindSafe(|| unsafe { child.call() })))
    }

    /// Waits for a child that was taken. `None` if the child came back, since nobody had a stack:
    /// then nobody else knows the child any more.
    ///
    /// If another worker runs a child as short as the parent's own half, the child is about to be
    /// over: the parent looks for that before a suspension, unless its worker has something else to
    /// do.
    ///
    /// # Safety
    /// The child was exposed and not taken back; called once.
    unsafe fn wait_for_child<B: FnOnce() -> RB, RB>(
        &self,
        child: &StackJob<B, RB>,
        what: WaitsFor,
    ) -> Option<std::thread::Result<RB>> {
        let mut looks = if self.group.len() == 1 || cfg!(loom) { 0 } else { LOOKS };
        // SAFETY: as the caller promises.
        while looks > 0 && !unsafe { child.has_run() } && !self.has_business() {
            looks -= 1;
            std::hint::spin_loop();
        }
        // SAFETY: as above; nobody takes the child back but this.
        unsafe {
            child.set_awaited();
            if let Some(job) = self.group.take_homeless(child.header()) {
                let _ = job.into_raw();
                child.unmake();
                return None;
            }
            child.wait_or_take_back(what)
        }
    }
}

/// A join on a worker's thread by code that is no fiber of that worker.
#[cold]
#[inline(never)]
fn fork_outside<RA, RB: Send>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
    if segue_core::in_fiber() { join_in_place(a, b) } else { fork_apart(a, b) }
}

/// A join on a worker's thread that its fiber has taken for itself: under a scheduler of its own.
/// Without stacks for that, and on a thread that is panicking and so can't run fibers, one half
/// after the other.
#[cold]
#[inline(never)]
fn fork_apart<RA, RB: Send>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
    let mut halves = Some((a, b));
    let under_one = || {
        halves.take().map(|(a, b)| {
            // SAFETY: this is a fiber of a worker, which stays in place during its run on this
            // thread.
            unsafe { &*crate::worker::common::worker() }.fork_here(a, b)
        })
    };
    let joined = match std::thread::panicking() {
        true => None,
        false => crate::Runtime::new().workers(1).run_with(crate::Fifo::default, under_one).ok().flatten(),
    };
    joined.unwrap_or_else(|| {
        let (a, b) = halves.take().expect("a run that fails has not called its closure");
        join_in_place(a, b)
    })
}

/// One half after the other, with their heritage.
#[cold]
#[inline(never)]
fn join_in_place<RA, RB>(a: impl FnOnce() -> RA, b: impl FnOnce() -> RB + Send) -> (RA, RB) {
    // SAFETY: the join ends after its halves, and is captured neither without them nor with them.
    let (a, b) = unsafe { heirs(a, b) };
    barrier(WaitsFor::new("a join"), || (a(), b()))
}

/// The halves of a join with their heritage.
///
/// # Safety
/// They are called before the contexts around this call end, which are captured neither without
/// them nor with them.
unsafe fn heirs<RA, RB>(
    a: impl FnOnce() -> RA,
    b: impl FnOnce() -> RB + Send,
) -> (impl FnOnce() -> RA, impl FnOnce() -> RB + Send) {
    let heritage = chain::heritage();
    // SAFETY: as the caller promises.
    let a = move || unsafe { chain::inherit(heritage, a) };
    // SAFETY: as above.
    (a, move || unsafe { chain::inherit(heritage, b) })
}

/// # Safety
/// `note` is at the head of a `Child<B, RB>` that stays in place until its job has run, and is
/// exposed once, by its parent's fiber.
unsafe fn expose<B: FnOnce() -> RB + Send, RB: Send>(note: NonNull<Note>) -> Job {
    let child = note.cast::<Child<B, RB>>();
    segue_core::with_current(|fiber| {
        // SAFETY: as the caller promises; the parent is the running fiber, so its family is the
        // child's, and its contexts stay.
        unsafe {
            let job = NonNull::new_unchecked(&raw mut (*child.as_ptr()).job);
            StackJob::job(job, note.as_ref().place, fiber.detaches_to())
        }
    })
}

/// Runs `a` and `b`, on two workers if one is idle, and returns both results.
///
/// `a` runs at once on the caller's stack; `b` afterwards in the same place, unless an idle worker
/// took `b`, or `a` has to wait, in which case `b` becomes a fiber of its own. If nobody takes the
/// child, a fork costs a few nanoseconds.
///
/// Outside of a worker of this crate, both run in place, one after the other, so that `a` must not
/// wait for `b` there. Effect handlers around the call are in place in neither, as they would not
/// be on another worker; but for [shared](segue_fiber::effect::SharedHandler) ones, which both
/// inherit.
///
/// # Cancellation
/// *No effect*: both are run, and see the caller's cancellation at their own waits.
///
/// # Panics
/// If `a` or `b` panics, with `a`'s payload if both do, when neither is running any more. If `a`
/// panics, `b` may not be run.
///
/// # Examples
///
/// ```
/// fn fib(n: u32) -> u64 {
///     if n < 2 {
///         return n.into();
///     }
///     let (a, b) = segue_sched::join(|| fib(n - 1), || fib(n - 2));
///     a + b
/// }
/// let pool = segue_sched::Runtime::new().workers(2).pool().unwrap();
/// assert_eq!(pool.run(|| fib(20)).unwrap(), 6765);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    try_join(a, b).unwrap_or_else(|(a, b)| join_in_place(a, b))
}

/// A closure up to this size is passed in registers. A larger one stays in its caller's frame, and
/// is passed by reference: a move would be a copy in words of another size than those of the write,
/// a moment before, and the copy waits for the writes.
const IN_REGISTERS: usize = 2 * size_of::<usize>();

/// A closure in another frame. Dropped along with this, unless taken.
struct Lent<'a, B>(&'a mut Option<B>);

impl<B> Lent<'_, B> {
    #[inline]
    fn take(self) -> B {
        let b = self.0.take();
        std::mem::forget(self);
        b.expect("it is there until it is taken")
    }
}

impl<B> Drop for Lent<'_, B> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

/// As [`join`] on a worker of this crate, and on the thread of one that a fiber has taken for
/// itself, as [`blocking_here`](crate::blocking_here) does; elsewhere both come back. In a fiber of
/// another scheduler that runs inside of a worker's, both run in place.
///
/// # Errors
/// `a` and `b`, if the caller is not on the thread of a worker.
///
/// # Panics
/// As for [`join`].
#[inline]
pub fn try_join<A, B, RA, RB>(a: A, b: B) -> Result<(RA, RB), (A, B)>
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    // SAFETY: a worker stays in place during its run on this thread. The fork looks whether it is
    // called by a fiber of that worker: here, in the program's own function, that would keep the
    // compiler from inlining that function into the fork.
    match unsafe { crate::worker::common::worker().as_ref() } {
        Some(worker) if size_of::<B>() <= IN_REGISTERS => Ok(worker.fork(a, b)),
        Some(worker) => {
            let mut b = Some(b);
            let lent = Lent(&mut b);
            Ok(worker.fork(a, move || lent.take()()))
        }
        None => try_apart(a, b),
    }
}

/// A join on the thread of a worker that a fiber has taken for itself.
#[cold]
#[inline(never)]
fn try_apart<A: FnOnce() -> RA, B: FnOnce() -> RB + Send, RA, RB: Send>(a: A, b: B) -> Result<(RA, RB), (A, B)> {
    if !residents::is_inhabited() || segue_core::in_fiber() {
        return Err((a, b));
    }
    // SAFETY: the join ends after its halves, and is captured neither without them nor with them.
    let (a, b) = unsafe { heirs(a, b) };
    Ok(barrier(WaitsFor::new("a join"), || fork_apart(a, b)))
}

/// Offers the calling fiber's forks that nobody has begun to all workers: for a first half that
/// computes for long without a fork, at which a worker that asks would get them.
///
/// The price is that of a spawn for each. Outside of fibers of this crate's schedulers, and where
/// there is one worker, there is no effect.
///
/// # Examples
///
/// ```
/// let (a, b) = segue_sched::join(
///     || {
///         segue_sched::offer_forks();
///         (0..1000).sum::<u64>()
///     },
///     || (1000..2000).sum::<u64>(),
/// );
/// assert_eq!(a + b, 1_999_000);
/// ```
pub fn offer_forks() {
    with_caller(|caller| {
        let Some((worker, _)) = caller.filter(|(worker, _)| worker.group.len() > 1) else { return };
        while let Some(job) = worker.forks.expose_oldest() {
            // This fiber is not to wait for this worker.
            worker.remote().set_forks(true);
            worker.offer(job);
        }
    });
}

/// Whether another worker would have some of the caller's work: computations without forks may look
/// here, and fork if so. A few loads.
///
/// `false` outside of fibers of this crate's schedulers.
///
/// # Examples
///
/// ```
/// assert!(!segue_sched::is_wanted());
/// ```
#[inline]
#[must_use]
pub fn is_wanted() -> bool {
    with_caller(|caller| caller.is_some_and(|(worker, _)| worker.remote().is_wanted()))
}
