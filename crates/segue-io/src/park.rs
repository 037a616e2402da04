//! How a worker idles in a driver: to be idle is to wait for the kernel.
//!
//! Made for schedulers, on the thread of each of their workers.
//!
//! # Waking
//!
//! To wake a thread out of the kernel costs a system call, which is needed only while it is in there. One word says so:
//!
//! ```text
//!                    park                 unpark: notify the kernel
//!   RUNNING ----------------------> PARKED ------------> UNPARKED
//!      |  ^                           |                     |
//!      |  +---------------------------+                     |
//!      |  |     the wait has ended                          |
//!      |  +-------------------------------------------------+
//!      |                                                    |
//!      +----------------------------------------------------+
//!                    unpark: no system call
//! ```
//!
//! A park that finds UNPARKED looks for events without waiting. **The race to fear**: an unpark between the last look for work and the
//! wait in the kernel. If it comes before the exchange to PARKED, then the exchange fails; if after, then it sees PARKED and notifies the
//! kernel, where a notification stays until a wait has taken it. A notification that comes late, after its wait has ended for another
//! reason, cuts a later one short, which a park may do.
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `unpark`'s swap | `park`'s failed exchange, or its swap at the end | the work that the worker is woken for |

use crate::driver;
use crate::reactor::{Found, Reactor};
use crate::selector::Backend;
use segue_core::{Park, Unpark};
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const UNPARKED: u8 = 2;

/// A worker's idling in a driver of its own, for the ops of its fibers.
///
/// While a worker has [entered](Park::enter) it, sockets whose first wait is on one of the worker's fibers are registered here. When it
/// [leaves](Park::leave), or drops this, ops that still wait, on other workers or on plain threads, move to the shared driver; none
/// of them fails.
///
/// It blocks its thread when it parks. A scheduler that runs inside a fiber of another one should rather idle in a
/// [`WaitPark`](segue_core::WaitPark); the ops of its fibers then wait in the outer worker's driver.
///
/// # Examples
///
/// ```
/// use segue_core::Park;
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
    found: Found,
    /// While entered: what the thread's driver was before.
    outer: Option<Option<Arc<Reactor>>>,
    /// What it says of the thread that it entered must be taken back on that thread.
    not_send: PhantomData<*const ()>,
}

struct Handle {
    reactor: Arc<Reactor>,
    state: AtomicU8,
}

impl DriverPark {
    /// A driver over the best interface that this system's kernel has. Never waits.
    ///
    /// # Errors
    /// What the kernel says when there are no descriptors left, of which a driver needs two or three.
    pub fn new() -> io::Result<Self> {
        Self::with(Backend::default())
    }

    /// A driver over a given interface. Never waits.
    ///
    /// # Errors
    /// As for [`new`](DriverPark::new).
    pub fn with(backend: Backend) -> io::Result<Self> {
        let reactor = Arc::new(Reactor::new(backend)?);
        let handle = Arc::new(Handle { reactor, state: AtomicU8::new(RUNNING) });
        Ok(Self { handle, found: Found::default(), outer: None, not_send: PhantomData })
    }
}

impl Park for DriverPark {
    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::<Handle>::clone(&self.handle)
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let Handle { reactor, state } = &*self.handle;
        match state.compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => reactor.turn(&mut self.found, timeout),
            Err(_) => reactor.turn(&mut self.found, Some(Duration::ZERO)),
        }
        state.swap(RUNNING, Ordering::AcqRel);
    }

    fn poll(&mut self) {
        if !self.handle.reactor.is_empty() {
            self.handle.reactor.turn(&mut self.found, Some(Duration::ZERO));
        }
    }

    fn enter(&mut self) {
        if self.outer.is_none() {
            self.handle.reactor.open();
            self.outer = Some(driver::set_workers(Some(Arc::clone(&self.handle.reactor))));
        }
    }

    fn leave(&mut self) {
        if let Some(outer) = self.outer.take() {
            driver::set_workers(outer);
            self.handle.reactor.close();
        }
    }
}

impl Drop for DriverPark {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Unpark for Handle {
    fn unpark(&self) {
        if self.state.swap(UNPARKED, Ordering::AcqRel) == PARKED {
            self.reactor.notify();
        }
    }
}

impl std::fmt::Debug for DriverPark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriverPark").field("entered", &self.outer.is_some()).finish_non_exhaustive()
    }
}
