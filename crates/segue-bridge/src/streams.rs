//! Channels of Segue's as a `Stream` and a `Sink`, and streams in straight-line code.
//!
//! Used where a channel's other side is async code that is written with the combinators of
//! `futures`.
//!
//! Both are a *pump*: a future of a loop that never ends by itself, which has the channel's side,
//! and awaits its sources. A pump is boxed once, and polled by the methods of the trait; between
//! two of these the pump stands still. A cell that both share has the values that pump and methods
//! exchange.

use futures_core::Stream;
use futures_sink::Sink;
use segue::channel::{Receiver, Sender};
use segue::{Closed, Rejected};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// `None` after the end, or a close.
type Pump = Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

/// The state that a pump and its owner share. Locked for an assignment alone, on one thread at a
/// time.
#[derive(Debug)]
struct Cell<T>(Arc<Mutex<T>>);

impl<T> Cell<T> {
    fn new(value: T) -> (Self, Self) {
        let shared = Arc::new(Mutex::new(value));
        (Self(Arc::clone(&shared)), Self(shared))
    }

    fn get(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls a pump, and answers whether the pump goes on.
fn drive(pump: &mut Pump, task: &mut Context<'_>) -> bool {
    if pump.as_mut().is_some_and(|pump| pump.as_mut().poll(task).is_ready()) {
        *pump = None;
    }
    pump.is_some()
}

/// Lets the pump's owner return; the next poll goes on behind this point.
async fn stand_still() {
    let mut polled = false;
    poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The values of a channel as a stream, which ends when the channel is closed and all was received.
///
/// The only receiver takes all values at once that are there, as [`into_iter`](Receiver::into_iter)
/// does.
///
/// # Cancellation
/// A stream that is dropped was a receiver that has gone. A value that the stream was handed and
/// has not yielded comes back, for the next receiver.
///
/// # Examples
///
/// ```
/// use futures::{StreamExt, executor::block_on};
/// use segue_bridge::streams::stream_of;
///
/// let (sender, receiver) = segue::channel::bounded(1);
/// segue::spawn(move || (1..=3).try_for_each(|n| sender.send(n)));
/// let squares = stream_of(receiver).map(|n| n * n).collect::<Vec<u32>>();
/// assert_eq!(block_on(squares), [1, 4, 9]);
/// ```
pub fn stream_of<T: Send + 'static>(receiver: Receiver<T>) -> ReceiverStream<T> {
    let (out, outlet) = Cell::new(None);
    let pump = async move {
        let mut receiver = receiver.into_exclusive();
        loop {
            let received = match &mut receiver {
                Ok(exclusive) => exclusive.recv_source().await,
                Err(shared) => shared.recv_source().await,
            };
            let Ok(value) = received else { return };
            *outlet.get() = Some(value);
            stand_still().await;
        }
    };
    ReceiverStream { pump: Some(Box::pin(pump)), out }
}

/// The values of a channel. Made by [`stream_of`].
#[must_use = "a stream does nothing until it is polled"]
pub struct ReceiverStream<T> {
    pump: Pump,
    /// The value that the last poll of the pump has received.
    out: Cell<Option<T>>,
}

impl<T> Stream for ReceiverStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<T>> {
        if !drive(&mut self.pump, task) {
            return Poll::Ready(None);
        }
        let value = self.out.get().take();
        value.map_or(Poll::Pending, |value| Poll::Ready(Some(value)))
    }
}

segue_core::impl_debug!([T] ReceiverStream<T>, |it| ended: it.pump.is_none());

/// A sender as a sink. `poll_ready` reserves room in the channel, and `start_send` sends into that:
/// so the sink itself keeps no value, and a flush has nothing to do.
///
/// A close of the sink drops the sender; the last sender closes the channel. Receivers get the
/// values that were sent.
///
/// # Cancellation
/// A sink that is dropped leaves its reserved room to others.
///
/// # Errors
/// The sink fails if the channel was closed, by [`Closed`] with the value, if there was one; and
/// after its own close.
///
/// # Panics
/// At a rendezvous, which has no room. `start_send` panics if `poll_ready` was not ready before.
///
/// # Examples
///
/// ```
/// use futures::{StreamExt, executor::block_on, stream};
/// use segue_bridge::streams::sink_of;
///
/// let (sender, receiver) = segue::channel::bounded(1);
/// let sum = segue::spawn(move || receiver.iter().sum::<u32>());
/// block_on(stream::iter(1..=3).map(Ok).forward(sink_of(sender))).unwrap();
/// assert_eq!(sum.join().unwrap(), 6);
/// ```
pub fn sink_of<T: Send + 'static>(sender: Sender<T>) -> SenderSink<T> {
    assert!(sender.capacity() != Some(0), "a rendezvous has no room to reserve: it can't be a sink");
    let (state, shared) = Cell::new(Room { is_reserved: false, value: None });
    let pump = async move {
        while let Ok(room) = sender.reserve_source().await {
            shared.get().is_reserved = true;
            let value = poll_fn(|_| shared.get().value.take().map_or(Poll::Pending, Poll::Ready)).await;
            if let Err(rejected) = room.send(value) {
                shared.get().value = Some(rejected.value);
                return;
            }
            stand_still().await;
        }
    };
    SenderSink { pump: Some(Box::pin(pump)), state }
}

