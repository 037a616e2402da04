//! std's channels: many senders and one receiver.
//!
//! A cancelled wait yields the error of the other end's drop: the cancelled fiber has nothing more
//! to send or to receive.

pub use segue::channel::{IntoIter, Iter, TryIter};
#[doc(no_inline)]
pub use std::sync::mpsc::*;

use segue::{Either, after, channel};
use std::time::Duration;

/// A channel without a limit.
///
/// # Examples
///
/// ```
/// use segue_std::{sync::mpsc, thread};
///
/// let (send, receive) = mpsc::channel();
/// for n in 0..3 {
///     let send = send.clone();
///     thread::spawn(move || send.send(n).unwrap());
/// }
/// drop(send);
/// assert_eq!(receive.iter().sum::<i32>(), 3);
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = channel::unbounded();
    (Sender(sender), Receiver(receiver))
}

/// A channel for at most `bound` values that are not received yet; with zero each waits for its
/// receiver.
///
/// # Examples
///
/// ```
/// use segue_std::sync::mpsc::{TrySendError, sync_channel};
///
/// let (send, receive) = sync_channel(1);
/// send.send("a").unwrap();
/// assert_eq!(send.try_send("b"), Err(TrySendError::Full("b")));
/// assert_eq!(receive.recv(), Ok("a"));
/// ```
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, receiver) = match bound {
        0 => channel::rendezvous(),
        bound => channel::bounded(bound),
    };
    (SyncSender(sender), Receiver(receiver))
}

/// The sending end of [`channel`](fn@channel).
pub struct Sender<T>(channel::Sender<T>);

impl<T> Sender<T> {
    /// Sends. Never waits.
    ///
    /// # Errors
    /// If the receiver is gone: with the value.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        // Which a cancelled caller can do, too.
        self.0.try_send(value).map_err(|rejected| SendError(rejected.value))
    }
}

/// The sending end of [`sync_channel`].
pub struct SyncSender<T>(channel::Sender<T>);

impl<T> SyncSender<T> {
    /// Sends, after waiting for room.
    ///
    /// # Cancellation
    /// *No effect*: the value is in the error.
    ///
    /// # Errors
    /// If the receiver is gone, or the caller was cancelled: with the value.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.0.send(value).map_err(|rejected| SendError(rejected.value))
    }

    /// Sends, if there is room. Never waits.
    ///
    /// # Errors
    /// If there is none, or if the receiver is gone: with the value.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.0.try_send(value).map_err(|rejected| match rejected.error {
            channel::TrySendError::Full => TrySendError::Full(rejected.value),
            channel::TrySendError::Closed => TrySendError::Disconnected(rejected.value),
        })
    }
}

/// The receiving end.
pub struct Receiver<T>(channel::Receiver<T>);

impl<T> Receiver<T> {
    /// Receives, after waiting for a value.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// If all senders are gone and there are no values left, or if the caller was cancelled.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.recv().map_err(|_| RecvError)
    }

    /// Receives, if there is a value. Never waits.
    ///
    /// # Errors
    /// If there is none, or never will be.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv().map_err(|error| match error {
            channel::TryRecvError::Empty => TryRecvError::Empty,
            channel::TryRecvError::Closed => TryRecvError::Disconnected,
        })
    }

    /// As [`recv`](Receiver::recv), for `limit` at most.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// If no value has come in time, or if none will.
    #[track_caller]
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Ok(value) => return Ok(value),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        match self.0.recv_source().or(after(limit)).wait() {
            Ok(Either::Left(Ok(value))) => Ok(value),
            Ok(Either::Right(())) => Err(RecvTimeoutError::Timeout),
            Ok(Either::Left(Err(_))) | Err(_) => Err(RecvTimeoutError::Disconnected),
        }
    }

    /// The values, with a wait for each, until [`recv`](Receiver::recv) fails.
    #[track_caller]
    pub fn iter(&self) -> Iter<'_, T> {
        self.0.iter()
    }

    /// The values that are there.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        self.0.try_iter()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    #[track_caller]
    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    #[track_caller]
    fn into_iter(self) -> IntoIter<T> {
        self.0.into_iter()
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

segue::core::impl_debug!([T] Sender<T>);

segue::core::impl_debug!([T] SyncSender<T>);

segue::core::impl_debug!([T] Receiver<T>);
