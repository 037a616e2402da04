//! The state that the workers of one scheduler share: closures that any of them may start, and the
//! list of sleepers.
//!
//! Used by the worker loop, and by threads and handles that hand work in from outside.
//!
//! # The idea
//!
//! Each worker has a shelf of closures that it offers to the others; one more shelf takes closures
//! from outside. A worker with nothing of its own looks through the shelves, and sleeps when all
//! are empty. An offer to a shelf wakes one sleeper, if there is one.
//!
//! # Sleeping without losing a wake-up
//!
//! The sleeper: (1) announces itself in its inbox, (2) counts itself in `sleepers`, (3) looks
//! through all shelves once more, taking each lock, (4) parks. The other side: (a) puts the closure
//! on a shelf, under its lock, (b) reads `sleepers`, (c) if that is not zero, rouses one that is
//! announced.
//!
//! **The race to fear**: (a) comes after (3), and (b) reads a zero from before (2). This can't
//! happen: if (a) takes the shelf's lock after (3) did, the lock carries (1) and (2) to (b), which
//! then reads at least one, and (c) finds the announcement. If (a) comes before (3), then (3) finds
//! the closure. So `sleepers` needs no ordering of its own.
//!
//! A closure that is sent to one worker goes the same way: (a) under the lock of that worker's
//! shelf of sent ones, which (3) takes, too; then that worker is roused, if announced. Closures
//! that a policy shares by means of its own have no shelf: they are in place before [`Group::wake`]
//! takes a lock that (3) takes, and if (3) comes after that, the worker asks its policy once more
//! (`nudged`).
//!
//! A worker may be *away*, blocking its thread on purpose. Such a worker sets the mark, and takes
//! out the closures that were sent there, in one hold of the lock of that shelf; a sender looks at
//! the mark under the same lock, and in place of that shelf uses the shelf for all, by the steps
//! (a) to (c). So nothing lies with a worker that is away. A monitor that finds a worker stuck
//! releases the closures sent there in the same way, without the mark.
//!
//! Two closures may meet one sleeper: the second offer finds nobody announced, but then the sleeper
//! is awake, and looks through the shelves before sleeping again. A worker that takes a closure
//! wakes the next sleeper if more is on the shelf.
//!
//! # Forks
//!
//! A worker that computes exposes a child of a fork only when *wanted* (`join/mod.rs`). An idle
//! worker says so to all others, by the mark `wanted`, at the beginning of its search for work, and
//! (3b) once more after the shelves, before the park. A busy worker takes the mark back, exposes a
//! child, and goes on with (a). The race to fear: the busy worker takes back the wish of a worker
//! that is about to sleep, and the child itself before that worker looks; then the sleeper would
//! have no wish at anybody, and nobody to wake it. (3b) prevents it: if the busy worker takes back
//! the mark of (3b), then its (a) comes after (3), and (c) rouses the sleeper. So **a worker that
//! sleeps has a wish at each worker that has not roused one since**. The marks of several sleepers
//! are one, so a busy worker that has roused one of them sets its mark again for the others. A wish
//! that could not be granted stays for the next fork.
//!
//! # Modest workers
//!
//! A worker may put closures on the shelf of another one that has fewer fibers (`placing.rs`), and
//! wakes that one, or any sleeper if that one is awake. A third worker, or the first itself, would
//! take them from there before the shelf's owner has got up. So a worker with more fibers than the
//! owner leaves these closures there and, if there is nothing else, sleeps for a moment only: a
//! *nap*. Afterwards that worker takes them. So **a closure on a shelf is started after a moment at
//! most if any worker has nothing to do**, whether or not the owner comes. An offer need not wake a
//! napping worker that would leave the closure. A worker takes back the mark of its nap before
//! looking through the shelves again, and (3) carries the mark as (1) and (2): an offer that finds
//! the mark of an earlier nap is in place before (3), which finds it. Nobody leaves children of
//! forks to their worker, which computes on (`forks`).
//!
//! A worker that comes in vain too often is *shy* (`in_vain.rs`): such a worker leaves the other
//! busy workers their offers, in any ratio of fibers, except a crowd, and naps. Such a worker sets
//! the mark of the nap before its announcement, and such a nap always has a time-out. So an offer
//! that finds the mark can pass the worker over, whatever (3) has seen. The offer tells the worker
//! by a mark, and a nap without one is followed by sleep.
//!
//! Before its end a worker looks through all shelves, and leaves nothing to others once the group
//! stops: the other worker runs the closures there, or this one does.
//!
//! # Closures that a policy keeps
//!
//! A closure that a policy has kept is on no shelf, and (3) does not see that: a worker may sleep
//! while another one's policy has some to spare. The busy worker has to notice. Before each of its
//! turns, and when a closure is pushed, the worker looks without a lock whether any other sleeps or
//! has begged (`wanted`). If so a closure goes onto its shelf, which wakes a sleeper as above. One
//! closure is offered at a time, and the next one when that was taken. The woken sleeper may have
//! found something else to do, and nobody takes the offer. Then the busy worker takes that back at
//! its second turn from then, and if there is still a sleeper, offers the next one and wakes that
//! sleeper. So **no worker sleeps for ever while another one that goes on taking turns can spare a
//! closure**: a busy worker that reads `sleepers` late notices in a later turn. A policy that gives
//! none is asked again when a closure is pushed, or when the worker looks around. There is no
//! remedy for a turn that does not end, of a fiber that blocks its thread, or computes without
//! forks, spawns and waits: the closures that its worker's policy has kept stay there. Closures
//! that must not wait for that are to go [anywhere](crate::Goes::Anywhere), which costs a lock for
//! each; or the policy keeps them where other workers can take them.
//!
//! # The end
//!
//! A worker ends when the group stops and there are no fibers left, if the outside shelf and its
//! own shelf of sent closures are empty: the worker says so under the locks of both (outside
//! first), by `working` and `ended`. The last one closes the outside shelf. Later closures are
//! given back: so a closure from outside is started or refused, and one that a policy would send to
//! a worker that has ended is offered to all instead.

