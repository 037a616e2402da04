//! The worker loop: runs the fibers that the policy gives out, reads the mail, fires timers, idles
//! in a park.
//!
//! Used by the scheduler's entry points, which start one loop per worker. There is no other loop:
//! policies and parks are its parameters.
//!
//! The invariant of an idle worker: the policy has nothing, the inbox says ASLEEP, all shelves were
//! empty after that announcement, and every fiber of the worker is suspended.
#![allow(unsafe_code)] // A worker is reached by its address while its loop runs.

use crate::worker::common::Common;
use crate::worker::grace::Grace;
use crate::worker::group::{Offer, Rest};
use crate::worker::handle;
use crate::worker::in_vain::{Doubt, NAP, Naps, SHORT, Was};
use crate::worker::local::{Local, no_unwind};
use crate::worker::placing::MODESTY;
use crate::worker::policy::{Idle, Policy, Task};
use crate::worker::report::Stuck;
use segue_core::scheduling::{Job, Park, Unpark};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a busy worker polls its park and fires timers, by and large.
const PERIOD: Duration = Duration::from_micros(250);

/// The number of turns after which it does so in any case. Turns of a few nanoseconds come to some
/// microseconds, beside which reading the clock is little.
const MOST_TURNS: u32 = 512;

/// The time that policies are told in turns: one part in so many of [`PERIOD`], 20 microseconds.
const PACES: u32 = 12;

/// The looks for work before a sleep, at most, and at least when work may come from others. A look
/// takes up to a microsecond; a wake-up of a parked thread costs tens of them.
const MOST_LOOKS: u32 = 512;
const LEAST_LOOKS: u32 = 4;

/// A worker that mail or a closure woke sooner than this had better have looked.
const SOON: Duration = Duration::from_micros(100);

/// How long a worker without stacks waits for others to give some back.
const RETRY: Duration = Duration::from_millis(1);

/// The act of the loop when nothing can ever become ready.
pub(crate) type OnDeadlock<'a> = &'a dyn Fn(Vec<Stuck>);

/// One worker.
pub(crate) struct Worker<'a, P, K> {
    pub(crate) local: &'a Local<P>,
    pub(crate) park: K,
    pub(crate) on_deadlock: Option<OnDeadlock<'a>>,
    looks: u32,
    doubt: Doubt,
    naps: Naps,
    /// Closures of others have had their grace since the last idle time.
    takes: bool,
    /// Whether closures get any: the last one taken from others has gone on to wait.
    is_patient: bool,
    window: Window,
    /// Whether the loop runs in a fiber of another scheduler, which is to get turns, too.
    is_guest: bool,
}

/// After how many turns a busy worker looks around: so many that they take [`PERIOD`], as far as
/// the last ones tell. At least one and at most [`MOST_TURNS`].
///
/// So an event of a driver or a timer is found after a period and one turn, if turns are alike. If
/// they become longer all at once, the next window has a quarter of the turns and the one after
/// that the right number: the change takes two windows of the new turns, of at most [`MOST_TURNS`]
/// and a quarter of that.
struct Window {
    turns: u32,
    /// The last one took much longer than planned.
    was_long: bool,
    since: Option<Instant>,
    /// See [`Policy::paced`].
    pace: u32,
}

impl Window {
    /// The window's turns are over. By the clock of the timers: a simulated one does not move
    /// meanwhile, so that simulations do not depend on the time.
    fn renew(&mut self, now: Instant) -> u32 {
        if let Some(since) = self.since.replace(now) {
            let took = now.saturating_duration_since(since).as_nanos().max(1);
            let fit = (u128::from(self.turns) * PERIOD.as_nanos() / took).max(1);
            let fit = u32::try_from(fit).unwrap_or(MOST_TURNS);
            // A window in which the system had taken the processor away says little of turns; two
            // in succession do.
            let least = (self.turns / 4).max(1);
            let is_long = fit < least;
            let believed = if is_long && !self.was_long { least } else { fit };
            self.was_long = is_long;
            // One window of short turns does not say that all will be.
            self.turns = believed.min(self.turns * 2).min(MOST_TURNS);
            self.pace = (believed / PACES).clamp(1, MOST_TURNS);
        }
        self.turns
    }
}

/// The kind of a turn of the loop.
pub(crate) enum Turn {
    /// Something ran, or may be ready now.
    Ran,
    /// There is nothing to run.
    Idle,
    /// The group has stopped, and no fiber is left.
    Ended,
}

impl<'a, P: Policy, K: Park> Worker<'a, P, K> {
    /// A worker that sleeps in its park.
    pub(crate) fn parked(local: &'a Local<P>, park: K, on_deadlock: Option<OnDeadlock<'a>>) -> Self {
        let unparker = park.unparker();
        Self::new(local, park, unparker, on_deadlock)
    }

