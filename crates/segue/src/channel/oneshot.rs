//! A channel for one value: a [promise](crate::sync::Promise) with the names of a channel.
//!
//! Used for answers, where the one who answers is to know whether anybody still asks. The states
//! and the waiting are the promise's.

use super::errors::TryRecvError;
use crate::sync::{Promise, Resolver, promise};
use crate::{Closed, Rejected, WaitError};
use segue_core::{Source, Waitable, preemption_point};

/// A channel for one value.
///
/// # Examples
///
/// ```
/// use segue::channel::{oneshot, unbounded};
///
/// let (questions, inbox) = unbounded::<(u32, oneshot::Sender<u32>)>();
/// std::thread::spawn(move || {
///     for (number, answer) in inbox {
///         _ = answer.send(number * number);
///     }
/// });
/// let (answer, answered) = oneshot::channel();
/// questions.send((7, answer)).unwrap();
/// assert_eq!(answered.recv(), Ok(49));
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (resolver, promise) = promise();
    (Sender(resolver), Receiver(promise))
}

/// The sending side. Dropped unused, it closes the channel.
#[derive(Debug)]
#[must_use = "without a sender the channel is closed"]
pub struct Sender<T>(Resolver<T>);

impl<T> Sender<T> {
    /// Sends the value. Never waits.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, if the receiver has gone: nobody can take it.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send("back").unwrap_err().value, "back");
    /// ```
    #[inline]
    pub fn send(self, value: T) -> Result<(), Rejected<T, Closed>> {
        self.0.fill(value)
    }

    /// Has `hook` called when the receiver goes: see [`Resolver::on_close`].
    ///
    /// # Panics
    /// As there.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::oneshot;
    /// use std::sync::mpsc::channel;
    ///
    /// let (sender, receiver) = oneshot::channel::<u32>();
    /// let (tell, told) = channel();
    /// sender.on_close(move || tell.send("nobody asks any more").unwrap());
    /// drop(receiver);
    /// assert_eq!(told.recv(), Ok("nobody asks any more"));
    /// ```
    pub fn on_close(&self, hook: impl FnOnce() + Send + 'static) {
        self.0.on_close(hook);
    }

    /// Whether the receiver has gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Ready when the receiver has gone: nobody waits for the value any more.
    ///
    /// # Cancellation
    /// *No effect*.
    #[track_caller]
    pub fn closed_source(&self) -> Waitable<impl Source<Output = ()>> {
        self.0.closed_source()
    }
}

/// The receiving side. Dropped, it closes the channel: what is sent then comes back to the sender.
#[derive(Debug)]
#[must_use = "without a receiver the channel is closed"]
pub struct Receiver<T>(Promise<T>);

impl<T> Receiver<T> {
    /// Takes the value, after waiting until it is there.
    ///
    /// # Cancellation
    /// The receiver is consumed: what is sent comes back to the sender. Wait [by the
    /// source](Receiver::recv_source) to keep it.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the sender has gone without a value; [`WaitError::Cancelled`] if
    /// the caller was cancelled.
    #[track_caller]
    #[inline(always)] // As the promise's `take`.
    pub fn recv(self) -> Result<T, WaitError> {
        self.0.take()
    }

    /// Takes the value, if it is there. Never waits.
    ///
    /// # Errors
    /// [`TryRecvError`] says whether it may yet come.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        preemption_point();
        match self.0.take_source().attempt() {
            Some(Ok(value)) => Ok(value),
            Some(Err(Closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// [`recv`](Receiver::recv) as a source: to be awaited, or chosen among others. Once the value
    /// was taken, the channel counts as closed.
    ///
    /// # Cancellation
    /// *No effect*: the value stays there, also if the future is dropped.
    ///
    /// # Errors
    /// It yields [`Closed`] if the sender has gone without a value.
    #[track_caller]
    pub fn recv_source(&mut self) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        self.0.take_source()
    }
}
