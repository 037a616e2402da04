//! The operations on a channel that may have to wait: to send, to receive, alone or a block at a
//! time, to reserve, and to see the end.
//!
//! Used by `sender.rs`, `receiver.rs` and `exclusive.rs`; `state.rs` has their effects on the
//! channel.

use super::blocks::Supply;
use super::state::{LISTS, Locked, RECEIVERS, RESERVERS, SENDERS, Shared, State, WATCHERS};
use crate::Closed;
use segue_core::{Brings, Operation, Unlocked, Waiting};

/// The operation of [`Sender::send`](super::Sender::send): sends its value.
pub struct SendValue<'a, T> {
    pub(super) shared: &'a Shared<T>,
    pub(super) value: Option<T>,
}

/// The source of [`Sender::send_source`](super::Sender::send_source).
pub type Sending<'a, T> = Waiting<'a, SendValue<'a, T>, State<T>, T, LISTS>;

impl<T> Brings for SendValue<'_, T> {
    type Value = T;

    fn into_value(self) -> Option<T> {
        self.value
    }
}

impl<T> Operation<State<T>, T, LISTS> for SendValue<'_, T> {
    type Output = Result<(), Closed>;

    #[inline(always)] // As that of `Receive`.
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<(), Closed>> {
        // One that has sent its value is done, in each further attempt.
        if self.value.is_none() {
            return Some(Ok(()));
        }
        if queue.peek().closed {
            return Some(Err(Closed));
        }
        self.shared.send(queue, &mut self.value).then_some(Ok(()))
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().closed || self.shared.has_room(queue.peek()) || queue.partners(RECEIVERS).next().is_some()
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (SENDERS, false)
    }

    #[inline]
    fn offer(&mut self) -> Option<T> {
        self.shared.sign_there();
        self.value.take()
    }

    fn retract(&mut self, offered: Option<T>, queue: &mut Locked<'_, T>) {
        self.shared.sender_leaves(queue);
        self.value = offered;
    }

    #[inline]
    fn commit(&mut self, slot: Option<T>) -> Option<Result<(), Closed>> {
        // A value that is still there was not taken: the channel has been closed.
        self.value = slot;
        self.value.is_none().then_some(Ok(()))
    }

    fn give_back(&mut self, slot: Option<T>, _: &mut Locked<'_, T>) -> Option<T> {
        // The value was sent, and nothing else was wanted; or the channel has been closed, and the
        // lender of the source has the value back.
        self.value = slot;
        None
    }
}

/// Takes the value that comes next.
pub(super) struct Receive<'a, T> {
    pub(super) shared: &'a Shared<T>,
}

impl<T> Operation<State<T>, T, LISTS> for Receive<'_, T> {
    type Output = Result<T, Closed>;

    #[inline]
    fn may_be_ready(&self) -> bool {
        !self.shared.is_bare()
    }

    #[inline(always)] // As a function of its own it is dearer, by a tenth of a message.
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<T, Closed>> {
        match self.shared.receive(queue) {
            Some(value) => Some(Ok(value)),
            None => queue.peek().closed.then_some(Err(Closed)),
        }
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().closed || self.shared.has_value(queue)
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (RECEIVERS, false)
    }

    #[inline]
    fn commit(&mut self, slot: Option<T>) -> Option<Result<T, Closed>> {
        slot.map(Ok)
    }

    fn give_back(&mut self, slot: Option<T>, queue: &mut Locked<'_, T>) -> Option<T> {
        // After the end, all were told.
        self.shared.put_back(queue, slot?);
        None
    }
}

/// As [`Receive`], but takes all values, and gives them out one by one.
pub(super) struct ReceiveBlock<'a, T> {
    pub(super) shared: &'a Shared<T>,
    /// Comes before the values in the buffer.
    pub(super) block: &'a mut Supply<T>,
    /// Whether the receiver will wait if there is nothing: a receive that is an arm of a choice may
    /// not, as another arm may be ready.
    pub(super) is_patient: bool,
}

impl<T> Operation<State<T>, T, LISTS> for ReceiveBlock<'_, T> {
    type Output = Result<T, Closed>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Result<T, Closed>> {
        if let Some(value) = self.block.pop() {
            return Unlocked::Done(Ok(value));
        }
        if !self.shared.is_bare() {
            return Unlocked::Look;
        }
        if !self.is_patient {
            return Unlocked::No;
        }
        // At a rendezvous there is never a crowd.
        if self.shared.capacity > 0 {
            self.shared.front.patience.wait(|| self.shared.is_bare());
        }
        Unlocked::Look
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        !self.block.is_empty() || !self.shared.is_bare()
    }

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<T, Closed>> {
        if self.shared.has_block(queue) {
            self.shared.take_block(queue, self.block);
            return self.block.pop().map(Ok);
        }
        Receive { shared: self.shared }.attempt(queue)
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        Receive { shared: self.shared }.is_ready(queue)
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (RECEIVERS, false)
    }

    #[inline]
    fn commit(&mut self, slot: Option<T>) -> Option<Result<T, Closed>> {
        slot.map(Ok)
    }

    fn give_back(&mut self, slot: Option<T>, queue: &mut Locked<'_, T>) -> Option<T> {
        Receive { shared: self.shared }.give_back(slot, queue)
    }
}

/// Counts a place in the buffer as reserved.
pub(super) struct Reserve<'a, T> {
    pub(super) shared: &'a Shared<T>,
}

impl<T> Operation<State<T>, T, LISTS> for Reserve<'_, T> {
    type Output = Result<(), Closed>;

    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<(), Closed>> {
        if queue.peek().closed {
            return Some(Err(Closed));
        }
        if !self.shared.has_room(queue.peek()) {
            return None;
        }
        self.shared.reserve(queue);
        Some(Ok(()))
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().closed || self.shared.has_room(queue.peek())
    }

    fn place(&self) -> (usize, bool) {
        (RESERVERS, false)
    }

    fn commit(&mut self, _: Option<T>) -> Option<Result<(), Closed>> {
        Some(if self.shared.is_closed() { Err(Closed) } else { Ok(()) })
    }

    fn give_back(&mut self, _: Option<T>, queue: &mut Locked<'_, T>) -> Option<T> {
        if !queue.peek().closed {
            self.shared.unreserve(queue);
            self.shared.refill(queue);
        }
        None
    }
}

/// Waits for the end.
pub(super) struct End<'a, T> {
    pub(super) shared: &'a Shared<T>,
}

impl<T> Operation<State<T>, T, LISTS> for End<'_, T> {
    type Output = ();

    fn attempt_unlocked(&mut self) -> Unlocked<()> {
        if self.shared.is_closed() { Unlocked::Done(()) } else { Unlocked::No }
    }

    fn may_be_ready(&self) -> bool {
        self.shared.is_closed()
    }

    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<()> {
        queue.peek().closed.then_some(())
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().closed
    }

    fn place(&self) -> (usize, bool) {
        (WATCHERS, false)
    }

    fn commit(&mut self, _: Option<T>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _: Option<T>, _: &mut Locked<'_, T>) -> Option<T> {
        None
    }
}
