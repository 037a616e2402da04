//! What the workers of one scheduler share: closures that anybody may start, and who sleeps.
//!
//! Used by the worker loop and by whoever hands work in from outside.
//!
//! # The idea
//!
//! Each worker has a shelf of closures that it offers to the others; one more shelf takes what comes from outside. A worker
//! with nothing of its own looks through the shelves, and sleeps when all are empty. Whoever puts something on a shelf wakes one sleeper,
//! if there is one.
//!
//! # Sleeping without losing a wake-up
//!
//! The sleeper: (1) announces itself in its inbox, (2) counts itself in `sleepers`, (3) looks through all shelves once more, taking each
//! lock, (4) parks. The other side: (a) puts the closure on a shelf, under its lock, (b) reads `sleepers`, (c) if it is not zero,
//! rouses one that is announced.
//!
//! **The race to fear**: (a) comes after (3), and (b) reads a zero from before (2). It cannot: if (a) takes the shelf's lock after (3) did, the
//! lock carries (1) and (2) to (b), which then reads at least one, and (c) finds the announcement. If (a) comes before
//! (3), then (3) finds the closure. So `sleepers` needs no ordering of its own.
//!
//! A closure that is sent to one worker goes the same way: (a) under the lock of that worker's shelf of sent ones, which (3) takes, too; then that worker is roused, if it is announced. What
//! a policy shares by means of its own has no shelf: it is in place before [`Group::wake`] takes a lock that (3) takes, and if (3) comes after that, the worker asks its policy once more (`nudged`).
//!
//! A worker may be *away*, blocking its thread on purpose. It sets the mark, and takes out what was sent to it, in one hold of the lock of that shelf; whoever sends looks at the mark under the same lock, and if it is set puts the closure
//! on the shelf for all, by the steps (a) to (c). So nothing lies with a worker that is away. A monitor that finds a worker stuck releases what was sent to it in the same way, without the mark.
//!
//! Two closures may meet one sleeper: the second offer finds nobody announced, but then the sleeper is awake, and looks
//! through the shelves before it sleeps again. A worker that takes a closure wakes the next sleeper if more is on the shelf.
//!
//! # What a policy keeps
//!
//! A closure that a policy has kept is on no shelf, and (3) does not see it: a worker may sleep while another one's policy has some to spare. The busy one has to notice. It looks, without a lock, whether anybody
//! sleeps or has begged (`wanted`), before each of its turns and when a closure is pushed, and if so puts one on its shelf, which wakes a sleeper as above. One at a time: the next follows when that was taken. If nobody takes it, since who was
//! woken has found something else, the busy worker takes it back at its second turn from then, and if there is still a sleeper it wakes that with the next. So **no worker sleeps for ever while another one that goes on taking turns can spare a
//! closure**: that `sleepers` is read late only means that it is a later turn. What there is no remedy for: a turn that does not end, of a fiber that computes without forks, spawns or waits or that blocks its thread. What its worker's policy has kept stays there.
//! Closures that must not wait for that are to go [anywhere](crate::Goes::Anywhere), which costs a lock for each, or by the policy's own means to where others can take them.
//!
//! # The end
//!
//! A worker ends when the group stops and it has no fibers left, if nothing is on the outside shelf and nothing was sent to it: it says so under the locks of both (outside first), by `working` and `ended`. The last one closes the
//! outside shelf. What comes later is given back: so a closure from outside is started or refused, and one that a policy would send to a worker that has ended is offered to all instead.

use crate::common::Header;
use crate::inbox::Inbox;
use crate::local::no_unwind;
use segue_core::atomic::{AtomicBool, AtomicUsize, Mutex, Ordering};
use segue_core::{Accept, Job, JobHeader, Unpark};
use std::collections::VecDeque;
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

/// The part of a worker that other threads may touch.
pub(crate) struct Remote {
    pub(crate) inbox: Inbox<Header>,
    unparker: OnceLock<Arc<dyn Unpark>>,
    /// Which turn the worker is in.
    pub(crate) beat: Beat,
    /// Whether somebody would like this worker to come to the loop: an idle worker that would have a child of a fork, or a closure
    /// from outside that nobody was free to take. Read at every fork, written rarely.
    wanted: AtomicBool,
    shelf: Shelf,
    /// Closures for this worker's policy.
    sent: Shelf,
    /// Whether the policy is to be asked again before the worker sleeps. Written under the lock of `sent`.
    nudged: AtomicBool,
    /// Whether the worker has ended, and takes nothing any more. Written under the lock of `sent`.
    ended: AtomicBool,
    /// Whether the worker's thread blocks, so that nothing is to be sent to it. Written and read under the lock of `sent`.
    away: AtomicBool,
}

