//! A source of a queue that it has a share in, where [`WaitQueue::source`] borrows one.
//!
//! Used where a source is to be passed on to others, or outlives what changes the state: a nack, a
//! foreign future.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use super::{Node, WaitQueue};
use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::wait::holders::steps_of_the_same_slot;
use crate::wait::retreat::Retreat;
use crate::wait::source::Source;
use std::convert::identity;
use std::sync::Arc;

/// Ready when `ready` says so, and yields what `take` takes; both are called under the lock of the
/// queue.
pub(crate) struct Shared<H, S, T> {
    pub(crate) host: Arc<H>,
    /// The one queue of the host that it waits in.
    pub(crate) queue: fn(&H) -> &WaitQueue<S, T>,
    pub(crate) waits_for: WaitsFor,
    pub(crate) ready: fn(&S) -> bool,
    pub(crate) take: fn(&mut S) -> T,
}

impl<H, S, T> Clone for Shared<H, S, T> {
    fn clone(&self) -> Self {
        Self { host: Arc::clone(&self.host), ..*self }
    }
}

impl<H, S, T> Shared<H, S, T> {
    pub(crate) fn queue(&self) -> &WaitQueue<S, T> {
        (self.queue)(&self.host)
    }

    fn source(&self) -> impl Source<Output = T, Slot = Node<T>> {
        self.queue().source(self.waits_for, self.ready, self.take)
    }
}

// SAFETY: every step is that of a source on the queue. That has no state but the queue's, so one
// can be made for each step. What others reach lies in the slot and in the queue (R16). It is the
// same one each time, and stays as long as this has its share in the host.
unsafe impl<H, S, T> Source for Shared<H, S, T> {
    type Output = T;
    type Slot = Node<T>;

    steps_of_the_same_slot!(self => self.source(), identity);
}
