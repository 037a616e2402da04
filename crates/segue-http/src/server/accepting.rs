//! The loop that accepts connections, and spawns a fiber for each. Used by the server, once for
//! each of its listeners.

use std::io;
use std::time::Duration;

use segue_core::{Cancelled, Scope};

use crate::connection::gate::Gate;
use crate::connection::serve::{self, Shared};
use crate::wire::transport::Listener;

/// The pause after an error in accepting, and the longest one after several.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The parts that all connections of one call share, and that an accept loop needs.
pub(crate) struct Accepting<'s, 'e> {
    pub(super) shared: Shared<'s>,
    pub(super) gate: &'s Gate,
    /// Owns the connections.
    pub(super) scope: &'s Scope<'s, 'e>,
}

impl Accepting<'_, '_> {
    /// Spawns a fiber for each connection, until accepting fails for good.
    pub(crate) fn accept_all<L: Listener>(&self, listener: &L) -> io::Error {
        let mut pause = FIRST_PAUSE;
        loop {
            match listener.accept() {
                Ok(stream) => {
                    pause = FIRST_PAUSE;
                    let place = match self.gate.enter() {
                        Ok(place) => place,
                        Err(cancelled) => return cancelled.into(),
                    };
                    let shared = self.shared;
                    // This fiber will stay at the place of its start: beside as few others as can
                    // be.
                    let spread = segue_core::Builder::new().attribute(segue_core::Spread);
                    let connection = spread.within(self.scope).spawn(move || {
                        let serve = || serve::run(stream, &shared, Some(&place));
                        // The connection's end is not an error of the server, and neither is its
                        // panic, which has been reported.
                        segue_core::unwind::contain(|| shared.requests.run(serve));
                    });
                    // The scope waits for this fiber.
                    drop(connection);
                }
                Err(error) if is_fatal(&error) => return error,
                Err(error) if is_of_one_client(&error) => {}
                Err(_) => {
                    if let Err(cancelled) = segue_core::sleep(pause) {
                        return cancelled.into();
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}

/// Whether accepting again would fail in the same way for ever.
fn is_fatal(error: &io::Error) -> bool {
    Cancelled::caused(error) || error.kind() == io::ErrorKind::InvalidInput
}

/// Whether the error took a client off the backlog, so that accepting again cannot spin.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
