//! How a worker idles: something to sleep in, and a way to be woken from it.
//!
//! Implemented by [`WaitPark`] here, by the drivers of `segue-io` (to idle is to wait for the kernel) and by the simulator (to idle
//! is to move the clock); used by the worker loop.

use crate::fiber::WaitsFor;
use crate::patience;
use crate::time;
use crate::wait_queue::WaitQueue;
use std::sync::Arc;
use std::time::Duration;

/// What a worker idles in. It is made on the worker's thread and stays there. Only [`park`](Park::park) may wait.
pub trait Park {
    /// The way to wake it, for any thread.
    fn unparker(&self) -> Arc<dyn Unpark>;

    /// Idles until [`Unpark::unpark`], an event of its own, or `timeout`; `None` is never. May return early.
    ///
    /// An unpark that came since the last return ends this call at once. Fibers are made ready from inside of it, by the events that
    /// it finds.
    fn park(&mut self, timeout: Option<Duration>);

    /// Whether nothing from outside can ever end a [`park`](Park::park) without a time-out: so for the simulator, whose world is
    /// closed. A worker that would idle in it for ever reports a deadlock instead.
    fn is_closed(&self) -> bool {
        false
    }

    /// Looks for events without idling. Called now and then by a worker that is busy.
    fn poll(&mut self) {}

    /// Called on the worker's thread before its fibers run, each time that it takes up the thread.
    fn enter(&mut self) {}

    /// Called on the worker's thread when its fibers stop running there. The opposite of [`enter`](Park::enter).
    fn leave(&mut self) {}
}

/// Wakes a worker. From any thread; never waits.
pub trait Unpark: Send + Sync {
    /// Ends the current or the next [`Park::park`].
    fn unpark(&self);
}

/// A park without events: it waits as its caller does, so a worker on a thread parks the thread, and a worker inside
/// a fiber of another scheduler suspends that fiber.
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
        let deadline = timeout.and_then(|timeout| time::now().checked_add(timeout));
        let wait = || {
            // Woken or timed out: either ends the idling, and nothing can cancel it.
            let _ = self.token.0.wait_until(deadline, WaitsFor::new("work"), |token| *token, |token| *token = false);
        };
        crate::cancel::shield(|| {
            if crate::fiber::in_fiber() {
                wait();
            } else {
                // Whoever idles has looked for work before.
                patience::at_once(wait);
            }
        });
    }
}
