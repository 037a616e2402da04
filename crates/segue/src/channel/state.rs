//! The states of a channel, the operations that may have to wait, and the partners that serve them.
//!
//! Used by `operations.rs`, and by `sender.rs`, `receiver.rs` and `exclusive.rs`, which have the
//! calls.
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
//! waiters that can go on then. There are four lists: receivers; senders, each with its value in
//! its slot; waiters for room to reserve; and waiters for the end.
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
//! # Two ends
//!
//! A sender and a receiver on two processors that take one lock for each message fight for its
//! line. So the receivers of an unbounded channel have a *front*, with a lock of its own, which no
//! sender takes. A receiver that finds several values in the buffer takes the first, and brings the
//! others to the front, all at once; until these have gone, receivers take from there.
//!
//! ```text
//!   send --> buffer --advance, by a receiver that holds both locks--> front --> receive
//! ```
//!
//! The order of the locks is the queue's, then the front's. The front comes before the buffer, and
//! only the holder of the queue's lock puts something there: `advance`, when the front is empty,
//! and the giver of a value that comes back. So in 1 to 3 "the buffer" is both, and a holder of the
//! queue's lock that finds both empty may wait. One that takes from the front serves nobody, since
//! to an unbounded channel nobody waits to send. A bounded one has nothing at its front: there each
//! taker has to look for senders, and needs the queue's lock anyway.
//!
//! Buffer and front are queues in blocks, which give back their memory as they become shorter
//! (`blocks.rs`). Older blocks of a buffer are looked for where the front is, so that a buffer of
//! one block costs no more than a ring.
//!
//! A receiver that keeps emptying the channel soon fights for the queue's lock all the same:
//! `patience.rs`.
//!
//! **Commit point**: the attempt under the lock, or the claim of the waiter. **Idle**: no lists.
//! **Cancellation**: a waiter leaves its list; a sender has its value back. A future that is
//! dropped after a hand-over puts the value back *at the front*: the next receiver gets that value,
//! before all others. The buffer may hold more than its capacity for that time.
//!
//! **Closing**: CLOSED is set under the lock; then the waiters of each list are told, in batches,
//! and attempt again. A sender that is told has its value in its slot still, and one that was
//! served has not: so the sender knows. A reserver cannot see that, and need not: to a closed
//! channel a reservation is worth nothing, so a reserver looks for CLOSED.
//!
//! **The race to fear**: a value for a receiver that has just left. The exchange is undone if the
//! claim is refused, and goes to the next; if there is none, to the buffer. And the last receiver
//! goes while a value is under way to the buffer: both happen under the lock, so the send comes
//! before the drain, which takes the value out, or after CLOSED, and fails. And a value is missed
//! on its way to the front: `signs` say AHEAD before they cease to say THERE, and AHEAD ends under
//! the queue's lock, when the front is empty. So a look without the lock never finds neither.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the lock | the lock | values, counts of room |
//! | the lock of the front | that lock | the values there |
//! | the front's `len`, by the holder of its lock | a look without that lock | a hint; under the queue's lock 0 stays 0 |
//! | `signs`, by the holder of the queue's lock | a look without that lock | that a value may be there, or CLOSED |
//! | the last end of a side goes (its count) | the end that sees zero | the work through the others |
//!
//! `signs` is a hint: NONE there means that a receiver need not take the lock to find nothing. A
//! sender stores `signs` before letting go of the lock, so a receiver that learns of the value by
//! other means sees them. A sender that joins its list says THERE, as do values in the buffer; and
//! THERE ends when the last value leaves the buffer and no sender waits. A sender that has left its
//! list, or was served, leaves the sign until the second look in vain: so two that meet time and
//! again, each on its own processor, do not change the sign each time.
//!
//! After Go's channels (waiters that are handed the value) and the three channels of Gears
//! (section 2.2); room that is reserved is tokio's.

use super::blocks::{Blocks, Supply};
use super::front::Front;
use segue_core::{Guard, WaitQueue};
use std::mem;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The list of receivers.
pub(super) const RECEIVERS: usize = 0;
/// The list of senders.
pub(super) const SENDERS: usize = 1;
/// The list of waiters for room to reserve.
pub(super) const RESERVERS: usize = 2;
/// The list of waiters for the end of the channel.
pub(super) const WATCHERS: usize = 3;
pub(super) const LISTS: usize = 4;

