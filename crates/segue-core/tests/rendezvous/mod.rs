//! A structure for tests: a channel without a buffer, at which a sender and a receiver wait for
//! each other. Used by the tests and the models of choices.
#![allow(dead_code)] // Each test file uses a part of it.

use segue_core::{Guard, Operation, WaitQueue, Waitable, Waiting, WaitsFor};

const RECEIVERS: usize = 0;
const SENDERS: usize = 1;

type Queue<'a, T> = Guard<'a, Vec<T>, T, 2>;

/// Its state is what dropped receivers have given back.
pub struct Rendezvous<T>(WaitQueue<Vec<T>, T, 2>);

/// Sends what it has; that comes back if it was not sent.
pub struct Send<T>(pub Option<T>);

pub struct Receive;

pub type Sending<'a, T> = Waiting<'a, Send<T>, Vec<T>, T, 2>;
pub type Receiving<'a, T> = Waiting<'a, Receive, Vec<T>, T, 2>;

impl<T> Operation<Vec<T>, T, 2> for Send<T> {
    type Output = ();

    fn attempt(&mut self, queue: &mut Queue<'_, T>) -> Option<()> {
        queue.exchange(RECEIVERS, &mut self.0).then_some(())
    }

    fn is_ready(&mut self, queue: &mut Queue<'_, T>) -> bool {
        queue.partners(RECEIVERS).next().is_some()
    }

    fn place(&self) -> (usize, bool) {
        (SENDERS, false)
    }

    fn offer(&mut self) -> Option<T> {
        self.0.take()
    }

    fn retract(&mut self, offered: Option<T>, _: &mut Queue<'_, T>) {
        self.0 = offered;
    }

    fn commit(&mut self, _: Option<T>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _: Option<T>, _: &mut Queue<'_, T>) -> Option<T> {
        None
    }
}

impl<T> Operation<Vec<T>, T, 2> for Receive {
    type Output = T;

    fn attempt(&mut self, queue: &mut Queue<'_, T>) -> Option<T> {
        let mut held = queue.state().pop();
        if held.is_none() {
            queue.exchange(SENDERS, &mut held);
        }
        held
    }

    fn is_ready(&mut self, queue: &mut Queue<'_, T>) -> bool {
        !queue.peek().is_empty() || queue.partners(SENDERS).next().is_some()
    }

    fn place(&self) -> (usize, bool) {
        (RECEIVERS, false)
    }

    fn commit(&mut self, slot: Option<T>) -> Option<T> {
        slot
    }

    fn give_back(&mut self, slot: Option<T>, queue: &mut Queue<'_, T>) -> Option<T> {
        if let Err(value) = queue.hand_over(RECEIVERS, slot?) {
            queue.state().push(value);
        }
        None
    }
}

impl<T> Rendezvous<T> {
    pub fn new() -> Self {
        Self(WaitQueue::new(Vec::new()))
    }

    pub fn send_source(&self, value: T) -> Waitable<Sending<'_, T>> {
        Waitable::new(self.0.operation(WaitsFor::new("a receiver"), Send(Some(value))))
    }

    pub fn receive_source(&self) -> Waitable<Receiving<'_, T>> {
        Waitable::new(self.0.operation(WaitsFor::new("a sender"), Receive))
    }

    pub fn has_waiters(&self) -> bool {
        self.0.lock().has_waiters()
    }

    /// What was given back.
    pub fn left(self) -> Vec<T> {
        assert!(!self.has_waiters());
        self.0.into_inner()
    }
}
