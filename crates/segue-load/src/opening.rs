//! The connections are open before the schedule starts: so that a latency is that of a request, and
//! not that of a thousand handshakes in a row. Used by the run and by the fibers of connections.
//!
//! Each fiber opens its connection, tells that, and waits for the start. The watch counts them, and
//! starts the schedule when all have told, however that went: a connection that could not be opened
//! is tried again in the schedule, where that counts as an error.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use segue::sync::OnceCell;

/// The state that all threads share.
pub struct Opening {
    begun: Instant,
    /// Connections that have not told.
    left: AtomicUsize,
    /// When the last one told.
    opened: OnceCell<Instant>,
    /// When the schedule starts.
    start: OnceCell<Instant>,
}

impl Opening {
    pub(crate) fn new(connections: usize) -> Opening {
        let (opened, start) = (OnceCell::new(), OnceCell::new());
        Opening { begun: Instant::now(), left: AtomicUsize::new(connections), opened, start }
    }

    /// One connection has told; then waits for the start. `None` after a cancellation, or if there
    /// will be no start.
    pub(crate) fn told(&self) -> Option<Instant> {
        self.tell(1);
        self.start.wait().ok().copied()
    }

    /// These connections have told, or will not be.
    pub(crate) fn tell(&self, connections: usize) {
        if connections > 0 && self.left.fetch_sub(connections, Ordering::Relaxed) == connections {
            // Set once: nobody else is the last one.
            let _ = self.opened.try_set(Instant::now());
        }
    }

    /// A source that is ready when all have told.
    pub(crate) fn opened(&self) -> &OnceCell<Instant> {
        &self.opened
    }

    /// Starts the schedule, now. Returns the start, and how long the opening took.
    pub(crate) fn start(&self) -> (Instant, Duration) {
        let now = Instant::now();
        let _ = self.start.try_set(now);
        (now, self.opened.get().map_or(now, |opened| *opened) - self.begun)
    }
}
