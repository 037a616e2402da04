//! Work outside: a thread outside of a simulation works for one of the simulation's fibers.
//!
//! [`OutsideWork`] is held by code that hands work to another thread and has a fiber wait for the
//! answer: calls that block, bridges. The simulator of `segue-sched` asks for it.
//!
//! A simulator moves its clock when nothing can run, and reports a deadlock when no timer is left
//! either. If a thread computes meanwhile for one of its fibers, both would be wrong: the answer is
//! under way, and takes no time on a clock that nobody moves. So such work is counted, and while
//! the count is not zero the simulator waits for mail.
//!
//! **The race to fear**: the last work ends, its answer is in the mail, and the simulator, which
//! has found no mail before, moves the clock. It does not: the answer is sent before the count goes
//! down (release); the simulator reads the count (acquire) and then looks for a call. The thread
//! that brings the count to zero calls the simulator, so that this does not wait for mail that
//! never comes.

use crate::chain::barrier;
use crate::contract::current;
use crate::primitives::atomic::Ordering;
use crate::primitives::waits_for::WaitsFor;
use crate::thread::here;
use crate::timers::Timers;

/// Says that a thread outside works for the caller. See [`outside_work`].
#[derive(Debug)]
#[must_use = "the work counts as over when this is dropped"]
pub struct OutsideWork(Option<Timers>);

/// To be held while a thread outside works for the calling fiber: a simulation then moves its clock
/// no further, and reports no deadlock, until the answer is there. On the real clock, and on plain
/// threads, there is no effect.
///
/// The value may be sent to the thread that works. The answer is given before the drop. Never
/// waits.
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
