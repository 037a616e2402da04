//! Parks: where a worker idles, and how other threads wake the worker.
//!
//! Implemented by [`WaitPark`](crate::scheduling::WaitPark), by the drivers of `segue-io` (to idle
//! is to wait for the kernel) and the simulator (to idle is to move the clock); used by workers.

use std::sync::Arc;
use std::time::Duration;

/// A place for a worker to idle, made on the worker's thread, where it stays. Only `park` may wait.
pub trait Park {
    /// The way to wake the worker, for any thread.
    fn unparker(&self) -> Arc<dyn Unpark>;

    /// Idles until [`Unpark::unpark`], an event of its own, or `timeout`; `None` is never. May
    /// return early. An unpark that came since the last return ends this call at once. Fibers are
    /// made ready from inside of the call, by the events that the park finds.
    fn park(&mut self, timeout: Option<Duration>);

    /// Whether nothing from outside ends a park without a time-out: a simulator is a closed world.
    /// A worker that would idle in such a park for ever reports a deadlock instead.
    fn is_closed(&self) -> bool {
        false
    }

    /// Looks for events without idling, and passes the requests of fibers on to the kernel. Called
    /// now and then by a worker that is busy, and by one that has nothing to run while
    /// [`is_called`](Park::is_called) answers `true`.
    fn poll(&mut self) {}

    /// Whether a [`poll`](Park::poll) would probably make a fiber ready: a guess, without a system
    /// call. Polls make the answer `false` in the end. A worker asks before announcing its sleep.
    fn is_called(&self) -> bool {
        false
    }

    /// Whether the requests that fibers of this thread leave to a park come to this park: for a
    /// driver, from [`enter`](Park::enter) to [`leave`](Park::leave).
    fn takes_ops(&self) -> bool {
        false
    }

    /// Called on the worker's thread, each time before its fibers begin to run there.
    fn enter(&mut self) {}

    /// Called on the worker's thread when its fibers stop running there: the opposite of `enter`.
    fn leave(&mut self) {}
}

/// Wakes a worker. From any thread; never waits.
pub trait Unpark: Send + Sync {
    /// Ends the current or the next [`Park::park`].
    fn unpark(&self);
}
