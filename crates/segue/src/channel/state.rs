//! What happens in a channel: its states, the operations that may have to wait, and who serves
//! whom.
//!
//! Used by `sender.rs`, `receiver.rs` and `exclusive.rs`, which have the calls.
//!
//! # States
//!
//! A channel has a buffer with room for `capacity` values: none at a rendezvous, `usize::MAX` where
//! it is unbounded. Room that somebody has reserved counts as taken.
//!
//! ```text
//!   send:     a receiver waits ------> into its slot
//!             there is room ---------> to the end of the buffer
//!             else ------------------> waits, the value in its own slot
//!   receive:  the buffer has one ----> its first; the room goes to whoever waits for some
//!             a sender waits --------> out of that one's slot
//!             else ------------------> waits
//!   reserve:  there is room ---------> it counts as reserved
//!             else ------------------> waits
//!   OPEN --close, or one side has gone--> CLOSED: nobody sends, what is buffered is received
//! ```
//!
//! All transitions happen under the wait queue's lock, and the caller that makes one serves the
//! waiters that can go on because of it. There are four lists: receivers; senders, each with its
//! value in its slot; those who wait for room to reserve; and those who wait for the end.
//!
//! **What holds between two transitions**, where waiters that would refuse are left out:
//!
//! 1. Receivers wait only while the buffer is empty, and while no sender waits.
//! 2. Senders and reservers wait only while there is no room.
//! 3. A CLOSED channel has no waiters.
//!
//! A receiver takes from a waiting sender also where all room is reserved: two partners never both
//! wait. Senders and reservers take turns at room that becomes free, so that neither starve.
//!
//! **Commit point**: the attempt under the lock, or the claim of the waiter. **Idle**: no lists.
//! **Cancellation**: a waiter leaves its list; a sender has its value back. A receiver that was
//! handed a value and then dropped (a future) puts it back *at the front*: the next receiver gets
//! it, before all others. The buffer may hold more than its capacity for that time.
//!
//! **Closing**: CLOSED is set under the lock; then the waiters of each list are told, in batches,
//! and attempt again. A sender that is told has its value in its slot still, and one that was
//! served has not: so it knows. A reserver cannot see that, and need not: to a closed channel a
//! reservation is worth nothing, so it looks for CLOSED.
//!
//! **The race to fear**: a value for a receiver that has just left. The exchange is undone if the
//! claim is refused, and goes to the next; if there is none, to the buffer. And the last receiver
//! goes while a value is under way to the buffer: both happen under the lock, so it comes before
//! the drain, which takes it out, or after CLOSED, and fails.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the lock | the lock | values, counts of room |
//! | `signs`, by whoever holds the lock | a look without it | that a value was there, or CLOSED |
//! | the last end of a side goes (its count) | the end that sees zero | what was done through the others |
//!
//! `signs` is a hint: NONE there means that a receiver need not take the lock to find nothing. A
//! sender stores it before it lets go of the lock, so whoever has been told of the value by other
//! means sees it.
//!
//! After Go's channels (waiters that are handed the value) and the three channels of Gears
//! (section 2.2); room that is reserved is tokio's.

use crate::Closed;
use segue_core::{Brings, Guard, Operation, Unlocked, WaitQueue, Waiting};
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The list of receivers.
pub(super) const RECEIVERS: usize = 0;
/// The list of senders.
pub(super) const SENDERS: usize = 1;
/// The list of those who wait for room to reserve.
pub(super) const RESERVERS: usize = 2;
/// The list of those who wait for the channel to be closed.
pub(super) const WATCHERS: usize = 3;
pub(super) const LISTS: usize = 4;

/// There may be a value.
const THERE: u8 = 1;
/// No more is sent.
const CLOSED: u8 = 2;

/// What is done with values that nobody has received.
pub(super) type Undelivered<T> = Box<dyn Fn(T) + Send + Sync>;

/// What both sides share.
pub(super) struct Shared<T> {
    pub(super) queue: WaitQueue<State<T>, T, LISTS>,
    /// THERE and CLOSED, stored under the lock.
    signs: AtomicU8,
    pub(super) capacity: usize,
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
    undelivered: Option<Undelivered<T>>,
}

/// What the lock guards.
pub struct State<T> {
    buffer: VecDeque<T>,
    reserved: usize,
    closed: bool,
    /// Whether the next room is a reserver's, if senders and reservers wait.
    reserver_next: bool,
}

pub(super) type Locked<'a, T> = Guard<'a, State<T>, T, LISTS>;

