//! The sending side of a broadcast, of both kinds.
//!
//! Used by every speaker. `ring.rs` has the effect of a send on the messages.

use super::Receiver;
use super::ring::{Push, Queue, RECEIVERS, SENDERS, Sending};
use crate::{Closed, Rejected, WaitError};
use segue_core::{Brings, Waitable, WaitsFor, preemption_point, wait};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// A sender that never waits, and overwrites the oldest message: that of a
/// [`channel`](super::channel).
#[derive(Debug)]
pub enum Overwrites {}

/// A sender that waits for the slowest receiver: that of a [`lossless`](super::lossless) broadcast.
#[derive(Debug)]
pub enum Waits {}

/// The sending side of a broadcast; `F` decides about a send without room. To send from several
/// places, share or clone the sender.
///
/// When the last one is dropped, the broadcast is [closed](Sender::close).
pub struct Sender<T, F = Overwrites> {
    queue: Arc<Queue<T>>,
    when_full: PhantomData<F>,
}

impl<T> Sender<T> {
    /// Sends a message to all receivers that there are, and answers how many these are. Never
    /// waits: if there is no room, the oldest message is overwritten, and is dropped by this call.
    ///
    /// A receiver that is dropped before getting the message is counted.
    ///
    /// # Errors
    /// Gives the value back if there is no receiver, or if the broadcast was
    /// [closed](Sender::close). A later [`subscribe`](Sender::subscribe) can mend the first.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::broadcast;
    ///
    /// let (sender, receiver) = broadcast::channel(4);
    /// assert_eq!(sender.send("heard").unwrap(), 1);
    /// drop(receiver);
    /// assert_eq!(sender.send("unheard").unwrap_err().value, "unheard");
    /// ```
    pub fn send(&self, value: T) -> Result<usize, Rejected<T, Closed>> {
        preemption_point();
        // Allocated before the lock, and an overwritten message is dropped afterwards.
        let message = Arc::new(value);
        let mut queue = self.queue.lock();
        if !queue.peek().accepts() {
            drop(queue);
            let value = Arc::into_inner(message).expect("nobody has got it");
            return Err(Rejected { value, error: Closed });
        }
        let overwritten = queue.state().overwrite(message);
        let receivers = queue.peek().receivers;
        queue.notify_all(RECEIVERS);
        drop(overwritten);
        Ok(receivers)
    }
}

impl<T> Sender<T, Waits> {
    /// Sends a message to all receivers that there are, after waiting while there is no room: while
    /// the slowest receiver is late by as many messages as the channel has room for.
    ///
    /// # Order
    /// First come, first served, among the senders that wait.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was sent, and the value comes back in the error.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, and a [`WaitError`]: there is no receiver, the broadcast
    /// was [closed](Sender::close), or the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::broadcast;
    /// use segue::{WaitError, timeout};
    /// use std::time::Duration;
    ///
    /// let (sender, mut receiver) = broadcast::lossless(1);
    /// sender.send("first")?;
    /// let late = timeout(Duration::from_millis(1), || sender.send("second")).unwrap_err();
    /// assert!(late.error.timed_out());
    /// assert_eq!(receiver.recv(), Ok("first"));
    /// sender.send(late.value)?;
    /// # Ok::<(), segue::Rejected<&str, WaitError>>(())
    /// ```
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), Rejected<T, WaitError>> {
        let mut sending = self.send_source(value).into_source();
        let error = match wait(&mut sending) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(closed)) => closed.into(),
            Err(cancelled) => cancelled.into(),
        };
        let value = sending.into_operation().into_value().expect("it was not sent, so it came back");
        Err(Rejected { value, error })
    }

    /// [`send`](Sender::send) as a source: to be awaited, or chosen among others. Its
    /// [attempt](Waitable::attempt) never waits.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: the value is dropped with the source. A choice [by
    /// reference](Waitable::by_ref) leaves the source with its [value](Waitable::into_value). If
    /// the future is dropped after its message was taken, the message was sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (sender, mut receiver) = segue::channel::broadcast::lossless(1);
    /// sender.send_source("hello").await.unwrap();
    /// assert_eq!(receiver.recv_source().await, Ok("hello"));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn send_source(&self, value: T) -> Waitable<Sending<'_, T>> {
        Waitable::new(self.queue.operation(WaitsFor::new("room in a broadcast"), Push::new(value)))
    }
}

impl<T, F> Sender<T, F> {
    pub(super) fn new(queue: Arc<Queue<T>>) -> Self {
        Self { queue, when_full: PhantomData }
    }

    /// A new receiver, which gets the messages that are sent from now on. If the broadcast is
    /// [closed](Sender::close), there are none.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, mut early) = segue::channel::broadcast::channel(4);
    /// sender.send(1).unwrap();
    /// let mut late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!((early.recv(), late.recv()), (Ok(1), Ok(2)));
    /// ```
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        preemption_point();
        Receiver::subscribe(&self.queue)
    }

    /// How many receivers there are at this moment.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        preemption_point();
        self.queue.lock().peek().receivers
    }

    /// How many messages some receiver has yet to get.
    #[must_use]
    pub fn len(&self) -> usize {
        preemption_point();
        self.queue.lock().peek().all()
    }

    /// Whether every message has been received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the broadcast: from now on nothing is sent. Never waits.
    ///
    /// Receivers get the earlier messages, and then the end. Senders that wait have their values
    /// back. A closed broadcast does not open again.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::broadcast::{self, RecvError};
    ///
    /// let (sender, mut receiver) = broadcast::channel(4);
    /// sender.send("last").unwrap();
    /// sender.close();
    /// assert_eq!(sender.send("too late").unwrap_err().value, "too late");
    /// assert_eq!(receiver.recv(), Ok("last"));
    /// assert_eq!(receiver.recv(), Err(RecvError::Closed));
    /// ```
    pub fn close(&self) {
        preemption_point();
        let mut queue = self.queue.lock();
        queue.state().is_closed = true;
        queue.notify_all(RECEIVERS);
        self.queue.lock().notify_all(SENDERS);
    }

    /// Whether [closed](Sender::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        preemption_point();
        self.queue.lock().peek().is_closed
    }
}

impl<T, F> Clone for Sender<T, F> {
    fn clone(&self) -> Self {
        preemption_point();
        self.queue.lock().state().senders += 1;
        Self::new(Arc::clone(&self.queue))
    }
}

impl<T, F> Drop for Sender<T, F> {
    fn drop(&mut self) {
        preemption_point();
        let mut queue = self.queue.lock();
        let ring = queue.state();
        ring.senders -= 1;
        if ring.senders == 0 {
            // No sender waits, since its wait would borrow this one.
            ring.is_closed = true;
            queue.notify_all(RECEIVERS);
        }
    }
}

impl<T, F> fmt::Debug for Sender<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, receivers, is_closed) = {
            let queue = self.queue.lock();
            let ring = queue.peek();
            (ring.all(), ring.receivers, ring.is_closed)
        };
        f.debug_struct("Sender")
            .field("len", &len)
            .field("receivers", &receivers)
            .field("is_closed", &is_closed)
            .finish_non_exhaustive()
    }
}