    /// A worker that is woken in this way.
    pub(crate) fn new(
        local: &'a Local<P>,
        park: K,
        unparker: Arc<dyn Unpark>,
        on_deadlock: Option<OnDeadlock<'a>>,
    ) -> Self {
        local.common.settle_down(NonNull::from(local));
        local.common.remote().set_unparker(unparker);
        let looks = if local.common.group.len() == 1 { 0 } else { LEAST_LOOKS };
        let window = Window { turns: MOST_TURNS / 8, was_long: false, since: None, pace: 1 };
        local.common.until_look.set(window.turns);
        Self {
            local,
            park,
            on_deadlock,
            looks,
            doubt: Doubt::default(),
            naps: Naps::default(),
            takes: false,
            is_patient: true,
            window,
            is_guest: false,
        }
    }

    /// Runs `first`, if given, and then everything until the group stops and no fiber is left.
    pub(crate) fn run(mut self, first: Option<Job>) {
        // SAFETY: the worker is borrowed until its departure, below.
        unsafe { handle::reside(self.local.common.at()) };
        self.is_guest = segue_core::in_fiber();
        self.on_thread(|worker| {
            worker.local.common.idles_in_park.set(worker.park.takes_ops() && !worker.is_inside());
            if let Some(job) = first {
                worker.begin_with(job);
            }
            loop {
                match worker.turn() {
                    Turn::Ran => {}
                    Turn::Idle => worker.idle(),
                    Turn::Ended => break,
                }
            }
            worker.local.timers.close();
        });
        handle::depart(&raw const self.local.common);
    }

    /// Makes the first turn, which is known to be for this closure.
    pub(crate) fn begin_with(&self, job: Job) {
        self.local.common.begin_turn();
        self.local.run(Task::Fresh(job));
    }

