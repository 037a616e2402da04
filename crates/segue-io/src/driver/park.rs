//! How a worker idles in a driver: to be idle is to wait for the kernel.
//!
//! Made for schedulers, on the thread of each of their workers.
//!
//! # Inside of a fiber
//!
//! A scheduler may run inside of a fiber of another one. Its worker does not have the thread to
//! itself, so it must not take the thread into the kernel: it suspends that fiber. Its driver stays
//! closed meanwhile. The ops of its fibers wait in the outer worker's driver, which that worker
//! looks after.

use super::presence::{Presence, Was};
use super::reactor::{Found, Reactor};
use super::workers;
use crate::ring::{self, LazyRing, Ring};
use crate::selector::Backend;
use segue_core::scheduling::{Park, Unpark, WaitPark};
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How often in a row a look takes reports from a reactor that has more of them.
const TURNS: u32 = 64;

/// A worker's idling in a driver of its own, for the ops of its fibers.
///
/// While a worker has [entered](Park::enter) it, a socket is registered here if one of the worker's
/// fibers is the first to wait for it. When it [leaves](Park::leave), or drops this, ops that still
/// wait, on other workers or on plain threads, move to the shared driver; none of them fails.
///
/// It blocks its thread when it parks. A worker that runs inside of a fiber of another scheduler
/// suspends that fiber instead, and the ops of its own fibers wait in the outer worker's driver.
/// Made in a fiber, it has no driver of its own at all.
///
/// # Examples
///
/// ```
/// use segue_core::scheduling::Park;
/// use segue_io::DriverPark;
///
/// let mut park = DriverPark::new()?;
/// let unpark = park.unparker();
/// unpark.unpark();
/// park.park(None); // Returns at once: the unpark came first.
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct DriverPark {
    handle: Arc<Handle>,
    /// None if it is to do without, or was made in a fiber.
    ring: Option<Rc<LazyRing>>,
    /// For parks inside of a fiber.
    fibers: WaitPark,
    found: Found,
    /// While entered: what the thread's driver was before.
    outer: Option<Outer>,
    /// What it says of the thread that it entered must be taken back on that thread.
    not_send: PhantomData<*const ()>,
}

type Outer = (Option<Arc<Reactor>>, Option<Rc<LazyRing>>);

struct Handle {
    /// None if it was made in a fiber.
    reactor: Option<Arc<Reactor>>,
    /// Resumes the fiber that [`DriverPark::fibers`] has suspended.
    fibers: Arc<dyn Unpark>,
    presence: Arc<Presence>,
}

impl Handle {
    /// Waits by `wait`, which `unpark` ends; without waiting if it came first.
    fn park(&self, in_kernel: bool, wait: impl FnOnce(bool)) {
        wait(self.presence.lie_down(in_kernel));
        if self.presence.get_up() {
            self.watch();
        }
    }

    /// Nobody has looked at the worker in its sleep.
    #[cold]
    fn watch(&self) {
        if let Some(reactor) = &self.reactor {
            reactor.watch();
        }
    }
}

impl DriverPark {
    /// A driver over the best interface that this system's kernel has, or the one that the
    /// environment's `SEGUE_IO` names (see [`Backend`]); in a fiber, none. Never waits.
    ///
    /// # Errors
    /// What the kernel says when there are no descriptors left, of which a driver needs two or
    /// three.
    pub fn new() -> io::Result<Self> {
        Self::with(Backend::default())
    }

    /// A driver over a given interface. Never waits.
    ///
    /// # Errors
    /// As for [`new`](DriverPark::new).
    pub fn with(backend: Backend) -> io::Result<Self> {
        let (selector, ring) = backend.resolve()?;
        let is_guest = segue_core::in_fiber();
        let reactor = if is_guest { None } else { Some(Arc::new(Reactor::new(selector)?)) };
        let ring = ring.filter(|_| !is_guest).map(|entries| Rc::new(LazyRing::new(entries)));
        let fibers = WaitPark::new();
        let presence = reactor.as_ref().map_or_else(Arc::default, |reactor| Arc::clone(reactor.presence()));
        let handle = Arc::new(Handle { reactor, fibers: fibers.unparker(), presence });
        Ok(Self { handle, ring, fibers, found: Found::default(), outer: None, not_send: PhantomData })
    }

