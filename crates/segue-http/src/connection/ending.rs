//! The end of a connection, so that the client gets the last response. Used by the connection loop.

use std::cell::RefMut;
use std::time::{Duration, Instant};

use segue_core::{Cancelled, is_cancelled};

use crate::connection::contexts::Contexts;
use crate::wire::buffers::{AT_ONCE, MEDIUM, SMALL, Wire};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// The most bytes that are discarded while a connection ends.
const MAX_LINGER: usize = 256 << 10;

/// Ends one connection.
pub(super) struct Ending<'c> {
    pub(super) line: &'c Line<dyn Transport>,
    pub(super) contexts: Contexts<'c>,
    /// The longest that this may take.
    pub(super) time: Duration,
}

impl<'c> Ending<'c> {
    fn wire(&self) -> RefMut<'c, Wire<dyn Transport>> {
        self.line.wire_here()
    }

    /// Ends the connection so that the client gets the last response: see
    /// [`Config::linger_timeout`](crate::Config::linger_timeout).
    ///
    /// A newcomer that waits for a place ends this wait early, and so does a shutdown. The bytes
    /// that have arrived by then are discarded all the same.
    pub(super) fn linger(&self) {
        let time = self.time;
        if time.is_zero() {
            return;
        }
        self.contexts.rest(false);
        let end = self.wire().transport.now().checked_add(time);
        let mut left = MAX_LINGER;
        let over = self.contexts.at_rest(|| {
            // A secured stream says its end, and may have to wait for that.
            let shut = self.wire().transport.shutdown_write();
            if let Err(error) = shut {
                return !Cancelled::caused(&error);
            }
            let rest = |now| end.map_or(time, |end| end.saturating_duration_since(now));
            !is_cancelled() && self.discard(&mut left, rest)
        });
        if !over {
            self.contexts.at_work(|| {
                self.wire().say_end();
                self.discard(&mut left, |_| AT_ONCE);
            });
        }
    }

    /// As [`linger`](Self::linger), after a response that was cut: the client is to get the
    /// responses before it all the same. Not where the end of the connection would look like the
    /// end of the body, nor where nothing can be sent.
    #[cold]
    #[inline(never)] // Its caller is to need little of the stack.
    pub(super) fn linger_after_cut(&self) {
        let can_tell = {
            let mut wire = self.wire();
            wire.drop_unfinished();
            wire.broken().is_none() && !wire.ends_with_close
        };
        if can_tell && !is_cancelled() && self.contexts.at_work(|| self.wire().flush()).is_ok() {
            self.linger();
        }
    }

    /// Discards the client's bytes, each time waiting so long. Answers whether the connection is
    /// over, by its end or by a limit; else the caller was cancelled.
    fn discard(&self, left: &mut usize, time: impl Fn(Instant) -> Duration) -> bool {
        let wire = &mut *self.wire();
        // Most clients have nothing to say.
        let mut room = SMALL;
        while *left > 0 {
            wire.consume(wire.arrived().len());
            match wire.fill(time(wire.transport.now()), room) {
                Ok(count @ 1..) => {
                    *left = left.saturating_sub(count);
                    room = MEDIUM;
                }
                Ok(0) => return true,
                Err(error) => return !Cancelled::caused(&error),
            }
        }
        true
    }
}