impl<T> Shared<T> {
    /// With one sender and one receiver.
    pub(super) fn new(capacity: usize, undelivered: Option<Undelivered<T>>) -> Self {
        let state = State { buffer: VecDeque::new(), reserved: 0, closed: false, reserver_next: false };
        Self {
            queue: WaitQueue::new(state),
            // At a rendezvous the values are with the senders: a look has to take the lock.
            signs: AtomicU8::new(if capacity == 0 { THERE } else { 0 }),
            capacity,
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(1),
            undelivered,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.signs.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Whether to send never waits.
    #[inline]
    pub(super) fn is_unbounded(&self) -> bool {
        self.capacity == usize::MAX
    }

    /// Whether there is certainly nothing to receive, and no end of it.
    #[inline]
    fn is_bare(&self) -> bool {
        self.signs.load(Ordering::Acquire) == 0
    }

    /// Says whether a value is there, after a change of that, under the lock.
    #[inline]
    fn sign(&self, there: bool) {
        let signs = self.signs.load(Ordering::Relaxed);
        if self.capacity != 0 && (signs & THERE != 0) != there {
            self.signs.store(signs ^ THERE, Ordering::Release);
        }
    }

    #[inline]
    fn has_room(&self, state: &State<T>) -> bool {
        state.buffer.len().saturating_add(state.reserved) < self.capacity
    }

    /// Puts a value to the end of the buffer.
    #[inline]
    fn push(&self, queue: &mut Locked<'_, T>, value: T) {
        queue.state().buffer.push_back(value);
        self.sign(true);
    }

    /// Sends the value that is there, to the first receiver or into the room that there is.
    #[inline]
    fn send(&self, queue: &mut Locked<'_, T>, value: &mut Option<T>) -> bool {
        if !queue.is_empty(RECEIVERS) && exchange(queue, RECEIVERS, value) {
            return true;
        }
        if !self.has_room(queue.peek()) {
            return false;
        }
        let Some(value) = value.take() else { unreachable!("a sender has a value") };
        self.push(queue, value);
        true
    }

    /// Gives room that has become free to those who wait for some.
    #[inline]
    fn refill(&self, queue: &mut Locked<'_, T>) {
        if !queue.is_empty(SENDERS) || !queue.is_empty(RESERVERS) {
            self.serve_room(queue);
        }
    }

    #[inline(never)] // As `exchange`.
    fn serve_room(&self, queue: &mut Locked<'_, T>) {
        while self.has_room(queue.peek()) {
            let reserver_next = mem::replace(&mut queue.state().reserver_next, false);
            if reserver_next && queue.notify_one(RESERVERS) {
                queue.state().reserved += 1;
                continue;
            }
            let mut held = None;
            if exchange(queue, SENDERS, &mut held) {
                queue.state().reserver_next = true;
                let Some(value) = held else { unreachable!("a sender waits with its value") };
                self.push(queue, value);
            } else if queue.notify_one(RESERVERS) {
                queue.state().reserved += 1;
            } else {
                return;
            }
        }
    }

    /// Takes the value that comes next.
    #[inline]
    fn receive(&self, queue: &mut Locked<'_, T>) -> Option<T> {
        let Some(value) = queue.state().buffer.pop_front() else {
            let mut held = None;
            if !queue.is_empty(SENDERS) {
                exchange(queue, SENDERS, &mut held);
            }
            return held;
        };
        if queue.peek().buffer.is_empty() {
            self.sign(false);
        }
        self.refill(queue);
        Some(value)
    }

    /// Whether there is a value for a waiter that may be one of the senders itself.
    fn has_value(queue: &Locked<'_, T>) -> bool {
        !queue.peek().buffer.is_empty() || queue.partners(SENDERS).next().is_some()
    }

    /// Puts a value back that was received: it goes before all that are there.
    fn put_back(&self, queue: &mut Locked<'_, T>, value: T) {
        if let Err(value) = queue.hand_over(RECEIVERS, value) {
            queue.state().buffer.push_front(value);
            self.sign(true);
        }
    }

    /// Exchanges the buffer for an empty one, `block`.
    pub(super) fn take_block(&self, queue: &mut Locked<'_, T>, block: &mut VecDeque<T>) {
        mem::swap(&mut queue.state().buffer, block);
        self.sign(false);
        self.refill(queue);
    }

    /// Puts values back to the front that were taken by [`take_block`](Self::take_block).
    pub(super) fn put_block_back(&self, mut block: VecDeque<T>) {
        if block.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        block.append(&mut queue.state().buffer);
        queue.state().buffer = block;
        self.sign(true);
    }

    /// Gives up a reservation: sends `value` in its place, or leaves the room to others.
    ///
    /// # Errors
    /// Gives the value back if the channel is closed.
    pub(super) fn use_reserved(&self, value: Option<T>) -> Result<(), Option<T>> {
        let mut queue = self.queue.lock();
        queue.state().reserved -= 1;
        if queue.peek().closed {
            return Err(value);
        }
        if let Some(value) = value
            && let Err(value) = queue.hand_over(RECEIVERS, value)
        {
            self.push(&mut queue, value);
        }
        self.refill(&mut queue);
        Ok(())
    }

    /// Ends it: nobody sends any more. Answers whether it was open.
    pub(super) fn close(&self) -> bool {
        let mut queue = self.queue.lock();
        if mem::replace(&mut queue.state().closed, true) {
            return false;
        }
        self.signs.fetch_or(CLOSED, Ordering::Release);
        queue.notify_all(RECEIVERS);
        for list in [SENDERS, RESERVERS, WATCHERS] {
            self.queue.lock().notify_all(list);
        }
        true
    }

    /// Takes out what nobody will receive: the last receiver has gone, after it has closed the
    /// channel.
    pub(super) fn drain(&self) {
        let mut queue = self.queue.lock();
        let left = mem::take(&mut queue.state().buffer);
        self.sign(false);
        drop(queue);
        left.into_iter().for_each(|value| self.hand_to_hook(value));
    }

    pub(super) fn hand_to_hook(&self, value: T) {
        match &self.undelivered {
            Some(hook) => hook(value),
            None => drop(value),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.lock().peek().buffer.len()
    }

    pub(super) fn is_full(&self) -> bool {
        !self.has_room(self.queue.lock().peek())
    }
}

/// [`Guard::exchange`], as a function of its own: so what neither waits nor serves a waiter is
/// short enough to be inlined, and keeps no registers for this.
#[inline(never)]
fn exchange<T>(queue: &mut Locked<'_, T>, list: usize, held: &mut Option<T>) -> bool {
    queue.exchange(list, held)
}

/// The operation of [`Sender::send`](super::Sender::send): sends the value that it has.
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

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<(), Closed>> {
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
        self.value.take()
    }

    fn retract(&mut self, offered: Option<T>, _: &mut Locked<'_, T>) {
        self.value = offered;
    }

    #[inline]
    fn commit(&mut self, slot: Option<T>) -> Option<Result<(), Closed>> {
        // What is still there was not taken: the channel has been closed.
        self.value = slot;
        self.value.is_none().then_some(Ok(()))
    }

    fn give_back(&mut self, slot: Option<T>, _: &mut Locked<'_, T>) -> Option<T> {
        // It was sent, which is all that was wanted; or the channel has been closed.
        slot
    }
}

/// Takes the value that comes next.
pub(super) struct Receive<'a, T> {
    pub(super) shared: &'a Shared<T>,
}

impl<T> Operation<State<T>, T, LISTS> for Receive<'_, T> {
    type Output = Result<T, Closed>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Result<T, Closed>> {
        if self.shared.is_bare() { Unlocked::No } else { Unlocked::Look }
    }

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<T, Closed>> {
        match self.shared.receive(queue) {
            Some(value) => Some(Ok(value)),
            None => queue.peek().closed.then_some(Err(Closed)),
        }
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().closed || Shared::has_value(queue)
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
        // All were told of the end, if it was that.
        self.shared.put_back(queue, slot?);
        None
    }
}

/// As [`Receive`], but takes all that is there, and gives it out one by one.
pub(super) struct ReceiveBlock<'a, T> {
    pub(super) shared: &'a Shared<T>,
    /// Comes before what is in the buffer.
    pub(super) block: &'a mut VecDeque<T>,
}

impl<T> Operation<State<T>, T, LISTS> for ReceiveBlock<'_, T> {
    type Output = Result<T, Closed>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Result<T, Closed>> {
        match self.block.pop_front() {
            Some(value) => Unlocked::Done(Ok(value)),
            None if self.shared.is_bare() => Unlocked::No,
            None => Unlocked::Look,
        }
    }

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Result<T, Closed>> {
        if queue.peek().buffer.len() > 1 {
            self.shared.take_block(queue, self.block);
            return self.block.pop_front().map(Ok);
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
        queue.state().reserved += 1;
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
            queue.state().reserved -= 1;
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
