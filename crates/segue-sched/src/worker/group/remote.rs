//! The part of a worker that other threads may touch: its mail, its shelves, its beat.
//!
//! Used by the [`Group`](super::Group), which owns one for each worker; its head says in which
//! order the marks are written and read.

use super::super::ebb::ebb;
use super::super::header::Header;
use super::super::inbox::Inbox;
use super::super::no_unwind::no_unwind;
use super::super::seat::Seat;
use segue_core::WaitsFor;
use segue_core::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use segue_core::chain::barrier;
use segue_core::scheduling::{Job, JobHeader, Lock, Unpark};
use std::collections::VecDeque;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// Somebody wants the worker: a fork sees this.
const WANTED: u8 = 1;

/// So does a checkpoint, which takes this mark back if there was nothing to give. The wish stays
/// for a fork that comes later: a worker that sleeps does not wish again.
const UNHEARD: u8 = 2;

/// The part of a worker that other threads may touch.
pub(crate) struct Remote {
    pub(crate) inbox: Inbox<Header>,
    pub(super) unparker: OnceLock<Arc<dyn Unpark>>,
    /// Which turn the worker is in.
    pub(crate) beat: Beat,
    /// Whether other threads would like this worker to come to the loop, or to give something: an
    /// idle worker that would have a child of a fork, or a closure from outside that nobody was
    /// free to take. Read at every fork and checkpoint, written rarely. Zero, or [`WANTED`], maybe
    /// with [`UNHEARD`].
    pub(super) wanted: AtomicU8,
    /// Whether its fiber forks, and gives children of forks: they are not to wait for this worker.
    pub(super) forks: AtomicBool,
    /// How dumps ask the worker.
    pub(crate) seat: Arc<Seat>,
    /// The closures that it offers to all.
    pub(crate) shelf: Shelf,
    /// The closures that were sent to its policy.
    pub(crate) sent: Shelf,
    /// Whether the policy is to be asked again before the worker sleeps. Written under the lock of
    /// `sent`.
    pub(super) nudged: AtomicBool,
    /// Whether the worker has ended, and takes nothing any more. Written under the lock of `sent`.
    pub(super) ended: AtomicBool,
    /// Whether the worker's thread blocks, so that no closure is to be sent there. Written and read
    /// under the lock of `sent`.
    pub(super) away: AtomicBool,
    /// Whether the worker sleeps for a moment only, to take then the closures that it has left to
    /// others.
    pub(super) naps: AtomicBool,
    /// Whether the worker leaves the closures of busy workers to them until after a nap
    /// (`in_vain.rs`).
    shy: AtomicBool,
    /// Whether one of those did not wake it, in a nap.
    pub(super) passed_over: AtomicBool,
}

impl Remote {
    /// The number of its fibers, with the closures that wait there.
    pub(crate) fn load(&self) -> usize {
        let queued = self.shelf.len.load(Ordering::Relaxed) + self.sent.len.load(Ordering::Relaxed);
        self.beat.fibers() + queued
    }

