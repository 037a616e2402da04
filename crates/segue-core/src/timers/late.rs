//! Timers that come up although their worker is away, in a long computation or a call that blocks:
//! for the tasks, and the fibers of other workers, that wait for them.
//!
//! Used by `mod.rs` where such a wait begins, and by `segue-io`, which has others look after the
//! descriptors of a worker in the same way.
//!
//! # The idea
//!
//! A worker fires its own timers, and a fiber that computes prevents that. Its other fibers wait
//! for the thread anyhow. But a task that was polled on this worker can go on elsewhere; and so can
//! a fiber of another worker, inside of a deadline that was set on this one. For these a *look* is
//! set among the timers of plain threads, which have a thread of their own: the look comes [`LATE`]
//! after the due time. Mostly the worker has fired by then, and the look finds nothing that is
//! overdue. Otherwise the look fires the timers in the worker's stead.
//!
//! There is one look for all timers of a worker: at the earliest of those times, as far as anybody
//! has asked. The look is not taken back with its timer, and comes about as often as time limits
//! pass that were never reached. A look that finds timers sets the next one, for the first of
//! these. So nothing looks at a worker that has none, and a timer of a fiber's own costs nothing.
//!
//! # States
//!
//! `Queue::look` is the time of the look that is to come, or NEVER; all changes are under the lock
//! of the timers.
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | NEVER, or a later time | a time | a wait from elsewhere, after its timer was entered; the look, if there are timers left |
//! | a time that has come | NEVER | the look |
//!
//! The side that has set a time enters a look for that time. A look that finds a later time than
//! its own was entered for a time that another one has replaced, and does nothing.
//!
//! **The race to fear**: a wait trusts a look that has found no timers. This can't happen: the
//! timer is entered before `look` is read, and both under the lock. If the look was before, then
//! `look` says so; a later look finds the timer.
//!
//! **Lazy timers** stay: their limits are those of the worker's own fibers, and the thread of a
//! ring ends the flights there. The look takes them out, and enters them again. A worker that comes
//! back between the two, and is about to sleep, must not sleep for good, since nobody wakes the
//! worker for an entry: so the entries under way are counted, and while there are some the worker
//! sleeps no longer than [`LATE`].
//!
//! **Two threads fire**, the look's and the worker's that comes back. Each entry is taken out by
//! one of them, under the lock, as by a waiter that leaves.

use super::{Entry, Key, Lazy, Queue, Rare, Shared, Timers};
use crate::chain::unwind::contain;
use crate::contract::current::current;
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::Ordering;
use crate::timers::of_threads::thread_timers;
use std::ptr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time that a worker has for due timers, before others fire them.
pub const LATE: Duration = Duration::from_millis(5);

/// No look is to come.
pub(super) const NEVER: u64 = u64::MAX;

/// Something that is to be looked at, by the thread that fires the timers of plain threads.
pub trait Look: Send + Sync {
    /// Looks. Never waits.
    fn look(self: Arc<Self>);
}

/// Has something looked at, if still there at that time. Never waits.
///
/// There is no look if its thread can't be started.
pub fn look_at(at: Instant, what: Weak<dyn Look>) {
    if let Some(timers) = contain(thread_timers) {
        timers.insert(at, Entry::Rare(Box::new(Rare::Look(what))));
    }
}

impl Queue {
    /// When a look is to be set for a deadline, if none comes that early.
    pub(super) fn look_for(&mut self, deadline: u64) -> Option<Instant> {
        let late = deadline.saturating_add(LATE.as_nanos() as u64);
        if self.look <= late {
            return None;
        }
        self.look = late;
        self.start.checked_add(Duration::from_nanos(late))
    }
}

impl Timers {
    /// Whether somebody looks after them when their worker is away. A simulated clock stands still
    /// while a fiber runs, and the timers of plain threads have a thread to themselves.
    pub(crate) fn has_looks(&self) -> bool {
        self.is_real() && self.0.earlier.get().is_none() && !cfg!(loom)
    }

    /// The timers are to come up by this time though their worker is away. The caller knows that
    /// they have been entered.
    pub(crate) fn watch(&self, at: Instant) {
        if self.has_looks() {
            let mut queue = self.0.queue.lock();
            let set = queue.since_start(at).and_then(|deadline| queue.look_for(deadline));
            drop(queue);
            self.set_look(set);
        }
    }

    #[cold]
    pub(super) fn set_look(&self, at: Option<Instant>) {
        if let Some(at) = at {
            look_at(at, Arc::<Shared>::downgrade(&self.0) as Weak<dyn Look>);
        }
    }

    /// The limits of the worker's own fibers go back to where they were.
    pub(super) fn put_back(&self, lazies: Vec<(Lazy, Key)>, now: Instant) {
        let kept = lazies.len();
        for (lazy, key) in lazies {
            if let Some(limited) = lazy.owner.upgrade() {
                limited.put_back(lazy, self, key, now);
            }
        }
        if kept > 0 {
            self.0.queue.lock().kept -= kept;
        }
    }
}

impl Trigger {
    /// Whether the fiber that runs here is the one that waits with this trigger. A task has a
    /// header of its own in the word, and goes on at its next poll anywhere.
    #[doc(hidden)] // For sources of drivers.
    #[must_use]
    #[inline]
    pub fn waits_here(&self) -> bool {
        ptr::eq(self.word.load(Ordering::Relaxed), current())
    }
}

impl Look for Shared {
    fn look(self: Arc<Self>) {
        let timers = Timers(self);
        let mut queue = timers.0.queue.lock();
        let now = queue.since_start(queue.now()).unwrap_or(NEVER);
        if queue.look > now || timers.is_closed() {
            return;
        }
        queue.look = NEVER;
        let is_late = |first: u64| first.saturating_add(LATE.as_nanos() as u64) <= now;
        let is_late = queue.wheels.first_deadline().is_some_and(is_late);
        drop(queue);
        if is_late {
            timers.fire_due(true);
        }
        let mut queue = timers.0.queue.lock();
        let next = queue.wheels.first_deadline().and_then(|first| queue.look_for(first.max(now)));
        drop(queue);
        timers.set_look(next);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/units/late.rs"]
mod tests;
