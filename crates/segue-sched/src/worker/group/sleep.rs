//! How workers lie down and get up, and how the monitor sleeps while all of them do.
//!
//! Used by the worker loop and by the monitor. The head of the [`Group`](super::Group) has the
//! protocol, step by step.

use super::remote::Shelf;
use super::{Group, Modest, Rest, UNWATCHED};
use segue_core::atomic::Ordering;
use segue_core::scheduling::Unpark;
use std::sync::Arc;

impl Group {
    /// Steps (1) to (3) of going to sleep. Answers whether worker `index` may park. One that could
    /// start nothing anyway (`starved`) need not look. When the group has stopped, one with fibers
    /// still waits for them: visitors, for instance, which may need the outer scheduler that the
    /// worker is a guest of.
    ///
    /// [`got_up`](Group::got_up) follows in any case.
    pub(crate) fn lie_down(&self, index: usize, starved: bool, has_fibers: bool, modest: Modest) -> Rest {
        let worker = &self.workers[index];
        worker.beat.rest();
        worker.set_forks(false);
        // Before its announcement: else the next of many offers wakes it.
        worker.naps.store(worker.is_shy(), Ordering::Relaxed);
        let announced = worker.inbox.doze();
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let rest = match (announced, starved) {
            (false, _) => Rest::No,
            (true, true) => Rest::Long,
            (true, false) => self.look_through(index, modest),
        };
        let may_rest = !self.is_stopping() || (has_fibers && rest == Rest::Long);
        let rest = if may_rest { rest } else { Rest::No };
        if rest == Rest::Long && !starved {
            self.beg(index);
        }
        let naps = rest == Rest::Short || (rest == Rest::Long && worker.is_shy());
        worker.naps.store(naps, Ordering::Relaxed);
        if naps { Rest::Short } else { rest }
    }

    /// The closures on the shelves for worker `index`, in a look under each lock: step (3) of going
    /// to sleep.
    fn look_through(&self, index: usize, modest: Modest) -> Rest {
        let holds = |shelf: &Shelf| shelf.with(|jobs| !jobs.is_empty());
        let own = &self.workers[index];
        let called = own.sent.with(|jobs| own.nudged.swap(false, Ordering::Relaxed) || !jobs.is_empty());
        if called || holds(&self.outside) {
            return Rest::No;
        }
        let mut rest = Rest::Long;
        for (other, worker) in self.workers.iter().enumerate() {
            match holds(&worker.shelf) {
                true if self.leaves_to(index, other, modest) => rest = Rest::Short,
                true => return Rest::No,
                false => {}
            }
        }
        rest
    }

    /// Worker `index` is awake again.
    pub(crate) fn got_up(&self, index: usize) {
        if self.sleepers.fetch_sub(1, Ordering::Relaxed) & UNWATCHED != 0 {
            self.call_monitor();
        }
        let worker = &self.workers[index];
        worker.naps.store(false, Ordering::Relaxed);
        worker.inbox.rouse();
    }

    /// Announces that the monitor sleeps, if all workers do. Then the first of them that gets up
    /// wakes the monitor.
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

    /// Sets the waker of the monitor.
    pub(crate) fn set_monitor(&self, unparker: Arc<dyn Unpark>) {
        assert!(self.monitor.set(unparker).is_ok(), "a group has one monitor");
    }
}
