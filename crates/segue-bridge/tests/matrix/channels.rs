//! Channels: without a buffer, and with one.

use crate::rig::{HOLDS, How, MIX, ROUNDS, Structure, Until, WAITS, Way, by};
use segue::channel::{self, Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

type Ends = (Sender<usize>, Receiver<usize>);

/// Whoever receives waits for values, and whoever sends waits for a receiver or room.
async fn both_ways(paths: &[Ends; 2], way: Way, side: usize) {
    for (direction, (sender, receiver)) in paths.iter().enumerate() {
        for step in 0..MIX {
            if direction == side {
                by!(way, sender.send(step).unwrap(), sender.send_source(step).await.unwrap());
            } else {
                assert_eq!(by!(way, receiver.recv().unwrap(), receiver.recv_source().await.unwrap()), step);
            }
        }
    }
}

/// The holder meets one waiter after the other: those that receive in every other round, and else
/// those that send.
pub struct ARendezvous {
    ends: Ends,
    received: AtomicUsize,
    paths: [Ends; 2],
}

impl Structure for ARendezvous {
    const NAME: &'static str = "rendezvous channel";

    fn new() -> Self {
        let paths = [0, 1].map(|_| channel::rendezvous());
        Self { ends: channel::rendezvous(), received: AtomicUsize::new(0), paths }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        let (sender, receiver) = &self.ends;
        for _ in 0..if round < ROUNDS { 1 } else { 3 } {
            if round.is_multiple_of(2) {
                by!(way, sender.send(1).unwrap(), sender.send_source(1).await.unwrap());
            } else {
                let value = by!(way, receiver.recv().unwrap(), receiver.recv_source().await.unwrap());
                self.received.fetch_add(value, SeqCst);
            }
        }
    }

    /// A task that is dropped when it was served has sent; its source knows.
    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let (sender, receiver) = &self.ends;
        if round.is_multiple_of(2) {
            let value = how.wait(receiver.recv_source()).await;
            return value.map(|value| self.received.fetch_add(value.unwrap(), SeqCst)).is_some();
        }
        let mut sending = sender.send_source(1);
        let sent = how.wait(sending.by_ref()).await;
        assert_ne!(sent, Some(Err(segue::Closed)));
        sending.into_value().is_none()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        both_ways(&self.paths, way, side).await;
    }

    fn check(&self) {
        assert_eq!((self.received.load(SeqCst), self.ends.1.try_recv().ok()), (WAITS, None));
        assert!(self.ends.0.try_send(1).is_err() && self.paths.iter().all(|(_, receiver)| receiver.is_empty()));
    }
}

/// A value that is received and sent back, and a path in either direction.
pub struct ABounded {
    ends: Ends,
    paths: [Ends; 2],
}

impl Structure for ABounded {
    const NAME: &'static str = "bounded channel";

    fn new() -> Self {
        let (sender, receiver) = channel::bounded(1);
        sender.try_send(0).unwrap();
        Self { ends: (sender, receiver), paths: [1, 3].map(channel::bounded) }
    }

    async fn hold(self: Arc<Self>, way: Way, _round: usize, until: Until) {
        let (sender, receiver) = &self.ends;
        let value = by!(way, receiver.recv().unwrap(), receiver.recv_source().await.unwrap());
        until(way).await;
        by!(way, sender.send(value + 1).unwrap(), sender.send_source(value + 1).await.unwrap());
    }

    async fn wait(self: Arc<Self>, how: &How, _round: usize) -> bool {
        let (sender, receiver) = &self.ends;
        let Some(value) = how.wait(receiver.recv_source()).await.map(Result::unwrap) else { return false };
        by!(how.way, sender.send(value + 1).unwrap(), sender.send_source(value + 1).await.unwrap());
        true
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        both_ways(&self.paths, way, side).await;
    }

    fn check(&self) {
        assert_eq!(self.ends.1.try_recv(), Ok(HOLDS + WAITS));
        assert!(self.paths.iter().all(|(_, receiver)| receiver.is_empty()));
    }
}
