//! A timer for limits that are set at each wait and hardly ever come up: those of reads and writes.
//!
//! Used by `segue-io`, with one for each direction of a socket.
//!
//! # The idea
//!
//! A wait that enters itself among the [`Timers`] and leaves them pays for both, and a connection
//! that asks and answers does so for each request. So the entry stays after the wait, and is moved
//! only when it comes up. Two words have the state: `until`, the limit of the wait that is under
//! way, and `armed`, the time at which the entry comes up. A wait stores the first, and is content
//! if the second is not later.
//!
//! | `until` | meaning | goes on from here |
//! | --- | --- | --- |
//! | NEVER | no wait has a limit | a wait: a limit |
//! | a limit | a wait is under way | the wait ends: NEVER. The entry has come up, not before the limit: OVER |
//! | OVER | the limit has passed | the wait ends: NEVER |
//!
//! The entry that comes up takes the limit for its next time if that is later, and none if there is
//! no wait. So a limit comes up at its time, as exactly as any timer, and a socket that is idle for
//! good has no entry after its last one.
//!
//! One wait at a time can have the timer; another one that begins meanwhile is refused, and enters
//! itself among the timers. So is every wait under a simulated clock, which would jump to entries
//! that nobody waits for.
//!
//! **The race to fear**: the entry comes up and finds no wait, or a later limit, while a wait
//! begins and finds the entry: nobody would be left to end that wait in time. The wait writes
//! `until` and then reads `armed`; the entry writes NEVER to `armed` and then reads `until`. Every
//! access to `until` among these is a read-modify-write, so one of the two comes first there: if
//! the entry's, the wait sees NEVER or the entry's later value, and looks again under the lock of
//! the entry; if the wait's, the entry sees its limit.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the entry's read-modify-write of `until` | that of the wait that ends or begins next | `armed` is NEVER, or later |
//! | the wait's, at its beginning | the entry's | nothing but the limit |
//! | the wait's, at its end | that of the next one | `home`, which only waits write |
//! | `until` becomes OVER | the look of the wait | nothing; the queue's lock orders the wake-up after that |

use crate::chain::barrier;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::lock::Lock;
use crate::primitives::waits_for::WaitsFor;
use crate::thread::here;
use crate::timers::{Entry, Key, Lazy, Movable, Timers};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The origin of points in time. Earlier points are over.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

const NEVER: u64 = u64::MAX;
const OVER: u64 = u64::MAX - 1;

/// The owner of [lazy timers](LazyTimer), by numbers of its own.
pub trait TimeLimited: Send + Sync {
    /// Its timer of this number.
    fn timer(&self, number: usize) -> &LazyTimer;

    /// A limit of this timer is over: its waiters are to look. Never waits.
    fn expire(&self, number: usize);
}

impl<T: TimeLimited> Movable for T {
    fn come_up(&self, lazy: Lazy, timers: &Timers, key: Key, now: Instant) -> bool {
        let number = lazy.number;
        let is_over = self.timer(number).come_up(timers, key, now, |at| timers.insert(at, lazy.into()));
        if is_over {
            self.expire(number);
        }
        is_over
    }

    fn put_back(&self, lazy: Lazy, timers: &Timers, key: Key, now: Instant) {
        self.timer(lazy.number).put_back(timers, key, || timers.insert(now, lazy.into()));
    }
}

/// A timer for the limits of waits that come one after the other. `lazy_timer.rs` has the states.
pub struct LazyTimer {
    /// In nanoseconds since the [`epoch`], as `armed`.
    until: AtomicU64,
    armed: AtomicU64,
    /// Which timers the entry is among, by address.
    home: AtomicUsize,
    entry: Lock<Option<(Timers, Key)>>,
}

/// The limit of a wait, until this is dropped.
#[derive(Debug)]
#[must_use = "without it there is no limit"]
pub struct Limit<'t>(&'t LazyTimer);

