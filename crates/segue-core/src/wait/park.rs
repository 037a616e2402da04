//! A worker that idles as its caller waits.
//!
//! Used by workers without a driver: on a thread, or inside of a fiber of another scheduler.

use crate::contract::current::in_fiber;
use crate::contract::park::{Park, Unpark};
use crate::primitives::waits_for::{WORK, WaitsFor};
use crate::thread::adaptive_spin;
use crate::tree::context::shielded;
use crate::wait::deadline::now;
use crate::wait::queue::WaitQueue;
use std::sync::Arc;
use std::time::Duration;

/// A park without events: it waits as its caller does, so a worker on a thread parks the thread,
/// and a worker inside a fiber of another scheduler suspends that fiber.
#[derive(Debug, Default)]
pub struct WaitPark {
    token: Arc<Token>,
}

#[derive(Debug)]
struct Token(WaitQueue<bool>);

impl Default for Token {
    fn default() -> Self {
        Self(WaitQueue::new(false))
    }
}

impl Unpark for Token {
    fn unpark(&self) {
        let mut guard = self.0.lock();
        *guard.state() = true;
        guard.notify_all(0);
    }
}

impl WaitPark {
    /// A park that nobody has unparked.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the next [`park`](Park::park) would end at once. Never waits.
    #[must_use]
    pub fn is_unparked(&self) -> bool {
        *self.token.0.lock().peek()
    }
}

impl Park for WaitPark {
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::<Token>::clone(&self.token)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let deadline = timeout.and_then(|timeout| now().checked_add(timeout));
        let wait = || {
            // Woken or timed out: either ends the idling, and nothing can cancel it.
            let _ = self.token.0.wait_until(deadline, WaitsFor::new(WORK), |token| *token, |token| *token = false);
        };
        shielded(|| {
            if in_fiber() {
                wait();
            } else {
                // A worker that idles has looked for work before.
                adaptive_spin::at_once(wait);
            }
        });
    }
}