    /// Waits in the ring if something flies there, and else in the reactor itself.
    fn turn(ring: Option<&LazyRing>, reactor: &Reactor, found: &mut Found, timeout: Option<Duration>) {
        let ring = ring.and_then(LazyRing::made).filter(|ring| ring.is_busy());
        let Some((ring, reactors)) = ring.zip(reactor.descriptor()) else {
            let _ = reactor.turn(found, timeout);
            return;
        };
        // What was left of its last call does not make it call again.
        match timeout {
            Some(Duration::ZERO) => ring.poll(),
            _ if ring.has_call() => ring.poll(),
            _ => ring.park(reactors, timeout),
        }
        if ring.take_call() {
            Self::empty(Some(ring), reactor, found);
        }
    }

    /// Takes all reports from the reactor; if there is no end to them, the rest are for the next
    /// look.
    fn empty(ring: Option<&Ring>, reactor: &Reactor, found: &mut Found) {
        for _ in 0..TURNS {
            if !reactor.turn(found, Some(Duration::ZERO)) {
                return;
            }
        }
        if let Some(ring) = ring {
            ring.call();
        }
    }
}

impl Park for DriverPark {
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::<Handle>::clone(&self.handle)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let Self { handle, ring, fibers, found, .. } = self;
        match &handle.reactor {
            Some(reactor) if !segue_core::in_fiber() => {
                handle.park(true, |parked| {
                    let timeout = if parked { timeout } else { Some(Duration::ZERO) };
                    Self::turn(ring.as_deref(), reactor, found, timeout);
                });
            }
            _ => handle.park(false, |parked| {
                if parked {
                    fibers.park(timeout);
                }
            }),
        }
    }

    fn poll(&mut self) {
        let Some(reactor) = &self.handle.reactor else { return };
        self.handle.presence.looked();
        let ring = self.ring.as_deref().and_then(LazyRing::made).map(|ring| &**ring);
        if let Some(ring) = ring.filter(|ring| ring.is_busy()) {
            ring.poll();
        }
        if ring.is_some_and(Ring::take_call) || !reactor.is_empty() {
            Self::empty(ring, reactor, &mut self.found);
        }
    }

    fn takes_ops(&self) -> bool {
        self.outer.is_some()
    }

    fn is_called(&self) -> bool {
        self.ring.as_deref().and_then(LazyRing::made).is_some_and(|ring| ring.is_called())
    }

    fn enter(&mut self) {
        if let Some(reactor) = &self.handle.reactor
            && self.outer.is_none()
            && !segue_core::in_fiber()
        {
            reactor.open();
            self.outer = Some((workers::set(Some(Arc::clone(reactor))), ring::set(self.ring.clone())));
        }
    }

    fn leave(&mut self) {
        if let Some((reactor, ring)) = self.outer.take() {
            workers::set(reactor);
            ring::set(ring);
            if let Some(reactor) = &self.handle.reactor {
                reactor.close();
            }
        }
    }
}

impl Drop for DriverPark {
    fn drop(&mut self) {
        self.leave();
        if let Some(ring) = self.ring.as_deref().and_then(LazyRing::made) {
            ring.drain();
        }
    }
}

impl Unpark for Handle {
    fn unpark(&self) {
        match (self.presence.unpark(), &self.reactor) {
            (Was::Parked { unwatched }, Some(reactor)) => {
                reactor.notify();
                if unwatched {
                    self.watch();
                }
            }
            (Was::Suspended, _) => self.fibers.unpark(),
            _ => {}
        }
    }
}

impl std::fmt::Debug for DriverPark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverPark").field("entered", &self.outer.is_some()).finish_non_exhaustive()
    }
}
