//! Timers and the clock they go by, real or simulated.
//!
//! Every scheduler has one [`Timers`], which its fibers wait on and its worker fires; plain threads share one that a thread of its
//! own fires. The entries are ordered in a map under the lock: a timer is made and withdrawn in O(log n), in any order, and what
//! was withdrawn leaves nothing behind.
//!
//! Whoever fires takes the due entries out and claims their triggers under the lock, and resumes them after it. A waiter that
//! leaves takes its entry out under the same lock; so an entry never outlives the frame whose trigger it names. An entry may also be a context
//! with a deadline, which is cancelled after the lock.
#![allow(unsafe_code)] // Entries name triggers in the frames of waiters.

use crate::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::cancel::{Cancelled, Reason};
use crate::context::Context;
use crate::deferred;
use crate::fiber::{self, WaitsFor};
use crate::lock::Lock;
use crate::park::Unpark;
use crate::source::{Source, Waitable};
use crate::trigger::{Trigger, Wakeup};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The order of timers: by deadline, then by registration.
pub(crate) type Key = (Instant, u64);

enum Entry {
    /// Somebody who waits.
    Wait { trigger: NonNull<Trigger>, arm: usize },
    /// A part of the tree that is to be cancelled.
    Cancel(Arc<Context>),
}

/// What is to be done for an entry that was due, after the lock.
enum Due {
    Wake(#[expect(dead_code, reason = "dropping it resumes")] Wakeup),
    Cancel(Arc<Context>),
}

struct Queue {
    entries: BTreeMap<Key, Entry>,
    registered: u64,
    /// What a simulated clock shows; `None` for the real one.
    simulated: Option<Instant>,
}

// SAFETY: the triggers are named under the lock only, and each is alive as long as its entry.
unsafe impl Send for Queue {}

/// The timers of a scheduler, and its clock: a handle that can be cloned.
#[derive(Clone)]
pub struct Timers(Arc<Shared>);

struct Shared {
    queue: Lock<Queue>,
    /// The number of entries, for a look without the lock.
    len: AtomicUsize,
    earlier: OnceLock<std::thread::Thread>,
    is_real: bool,
    /// Nobody fires them any more.
    closed: AtomicBool,
    /// How much work is under way for which a simulated clock stands.
    outside: AtomicUsize,
    /// Who is to be told when none is left.
    idle: OnceLock<Arc<dyn Unpark>>,
}

/// How many timers are claimed under one hold of the lock.
const BATCH: usize = 32;

impl Timers {
    /// Timers that go by the real clock.
    #[must_use]
    pub fn real() -> Self {
        Self::with(None)
    }

    /// Timers that go by a clock that moves only when it is [told to](Timers::advance).
    #[must_use]
    pub fn simulated() -> Self {
        Self::with(Some(Instant::now()))
    }

    fn with(simulated: Option<Instant>) -> Self {
        Self(Arc::new(Shared {
            queue: Lock::new(Queue { entries: BTreeMap::new(), registered: 0, simulated }),
            len: AtomicUsize::new(0),
            earlier: OnceLock::new(),
            is_real: simulated.is_none(),
            closed: AtomicBool::new(false),
            outside: AtomicUsize::new(0),
            idle: OnceLock::new(),
        }))
    }

    /// Unparks `thread` whenever a timer is registered that comes before all others.
    pub(crate) fn call_earlier(&self, thread: std::thread::Thread) {
        // There is one thread that fires.
        let _ = self.0.earlier.set(thread);
    }

    /// What the clock shows.
    pub fn now(&self) -> Instant {
        if self.0.is_real { Instant::now() } else { self.0.queue.lock().simulated.unwrap_or_else(Instant::now) }
    }

    /// How long until the next timer is due; `None` if there is none. Zero if one is due.
    pub fn until_next(&self) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        let queue = self.0.queue.lock();
        let (&(deadline, _), _) = queue.entries.first_key_value()?;
        Some(deadline.saturating_duration_since(queue.simulated.unwrap_or_else(Instant::now)))
    }

