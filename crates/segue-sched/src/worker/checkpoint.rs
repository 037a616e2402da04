//! Long computations that let others in: [`checkpoint`], and the rule for the end of its time.
//!
//! Used by applications, between pieces of work that never wait, and by parallel loops between
//! their blocks.
//!
//! A fiber that computes keeps its worker from all other fibers. At a checkpoint the fiber gives up
//! its turn if something is seen to wait: mail from other threads, a closure that was sent to this
//! worker or came from outside, an idle worker that would have work. These are four loads. Fibers
//! that were ready before, due timers and sockets can't be seen so cheaply; they are served when a
//! *slice* of time is over. To read the clock for that costs as much as several checkpoints. So a
//! fiber reads it at the first checkpoint of each turn, and then each time that
//! [`GLANCE`](super::slice::GLANCE) has passed, estimated by how long the last checkpoints took.

use crate::worker::common::{Common, with_caller};
use segue_core::{Cancelled, Fiber};

/// For long computations: fails if the caller was cancelled, and lets others run if they wait.
///
/// On a fiber of this crate's workers the checkpoint gives up the turn if there is mail from other
/// threads, a closure that was sent to this worker or came from outside, or a timer that is due;
/// and after a millisecond in any case. An idle worker is given a fork or a closure. Otherwise the
/// price is a few nanoseconds, and inside of a [`timeout`](segue_core::timeout) a look at the
/// clock.
///
/// The clock is read every 50 microseconds or so. So timers, sockets and other ready fibers wait
/// for a millisecond and the time between two checkpoints, if these are evenly spaced.
///
/// On a plain thread, and on fibers of other schedulers, this is [`check`](segue_core::check). A
/// fiber that panics does not give up its turn.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// fn sum(numbers: &[u64]) -> Result<u64, segue_core::Cancelled> {
///     let mut sum = 0;
///     for chunk in numbers.chunks(1000) {
///         sum += chunk.iter().sum::<u64>();
///         segue_sched::checkpoint()?;
///     }
///     Ok(sum)
/// }
/// let pool = segue_sched::Runtime::new().workers(1).pool().unwrap();
/// assert_eq!(pool.run(|| sum(&[1; 10_000])), Ok(Ok(10_000)));
/// ```
#[inline]
pub fn checkpoint() -> Result<(), Cancelled> {
    segue_core::check()?;
    with_caller(|caller| match caller {
        Some((worker, fiber)) if worker.is_called() || worker.slice.tick(worker.turns.get()) => {
            attend(worker, fiber);
            segue_core::check()
        }
        _ => Ok(()),
    })
}

/// A checkpoint between two blocks of a parallel loop, which goes on after a cancellation. Answers
/// whether others have had the worker.
#[inline]
pub(crate) fn between_blocks() -> bool {
    with_caller(|caller| match caller {
        Some((worker, fiber)) if worker.is_called() || worker.slice.tick(worker.turns.get()) => {
            segue_core::shield(|| attend(worker, fiber))
        }
        _ => false,
    })
}

/// Gives up the turn if somebody waits. Answers whether that happened.
#[cold]
#[inline(never)]
fn attend(worker: &Common, fiber: &Fiber) -> bool {
    if worker.remote().is_unheard() {
        worker.give();
    }
    let over = worker.slice.is_over(worker.turns.get(), fiber.scheduler().timers());
    if over {
        // Nobody knows the driver's events.
        worker.deferred_look.set(0);
        worker.until_look.set(1);
    }
    if !(over || worker.is_called()) || std::thread::panicking() {
        return false;
    }
    worker.whole().let_in();
    // Where a suspension is forbidden, the fiber goes on.
    segue_core::yield_now().is_ok()
}
