//! A connection's wire, which the fiber of the connection shares with one that sends finished
//! responses while a handler waits. Used by the connection loop, request bodies and response
//! writers.
//!
//! # The idea
//!
//! Responses to requests that came together are gathered and go out in one write. But a handler may
//! wait, and for an act of the client after an earlier response. So before a handler behind
//! finished responses is called, a *flusher* is made ready: a fiber of the same worker. The flusher
//! runs as soon as the connection's fiber is suspended, and not before: so when no handler waits,
//! there is nothing to do, or the rest of the batch to send.
//!
//! ```text
//!   NONE --a handler is called behind finished responses--> READY --the connection's fiber suspends--+
//!    ^                                                                                              |
//!    |   nothing is finished and unsent, or the connection's fiber is at the wire itself            |
//!    +----------------------------------------------------------------------------------------------+
//!    |                                                                                              v
//!    +--------------sent, or the error is left at the wire---------------------------------------- WRITING
//! ```
//!
//! **The wire belongs to one fiber at a time**, by a `RefCell`, as both are of one worker. The
//! connection's fiber has the wire for the length of each read and write, and not during a handler:
//! so a flusher that finds the wire taken may leave, since each read and write begins by sending
//! all there is. The flusher has the wire during its writes; the connection's fiber then waits for
//! the flusher. The flusher sends finished responses alone, and nothing of one that is being
//! written.
//!
//! **Cancellation**: both run in the context of the connection's requests, and are cancelled
//! together. **The race to fear**: a response that is finished after the flusher has ended, before
//! a handler that waits. Each handler readies another one, if there is something to send.
//!
//! On a plain thread there is nothing that could run meanwhile, and no flusher.
//!
//! **A watcher** is another fiber, for a handler that is to end when its client has gone. The
//! watcher has the wire while that handler has lent its body, and so uses no wire itself; and sends
//! all there is before it reads, so a flusher has nothing to do.

use std::cell::{RefCell, RefMut};
use std::io;
use std::time::Duration;

use segue_core::{Cancelled, JoinError, JoinHandle, Scope, shield};

use crate::wire::buffers::{MEDIUM, Wire};
use crate::wire::transport::Transport;

/// `T` is last so that `Line<T>` coerces to `Line<dyn Transport>`.
pub(crate) struct Line<T: ?Sized> {
    /// The last one that was made ready.
    flusher: RefCell<Option<JoinHandle<()>>>,
    wire: RefCell<Wire<T>>,
}

impl<T> Line<T> {
    pub(crate) fn new(wire: Wire<T>) -> Line<T> {
        Line { flusher: RefCell::default(), wire: RefCell::new(wire) }
    }
}

impl Line<dyn Transport> {
    /// The wire, for the fiber of the connection, when the flusher has left.
    ///
    /// An error if the caller can't wait for the flusher: in a panic.
    #[inline]
    pub(crate) fn wire(&self) -> io::Result<RefMut<'_, Wire<dyn Transport>>> {
        self.wire.try_borrow_mut().or_else(|_| self.wire_after_flusher())
    }

    /// As [`wire`](Self::wire), for the connection outside of its handler, which can wait.
    #[inline]
    pub(crate) fn wire_here(&self) -> RefMut<'_, Wire<dyn Transport>> {
        self.wire.try_borrow_mut().unwrap_or_else(|_| self.wire_after_flusher_here())
    }

    #[cold]
    #[inline(never)]
    fn wire_after_flusher_here(&self) -> RefMut<'_, Wire<dyn Transport>> {
        self.wire_after_flusher().expect("a connection outside of its handler can wait")
    }

    #[cold]
    #[inline(never)]
    fn wire_after_flusher(&self) -> io::Result<RefMut<'_, Wire<dyn Transport>>> {
        if let Some(flusher) = self.flusher.take() {
            // A panic of the flusher is that of its scope. While the caller unwinds there is no
            // wait for the flusher; the next call waits.
            let unfinished = shield(|| flusher.join()).err().and_then(JoinError::into_handle);
            *self.flusher.borrow_mut() = unfinished;
        }
        self.wire.try_borrow_mut().map_err(|_| io::ErrorKind::ResourceBusy.into())
    }

    /// Waits until the client ends its direction, or the connection breaks; answers whether that
    /// has come about. Bytes that arrive are kept: beyond 16 KiB of them the end can't be seen, and
    /// nor can it by a caller that is cancelled.
    pub(crate) fn sees_end(&self) -> bool {
        let Ok(mut wire) = self.wire() else { return false };
        while wire.arrived().len() < MEDIUM {
            match wire.fill(Duration::MAX, MEDIUM) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return !Cancelled::caused(&error),
            }
        }
        false
    }

    /// Has finished responses sent when the calling fiber suspends.
    pub(crate) fn ready_flusher<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let mut flusher = self.flusher.borrow_mut();
        let is_ready = flusher.as_ref().is_some_and(|flusher| !flusher.is_finished());
        // One that writes has the wire.
        if !is_ready && self.wire.try_borrow().is_ok_and(|wire| wire.finished > 0) {
            let flush = || {
                if let Ok(mut wire) = self.wire.try_borrow_mut() {
                    wire.flush_finished();
                }
            };
            *flusher = Some(scope.spawn_local(flush));
        }
    }
}
