//! Fork-join: `join(a, b)` runs `a` at once and keeps `b` at hand, so that an idle worker can have it.
//!
//! Used by applications for parallel computation; the worker loop and the contract's `suspend` meet it at two places.
//!
//! # The idea
//!
//! Most children are never stolen, so forking must cost no more than noting that `b` exists. Each worker has a private stack of
//! notes, which its thread alone touches: `join` pushes one, runs `a`, and pops it; if the note is still there, `b` is run in
//! place, on the parent's stack, as a plain call. Nothing is allocated and nothing is atomic but one relaxed load, which sees whether
//! somebody wants the worker.
//!
//! A note leaves the private stack in two ways, both done by the parent's own thread: an idle worker has begged, then the oldest
//! note (the biggest piece of work, as a rule) is *exposed*, that is put on the worker's shelf as a job; or the parent is about to suspend inside
//! of `a`, then all notes are exposed, since nobody knows when it goes on, and `a` may well wait for what `b` does.
//!
//! # States of a child
//!
//! ```text
//!   private --pop--> run in place                   (the common case)
//!   private --expose--> on the shelf --reclaim--> run in place
//!                                    \--taken---> runs on a fiber of its own --> done: the parent goes on
//! ```
//!
//! The private notes all belong to the running fiber: whoever suspends leaves none behind. They are numbered from
//! `bottom`, the oldest that is still private, to `top`; a note whose number is below `bottom` was exposed.
//!
//! **Commit point**: pop, reclaim under the shelf's lock, or the taking off the shelf. **Cancellation** has *no effect* on a join: both closures are run,
//! and see it at their own waits. **The race to fear**: the parent's frame ends while a thief runs the child out of it. It does not: the parent
//! waits, shielded, for `done`, also when `a` panicked; the thief's signal of `done` is its last touch of the frame.
//!
//! The lazy exposure on request follows the prototypes behind the design (private deques with steal requests, in the manner of Acar, Charguéraud
//! and Rainey, "Scheduling parallel programs by work stealing with private deques", 2013).
#![allow(unsafe_code)] // Notes name frames of the parents.

use crate::common::Common;
use crate::frame::FrameJob;

use segue_core::{Job, Place};
use segue_fiber::effect;
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

/// That a child exists: how to make a job of it, and in which context. It stands at the head of the child, in the parent's frame.
struct Note {
    expose: unsafe fn(NonNull<Note>) -> Job,
    place: Place,
}

/// A child with its note.
#[repr(C)] // The note comes first: the ring holds its address.
struct Child<B, RB> {
    note: Note,
    job: FrameJob<B, RB>,
}

/// A worker's private notes: a ring, indexed by the notes' numbers. Numbers are never used twice once they were exposed.
pub(crate) struct Forks {
    ring: Cell<NonNull<MaybeUninit<NonNull<Note>>>>,
    mask: Cell<usize>,
    bottom: Cell<usize>,
    top: Cell<usize>,
}

/// How many notes there is room for at first; a power of two.
const ROOM: usize = 64;

impl Forks {
    pub(crate) fn new() -> Self {
        let forks =
            Self { ring: Cell::new(NonNull::dangling()), mask: Cell::new(0), bottom: Cell::new(0), top: Cell::new(0) };
        forks.set_ring(Box::new_uninit_slice(ROOM));
        forks
    }

    fn set_ring(&self, ring: Box<[MaybeUninit<NonNull<Note>>]>) {
        self.mask.set(ring.len() - 1);
        self.ring.set(NonNull::from(Box::leak(ring)).cast());
    }

    fn take_ring(&self) -> Box<[MaybeUninit<NonNull<Note>>]> {
        let ring = NonNull::slice_from_raw_parts(self.ring.get(), self.mask.get() + 1);
        // SAFETY: it was leaked by `set_ring`, with this length; the caller sets another or is the end.
        unsafe { Box::from_raw(ring.as_ptr()) }
    }

    /// Whether no note is private.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bottom.get() == self.top.get()
    }

    #[inline]
    fn push(&self, note: NonNull<Note>) -> usize {
        let number = self.top.get();
        if number - self.bottom.get() > self.mask.get() {
            self.grow();
        }
        // SAFETY: the index is below the ring's length, which is `mask + 1`; only the worker's thread has access.
        unsafe { self.ring.get().add(number & self.mask.get()).write(MaybeUninit::new(note)) };
        self.top.set(number + 1);
        number
    }

    #[cold]
    #[inline(never)]
    fn grow(&self) {
        let ring = self.take_ring();
        let mut larger = Box::new_uninit_slice(ring.len() * 2);
        for number in self.bottom.get()..self.top.get() {
            larger[number & (ring.len() * 2 - 1)] = ring[number & (ring.len() - 1)];
        }
        self.set_ring(larger);
    }

    /// Takes note `number` back, which is the newest if it is still private.
    #[inline]
    fn pop(&self, number: usize) -> bool {
        let private = number >= self.bottom.get();
        if private {
            debug_assert_eq!(self.top.get(), number + 1, "notes are popped newest first");
            self.top.set(number);
        }
        private
    }

    /// Takes the oldest private note out and makes a job of it.
    pub(crate) fn expose_oldest(&self) -> Option<Job> {
        let number = self.bottom.get();
        if number == self.top.get() {
            return None;
        }
        self.bottom.set(number + 1);
        // SAFETY: the index is in the ring, and the notes from `bottom` to `top` were written.
        let note = unsafe { self.ring.get().add(number & self.mask.get()).read().assume_init() };
        // SAFETY: the note is at the head of a child in the frame of a `fork` that has not popped it; this is its one exposure.
        Some(unsafe { (note.as_ref().expose)(note) })
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        drop(self.take_ring());
    }
}

