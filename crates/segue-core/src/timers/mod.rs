//! Timers and the clock they go by, real or simulated.
//!
//! Every scheduler has one [`Timers`], which its fibers wait on and its worker fires; plain threads
//! share one that a thread of its own fires. The entries lie in a slab (`slab.rs`) and are ordered
//! by wheels (`wheel.rs`), under one lock: a timer is made and withdrawn in O(1), in any order, and
//! a withdrawn one leaves nothing behind. The order of firing is exact: by deadline, to the
//! nanosecond, and then by registration.
//!
//! The firing worker takes the due entries out and claims their triggers under the lock, and
//! resumes the waiters afterwards. A waiter that leaves takes its entry out under the same lock; so
//! an entry never outlives the frame with its trigger. An entry may also be an object that expires
//! (`expiry.rs`), a call, or a [lazy timer](crate::drivers::LazyTimer): these are called after the
//! lock. So foreign code that runs there finds no lock, and may register, withdraw and fire. The
//! timers know of none of the three: contexts with a deadline and lazy timers stand in rooms above,
//! and bring the function to call.
//!
//! Timers for which others wait are fired by another thread while their worker is away
//! (`late.rs`).
//!
//! # Time
//!
//! The wheels count nanoseconds from a *start*, in 64 bits: 584 years. Points before the start have
//! passed. A simulated clock may be moved further than that: after half of it the start is moved to
//! the clock's time, before a registration that would be out of reach; so every deadline up to 292
//! years ahead has an entry, at any time. Beyond, there may be none.
#![allow(unsafe_code)] // Entries name triggers in the frames of waiters.

pub(crate) mod expiry;
mod late;
pub(crate) mod of_threads;
mod slab;
mod wheel;

pub use late::{LATE, Look, look_at};

pub(crate) use slab::{Entry, Key, Lazy, Rare};

use crate::chain::barrier;
use crate::chain::deferred_wakers;
use crate::chain::unwind::contain;
use crate::contract::clock::Clock;
use crate::contract::park::Unpark;
use crate::contract::trigger::Trigger;
use crate::contract::wakeup::Wakeup;
use crate::primitives::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::lock::Lock;
use crate::primitives::prefetch::prefetch_bytes;
use crate::primitives::waits_for::WaitsFor;
use crate::timers::expiry::{Expires, Expiring, Expiry};
use crate::timers::of_threads::thread_timers;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wheel::Wheels;

/// The action for an entry that was due, after the lock.
enum Due {
    Wake(#[expect(dead_code, reason = "dropping it resumes")] Wakeup),
    Expire(Expiring),
    Rare(Box<Rare>, Key),
}

struct Queue {
    wheels: Wheels,
    /// The origin of the wheels' counts.
    start: Instant,
    /// The time of a simulated clock; `None` for the real one.
    simulated: Option<Instant>,
    /// When others look at them; `late.rs` has the states.
    look: u64,
    /// The number of entries that a look has taken out and will put back.
    kept: usize,
}

// SAFETY: the triggers are named under the lock only, and each is alive as long as its entry; the
// other contents of an entry are `Send`.
unsafe impl Send for Queue {}

impl Queue {
    fn now(&self) -> Instant {
        self.simulated.unwrap_or_else(Instant::now)
    }

    /// In nanoseconds from the start. `None` is out of reach.
    #[inline]
    fn since_start(&self, at: Instant) -> Option<u64> {
        let since = at.saturating_duration_since(self.start);
        since.as_secs().checked_mul(1_000_000_000)?.checked_add(since.subsec_nanos().into())
    }

    /// Makes an entry, unless its time never comes; and says when it comes up.
    #[inline]
    fn insert(&mut self, at: Instant, entry: Entry) -> (Key, Option<u64>) {
        let deadline = self.since_start(at).or_else(|| self.start_anew(at));
        (deadline.map_or(Key::NEVER, |deadline| self.wheels.insert(deadline, entry)), deadline)
    }

