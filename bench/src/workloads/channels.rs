//! The channels that take part, under two traits: one for those whose waits are awaited and one for
//! those whose waits are calls. Used by `mvar`, `channel`, `select`, `ping_pong`, `cancellation`,
//! `chameneos`, `primes_sieve` and `wake`.
//!
//! Each is made with room for so many values, 0 at a rendezvous, or [`UNBOUNDED`].

use crossfire::{mpmc, spsc};
use std::sync::Arc;

/// The room of a channel without a bound.
pub const UNBOUNDED: usize = usize::MAX;

/// A channel of numbers, between tasks.
pub trait Tasks: 'static {
    /// The sending end.
    type Sender: Send + 'static;
    /// The receiving end.
    type Receiver: Send + 'static;

    /// An empty one with room for so many.
    fn with_room(room: usize) -> (Self::Sender, Self::Receiver);

    /// An empty one with room for one.
    fn new() -> (Self::Sender, Self::Receiver) {
        Self::with_room(1)
    }

    /// Answers whether somebody may still receive it.
    fn send(to: &mut Self::Sender, number: u64) -> impl Future<Output = bool> + Send;

    /// `None` if nobody will send any more.
    fn recv(from: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

/// A channel of numbers, between fibers or threads.
pub trait Calls: 'static {
    /// The sending end.
    type Sender: Send + 'static;
    /// The receiving end.
    type Receiver: Send + 'static;

    /// An empty one with room for so many.
    fn with_room(room: usize) -> (Self::Sender, Self::Receiver);

    /// An empty one with room for one.
    fn new() -> (Self::Sender, Self::Receiver) {
        Self::with_room(1)
    }

    /// Answers whether somebody may still receive it.
    fn send(to: &Self::Sender, number: u64) -> bool;

    /// `None` if nobody will send any more.
    fn recv(from: &mut Self::Receiver) -> Option<u64>;
}

/// Segue's `MVar`, which is never closed.
pub struct MVar;

impl Calls for MVar {
    type Sender = Arc<segue::sync::MVar<u64>>;
    type Receiver = Arc<segue::sync::MVar<u64>>;

    fn with_room(room: usize) -> (Self::Sender, Self::Receiver) {
        assert_eq!(room, 1, "it is a place for one value");
        let place = Arc::new(segue::sync::MVar::empty());
        (place.clone(), place)
    }

    fn send(to: &Self::Sender, number: u64) -> bool {
        to.put(number).is_ok()
    }

    fn recv(from: &mut Self::Receiver) -> Option<u64> {
        from.take().ok()
    }
}

macro_rules! tasks {
    ($(#[$doc:meta])* $name:ident, $new:expr, $sender:path, $receiver:path, |$received:ident| $result:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl Tasks for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn with_room(room: usize) -> (Self::Sender, Self::Receiver) {
                ($new)(room)
            }

            async fn send(to: &mut Self::Sender, number: u64) -> bool {
                to.send(number).await.is_ok()
            }

            async fn recv(from: &mut Self::Receiver) -> Option<u64> {
                let $received = from.recv().await;
                $result
            }
        }
    };
}

/// The same where to send never waits, and so is a call.
macro_rules! unbounded_tasks {
    ($(#[$doc:meta])* $name:ident, $new:expr, $sender:path, $receiver:path, |$received:ident| $result:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl Tasks for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn with_room(_: usize) -> (Self::Sender, Self::Receiver) {
                $new()
            }

            async fn send(to: &mut Self::Sender, number: u64) -> bool {
                to.send(number).is_ok()
            }

            async fn recv(from: &mut Self::Receiver) -> Option<u64> {
                let $received = from.recv().await;
                $result
            }
        }
    };
}