impl Common {
    /// Exposes every private note: the running fiber is about to suspend.
    #[cold]
    pub(crate) fn expose_forks(&self) {
        while let Some(job) = self.forks.expose_oldest() {
            self.offer(job);
        }
    }

    /// Somebody wants this worker: an idle one, who gets the oldest note, or a closure from outside or from another worker's policy, which gets a turn.
    #[cold]
    #[inline(never)]
    fn attend(&self) {
        if self.group.is_called() || self.remote().has_sent() {
            self.remote().set_wanted(false);
            // A panicking fiber goes on without giving up its turn.
            self.displaced.set(true);
            let _ = segue_core::in_fiber() && segue_core::shield(segue_core::yield_now).is_ok();
            self.displaced.set(false);
        } else {
            self.give();
        }
    }

    /// Not inlined, so that it is this function that recurs in a recursive program, with the program's own inlined into it: the callers' frames are small, and
    /// leaves of the recursion are no calls.
    #[inline(never)]
    fn fork<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA,
        B: FnOnce() -> RB + Send,
        RB: Send,
    {
        if !effect::is_outside() {
            return self.fork_outside(a, b);
        }
        let note = Note { expose: expose::<B, RB>, place: Place::here() };
        let child = Child { note, job: FrameJob::new(b) };
        let number = self.forks.push(NonNull::from(&child).cast());
        if self.remote().is_wanted() {
            self.attend();
        }
        let a = catch_unwind(AssertUnwindSafe(a));
        let private = self.forks.pop(number);
        match a {
            // SAFETY: nobody else knows the child any more.
            Ok(a) if private => (a, unsafe { child.job.call() }),
            Ok(a) => (a, self.fetch(&child.job).unwrap_or_else(|payload| resume_unwind(payload))),
            Err(payload) => {
                match private {
                    // SAFETY: as above.
                    true => unsafe { child.job.discard() },
                    false => drop(self.fetch(&child.job)),
                }
                resume_unwind(payload)
            }
        }
    }

    /// Forks where nothing can be captured. Else an effect in `a` could capture the parent's frame, which would be left in the ring, or go on elsewhere, while `b` runs in contexts that end meanwhile.
    #[cold]
    #[inline(never)]
    fn fork_outside<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA,
        B: FnOnce() -> RB + Send,
        RB: Send,
    {
        effect::outside(|| self.fork(a, b))
    }

    /// The result of a child that was exposed: by running it, if it is still on the shelf, else by waiting for it.
    #[cold]
    fn fetch<B: FnOnce() -> RB, RB>(&self, child: &FrameJob<B, RB>) -> std::thread::Result<RB> {
        match self.reclaim(child.header()) {
            Some(job) => {
                let _ = job.into_raw();
                // SAFETY: it was on the shelf, so nobody has started it, and it was taken off.
                unsafe { child.unmake() };
                // SAFETY: as above.
                catch_unwind(AssertUnwindSafe(|| unsafe { child.call() }))
            }
            // SAFETY: it was exposed, and its job is not on the shelf.
            None => unsafe { child.wait("the other half of a join") },
        }
    }
}

/// # Safety
/// `note` is at the head of a `Child<B, RB>` that stays in place until its job has run, and is exposed once, by its parent's fiber.
unsafe fn expose<B: FnOnce() -> RB + Send, RB: Send>(note: NonNull<Note>) -> Job {
    let child = note.cast::<Child<B, RB>>();
    segue_core::with_current(|fiber| {
        // SAFETY: as the caller promises; the parent is the running fiber, so its family is the child's, and its contexts stay.
        unsafe {
            let job = NonNull::new_unchecked(&raw mut (*child.as_ptr()).job);
            FrameJob::job(job, note.as_ref().place, fiber.detaches_to())
        }
    })
}

/// Runs `a` and `b`, on two workers if one is idle, and returns both results.
///
/// `a` runs at once on the caller's stack; `b` after it in the same place, unless an idle worker took it, or `a` has to wait,
/// in which case `b` becomes a fiber of its own. The cost of a fork whose child is not taken is a few nanoseconds.
///
/// Outside of a worker of this crate, both run in place, one after the other. Effect handlers around the call are in place in neither, as they would not be on another worker.
///
/// # Cancellation
/// *No effect*: both are run, and see the caller's cancellation at their own waits.
///
/// # Panics
/// If `a` or `b` panics, with `a`'s payload if both do, when neither is running any more. If `a` panics, `b` may not be run.
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
/// let pool = segue_sched::Builder::new().workers(2).pool().unwrap();
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
    try_join(a, b).unwrap_or_else(|(a, b)| effect::outside(|| (a(), b())))
}

/// As [`join`] on a worker of this crate; elsewhere it gives both back.
///
/// # Errors
/// `a` and `b`, if the caller is not on a worker.
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
    // SAFETY: a worker stays in place while it runs on this thread, and the fiber that calls this stays on it.
    match unsafe { crate::common::worker().as_ref() } {
        Some(worker) => Ok(worker.fork(a, b)),
        None => Err((a, b)),
    }
}
