//! The sending side of a channel: the sender, the weak sender, and room that is reserved.
//!
//! Used by applications; `state.rs` has the transitions.

use super::errors::TrySendError;
use super::operations::{End, Reserve, SendValue, Sending};
use super::state::Shared;
use crate::{Closed, Rejected, WaitError};
use segue_core::{Brings, Source, Waitable, WaitsFor, admit, preemption_point, wait};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The sending side of a channel. Clone this side for several senders.
///
/// When the last one has gone the channel is closed: receivers get the buffered values, and then
/// [`Closed`].
#[must_use = "without a sender the channel is closed"]
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self(shared)
    }

    /// Sends a value: to the first receiver that waits, or into the buffer, after waiting while
    /// there is neither. A send to an unbounded channel never waits.
    ///
    /// A successful send does not mean a receipt: if the last receiver goes first, the buffered
    /// values are [undelivered](super::Options::on_undelivered). At a rendezvous it means that,
    /// unless the receiver is a future that is dropped before its look: then the value is the next
    /// one's.
    ///
    /// # Order
    /// First in, first out, among senders. A sender that comes when there is room overtakes nobody.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was sent, and the value comes back in the error.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, with [`WaitError::Closed`] if the channel was closed, or
    /// with [`WaitError::Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::bounded(1);
    /// sender.send("kept").unwrap();
    /// drop(receiver);
    /// assert_eq!(sender.send("back").unwrap_err().value, "back");
    /// ```
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn send(&self, value: T) -> Result<(), Rejected<T, WaitError>> {
        let mut sending = self.send_source(value).into_source();
        let sent = if self.0.is_unbounded() {
            // There is room, so nothing is made for a wait.
            admit().map(|()| sending.attempt().expect("an unbounded channel has room"))
        } else {
            wait(&mut sending)
        };
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Closed)) => Err(rejected(sending, WaitError::Closed)),
            Err(cancelled) => Err(rejected(sending, WaitError::Cancelled(cancelled))),
        }
    }

    /// Sends a value, if a receiver waits or there is room. Never waits.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, with [`TrySendError`].
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::{self, TrySendError};
    ///
    /// let (sender, _receiver) = channel::bounded(1);
    /// assert!(sender.try_send(1).is_ok());
    /// assert_eq!(sender.try_send(2).unwrap_err().error, TrySendError::Full);
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), Rejected<T, TrySendError>> {
        preemption_point();
        let mut sending = self.send_source(value);
        let error = match sending.attempt() {
            Some(Ok(())) => return Ok(()),
            Some(Err(Closed)) => TrySendError::Closed,
            None => TrySendError::Full,
        };
        Err(rejected(sending.into_source(), error))
    }

    /// [`send`](Sender::send) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: the value is dropped with the source. A choice [by
    /// reference](Waitable::by_ref) leaves the source with its [value](Waitable::into_value). A
    /// future that is dropped after its service has sent.
    ///
    /// # Errors
    /// The source yields [`Closed`] if the channel was closed, and has the value then.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::{after, channel, select};
    /// use std::time::Duration;
    ///
    /// let (sender, _receiver) = channel::rendezvous();
    /// let mut sending = sender.send_source("unheard");
    /// select! {
    ///     sent = sending.by_ref() => panic!("{sent:?}"),
    ///     () = after(Duration::from_millis(1)) => (),
    /// }?;
    /// assert_eq!(sending.into_value(), Some("unheard"));
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn send_source(&self, value: T) -> Waitable<Sending<'_, T>> {
        let send = SendValue { shared: &self.0, value: Some(value) };
        Waitable::new(self.0.queue.operation(WaitsFor::new("room in a channel"), send))
    }

    /// Reserves room for one value, after waiting while there is none: to send without waiting
    /// later, or to make the value only once there is room.
    ///
    /// # Order
    /// First in, first out, among those that reserve; they take turns with senders that wait.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`WaitError`] says whether the channel was closed or the caller cancelled.
    ///
    /// # Panics
    /// At a rendezvous, which has no room; and if four thousand million places of a channel without
    /// a bound are reserved.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::bounded(1);
    /// let room = sender.reserve()?;
    /// assert!(sender.try_send("no room").is_err());
    /// room.send("first").unwrap();
    /// assert_eq!(receiver.recv(), Ok("first"));
    /// # Ok::<(), segue::WaitError>(())
    /// ```
    #[track_caller]
    pub fn reserve(&self) -> Result<Reserved<'_, T>, WaitError> {
        Ok(self.reserve_source().wait()??)
    }

    /// Reserves room for one value, if there is some; `None` if there is none. Never waits.
    ///
    /// # Errors
    /// [`Closed`] if the channel was closed.
    ///
    /// # Panics
    /// At a rendezvous, which has no room; and if four thousand million places of a channel without
    /// a bound are reserved.
    pub fn try_reserve(&self) -> Result<Option<Reserved<'_, T>>, Closed> {
        preemption_point();
        self.reserve_source().attempt().transpose()
    }

    /// [`reserve`](Sender::reserve) as a source.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A future that is dropped after its service leaves the room
    /// to the next.
    ///
    /// # Errors
    /// The source yields [`Closed`] if the channel was closed.
    ///
    /// # Panics
    /// At a rendezvous, which has no room; and if four thousand million places of a channel without
    /// a bound are reserved.
    #[track_caller]
    pub fn reserve_source(&self) -> Waitable<impl Source<Output = Result<Reserved<'_, T>, Closed>>> {
        assert!(self.0.capacity > 0, "a rendezvous has no room to reserve: `send_source` waits for a receiver");
        let shared = &*self.0;
        let reserve = shared.queue.operation(WaitsFor::new("room to reserve in a channel"), Reserve { shared });
        Waitable::new(reserve).map(|reserved| reserved.map(|()| Reserved { shared }))
    }

    /// Ready when the channel is closed: for senders with nothing to send that want to know.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::bounded::<u32>(1);
    /// std::thread::spawn(move || drop(receiver));
    /// sender.closed_source().wait()?;
    /// assert!(sender.is_closed());
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn closed_source(&self) -> Waitable<impl Source<Output = ()>> {
        let end = End { shared: &self.0 };
        Waitable::new(self.0.queue.operation(WaitsFor::new("the end of a channel"), end))
    }

    /// Closes the channel, for all: nobody sends any more, senders that wait have their values
    /// back, and receivers get the buffered values and then [`Closed`]. Answers whether the channel
    /// was open.
    pub fn close(&self) -> bool {
        preemption_point();
        self.0.close()
    }

    /// A sender that does not keep the channel open.
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender(Arc::clone(&self.0))
    }

    /// How many receivers there are.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.0.receivers.load(Ordering::Relaxed)
    }
}

