//! The messages of a broadcast that somebody has yet to receive, where its receivers stand among
//! them, and the two operations that may have to wait.
//!
//! Used by `sender.rs` and `receiver.rs`, which have the calls.
//!
//! # States
//!
//! Messages have positions, counted from zero. The ring has those from `head` on; each receiver
//! keeps the position of its next one. An entry counts the receivers that have it next, and
//! `at_end` counts those that have received all.
//!
//! ```text
//!   head                          end
//!    | m, 2 | m, 0 | m, 1 |  at_end: 3        6 receivers, 3 messages
//!
//!   push:       a new entry at the end takes over at_end
//!   receive:    one reader goes from its entry to the next; an entry at the head without readers goes
//!   overwrite:  the entry at the head goes, and its readers are those of the next one: they have lagged
//!   leave:      one reader less; all entries at the head without readers go
//! ```
//!
//! All transitions happen under the wait queue's lock. **Invariant**: the entry at the head
//! has a reader, so each message has a receiver to come; the counts of readers add up to the
//! receivers. So to subscribe, to clone, to send and to receive take constant time, however many
//! receivers there are. A receiver that has lagged has a position before `head`, and is counted
//! there.
//!
//! Receivers that wait have all received all. They stand in one list, and are told of a message,
//! without a hand-over: each has its own position, and finds the message there at its look. So a
//! waiter that was told and has gone has taken nothing from anybody, and nothing is passed on.
//!
//! Senders of a lossless broadcast wait in the other list while the ring is full, each with its
//! message in its slot. A receiver or sender that makes room moves the first waiting sender's
//! message in, and tells the waiting receivers. **Invariant**: if a sender waits, the ring is
//! full, or the sender is about to be told that nobody receives any more.
//!
//! **Commit points**: of a receive, the look under the lock that moves the position; of a send, the
//! look that finds room, or the claim of the waiting sender. **Idle**: empty lists.
//! **Cancellation**: a receiver leaves its list, and its position stays; a sender has its message
//! back. A future that is dropped after its message was taken has sent the message.
//!
//! **The race to fear**: foreign code under the lock. A message's drop may send, and its clone may
//! wait. So messages are in `Arc`s, of which a receiver takes one under the lock, to clone the
//! message afterwards; or, as the last receiver, the message itself. A message that is overwritten,
//! or left by the last receiver, is handed out of the lock and dropped there.
//!
//! # Orderings
//!
//! The lock orders everything; a sender sees by the claim that its message was taken.
//!
//! The semantics are those of tokio's `broadcast`. There, each message counts the receivers that
//! have yet to see that message; here, each counts those that stand there, so that a receiver can
//! be cloned without a walk over the messages.

use super::NoMessage;
use crate::Closed;
use segue_core::{Brings, Guard, Operation, WaitQueue, Waiting};
use std::collections::VecDeque;
use std::sync::Arc;

/// The list of receivers.
pub(super) const RECEIVERS: usize = 0;
/// The list of senders.
pub(super) const SENDERS: usize = 1;

pub(super) type Queue<T> = WaitQueue<Ring<T>, Arc<T>, 2>;
pub(super) type Locked<'a, T> = Guard<'a, Ring<T>, Arc<T>, 2>;

/// The messages and the counts.
pub struct Ring<T> {
    messages: VecDeque<Entry<T>>,
    capacity: usize,
    /// The position of the first message.
    head: u64,
    /// The receivers that have received all messages.
    at_end: usize,
    pub(super) receivers: usize,
    pub(super) senders: usize,
    pub(super) is_closed: bool,
}

struct Entry<T> {
    message: Arc<T>,
    /// The receivers that get this message next.
    readers: usize,
}

