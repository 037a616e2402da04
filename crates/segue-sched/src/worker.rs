//! The worker loop: runs what the policy gives out, reads the mail, fires timers, idles in a park.
//!
//! Used by the scheduler's entry points, which start one loop per worker. It is the only loop there is: policies and parks are its
//! parameters.
//!
//! What is true when it idles: the policy has nothing, the inbox says ASLEEP, all shelves were empty after that was said, and every fiber of
//! the worker is suspended.

use crate::group::Group;
use crate::local::{Local, NoUnwind, Stuck, set_worker};
use crate::policy::{Policy, Task};
use segue_core::{Job, Park};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After how many turns the park is polled and timers are fired, however busy the worker is.
const TURNS: u32 = 61;

/// How often to look for work before sleeping, at most, and at least when there is anybody to expect it from. A look takes up to a microsecond; a
/// wake-up of a parked thread costs tens of them.
const MOST_LOOKS: u32 = 512;
const LEAST_LOOKS: u32 = 4;

/// Whoever was woken by mail sooner than this had better have looked for it.
const SOON: Duration = Duration::from_micros(100);

/// How long a worker without stacks waits for others to give some back.
const RETRY: Duration = Duration::from_millis(1);

/// What the loop does when it finds that nothing can ever become ready.
pub(crate) type OnDeadlock<'a> = &'a dyn Fn(Vec<Stuck>);

/// One worker.
pub(crate) struct Worker<'a, P, K> {
    pub(crate) local: &'a Local<P>,
    pub(crate) park: K,
    pub(crate) on_deadlock: Option<OnDeadlock<'a>>,
    looks: u32,
}

impl<'a, P: Policy, K: Park> Worker<'a, P, K> {
    pub(crate) fn new(local: &'a Local<P>, park: K, on_deadlock: Option<OnDeadlock<'a>>) -> Self {
        local.common.remote().set_unparker(park.unparker());
        let looks = if local.common.group.len() == 1 { 0 } else { LEAST_LOOKS };
        Self { local, park, on_deadlock, looks }
    }

    fn group(&self) -> &Arc<Group> {
        &self.local.common.group
    }

    /// Runs `first`, if given, and then everything until the group stops and no fiber is left.
    pub(crate) fn run(mut self, first: Option<Job>) {
        let no_unwind = NoUnwind;
        let outer = set_worker(&raw const self.local.common);
        self.local.common.outer.set(outer);
        self.park.enter();
        let kept = segue_core::keep_spares(true);
        if let Some(job) = first {
            self.local.run(Task::Fresh(job));
        }
        let mut turns = 0;
        loop {
            self.local.read_mail();
            self.local.adopt();
            turns += 1;
            if turns >= TURNS {
                turns = 0;
                self.look_around();
            }
            // New closures and started fibers take turns, so that neither starves the other.
            let task = match turns % 2 {
                0 if !self.local.is_starved() => {
                    self.local.common.take_fresh().map(Task::Fresh).or_else(|| self.local.next())
                }
                _ => self.local.next(),
            };
            if let Some(task) = task {
                if self.group().is_called() {
                    // More waits outside: this task, too, is to give way at its next fork.
                    self.local.common.remote().set_wanted(true);
                }
                self.local.run(task);
            } else if let Some(job) = self.find() {
                self.local.run(Task::Fresh(job));
            } else if segue_core::settle() {
                // Whoever waited for the last fiber may be ready now.
            } else if self.group().is_stopping() && !self.local.has_fibers() {
                break;
            } else if !self.expect_work() {
                self.idle(outer);
                turns = 0;
            }
        }
        segue_core::keep_spares(kept);
        self.local.timers.close();
        self.park.leave();
        set_worker(outer);
        std::mem::forget(no_unwind);
    }

    /// What a busy worker does now and then, so that nobody starves.
    #[cold]
    fn look_around(&mut self) {
        self.park.poll();
        self.local.timers.fire();
    }

    #[inline]
    fn find(&self) -> Option<Job> {
        if self.local.is_starved() {
            return None;
        }
        let common = &self.local.common;
        let job = common.find();
        if job.is_some() && common.group.len() > 1 {
            // There may be more on that shelf than this worker can take.
            common.group.wake_if_busy();
        }
        job
    }

    /// Looks for work for a moment, since to sleep and be woken costs more. Looks longer while that pays off. A worker that has the group to itself
    /// looks only while mail from other threads keeps coming.
    fn expect_work(&mut self) -> bool {
        if self.looks == 0 || self.local.is_starved() {
            return false;
        }
        let common = &self.local.common;
        let alone = common.group.len() == 1;
        if !alone {
            common.group.beg(common.index);
        }
        for _ in 0..self.looks {
            if !common.remote().inbox.is_empty() || (!alone && common.group.looks_busy()) {
                self.looks = (self.looks * 2).min(MOST_LOOKS);
                return true;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
        self.looks = (self.looks / 2).max(if alone { 0 } else { LEAST_LOOKS });
        false
    }

    /// Sleeps until there is something to do, or may be.
    #[cold]
    fn idle(&mut self, outer: *const crate::local::Common) {
        let common = &self.local.common;
        if self.local.timers.fire() > 0 {
            return;
        }
        if common.group.lie_down(common.index, self.local.is_starved()) {
            self.local.trim();
            let mut timeout = self.local.timers.until_next();
            if self.local.is_starved() && !self.park.is_closed() {
                timeout = Some(timeout.map_or(RETRY, |timeout| timeout.min(RETRY)));
            }
            match self.on_deadlock {
                Some(report) if timeout.is_none() && self.park.is_closed() => report(self.local.report()),
                _ => self.park_and_learn(timeout, outer),
            }
        }
        common.group.got_up(common.index);
        self.local.timers.fire();
        self.local.feed();
    }

    /// Parks, and looks for mail the next time if it would have been there soon.
    fn park_and_learn(&mut self, timeout: Option<Duration>, outer: *const crate::local::Common) {
        // On the thread of another scheduler nothing is gained by looking; and a closed world gets no mail.
        let may_look = outer.is_null() && !segue_core::in_fiber() && !self.park.is_closed();
        let parked = Instant::now();
        self.park_for(timeout, outer);
        if may_look && self.local.common.remote().inbox.has_mail() && parked.elapsed() < SOON {
            // More than the looks that were in vain before this park have cost.
            self.looks = (self.looks * 4).clamp(LEAST_LOOKS, MOST_LOOKS / 4);
        }
    }

    fn park_for(&mut self, timeout: Option<Duration>, outer: *const crate::local::Common) {
        // A park may suspend the fiber that this loop runs in: meanwhile the outer worker has the thread.
        let me = &raw const self.local.common;
        if outer.is_null() && !segue_core::in_fiber() {
            self.park.park(timeout);
        } else {
            self.park.leave();
            set_worker(outer);
            self.park.park(timeout);
            set_worker(me);
            self.park.enter();
        }
    }
}
