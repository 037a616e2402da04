//! The only receiver of a channel, which takes a block of values at a time.
//!
//! Used by applications that have one receiver for each channel, and by iteration over a receiver
//! by value.
//!
//! An exclusive receiver exchanges the channel's buffer for an empty one of its own, in one hold of
//! the lock, and gives the values out without any: with a buffer that is never empty, a message
//! costs one lock (the sender's) and a share in another. Its block comes before the buffer, so the
//! order is the same. The senders have the room of the whole block at once; so up to twice the
//! capacity of a bounded channel is under way.
//!
//! When there is nothing, the receiver may let the senders go on for a moment before a wait
//! (`patience.rs`).

use super::blocks::Supply;
use super::errors::TryRecvError;
use super::operations::ReceiveBlock;
use super::receiver::{Receiver, VALUE};
use crate::{Closed, WaitError};
use segue_core::{Source, Waitable, WaitsFor, preemption_point};

/// The only receiver of a channel. Made by [`Receiver::into_exclusive`].
///
/// An exclusive receiver acts as [`Receiver`], with less work: it takes all buffered values at
/// once. Values that were taken so count for its own [`len`](Exclusive::len), and no more for the
/// senders: up to twice the capacity of a bounded channel is under way.
///
/// Its drop closes the channel; the values that it has taken are
/// [undelivered](super::Options::on_undelivered), before those in the buffer.
#[must_use = "without a receiver the channel is closed"]
pub struct Exclusive<T> {
    /// `None` after the conversion into an ordinary receiver.
    receiver: Option<Receiver<T>>,
    block: Supply<T>,
}

impl<T> Exclusive<T> {
    pub(super) fn new(receiver: Receiver<T>) -> Self {
        Self { receiver: Some(receiver), block: Supply::new() }
    }

    fn receiver(&self) -> &Receiver<T> {
        self.receiver.as_ref().expect("it is one until it goes")
    }

    #[inline]
    fn source(&mut self, waits_for: WaitsFor, is_patient: bool) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        let Some(Receiver(shared)) = &self.receiver else { unreachable!("it is one until it goes") };
        Waitable::new(shared.queue.operation(waits_for, ReceiveBlock { shared, block: &mut self.block, is_patient }))
    }

    /// As [`Receiver::recv`].
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was taken.
    ///
    /// # Errors
    /// As for [`Receiver::recv`].
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn recv(&mut self) -> Result<T, WaitError> {
        Ok(self.source(WaitsFor::new(VALUE), true).wait()??)
    }

    /// As [`Receiver::try_recv`]. Never waits.
    ///
    /// # Errors
    /// As for [`Receiver::try_recv`].
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        preemption_point();
        match self.recv_source().attempt() {
            Some(Ok(value)) => Ok(value),
            Some(Err(Closed)) => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// [`recv`](Exclusive::recv) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. If the future is dropped after a hand-over, the value comes
    /// back, for the next call.
    ///
    /// # Errors
    /// The source yields [`Closed`] if the channel was closed and all was received.
    #[inline]
    #[track_caller]
    pub fn recv_source(&mut self) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        self.source(WaitsFor::new(VALUE), false)
    }

    /// The number of values: those taken off, and those in the buffer.
    #[must_use]
    pub fn len(&self) -> usize {
        self.block.len() + self.receiver().len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing is sent any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.receiver().is_closed()
    }

    /// As [`Receiver::close`].
    pub fn close(&self) -> bool {
        self.receiver().close()
    }

    /// An ordinary receiver again, which can be cloned. The values that were taken off go back to
    /// the front.
    pub fn into_shared(mut self) -> Receiver<T> {
        let receiver = self.receiver.take().expect("it is one until it goes");
        receiver.0.put_block_back(&mut self.block);
        receiver
    }
}

impl<T> Drop for Exclusive<T> {
    fn drop(&mut self) {
        if let Some(receiver) = &self.receiver {
            // The receiver, which goes next, takes out all: one place calls the hook, which may
            // panic.
            receiver.0.put_block_back(&mut self.block);
        }
    }
}

segue_core::impl_debug!([T] Exclusive<T>, |it| taken: it.block.len());

/// Iterates over the values of a channel as they come, and has its receiver. Made by
/// [`into_iter`](IntoIterator::into_iter) on that.
pub struct IntoIter<T> {
    receiver: Result<Exclusive<T>, Receiver<T>>,
    waits_for: WaitsFor,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.receiver {
            Ok(exclusive) => exclusive.source(self.waits_for, true).wait().ok()?.ok(),
            Err(receiver) => receiver.receive(self.waits_for).ok()?.ok(),
        }
    }
}

segue_core::impl_debug!([T] IntoIter<T>);

impl<T> IntoIterator for Exclusive<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    #[track_caller]
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: Ok(self), waits_for: WaitsFor::new(VALUE) }
    }
}

/// As [`Receiver::iter`]; the iterator is [exclusive](Exclusive) for the only receiver.
impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    #[track_caller]
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self.into_exclusive(), waits_for: WaitsFor::new(VALUE) }
    }
}
