//! The receiving side of a channel, and its iterators.
//!
//! Used by applications; `state.rs` has the transitions.

use super::errors::TryRecvError;
use super::exclusive::Exclusive;
use super::operations::Receive;
use super::state::Shared;
use crate::{Closed, WaitError};
use segue_core::{Cancelled, Source, Waitable, WaitsFor, admit, preemption_point};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The source of its wait.
pub(super) const VALUE: &str = "a value in a channel";

/// The receiving side of a channel. Clone this side for several receivers; each value goes to one.
///
/// When the last one has gone the channel is closed: senders have their values back, and the
/// buffered values are [undelivered](super::Options::on_undelivered).
///
/// A receiver that is sent through its own channel, or by way of others that lead back to it, keeps
/// that channel open as long as nobody receives that one: a cycle, as one of `Arc`s is, which leaks
/// the buffer. [`close`](Receiver::close) ends the sending, and to receive the receiver the cycle.
#[must_use = "without a receiver the channel is closed"]
pub struct Receiver<T>(pub(super) Arc<Shared<T>>);

impl<T> Receiver<T> {
    /// Takes the value that comes next, after waiting while there is none.
    ///
    /// # Order
    /// Values come in the order in which they were sent. Receivers that wait get them first in,
    /// first out; one that comes when a value is there overtakes nobody. Values that come back,
    /// from futures that were dropped, go before all others; of several, the one that came back
    /// last goes first.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was taken.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the channel was closed and all was received;
    /// [`WaitError::Cancelled`] if the caller was cancelled.
    ///
    /// `Closed` describes this moment. A value may still come back: from a future of another
    /// receiver's that was handed the value, and is dropped after this one has seen the end. The
    /// next call gets that value. The last receiver that goes finds all of them: values that came
    /// back too late to be received go to [`on_undelivered`](super::Options::on_undelivered).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::{WaitError, channel};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// std::thread::spawn(move || sender.send(7));
    /// assert_eq!(receiver.recv(), Ok(7));
    /// assert_eq!(receiver.recv(), Err(WaitError::Closed));
    /// ```
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn recv(&self) -> Result<T, WaitError> {
        Ok(self.receive(WaitsFor::new(VALUE))??)
    }

    /// Takes the value that comes next, if one is there. Never waits.
    ///
    /// # Errors
    /// [`TryRecvError`] says whether the channel is empty, or closed for good.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        preemption_point();
        match self.recv_source().attempt() {
            Some(Ok(value)) => Ok(value),
            Some(Err(Closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// [`recv`](Receiver::recv) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. If the future is dropped after a hand-over, the value comes
    /// back, for the next receiver.
    ///
    /// # Errors
    /// The source yields [`Closed`] if the channel was closed and all was received.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (sender, receiver) = segue::channel::bounded(1);
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv_source().await, Ok(7));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv_source(&self) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        self.source(WaitsFor::new(VALUE))
    }

    #[inline]
    pub(super) fn source(&self, waits_for: WaitsFor) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        Waitable::new(self.0.queue.operation(waits_for, Receive { shared: &self.0 }))
    }

    #[inline(always)] // As the source's `wait`.
    pub(super) fn receive(&self, waits_for: WaitsFor) -> Result<Result<T, Closed>, Cancelled> {
        if self.0.is_ahead() {
            admit()?;
            if let Some(value) = self.0.receive_ahead() {
                return Ok(Ok(value));
            }
        }
        self.source(waits_for).wait()
    }

    /// The values as they come, until the channel is closed or the caller cancelled. An iterator
    /// can't tell the two apart: [`check`](crate::check) does, after the loop.
    ///
    /// # Cancellation
    /// As for [`recv`](Receiver::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::bounded(1);
    /// std::thread::spawn(move || (0..3).try_for_each(|n| sender.send(n)));
    /// assert_eq!(receiver.iter().sum::<u32>(), 3);
    /// ```
    #[track_caller]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self, waits_for: WaitsFor::new(VALUE) }
    }

    /// The values that are there. Never waits.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }

    /// The same receiver, if there is no other: with that the receiver takes all values at once
    /// that are there, and most of its calls need no lock.
    ///
    /// # Errors
    /// Gives the receiver back if there are others.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::unbounded();
    /// let mut receiver = receiver.into_exclusive().unwrap();
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv(), Ok(7));
    /// ```
    pub fn into_exclusive(self) -> Result<Exclusive<T>, Self> {
        // A second one can only come from this one. (Acquire: the acts of others that have gone.)
        if self.0.receivers.load(Ordering::Acquire) == 1 { Ok(Exclusive::new(self)) } else { Err(self) }
    }

    /// Closes the channel, for all: nobody sends any more, senders that wait have their values
    /// back, and buffered values can be received. Answers whether the channel was open.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::bounded(2);
    /// sender.send(1).unwrap();
    /// assert!(receiver.close());
    /// assert!(sender.send(2).is_err());
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
    /// ```
    pub fn close(&self) -> bool {
        preemption_point();
        self.0.close()
    }

    /// How many senders there are.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.0.senders.load(Ordering::Relaxed)
    }
}

super::both_sides!(Receiver, receiver_count, receivers);

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.receivers.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.close();
            self.0.drain();
        }
    }
}

/// Iterates over the values of a channel as they come. Made by [`Receiver::iter`].
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
    waits_for: WaitsFor,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.receiver.receive(self.waits_for).ok()?.ok()
    }
}

segue_core::impl_debug!([T] Iter<'_, T>);

/// Iterates over the values that are in a channel. Made by [`Receiver::try_iter`].
pub struct TryIter<'a, T>(&'a Receiver<T>);

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

segue_core::impl_debug!([T] TryIter<'_, T>);

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    #[track_caller]
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
