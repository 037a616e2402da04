//! Looks at a reactor whose worker may be away, for the outsiders that wait at this reactor.
//!
//! `outsiders` has the idea, the states and the races. A socket makes an [`Outsider`] for each wait
//! that is one; the thread that fires the timers of plain threads makes the looks.

use super::reactor::{Found, Reactor};
use segue_core::drivers::{LATE, Look, look_at};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often in a row a look takes reports from a reactor that has more of them.
const TURNS: u32 = 16;

/// A wait at a reactor by a waiter that is no fiber of this reactor's worker, until the drop.
pub(crate) struct Outsider(Arc<Reactor>);

impl Outsider {
    pub(super) fn new(at: &Arc<Reactor>) -> Self {
        at.outsiders.come();
        at.watch();
        Self(Arc::clone(at))
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.outsiders.go();
    }
}

impl Reactor {
    /// If there are outsiders, a look is to come.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.outsiders.call() {
            look_at(Instant::now() + LATE, Arc::<Self>::downgrade(self) as Weak<dyn Look>);
        }
    }

    /// Passes on the kernel's events, for a worker that is away.
    fn turn_for_worker(&self) {
        let mut found = Found::default();
        for _ in 0..TURNS {
            let is_full = self.take(&mut found, Some(Duration::ZERO));
            if !self.presence.is_running() {
                self.notify();
            }
            self.report(&mut found);
            if !is_full {
                return;
            }
        }
    }
}

impl Look for Reactor {
    fn look(self: Arc<Self>) {
        let goes_on = self.outsiders.begin_look() && !self.is_closed() && self.check().is_ok();
        if !goes_on || self.presence.leave_unwatched() {
            return;
        }
        if self.outsiders.is_away(self.presence.looks()) {
            self.turn_for_worker();
        }
        self.watch();
    }
}

#[cfg(test)]
#[path = "../../tests/units/looks.rs"]
mod tests;
