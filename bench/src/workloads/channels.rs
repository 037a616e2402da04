//! The channels of capacity 1 that take part, under two traits: one for those whose waits are
//! awaited and one for those whose waits are calls. Used by `mvar`, `ping_pong`, `cancellation`,
//! `chameneos`, `primes_sieve` and `wake`.

use crossfire::{mpmc, spsc};
use std::sync::Arc;

/// A channel of numbers with room for one, between tasks.
pub trait Tasks: 'static {
    /// The sending end.
    type Sender: Send + 'static;
    /// The receiving end.
    type Receiver: Send + 'static;

    /// An empty one.
    fn new() -> (Self::Sender, Self::Receiver);

    /// Answers whether somebody may still receive it.
    fn send(to: &mut Self::Sender, number: u64) -> impl Future<Output = bool> + Send;

    /// `None` if nobody will send any more.
    fn recv(from: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

/// A channel of numbers with room for one, between fibers or threads.
pub trait Calls: 'static {
    /// The sending end.
    type Sender: Send + 'static;
    /// The receiving end.
    type Receiver: Send + 'static;

    /// An empty one.
    fn new() -> (Self::Sender, Self::Receiver);

    /// Answers whether somebody may still receive it.
    fn send(to: &Self::Sender, number: u64) -> bool;

    /// `None` if nobody will send any more.
    fn recv(from: &Self::Receiver) -> Option<u64>;
}

/// Segue's `MVar`, which is never closed.
pub struct MVar;

impl Calls for MVar {
    type Sender = Arc<segue::sync::MVar<u64>>;
    type Receiver = Arc<segue::sync::MVar<u64>>;

    fn new() -> (Self::Sender, Self::Receiver) {
        let place = Arc::new(segue::sync::MVar::empty());
        (place.clone(), place)
    }

    fn send(to: &Self::Sender, number: u64) -> bool {
        to.put(number).is_ok()
    }

    fn recv(from: &Self::Receiver) -> Option<u64> {
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

            fn new() -> (Self::Sender, Self::Receiver) {
                ($new)(1)
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

macro_rules! calls {
    ($(#[$doc:meta])* $name:ident, $new:expr, $sender:path, $receiver:path) => {
        $(#[$doc])*
        pub struct $name;

        impl Calls for $name {
            type Sender = $sender;
            type Receiver = $receiver;

            fn new() -> (Self::Sender, Self::Receiver) {
                ($new)(1)
            }

            fn send(to: &Self::Sender, number: u64) -> bool {
                to.send(number).is_ok()
            }

            fn recv(from: &Self::Receiver) -> Option<u64> {
                from.recv().ok()
            }
        }
    };
}

tasks! {
    /// Tokio's mpsc channel; one receiver only.
    Tokio, tokio::sync::mpsc::channel, tokio::sync::mpsc::Sender<u64>, tokio::sync::mpsc::Receiver<u64>, |received| received
}
tasks! {
    /// Smol's channel.
    AsyncChannel, async_channel::bounded, async_channel::Sender<u64>, async_channel::Receiver<u64>, |received| received.ok()
}
tasks! {
    /// Kanal, awaited.
    Kanal, kanal::bounded_async, kanal::AsyncSender<u64>, kanal::AsyncReceiver<u64>, |received| received.ok()
}
tasks! {
    /// Crossfire for one sender and one receiver. It spins for a moment before it suspends, whoever
    /// else is ready on its worker.
    Crossfire, |_| spsc::new(), crossfire::AsyncTx<spsc::One<u64>>, crossfire::AsyncRx<spsc::One<u64>>, |received| received.ok()
}
tasks! {
    /// Crossfire for several of each.
    CrossfireMany, |_| mpmc::new(), crossfire::MAsyncTx<mpmc::One<u64>>, crossfire::MAsyncRx<mpmc::One<u64>>, |received| received.ok()
}

/// Flume: one channel for both traits.
pub struct Flume;

impl Tasks for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn new() -> (Self::Sender, Self::Receiver) {
        flume::bounded(1)
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
    KanalCalls, kanal::bounded, kanal::Sender<u64>, kanal::Receiver<u64>
}
calls! {
    /// Crossfire for one sender and one receiver, between threads.
    CrossfireCalls, |_| spsc::new(), crossfire::Tx<spsc::One<u64>>, crossfire::Rx<spsc::One<u64>>
}
calls! {
    /// Flume, between threads.
    FlumeCalls, flume::bounded, flume::Sender<u64>, flume::Receiver<u64>
}
calls! {
    /// Crossbeam's channel.
    Crossbeam, crossbeam_channel::bounded, crossbeam_channel::Sender<u64>, crossbeam_channel::Receiver<u64>
}
calls! {
    /// The standard library's.
    Std, std::sync::mpsc::sync_channel, std::sync::mpsc::SyncSender<u64>, std::sync::mpsc::Receiver<u64>
}

/// May's channel for one sender and one receiver, which has no bound.
pub struct May;

impl Calls for May {
    type Sender = may::sync::spsc::Sender<u64>;
    type Receiver = may::sync::spsc::Receiver<u64>;

    fn new() -> (Self::Sender, Self::Receiver) {
        may::sync::spsc::channel()
    }

    fn send(to: &Self::Sender, number: u64) -> bool {
        to.send(number).is_ok()
    }

    fn recv(from: &Self::Receiver) -> Option<u64> {
        from.recv().ok()
    }
}
