//! Waits at the reactor of a worker by others than its fibers: by fibers of other workers, by plain
//! threads and by tasks.
//!
//! Each reactor has one count of them, and `looks` acts on the count: around each wait that goes by
//! readiness, and when a look is due.
//!
//! # The idea
//!
//! A socket is registered once, with the reactor of the first op that had to wait; only the worker
//! of this reactor turns it. While this worker computes, or is in a call that blocks, its own
//! fibers wait for the thread in any case. Any other wait there is an *outsider*, and is not to
//! last until this worker comes back. So a reactor with outsiders is *looked at* every 5 ms, by the
//! thread that fires the timers of plain threads; and if the worker has not looked into its driver
//! since the last look, the look turns the reactor in the worker's stead. The fibers of the worker
//! find their mail on its return; outsiders are resumed where they belong.
//!
//! An outsider is served 10 ms late at most, as far as the system gives the looks a processor. A
//! wait of a worker's own fiber costs one comparison more. A reactor without outsiders is not
//! looked at, nor is the reactor of a worker that sleeps there: the worker that gets up calls for
//! the looks again (`presence.rs`). So an idle process sleeps.
//!
//! Flights are the ring's, and there are no outsiders among them: an op of somebody else goes by
//! readiness, in the epoll set, which any thread may turn.
//!
//! # States
//!
//! `is_watched` says that a look is to come.
//!
//! | from | to | by |
//! | --- | --- | --- |
//! | no | yes | an outsider that has been counted; a worker that was left unwatched and gets up; the look that goes on. The side that has made this step sets the look |
//! | yes | no | the look, first of all |
//!
//! After that the look ends if there is no outsider; if the reactor is closed, or another
//! process's; or if the look has left the worker unwatched in its sleep. Else the look goes on.
//!
//! **The races to fear.** An outsider trusts a look that has missed the outsider: the outsider is
//! counted before its read of `is_watched`, the look clears `is_watched` before its read of the
//! count, and all of these are sequentially consistent; so one of the two sees the other. A worker
//! gets up while a look is leaving it unwatched: then the exchange in its word fails, and the look
//! goes on; or the worker, or the side that wakes the worker, finds the mark in the word, and
//! `is_watched` cleared, which came before the mark.
//!
//! **Two threads turn one reactor**, the look's and the worker's that comes back: each event is
//! taken by one of them, and is reported afterwards. An op that waits has read its tick before the
//! attempt that failed, so an event that this attempt has not seen adds to the tick after that, by
//! either thread and in any order (`readiness.rs`). A notification that the look has taken with the
//! events is sent once more (`presence.rs`).
//!
//! **The reactor closes**: its outsiders are told, as all ops there, and are outsiders elsewhere
//! then. **Cancellation**: a wait that ends, in any way, is no outsider any more; the look finds
//! out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The outsiders of a reactor.
#[derive(Debug, Default)]
pub(super) struct Outsiders {
    count: AtomicUsize,
    is_watched: AtomicBool,
    /// The number of the worker's looks by the last look at that worker. For the looks alone.
    looks: AtomicUsize,
}

impl Outsiders {
    /// An outsider is counted. After that somebody [calls for](Outsiders::call) a look.
    pub(super) fn come(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// An outsider has gone.
    pub(super) fn go(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Calls for a look, if there are outsiders. Answers whether the caller is to set the look: no
    /// other look is to come.
    #[must_use]
    pub(super) fn call(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0 && !self.is_watched.swap(true, Ordering::SeqCst)
    }

    /// A look begins. Answers whether there are outsiders.
    #[must_use]
    pub(super) fn begin_look(&self) -> bool {
        self.is_watched.swap(false, Ordering::SeqCst);
        self.count.load(Ordering::SeqCst) > 0
    }

    /// Whether the worker, which has looked into its driver so often by now, has not done so since
    /// the last look at it.
    #[must_use]
    pub(super) fn is_away(&self, looks: usize) -> bool {
        self.looks.swap(looks, Ordering::Relaxed) == looks
    }
}
