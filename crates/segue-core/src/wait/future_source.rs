//! Any `Future` as a source: to be one arm of a choice, next to structures and timers.
//!
//! Used where code that waits for a foreign future also waits for something else.
//! [`wait_future`](crate::wait_future) waits for one alone, and allocates nothing.
//!
//! # The idea
//!
//! A flag says whether the future is to be polled. Its waker sets the flag, under the lock of the
//! queue in which the waiter stands, and tells the waiter to attempt again. An attempt takes the
//! flag and polls once, when nothing is registered: foreign code runs there. Flag, queue and waker
//! are one counted allocation, since a waker may be kept and called at any time, also when the
//! source has ended.
//!
//! ```text
//!   woken (at first) --attempt: takes the flag, polls--> ready: done
//!     ^                                           \----> pending: asleep --attempt--> nothing, is not polled
//!     |                                                             |
//!     +------------------------- the waker -------------------------+
//! ```
//!
//! **Commit point**: the poll that is ready. **Cancellation**: the waiter leaves the queue, and the
//! future is dropped with the source, or waited for again if that was lent.
//!
//! **The race to fear**: the future is woken between the poll and the registration. The flag is
//! taken before the poll, so a wake during the poll or later leaves the flag set; and the
//! registration, under the lock of the flag, finds the flag and retreats. A future that wakes
//! itself in each poll is polled again after such a retreat: from the second one on others run in
//! between.
//!
//! **Orderings**: the poll sees all work before the wake, since the lock orders the setting of the
//! flag and its taking.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::wait::holders::{slot_of, steps_of};
use crate::wait::queue::{Node, Shared, WaitQueue};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Whether the future is to be polled.
struct Woken(WaitQueue<bool>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.0.lock();
        *woken.state() = true;
        woken.notify_all(0);
    }
}

/// A source that is ready when `future` is, and yields its output: to be waited for next to other
/// sources.
///
/// The waiter polls the future, outside of every lock, with a waker that may be called from any
/// thread; so all else that the future needs has to run elsewhere. The future is polled at the
/// first look and after wake-ups, not at each look. Others run between the polls of a future that
/// wakes itself.
///
/// [By reference](Waitable::by_ref) the future is still there when another arm was chosen, and goes
/// on in the next wait. A future that has yielded, or has panicked, is dropped, and the source
/// never ready again.
///
/// The source may go to other threads if the future may. Future and waker take an allocation each.
///
/// # Cancellation
/// The future is dropped, which is how futures are cancelled: the effect is its own business. A
/// lent future is not dropped: then the outcome is *no effect*.
///
/// # Panics
/// A wait panics if the future does.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after, future_source};
/// use std::time::Duration;
///
/// let mut sum = future_source(async {
///     after(Duration::from_millis(2)).await;
///     20 + 22
/// });
/// while let Either::Left(()) = after(Duration::from_millis(1)).or_else(sum.by_ref()).wait()? {
///     println!("not yet");
/// #   break;
/// }
/// assert_eq!(sum.wait()?, 42);
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn future_source<F: IntoFuture>(future: F) -> Waitable<impl Source<Output = F::Output> + use<F>> {
    let future = Some(Box::pin(future.into_future()));
    let host = Arc::new(Woken(WaitQueue::new(true)));
    let waker = Waker::from(Arc::clone(&host));
    let waits_for = WaitsFor::new("a future");
    let woken =
        Shared { host, queue: |woken| &woken.0, waits_for, ready: |woken| *woken, take: |woken| *woken = false };
    Waitable::new(Polled { woken, future, waker })
}

/// The source of a future.
struct Polled<F> {
    woken: Shared<Woken, bool, ()>,
    /// `None` after the end.
    future: Option<Pin<Box<F>>>,
    waker: Waker,
}

impl<F: Future> Polled<F> {
    /// Polls the future, if there is one. A ready future is gone, and one that panics.
    fn poll(&mut self) -> Option<F::Output> {
        let mut future = self.future.take()?;
        match future.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => {
                self.future = Some(future);
                None
            }
        }
    }
}

// SAFETY: every step is that of the source of the flag, and no step begins a registration but
// `register` (R1, R2, R5, R11, R16). There is one waiter, so that a flag which is given back finds
// no other (R10, R12). The poll follows an attempt that has taken the flag, or a commit, when
// nothing is registered and no lock is held (R7, R8, R13); the poll may wait, in the sense of R3,
// and may unwind. A pending poll is a look in vain, and a wake since its beginning has set the
// flag, so `register` retreats (R4); a commit says that there is an attempt to follow (R6). The
// source goes to another thread if the future may.
unsafe impl<F: Future> Source for Polled<F> {
    type Output = F::Output;
    type Slot = Node<()>;

    steps_of!(self => self.woken, slot => slot, |()| self.poll());
    slot_of!(self => self.woken);
}
