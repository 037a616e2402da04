//! A source of a queue that it has a share in, where [`WaitQueue::source`] borrows one.
//!
//! Used where a source is to be passed on to others, or outlives what changes the state: a nack, a
//! foreign future.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use super::{Node, WaitQueue};
use crate::contract::fiber::WaitsFor;
use crate::contract::trigger::{Retreat, Trigger};
use crate::wait::holders::{steps_of, steps_of_the_same_slot};
use crate::wait::source::Source;
use std::convert::identity;
use std::sync::Arc;

/// Ready when `ready` says so, and yields what `take` takes; both are called under the lock of the
/// queue.
pub(in crate::wait) struct Shared<H, S, T> {
    pub(in crate::wait) host: Arc<H>,
    /// The one queue of the host that it waits in.
    pub(in crate::wait) queue: fn(&H) -> &WaitQueue<S, T>,
    pub(in crate::wait) waits_for: WaitsFor,
    pub(in crate::wait) ready: fn(&S) -> bool,
    pub(in crate::wait) take: fn(&mut S) -> T,
}

impl<H, S, T> Clone for Shared<H, S, T> {
    fn clone(&self) -> Self {
        Self { host: Arc::clone(&self.host), ..*self }
    }
}

impl<H, S, T> Shared<H, S, T> {
    pub(in crate::wait) fn queue(&self) -> &WaitQueue<S, T> {
        (self.queue)(&self.host)
    }

    fn source(&self) -> impl Source<Output = T, Slot = Node<T>> {
        self.queue().source(self.waits_for, self.ready, self.take)
    }
}

// SAFETY: every step is that of a source on the queue. That has no state but the queue's, so another
// one can be made for each step. What others reach lies in the slot and in the queue (R16). It is
// the same one each time, and stays as long as this has its share in the host.
unsafe impl<H, S, T> Source for Shared<H, S, T> {
    type Output = T;
    type Slot = Node<T>;

    steps_of_the_same_slot!(self => self.source(), identity);
}
