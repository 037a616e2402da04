//! The worker loop: runs the fibers that the policy gives out, reads the mail, fires timers, idles
//! in a park ([`idle`]).
//!
//! Used by the scheduler's entry points, which start one loop per worker. There is no other loop:
//! policies and parks are parameters of this one.
//!
//! When the loop idles, the policy has nothing, the inbox says ASLEEP, all shelves
//! were empty after that was said, and every fiber of the worker is suspended.
#![allow(unsafe_code)] // A worker is reached by its address while its loop runs.

mod grace;
mod idle;
mod in_vain;
mod window;

use crate::worker::local::Local;
use crate::worker::no_unwind::no_unwind;
use crate::worker::policy::{Policy, Task};
use crate::worker::residents;
use crate::worker::run_loop::in_vain::{Doubt, Naps, SHORT, Was};
use crate::worker::run_loop::window::Window;
use crate::worker::stuck::Stuck;
use segue_core::scheduling::{Job, Park, Unpark};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// The looks for work before a sleep, at most, and at least when work may come from others. A look
/// takes up to a microsecond; a wake-up of a parked thread costs tens of them.
const MOST_LOOKS: u32 = 512;
const LEAST_LOOKS: u32 = 4;

/// Called by the loop when nothing can ever become ready.
pub(crate) type OnDeadlock<'a> = &'a dyn Fn(Vec<Stuck>);

/// One worker.
pub(crate) struct Worker<'a, P, K> {
    pub(crate) local: &'a Local<P>,
    pub(crate) park: K,
    pub(crate) on_deadlock: Option<OnDeadlock<'a>>,
    looks: u32,
    doubt: Doubt,
    naps: Naps,
    /// Since the worker was idle last, closures of others have had their grace.
    takes: bool,
    /// Whether the worker gives closures any grace: the one that it took last from others has gone
    /// on to wait.
    is_patient: bool,
    window: Window,
    /// Whether the loop runs in a fiber of another scheduler, which is to get turns, too.
    is_guest: bool,
}

/// The outcome of a turn of the loop.
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
        // SAFETY: the worker is borrowed for its loop's life, and its fibers end before that.
        unsafe { local.common.settle_down(NonNull::from(local)) };
        local.common.remote().set_unparker(unparker);
        let looks = if local.common.group.len() == 1 { 0 } else { LEAST_LOOKS };
        let window = Window::new();
        local.common.until_look.set(window.turns);
        local.common.set_time(local.timers.now());
        Self {
            local,
            park,
            on_deadlock,
            looks,
            doubt: Doubt::NONE,
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
        unsafe { residents::reside(self.local.common.at()) };
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
        // SAFETY: the worker is borrowed, and so in place.
        unsafe { residents::depart(self.local.common.at()) };
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

    /// Done by a busy worker now and then, so that nobody starves.
    #[cold]
    pub(crate) fn look_around(&mut self) {
        self.local.common.deferred_look.set(0);
        self.answer();
        let now = self.local.timers.now();
        self.local.common.set_time(now);
        self.local.common.until_look.set(self.window.renew(now));
        self.local.policy_paced(self.window.pace);
        self.local.common.pen.paced(self.window.pace);
        self.park.poll();
        self.local.timers.fire();
        // The spare family may be of another scheduler, the end of which is not to wait until this
        // one idles.
        segue_core::scheduling::settle();
        self.local.may_spare.set(true);
        self.local.common.remote().set_forks(false);
        self.local.common.placing.look_around(false);
        // The worker is not to leave anything to others for longer.
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

    /// Says which fibers are there, or left, if somebody asks.
    fn answer(&self) {
        let common = &self.local.common;
        common.remote().seat.answer(&common.residence);
        if let Some(ending) = common.group.ending() {
            ending.answer(common.index, &|owner| common.report(owner));
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

    /// Runs a closure that is another worker's, if there is one, and learns from that whether to
    /// leave the next one to its worker. Takes any, if this one is to end after this.
    #[cold]
    #[inline(never)]
    fn try_another(&mut self, is_stopping: bool) -> bool {
        let common = &self.local.common;
        if self.local.is_starved() {
            return false;
        }
        let Some(job) = common.find_elsewhere(self.takes || is_stopping) else { return false };
        common.pen.stole(job.as_raw().addr().get());
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
            // The look has paid off, and better had not.
            self.looks = (self.looks / 4).max(LEAST_LOOKS);
        }
        self.naps.took(was);
        true
    }

    /// Whether this loop runs inside of another one, or in a fiber.
    fn is_inside(&self) -> bool {
        !self.local.common.outer.get().is_null() || segue_core::in_fiber()
    }
}
