//! Idling: a worker that has nothing to run looks for work for a moment, then sleeps, and learns
//! from the wake-up.
//!
//! Used by the worker loop.

use crate::worker::group::{Offer, Rest};
use crate::worker::placing::MODESTY;
use crate::worker::policy::{Idle, Policy};
use crate::worker::run_loop::grace::Grace;
use crate::worker::run_loop::in_vain::{Doubt, NAP};
use crate::worker::run_loop::window::PERIOD;
use crate::worker::run_loop::{LEAST_LOOKS, MOST_LOOKS, Worker};
use segue_core::scheduling::Park;
use std::time::{Duration, Instant};

/// A worker that mail or a closure woke sooner than this had better have looked.
const SOON: Duration = Duration::from_micros(100);

/// How long a worker without stacks waits for others to give some back.
const RETRY: Duration = Duration::from_millis(1);

impl<P: Policy, K: Park> Worker<'_, P, K> {
    /// Looks for work for a moment, since to sleep and be woken costs more. Looks longer while that
    /// pays off. A worker that has the group to itself looks only while mail or closures from other
    /// threads keep coming.
    fn expect_work(&mut self) -> bool {
        if self.looks == 0 || self.local.is_starved() {
            return false;
        }
        let common = &self.local.common;
        let alone = common.group.len() == 1;
        if !alone {
            common.group.beg(common.index);
        }
        let modest = common.placing.modest();
        let mut left = self.looks;
        let mut grace = None;
        let mut over = None;
        while left > 0 {
            let offer = if alone { None } else { common.group.offer_to(common.index, modest) };
            if let Some(Offer::Closures { turn, number }) = offer {
                let now = Instant::now();
                self.takes = !self.is_patient || self.naps.samples() || Grace::is_over(&mut grace, turn, number, now);
                // As long as others offer, the looks do not end by themselves.
                let until_due = || self.local.timers.until_next().map_or(PERIOD, |due| due.min(PERIOD));
                if now >= *over.get_or_insert_with(|| now + until_due()) {
                    self.look_around();
                    return true;
                }
            }
            if self.takes
                || offer == Some(Offer::Urgent)
                || self.is_called()
                || self.gets_mail_soon()
                || self.park.is_called()
            {
                self.looks = (self.looks * 2).min(MOST_LOOKS);
                self.doubt = Doubt::NONE;
                return true;
            }
            if offer.is_none() {
                left -= 1;
                grace = None;
            }
        }
        self.looks = match alone {
            true if self.doubt.is_any() => 0,
            true => self.looks / 2,
            false => (self.looks / 2).max(LEAST_LOOKS),
        };
        false
    }

    /// Whether closures seem to be there that come from outside, or were sent to this worker.
    fn is_called(&self) -> bool {
        let common = &self.local.common;
        common.remote().sent.seems_to_hold() || common.group.outside.seems_to_hold()
    }

    /// Whether mail comes within some hundred nanoseconds. The own inbox is in this processor's
    /// cache until a letter comes: to look there disturbs nobody.
    fn gets_mail_soon(&self) -> bool {
        (0..16).any(|_| {
            std::hint::spin_loop();
            !self.local.common.remote().inbox.is_empty()
        })
    }

    /// There is nothing to run: looks for a moment, then sleeps until there is something to do, or
    /// may be.
    #[cold]
    pub(super) fn idle(&mut self) {
        if self.park.is_called() {
            // Cheaper than to announce a sleep that would end at once.
            return self.park.poll();
        }
        let longest = match self.local.policy_idles() {
            Idle::Sleep => None,
            Idle::Hold(longest) => longest,
            Idle::Spin => {
                self.takes = true;
                return self.look_again();
            }
        };
        self.takes = false;
        let common = &self.local.common;
        common.remote().set_shy(self.naps.is_due());
        if self.expect_work() || self.local.timers.fire() > 0 {
            return;
        }
        self.naps.lies_down(common.turns.get());
        common.remote().set_shy(self.naps.is_due());
        if let Some(timeout) = self.lie_down(longest) {
            match self.on_deadlock {
                Some(report) if timeout.is_none() && self.park.is_closed() => report(self.local.common.report(None)),
                _ => {
                    self.park_and_learn(timeout);
                    let passed_over = common.remote().set_shy(false);
                    self.naps.woke(common.turns.get(), passed_over);
                }
            }
            self.get_up();
        }
    }

    /// Announces that the worker sleeps, and answers for how long the worker may sleep; `None` if
    /// there is something to do. Else [`get_up`](Worker::get_up) is to follow.
    pub(crate) fn lie_down(&mut self, longest: Option<Duration>) -> Option<Option<Duration>> {
        let common = &self.local.common;
        let modest = common.placing.modest();
        let rest = common.group.lie_down(common.index, self.local.is_starved(), common.has_fibers(), modest);
        let longest = match rest {
            Rest::No => {
                self.get_up();
                return None;
            }
            Rest::Long => longest,
            Rest::Short => earlier(longest, Some(if self.naps.is_due() { NAP } else { MODESTY })),
        };
        if !self.naps.is_due() {
            common.placing.lie_down(rest == Rest::Short);
        }
        self.local.trim();
        let timeout = earlier(self.local.timers.until_next(), longest);
        let retries = self.local.is_starved() && !self.park.is_closed();
        Some(if retries { earlier(timeout, Some(RETRY)) } else { timeout })
    }

    /// The worker does not sleep any more.
    pub(crate) fn get_up(&mut self) {
        let common = &self.local.common;
        common.group.got_up(common.index);
        self.answer();
        common.placing.look_around(true);
        // Its sleep is not to be counted.
        self.window.since = None;
        common.set_time(self.local.timers.now());
        self.local.timers.fire();
        self.local.may_spare.set(true);
        self.local.feed();
        if common.remote().inbox.has_mail() || self.local.holds_any() {
            // If the worker was woken for a closure, that is not to wait for a long turn of another
            // fiber's.
            common.group.wake_if_busy();
        }
    }

    /// Instead of sleeping.
    fn look_again(&mut self) {
        let common = &self.local.common;
        if common.group.len() > 1 {
            common.group.beg(common.index);
        }
        self.look_around();
        self.local.feed();
    }

    /// Parks, and looks for a moment the next time if the letter or closure that has woken the
    /// worker would have been there soon.
    fn park_and_learn(&mut self, timeout: Option<Duration>) {
        // On the thread of another scheduler nothing is gained by looking; and a closed world gets
        // no mail.
        let may_look = !self.is_inside() && !self.park.is_closed();
        let parked = may_look.then(Instant::now);
        self.park_for(timeout);
        let Some(parked) = parked else { return };
        if parked.elapsed() >= SOON {
            return;
        }
        let common = &self.local.common;
        if common.remote().inbox.has_mail() {
            // More than the looks that were in vain before this park have cost.
            self.looks = (self.looks * 4).clamp(LEAST_LOOKS, MOST_LOOKS / 4);
        } else if common.group.len() == 1 && self.is_called() && self.doubt.tries() {
            // As long as a wake-up takes.
            self.looks = MOST_LOOKS / 4;
        }
    }

    fn park_for(&mut self, timeout: Option<Duration>) {
        let (hooks, index) = (&self.local.hooks, self.local.common.index);
        hooks.call(index, |hooks| &hooks.park);
        self.local.common.pen.parks();
        // A park may suspend the fiber that this loop runs in: meanwhile the outer worker has the
        // thread.
        if self.is_inside() {
            self.park.leave();
            self.local.common.outside(|| self.park.park(timeout));
            self.park.enter();
        } else {
            self.park.park(timeout);
        }
        self.local.common.pen.unparked();
        hooks.call(index, |hooks| &hooks.unpark);
    }
}

/// The shorter of two time-outs; `None` is no time-out.
fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (timeout, None) | (None, timeout) => timeout,
    }
}
