//! The closures that a worker offers to others, gives away, and takes.
//!
//! Used by the worker loop, by fork-join and by checkpoints. A worker that has its group for itself
//! keeps its shelf here; any other one has its shelf in the group.

use crate::worker::common::{Common, OLDEST};
use crate::worker::group::take_back;
use segue_core::scheduling::{Job, JobHeader};
use std::ptr::NonNull;

impl Common {
    /// Exposes every private note: the running fiber is about to suspend.
    #[cold]
    pub(crate) fn expose_forks(&self) {
        while let Some(job) = self.forks.expose_oldest() {
            self.offer(job);
        }
    }

    /// Gives a closure that is about to start, or others from the shelf, to a worker that has fewer
    /// fibers. Answers with the closure that is to
    /// start here.
    #[cold]
    #[inline(never)]
    pub(crate) fn place(&self, job: Job) -> Option<Job> {
        self.placing.place(&self.group, self.index, self.residence.living.len(), job)
    }

    /// Whether the worker sees something wait for the running fiber's turn, or for some of its
    /// work.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        let remote = self.remote();
        // All four are looked at, with one jump: as a rule there is nothing.
        !remote.inbox.is_empty()
            | remote.is_unheard()
            | self.group.outside.seems_to_hold()
            | remote.sent.seems_to_hold()
    }

    /// Whether the worker's loop has anything to do before the next fiber runs: mail to read, or a
    /// closure to start.
    #[inline]
    pub(crate) fn has_business(&self) -> bool {
        let offers = match &self.alone {
            Some(shelf) => !shelf.borrow().is_empty(),
            None => self.remote().shelf.seems_to_hold(),
        };
        // A wish for a closure is heard when the policy has one to spare.
        let remote = self.remote();
        offers | !remote.inbox.is_empty() | self.group.outside.seems_to_hold() | remote.sent.seems_to_hold()
    }

    /// Gives the oldest private fork, or else a closure of the policy's, to an idle worker that has
    /// asked. For the running fiber.
    pub(crate) fn give(&self) {
        match self.forks.expose_oldest() {
            Some(job) => {
                self.remote().set_forks(true);
                self.grant(job);
            }
            None => {
                self.whole().offer_spare(false);
                self.remote().put_off();
            }
        }
    }

    /// Offers a closure to one of those that want this worker.
    pub(crate) fn grant(&self, job: Job) {
        self.remote().set_wanted(false);
        self.offer(job);
        if self.group.sleeps_any() {
            // Several sleepers share one mark.
            self.remote().set_wanted(true);
        }
    }

    /// Offers a closure to all workers of the group.
    #[inline]
    pub(crate) fn offer(&self, job: Job) {
        match &self.alone {
            Some(shelf) => shelf.borrow_mut().push_back(job),
            None => self.group.offer(self.index, job),
        }
    }

    /// Takes back a certain closure that this worker offered, if nobody has started that.
    pub(crate) fn reclaim(&self, header: NonNull<JobHeader>) -> Option<Job> {
        match &self.alone {
            Some(shelf) => take_back(&mut shelf.borrow_mut(), header),
            None => self.remote().shelf.take_back(header),
        }
        // A closure without a stack was put back among those from outside.
        .or_else(|| self.group.outside.take_back(header))
    }

    /// Takes the newest closure that this worker offered; now and then the oldest.
    #[inline]
    pub(crate) fn take_own(&self) -> Option<Job> {
        if self.is_for_oldest() { self.take_oldest() } else { self.take_newest() }
    }

    /// Whether the oldest is to be taken in this turn: in two turns that follow each other, one of
    /// them begun with a closure.
    #[inline]
    fn is_for_oldest(&self) -> bool {
        self.turns.get() & (OLDEST - 2) == 0
    }

    #[inline]
    fn take_newest(&self) -> Option<Job> {
        match &self.alone {
            Some(shelf) => shelf.borrow_mut().pop_back(),
            None => self.remote().shelf.take_newest(),
        }
    }

    #[cold]
    fn take_oldest(&self) -> Option<Job> {
        match &self.alone {
            Some(shelf) => shelf.borrow_mut().pop_front(),
            None => self.remote().shelf.take_oldest(),
        }
    }

    /// Whether another worker would have a closure. The answer may be late.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.alone.is_none() && (self.group.has_sleepers() || self.remote().is_unheard())
    }

    /// Takes a closure from outside, else the newest that this worker offered; now and then the
    /// oldest of these before any from outside.
    #[inline]
    pub(crate) fn take_fresh(&self) -> Option<Job> {
        if self.is_for_oldest() {
            return self.take_oldest().or_else(|| self.group.outside.take_oldest());
        }
        self.take_any()
    }

    /// As [`take_fresh`](Common::take_fresh), for a worker that takes all of them.
    #[inline]
    pub(crate) fn take_any(&self) -> Option<Job> {
        self.group.outside.take_oldest().or_else(|| self.take_newest())
    }

    /// Looks for a closure: its own newest, then the oldest from outside.
    #[inline]
    pub(crate) fn find(&self) -> Option<Job> {
        self.take_own().or_else(|| self.group.outside.take_oldest())
    }

    /// Looks for the oldest closure of another worker; if this one `takes` those that are not
    /// urgent, too.
    #[inline]
    pub(crate) fn find_elsewhere(&self, takes: bool) -> Option<Job> {
        match self.alone {
            Some(_) => None,
            None => self.group.take_from_others(self.index, self.placing.modest(), takes),
        }
    }
}
