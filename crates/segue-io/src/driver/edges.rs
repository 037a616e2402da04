//! The edges of a socket as a source: a wait for readiness that can be chosen among others.
//!
//! Used by `run::source`. A wait for an edge is an outsider at the socket's place, if this place is
//! not in the reactor of the waiter's own worker (`outsiders`).
#![allow(unsafe_code)] // A source around another one.

use super::looks::Outsider;
use super::readiness::Half;
use super::socket::Socket;
use segue_core::{Retreat, Source, Trigger, WaitsFor};

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
