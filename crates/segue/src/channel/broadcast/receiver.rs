//! The receiving side of a broadcast, of both kinds.
//!
//! Used by every listener. `ring.rs` has the effect of a receive on the messages.

use super::ring::{Queue, Receive, SENDERS, fill};
use super::{NoMessage, RecvError};
use segue_core::{Source, Waitable, WaitsFor, preemption_point};
use std::fmt;
use std::iter::FusedIterator;
use std::sync::Arc;

/// The source of its wait.
const MESSAGE: &str = "a message of a broadcast";

/// The receiving side of a broadcast: gets each message that is sent from its making on.
///
/// A receiver has a position of its own, and receives by `&mut`. A [clone](Receiver::clone) goes on
/// from the same position.
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
    /// That of its next message.
    position: u64,
}

/// The message itself if no other receiver has it or is to get it, or else a clone.
fn taken<T: Clone>(message: Arc<T>) -> T {
    Arc::try_unwrap(message).unwrap_or_else(|message| T::clone(&message))
}

impl<T> Receiver<T> {
    pub(super) fn new(queue: Arc<Queue<T>>, position: u64) -> Self {
        Self { queue, position }
    }

    pub(super) fn subscribe(queue: &Arc<Queue<T>>) -> Self {
        let position = queue.lock().state().subscribe();
        Self::new(Arc::clone(queue), position)
    }

    /// How many messages are there for this receiver at this moment. Messages that were overwritten
    /// do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        preemption_point();
        self.queue.lock().peek().len(self.position)
    }

    /// Whether no message is there for this receiver.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new receiver, which gets the messages that are sent from now on; to have those that are
    /// there, too, [clone](Receiver::clone) this one.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::broadcast::channel(4);
    /// sender.send(1).unwrap();
    /// let (mut same, mut late) = (receiver.clone(), receiver.resubscribe());
    /// sender.send(2).unwrap();
    /// assert_eq!((same.recv(), late.recv()), (Ok(1), Ok(2)));
    /// ```
    #[must_use]
    pub fn resubscribe(&self) -> Self {
        preemption_point();
        Self::subscribe(&self.queue)
    }

    #[inline]
    fn message(&mut self, waits_for: WaitsFor) -> Waitable<impl Source<Output = Result<Arc<T>, NoMessage>>> {
        let receive = Receive { position: &mut self.position };
        Waitable::new(self.queue.operation(waits_for, receive))
    }
}

impl<T: Clone> Receiver<T> {
    /// The next message, after waiting while there is none.
    ///
    /// The clone is made after the receive has taken effect: if the clone panics, this receiver
    /// does not get that message.
    ///
    /// # Cancellation
    /// *No effect*: the message is received by the next call.
    ///
    /// # Errors
    /// [`RecvError`]: the receiver has missed messages, there will be no more, or the caller was
    /// cancelled. Messages that were sent before the broadcast was [closed](super::Sender::close)
    /// come first.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, mut receiver) = segue::channel::broadcast::channel(4);
    /// std::thread::spawn(move || sender.send("hello"));
    /// assert_eq!(receiver.recv(), Ok("hello"));
    /// ```
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.receive(WaitsFor::new(MESSAGE))
    }

    #[inline(always)] // As the source's `wait`.
    fn receive(&mut self, waits_for: WaitsFor) -> Result<T, RecvError> {
        Ok(taken(self.message(waits_for).wait()??))
    }

    /// The next message, if there is one. Never waits, unless the clone does.
    ///
    /// # Errors
    /// [`NoMessage`]: the receiver has missed messages, or there will be no more.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::broadcast::{self, NoMessage};
    ///
    /// let (sender, mut receiver) = broadcast::channel(4);
    /// assert_eq!(receiver.try_recv(), None);
    /// sender.send(1).unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Some(Ok(1)));
    /// assert_eq!(receiver.try_recv(), Some(Err(NoMessage::Closed)));
    /// ```
    pub fn try_recv(&mut self) -> Option<Result<T, NoMessage>> {
        preemption_point();
        self.message(WaitsFor::new(MESSAGE)).attempt().map(|received| received.map(taken))
    }

    /// [`recv`](Receiver::recv) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*, also if the future is dropped after its wake-up.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (sender, mut receiver) = segue::channel::broadcast::channel(4);
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv_source().await, Ok(7));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn recv_source(&mut self) -> Waitable<impl Source<Output = Result<T, NoMessage>>> {
        self.message(WaitsFor::new(MESSAGE)).map(|received| received.map(taken))
    }

    /// The messages one by one, each after a wait, until the broadcast is closed.
    ///
    /// Where messages were missed there is a [`Lagged`](RecvError::Lagged) among them, once. After
    /// a [`Cancelled`](RecvError::Cancelled) the iterator has ended. Its end says that there will
    /// be no more messages.
    ///
    /// # Cancellation
    /// *No effect*: the message is received by the next call.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::channel::broadcast::{self, RecvError};
    ///
    /// let (sender, mut receiver) = broadcast::channel(2);
    /// (0..4).for_each(|n| _ = sender.send(n));
    /// drop(sender);
    /// let all: Vec<_> = receiver.iter().collect();
    /// assert_eq!(all, [Err(RecvError::Lagged(2)), Ok(2), Ok(3)]);
    /// ```
    #[track_caller]
    pub fn iter(&mut self) -> Iter<'_, T> {
        Iter { receiver: self, waits_for: WaitsFor::new(MESSAGE), has_ended: false }
    }
}

impl<T> Clone for Receiver<T> {
    /// A receiver at the same position: the clone gets all that this one has yet to get, and the
    /// same [`Lagged`](RecvError::Lagged) if this one has lagged.
    fn clone(&self) -> Self {
        preemption_point();
        self.queue.lock().state().join(self.position);
        Self::new(Arc::clone(&self.queue), self.position)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        preemption_point();
        let mut queue = self.queue.lock();
        let unread = queue.state().leave(self.position);
        if queue.peek().receivers == 0 {
            queue.notify_all(SENDERS);
        } else {
            fill(&mut queue);
            drop(queue);
        }
        drop(unread);
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, is_closed) = {
            let queue = self.queue.lock();
            (queue.peek().len(self.position), queue.peek().is_closed)
        };
        f.debug_struct("Receiver").field("len", &len).field("is_closed", &is_closed).finish_non_exhaustive()
    }
}

/// The messages of a [`Receiver`], one by one: the result of [`iter`](Receiver::iter).
#[derive(Debug)]
#[must_use = "nothing is received before it is asked"]
pub struct Iter<'a, T> {
    receiver: &'a mut Receiver<T>,
    waits_for: WaitsFor,
    has_ended: bool,
}

impl<T: Clone> Iterator for Iter<'_, T> {
    type Item = Result<T, RecvError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let received = self.receiver.receive(self.waits_for);
        self.has_ended = matches!(received, Err(RecvError::Closed | RecvError::Cancelled(_)));
        (!matches!(received, Err(RecvError::Closed))).then_some(received)
    }
}

impl<T: Clone> FusedIterator for Iter<'_, T> {}
