//! How a worker idles in a driver: to be idle is to wait for the kernel.
//!
//! Made for schedulers, on the thread of each of their workers.
//!
//! # Inside of a fiber
//!
//! A scheduler may run inside of a fiber of another one. Its worker does not have the thread to
//! itself, so the worker must not take the thread into the kernel: the worker suspends that fiber.
//! Its driver stays closed meanwhile. The ops of its fibers wait in the outer worker's driver,
//! which that worker looks after.

use super::completions::Beside;
use super::presence::{Presence, Was};
use super::reactor::{Found, Reactor};
use super::workers;
use crate::selector::Backend;
use segue_core::scheduling::{Park, Unpark, WaitPark};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A worker's idling in a driver of its own, for the ops of its fibers.
///
/// While a worker has [entered](Park::enter) this park, a socket is registered here if one of the
/// worker's fibers is its first waiter. When the worker [leaves](Park::leave), or drops this, ops
/// that still wait, on other workers or on plain threads, move to the shared driver; none of them
/// fails.
///
/// A park blocks its thread. A worker that runs inside of a fiber of another scheduler
/// suspends that fiber instead, and the ops of its own fibers wait in the outer worker's driver.
/// Made in a fiber, a park has no driver of its own at all.
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
    ring: Beside,
    /// For parks inside of a fiber.
    fibers: WaitPark,
    found: Found,
    /// While entered: the thread's driver of before.
    outer: Option<Outer>,
    /// The driver of a thread must be taken back on that thread.
    not_send: PhantomData<*const ()>,
}

/// The reactor and the ring of a thread.
type Outer = (Option<Arc<Reactor>>, Beside);

struct Handle {
    /// None if the park was made in a fiber.
    reactor: Option<Arc<Reactor>>,
    /// Resumes the fiber that [`DriverPark::fibers`] has suspended.
    fibers: Arc<dyn Unpark>,
    presence: Arc<Presence>,
}

impl Handle {
    /// Waits by `wait`, which `unpark` ends; without waiting if the unpark came first.
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
    /// With a ring, the environment's `SEGUE_SENDS` says whether sends fly there; it is for
    /// experiments, since a worker finds the cheaper way by itself.
    ///
    /// # Errors
    /// The kernel's error when there are no descriptors left, and a driver needs two or three;
    /// `InvalidInput` if a variable of the environment has a value that it does not know.
    pub fn new() -> io::Result<Self> {
        Self::with(Backend::default())
    }

    /// A driver over a given interface. Never waits.
    ///
    /// # Errors
    /// As for [`new`](DriverPark::new).
    pub fn with(backend: Backend) -> io::Result<Self> {
        let (selector, ring) = backend.resolve()?;
        Self::over(selector, Beside::new(ring.filter(|_| !segue_core::in_fiber()))?)
    }

    /// A driver with a ring in which sends go by this rule, whatever the environment says.
    #[cfg(all(test, linux))]
    pub(crate) fn sending(rule: crate::ring::Rule) -> io::Result<Self> {
        Self::over(Backend::Native, Beside::with(None, rule))
    }

    fn over(selector: Backend, ring: Beside) -> io::Result<Self> {
        let is_guest = segue_core::in_fiber();
        let reactor = if is_guest { None } else { Some(Arc::new(Reactor::new(selector)?)) };
        let fibers = WaitPark::new();
        let presence = reactor.as_ref().map_or_else(Arc::default, |reactor| Arc::clone(&reactor.presence));
        let handle = Arc::new(Handle { reactor, fibers: fibers.unparker(), presence });
        Ok(Self { handle, ring, fibers, found: Found::default(), outer: None, not_send: PhantomData })
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
                    ring.turn(reactor, found, timeout);
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
        self.ring.poll(reactor, &mut self.found);
    }

    fn takes_ops(&self) -> bool {
        self.outer.is_some()
    }

    fn is_called(&self) -> bool {
        self.ring.is_called()
    }

    fn enter(&mut self) {
        if let Some(reactor) = &self.handle.reactor
            && self.outer.is_none()
            && !segue_core::in_fiber()
        {
            reactor.open();
            self.outer = Some((workers::set(Some(Arc::clone(reactor))), self.ring.enter()));
        }
    }

    fn leave(&mut self) {
        if let Some((reactor, ring)) = self.outer.take() {
            workers::set(reactor);
            ring.enter();
            if let Some(reactor) = &self.handle.reactor {
                reactor.close();
            }
        }
    }
}

impl Drop for DriverPark {
    fn drop(&mut self) {
        self.leave();
        self.ring.drain();
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

segue_core::impl_debug!([] DriverPark, |it| entered: it.outer.is_some());
