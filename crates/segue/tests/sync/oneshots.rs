//! Channels for one value: sent, received, closed from either side, chosen and dropped.

use crate::meet;

use meet::{block_on, everywhere, poll_once, task};
use segue::channel::TryRecvError;
use segue::channel::oneshot::{Receiver, Sender, channel};
use segue::{Closed, WaitError, after, scope, select, timeout, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

fn number() -> (Sender<u32>, Receiver<u32>) {
    channel()
}

#[test]
fn a_value_is_received_whether_it_is_there_or_comes() {
    everywhere(|| {
        let (sender, receiver) = number();
        sender.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
        let (sender, receiver) = number();
        let received = scope(|s| {
            let waits = s.spawn(|| receiver.recv());
            let _ = yield_now();
            sender.send(2).unwrap();
            waits.join().unwrap()
        });
        assert_eq!(received, Ok(2));
        let (sender, mut receiver) = number();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        sender.send(3).unwrap();
        assert_eq!(block_on(receiver.recv_source()), Ok(3));
        assert_eq!((receiver.try_recv(), receiver.recv()), (Err(TryRecvError::Closed), Err(WaitError::Closed)));
    });
}

#[test]
fn either_side_sees_that_the_other_has_gone() {
    everywhere(|| {
        let (sender, mut receiver) = number();
        drop(sender);
        assert_eq!((receiver.try_recv(), receiver.recv()), (Err(TryRecvError::Closed), Err(WaitError::Closed)));
        let (sender, receiver) = number();
        assert!(!sender.is_closed() && sender.closed_source().attempt().is_none());
        scope(|s| {
            let waits = s.spawn(|| sender.closed_source().wait());
            let _ = yield_now();
            drop(receiver);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert!(sender.is_closed());
        assert_eq!(block_on(sender.closed_source()), ());
        let rejected = sender.send(4).unwrap_err();
        assert_eq!((rejected.value, rejected.error), (4, Closed));
    });
}

#[test]
fn a_wait_that_is_late_chosen_against_or_dropped_loses_nothing() {
    everywhere(|| {
        let (sender, mut receiver) = number();
        select! {
            received = receiver.recv_source() => panic!("{received:?}"),
            () = after(MILLI) => {}
        }
        .unwrap();
        assert!(timeout(MILLI, || receiver.recv_source().wait()).unwrap_err().timed_out());
        assert!(timeout(MILLI, || sender.closed_source().wait()).unwrap_err().timed_out());
        {
            let mut waits = task(receiver.recv_source());
            assert_eq!(poll_once(&mut waits), None);
            sender.send(5).unwrap();
            // It was told, and is dropped before it looks.
        }
        assert_eq!(receiver.recv(), Ok(5));
    });
}

#[test]
fn conservation_of_values_while_both_sides_go() {
    let (received, back) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..4_000 {
        let (sender, mut receiver) = number();
        thread::scope(|t| {
            t.spawn(|| {
                (0..round % 7 * 10).for_each(|_| std::hint::spin_loop());
                let came_back = sender.send(1).is_err();
                back.fetch_add(usize::from(came_back), SeqCst);
            });
            (0..round % 5 * 10).for_each(|_| std::hint::spin_loop());
            let got = if round % 2 == 0 { receiver.recv().is_ok() } else { receiver.try_recv().is_ok() };
            received.fetch_add(usize::from(got), SeqCst);
        });
        // One that was sent, and not received, went with the receiver.
        assert!(received.load(SeqCst) + back.load(SeqCst) <= round + 1);
    }
    assert!(received.load(SeqCst) >= 2_000 && back.load(SeqCst) > 0, "{received:?} {back:?}");
}