macro_rules! calls {
    ($(#[$doc:meta])* $name:ident, $new:expr, $sender:path, $receiver:path) => {
        $(#[$doc])*
        pub struct $name;

        impl Calls for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn with_room(room: usize) -> (Self::Sender, Self::Receiver) {
                ($new)(room)
            }

            fn send(to: &Self::Sender, number: u64) -> bool {
                to.send(number).is_ok()
            }

            fn recv(from: &mut Self::Receiver) -> Option<u64> {
                from.recv().ok()
            }
        }
    };
}

/// Makes a channel with this room, by one of two functions.
fn either<E>(room: usize, bounded: fn(usize) -> E, unbounded: fn() -> E) -> E {
    if room == UNBOUNDED { unbounded() } else { bounded(room) }
}

calls! {
    /// Segue's channel.
    Channel, |room| either(room, segue::channel::bounded, segue::channel::unbounded),
    segue::channel::Sender<u64>, segue::channel::Receiver<u64>
}
calls! {
    /// The same, where its only receiver says that it is.
    Exclusive, |room| {
        let (sender, receiver) = either(room, segue::channel::bounded, segue::channel::unbounded);
        (sender, receiver.into_exclusive().expect("it is the only one"))
    }, segue::channel::Sender<u64>, segue::channel::Exclusive<u64>
}
tasks! {
    /// Tokio's mpsc channel; one receiver only.
    Tokio, tokio::sync::mpsc::channel, tokio::sync::mpsc::Sender<u64>, tokio::sync::mpsc::Receiver<u64>, |received| received
}
unbounded_tasks! {
    /// The same without a bound.
    TokioUnbounded, tokio::sync::mpsc::unbounded_channel, tokio::sync::mpsc::UnboundedSender<u64>,
    tokio::sync::mpsc::UnboundedReceiver<u64>, |received| received
}
tasks! {
    /// Smol's channel. It has room for one at least.
    AsyncChannel, |room| either(room, async_channel::bounded, async_channel::unbounded),
    async_channel::Sender<u64>, async_channel::Receiver<u64>, |received| received.ok()
}
tasks! {
    /// Kanal, awaited.
    Kanal, |room| either(room, kanal::bounded_async, kanal::unbounded_async),
    kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>, |received| received.ok()
}

tasks! {
    /// Crossfire for one sender and one receiver, with room for one. It spins for a moment before
    /// it suspends, whoever else is ready on its worker.
    Crossfire, |_| spsc::new(), crossfire::AsyncTx<spsc::One<u64>>, crossfire::AsyncRx<spsc::One<u64>>, |received| received.ok()
}
tasks! {
    /// Crossfire for several of each, with room for one.
    CrossfireMany, |_| mpmc::new(), crossfire::MAsyncTx<mpmc::One<u64>>, crossfire::MAsyncRx<mpmc::One<u64>>, |received| received.ok()
}
tasks! {
    /// Crossfire for one sender and one receiver, with more room.
    CrossfireArray, spsc::bounded_async, crossfire::AsyncTx<spsc::Array<u64>>, crossfire::AsyncRx<spsc::Array<u64>>, |received| received.ok()
}
tasks! {
    /// Crossfire for several of each, with more room.
    CrossfireManyArray, mpmc::bounded_async, crossfire::MAsyncTx<mpmc::Array<u64>>, crossfire::MAsyncRx<mpmc::Array<u64>>, |received| received.ok()
}
unbounded_tasks! {
    /// Crossfire for one sender and one receiver, without a bound.
    CrossfireList, spsc::unbounded_async, crossfire::Tx<spsc::List<u64>>, crossfire::AsyncRx<spsc::List<u64>>, |received| received.ok()
}
unbounded_tasks! {
    /// Crossfire for several of each, without a bound.
    CrossfireManyList, mpmc::unbounded_async, crossfire::MTx<mpmc::List<u64>>, crossfire::MAsyncRx<mpmc::List<u64>>, |received| received.ok()
}

/// Flume, awaited.
pub struct Flume;

impl Tasks for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn with_room(room: usize) -> (Self::Sender, Self::Receiver) {
        either(room, flume::bounded, flume::unbounded)
    }

    async fn send(to: &mut Self::Sender, number: u64) -> bool {
        to.send_async(number).await.is_ok()
    }

    async fn recv(from: &mut Self::Receiver) -> Option<u64> {
        from.recv_async().await.ok()
    }
}

calls! {
    /// Kanal, between threads.
    KanalCalls, |room| either(room, kanal::bounded, kanal::unbounded), kanal::Sender<u64>, kanal::Receiver<u64>
}
calls! {
    /// Crossfire for one sender and one receiver, between threads, with room for one.
    CrossfireCalls, |_| spsc::new(), crossfire::Tx<spsc::One<u64>>, crossfire::Rx<spsc::One<u64>>
}
calls! {
    /// Crossfire for one sender and one receiver, between threads, with more room.
    CrossfireArrayCalls, spsc::bounded_blocking, crossfire::Tx<spsc::Array<u64>>, crossfire::Rx<spsc::Array<u64>>
}
calls! {
    /// Crossfire for one sender and one receiver, between threads, without a bound.
    CrossfireListCalls, |_| spsc::unbounded_blocking(), crossfire::Tx<spsc::List<u64>>, crossfire::Rx<spsc::List<u64>>
}
calls! {
    /// Flume, between threads.
    FlumeCalls, |room| either(room, flume::bounded, flume::unbounded), flume::Sender<u64>, flume::Receiver<u64>
}
calls! {
    /// Crossbeam's channel.
    Crossbeam, |room| either(room, crossbeam_channel::bounded, crossbeam_channel::unbounded),
    crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>
}
calls! {
    /// The standard library's, with a bound.
    Std, std::sync::mpsc::sync_channel, std::sync::mpsc::SyncSender<u64>, std::sync::mpsc::Receiver<u64>
}
calls! {
    /// The standard library's, without.
    StdUnbounded, |_| std::sync::mpsc::channel(), std::sync::mpsc::Sender<u64>, std::sync::mpsc::Receiver<u64>
}
calls! {
    /// May's channel for one sender and one receiver, which has no bound.
    May, |_| may::sync::spsc::channel(), may::sync::spsc::Sender<u64>, may::sync::spsc::Receiver<u64>
}
calls! {
    /// May's channel for several senders, likewise.
    MayToOne, |_| may::sync::mpsc::channel(), may::sync::mpsc::Sender<u64>, may::sync::mpsc::Receiver<u64>
}
calls! {
    /// May's channel for several of each, likewise.
    MayMany, |_| may::sync::mpmc::channel(), may::sync::mpmc::Sender<u64>, may::sync::mpmc::Receiver<u64>
}