/// There may be a value in the buffer, or a sender that waits with one.
const THERE: u8 = 1;
/// No more is sent.
const CLOSED: u8 = 2;
/// Values may be at the front.
const AHEAD: u8 = 4;

/// The hook for values that nobody has received.
pub(super) type Undelivered<T> = Box<dyn Fn(T) + Send + Sync>;

/// The part that both sides share.
pub(super) struct Shared<T> {
    pub(super) queue: Line<WaitQueue<State<T>, T, LISTS>>,
    /// Of an unbounded channel.
    pub(super) front: Line<Front<T>>,
    /// THERE, CLOSED and AHEAD, stored under the lock.
    signs: AtomicU8,
    pub(super) capacity: usize,
    pub(super) senders: AtomicUsize,
    pub(super) receivers: AtomicUsize,
    undelivered: Option<Undelivered<T>>,
}

/// Something that shares no cache line with others.
#[repr(align(64))]
pub(super) struct Line<T>(T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// The state under the lock.
pub struct State<T> {
    pub(super) buffer: Blocks<T>,
    /// Values may be at the front, or in older blocks of the buffer. So a receiver that finds
    /// `false` takes from the newest block.
    ahead: bool,
    /// So short that lock, waiters and state have two cache lines.
    reserved: u32,
    pub(super) closed: bool,
    /// Whether the next room is a reserver's, if senders and reservers wait.
    reserver_next: bool,
    /// Since the last sender that waited there was a look in vain.
    in_vain: bool,
}

/// Lock, waiters and state.
#[cfg(all(target_pointer_width = "64", not(loom)))]
const _: () = assert!(size_of::<WaitQueue<State<u64>, u64, LISTS>>() <= 128, "more than two cache lines");

pub(super) type Locked<'a, T> = Guard<'a, State<T>, T, LISTS>;

impl<T> Shared<T> {
    /// With one sender and one receiver.
    pub(super) fn new(capacity: usize, undelivered: Option<Undelivered<T>>) -> Self {
        let state = State {
            buffer: Blocks::new(),
            ahead: false,
            reserved: 0,
            closed: false,
            reserver_next: false,
            in_vain: false,
        };
        Self {
            queue: Line(WaitQueue::new(state)),
            front: Line(Front::new()),
            signs: AtomicU8::new(0),
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
    pub(super) fn is_bare(&self) -> bool {
        self.signs.load(Ordering::Acquire) == 0
    }

    /// Says that there is a value, or a sender with one. Under the lock.
    #[inline]
    pub(super) fn sign_there(&self) {
        self.set_sign(THERE, true);
    }

    /// Says that the buffer is empty, and that no sender waits either. Under the lock.
    #[inline]
    fn sign_empty(&self, queue: &Locked<'_, T>) {
        if queue.is_empty(SENDERS) {
            self.set_sign(THERE, false);
        }
    }

    #[inline]
    fn set_sign(&self, sign: u8, shown: bool) {
        let signs = self.signs.load(Ordering::Relaxed);
        if (signs & sign != 0) != shown {
            self.signs.store(signs ^ sign, Ordering::Release);
        }
    }

    /// Counts room for one more value as reserved.
    pub(super) fn reserve(&self, queue: &mut Locked<'_, T>) {
        let reserved = &mut queue.state().reserved;
        *reserved = reserved.checked_add(1).expect("more than four thousand million places are reserved");
    }

    /// Takes back one [`reserve`](Self::reserve).
    pub(super) fn unreserve(&self, queue: &mut Locked<'_, T>) {
        queue.state().reserved -= 1;
    }

    #[inline]
    pub(super) fn has_room(&self, state: &State<T>) -> bool {
        // Neither length nor reservations are near half of all numbers.
        state.buffer.len() + (state.reserved as usize) < self.capacity
    }

    /// Puts a value to the end of the buffer.
    #[inline]
    fn push(&self, queue: &mut Locked<'_, T>, value: T) {
        if let Err(value) = queue.state().buffer.push_back(value) {
            Self::push_with_room(queue, value);
        }
        self.sign_there();
    }

    #[cold]
    #[inline(never)] // As `exchange`.
    fn push_with_room(queue: &mut Locked<'_, T>, value: T) {
        queue.state().buffer.push_with_room(value);
        Self::look_for_older(queue);
    }

    /// After a change of the buffer that may have made older blocks.
    fn look_for_older(queue: &mut Locked<'_, T>) {
        queue.state().ahead |= queue.peek().buffer.has_older();
    }

    /// Sends the value that is there, to the first receiver or into the room that there is.
    #[inline]
    pub(super) fn send(&self, queue: &mut Locked<'_, T>, value: &mut Option<T>) -> bool {
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

    /// Gives free room to waiters that reserve.
    #[inline]
    pub(super) fn refill(&self, queue: &mut Locked<'_, T>) {
        if !queue.is_empty(SENDERS) || !queue.is_empty(RESERVERS) {
            self.serve_room(queue);
        }
    }

    #[inline(never)] // As `exchange`.
    fn serve_room(&self, queue: &mut Locked<'_, T>) {
        while self.has_room(queue.peek()) {
            let reserver_next = mem::replace(&mut queue.state().reserver_next, false);
            if reserver_next && queue.notify_one(RESERVERS) {
                self.reserve(queue);
                continue;
            }
            let mut held = None;
            if exchange(queue, SENDERS, &mut held) {
                queue.state().reserver_next = true;
                let Some(value) = held else { unreachable!("a sender waits with its value") };
                self.push(queue, value);
            } else if queue.notify_one(RESERVERS) {
                self.reserve(queue);
            } else {
                return;
            }
        }
    }

    /// Takes the value that comes next.
    #[inline(always)] // As its caller.
    pub(super) fn receive(&self, queue: &mut Locked<'_, T>) -> Option<T> {
        if queue.peek().ahead
            && let Some(value) = self.receive_ahead_under_lock(queue)
        {
            return Some(value);
        }
        let Some(value) = queue.state().buffer.pop_newest() else {
            return self.receive_from_sender(queue);
        };
        if queue.peek().buffer.is_empty() {
            self.sign_empty(queue);
        } else if self.is_unbounded() {
            self.advance(queue);
        }
        self.refill(queue);
        Some(value)
    }

    /// Takes the value of the first sender that waits: the buffer is empty.
    #[inline]
    fn receive_from_sender(&self, queue: &mut Locked<'_, T>) -> Option<T> {
        let mut held = None;
        if !queue.is_empty(SENDERS) {
            self.sender_leaves(queue);
            exchange(queue, SENDERS, &mut held);
        } else if mem::replace(&mut queue.state().in_vain, true) {
            self.set_sign(THERE, false);
        }
        held
    }

    /// A sender that waited is served, or leaves its list.
    #[inline]
    pub(super) fn sender_leaves(&self, queue: &mut Locked<'_, T>) {
        queue.state().in_vain = false;
    }

    /// Brings the buffer to the front, which is empty.
    #[inline(never)] // As `exchange`.
    fn advance(&self, queue: &mut Locked<'_, T>) {
        self.front.patience.took(queue.peek().buffer.len());
        self.front.load(&mut queue.state().buffer);
        self.set_ahead(queue, true);
        self.sign_empty(queue);
    }

    fn set_ahead(&self, queue: &mut Locked<'_, T>, shown: bool) {
        queue.state().ahead = shown;
        self.set_sign(AHEAD, shown);
    }

    /// Takes the first value at the front, or else in an older block, if there is one still.
    #[inline(never)] // As `exchange`.
    fn receive_ahead_under_lock(&self, queue: &mut Locked<'_, T>) -> Option<T> {
        if self.is_unbounded() {
            let at_front = self.front.pop();
            if at_front.is_some() {
                return at_front;
            }
        }
        if !queue.peek().buffer.has_older() {
            self.set_ahead(queue, false);
            return None;
        }
        // The newest block has values, so the buffer is not empty after this.
        let value = queue.state().buffer.pop_front();
        if self.is_unbounded() {
            self.advance(queue);
        } else {
            self.refill(queue);
        }
        value
    }

    /// Whether [`receive_ahead`](Self::receive_ahead) may find a value.
    #[inline]
    pub(super) fn is_ahead(&self) -> bool {
        self.signs.load(Ordering::Acquire) & AHEAD != 0
    }

    /// Takes the next value if that is at the front, without the queue's lock. If there is none,
    /// nor in the buffer, a receiver is about to wait.
    #[inline(never)] // As `exchange`.
    pub(super) fn receive_ahead(&self) -> Option<T> {
        let value = self.front.pop();
        if value.is_none() {
            let is_empty = || self.signs.load(Ordering::Acquire) & !AHEAD == 0;
            if is_empty() {
                self.front.patience.wait(is_empty);
            }
        }
        value
    }

    /// Whether there is a value for a waiter that may be one of the senders itself.
    pub(super) fn has_value(&self, queue: &Locked<'_, T>) -> bool {
        self.front.len() > 0 || !queue.peek().buffer.is_empty() || queue.partners(SENDERS).next().is_some()
    }

    /// Puts a received value back: before all that are there.
    pub(super) fn put_back(&self, queue: &mut Locked<'_, T>, value: T) {
        if let Err(value) = queue.hand_over(RECEIVERS, value) {
            if self.is_unbounded() {
                self.front.push_front(value);
                self.set_ahead(queue, true);
            } else {
                queue.state().buffer.push_front(value);
                Self::look_for_older(queue);
                self.sign_there();
            }
        }
    }

    /// Whether there are several values for [`take_block`](Self::take_block).
    #[inline]
    pub(super) fn has_block(&self, queue: &Locked<'_, T>) -> bool {
        let state = queue.peek();
        state.buffer.len() + if state.ahead { self.front.len() } else { 0 } > 1
    }

    /// Exchanges all that is there for an empty `block`.
    pub(super) fn take_block(&self, queue: &mut Locked<'_, T>, block: &mut Supply<T>) {
        self.front.patience.took(queue.peek().buffer.len());
        if queue.peek().ahead {
            let mut all = self.front.take_all();
            self.set_ahead(queue, false);
            all.append(&mut queue.state().buffer);
            block.load(&mut all);
        } else {
            block.load(&mut queue.state().buffer);
        }
        self.sign_empty(queue);
        self.refill(queue);
    }

    /// Puts values back to the front that were taken by [`take_block`](Self::take_block).
    pub(super) fn put_block_back(&self, block: &mut Supply<T>) {
        if block.is_empty() {
            return;
        }
        let mut block = block.take_all();
        let mut queue = self.queue.lock();
        block.append(&mut queue.state().buffer);
        queue.state().buffer = block;
        Self::look_for_older(&mut queue);
        self.sign_there();
    }

    /// Gives up a reservation: sends `value` in its place, or leaves the room to others.
    ///
    /// # Errors
    /// Gives the value back if the channel is closed.
    pub(super) fn use_reserved(&self, value: Option<T>) -> Result<(), Option<T>> {
        let mut queue = self.queue.lock();
        self.unreserve(&mut queue);
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

    /// Closes the channel: nobody sends any more. Answers whether the channel was open.
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

    /// Takes out the values that nobody will receive: the last receiver has gone, after closing the
    /// channel.
    pub(super) fn drain(&self) {
        let mut queue = self.queue.lock();
        let mut left = self.front.take_all();
        left.append(&mut queue.state().buffer);
        self.sign_empty(&queue);
        drop(queue);
        left.for_each(|value| self.hand_to_hook(value));
    }

    fn hand_to_hook(&self, value: T) {
        match &self.undelivered {
            Some(hook) => hook(value),
            None => drop(value),
        }
    }

    pub(super) fn len(&self) -> usize {
        let queue = self.queue.lock();
        self.front.len() + queue.peek().buffer.len()
    }

    pub(super) fn is_full(&self) -> bool {
        !self.has_room(self.queue.lock().peek())
    }
}

/// [`Guard::exchange`], as a function of its own: so the path that neither waits nor serves a
/// waiter is short enough to be inlined, and keeps no registers for this.
#[inline(never)]
fn exchange<T>(queue: &mut Locked<'_, T>, list: usize, held: &mut Option<T>) -> bool {
    queue.exchange(list, held)
}