/// The error of a source that could not send, and has kept its value.
#[cold]
fn rejected<T, E>(sending: Sending<'_, T>, error: E) -> Rejected<T, E> {
    let value = sending.into_operation().into_value().expect("it was not sent, so it came back");
    Rejected { value, error }
}

super::both_sides!(Sender, sender_count, senders);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
        }
    }
}

/// A sender that does not keep the channel open. Made by [`Sender::downgrade`].
pub struct WeakSender<T>(Arc<Shared<T>>);

impl<T> WeakSender<T> {
    /// A sender, unless the last one has gone. The channel may be closed all the same, by
    /// [`close`](Sender::close) or by its receivers.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, _receiver) = segue::channel::unbounded::<u32>();
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let one_more = |senders| (senders > 0).then_some(senders + 1);
        self.0.senders.try_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Sender(Arc::clone(&self.0)))
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

segue_core::impl_debug!([T] WeakSender<T>);

/// Room in a channel for one value, made by [`Sender::reserve`]. Dropped unused, the reservation
/// leaves the room to others.
#[must_use = "it keeps room in a channel until it is used or dropped"]
pub struct Reserved<'a, T> {
    shared: &'a Shared<T>,
}

impl<T> Reserved<'_, T> {
    /// Sends a value. Never waits.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, if the channel was closed meanwhile.
    pub fn send(self, value: T) -> Result<(), Rejected<T, Closed>> {
        preemption_point();
        let this = ManuallyDrop::new(self);
        this.shared
            .use_reserved(Some(value))
            .map_err(|value| Rejected { value: value.expect("it was given"), error: Closed })
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        preemption_point();
        _ = self.shared.use_reserved(None);
    }
}

segue_core::impl_debug!([T] Reserved<'_, T>);
