//! The front of an unbounded channel: what one of its receivers has taken off the buffer for all.

use crate::meet;

use meet::{Task, everywhere};
use segue::channel::{self, Options, TryRecvError};
use segue::{WaitError, timeout};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn what_one_receiver_brings_forward_is_for_all_and_before_what_is_sent_later() {
    everywhere(|| {
        let (sender, receiver) = channel::unbounded();
        let other = receiver.clone();
        (0..8).for_each(|n| sender.send(n).unwrap());
        assert_eq!(receiver.recv(), Ok(0));
        (8..10).for_each(|n| sender.send(n).unwrap());
        assert_eq!((other.recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert_eq!(Task::new(other.recv_source()).poll(), Some(Ok(3)));
        assert_eq!(timeout(MILLI, || receiver.recv()).unwrap(), 4);
        assert_eq!((sender.len(), other.is_empty(), sender.is_full()), (5, false, false));
        assert!(other.try_iter().take(2).eq(5..7));
        // The only one has all of it, and gives it back in its place.
        drop(other);
        let mut exclusive = receiver.into_exclusive().unwrap();
        assert_eq!((exclusive.recv(), exclusive.len(), sender.len()), (Ok(7), 2, 0));
        sender.send(10).unwrap();
        let receiver = exclusive.into_shared();
        assert!(receiver.try_iter().eq(8..11));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

#[test]
fn a_value_that_comes_back_goes_before_what_was_brought_forward() {
    everywhere(|| {
        let (sender, receiver) = channel::unbounded();
        let task = Task::waiting(receiver.recv_source());
        (0..4).for_each(|n| sender.send(n).unwrap());
        assert_eq!(receiver.recv(), Ok(1));
        drop(task);
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(0), Ok(2)));
        sender.close();
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(3), Err(WaitError::Closed)));
    });
}

#[test]
fn what_was_brought_forward_and_is_never_received_is_undelivered_first() {
    everywhere(|| {
        let undelivered = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&undelivered);
        let (sender, receiver) = Options::unbounded().on_undelivered(move |n| keeps.lock().unwrap().push(n)).build();
        (0..4).for_each(|n| sender.send(n).unwrap());
        assert_eq!(receiver.recv(), Ok(0));
        (4..6).for_each(|n| sender.send(n).unwrap());
        drop(receiver);
        assert_eq!(*undelivered.lock().unwrap(), [1, 2, 3, 4, 5]);
        assert!(sender.is_closed() && sender.is_empty());
    });
}

/// Two senders and two receivers, each on a thread.
#[test]
fn each_receiver_gets_the_values_of_each_sender_in_their_order() {
    let count = if cfg!(miri) { 50 } else { 20_000 };
    let (sender, receiver) = channel::unbounded();
    let received: Vec<Vec<(usize, usize)>> = thread::scope(|s| {
        let receivers = [receiver.clone(), receiver].map(|receiver| s.spawn(move || receiver.iter().collect()));
        [sender.clone(), sender].into_iter().enumerate().for_each(|(who, sender)| {
            s.spawn(move || (0..count).for_each(|n| sender.send((who, n)).unwrap()));
        });
        receivers.map(|receiver| receiver.join().unwrap()).into()
    });
    for who in 0..2 {
        let of = |values: &[(usize, usize)]| -> Vec<usize> {
            values.iter().filter(|value| value.0 == who).map(|value| value.1).collect()
        };
        assert!(received.iter().all(|values| of(values).is_sorted()));
        let mut all: Vec<_> = received.iter().flat_map(|values| of(values)).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..count));
    }
}