impl<T> Ring<T> {
    /// Of one sender, with one receiver.
    #[track_caller]
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity != 0, "a broadcast needs room for one message at least: give it a capacity of 1 or more");
        let mut messages = VecDeque::new();
        if messages.try_reserve_exact(capacity).is_err() {
            panic!(
                "there is no memory for a broadcast of {capacity} messages, which is allocated at once: give it the \
                 number of messages by which a receiver may be late"
            );
        }
        Self { messages, capacity, head: 0, at_end: 1, receivers: 1, senders: 1, is_closed: false }
    }

    /// The number of messages that a receiver at `position` can still get.
    pub(super) fn len(&self, position: u64) -> usize {
        self.messages.len() - self.index(position)
    }

    /// The number of messages that some receiver has yet to get.
    pub(super) fn all(&self) -> usize {
        self.messages.len()
    }

    /// The index of the next message of a receiver at `position`, or the number of messages.
    fn index(&self, position: u64) -> usize {
        usize::try_from(position.saturating_sub(self.head)).expect("no receiver is ahead of the messages")
    }

    /// Where a receiver at `position` is counted.
    fn readers(&mut self, position: u64) -> &mut usize {
        let index = self.index(position);
        match self.messages.get_mut(index) {
            Some(entry) => &mut entry.readers,
            None => &mut self.at_end,
        }
    }

    /// Adds a receiver that gets the messages from now on, and answers its position.
    pub(super) fn subscribe(&mut self) -> u64 {
        let end = self.head + self.messages.len() as u64;
        self.join(end);
        end
    }

    /// Adds a receiver at a position at which there is one.
    pub(super) fn join(&mut self, position: u64) {
        self.receivers += 1;
        *self.readers(position) += 1;
    }

    /// Takes a receiver away, and the messages that no other receiver has yet to get.
    pub(super) fn leave(&mut self, position: u64) -> Vec<Arc<T>> {
        self.receivers -= 1;
        *self.readers(position) -= 1;
        let unread = self.messages.iter().take_while(|entry| entry.readers == 0).count();
        self.head += unread as u64;
        self.messages.drain(..unread).map(|entry| entry.message).collect()
    }

    /// Whether a message that is sent now will be received.
    pub(super) fn accepts(&self) -> bool {
        !self.is_closed && self.receivers != 0
    }

    fn is_full(&self) -> bool {
        self.messages.len() == self.capacity
    }

    /// Adds a message where there is room.
    fn push(&mut self, message: Arc<T>) {
        let readers = std::mem::take(&mut self.at_end);
        self.messages.push_back(Entry { message, readers });
    }

    /// Adds a message, and takes the oldest one away if there is no room.
    pub(super) fn overwrite(&mut self, message: Arc<T>) -> Option<Arc<T>> {
        let oldest = if self.is_full() { self.messages.pop_front() } else { None };
        self.push(message);
        oldest.map(|oldest| {
            self.head += 1;
            *self.readers(self.head) += oldest.readers;
            oldest.message
        })
    }

    /// The message at `position`, which goes on by one; or the answer that the receiver has lagged,
    /// and is at the first message from now on.
    fn receive(&mut self, position: &mut u64) -> Option<Result<Arc<T>, NoMessage>> {
        let missed = self.head.saturating_sub(*position);
        if missed != 0 {
            *position = self.head;
            return Some(Err(NoMessage::Lagged(missed)));
        }
        let index = self.index(*position);
        let Some(entry) = self.messages.get_mut(index) else {
            return self.is_closed.then_some(Err(NoMessage::Closed));
        };
        entry.readers -= 1;
        *position += 1;
        // Nobody stands before the head.
        let message = if index == 0 && entry.readers == 0 {
            self.head += 1;
            self.messages.pop_front().expect("it is there").message
        } else {
            Arc::clone(&entry.message)
        };
        *self.readers(*position) += 1;
        Some(Ok(message))
    }
}

/// Moves messages of waiting senders into the room that there is.
pub(super) fn fill<T>(queue: &mut Locked<'_, T>) {
    let mut any = false;
    while !queue.is_empty(SENDERS) && queue.peek().accepts() && !queue.peek().is_full() {
        let mut sent = None;
        if !queue.exchange(SENDERS, &mut sent) {
            break;
        }
        queue.state().push(sent.expect("a sender's slot has its message"));
        any = true;
    }
    if any {
        tell_receivers(queue);
    }
}

fn tell_receivers<T>(queue: &mut Locked<'_, T>) {
    while queue.notify_one(RECEIVERS) {}
}

/// Takes the next message of the receiver at `position`.
pub(super) struct Receive<'a> {
    pub(super) position: &'a mut u64,
}

impl<T> Operation<Ring<T>, Arc<T>, 2> for Receive<'_> {
    type Output = Result<Arc<T>, NoMessage>;

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Self::Output> {
        let received = queue.state().receive(self.position);
        fill(queue);
        received
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        let ring = queue.peek();
        ring.is_closed || *self.position < ring.head || ring.len(*self.position) != 0
    }

    fn place(&self) -> (usize, bool) {
        (RECEIVERS, false)
    }

    fn commit(&mut self, _: Option<Arc<T>>) -> Option<Self::Output> {
        None
    }

    fn give_back(&mut self, _: Option<Arc<T>>, _: &mut Locked<'_, T>) -> Option<Arc<T>> {
        // Only told, as everybody else.
        None
    }
}

/// The operation of a send that may wait: sends its value.
#[derive(Debug)]
pub struct Push<T>(Option<Arc<T>>);

/// The source of [`Sender::send_source`](super::Sender::send_source).
pub type Sending<'a, T> = Waiting<'a, Push<T>, Ring<T>, Arc<T>, 2>;

impl<T> Push<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Some(Arc::new(value)))
    }
}

impl<T> Brings for Push<T> {
    type Value = T;

    fn into_value(self) -> Option<T> {
        self.0.map(|message| Arc::into_inner(message).expect("nobody has got it"))
    }
}

impl<T> Operation<Ring<T>, Arc<T>, 2> for Push<T> {
    type Output = Result<(), Closed>;

    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Self::Output> {
        if !self.is_ready(queue) {
            return None;
        }
        if !queue.peek().accepts() && self.0.is_some() {
            return Some(Err(Closed));
        }
        if let Some(message) = self.0.take() {
            queue.state().push(message);
            tell_receivers(queue);
        }
        Some(Ok(()))
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        // One that has sent its value is done, in each further attempt.
        self.0.is_none() || !queue.peek().accepts() || !queue.peek().is_full()
    }

    fn place(&self) -> (usize, bool) {
        (SENDERS, false)
    }

    fn offer(&mut self) -> Option<Arc<T>> {
        self.0.take()
    }

    fn retract(&mut self, offered: Option<Arc<T>>, _: &mut Locked<'_, T>) {
        self.0 = offered;
    }

    fn commit(&mut self, slot: Option<Arc<T>>) -> Option<Self::Output> {
        // A server that has room takes the message; a mere notification leaves that.
        self.0 = slot;
        self.0.is_none().then_some(Ok(()))
    }

    fn give_back(&mut self, slot: Option<Arc<T>>, _: &mut Locked<'_, T>) -> Option<Arc<T>> {
        // The message was sent, and nothing else was wanted; or no receiver is left, and the lender
        // of the source has the message back.
        self.0 = slot;
        None
    }
}