impl Remote {
    /// Sets what wakes the worker, when its thread has made its park.
    pub(crate) fn set_unparker(&self, unparker: Arc<dyn Unpark>) {
        assert!(self.unparker.set(unparker).is_ok(), "a worker starts once");
    }

    /// What wakes the worker after its inbox said that it sleeps.
    pub(crate) fn waker(&self) -> impl FnOnce() + use<> {
        let unparker = self.unparker.get().map(Arc::clone);
        move || {
            if let Some(unparker) = unparker {
                unpark(&*unparker);
            }
        }
    }

    /// As [`waker`](Remote::waker), for whoever holds the lock of a context, under which no foreign code is called (clause 12).
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
                segue_core::wake_after_interrupt(unparker.into());
            }
        }
    }

    fn rouse(&self) -> bool {
        let roused = self.inbox.rouse();
        if roused {
            (self.waker())();
        }
        roused
    }

    /// Whether a closure that was sent to the worker seems to wait.
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        !self.sent.looks_empty()
    }

    /// Takes the oldest closure that was sent to the worker.
    #[inline]
    pub(crate) fn take_sent(&self) -> Option<Job> {
        if self.has_sent() { self.sent.with(VecDeque::pop_front) } else { None }
    }

    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_wanted(&self, wanted: bool) {
        // Looking first keeps the line shared while it says the same.
        if self.is_wanted() != wanted {
            self.wanted.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Callers may have handed out pointers into their frames, or be a fiber in the middle of a yield. So foreign code neither unwinds them nor has them captured by an effect.
fn unpark(unparker: &dyn Unpark) {
    let no_unwind = no_unwind();
    segue_fiber::effect::outside(|| unparker.unpark());
    no_unwind.disarm();
}

/// Which turn a worker is in, for whoever watches it; 0 while it is in none. Of two looks that find the same turn, the worker was in that turn all the time between: numbers do not come back.
///
/// Written by the worker at each turn, so on a line of its own.
#[repr(align(128))]
pub(crate) struct Beat(AtomicUsize);

impl Beat {
    #[inline]
    pub(crate) fn set(&self, turn: usize) {
        self.0.store(turn, Ordering::Relaxed);
    }

    /// The worker is in no turn: it sleeps, or has left its thread to others.
    pub(crate) fn rest(&self) {
        self.set(0);
    }

    pub(crate) fn turn(&self) -> Option<NonZero<usize>> {
        NonZero::new(self.0.load(Ordering::Relaxed))
    }
}

/// Closures that anybody may take, oldest first; their own worker takes the newest.
struct Shelf {
    jobs: Mutex<VecDeque<Job>>,
    /// How many, for a look without the lock. Exact only under it.
    len: AtomicUsize,
}

impl Shelf {
    fn new() -> Self {
        Self { jobs: Mutex::new(VecDeque::new()), len: AtomicUsize::new(0) }
    }

    #[inline]
    fn looks_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    fn with<R>(&self, f: impl FnOnce(&mut VecDeque<Job>) -> R) -> R {
        let mut jobs = self.jobs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = f(&mut jobs);
        self.len.store(jobs.len(), Ordering::Relaxed);
        result
    }
}

/// Takes a certain closure out: the newest are looked at first.
pub(crate) fn reclaim(jobs: &mut VecDeque<Job>, header: NonNull<JobHeader>) -> Option<Job> {
    let at = jobs.iter().rposition(|job| job.as_raw() == header)?;
    jobs.remove(at)
}

/// The next poll of an async task goes to the worker that wakes it, if it is one of these, else to whoever is free.
impl Accept for Group {
    #[allow(unsafe_code)] // The worker is reached by its address.
    fn accept(&self, job: Job) {
        match NonNull::new(crate::common::worker().cast_mut()) {
            // SAFETY: the worker that runs on this thread is in place, and is the head of its `Local`.
            Some(worker) if unsafe { std::ptr::eq(&raw const *worker.as_ref().group, self) } => unsafe {
                (worker.as_ref().calls.accept)(worker, job);
            },
            _ => self.inject(job),
        }
    }
}

/// The workers of one scheduler, as all of them see it.
pub(crate) struct Group {
    workers: Box<[Remote]>,
    outside: Shelf,
    /// How many workers have not ended. Written under the lock of `outside`: at zero that is closed.
    working: AtomicUsize,
    /// How many workers sleep, and [`UNWATCHED`].
    sleepers: AtomicUsize,
    /// The monitor's thread, if there is a monitor.
    monitor: OnceLock<Arc<dyn Unpark>>,
    stopping: AtomicBool,
}

/// Stands in `sleepers` while the monitor sleeps, until a worker gets up.
const UNWATCHED: usize = 1 << (usize::BITS - 1);

impl Group {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        let remote = |_| Remote {
            inbox: Inbox::new(),
            unparker: OnceLock::new(),
            beat: Beat(AtomicUsize::new(0)),
            wanted: AtomicBool::new(false),
            shelf: Shelf::new(),
            sent: Shelf::new(),
            nudged: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            away: AtomicBool::new(false),
        };
        Arc::new(Self {
            workers: (0..workers).map(remote).collect(),
            outside: Shelf::new(),
            working: AtomicUsize::new(workers),
            sleepers: AtomicUsize::new(0),
            monitor: OnceLock::new(),
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

    /// Accepts a closure from outside, or gives it back if no worker is left. From any thread; never waits.
    pub(crate) fn try_inject(&self, job: Job) -> Result<(), Job> {
        self.outside.with(|jobs| match self.working.load(Ordering::Relaxed) {
            0 => Err(job),
            _ => {
                jobs.push_back(job);
                Ok(())
            }
        })?;
        if !self.wake_one() {
            // All are busy: the first to reach a fork lets it in.
            self.workers.iter().for_each(|worker| worker.set_wanted(true));
        }
        Ok(())
    }

    /// As `try_inject`, where a scheduler that has ended drops the closure: whoever waits for it is told.
    pub(crate) fn inject(&self, job: Job) {
        drop(self.try_inject(job));
    }

    /// No worker will run again: what is on the outside shelf is dropped, and whoever waits for it is told.
    pub(crate) fn close(&self) {
        let left = self.outside.with(|jobs| {
            self.working.store(0, Ordering::Relaxed);
            std::mem::take(jobs)
        });
        drop(left);
    }

    /// Worker `index` wants to end: it may unless something has come from outside, or was sent to it. The last one closes the group.
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

    /// Accepts a closure that its worker could not start, to be started by whoever can.
    pub(crate) fn put_back(&self, job: Job) {
        self.outside.with(|jobs| jobs.push_front(job));
        self.wake_one();
    }

    /// Takes back a certain closure that was put back.
    pub(crate) fn reclaim_outside(&self, header: NonNull<JobHeader>) -> Option<Job> {
        if self.outside.looks_empty() { None } else { self.outside.with(|jobs| reclaim(jobs, header)) }
    }

    /// Whether a closure from outside seems to wait.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        !self.outside.looks_empty()
    }

    /// Offers a closure of worker `index` to all.
    pub(crate) fn offer(&self, index: usize, job: Job) {
        self.workers[index].shelf.with(|jobs| jobs.push_back(job));
        self.wake_one();
    }

    /// Takes back a certain closure that worker `index` offered, if it is still there.
    pub(crate) fn reclaim(&self, index: usize, header: NonNull<JobHeader>) -> Option<Job> {
        self.workers[index].shelf.with(|jobs| reclaim(jobs, header))
    }

    /// Whether what worker `index` offered seems to lie there still.
    pub(crate) fn has_offers(&self, index: usize) -> bool {
        !self.workers[index].shelf.looks_empty()
    }

    /// Takes the newest closure that worker `index` offered itself.
    #[inline]
    pub(crate) fn take_own(&self, index: usize) -> Option<Job> {
        let shelf = &self.workers[index].shelf;
        if shelf.looks_empty() { None } else { shelf.with(VecDeque::pop_back) }
    }

    /// Takes the oldest closure from outside.
    #[inline]
    pub(crate) fn take_outside(&self) -> Option<Job> {
        if self.outside.looks_empty() { None } else { self.outside.with(VecDeque::pop_front) }
    }

    /// Sends a closure to the policy of worker `index`, or gives it back if that has ended. From any thread; never waits.
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
            // It computes: its next fork lets it in.
            worker.set_wanted(true);
        }
        Ok(())
    }

    /// Worker `index` is about to block its thread: what was sent to it, and will be, goes to all.
    pub(crate) fn go_away(&self, index: usize) {
        self.release(index, true);
    }

    /// The opposite of [`go_away`](Group::go_away).
    pub(crate) fn come_back(&self, index: usize) {
        let worker = self.remote(index);
        worker.sent.with(|_| worker.away.store(false, Ordering::Relaxed));
    }

    /// Gives what was sent to worker `index` to all, and wakes somebody for what it offers. From any thread.
    fn release(&self, index: usize, leaves: bool) {
        let worker = self.remote(index);
        let sent = worker.sent.with(|jobs| {
            if leaves {
                worker.away.store(true, Ordering::Relaxed);
            }
            std::mem::take(jobs)
        });
        sent.into_iter().for_each(|job| self.inject(job));
        self.wake_if_busy();
    }

    /// Has worker `index` ask its policy again, if it sleeps or is about to.
    pub(crate) fn wake(&self, index: usize) {
        let worker = self.remote(index);
        worker.sent.with(|_| worker.nudged.store(true, Ordering::Relaxed));
        worker.rouse();
    }

    /// Takes the oldest closure of a worker other than `index`.
    pub(crate) fn take_from_others(&self, index: usize) -> Option<Job> {
        self.others(index).find_map(|other| {
            let shelf = &other.shelf;
            if shelf.looks_empty() { None } else { shelf.with(VecDeque::pop_front) }
        })
    }

    /// Whether some shelf holds something, as seen under each lock: step (3) of going to sleep.
    fn anything_left(&self, index: usize) -> bool {
        let holds = |shelf: &Shelf| shelf.with(|jobs| !jobs.is_empty());
        let own = &self.workers[index];
        let called = own.sent.with(|jobs| own.nudged.swap(false, Ordering::Relaxed) || !jobs.is_empty());
        called || holds(&self.outside) || self.workers.iter().any(|worker| holds(&worker.shelf))
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

    /// Wakes one worker that sleeps, and answers whether there was one.
    pub(crate) fn wake_one(&self) -> bool {
        self.has_sleepers() && self.workers.iter().any(Remote::rouse)
    }

    /// Whether some worker sleeps, as it looks.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) & !UNWATCHED != 0
    }

    /// Wakes one worker that sleeps if some shelf looks as if it held something.
    #[inline]
    pub(crate) fn wake_if_busy(&self) {
        if self.has_sleepers() && self.looks_busy() {
            self.wake_one();
        }
    }

    /// Whether some shelf looks as if it held something, without taking a lock.
    pub(crate) fn looks_busy(&self) -> bool {
        !self.outside.looks_empty() || self.workers.iter().any(|worker| !worker.shelf.looks_empty())
    }

    /// Steps (1) to (3) of going to sleep. Answers whether worker `index` may park. One that could start nothing anyway (`starved`) need not look. When the group has stopped, one with fibers still waits
    /// for them: visitors, for instance, which may need the scheduler in whose fiber the worker runs.
    ///
    /// [`got_up`](Group::got_up) follows in any case.
    pub(crate) fn lie_down(&self, index: usize, starved: bool, has_fibers: bool) -> bool {
        let worker = &self.workers[index];
        worker.beat.rest();
        let announced = worker.inbox.doze();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        announced && (starved || !self.anything_left(index)) && (has_fibers || !self.is_stopping())
    }

    /// Worker `index` is awake again.
    pub(crate) fn got_up(&self, index: usize) {
        if self.sleepers.fetch_sub(1, Ordering::Relaxed) & UNWATCHED != 0 {
            self.call_monitor();
        }
        self.workers[index].inbox.rouse();
    }

    /// Sets what wakes the monitor.
    pub(crate) fn set_monitor(&self, unparker: Arc<dyn Unpark>) {
        assert!(self.monitor.set(unparker).is_ok(), "a group has one monitor");
    }

    /// Announces that the monitor sleeps, if all workers do. Then the first of them that gets up wakes it.
    pub(crate) fn unwatch(&self) -> bool {
        let all = self.len();
        self.sleepers.compare_exchange(all, all | UNWATCHED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The monitor is awake again.
    pub(crate) fn watch_again(&self) {
        self.sleepers.fetch_and(!UNWATCHED, Ordering::Relaxed);
    }

    /// Wakes the monitor, which sleeps.
    #[cold]
    fn call_monitor(&self) {
        self.watch_again();
        if let Some(monitor) = self.monitor.get() {
            monitor.unpark();
        }
    }

    /// Worker `index` does not come back to its loop: others get what was sent to it, and it is asked for what its fiber and its policy can spare.
    pub(crate) fn relieve(&self, index: usize) {
        if self.len() == 1 {
            return;
        }
        let stuck = self.remote(index);
        if stuck.has_sent() {
            // Under both locks, as in `retire`: what was accepted is with a worker that has not ended, or on a shelf that is open.
            self.outside.with(|jobs| stuck.sent.with(|sent| jobs.append(sent)));
            self.wake_one();
        }
        self.wake_if_busy();
        stuck.set_wanted(true);
    }

    /// Tells all workers to end when they have nothing left.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // A worker that lies down after this takes the lock of the outside shelf after this line did, and sees the flag.
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