mod remote;
mod sleep;
mod spread;

pub(crate) use remote::{Remote, take_back};

use super::stuck::Stuck;
use remote::Shelf;
use segue_core::CancelToken;
use segue_core::atomic::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};
use segue_core::scheduling::{Family, FamilyId, Job, JobHeader, Unpark};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock, Weak};

/// More closures than this on one shelf are a crowd, which is shared at once. This is the
/// difference that workers may have (`placing.rs`).
pub(crate) const CROWD: usize = 12;

/// Which workers that have fewer fibers a worker leaves their closures to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modest {
    /// All of them.
    ToAll,
    /// Workers that are in no turn: they were woken, and have not got up yet.
    ToSleepers,
    No,
}

/// The closures that an idle worker may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// At once: from outside, a child of a fork, or of a worker in no turn.
    Urgent,
    /// Closures of a worker that is in this turn, and may be about to start them itself.
    Closures { turn: usize, number: usize },
}

/// Whether a worker that has lain down may park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Rest {
    /// There is something to do.
    No,
    /// Until its wake-up.
    Long,
    /// For a moment: afterwards the worker takes the closures that it has left to others, if still
    /// there.
    Short,
}

/// The workers of one scheduler, in the view of all of them.
pub(crate) struct Group {
    /// For the sharers of the group.
    pub(super) me: Weak<Self>,
    workers: Box<[Remote]>,
    /// Closures from outside.
    pub(crate) outside: Shelf,
    /// How many workers have not ended. Written under the lock of `outside`: at zero that is
    /// closed.
    working: AtomicUsize,
    /// How many workers sleep, and [`UNWATCHED`].
    sleepers: AtomicUsize,
    /// Fibers that are spawned by handle belong here, as long as there is one. Its owner takes the
    /// family out before its completion.
    family: Mutex<Option<Owned>>,
    /// The address of the family that there was, if that stays until the last worker has ended.
    kept: AtomicUsize,
    /// The monitor's thread, if there is a monitor.
    monitor: OnceLock<Arc<dyn Unpark>>,
    /// The way of its end, unless its owner cancels and waits.
    ending: OnceLock<Arc<dyn End>>,
    /// Its place on the list of all schedulers.
    enlisted: OnceLock<Box<dyn Any + Send + Sync>>,
    stopping: AtomicBool,
}

/// How a scheduler ends that has a grace or a deadline, as its workers and handles know it.
pub(crate) trait End: Send + Sync {
    /// Begins the end, if that has not begun. `owner` is the fiber that is about to wait for all
    /// others.
    fn begin(self: Arc<Self>, group: &Arc<Group>, token: &CancelToken, owner: Option<u64>);

    /// The last member of the scheduler's family has ended, and the workers are about to.
    fn complete(&self);

    /// Says by `report` which fibers are left with this worker, if somebody asks. Called by that
    /// worker, between two turns.
    fn answer(&self, worker: usize, report: &dyn Fn(Option<u64>) -> Vec<Stuck>);

    /// Says which fiber blocks this worker from now on; `None` if no fiber does any more. Called by
    /// that worker.
    fn blocks(&self, worker: usize, fiber: Option<Stuck>);
}