/// The sink's knowledge of the room that its pump has.
#[derive(Debug)]
struct Room<T> {
    is_reserved: bool,
    /// To be sent, or rejected.
    value: Option<T>,
}

/// A sender as a sink. Made by [`sink_of`].
#[must_use = "a sink does nothing until it is polled"]
pub struct SenderSink<T> {
    pump: Pump,
    state: Cell<Room<T>>,
}

fn closed<T>(value: Option<T>) -> Rejected<Option<T>, Closed> {
    Rejected { value, error: Closed }
}

impl<T> Sink<T> for SenderSink<T> {
    type Error = Rejected<Option<T>, Closed>;

    fn poll_ready(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        if !self.state.get().is_reserved && !drive(&mut self.pump, task) {
            return Poll::Ready(Err(closed(None)));
        }
        if self.state.get().is_reserved { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn start_send(mut self: Pin<&mut Self>, value: T) -> Result<(), Self::Error> {
        let mut room = self.state.get();
        assert!(std::mem::take(&mut room.is_reserved), "`start_send` was called without a `poll_ready` that was ready");
        room.value = Some(value);
        drop(room);
        // There is room, so a send comes at once, and then the pump stands still.
        if drive(&mut self.pump, &mut Context::from_waker(Waker::noop())) {
            return Ok(());
        }
        Err(closed(self.state.get().value.take()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.pump = None;
        self.state.get().is_reserved = false;
        Poll::Ready(Ok(()))
    }
}

segue_core::impl_debug!([T] SenderSink<T>, |it| closed: it.pump.is_none());

/// The items of a stream in straight-line code: each `next` suspends the calling fiber, or parks
/// the calling thread, until there is one.
///
/// The iterator ends with the stream, or when the caller is cancelled. An iterator can't tell the
/// two apart: [`check`](segue_core::check) does, after the loop. A stream that needs tokio's
/// context is waited for item by item, by `tokio::wait`.
///
/// # Cancellation
/// *No effect* on the stream: the next call goes on.
///
/// # Examples
///
/// Into a channel:
///
/// ```
/// use segue_bridge::streams::iter;
///
/// let (sender, receiver) = segue::channel::bounded(1);
/// let stream = futures::stream::iter(1..=3);
/// segue::spawn(move || iter(stream).try_for_each(|n| sender.send(n)));
/// assert_eq!(receiver.into_iter().sum::<u32>(), 6);
/// ```
pub fn iter<S: Stream>(stream: S) -> Iter<S> {
    Iter { stream: Some(Box::pin(stream)) }
}

/// The items of a stream, waited for. Made by [`iter`].
#[must_use = "an iterator does nothing until it is asked"]
pub struct Iter<S> {
    /// `None` after the end.
    stream: Option<Pin<Box<S>>>,
}

impl<S: Stream> Iterator for Iter<S> {
    type Item = S::Item;

    #[track_caller]
    fn next(&mut self) -> Option<S::Item> {
        let stream = self.stream.as_mut()?;
        let item = crate::wait(poll_fn(|task| stream.as_mut().poll_next(task))).ok()?;
        if item.is_none() {
            self.stream = None;
        }
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.as_ref().map_or((0, Some(0)), |stream| (0, stream.size_hint().1))
    }
}

segue_core::impl_debug!([S] Iter<S>, |it| ended: it.stream.is_none());
