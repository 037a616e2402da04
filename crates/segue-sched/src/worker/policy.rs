//! Policies: a policy is a data structure that says which ready fiber runs next.
//!
//! Implemented by the files in `policies/` and by users; called by the worker loop, which does
//! everything else.
//!
//! # The ways of a ready fiber
//!
//! ```text
//!   spawned here --------.                       .--> Here ------> the policy has it
//!   sent by a worker ----+                       |
//!   from outside (*) ----+--> push(task, why) ---+--> Anywhere --> the worker's shelf: its own newest, an idle worker's oldest
//!   resumed, yielded ----'                       |
//!                                                '--> To(worker) -> that worker's mail, then its push
//!   pop() <-- the worker is free         spare() <-- another worker has nothing to do         idle() <-- pop() has yielded nothing
//! ```
//!
//! (*) By default closures from outside, and those on shelves, take turns with the policy's own. A
//! policy that wants to order them, too, says so by [`takes_arrivals`](Policy::takes_arrivals):
//! then closures from outside are pushed before anything else runs, and closures that the worker
//! takes from a shelf are pushed before their start. So such a policy knows of every turn that its
//! worker takes, but for the very first fiber's.
//!
//! The loop's checks: a fiber that is given out is this worker's, is not dropped, and is not held
//! back by a policy with an answer of none.

use crate::worker::group::Group;
use crate::worker::header::Header;
use segue_core::scheduling::Job;
use segue_core::{Attribute, Fiber};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Decides the order in which one worker runs its ready fibers.
///
/// Each worker has a policy of its own, made on its thread; all methods are called there, and never
/// while another is running, so that the state needs no atomics. A policy can be unfair but not
/// unsound: a policy can't copy fibers, nor send started fibers to other threads, and the loop
/// notices a policy that drops or forgets one.
///
/// # Panics
/// A policy that panics ends the process: its worker's fibers could not be continued. So does one
/// that drops a started fiber, gives out one of another worker, sends a closure to a worker that
/// does not exist, or answers none while holding fibers. The message says which. Fibers that the
/// policy makes ready under its own scheduler, by dropping a closure for instance, come by mail.
///
/// A policy must not wait. A method that waits holds its worker up, and for ever in a wait for one
/// of the worker's own fibers.
///
/// # Stack
/// A method may be called on the stack of a fiber: where that spawns, wakes or yields, and where
/// that fiber waits and passes its turn on to the fiber that the policy gives out next. So a policy
/// needs little stack.
///
/// # Examples
///
/// Last in, first out, in ten lines:
///
/// ```
/// use segue_sched::{Goes, Policy, Task, Why};
///
/// #[derive(Default)]
/// struct Lifo(Vec<Task>);
///
/// impl Policy for Lifo {
///     fn push(&mut self, task: Task, _why: Why) -> Goes {
///         self.0.push(task);
///         Goes::Here
///     }
///
///     fn pop(&mut self) -> Option<Task> {
///         self.0.pop()
///     }
/// }
///
/// let sum = segue_sched::Runtime::new().run_with(Lifo::default, || {
///     let fibers: Vec<_> = (0..10).map(|n| segue_core::spawn(move || n)).collect();
///     fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
/// });
/// assert_eq!(sum.unwrap(), 45);
/// ```
pub trait Policy: 'static {
    /// Called once, before anything else: which worker this is, of how many.
    fn seated(&mut self, seat: Seat) {
        let _ = seat;
    }

    /// Accepts something that is ready, or names another place. A started fiber can only stay.
    fn push(&mut self, task: Task, why: Why) -> Goes;

    /// Gives out the next one to run; `None` if there is none for now.
    fn pop(&mut self) -> Option<Task>;

    /// Gives out a closure for an idle worker. The loop asks only when there is one: when a closure
    /// was pushed, and before each turn. A policy that has given none is not asked again before one
    /// is pushed, or some turns have passed: as many as take a quarter of a millisecond, and no
    /// more than 512. If the idle worker finds something else to do, the closure comes back.
    ///
    /// By default nothing: closures that are to be shared can also go [anywhere](Goes::Anywhere) in
    /// the first place. The difference: closures that went anywhere can be taken at any time, in
    /// the order of a shelf; those kept here, in an order of the policy's, are given away only
    /// between the turns of this worker.
    fn spare(&mut self) -> Option<Job> {
        None
    }

    /// Whether this policy orders arrivals from elsewhere, too. Asked once.
    ///
    /// Then closures from outside of the scheduler are pushed as soon as a worker sees them, before
    /// anything else runs; a closure that this worker takes from a shelf, its own or another
    /// worker's, is pushed before its start ([`Why::Taken`]).
    ///
    /// By default they are not: any worker that is free starts the oldest of them, and a busy one
    /// does so at every other turn.
    fn takes_arrivals(&self) -> bool {
        false
    }

    /// So many turns of this worker take some 20 microseconds, as far as the last ones tell: from 1
    /// to 512. Told when the worker looks around, which a busy one does every quarter of a
    /// millisecond and at least once in 512 turns. If turns become longer all at once, the worker
    /// has noticed after 640 of the longer ones at most.
    ///
    /// With that a policy sets bounds in time, without a clock, and not only in turns.
    fn paced(&mut self, turns: u32) {
        let _ = turns;
    }

    /// The act of the worker when [`pop`](Policy::pop) has given nothing and there is no work
    /// anywhere else.
    fn idle(&mut self) -> Idle {
        Idle::Sleep
    }

    /// The fiber that comes after about so many others, if that is easy to say: the worker fetches
    /// its memory meanwhile. This is only a hint. The worker asks at each turn, for a fiber that
    /// comes soon and for one that comes some turns later.
    fn upcoming(&self, turns: usize) -> Option<&Started> {
        let _ = turns;
        None
    }

    /// Whether the policy simulates: then every closure that becomes ready comes here and none is
    /// kept on a shelf, the halves of a [`join`](crate::join) and arrivals from outside included;
    /// and the methods below are called. The answer is a constant of the type, so that other
    /// policies pay nothing; a policy in a box does not simulate.
    fn simulates() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The closure that was given out last has become this fiber, which runs next.
    fn begins(&mut self, _fiber: &Fiber) {}

    /// Whether the next method is to be asked.
    fn may_preempt(&self) -> bool {
        false
    }

    /// Whether the running fiber is preempted, at a [point](segue_core::preemption_point) where it
    /// might go on: the fiber is pushed then, as after a yield.
    fn preempts(&mut self) -> bool {
        false
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn seated(&mut self, seat: Seat) {
        (**self).seated(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        (**self).push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        (**self).pop()
    }

    fn spare(&mut self) -> Option<Job> {
        (**self).spare()
    }

    fn takes_arrivals(&self) -> bool {
        (**self).takes_arrivals()
    }

    fn paced(&mut self, turns: u32) {
        (**self).paced(turns);
    }

    fn idle(&mut self) -> Idle {
        (**self).idle()
    }

    fn upcoming(&self, turns: usize) -> Option<&Started> {
        (**self).upcoming(turns)
    }
}

/// Where something that is ready goes.
#[derive(Debug)]
#[must_use]
pub enum Goes {
    /// The policy keeps the closure.
    Here,
    /// Any idle worker may have the closure, and a worker that has far fewer fibers gets it. Else
    /// the closure comes back to this worker, newest first but once in 64 turns, when
    /// [`pop`](Policy::pop) yields nothing, and now and then otherwise.
    Anywhere(Job),
    /// The policy of this worker gets the closure, as [`Why::Sent`].
    To(usize, Job),
}

/// The act of a worker that has nothing to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// The worker sleeps until something becomes ready. The policy has no started fibers.
    Sleep,
    /// The worker sleeps until something becomes ready, for this long at most, or until a
    /// [wake-up](Seat::wake). The policy may hold fibers back.
    Hold(Option<Duration>),
    /// The worker looks again at once, and never sleeps. The policy may hold fibers back. A worker
    /// inside of a fiber of another scheduler gives that one turns meanwhile.
    Spin,
}

