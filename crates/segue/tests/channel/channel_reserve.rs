//! Room in a channel that is reserved: whose it is, and what becomes of it.

use crate::meet;

use meet::{Task, everywhere, simulated};
use segue::channel::{self, TrySendError};
use segue::{CancelToken, Closed, Rejected, WaitError, scope, yield_now};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn room_that_is_reserved_is_nobody_elses() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(2);
        let (first, second) = (sender.reserve().unwrap(), sender.try_reserve().unwrap().unwrap());
        assert!(sender.is_full() && sender.is_empty());
        assert_eq!(sender.try_send(0).unwrap_err().error, TrySendError::Full);
        assert!(sender.try_reserve().unwrap().is_none());
        // The order is that in which they are sent.
        second.send(1).unwrap();
        assert_eq!(receiver.recv(), Ok(1));
        sender.send(2).unwrap();
        first.send(3).unwrap();
        assert!(receiver.try_iter().eq([2, 3]));
        // Unused, it leaves the room.
        drop(sender.reserve().unwrap());
        assert!(!sender.is_full());
        // To one who waits.
        let rooms = [(); 2].map(|()| sender.reserve().unwrap());
        let mut waits = Task::waiting(sender.send_source(4));
        drop(rooms);
        assert_eq!((waits.poll(), receiver.recv()), (Some(Ok(())), Ok(4)));
        // Into the hands of a receiver that waits, and the room is free again.
        let rooms = [(); 2].map(|()| sender.reserve().unwrap());
        let mut receives = Task::waiting(receiver.recv_source());
        let mut reserves = Task::waiting(sender.reserve_source());
        let [room, _kept] = rooms;
        room.send(5).unwrap();
        assert_eq!(receives.poll(), Some(Ok(5)));
        reserves.poll().unwrap().unwrap().send(6).unwrap();
        assert_eq!(receiver.recv(), Ok(6));
    });
}

#[test]
fn room_that_was_reserved_before_the_end_gives_the_value_back() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let room = sender.reserve().unwrap();
        receiver.close();
        assert_eq!(room.send("mine"), Err(Rejected { value: "mine", error: Closed }));
        assert_eq!(receiver.recv(), Err(WaitError::Closed));
        let (sender, _receiver) = channel::unbounded::<u8>();
        let room = sender.reserve().unwrap();
        sender.close();
        drop(room);
    });
}

#[test]
fn those_who_reserve_and_those_who_send_take_turns() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(0).unwrap();
        let mut sends = [1, 2].map(|n| Task::waiting(sender.send_source(n)));
        let mut reserves = [(); 2].map(|()| Task::waiting(sender.reserve_source()));
        assert_eq!((receiver.recv(), sends[0].poll()), (Ok(0), Some(Ok(()))));
        assert_eq!(receiver.recv(), Ok(1));
        assert_eq!((sends[1].wakes(), reserves[0].wakes()), (0, 1), "it is the turn of one who reserves");
        drop(reserves[0].poll().unwrap().unwrap());
        assert_eq!((sends[1].poll(), reserves[1].wakes(), receiver.recv()), (Some(Ok(())), 0, Ok(2)));
        drop(reserves[1].poll().unwrap().unwrap());
        assert!(!sender.is_full());
    });
}

#[test]
fn a_receiver_takes_from_a_sender_that_waits_beside_reserved_room() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let room = sender.reserve().unwrap();
        let mut waits = Task::waiting(sender.send_source(1));
        assert_eq!((receiver.try_recv(), waits.poll()), (Ok(1), Some(Ok(()))));
        let mut waits = Task::waiting(sender.send_source(2));
        assert_eq!((receiver.recv(), waits.poll()), (Ok(2), Some(Ok(()))));
        let mut waits = Task::waiting(sender.send_source(3));
        let mut exclusive = receiver.into_exclusive().unwrap();
        assert_eq!((exclusive.try_recv(), waits.poll()), (Ok(3), Some(Ok(()))));
        room.send(4).unwrap();
        assert_eq!(exclusive.try_recv(), Ok(4));
    });
}

/// Of room for two, no more than two are ever taken, whoever sends, reserves, is cancelled or drops
/// what was reserved; and none is lost.
#[test]
fn there_is_never_more_reserved_and_buffered_than_there_is_room() {
    const EACH: usize = 6;
    let [unused, cancelled] = [const { AtomicUsize::new(0) }; 2];
    simulated(300, |seed| {
        let (sender, receiver) = channel::bounded(2);
        let (sent, held) = (Mutex::new(BTreeSet::new()), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..4 {
                let (sender, sent, held, unused, cancelled) = (sender.clone(), &sent, &held, &unused, &cancelled);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| {
                        for value in n * EACH..(n + 1) * EACH {
                            if n == 0 {
                                if sender.send(value).is_ok() {
                                    sent.lock().unwrap().insert(value);
                                }
                                continue;
                            }
                            let Ok(room) = sender.reserve() else {
                                cancelled.fetch_add(1, SeqCst);
                                continue;
                            };
                            assert!(held.fetch_add(1, SeqCst) < 2, "three have room");
                            let _ = yield_now();
                            held.fetch_sub(1, SeqCst);
                            if (value as u64 + seed).is_multiple_of(3) {
                                drop(room);
                                unused.fetch_add(1, SeqCst);
                            } else {
                                room.send(value).unwrap();
                                sent.lock().unwrap().insert(value);
                            }
                            assert!(sender.len() <= 2);
                        }
                    });
                });
                if (n as u64 + seed).is_multiple_of(4) {
                    s.spawn(move || {
                        (0..seed % 16).for_each(|_| drop(yield_now()));
                        canceller.cancel();
                    });
                }
            }
            let weak = sender.downgrade();
            drop(sender);
            let received: Vec<_> = receiver.iter().collect();
            assert!(weak.upgrade().is_none());
            assert_eq!(received.len(), received.iter().collect::<BTreeSet<_>>().len(), "a value came twice");
            assert_eq!(received.into_iter().collect::<BTreeSet<_>>(), *sent.lock().unwrap());
        });
    });
    assert!(unused.into_inner() > 0 && cancelled.into_inner() > 0);
}
