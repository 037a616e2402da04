//! Channels as streams and sinks, under the combinators of `futures` and on the executors that are
//! bridged, and streams in straight-line code.

use crate::common;

use common::{fifo, stealing, tokio_current, tokio_multi};
use futures::executor::block_on;
use futures::{FutureExt, Sink, SinkExt, Stream, StreamExt, stream};
use segue::channel::{self, Receiver, Sender};
use segue_bridge::streams::{iter, sink_of, stream_of};
use segue_core::{CancelToken, check, spawn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// A function of a task, on every executor, and what it yields.
fn on_every_executor<T: Send + PartialEq + std::fmt::Debug + 'static, F>(expected: &T, task: impl Fn() -> F)
where
    F: Future<Output = T> + Send + 'static,
{
    assert_eq!(&block_on(task()), expected);
    assert_eq!(&smol::block_on(smol::spawn(task())), expected);
    for handle in [tokio_current(), tokio_multi()] {
        assert_eq!(&block_on(handle.spawn(task())).unwrap(), expected);
    }
}

fn sending(count: u32, capacity: usize) -> Receiver<u32> {
    let (sender, receiver) = channel::bounded(capacity);
    spawn(move || (0..count).try_for_each(|n| sender.send(n)));
    receiver
}

#[test]
fn receivers_are_streams_on_every_executor() {
    for capacity in [0, 1, 16] {
        on_every_executor(&4950, || {
            let (left, right) = (stream_of(sending(50, capacity)), stream_of(sending(50, capacity)));
            stream::select(left, right.map(|n| n + 50)).fold(0, async |sum, n| sum + n)
        });
        // In order; with more receivers than one.
        on_every_executor(&(0..50).collect::<Vec<_>>(), || {
            let receiver = sending(50, capacity);
            let other = receiver.clone();
            async move {
                let all = stream_of(receiver).collect().await;
                drop(other);
                all
            }
        });
    }
}

#[test]
fn senders_are_sinks_on_every_executor() {
    for capacity in [1, 16, usize::MAX] {
        on_every_executor(&4950, || {
            let (sender, receiver): (Sender<u32>, _) =
                if capacity == usize::MAX { channel::unbounded() } else { channel::bounded(capacity) };
            let sum = spawn(move || receiver.iter().sum::<u32>());
            async move {
                stream::iter(0..100).map(Ok).forward(sink_of(sender)).await.unwrap();
                sum.await.unwrap()
            }
        });
    }
    // From a channel into another, by a task between two fibers.
    let (sender, receiver) = channel::bounded(3);
    let between = stream_of(sending(100, 2)).map(|n| Ok(n * 2)).forward(sink_of(sender));
    let task = tokio_multi().spawn(between);
    assert!(fifo().run(|| receiver.iter().eq((0..100).map(|n| n * 2))).unwrap());
    block_on(task).unwrap().unwrap();
}

fn poll_with<R>(f: impl FnOnce(&mut Context<'_>) -> R) -> R {
    f(&mut Context::from_waker(Waker::noop()))
}

fn poll_ready<T>(sink: &mut (impl Sink<T> + Unpin)) -> Poll<bool> {
    poll_with(|task| Pin::new(sink).poll_ready(task)).map(|ready| ready.is_ok())
}

#[test]
fn a_sink_reserves_room_and_leaves_it_when_it_goes() {
    let (sender, receiver) = channel::bounded(1);
    let mut sink = sink_of(sender.clone());
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(poll_ready(&mut sink), Poll::Pending);
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(sender.try_send(2).is_err(), "the room is kept for the sink, which waits for it");
    assert_eq!((poll_ready(&mut sink), poll_ready(&mut sink)), (Poll::Ready(true), Poll::Ready(true)));
    drop(sink);
    assert_eq!(sender.try_send(3), Ok(()));
    assert_eq!(receiver.try_recv(), Ok(3));

    // It reserves one at a time, and only if it was asked.
    let mut sink = sink_of(sender.clone());
    assert_eq!(poll_ready(&mut sink), Poll::Ready(true));
    Pin::new(&mut sink).start_send(4).unwrap();
    assert_eq!(receiver.try_recv(), Ok(4), "it was sent at once");
    assert_eq!(sender.try_send(5), Ok(()), "nothing is reserved");
    assert!(poll_with(|task| Pin::new(&mut sink).poll_flush(task)).is_ready());
}

#[test]
fn a_closed_sink_has_sent_all_and_refuses_more() {
    let (sender, receiver) = channel::bounded(4);
    let mut sink = sink_of(sender);
    block_on(async {
        sink.feed(1).await.unwrap();
        sink.send(2).await.unwrap();
        sink.close().await.unwrap();
        assert!(sink.send(3).await.is_err_and(|error| error.value.is_none()));
        sink.close().await.unwrap();
    });
    assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1, 2]);

    // Closed from the other side: before the room, and after it.
    let (sender, receiver) = channel::bounded(1);
    let (mut late, mut early) = (sink_of(sender.clone()), sink_of(sender));
    assert_eq!(poll_ready(&mut early), Poll::Ready(true));
    drop(receiver);
    assert_eq!(poll_ready(&mut late), Poll::Ready(false));
    assert_eq!(Pin::new(&mut early).start_send("back").unwrap_err().value, Some("back"));
    assert_eq!(poll_ready(&mut early), Poll::Ready(false));
}

#[test]
#[should_panic(expected = "without a `poll_ready`")]
fn a_send_without_room_is_refused() {
    let (sender, _receiver) = channel::bounded(1);
    _ = Pin::new(&mut sink_of(sender)).start_send(1);
}

#[test]
#[should_panic(expected = "no room to reserve")]
fn a_rendezvous_is_no_sink() {
    _ = sink_of(channel::rendezvous::<u32>().0);
}

#[test]
fn a_stream_that_goes_gives_back_what_it_was_handed() {
    let (sender, receiver) = channel::bounded(1);
    let mut stream = stream_of(receiver.clone());
    assert!(stream.next().now_or_never().is_none());
    sender.send(7).unwrap();
    drop(stream);
    assert_eq!(receiver.try_recv(), Ok(7));
    // A `next` that is dropped takes nothing.
    let mut stream = stream_of(receiver);
    assert!(stream.next().now_or_never().is_none());
    sender.send(8).unwrap();
    assert_eq!(block_on(stream.next()), Some(8));
    drop(sender);
    assert_eq!((block_on(stream.next()), block_on(stream.next())), (None, None));
}

#[test]
fn a_fiber_iterates_over_a_stream() {
    for pool in [fifo(), stealing()] {
        pool.run(|| {
            let doubled = stream::iter(0..100).then(|n| async move {
                segue_core::yield_now().ok();
                n * 2
            });
            assert!(iter(doubled).eq((0..100).map(|n| n * 2)));
            let token = CancelToken::new();
            token.cancel();
            let mut endless = iter(stream::repeat(1));
            token.run(|| {
                assert_eq!(endless.next(), None);
                assert!(check().is_err());
            });
            assert_eq!(endless.next(), Some(1), "it goes on");
        })
        .unwrap();
    }
    let mut ended = iter(stream_of(sending(3, 1)));
    assert_eq!(ended.by_ref().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!((ended.next(), ended.size_hint()), (None, (0, Some(0))));
    let polled: Pin<&mut dyn Stream<Item = u32>> = pin!(stream_of(sending(1, 1)));
    assert_eq!(iter(polled).next(), Some(0));
}