/// Why something is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// New.
    Spawned,
    /// From outside of the scheduler.
    Arrived,
    /// Sent here by another worker's policy.
    Sent,
    /// Taken by this worker from a shelf, where it was for everybody. Unless the policy keeps the
    /// closure, or sends it on, it starts now.
    Taken,
    /// The awaited event has come. A closure is then the next poll of an async task, which was
    /// woken.
    Resumed,
    /// The fiber gave up its turn.
    Yielded,
    /// The fiber gave way, at a fork, to work that came from outside while every worker was busy.
    Displaced,
}

/// A worker's place in its scheduler.
#[derive(Clone)]
pub struct Seat {
    index: usize,
    group: Arc<Group>,
}

impl Seat {
    pub(crate) fn new(index: usize, group: Arc<Group>) -> Self {
        Self { index, group }
    }

    /// Which worker this is, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many workers the scheduler has.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.group.len()
    }

    /// The worker with the fewest fibers at this moment, counting closures that have yet to start
    /// there: this one, if no other has fewer.
    #[must_use]
    pub fn fewest_fibers(&self) -> usize {
        self.group.fewest_fibers(self.index)
    }

    /// Whether both are of the same scheduler.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group)
    }

    /// Has a worker ask its policy again, if asleep. From any thread; never waits.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn wake(&self, worker: usize) {
        self.group.wake(worker);
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "worker {} of {}", self.index, self.workers())
    }
}

/// Something that is ready to run.
pub enum Task {
    /// A closure that has not started. This closure can go anywhere.
    Fresh(Job),
    /// A fiber that has started. This fiber stays on its worker.
    Started(Started),
}

impl Task {
    /// The attribute of this type that the fiber carries, or will.
    #[inline]
    #[must_use]
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        match self {
            Self::Fresh(job) => job.attribute(),
            Self::Started(started) => started.fiber().attribute(),
        }
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fresh(job) => job.fmt(f),
            Self::Started(started) => started.fmt(f),
        }
    }
}

/// A started fiber that is ready. This fiber stays on its worker's thread.
pub struct Started(NonNull<Header>);

impl Started {
    /// The right to run a fiber.
    ///
    /// # Safety
    /// The fiber is this thread's, is ready, and stays so until this right is used; there is no
    /// other one.
    #[inline]
    #[allow(unsafe_code)] // The header is reached by address.
    pub(crate) unsafe fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Starts to fetch its header.
    #[inline]
    pub(crate) fn prefetch(&self, whole: bool) {
        segue_fiber::prefetch(self.0, whole);
    }

    /// Starts to fetch the frames of its continuation.
    #[inline]
    #[allow(unsafe_code)] // The header is reached by address.
    pub(crate) fn prefetch_frames(&self) {
        // SAFETY: a fiber that is ready has not ended, and is this thread's. For the running one,
        // which is about to rest, the read is stale, and only fetched.
        unsafe { segue_fiber::prefetch_frames(self.0) };
    }

    /// Its identity.
    #[allow(unsafe_code)] // The header is reached by address.
    pub fn fiber(&self) -> &Fiber {
        // SAFETY: a fiber that is ready has not ended, so its header is in place.
        unsafe { &self.0.as_ref().fiber }
    }
}

impl Drop for Started {
    #[cold]
    fn drop(&mut self) {
        panic!("a policy dropped {}, which has started and must be run to its end", self.fiber());
    }
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.fiber())
    }
}