    /// Moves the start to the clock's time, if that is far away.
    #[cold]
    fn start_anew(&mut self, at: Instant) -> Option<u64> {
        let now = self.now();
        let passed = self.since_start(now).unwrap_or(u64::MAX);
        if passed <= u64::MAX / 2 {
            return None;
        }
        self.wheels.subtract(passed);
        self.start = now;
        self.since_start(at)
    }
}

/// The timers of a scheduler, and its clock: a handle that can be cloned.
#[derive(Clone)]
pub struct Timers(Arc<Shared>);

struct Shared {
    queue: Lock<Queue>,
    /// The number of entries, for a look without the lock.
    len: AtomicUsize,
    /// Whether a look may have taken entries out to be put back. Set before `len` is without them;
    /// the worker takes this back, under the lock.
    keeps: AtomicBool,
    earlier: OnceLock<std::thread::Thread>,
    /// Nobody fires them any more.
    closed: AtomicBool,
    /// None for the real clock.
    simulation: Option<Simulation>,
}

/// The rules of a simulated clock, besides the timers.
#[derive(Default)]
pub(crate) struct Simulation {
    /// How much work is under way for which the clock stands.
    pub(crate) outside: AtomicUsize,
    /// The thread to unpark when none is left.
    pub(crate) idle: OnceLock<Arc<dyn Unpark>>,
    /// How many waits for the kernel there are. The one thread of the simulation both counts and
    /// asks.
    pub(crate) kernel: AtomicUsize,
    /// Whether the world outside takes part. Set before a fiber runs.
    pub(crate) open: AtomicBool,
    /// The seed of its fibers' [random](crate::random) numbers, and whether one was drawn.
    seed: u64,
    has_drawn: AtomicBool,
}

/// A limit that may have been moved by the time that its entry comes up. The room `drivers` has the
/// one kind.
pub(crate) trait Movable: Send + Sync {
    /// The entry with this key, which was `lazy`, has come up. Answers whether the limit is over;
    /// if not, `lazy` is entered again, for the limit.
    fn come_up(&self, lazy: Lazy, timers: &Timers, key: Key, now: Instant) -> bool;

    /// The entry with this key was taken out before coming up, and is entered again.
    fn put_back(&self, lazy: Lazy, timers: &Timers, key: Key, now: Instant);
}

/// How many timers are claimed under one hold of the lock.
const BATCH: usize = 32;

/// The distance around a waiter's trigger of its other fields that a resume touches.
const AROUND: usize = 128;

impl Timers {
    /// Timers that go by the real clock.
    #[must_use]
    pub fn real() -> Self {
        Self::with(None)
    }

    /// Timers that go by a clock that moves only by [`advance`](Timers::advance).
    #[must_use]
    pub fn simulated() -> Self {
        Self::seeded(0)
    }

    /// As [`simulated`](Timers::simulated), in a simulation with [random](crate::random) numbers
    /// that follow from `seed`.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::with(Some((Instant::now(), seed)))
    }

    fn with(simulated: Option<(Instant, u64)>) -> Self {
        let simulation = simulated.map(|(_, seed)| Simulation { seed, ..Simulation::default() });
        let simulated = simulated.map(|(now, _)| now);
        let start = simulated.unwrap_or_else(Instant::now);
        Self(Arc::new(Shared {
            queue: Lock::new(Queue { wheels: Wheels::new(), start, simulated, look: late::NEVER, kept: 0 }),
            len: AtomicUsize::new(0),
            keeps: AtomicBool::new(false),
            earlier: OnceLock::new(),
            closed: AtomicBool::new(false),
            simulation,
        }))
    }

    /// Unparks `thread` whenever a timer is registered that comes before all others.
    pub(crate) fn call_earlier(&self, thread: std::thread::Thread) {
        // There is one thread that fires.
        let _ = self.0.earlier.set(thread);
    }

    /// The clock's time.
    pub fn now(&self) -> Instant {
        if self.is_real() { Instant::now() } else { self.0.queue.lock().now() }
    }

