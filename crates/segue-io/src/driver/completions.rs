//! Ops that fly: how an op of a worker's own fiber becomes a request to the worker's ring, and how
//! the worker idles in both this ring and its reactor.
//!
//! Used by `run` before an op goes by readiness, by `foreign`, and by `park`. Where there are no
//! rings, `no_completions.rs` stands in place of this file.

use super::op::{BYTES, Op};
use super::reactor::{Found, Reactor};
use super::readiness::Half;
use super::socket::Socket;
use crate::ring::{self, Flown, LazyRing, Ring, Rule, Way};
use segue_core::WaitsFor;
use segue_core::drivers::Limit;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Carries out an op of the calling fiber, which may be suspended here. `None` if the caller has no
/// ring, the op can't fly, or the kernel would not wait for it: then the op has had no effect, and
/// its deadline is as it was set here.
#[inline(never)] // A wait by readiness is not to have this frame: as `by_readiness`.
#[track_caller]
pub(crate) fn carry_out<O: Op>(
    socket: &Arc<Socket>,
    op: &mut O,
    timeout: Option<Duration>,
    deadline: &mut Option<Option<Instant>>,
) -> Option<io::Result<O::Output>> {
    let ring = ring::of_caller()?;
    if O::IS_EAGER || (O::IS_SEND && ring.sends().next() == Way::Now) {
        match op.attempt(socket) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Ok(output) => {
                // The fiber goes on without a wait.
                segue_core::drivers::charge(op.moved(&output) / BYTES);
                if O::IS_SEND {
                    ring.sends().sent(op.moved(&output), Way::Now);
                }
                return Some(Ok(output));
            }
            failed => return Some(failed),
        }
    }
    let request = op.request(socket.io().as_fd())?;
    let until = timeout.and_then(|time| segue_core::now().checked_add(time));
    *deadline = Some(until);
    let limit = match until {
        None => None,
        // A limit that came up among the timers of before is over already, and is not for this
        // thread.
        Some(at) => Some(Limit::set(socket, O::HALF as usize, at).filter(|limit| !limit.is_over())?),
    };
    let limited = limit.as_ref().map(|_| socket.limited(O::HALF));
    match ring.fly(request, limited, socket.expects_data(), WaitsFor::new(O::WAITS_FOR)) {
        Flown::Landed(answer, has_more) => {
            if O::HALF == Half::Read {
                socket.expect_data(has_more);
            }
            let done = op.completed(answer);
            if O::IS_SEND
                && let Ok(output) = &done
            {
                ring.sends().sent(op.moved(output), Way::Fly);
            }
            Some(done)
        }
        Flown::Refused => None,
        Flown::Failed(error) => Some(Err(error)),
    }
}

/// The ring beside a worker's reactor, if the worker is not to do without.
pub(super) struct Beside(Option<Rc<LazyRing>>);

impl Beside {
    /// With room for so many submissions at a time, or for as many as fit. An error if the
    /// environment's rule for sends is none.
    pub(super) fn new(entries: Option<Option<u16>>) -> io::Result<Self> {
        let Some(entries) = entries else { return Ok(Self(None)) };
        Ok(Self::with(entries, Rule::of_environment()?))
    }

    /// The same with this rule for sends.
    pub(super) fn with(entries: Option<u16>, sends: Rule) -> Self {
        Self(Some(Rc::new(LazyRing::new(entries, sends))))
    }

    fn made(&self) -> Option<&Ring> {
        self.0.as_deref()?.made().map(|ring| &**ring)
    }

    /// The fibers of this thread's worker use this ring from now on. Answers with the ring of
    /// before.
    pub(super) fn enter(&self) -> Self {
        Self(ring::set(self.0.clone()))
    }

    /// Waits in the ring if something flies there, and else in the reactor itself.
    pub(super) fn turn(&self, reactor: &Reactor, found: &mut Found, timeout: Option<Duration>) {
        let ring = self.made();
        if let Some(ring) = ring {
            ring.begin_look();
        }
        let busy = ring.filter(|ring| ring.is_busy());
        let Some((ring, reactors)) = busy.zip(reactor.descriptor()) else {
            let _ = reactor.turn(found, timeout);
            return;
        };
        // A call that was left from the last look does not make the reactor call again.
        match timeout {
            Some(Duration::ZERO) => ring.poll(),
            _ if ring.has_call() => ring.poll(),
            _ => ring.park(reactors, timeout),
        }
        if ring.take_call() && !reactor.empty(found) {
            ring.call();
        }
    }

    /// Looks into the ring and the reactor, without waiting.
    pub(super) fn poll(&self, reactor: &Reactor, found: &mut Found) {
        let ring = self.made();
        if let Some(ring) = ring {
            ring.begin_look();
            if ring.is_busy() {
                ring.poll();
            }
        }
        let is_called = ring.is_some_and(Ring::take_call);
        if (is_called || !reactor.is_empty())
            && !reactor.empty(found)
            && let Some(ring) = ring
        {
            ring.call();
        }
    }

    /// Whether a look would probably find something.
    pub(super) fn is_called(&self) -> bool {
        self.made().is_some_and(Ring::is_called)
    }

    /// Ends the flights of fibers that never run again.
    pub(super) fn drain(&self) {
        if let Some(ring) = self.made() {
            ring.drain();
        }
    }
}
