//! Waits at the reactor of a worker by others than its fibers: by fibers of other workers, by plain
//! threads and by tasks.
//!
//! Used by `driver` around each wait that goes by readiness, and by `reactor`, of which each has
//! the count of its outsiders.
//!
//! # The idea
//!
//! A socket is registered once, with the reactor of the first op that had to wait; only the worker
//! of this reactor turns it. While this worker computes, or is in a call that blocks, its own
//! fibers wait for the thread in any case. Any other wait there is an *outsider*, and is not to
//! last until this worker comes back. So a reactor with outsiders is *looked at* every 5 ms, by the
//! thread that fires the timers of plain threads; and if the worker has not looked into its driver
//! since the last look, the look turns the reactor in the worker's stead. The fibers of the worker
//! find their mail at its return; outsiders are resumed where they belong.
//!
//! An outsider is served 10 ms late at most, as far as the system gives the looks a processor. A
//! wait of a worker's own fiber costs one comparison more. A reactor without outsiders is not
//! looked at, nor is the reactor of a worker that sleeps there: the worker that gets up calls for
//! the looks again (`presence.rs`). So an idle process sleeps.
//!
//! Flights are the ring's, and there are no outsiders: an op of somebody else goes by readiness, in
//! the epoll set, which any thread may turn.
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
//! After that the look ends without an outsider; with a closed reactor, or another process's; or
//! with the worker left unwatched in its sleep. Else the look goes on.
//!
//! **The races to fear.** An outsider trusts a look that has not seen that one: the outsider is
//! counted before reading `is_watched`, the look clears `is_watched` before reading the count, and
//! all of these are sequentially consistent; so one of the two sees the other. A worker gets up
//! while being left unwatched: then the exchange in its word fails, and the look goes on; or the
//! worker, or its waker, finds the mark in the word, and `is_watched` cleared, which came before
//! the mark.
//!
//! **Two threads turn one reactor**, the look's and the worker's that comes back: each event is
//! taken by one of them, and is reported afterwards. An op that waits has read its tick before the
//! attempt that failed, so an event that this attempt has not seen adds to the tick after that, by
//! either thread and in any order (`readiness.rs`). A notification that the look has taken with the
//! events is sent once more (`presence.rs`).
//!
//! **The reactor closes**: its outsiders are told, as all ops there, and are outsiders elsewhere
//! then. **Cancellation**: a wait that ends, in whatever way, is no outsider any more; the look
//! finds out.
#![allow(unsafe_code)] // A source around another one.

use crate::op::Half;
use crate::reactor::{Found, Reactor};
use crate::socket::Socket;
use segue_core::drivers::{LATE, Look, look_at};
use segue_core::{Retreat, Source, Trigger, WaitsFor};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How often in a row a look takes reports from a reactor that has more of them.
const TURNS: u32 = 16;

/// The outsiders of a reactor.
#[derive(Debug, Default)]
pub(crate) struct Outsiders {
    count: AtomicUsize,
    is_watched: AtomicBool,
    /// The number of the worker's looks by the last look at that worker. For the looks alone.
    looks: AtomicUsize,
}

/// A wait at a reactor by code that is no fiber of its worker's.
pub(crate) struct Outsider(Arc<Reactor>);

impl Outsider {
    pub(crate) fn new(at: &Arc<Reactor>) -> Self {
        at.outsiders().count.fetch_add(1, Ordering::SeqCst);
        at.watch();
        Self(Arc::clone(at))
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.0.outsiders().count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Reactor {
    /// If there are outsiders, a look is to come.
    pub(crate) fn watch(self: &Arc<Self>) {
        let Outsiders { count, is_watched, .. } = self.outsiders();
        if count.load(Ordering::SeqCst) > 0 && !is_watched.swap(true, Ordering::SeqCst) {
            look_at(Instant::now() + LATE, Arc::<Self>::downgrade(self) as Weak<dyn Look>);
        }
    }

    /// Passes on the kernel's events, for a worker that is away.
    fn turn_for_worker(&self) {
        let mut found = Found::default();
        for _ in 0..TURNS {
            let is_full = self.take(&mut found, Some(Duration::ZERO));
            if !self.presence().is_running() {
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
        let Outsiders { count, is_watched, looks } = self.outsiders();
        is_watched.swap(false, Ordering::SeqCst);
        let ends = count.load(Ordering::SeqCst) == 0 || self.is_closed() || self.check().is_err();
        if ends || self.presence().leave_unwatched() {
            return;
        }
        let now = self.presence().looks();
        if looks.swap(now, Ordering::Relaxed) == now {
            self.turn_for_worker();
        }
        self.watch();
    }
}

/// The edges of a socket, as a source: a wait for them is an outsider at the socket's place, if
/// that is not the waiter's own worker's.
pub(crate) struct Edges<'s, S> {
    socket: &'s Socket,
    source: S,
}

/// The parts of a registration.
#[derive(Default)]
pub(crate) struct Visit<S> {
    slot: S,
    outsider: Option<Outsider>,
}

impl Socket {
    /// Step 3 of `readiness` as a source, which is ready at once if `is_over`. The caller has
    /// enlisted the socket.
    pub(crate) fn edges(
        &self,
        half: Half,
        tick: u64,
        is_over: bool,
        waits_for: WaitsFor,
    ) -> Edges<'_, impl Source<Output = ()>> {
        Edges { socket: self, source: self.direction(half).edge_source(tick, is_over, waits_for) }
    }
}

// SAFETY: every step is that of the source, with its own slot; R1 to R16 are the source's. The
// outsider is counted before the source is registered, and given up when that has been withdrawn or
// taken: both are changes of a number, which call nobody but the timers, and do not unwind.
unsafe impl<S: Source<Output = ()>> Source for Edges<'_, S> {
    type Output = ();
    type Slot = Visit<S::Slot>;

    fn waits_for(&self) -> WaitsFor {
        self.source.waits_for()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.source.address(least)
    }

    #[inline]
    fn attempt(&mut self) -> Option<()> {
        self.source.attempt()
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        slot.outsider = self.socket.visit(trigger.waits_here());
        // SAFETY: as the caller promises.
        unsafe { self.source.register(&mut slot.slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        slot.outsider = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.withdraw(&mut slot.slot) }
    }

    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<()> {
        slot.outsider = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.commit(&mut slot.slot, arm) }
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        slot.outsider = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.give_back(&mut slot.slot, arm) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::Was;
    use crate::selector::Backend;

    /// A worker that has come back and gone into the kernel, and is notified there, while another
    /// thread takes reports.
    #[test]
    fn a_notification_that_others_have_taken_is_sent_again() {
        for backend in [Backend::Native, Backend::Polling, Backend::PollingOneShot] {
            let reactor = Arc::new(Reactor::new(backend).unwrap());
            reactor.open();
            assert!(reactor.presence().lie_down(true));
            assert_eq!(reactor.presence().unpark(), Was::Parked { unwatched: false });
            reactor.notify();
            reactor.turn_for_worker();
            let began = Instant::now();
            let _ = reactor.turn(&mut Found::default(), Some(Duration::from_secs(20)));
            assert!(began.elapsed() < Duration::from_secs(10), "the worker sleeps on, over {backend:?}");
        }
    }
}
