//! Timers and the clock they go by, real or simulated.
//!
//! Every scheduler has one [`Timers`], which its fibers wait on and its worker fires; plain threads share one that a thread of its
//! own fires. The entries are ordered in a map under the lock: a timer is made and withdrawn in O(log n), in any order, and what
//! was withdrawn leaves nothing behind.
//!
//! Whoever fires takes the due entries out and claims their triggers under the lock, and resumes them after it. A waiter that
//! leaves takes its entry out under the same lock; so an entry never outlives the frame whose trigger it names.
#![allow(unsafe_code)] // Entries name triggers in the frames of waiters.

use crate::atomic::{AtomicUsize, Ordering};
use crate::cancel::Cancelled;
use crate::fiber::{self, WaitsFor};
use crate::lock::Lock;
use crate::source::{self, Source};
use crate::trigger::{Trigger, Wakeup};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The order of timers: by deadline, then by registration.
type Key = (Instant, u64);

struct Entry {
    trigger: NonNull<Trigger>,
    arm: usize,
}

struct Queue {
    entries: BTreeMap<Key, Entry>,
    registered: u64,
    /// What a simulated clock shows; `None` for the real one.
    simulated: Option<Instant>,
}

// SAFETY: the triggers are named under the lock only, and each is alive as long as its entry.
unsafe impl Send for Queue {}

/// The timers of a scheduler, and its clock.
pub struct Timers {
    queue: Lock<Queue>,
    /// The number of entries, for a look without the lock.
    len: AtomicUsize,
    earlier: OnceLock<std::thread::Thread>,
    is_real: bool,
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
        Self {
            queue: Lock::new(Queue { entries: BTreeMap::new(), registered: 0, simulated }),
            len: AtomicUsize::new(0),
            earlier: OnceLock::new(),
            is_real: simulated.is_none(),
        }
    }

    /// Unparks `thread` whenever a timer is registered that comes before all others.
    pub(crate) fn call_earlier(&self, thread: std::thread::Thread) {
        // There is one thread that fires.
        let _ = self.earlier.set(thread);
    }

    /// What the clock shows.
    pub fn now(&self) -> Instant {
        if self.is_real { Instant::now() } else { self.queue.lock().simulated.unwrap_or_else(Instant::now) }
    }

    /// How long until the next timer is due; `None` if there is none. Zero if one is due.
    pub fn until_next(&self) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        let queue = self.queue.lock();
        let (&(deadline, _), _) = queue.entries.first_key_value()?;
        Some(deadline.saturating_duration_since(queue.simulated.unwrap_or_else(Instant::now)))
    }

    /// Whether nothing waits for the clock. Never waits, takes no lock: for the scheduler's own thread.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Moves a simulated clock forward. Has no effect on the real one.
    pub fn advance(&self, by: Duration) {
        if let Some(now) = &mut self.queue.lock().simulated {
            *now += by;
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
            let mut batch: [Option<Wakeup>; BATCH] = [const { None }; BATCH];
            let mut claimed = 0;
            let mut queue = self.queue.lock();
            while claimed < BATCH
                && let Some(first) = queue.entries.first_entry()
                && first.key().0 <= now
            {
                let entry = first.remove();
                // SAFETY: the entry was in the queue, so its waiter has not left.
                batch[claimed] = unsafe { entry.trigger.as_ref() }.claim(entry.arm);
                claimed += usize::from(batch[claimed].is_some());
            }
            self.len.store(queue.entries.len(), Ordering::Release);
            drop(queue);
            fired += claimed;
            drop(batch);
            if claimed < BATCH {
                return fired;
            }
        }
    }

    fn insert(&self, deadline: Instant, trigger: &Trigger, arm: usize) -> Key {
        let mut queue = self.queue.lock();
        queue.registered += 1;
        let key = (deadline, queue.registered);
        queue.entries.insert(key, Entry { trigger: NonNull::from(trigger), arm });
        self.len.store(queue.entries.len(), Ordering::Release);
        let first = queue.entries.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(queue);
        if first && let Some(thread) = self.earlier.get() {
            thread.unpark();
        }
        key
    }

    fn remove(&self, key: Key) {
        let mut queue = self.queue.lock();
        queue.entries.remove(&key);
        self.len.store(queue.entries.len(), Ordering::Release);
    }
}

impl std::fmt::Debug for Timers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers").field("len", &self.len.load(Ordering::Relaxed)).finish_non_exhaustive()
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
}

/// A source that is ready once `duration` has passed from now. A duration beyond what the clock can show is never.
#[must_use]
pub fn after(duration: Duration) -> Deadline {
    Deadline { at: now().checked_add(duration) }
}

/// A source that is ready at `instant`; `None` is never.
#[must_use]
pub fn at(instant: Option<Instant>) -> Deadline {
    Deadline { at: instant }
}

// SAFETY: `register` leaves the trigger with the timers under a key that `withdraw` takes out; both run on the same
// fiber, and so meet the same timers; the timers claim under their lock, and take out what they claim.
unsafe impl Source for Deadline {
    type Output = ();
    type Slot = Option<Key>;

    fn slot(&self) -> Self::Slot {
        None
    }

    fn attempt(&mut self) -> Option<()> {
        self.at.is_some_and(|at| at <= now()).then_some(())
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> bool {
        if let Some(at) = self.at {
            *slot = Some(fiber::with_current(|fiber| fiber.scheduler().timers().insert(at, trigger, arm)));
        }
        true
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        if let Some(key) = slot.take() {
            fiber::with_current(|fiber| fiber.scheduler().timers().remove(key));
        }
    }

    unsafe fn commit(&mut self, _slot: &mut Self::Slot) -> Option<()> {
        Some(())
    }
}

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
    source::wait(after(duration), WaitsFor::new("a point in time"))
}