    /// Whether nothing waits for the clock. Never waits, takes no lock: for the scheduler's own thread.
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

    /// Whether a simulated clock is to stand, since somebody [works outside](crate::outside_work) for one of its fibers.
    pub fn has_outside_work(&self) -> bool {
        self.0.outside.load(Ordering::Acquire) != 0
    }

    /// Unparks whoever idles when no work outside is left. The first call counts.
    pub fn call_without_outside_work(&self, idle: Arc<dyn Unpark>) {
        let _ = self.0.idle.set(idle);
    }

    /// Answers whether it counts: not with the real clock.
    #[inline]
    pub(crate) fn begin_outside_work(&self) -> bool {
        if !self.0.is_real {
            self.0.outside.fetch_add(1, Ordering::Relaxed);
        }
        !self.0.is_real
    }

    pub(crate) fn end_outside_work(&self) {
        if self.0.outside.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(idle) = self.0.idle.get()
        {
            idle.unpark();
        }
    }

    /// Signals every timer that is due, in the order of their deadlines. Answers how many took it.
    pub fn fire(&self) -> usize {
        let mut fired = 0;
        if self.is_empty() {
            return fired;
        }
        let now = self.now();
        loop {
            let mut batch: [Option<Due>; BATCH] = [const { None }; BATCH];
            let mut due = 0;
            let mut queue = self.0.queue.lock();
            while due < BATCH
                && let Some(first) = queue.entries.first_entry()
                && first.key().0 <= now
            {
                batch[due] = match first.remove() {
                    // SAFETY: the entry was in the queue, so its waiter has not left.
                    Entry::Wait { trigger, arm } => unsafe { trigger.as_ref() }.claim(arm).map(Due::Wake),
                    Entry::Cancel(context) => Some(Due::Cancel(context)),
                };
                due += usize::from(batch[due].is_some());
            }
            self.0.len.store(queue.entries.len(), Ordering::Release);
            drop(queue);
            fired += due;
            let _batch_of_wakes = deferred::Batch::new();
            for due in batch.into_iter().flatten() {
                if let Due::Cancel(context) = due {
                    context.cancel(Some(Reason::new(TimedOut::new())));
                }
            }
            if due < BATCH {
                return fired;
            }
        }
    }

    /// Tells all who wait that nobody will fire these timers any more: they go to those of whatever scheduler they are on by then. For the end of
    /// a scheduler, whose fibers have ended; futures that were polled in them may be elsewhere.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        let mut told = Vec::new();
        let mut queue = self.0.queue.lock();
        queue.entries.retain(|_, entry| match entry {
            Entry::Wait { trigger, arm } => {
                // SAFETY: the entry is in the queue, so its waiter has not left.
                told.extend(unsafe { trigger.as_ref() }.claim(*arm));
                false
            }
            Entry::Cancel(_) => true,
        });
        self.0.len.store(queue.entries.len(), Ordering::Release);
        drop(queue);
        let _batch = deferred::Batch::new();
        drop(told);
    }

    fn insert(&self, deadline: Instant, entry: Entry) -> Key {
        let mut queue = self.0.queue.lock();
        queue.registered += 1;
        let key = (deadline, queue.registered);
        queue.entries.insert(key, entry);
        self.0.len.store(queue.entries.len(), Ordering::Release);
        let first = queue.entries.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(queue);
        if first && let Some(thread) = self.0.earlier.get() {
            thread.unpark();
        }
        key
    }

    fn remove(&self, key: Key) {
        let mut queue = self.0.queue.lock();
        let removed = queue.entries.remove(&key);
        self.0.len.store(queue.entries.len(), Ordering::Release);
        drop(queue);
        // It may be the last owner of a context.
        drop(removed);
    }

    /// Cancels `context` at `deadline`, unless the key that this returns is [removed](Timers::cancel_no_more) before.
    pub(crate) fn cancel_at(&self, deadline: Instant, context: Arc<Context>) -> Key {
        self.insert(deadline, Entry::Cancel(context))
    }

    /// The end of what [`cancel_at`](Timers::cancel_at) began.
    pub(crate) fn cancel_no_more(&self, key: Key) {
        self.remove(key);
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("len", &self.0.len.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

/// The clock of the caller's scheduler: virtual on the simulator, real elsewhere.
///
/// # Examples
///
/// ```
/// let before = segue_core::now();
/// assert!(segue_core::now() >= before);
/// ```
#[must_use]
pub fn now() -> Instant {
    fiber::with_current(|fiber| fiber.scheduler().timers().now())
}

/// The source that is ready at a point in time. Made by [`after`] and [`at`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// `None` is never.
    at: Option<Instant>,
    waits_for: WaitsFor,
}

impl Deadline {
    #[track_caller]
    pub(crate) fn at(at: Option<Instant>) -> Self {
        Self { at, waits_for: WaitsFor::new("a point in time") }
    }
}

/// Ready once `duration` has passed from now. A duration beyond what the clock can show is never.
///
/// # Cancellation
/// *No effect*.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// segue_core::after(Duration::from_millis(1)).wait()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn after(duration: Duration) -> Waitable<Deadline> {
    at(now().checked_add(duration))
}

