//! Channels: without a buffer, and with one; broadcasts and watched values.

use crate::rig::{HOLDS, How, MIX, ROUNDS, Structure, Until, WAITS, Way, by};
use segue::channel::{self, Receiver, Sender, broadcast, watch};
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
pub struct ABuffered<const BOUNDED: bool> {
    ends: Ends,
    paths: [Ends; 2],
}

impl<const BOUNDED: bool> Structure for ABuffered<BOUNDED> {
    const NAME: &'static str = if BOUNDED { "bounded channel" } else { "unbounded channel" };

    fn new() -> Self {
        let with_room = |capacity| if BOUNDED { channel::bounded(capacity) } else { channel::unbounded() };
        let (sender, receiver) = with_room(1);
        sender.try_send(0).unwrap();
        Self { ends: (sender, receiver), paths: [1, 3].map(with_room) }
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

/// One for each turn, whose receivers are copies of one that has received nothing yet.
pub struct ABroadcast {
    rounds: Vec<(broadcast::Sender<usize>, broadcast::Receiver<usize>)>,
    paths: [(broadcast::Sender<usize>, broadcast::Receiver<usize>); 2],
}

impl Structure for ABroadcast {
    const NAME: &'static str = "broadcast";

    fn new() -> Self {
        let rounds = (0..HOLDS).map(|_| broadcast::channel(1)).collect();
        Self { rounds, paths: [0, 1].map(|_| broadcast::channel(MIX)) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        self.rounds[round].0.send(round).unwrap();
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let mut receiver = self.rounds[round].1.clone();
        let received = how.wait(receiver.recv_source()).await;
        received.inspect(|received| assert_eq!(*received, Ok(round))).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        let mut receiver = self.paths[1 - side].1.clone();
        for step in 0..MIX {
            self.paths[side].0.send(step).unwrap();
            assert_eq!(by!(way, receiver.recv().unwrap(), receiver.recv_source().await.unwrap()), step);
        }
    }

    fn check(&self) {
        let kept = |(round, (_, receiver)): (usize, &(_, broadcast::Receiver<usize>))| {
            receiver.clone().try_recv() == Some(Ok(round))
        };
        assert!(self.rounds.iter().enumerate().all(kept));
    }
}

/// One for each turn, and one that each side changes step by step.
pub struct AWatch {
    rounds: Vec<(watch::Sender<usize>, watch::Receiver<usize>)>,
    steps: [(watch::Sender<usize>, watch::Receiver<usize>); 2],
}

impl Structure for AWatch {
    const NAME: &'static str = "watch";

    fn new() -> Self {
        let rounds = (0..HOLDS).map(|_| watch::channel(0)).collect();
        Self { rounds, steps: [0, 1].map(|_| watch::channel(0)) }
    }

    async fn hold(self: Arc<Self>, way: Way, round: usize, until: Until) {
        until(way).await;
        self.rounds[round].0.set(round + 1);
    }

    async fn wait(self: Arc<Self>, how: &How, round: usize) -> bool {
        let mut receiver = self.rounds[round].1.clone();
        let changed = how.wait(receiver.changed_source()).await;
        changed.inspect(|changed| assert_eq!((*changed, *receiver.get()), (Ok(()), round + 1))).is_some()
    }

    async fn mix(self: Arc<Self>, way: Way, side: usize) {
        let mut others = self.steps[1 - side].1.clone();
        for step in 1..=MIX {
            self.steps[side].0.set(step);
            while *others.get() < step {
                by!(way, others.changed().unwrap(), others.changed_source().await.unwrap());
            }
        }
    }

    fn check(&self) {
        assert!(self.rounds.iter().enumerate().all(|(round, (sender, _))| *sender.get() == round + 1));
        assert!(self.steps.iter().all(|(sender, _)| *sender.get() == MIX));
    }
}
