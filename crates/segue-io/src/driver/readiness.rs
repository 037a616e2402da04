//! One direction of a socket, as the readiness driver has a direction: a count of events, and the
//! waiters for the next.
//!
//! Used by `driver::run`, which waits, and by the reactor, which reports the kernel's error.
//!
//! # The idea
//!
//! The kernel reports *edges*: that a socket has become ready, once. An op that would block would
//! have to clear a flag "ready", and so could wipe out an edge that has just been reported. So
//! there is no flag and nothing is ever cleared. There is a *tick*: the number of edges so far,
//! which only grows. An op
//!
//! 1. reads the tick,
//! 2. tries the system call, which would block,
//! 3. waits until the tick is no longer that of step 1, and starts again.
//!
//! ```text
//!   op       tick is 7 --- recv: would block --- wait while the tick is 7 --- (tick is 8) --- recv: 12 bytes
//!   kernel                                 \__ data arrives: an edge
//!   reactor                                      \__ tick becomes 8, waiters are told
//! ```
//!
//! **The race to fear**: the data arrives after the failed call, its edge is reported before the op
//! has begun to wait, and the op sleeps through the edge. This cannot happen: an edge that the call
//! of step 2 did not see is reported after step 1, and so the tick differs from the tick that was
//! read there, however early the report came. If the report comes before the wait registers, the
//! wait finds the tick changed under the queue's lock; if after, the reactor finds the waiter in
//! the queue. An edge between steps 1 and 2 that the call did see costs one attempt too many,
//! later.
//!
//! Two readers on one socket each have their own step 1, so neither can take the other's edge away.
//! All waiters are told of each edge; the late ones find that the call would block, and wait again.
//!
//! **Time limits** are set at each wait and hardly ever come up, so a direction has a lazy timer
//! for them: the limit of one waiter at a time costs no entry among the timers. When the limit is
//! over, all waiters are told, and the one that set the limit sees that at the same look as the
//! tick.
//!
//! **Cancellation**: a waiter leaves the queue. The tick does not change, the socket keeps its
//! data, and nothing is lost.
//!
//! # Drained
//!
//! A read that returned less than its buffer has emptied the socket, so that the next call would
//! only block. If the tick was 7 at the step 1 of that read, then any data that arrive later make
//! the tick 8; so the next op may go to step 3 with 7 directly. That saves one system call of three
//! per request on a connection that is asked and answers.
//!
//! *Drained* holds only while every later change makes an edge. The end of the stream, errors and
//! urgent data are changes that can be reported together with the data, in one edge, and be still
//! unread when the data is. A report that names one of them marks the direction as *unsteady*, for
//! good, and drained is ignored from then on. Selectors that can't tell (see `Selector::tells_end`)
//! mark nothing drained.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the tick's increment in `report` | step 1's load, and the check in `wait` | `unsteady`, stored before the increment: an op that counts the edge sees the mark |
//! | the queue's unlock | the queue's lock | tick before notify: a waiter that the notify missed sees the tick |
//!
//! `drained` needs no order: the word holds a tick, which is true of the socket for every reader at
//! any time.

use crate::selector::Interest;
use segue_core::drivers::{LazyTimer, Limit};
use segue_core::{Ended, Source, WaitQueue, WaitsFor};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Which half of a socket an op waits for; its number is `half as usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Read,
    Write,
}

impl Interest {
    pub(super) fn of(half: Half) -> Self {
        Self { read: half == Half::Read, write: half == Half::Write }
    }
}

/// A tick that is never reached.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Direction {
    /// The edges so far. Wide enough never to wrap, so that no old value comes back.
    tick: AtomicU64,
    /// The tick at which the socket was found empty; or [`NEVER`].
    drained: AtomicU64,
    unsteady: AtomicBool,
    waiters: WaitQueue<()>,
    /// The time limit of the waiter.
    limit: LazyTimer,
}

impl Direction {
    pub(crate) fn new() -> Self {
        Self {
            tick: AtomicU64::new(0),
            drained: AtomicU64::new(NEVER),
            unsteady: AtomicBool::new(false),
            waiters: WaitQueue::new(()),
            limit: LazyTimer::new(),
        }
    }

    /// Step 1: the edges so far.
    #[inline]
    pub(crate) fn tick(&self) -> u64 {
        self.tick.load(Ordering::Acquire)
    }

    /// Whether a call at this tick is known to block.
    #[inline]
    pub(crate) fn is_drained(&self, tick: u64) -> bool {
        self.drained.load(Ordering::Relaxed) == tick && !self.unsteady.load(Ordering::Relaxed)
    }

    /// A call that was begun at this tick has emptied the socket.
    #[inline]
    pub(crate) fn set_drained(&self, tick: u64) {
        self.drained.store(tick, Ordering::Relaxed);
    }

    /// Step 3: waits while the tick is `tick`. A limit, if there is one, is at the deadline.
    pub(crate) fn wait(
        &self,
        tick: u64,
        deadline: Option<Instant>,
        limit: Option<Limit<'_>>,
        waits_for: WaitsFor,
    ) -> Result<(), Ended> {
        let deadline = deadline.filter(|_| limit.is_none());
        let ready = |_: &()| self.tick() != tick || limit.as_ref().is_some_and(Limit::is_over);
        self.waiters.wait_until(deadline, waits_for, ready, |()| ())?;
        if self.tick() == tick { Err(Ended::TimedOut) } else { Ok(()) }
    }

    /// Step 3 as a source, which is ready at once if `is_over`.
    pub(crate) fn edge_source(&self, tick: u64, is_over: bool, waits_for: WaitsFor) -> impl Source<Output = ()> {
        self.waiters.source(waits_for, move |()| is_over || self.tick() != tick, |()| ())
    }

    /// The timer for the limits of the waiters.
    #[inline]
    pub(crate) fn timer(&self) -> &LazyTimer {
        &self.limit
    }

    /// A waiter's limit is over.
    pub(crate) fn expire(&self) {
        self.waiters.lock().notify_all(0);
    }

    /// An edge: tells all waiters to try again.
    pub(crate) fn report(&self, unsteady: bool) {
        if unsteady {
            self.unsteady.store(true, Ordering::Relaxed);
        }
        self.tick.fetch_add(1, Ordering::Release);
        self.waiters.lock().notify_all(0);
    }
}

#[cfg(test)]
#[path = "../../tests/units/readiness.rs"]
mod tests;
