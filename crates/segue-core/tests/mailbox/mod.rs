//! A structure for tests: an unbounded mailbox, written as any structure is. Used by the tests of
//! futures and choices, and by their models.
#![allow(dead_code)] // Each test file uses a part of it.

use segue_core::{Cancelled, Guard, Operation, WaitQueue, Waitable, Waiting, WaitsFor};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

type Queue<T> = WaitQueue<Vec<T>, T>;

pub struct Mailbox<T>(Queue<T>);

/// Receives the first of the messages.
pub struct Receive;

impl<T> Operation<Vec<T>, T> for Receive {
    type Output = T;

    fn attempt(&mut self, queue: &mut Guard<'_, Vec<T>, T>) -> Option<T> {
        (!queue.state().is_empty()).then(|| queue.state().remove(0))
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, Vec<T>, T>) -> bool {
        !queue.state().is_empty()
    }

    fn commit(&mut self, slot: Option<T>) -> Option<T> {
        slot
    }

    fn give_back(&mut self, slot: Option<T>, queue: &mut Guard<'_, Vec<T>, T>) -> Option<T> {
        let Some(message) = slot else {
            queue.notify_one(0);
            return None;
        };
        if let Err(message) = queue.hand_over(0, message) {
            queue.state().insert(0, message);
        }
        None
    }
}

impl<T> Mailbox<T> {
    pub fn new() -> Self {
        Self(WaitQueue::new(Vec::new()))
    }

    pub fn receive_source(&self) -> Waitable<Waiting<'_, Receive, Vec<T>, T>> {
        Waitable::new(self.0.operation(WaitsFor::new("a message"), Receive))
    }

    pub fn receive(&self) -> Result<T, Cancelled> {
        self.receive_source().wait()
    }

    /// Answers whether somebody took it at once.
    pub fn send(&self, message: T) -> bool {
        let mut queue = self.0.lock();
        match queue.hand_over(0, message) {
            Ok(()) => true,
            Err(message) => {
                queue.state().push(message);
                false
            }
        }
    }

    /// As `send`, but waiters are only told.
    pub fn leave(&self, message: T) {
        let mut queue = self.0.lock();
        queue.state().push(message);
        queue.notify_one(0);
    }

    pub fn has_waiters(&self) -> bool {
        self.0.lock().has_waiters()
    }

    pub fn into_messages(self) -> Vec<T> {
        assert!(!self.has_waiters());
        self.0.into_inner()
    }
}

/// Counts how often it was called.
#[derive(Default)]
pub struct Calls(AtomicUsize);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Calls {
    pub fn new() -> (Arc<Self>, Waker) {
        let calls = Arc::new(Self::default());
        (Arc::clone(&calls), Waker::from(calls))
    }

    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}