    /// How long until the next timer is due; `None` if there is none. Zero if one is due. Not
    /// longer than [`LATE`] while a look has some to put back.
    pub fn until_next(&self) -> Option<Duration> {
        if self.is_empty() && !self.0.keeps.load(Ordering::Relaxed) {
            return None;
        }
        let mut queue = self.0.queue.lock();
        if queue.kept == 0 {
            self.0.keeps.store(false, Ordering::Relaxed);
        }
        let first = queue.wheels.first_deadline();
        let now = queue.since_start(queue.now()).unwrap_or(u64::MAX);
        let left = first.map(|deadline| Duration::from_nanos(deadline.saturating_sub(now)));
        let until_back = (queue.kept > 0).then_some(LATE);
        left.into_iter().chain(until_back).min()
    }

    /// Whether nothing waits for the clock. Never waits, takes no lock: for the scheduler's own
    /// thread.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len.load(Ordering::Acquire) == 0
    }

    /// Moves a simulated clock forward. Has no effect on the real one.
    pub fn advance(&self, by: Duration) {
        if let Some(now) = &mut self.0.queue.lock().simulated {
            *now += by;
        }
    }

    /// Whether a simulated clock is to stand, since somebody [works outside](crate::outside_work)
    /// for one of its fibers.
    pub fn has_outside_work(&self) -> bool {
        self.simulation().is_some_and(|simulation| simulation.outside.load(Ordering::Acquire) != 0)
    }

    /// Whether a fiber that goes by a simulated clock [waits for the
    /// kernel](crate::drivers::kernel_wait).
    pub fn has_kernel_waits(&self) -> bool {
        self.simulation().is_some_and(|simulation| simulation.kernel.load(Ordering::Relaxed) != 0)
    }

    /// Lets the world outside take part in the simulation: events of the kernel may come.
    pub fn open_to_the_world(&self) {
        if let Some(simulation) = self.simulation() {
            simulation.open.store(true, Ordering::Relaxed);
        }
    }

    /// Whether events of the kernel may come: by the real clock, and in a simulation that is
    /// [open](Timers::open_to_the_world).
    pub fn is_open_to_the_world(&self) -> bool {
        self.simulation().is_none_or(|simulation| simulation.open.load(Ordering::Relaxed))
    }

    /// Whether a fiber of the simulation has drawn a [random](crate::random) number: if none has,
    /// its seed has had no effect.
    pub fn has_drawn(&self) -> bool {
        self.simulation().is_some_and(|simulation| simulation.has_drawn.load(Ordering::Relaxed))
    }

    /// The seed of the simulation, to draw from; `None` if the clock is the real one.
    pub(crate) fn drawn_from(&self) -> Option<u64> {
        let simulation = self.simulation()?;
        simulation.has_drawn.store(true, Ordering::Relaxed);
        Some(simulation.seed)
    }

    /// Unparks the idle simulator when no work outside is left. The first call counts.
    pub fn call_without_outside_work(&self, idle: Arc<dyn Unpark>) {
        self.simulation().map(|simulation| simulation.idle.set(idle));
    }

    /// Signals every timer that is due, in the order of their deadlines. Answers the number of
    /// those that were taken.
    pub fn fire(&self) -> usize {
        if self.is_empty() { 0 } else { self.fire_due(false) }
    }

    /// The same, and not for their worker, if that is away.
    fn fire_due(&self, is_away: bool) -> usize {
        let (mut fired, mut kept) = (0, Vec::new());
        let now = self.now();
        loop {
            let mut entries: [Option<(Key, Entry)>; BATCH] = [const { None }; BATCH];
            let mut batch: [Option<Due>; BATCH] = [const { None }; BATCH];
            let mut due = 0;
            let mut queue = self.0.queue.lock();
            let until = queue.since_start(now).unwrap_or(u64::MAX);
            while due < BATCH {
                let room = BATCH - due;
                let popped = queue.wheels.pop_some(until, room, |key, entry| {
                    // Waiters that sleep for long are in no cache: they are fetched all at a time.
                    if let Entry::Wait { trigger, .. } = &entry {
                        prefetch_bytes(trigger.as_ptr().wrapping_byte_sub(AROUND), 2 * AROUND);
                    }
                    entries[due] = Some((key, entry));
                    due += 1;
                });
                if popped == 0 {
                    break;
                }
            }
            for (place, popped) in batch.iter_mut().zip(&mut entries).take(due) {
                let Some((key, entry)) = popped.take() else { unreachable!("so many were popped") };
                *place = Some(match entry {
                    // SAFETY: the entry was in the queue, so its waiter has not left.
                    Entry::Wait { trigger, arm } => match unsafe { trigger.as_ref() }.claim(arm) {
                        Ok(wakeup) => {
                            fired += 1;
                            Due::Wake(wakeup)
                        }
                        Err(wakeup) => Due::Wake(wakeup),
                    },
                    Entry::Expiry(expiring) => {
                        fired += 1;
                        Due::Expire(expiring)
                    }
                    Entry::Rare(rare) => {
                        if is_away && matches!(*rare, Rare::Lazy(_)) {
                            queue.kept += 1;
                            self.0.keeps.store(true, Ordering::Relaxed);
                        }
                        Due::Rare(rare, key)
                    }
                });
            }
            self.0.len.store(queue.wheels.len(), Ordering::Release);
            drop(queue);
            let _batch_of_wakes = deferred_wakers::Batch::new();
            for due in batch.iter_mut().take(due).filter_map(Option::take) {
                match due {
                    Due::Wake(_) => {}
                    Due::Expire(expiring) => expiring.expire(),
                    Due::Rare(rare, key) => match *rare {
                        Rare::Lazy(lazy) if is_away => kept.push((lazy, key)),
                        Rare::Lazy(lazy) => {
                            // Without an owner there is no wait.
                            let owner = lazy.owner.upgrade();
                            let come_up = || owner.is_some_and(|owner| owner.come_up(lazy, self, key, now));
                            fired += usize::from(barrier(WaitsFor::new("the limit of a wait"), come_up));
                        }
                        Rare::Call(call) => {
                            fired += 1;
                            call();
                        }
                        // If that has gone, there is nothing to look at.
                        Rare::Look(what) => _ = what.upgrade().and_then(|what| contain(|| what.look())),
                    },
                }
            }
            if due < BATCH {
                self.put_back(kept, now);
                return fired;
            }
        }
    }

    /// Tells all waiters that nobody will fire these timers any more: they go to the timers of the
    /// scheduler that they are on by then. For the end of a scheduler, when its fibers have ended;
    /// futures that were polled in them may be elsewhere.
    ///
    /// A deadline that has not passed belongs to a captured computation, which may go on elsewhere,
    /// and a grace to a token that may do so: both go to the timers of plain threads, with as much
    /// time as is left.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        let now = self.now();
        let (mut told, mut left) = (Vec::new(), Vec::new());
        let mut queue = self.0.queue.lock();
        let start = queue.start;
        while let Some(deadline) = queue.wheels.first_deadline()
            && let Some((_, entry)) = queue.wheels.pop(deadline)
        {
            match entry {
                // SAFETY: the entry was in the queue under this lock, so its waiter has not left.
                Entry::Wait { trigger, arm } => told.push(unsafe { trigger.as_ref() }.claim(arm)),
                entry @ Entry::Expiry(_) => left.push((start + Duration::from_nanos(deadline), entry)),
                Entry::Rare(rare) => match *rare {
                    Rare::Call(_) => left.push((start + Duration::from_nanos(deadline), Entry::Rare(rare))),
                    // The waits were those of fibers, which have ended; the next one finds that its
                    // timers are others. A look is among those of plain threads.
                    Rare::Lazy(_) | Rare::Look(_) => {}
                },
            }
        }
        self.0.len.store(0, Ordering::Release);
        drop(queue);
        for (at, entry) in left {
            if let Some(at) = Instant::now().checked_add(at.saturating_duration_since(now)) {
                // Its maker takes out of the queue an entry that is not there any more: so the
                // entry stays until then, which does no harm.
                thread_timers().insert(at, entry);
            }
        }
        let _batch = deferred_wakers::Batch::new();
        drop(told);
    }

    /// Signals `trigger` at `deadline`, unless the key that this returns is
    /// [removed](Timers::remove) before.
    ///
    /// # Safety
    /// The trigger stays in place until the signal or the removal of the key.
    pub(crate) unsafe fn signal_at(&self, deadline: Instant, trigger: &Trigger, arm: usize) -> Key {
        let is_watched = !cfg!(loom) && !trigger.waits_here() && self.has_looks();
        self.enter(deadline, Entry::Wait { trigger: NonNull::from(trigger), arm }, is_watched)
    }

    /// Whether nobody fires them any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// The parts of a simulation, if the clock is one's.
    #[inline]
    pub(crate) fn simulation(&self) -> Option<&Simulation> {
        self.0.simulation.as_ref()
    }

    #[inline]
    pub(crate) fn is_real(&self) -> bool {
        self.simulation().is_none()
    }

    /// Their identity, as long as there is a handle of them.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn insert(&self, deadline: Instant, entry: Entry) -> Key {
        self.enter(deadline, entry, false)
    }

    /// Makes an entry; one that is watched comes up by that time though its worker is away.
    #[inline]
    fn enter(&self, deadline: Instant, entry: Entry, is_watched: bool) -> Key {
        let mut queue = self.0.queue.lock();
        let (key, due) = queue.insert(deadline, entry);
        self.0.len.store(queue.wheels.len(), Ordering::Release);
        if is_watched {
            let set = due.and_then(|due| queue.look_for(due));
            // No thread sleeps until the first of these timers, by `has_looks`.
            drop(queue);
            self.set_look(set);
            return key;
        }
        if let Some(thread) = self.0.earlier.get() {
            let is_first = queue.wheels.first_key() == Some(key);
            drop(queue);
            if is_first {
                thread.unpark();
            }
        }
        key
    }

    /// Drops an entry, if it has not come up.
    pub(crate) fn remove(&self, key: Key) {
        self.remove_beside(key, ptr::null());
    }

    /// As [`remove`](Timers::remove). Answers whether the entry was an owner of the object that has
    /// this expiry: then the owner is the caller's.
    fn remove_beside(&self, key: Key, expiry: *const Expiry) -> bool {
        let mut queue = self.0.queue.lock();
        let removed = queue.wheels.remove(key);
        self.0.len.store(queue.wheels.len(), Ordering::Release);
        drop(queue);
        match removed {
            // It may be the last owner of the object.
            Some(Entry::Expiry(expiring)) => return expiring.into_owner_of(expiry),
            Some(Entry::Rare(rare)) => drop_rare(rare),
            Some(Entry::Wait { .. }) | None => {}
        }
        false
    }

    /// Has `what` expire at `deadline`, unless the key that this returns is
    /// [withdrawn](Timers::withdraw) before.
    pub(crate) fn expire_at<T: Expires>(&self, deadline: Instant, what: Arc<T>) -> Key {
        self.insert(deadline, Entry::Expiry(Expiring::new(what)))
    }

    /// As [`remove`](Timers::remove), where the entry is an owner of `what`.
    #[inline]
    pub(crate) fn withdraw<T: Expires>(&self, key: Key, what: &Arc<T>) {
        if self.remove_beside(key, Expiry::at(what)) {
            // SAFETY: the entry's reference to the object of this address is this function's now.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(what)) };
        }
    }
}

/// Apart, so that a short function withdraws the frequent kinds.
#[cold]
#[inline(never)]
fn drop_rare(rare: Box<Rare>) {
    drop(rare);
}

// SAFETY: these are the timers.
unsafe impl Clock for Timers {}

impl Deref for dyn Clock + '_ {
    type Target = Timers;

    #[inline(always)]
    fn deref(&self) -> &Timers {
        // SAFETY: each clock is a `Timers`, as its implementation has promised.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

impl_debug!([] Timers, |it| len: it.0.len.load(Ordering::Relaxed));
