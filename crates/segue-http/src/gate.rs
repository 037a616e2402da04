//! Counts the connections of a server and holds its acceptor back while there are too many.
//! Used by the accept loop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use segue_core::{Cancelled, Outcome, Trigger, WaitsFor};

/// A limit on how many connections there are at a time. One acceptor waits at it.
pub(crate) struct Gate {
    limit: usize,
    /// Never held across a wait.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: usize,
    waiting: Option<Arc<Trigger>>,
}

/// One place inside of the gate; dropping it lets the next one in.
pub(crate) struct Place<'g>(&'g Gate);

impl Gate {
    pub(crate) fn new(limit: usize) -> Gate {
        Gate { limit, state: Mutex::default() }
    }

    /// Waits for a place.
    pub(crate) fn enter(&self) -> Result<Place<'_>, Cancelled> {
        loop {
            let trigger = {
                let mut state = self.state();
                if state.inside < self.limit {
                    state.inside += 1;
                    return Ok(Place(self));
                }
                let trigger = Arc::new(Trigger::new());
                state.waiting = Some(Arc::clone(&trigger));
                trigger
            };
            match trigger.wait(WaitsFor::new("the end of a connection")) {
                Outcome::Taken(_) => {}
                Outcome::Cancelled => segue_core::check()?,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.state();
            state.inside -= 1;
            state.waiting.take()
        };
        if let Some(trigger) = waiting {
            // If it was cancelled the acceptor is about to leave.
            trigger.signal(0);
        }
    }
}