    /// Calls `f` while the thread is this worker's.
    pub(crate) fn on_thread<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let no_unwind = no_unwind();
        // Fibers are resumed outside of the handlers that there may be around, and the park is
        // called there.
        let result = self.local.common.here(|| {
            segue_fiber::effect::outside(|| {
                self.park.enter();
                let kept = segue_core::scheduling::keep_spares(true);
                let result = segue_core::scheduling::afresh(|| f(self));
                segue_core::scheduling::keep_spares(kept);
                self.local.common.remote().beat.rest();
                self.park.leave();
                result
            })
        });
        no_unwind.disarm();
        result
    }

    /// Reads the mail and runs one task, if there is one.
    #[inline(always)]
    pub(crate) fn turn(&mut self) -> Turn {
        let local = self.local;
        let common = &local.common;
        local.read_mail();
        local.accept_closures();
        local.adopt();
        common.begin_turn();
        let until_look = &common.until_look;
        until_look.set(until_look.get() - 1);
        if until_look.get() == 0 {
            self.look();
        }
        // New closures and started fibers take turns, so that neither starves the other.
        let turns = common.turns.get();
        // Every 64 turns the order is turned round: a program that repeats itself every two turns
        // is not to meet new closures always at the same step.
        let task = local.given_out().or_else(|| match (turns ^ (turns >> 6)) % 2 {
            0 if !local.is_starved() => {
                let job = if local.takes_arrivals { common.take_own() } else { common.take_fresh() };
                job.and_then(|job| local.taken(job)).or_else(|| local.next())
            }
            _ => local.next(),
        });
        // Read before the look for a closure: a worker that ends has looked through all shelves.
        let is_stopping = task.is_none() && common.group.is_stopping();
        if let Some(task) = task {
            if common.group.outside.seems_to_hold() {
                // More waits outside: this task, too, is to give way at its next fork.
                common.remote().set_wanted(true);
            }
            local.share();
            local.run(task);
            Turn::Ran
        } else if let Some(job) = self.find() {
            if let Some(task) = local.taken(job) {
                local.run(task);
            }
            Turn::Ran
        } else if self.try_another(is_stopping) {
            Turn::Ran
        } else if segue_core::scheduling::settle() {
            // The joiner of the last fiber may be ready now.
            Turn::Ran
        } else if is_stopping && !common.has_fibers() && common.group.retire(common.index) {
            Turn::Ended
        } else {
            Turn::Idle
        }
    }

    /// The turns until the next look are over: looks only into the park, if a fiber has asked for
    /// that and the look itself has time.
    #[cold]
    fn look(&mut self) {
        match self.local.common.deferred_look.take() {
            0 => self.look_around(),
            left => {
                self.local.common.until_look.set(left);
                self.park.poll();
            }
        }
    }

    /// The duties of a busy worker now and then, so that nobody starves.
    #[cold]
    pub(crate) fn look_around(&mut self) {
        self.local.common.deferred_look.set(0);
        self.answer();
        self.local.common.until_look.set(self.window.renew(self.local.timers.now()));
        self.local.policy_paced(self.window.pace);
        self.park.poll();
        self.local.timers.fire();
        // Its spares may be of another scheduler, and the end of that is not to wait until this one
        // idles.
        segue_core::scheduling::settle();
        self.local.may_spare.set(true);
        self.local.common.remote().set_forks(false);
        self.local.common.placing.look_around(false);
        // This worker is not to leave anything to others for longer.
        self.local.common.remote().set_shy(false);
        self.naps.end();
        if self.is_guest {
            // Else timers, drivers and fibers of the outer worker would wait for as long as this
            // one is busy.
            self.give_way();
            // They have had the thread until now, which is not to be counted.
            self.window.since = Some(self.local.timers.now());
        }
    }

    /// Names its remaining fibers, if somebody asks.
    fn answer(&self) {
        let common = &self.local.common;
        if let Some(ending) = common.group.ending() {
            ending.answer(common);
        }
    }

    /// Gives a turn to the other fibers of the scheduler that this loop is a guest of.
    #[cold]
    fn give_way(&mut self) {
        let common = &self.local.common;
        common.remote().beat.rest();
        self.park.leave();
        let _ = common.outside(|| segue_core::shield(segue_core::yield_now));
        self.park.enter();
    }

    /// Looks for a closure of its own, or from outside.
    #[inline]
    fn find(&self) -> Option<Job> {
        if self.local.is_starved() {
            return None;
        }
        let job = self.local.common.find();
        if job.is_some() {
            self.call_others();
        }
        job
    }

    /// There may be more on a shelf than its taker can take.
    #[inline]
    fn call_others(&self) {
        let group = &self.local.common.group;
        if group.len() > 1 {
            group.wake_if_busy();
        }
    }

    /// Runs a closure of another worker, if there is one, and learns from that whether to leave the
    /// next one to its worker. Takes any, if this one is to end after this.
    #[cold]
    #[inline(never)]
    fn try_another(&mut self, is_stopping: bool) -> bool {
        let common = &self.local.common;
        if self.local.is_starved() {
            return false;
        }
        let Some(job) = common.find_elsewhere(self.takes || is_stopping) else { return false };
        self.call_others();
        let Some(task) = self.local.taken(job) else { return true };
        let beat = &common.remote().beat;
        let settled = beat.settled();
        let is_last = self.takes && !common.group.offers_any(common.index);
        let began = is_last.then(Instant::now);
        self.local.run(task);
        let was = if self.takes {
            self.is_patient = beat.settled() != settled;
            match began {
                _ if self.is_patient => Was::Settled,
                Some(began) if began.elapsed() < SHORT => Was::Short,
                _ => Was::Worth,
            }
        } else {
            // The closure was urgent.
            Was::Worth
        };
        if was == Was::Short {
            // The look has paid off, and had better not.
            self.looks = (self.looks / 4).max(LEAST_LOOKS);
        }
        self.naps.took(was);
        true
    }

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
                self.doubt = Doubt::default();
                return true;
            }
            if offer.is_none() {
                left -= 1;
                grace = None;
            }
        }
        self.looks = match alone {
            true if self.doubt.wake_ups > 0 => 0,
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
    /// cache until a letter comes: a look there disturbs nobody.
    fn gets_mail_soon(&self) -> bool {
        (0..16).any(|_| {
            std::hint::spin_loop();
            !self.local.common.remote().inbox.is_empty()
        })
    }

    /// There is nothing to run: looks for a moment, then sleeps until there is something to do, or
    /// may be.
    #[cold]
    fn idle(&mut self) {
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

    /// Announces that the worker sleeps, and answers the length of that; `None` if there is
    /// something to do. Else [`get_up`](Worker::get_up) is to follow.
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
        self.local.timers.fire();
        self.local.may_spare.set(true);
        self.local.feed();
        if common.remote().inbox.has_mail() || self.local.holds_any() {
            // A closure that has woken the worker is not to wait for a long turn of another
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

    /// Parks, and looks for a moment the next time if the waker's mail would have been there soon.
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
            // The time of a wake-up.
            self.looks = MOST_LOOKS / 4;
        }
    }

    fn park_for(&mut self, timeout: Option<Duration>) {
        let Common { hooks, index, .. } = &self.local.common;
        hooks.call(*index, |hooks| &hooks.park);
        // A park may suspend the fiber that this loop runs in: meanwhile the outer worker has the
        // thread.
        if self.is_inside() {
            self.park.leave();
            self.local.common.outside(|| self.park.park(timeout));
            self.park.enter();
        } else {
            self.park.park(timeout);
        }
        hooks.call(*index, |hooks| &hooks.unpark);
    }

    /// Whether this loop runs inside of another one, or in a fiber.
    fn is_inside(&self) -> bool {
        !self.local.common.outer.get().is_null() || segue_core::in_fiber()
    }
}

/// The shorter of two time-outs; `None` is no time-out.
fn earlier(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (timeout, None) | (None, timeout) => timeout,
    }
}
