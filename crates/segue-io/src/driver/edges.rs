//! The edges of a socket as a source: a wait for readiness that can be chosen among others.
//!
//! Used by `run::source`. A wait for an edge is an outsider at the socket's place, if this place is
//! not in the reactor of the waiter's own worker (`outsiders`).
#![allow(unsafe_code)] // The source holds an outsider.

use super::readiness::Half;
use super::socket::Socket;
use segue_core::drivers::while_registered;
use segue_core::{Source, Waitable, WaitsFor};

impl Socket {
    /// Step 3 of `readiness` as a source, which is ready at once if `is_over`. The caller has
    /// enlisted the socket. A wait for the edges is an outsider at the socket's place, if that is
    /// not the waiter's own worker's.
    pub(crate) fn edges(
        &self,
        half: Half,
        tick: u64,
        is_over: bool,
        waits_for: WaitsFor,
    ) -> Waitable<impl Source<Output = ()>> {
        let edges = self.direction(half).edge_source(tick, is_over, waits_for);
        // SAFETY: an outsider is a number that is counted under locks of this crate, which no
        // foreign code holds or runs under. The timers may start their thread, whose panic they
        // contain. The socket's place keeps the reactor while the source is registered there: so
        // the outsider's own share is not the last; or the reactor has closed, and its drop closes
        // descriptors and runs nothing of users.
        unsafe { while_registered(edges, |trigger| self.visit(trigger.waits_here())) }
    }
}