impl Limit<'_> {
    /// Whether the time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.until.load(Ordering::Acquire) == OVER
    }

    /// Sets the limit of a wait of the caller's that is about to begin. Never waits.
    ///
    /// `None` if another wait has the timer, or if the clock is a simulated one: then the wait is
    /// one [with a deadline](crate::wait_until).
    pub fn set<T: TimeLimited + 'static>(owner: &Arc<T>, number: usize, at: Instant) -> Option<Limit<'_>> {
        let set = || {
            here::on_current(|fiber| {
                let timers = fiber.scheduler().timers();
                if timers.is_real() { Self::set_among(timers, owner, number, at) } else { None }
            })
        };
        barrier(WaitsFor::new("the limit of a wait"), set)
    }

    /// As [`set`](Self::set), among timers that the caller names: those of its scheduler, also if
    /// their clock is simulated. Never waits.
    #[inline]
    pub fn set_among<'o, T>(timers: &Timers, owner: &'o Arc<T>, number: usize, at: Instant) -> Option<Limit<'o>>
    where
        T: TimeLimited + 'static,
    {
        let timer = owner.timer(number);
        let until = u64::try_from(at.saturating_duration_since(epoch()).as_nanos()).ok()?;
        if until >= OVER {
            return None; // In half a thousand years.
        }
        timer.until.compare_exchange(NEVER, until, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let limit = Limit(timer);
        if timer.armed.load(Ordering::Relaxed) > until || timer.home.load(Ordering::Relaxed) != timers.address() {
            let entry = || Entry::from(Lazy { owner: Arc::<T>::downgrade(owner), number });
            timer.arm(timers, until, || timers.insert(at, entry()));
        }
        Some(limit)
    }
}

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        self.0.until.swap(NEVER, Ordering::AcqRel);
    }
}

impl LazyTimer {
    /// One without a limit.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it belongs to something")]
    pub fn new() -> Self {
        Self {
            until: AtomicU64::new(NEVER),
            armed: AtomicU64::new(NEVER),
            home: AtomicUsize::new(0),
            entry: Lock::new(None),
        }
    }

    /// Makes an entry that comes up at the limit, unless there is one by now.
    #[cold]
    fn arm(&self, timers: &Timers, until: u64, insert: impl FnOnce() -> Key) {
        let mut entry = self.entry.lock();
        let is_home = self.home.load(Ordering::Relaxed) == timers.address();
        if is_home && self.armed.load(Ordering::Relaxed) <= until {
            return; // It has come up meanwhile, and was moved to the limit.
        }
        let before = entry.replace((timers.clone(), insert()));
        self.home.store(timers.address(), Ordering::Relaxed);
        self.armed.store(until, Ordering::Relaxed);
        drop(entry);
        remove(before);
    }

    /// The entry with this key was taken out before coming up, and is entered again.
    fn put_back(&self, timers: &Timers, key: Key, again: impl FnOnce() -> Key) {
        let mut entry = self.entry.lock();
        if let Some((_, its)) = entry.as_mut().filter(|(of, its)| *its == key && of.address() == timers.address()) {
            *its = again();
        }
    }

    /// The entry with this key has come up, and is not among the timers any more. Answers whether
    /// the limit is over.
    fn come_up(&self, timers: &Timers, key: Key, now: Instant, again: impl FnOnce(Instant) -> Key) -> bool {
        let mut entry = self.entry.lock();
        let Some((_timers, _)) = entry.take_if(|(of, its)| *its == key && of.address() == timers.address()) else {
            return false; // Another one was made, for an earlier limit.
        };
        self.armed.store(NEVER, Ordering::Relaxed);
        // This changes nothing, but has its place among the changes.
        let until = self.until.fetch_or(0, Ordering::AcqRel);
        if until >= OVER {
            return false;
        }
        let at = epoch() + Duration::from_nanos(until);
        if at > now {
            *entry = Some((timers.clone(), again(at)));
            self.armed.store(until, Ordering::Relaxed);
            return false;
        }
        // The next wait may have begun, with the same limit or a later one: then that is not over.
        self.until.compare_exchange(until, OVER, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

impl Drop for LazyTimer {
    fn drop(&mut self) {
        remove(self.entry.lock().take());
    }
}

impl_debug!([] LazyTimer, |it| until: it.until.load(Ordering::Relaxed));

/// Takes an entry out before it comes up.
fn remove(entry: Option<(Timers, Key)>) {
    if let Some((timers, key)) = entry {
        timers.remove(key);
    }
}