/// Ready at `instant`; `None` is never.
///
/// # Cancellation
/// *No effect*.
///
/// # Examples
///
/// ```
/// segue_core::at(Some(segue_core::now())).wait()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn at(instant: Option<Instant>) -> Waitable<Deadline> {
    Waitable::new(Deadline::at(instant))
}

/// A place among the timers of whoever began to wait. It holds on to these timers, since a task may leave them from elsewhere.
#[derive(Debug)]
pub struct Alarm {
    timers: Timers,
    key: Option<Key>,
}

// SAFETY: `register` leaves the trigger with the timers under a key that `withdraw` takes out, of the same timers; these claim
// under their lock, and take out what they claim. What may unwind, starting the timers, is done by `slot`.
unsafe impl Source for Deadline {
    type Output = ();
    type Slot = Alarm;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn slot(&self) -> Alarm {
        Alarm { timers: fiber::with_current(|fiber| fiber.scheduler().timers().clone()), key: None }
    }

    fn attempt(&mut self) -> Option<()> {
        self.at.is_some_and(|at| at <= now()).then_some(())
    }

    unsafe fn register(&mut self, slot: &mut Alarm, trigger: &Trigger, arm: usize) -> bool {
        let Some(at) = self.at else { return true };
        if at <= slot.timers.now() {
            return false;
        }
        slot.key = Some(slot.timers.insert(at, Entry::Wait { trigger: NonNull::from(trigger), arm }));
        true
    }

    unsafe fn withdraw(&mut self, slot: &mut Alarm) {
        if let Some(key) = slot.key.take() {
            slot.timers.remove(key);
        }
    }

    unsafe fn commit(&mut self, slot: &mut Alarm, _arm: usize) -> Option<()> {
        slot.key = None;
        // Who was told of the end of a scheduler waits on.
        let told = slot.timers.0.closed.load(Ordering::Acquire);
        (!told || self.at.is_some_and(|at| at <= slot.timers.now())).then_some(())
    }

    unsafe fn give_back(&mut self, slot: &mut Alarm, _arm: usize) {
        slot.key = None;
    }
}

/// The time that was allowed is over: the reason of a [`Cancelled`] that a deadline caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut {
    _private: (),
}

impl TimedOut {
    pub(crate) fn new() -> Self {
        Self { _private: () }
    }
}

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time allowed is over")
    }
}

impl std::error::Error for TimedOut {}

/// Suspends the calling fiber, or parks the calling thread, for at least `duration`.
///
/// Zero returns at once; a duration that the clock can't show never ends by itself.
///
/// # Cancellation
/// *No effect*: the sleep ends at once.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// segue_core::sleep(std::time::Duration::from_millis(1))?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    after(duration).wait()
}