    /// Whether the worker can be given more.
    pub(crate) fn takes_some(&self) -> bool {
        !self.away.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed)
    }

    /// Nothing that other threads could want of a worker that has not begun.
    pub(super) fn new() -> Self {
        Self {
            inbox: Inbox::new(),
            unparker: OnceLock::new(),
            beat: Beat::new(),
            wanted: AtomicU8::new(0),
            forks: AtomicBool::new(false),
            seat: Arc::new(Seat::new()),
            shelf: Shelf::new(),
            sent: Shelf::new(),
            nudged: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            away: AtomicBool::new(false),
            naps: AtomicBool::new(false),
            shy: AtomicBool::new(false),
            passed_over: AtomicBool::new(false),
        }
    }

    /// Sets the worker's unpark, after its thread has made the park.
    pub(crate) fn set_unparker(&self, unparker: Arc<dyn Unpark>) {
        assert!(self.unparker.set(unparker).is_ok(), "a worker starts once");
    }

    /// The unpark for a worker after its inbox has announced the sleep.
    pub(crate) fn waker(&self) -> impl FnOnce() + use<> {
        let unparker = self.unparker.get().map(Arc::clone);
        move || {
            if let Some(unparker) = unparker {
                unpark(&*unparker);
            }
        }
    }

    /// As [`waker`](Remote::waker), for a caller under the lock of a context, under which no
    /// foreign code is called (clause 12).
    #[cold]
    pub(crate) fn waker_after_interrupt(&self) -> impl FnOnce() + use<> {
        struct Unparks(Arc<dyn Unpark>);
        impl std::task::Wake for Unparks {
            fn wake(self: Arc<Self>) {
                unpark(&*self.0);
            }
        }
        let unparker = self.unparker.get().map(|unparker| Arc::new(Unparks(Arc::clone(unparker))));
        move || {
            if let Some(unparker) = unparker {
                segue_core::scheduling::wake_after_interrupt(unparker.into());
            }
        }
    }

    pub(super) fn rouse(&self) -> bool {
        let roused = self.inbox.rouse();
        if roused {
            (self.waker())();
        }
        roused
    }

    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether somebody wants the worker, and no checkpoint knows that.
    #[inline]
    pub(crate) fn is_unheard(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & UNHEARD != 0
    }

    pub(crate) fn set_wanted(&self, wanted: bool) {
        self.set_wish(if wanted { WANTED | UNHEARD } else { 0 });
    }

    /// The worker has nothing to give now: the next fork will.
    pub(crate) fn put_off(&self) {
        self.set_wish(WANTED);
    }

    pub(crate) fn set_forks(&self, forks: bool) {
        if self.forks.load(Ordering::Relaxed) != forks {
            self.forks.store(forks, Ordering::Relaxed);
        }
    }

    /// The worker leaves the closures of busy workers to them, or does no more. Answers whether one
    /// of them did not wake it meanwhile.
    pub(crate) fn set_shy(&self, shy: bool) -> bool {
        if self.is_shy() != shy {
            self.shy.store(shy, Ordering::Relaxed);
        }
        self.passed_over.load(Ordering::Relaxed) && self.passed_over.swap(false, Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn is_shy(&self) -> bool {
        self.shy.load(Ordering::Relaxed)
    }

    fn set_wish(&self, wish: u8) {
        // Looking first keeps the line shared while the value is the same.
        if self.wanted.load(Ordering::Relaxed) != wish {
            self.wanted.store(wish, Ordering::Relaxed);
        }
    }
}

/// Callers may have handed out pointers into their frames, or be a fiber in the middle of a yield.
/// So foreign code neither unwinds them nor has them captured by an effect.
pub(super) fn unpark(unparker: &dyn Unpark) {
    let no_unwind = no_unwind();
    barrier(WaitsFor::new("an unpark"), || unparker.unpark());
    no_unwind.disarm();
}

/// The number of a worker's turn, for the monitor; 0 outside of turns. Of two looks that find the
/// same turn, the worker was in that turn all the time between: numbers do not come back.
///
/// And the number of its fibers, for workers that look for a place for another one.
///
/// Written by the worker at each turn, so on a line of its own.
#[repr(align(128))]
pub(crate) struct Beat {
    turn: AtomicUsize,
    fibers: AtomicUsize,
    settled: AtomicUsize,
}

impl Beat {
    pub(super) fn new() -> Self {
        Self { turn: AtomicUsize::new(0), fibers: AtomicUsize::new(0), settled: AtomicUsize::new(0) }
    }

    #[inline]
    pub(crate) fn set(&self, turn: usize) {
        self.turn.store(turn, Ordering::Relaxed);
    }

    /// The worker is in no turn: asleep, or with its thread left to others.
    pub(crate) fn rest(&self) {
        self.set(0);
    }

    pub(crate) fn turn(&self) -> Option<NonZero<usize>> {
        NonZero::new(self.turn.load(Ordering::Relaxed))
    }

    /// So many fibers live on the worker now.
    #[inline]
    pub(crate) fn set_fibers(&self, fibers: usize) {
        self.fibers.store(fibers, Ordering::Relaxed);
    }

    /// How many fibers live on the worker.
    #[inline]
    pub(crate) fn fibers(&self) -> usize {
        self.fibers.load(Ordering::Relaxed)
    }

    /// Whether this worker has so many more fibers that a closure had better start on the other
    /// one.
    pub(super) fn has_more(&self, other: &Self) -> bool {
        self.fibers() > other.fibers() + 1
    }

    /// A fiber has not ended in its first turn.
    #[inline]
    pub(crate) fn settle(&self) {
        self.settled.store(self.settled().wrapping_add(1), Ordering::Relaxed);
    }

    /// How many fibers have gone on to wait so far.
    #[inline]
    pub(crate) fn settled(&self) -> usize {
        self.settled.load(Ordering::Relaxed)
    }
}

/// Closures that any worker may take, oldest first; their own worker takes the newest.
pub(crate) struct Shelf {
    jobs: Lock<VecDeque<Job>>,
    /// How many, for a look without the lock. Exact only under the lock.
    pub(super) len: AtomicUsize,
}

impl Shelf {
    pub(super) fn new() -> Self {
        Self { jobs: Lock::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    /// Whether something lies there, by a look without the lock.
    #[inline]
    pub(crate) fn seems_to_hold(&self) -> bool {
        self.len.load(Ordering::Relaxed) != 0
    }

    /// Takes the oldest out.
    #[inline]
    pub(crate) fn take_oldest(&self) -> Option<Job> {
        if self.seems_to_hold() { self.take(VecDeque::pop_front) } else { None }
    }

    /// Takes the newest out.
    #[inline]
    pub(crate) fn take_newest(&self) -> Option<Job> {
        if self.seems_to_hold() { self.take(VecDeque::pop_back) } else { None }
    }

    #[inline(never)] // As a rule there is nothing, and a look is short.
    fn take(&self, take: fn(&mut VecDeque<Job>) -> Option<Job>) -> Option<Job> {
        // The room of a burst goes after the lock.
        let (job, _room) = self.with(|jobs| (take(jobs), ebb(jobs)));
        job
    }

    /// Calls `f` with each closure, under the lock.
    pub(crate) fn each(&self, f: impl FnMut(&Job)) {
        self.jobs.lock().iter().for_each(f);
    }

    /// Takes a certain closure out, if still there.
    pub(crate) fn take_back(&self, header: NonNull<JobHeader>) -> Option<Job> {
        if self.seems_to_hold() { self.with(|jobs| take_back(jobs, header)) } else { None }
    }

    pub(super) fn with<R>(&self, f: impl FnOnce(&mut VecDeque<Job>) -> R) -> R {
        let mut jobs = self.jobs.lock();
        let result = f(&mut jobs);
        self.len.store(jobs.len(), Ordering::Relaxed);
        result
    }
}

/// Takes a certain closure out: the newest are looked at first.
pub(crate) fn take_back(jobs: &mut VecDeque<Job>, header: NonNull<JobHeader>) -> Option<Job> {
    let at = jobs.iter().rposition(|job| job.as_raw() == header)?;
    jobs.remove(at)
}
