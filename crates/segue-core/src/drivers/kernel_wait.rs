//! Waits for the kernel, of which a simulation is told.
//!
//! [`KernelWait`] is held by drivers of I/O, and by the slot of a source that only the kernel makes
//! ready (`from_kernel.rs`), while that is registered. The simulator of `segue-sched` asks for such
//! waits.
//!
//! Nobody knows whether such a wait ends: a peer may answer, or never. So the wait holds no clock.
//! Waits are counted, so that a simulation which is open to the world lets its clock go with the
//! real one meanwhile; and the fiber is marked, so that a report of a deadlock can name the fibers
//! that wait outside.

use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::atomic::Ordering;
use crate::timers::Timers;
use std::marker::PhantomData;

/// Says that the calling fiber waits for the kernel. See [`kernel_wait`].
#[derive(Debug)]
#[must_use = "the wait counts as over when this is dropped"]
pub struct KernelWait {
    timers: Option<Timers>,
    /// The fiber that waits takes this back.
    not_send: PhantomData<*const ()>,
}

/// To be held by a driver of I/O while the calling fiber waits for an event that only the kernel
/// brings: data, room, a connection.
///
/// A simulation drives no I/O. At a deadlock meanwhile the report says that this fiber waits for
/// the network; in a simulation that is open to other threads, its clock goes with the real one
/// until the wait has ended. On the real clock, and on plain threads, there is no effect. Never
/// waits.
///
/// # Examples
///
/// ```
/// use segue_core::drivers::kernel_wait;
/// use segue_core::{Cancelled, WaitQueue, WaitsFor};
///
/// /// Waits until the driver, which polls the kernel, has counted an edge.
/// fn edge(edges: &WaitQueue<u64>) -> Result<(), Cancelled> {
///     let _kernel = kernel_wait();
///     edges.wait(WaitsFor::new("data on a socket"), |edges| *edges > 0, |edges| *edges -= 1)
/// }
/// assert_eq!(edge(&WaitQueue::new(1)), Ok(()));
/// ```
#[inline]
pub fn kernel_wait() -> KernelWait {
    let timers = current::with_running(|fiber| {
        let fiber = fiber?;
        let timers = fiber.scheduler().timers();
        timers.simulation()?.kernel.fetch_add(1, Ordering::Relaxed);
        fiber.count_kernel_wait(true);
        Some(Timers::clone(timers))
    });
    KernelWait { timers, not_send: PhantomData }
}

impl KernelWait {
    /// Whether the wait may end: not in a simulation that is closed to the world.
    ///
    /// For drivers that would try something again and again, of which the kernel tells nobody: in a
    /// closed simulation that would go on for ever, without a deadlock to be reported.
    #[must_use]
    pub fn may_end(&self) -> bool {
        self.timers.as_ref().is_none_or(Timers::is_open_to_the_world)
    }
}

impl Drop for KernelWait {
    fn drop(&mut self) {
        if let Some(simulation) = self.timers.as_ref().and_then(Timers::simulation) {
            simulation.kernel.fetch_sub(1, Ordering::Relaxed);
            current::with_running(|fiber| {
                if let Some(fiber) = fiber {
                    fiber.count_kernel_wait(false);
                }
            });
        }
    }
}

impl Fiber {
    /// Whether the fiber waits for the kernel, in a simulation, which does not drive that. See
    /// [`kernel_wait`](crate::drivers::kernel_wait).
    pub fn waits_for_kernel(&self) -> bool {
        self.kernel_waits.get() > 0
    }

    /// Counts one more wait for the kernel, or one less. Reports alone go by the count: so it may
    /// be wrong where the future of a source is dropped in another fiber than polled it, or where
    /// there are hundreds.
    fn count_kernel_wait(&self, begins: bool) {
        let waits = self.kernel_waits.get();
        self.kernel_waits.set(if begins { waits.saturating_add(1) } else { waits.saturating_sub(1) });
    }
}
