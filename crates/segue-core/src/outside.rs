//! Work outside of a simulation, for which its clock stands still.
//!
//! Held by whatever hands work to another thread and has a fiber wait for it: calls that block, bridges. Asked by the simulator of `segue-sched`.
//!
//! A simulator moves its clock when nothing can run, and reports a deadlock when no timer is left either. If a thread computes meanwhile for one of its
//! fibers, both would be wrong: the answer is under way, and takes no time on a clock that nobody moves. So such work is counted, and while the count
//! is not zero the simulator waits for mail.
//!
//! **The race to fear**: the last work ends, its answer is in the mail, and the simulator, which has found no mail before, moves the clock. It does
//! not: the answer is sent before the count goes down (release); the simulator reads the count (acquire) and then looks whether it was called.
//! Whoever brings the count to zero calls it, so that it does not wait for mail that never comes.

use crate::fiber;
use crate::time::Timers;

/// Says that a thread outside works for the caller. See [`outside_work`].
#[must_use = "the work counts as over when this is dropped"]
pub struct OutsideWork(Option<Timers>);

/// To be held while a thread outside works for the calling fiber: a simulation then moves its clock no further, and reports no deadlock, until the answer is
/// there. On the real clock, and on plain threads, it has no effect.
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
///         drop((answer, outside));
///     });
///     answer.wait(WaitsFor::new("another thread"), Option::is_some, Option::take).ok()?
/// }
/// assert_eq!(elsewhere(|| 6 * 7), Some(42));
/// ```
#[inline]
pub fn outside_work() -> OutsideWork {
    if !fiber::in_fiber() {
        return OutsideWork(None);
    }
    fiber::with_current(|fiber| {
        let timers = fiber.scheduler().timers();
        OutsideWork(timers.begin_outside_work().then(|| timers.clone()))
    })
}

impl Drop for OutsideWork {
    fn drop(&mut self) {
        if let Some(timers) = &self.0 {
            timers.end_outside_work();
        }
    }
}

impl std::fmt::Debug for OutsideWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutsideWork").field("counted", &self.0.is_some()).finish()
    }
}
