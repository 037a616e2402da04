//! What a simulation can't know by itself: that a thread outside works for one of its fibers, and
//! that a fiber waits for the kernel.
//!
//! [`OutsideWork`] is held by whatever hands work to another thread and has a fiber wait for it:
//! calls that block, bridges. [`KernelWait`] is held by drivers of I/O, and by the slot of a source
//! that only the kernel makes ready (`drivers/from_kernel.rs`), while that is registered. The
//! simulator of `segue-sched` asks for both.
//!
//! # Work outside
//!
//! A simulator moves its clock when nothing can run, and reports a deadlock when no timer is left
//! either. If a thread computes meanwhile for one of its fibers, both would be wrong: the answer is
//! under way, and takes no time on a clock that nobody moves. So such work is counted, and while
//! the count is not zero the simulator waits for mail.
//!
//! **The race to fear**: the last work ends, its answer is in the mail, and the simulator, which
//! has found no mail before, moves the clock. It does not: the answer is sent before the count goes
//! down (release); the simulator reads the count (acquire) and then looks whether it was called.
//! The thread that brings the count to zero calls the simulator, so that this does not wait for
//! mail that never comes.
//!
//! # Waits for the kernel
//!
//! Nobody knows whether such a wait ends: a peer may answer, or never. So it holds no clock. It is
//! counted, so that a simulation which is open to the world lets its clock go with the real one
//! meanwhile; and the fiber is marked, so that a report of a deadlock can say what stands outside.

use crate::chain::barrier;
use crate::contract::current;
use crate::contract::fiber::{Fiber, WaitsFor};
use crate::primitives::atomic::Ordering;
use crate::thread::here;
use crate::timers::Timers;
use std::marker::PhantomData;

/// Says that a thread outside works for the caller. See [`outside_work`].
#[derive(Debug)]
#[must_use = "the work counts as over when this is dropped"]
pub struct OutsideWork(Option<Timers>);

/// To be held while a thread outside works for the calling fiber: a simulation then moves its clock
/// no further, and reports no deadlock, until the answer is there. On the real clock, and on plain
/// threads, it has no effect.
///
/// It may be sent to the thread that works. The answer is given before it is dropped. Never waits.
///
/// # Examples
///
/// ```
/// use segue_core::{WaitQueue, WaitsFor, outside_work};
/// use std::sync::Arc;
///
/// fn elsewhere<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Option<T> {
///     let answer = Arc::new(WaitQueue::new(None));
///     let (resolve, outside) = (Arc::clone(&answer), outside_work());
///     std::thread::spawn(move || {
///         let value = f();
///         let mut answer = resolve.lock();
///         *answer.state() = Some(value);
///         answer.notify_all(0);
///         drop(outside);
///     });
///     answer.wait(WaitsFor::new("another thread"), Option::is_some, Option::take).ok()?
/// }
/// assert_eq!(elsewhere(|| 6 * 7), Some(42));
/// ```
#[inline]
pub fn outside_work() -> OutsideWork {
    if !current::in_fiber() {
        return OutsideWork(None);
    }
    here::on_current(|fiber| {
        let timers = fiber.scheduler().timers();
        let counted = timers.simulation().map(|simulation| simulation.outside.fetch_add(1, Ordering::Relaxed));
        OutsideWork(counted.map(|_| Timers::clone(timers)))
    })
}

impl Drop for OutsideWork {
    fn drop(&mut self) {
        if let Some(simulation) = self.0.as_ref().and_then(Timers::simulation)
            && simulation.outside.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(idle) = simulation.idle.get()
        {
            barrier(WaitsFor::new("an unpark"), || idle.unpark());
        }
    }
}

/// Says that the calling fiber waits for the kernel. See [`kernel_wait`].
#[derive(Debug)]
#[must_use = "the wait counts as over when this is dropped"]
pub struct KernelWait {
    timers: Option<Timers>,
    /// It is taken back by the fiber that waits.
    not_send: PhantomData<*const ()>,
}

/// To be held by a driver of I/O while the calling fiber waits for what only the kernel brings:
/// data, room, a connection.
///
/// A simulation drives no I/O. If it comes to a deadlock meanwhile, its report says that this fiber
/// waits for the network; if it is open to other threads, its clock goes with the real one until
/// the wait has ended. On the real clock, and on plain threads, it has no effect. Never waits.
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
    /// Whether it waits for the kernel, in a simulation, which does not drive it. See
    /// [`kernel_wait`](crate::drivers::kernel_wait).
    pub fn waits_for_kernel(&self) -> bool {
        self.kernel_waits.get() > 0
    }

    /// Counts one more wait for the kernel, or one less. A report is all that goes by it: so it may
    /// be wrong where the future of a source is dropped in another fiber than polled it, or where
    /// there are hundreds.
    pub(crate) fn count_kernel_wait(&self, begins: bool) {
        let waits = self.kernel_waits.get();
        self.kernel_waits.set(if begins { waits.saturating_add(1) } else { waits.saturating_sub(1) });
    }
}