/// The address of the family of fibers detached in a scheduler.
struct Owned(NonNull<Family>);

#[allow(unsafe_code)] // It is only an address; its user says why the family is in place.
// SAFETY: families are for all threads.
unsafe impl Send for Owned {}

/// Stands in `sleepers` while the monitor sleeps, until a worker gets up.
const UNWATCHED: usize = 1 << (usize::BITS - 1);

impl Group {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            workers: (0..workers).map(|_| Remote::new()).collect(),
            outside: Shelf::new(),
            working: AtomicUsize::new(workers),
            sleepers: AtomicUsize::new(0),
            family: Mutex::new(None),
            kept: AtomicUsize::new(0),
            monitor: OnceLock::new(),
            ending: OnceLock::new(),
            enlisted: OnceLock::new(),
            stopping: AtomicBool::new(false),
        })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    #[inline]
    pub(crate) fn remote(&self, index: usize) -> &Remote {
        &self.workers[index]
    }

    /// Accepts a closure from outside, or gives that back if no worker is left. From any thread;
    /// never waits.
    pub(crate) fn try_inject(&self, job: Job) -> Result<(), Job> {
        self.outside.with(|jobs| match self.working.load(Ordering::Relaxed) {
            0 => Err(job),
            _ => {
                jobs.push_back(job);
                Ok(())
            }
        })?;
        self.call();
        Ok(())
    }

    /// Something has come from outside: wakes a sleeper. If all are busy, the first to reach a fork
    /// lets the closure in.
    fn call(&self) {
        if !self.wake_one() {
            self.workers.iter().for_each(|worker| worker.set_wanted(true));
        }
    }

    /// Has fibers that are spawned by handle belong to this family, until `disown`. The family may
    /// stay in place until the last worker has ended.
    pub(crate) fn own(&self, family: &Family, stays: bool) {
        if stays {
            self.kept.store(family.id().addr(), Ordering::Relaxed);
        }
        *self.family() = Some(Owned(NonNull::from(family)));
    }

    /// Whether this is the scheduler's own family, and stays in place until the last worker has
    /// ended.
    pub(crate) fn keeps(&self, family: FamilyId) -> bool {
        // Zero stands for none, in both.
        family.addr() != 0 && self.kept.load(Ordering::Relaxed) == family.addr()
    }

    /// The family is about to be completed: nothing is spawned by handle any more.
    pub(crate) fn disown(&self) {
        *self.family() = None;
    }

    /// Calls `f` with the family of fibers that are spawned by handle. The family's owner does not
    /// complete that meanwhile. `None` if the scheduler is ending.
    #[allow(unsafe_code)] // The family is reached by its address.
    pub(crate) fn with_family<R>(&self, f: impl FnOnce(&Family) -> R) -> Option<R> {
        let family = self.family();
        // SAFETY: its owner takes the family out under this lock before its completion.
        family.as_ref().map(|Owned(family)| f(unsafe { family.as_ref() }))
    }

    fn family(&self) -> MutexGuard<'_, Option<Owned>> {
        self.family.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// As `try_inject`, where a scheduler that has ended drops the closure: its waiter is told.
    pub(crate) fn inject(&self, job: Job) {
        drop(self.try_inject(job));
    }

    /// No worker will run again: the closures on the outside shelf are dropped, and their waiters
    /// are told.
    pub(crate) fn close(&self) {
        let left = self.outside.with(|jobs| {
            self.working.store(0, Ordering::Relaxed);
            std::mem::take(jobs)
        });
        drop(left);
    }

    /// Worker `index` wants to end, and may unless a closure has come from outside, or was sent
    /// there. The last one closes the group.
    pub(crate) fn retire(&self, index: usize) -> bool {
        let own = self.remote(index);
        self.outside.with(|jobs| {
            let may = own.sent.with(|sent| {
                let may = jobs.is_empty() && sent.is_empty();
                own.ended.store(may, Ordering::Relaxed);
                may
            });
            self.working.store(self.working.load(Ordering::Relaxed) - usize::from(may), Ordering::Relaxed);
            may
        })
    }

    /// Accepts a closure that its worker could not start, for any worker that can; or lets its
    /// maker run the closure, if that waits.
    pub(crate) fn put_back(&self, job: Job) {
        let awaited = self.outside.with(|jobs| {
            if job.is_awaited() {
                return Some(job);
            }
            jobs.push_front(job);
            None
        });
        match awaited {
            Some(job) => drop(job),
            None => _ = self.wake_one(),
        }
    }

    /// Takes back a closure that no worker could start, for its maker, which has announced its
    /// wait: under the lock, so that either this finds the closure or [`put_back`](Self::put_back)
    /// sees that it is awaited.
    pub(crate) fn take_homeless(&self, header: NonNull<JobHeader>) -> Option<Job> {
        self.outside.with(|jobs| take_back(jobs, header))
    }

    /// Offers a closure of worker `index` to all.
    pub(crate) fn offer(&self, index: usize, job: Job) {
        self.workers[index].shelf.with(|jobs| jobs.push_back(job));
        self.wake_for(index);
    }

    /// Sends a closure to the policy of worker `index`, or gives that back if the worker has ended.
    /// From any thread; never waits.
    pub(crate) fn send(&self, index: usize, job: Job) -> Result<(), Job> {
        let worker = self.remote(index);
        let refused = worker.sent.with(|jobs| {
            if worker.ended.load(Ordering::Relaxed) {
                return Err(job);
            }
            if worker.away.load(Ordering::Relaxed) {
                return Ok(Some(job));
            }
            jobs.push_back(job);
            Ok(None)
        })?;
        if let Some(job) = refused {
            self.inject(job);
        } else if !worker.rouse() {
            // The worker computes: its next fork lets the closure in.
            worker.set_wanted(true);
        }
        Ok(())
    }

    /// Gives the closures that were sent to worker `index` to all, since that does not come back to
    /// its loop. If the worker is `away`, blocking its thread on purpose, later ones are given to
    /// all, too.
    pub(crate) fn release(&self, index: usize, away: bool) {
        let worker = self.remote(index);
        // Under both locks, as in `retire`: an accepted closure is with a worker that has not
        // ended, or on a shelf that is open.
        let released = self.outside.with(|jobs| {
            worker.sent.with(|sent| {
                worker.away.fetch_or(away, Ordering::Relaxed);
                jobs.append(sent);
            });
            !jobs.is_empty()
        });
        if released {
            self.call();
        }
        self.wake_if_busy();
    }

    /// The worker is not away any more.
    pub(crate) fn come_back(&self, index: usize) {
        let worker = self.remote(index);
        worker.sent.with(|_| worker.away.store(false, Ordering::Relaxed));
    }

    /// Has worker `index` ask its policy again, if asleep or about to sleep.
    pub(crate) fn wake(&self, index: usize) {
        let worker = self.remote(index);
        worker.sent.with(|_| worker.nudged.store(true, Ordering::Relaxed));
        worker.rouse();
    }

    /// Takes the oldest closure of a worker other than `index`, except of those to which this one
    /// leaves theirs. Unless it `takes` all, only urgent ones.
    pub(crate) fn take_from_others(&self, index: usize, modest: Modest, takes: bool) -> Option<Job> {
        let workers = self.len();
        let others = (1..workers).map(|step| (index + step) % workers);
        let is_urgent = |worker: &Remote| worker.forks.load(Ordering::Relaxed) || worker.beat.turn().is_none();
        others
            .filter(|&other| takes || is_urgent(&self.workers[other]))
            .filter(|&other| !self.leaves_to(index, other, modest))
            .find_map(|other| self.workers[other].shelf.take_oldest())
    }

    /// Whether worker `index` leaves the closures on the shelf of `other` to that one: with more
    /// fibers itself, or shy of the few closures of one that is busy.
    fn leaves_to(&self, index: usize, other: usize, modest: Modest) -> bool {
        let (own, worker) = (&self.workers[index], &self.workers[other]);
        let (mine, theirs) = (&own.beat, &worker.beat);
        let suits = match modest {
            Modest::ToAll => true,
            Modest::ToSleepers => theirs.turn().is_none() && !worker.away.load(Ordering::Relaxed),
            Modest::No => false,
        };
        let is_shy = || own.is_shy() && theirs.turn().is_some() && worker.shelf.len.load(Ordering::Relaxed) <= CROWD;
        let waits = worker.forks.load(Ordering::Relaxed);
        other != index && !waits && !self.is_stopping() && (suits && mine.has_more(theirs) || is_shy())
    }

    /// All other workers, starting behind `index`.
    fn others(&self, index: usize) -> impl Iterator<Item = &Remote> {
        let (before, after) = self.workers.split_at(index);
        after.iter().skip(1).chain(before)
    }

    /// Asks the other workers to offer a child of a fork.
    pub(crate) fn beg(&self, index: usize) {
        self.others(index).for_each(|other| other.set_wanted(true));
    }

    /// Wakes one worker that sleeps, the one with the fewest fibers, and answers whether there was
    /// one.
    pub(crate) fn wake_one(&self) -> bool {
        self.has_sleepers() && self.wake_idlest(|_| true)
    }

    /// Wakes one worker that sleeps, for the closures on the shelf of worker `index`: none that
    /// would leave them there, and look again by itself.
    fn wake_for(&self, index: usize) -> bool {
        let comes_anyway = |other: usize| {
            let worker = &self.workers[other];
            let leaves = worker.naps.load(Ordering::Relaxed) && self.leaves_to(other, index, Modest::ToAll);
            if leaves && worker.is_shy() && !worker.passed_over.load(Ordering::Relaxed) {
                worker.passed_over.store(true, Ordering::Relaxed);
            }
            leaves
        };
        self.has_sleepers() && self.wake_idlest(|other| !comes_anyway(other))
    }

    fn wake_idlest(&self, suits: impl Fn(usize) -> bool) -> bool {
        let sleepers = || {
            let workers = self.workers.iter().enumerate();
            workers.filter(|(index, worker)| worker.inbox.is_asleep() && suits(*index)).map(|(_, worker)| worker)
        };
        let idlest = sleepers().min_by_key(|worker| worker.beat.fibers());
        // If another thread was faster, any other sleeper.
        idlest.is_some_and(|worker| worker.rouse() || sleepers().any(Remote::rouse))
    }

    /// Whether some worker sleeps, and was not roused since.
    pub(crate) fn sleeps_any(&self) -> bool {
        self.has_sleepers() && self.workers.iter().any(|worker| worker.inbox.is_asleep())
    }

    /// Whether some worker sleeps. The answer may be late.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) & !UNWATCHED != 0
    }

    /// Wakes one worker that sleeps if some shelf seems to hold something.
    #[inline]
    pub(crate) fn wake_if_busy(&self) {
        if self.has_sleepers() {
            self.wake_for_any();
        }
    }

    fn wake_for_any(&self) {
        if self.outside.seems_to_hold() {
            self.wake_one();
            return;
        }
        let mut offers = (0..self.len()).filter(|index| self.workers[*index].shelf.seems_to_hold());
        offers.any(|index| self.wake_for(index));
    }

    /// The closures that the shelves seem to hold for worker `index`, which leaves some to others.
    /// Without a lock.
    pub(crate) fn offer_to(&self, index: usize, modest: Modest) -> Option<Offer> {
        if self.outside.seems_to_hold() {
            return Some(Offer::Urgent);
        }
        let offers = self.workers.iter().enumerate().filter(|(_, worker)| worker.shelf.seems_to_hold());
        let mut most = None;
        for (other, worker) in offers.filter(|(other, _)| !self.leaves_to(index, *other, modest)) {
            match worker.beat.turn() {
                Some(turn) if other != index && !worker.forks.load(Ordering::Relaxed) => {
                    let number = worker.shelf.len.load(Ordering::Relaxed);
                    let turn = turn.get();
                    // By the number first: the fullest shelf says whether there is a crowd.
                    most = most.max(Some((number, turn)));
                }
                _ => return Some(Offer::Urgent),
            }
        }
        most.map(|(number, turn)| Offer::Closures { turn, number })
    }

    /// Whether another worker than `index` seems to offer a closure.
    pub(crate) fn offers_any(&self, index: usize) -> bool {
        self.others(index).any(|other| other.shelf.seems_to_hold())
    }

    /// Sets the way of its end.
    pub(crate) fn set_ending(&self, ending: Arc<dyn End>) {
        assert!(self.ending.set(ending).is_ok(), "a group ends in one way");
    }

    pub(crate) fn set_enlisted(&self, enlisted: Box<dyn Any + Send + Sync>) {
        assert!(self.enlisted.set(enlisted).is_ok(), "a group is enlisted once");
    }

    pub(crate) fn ending(&self) -> Option<&Arc<dyn End>> {
        self.ending.get()
    }

    /// Worker `index` does not come back to its loop: others get the closures that were sent there,
    /// and the worker is asked for those that its fiber and its policy can spare.
    pub(crate) fn relieve(&self, index: usize) {
        if self.len() == 1 {
            return;
        }
        self.release(index, false);
        self.remote(index).set_wanted(true);
    }

    /// Whether worker `index` has ended. For one that ends just now, the answer may be late.
    pub(crate) fn has_ended(&self, index: usize) -> bool {
        self.workers[index].ended.load(Ordering::Relaxed)
    }

    /// Tells all workers to end when they have nothing left.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // A worker that lies down after this takes the lock of the outside shelf after this line
        // did, and sees the flag.
        self.outside.with(|_| ());
        for worker in &self.workers {
            worker.rouse();
        }
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
