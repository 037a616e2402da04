//! Channels: what each call does, on every scheduler, on threads and in tasks.
//!
//! `channel_model.rs` has sequences of calls, `channel_delivery.rs` what becomes of values under
//! stress, `channel_front.rs` what several receivers share, `channel_reserve.rs` room that is
//! reserved, `channel_selects.rs` choices, `channel_misuse.rs` bad input.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed};
use segue::channel::{self, MAX_CAPACITY, Options, Receiver, Sender, TryRecvError, TrySendError, WeakSender};
use segue::{CancelToken, Closed, Rejected, WaitError, scope, timeout, yield_now};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// One of each kind, with how many values it has room for.
fn each(mut body: impl FnMut(Option<usize>, Sender<usize>, Receiver<usize>)) {
    for capacity in [0, 1, 3] {
        let (sender, receiver) = channel::bounded(capacity);
        body(Some(capacity), sender, receiver);
    }
    let (sender, receiver) = channel::unbounded();
    body(None, sender, receiver);
}

#[test]
fn values_come_in_the_order_in_which_they_were_sent() {
    everywhere(|| {
        each(|_, sender, receiver| {
            scope(|s| {
                s.spawn(move || (0..20).for_each(|n| sender.send(n).unwrap()));
                for n in 0..20 {
                    assert_eq!(receiver.recv(), Ok(n));
                }
                assert_eq!(receiver.recv(), Err(WaitError::Closed));
            });
        });
    });
}

#[test]
fn an_exclusive_receiver_gets_them_in_the_same_order() {
    everywhere(|| {
        each(|_, sender, receiver| {
            scope(|s| {
                s.spawn(move || (0..20).for_each(|n| sender.send(n).unwrap()));
                assert!(receiver.into_iter().eq(0..20));
            });
        });
    });
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    everywhere(|| {
        each(|capacity, sender, receiver| {
            assert_eq!((sender.capacity(), receiver.capacity()), (capacity, capacity));
            let room = capacity.unwrap_or(100);
            (0..room).for_each(|n| sender.try_send(n).unwrap());
            assert_eq!((sender.len(), receiver.len(), sender.is_empty()), (room, room, room == 0));
            if capacity.is_some() {
                assert_eq!(sender.try_send(room), Err(Rejected { value: room, error: TrySendError::Full }));
                assert!(sender.is_full() && receiver.is_full());
                let mut waits = Task::waiting(sender.send_source(room));
                assert_eq!((receiver.try_recv(), waits.wakes()), (Ok(0), 1));
                assert_eq!(waits.poll(), Some(Ok(())));
            } else {
                assert!(!sender.is_full());
            }
            let rest = if capacity.is_some() { 1..room + 1 } else { 0..room };
            assert!(receiver.try_iter().eq(rest));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        });
    });
}

#[test]
fn at_a_rendezvous_either_side_waits_for_the_other() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        let mut first = Task::waiting(sender.send_source(1));
        let mut second = Task::waiting(sender.send_source(2));
        assert_eq!((receiver.recv(), first.poll(), second.wakes()), (Ok(1), Some(Ok(())), 0));
        assert_eq!((receiver.try_recv(), second.poll()), (Ok(2), Some(Ok(()))));
        let mut receives = [(); 2].map(|()| Task::waiting(receiver.recv_source()));
        assert_eq!((sender.send(3), sender.try_send(4)), (Ok(()), Ok(())));
        assert_eq!(receives.each_mut().map(Task::poll), [Some(Ok(3)), Some(Ok(4))]);
        assert!(sender.try_send(5).is_err() && receiver.try_recv().is_err());
        assert!(sender.is_empty() && sender.is_full());
    });
}

#[test]
fn whoever_waits_is_served_in_the_order_of_arrival_and_overtaken_by_nobody() {
    everywhere(|| {
        each(|capacity, sender, receiver| {
            let mut receives = [(); 3].map(|()| Task::waiting(receiver.recv_source()));
            (0..3).for_each(|n| sender.send(n).unwrap());
            // They were handed them, so there is none for others.
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(receives.each_mut().map(Task::poll), [0, 1, 2].map(|n| Some(Ok(n))));
            let Some(room) = capacity else { return };
            (0..room).for_each(|n| sender.send(n).unwrap());
            let mut sends = [0, 1, 2].map(|n| Task::waiting(sender.send_source(room + n)));
            for n in 0..room + 3 {
                assert_eq!(receiver.try_recv(), Ok(n));
                assert_eq!(sends.iter().filter(|send| send.wakes() == 1).count(), 3.min(n + 1));
            }
            assert!(sends.iter_mut().all(|send| send.poll() == Some(Ok(()))));
        });
    });
}

/// Ends a channel, given some of either side.
type Ends = fn(&mut Vec<Sender<usize>>, &mut Vec<Receiver<usize>>);

#[test]
fn it_is_closed_by_either_side_and_by_the_last_end_of_either() {
    let ways: [Ends; 4] = [
        |senders, _| assert!(senders[0].close() && !senders[0].close()),
        |_, receivers| assert!(receivers[0].close() && !receivers[0].close()),
        |senders, _| senders.clear(),
        |_, receivers| receivers.clear(),
    ];
    everywhere(|| {
        for (number, way) in ways.into_iter().enumerate() {
            each(|capacity, sender, receiver| {
                let weak = sender.downgrade();
                let room = capacity.unwrap_or(3).min(3);
                (0..room).for_each(|n| sender.send(n).unwrap());
                let mut senders = vec![sender.clone(), sender.clone()];
                let mut receivers = vec![receiver.clone(), receiver];
                let keeps_open = if number == 2 { weak.upgrade().unwrap() } else { sender.clone() };
                drop(sender);
                if number == 2 {
                    drop(keeps_open);
                    way(&mut senders, &mut receivers);
                    assert!(weak.upgrade().is_none());
                } else {
                    way(&mut senders, &mut receivers);
                    assert!(keeps_open.is_closed());
                    assert_eq!(keeps_open.send(9), Err(Rejected { value: 9, error: WaitError::Closed }));
                    assert_eq!(keeps_open.try_send(9), Err(Rejected { value: 9, error: TrySendError::Closed }));
                    keeps_open.closed_source().wait().unwrap();
                    if room > 0 {
                        assert!(matches!(keeps_open.reserve(), Err(WaitError::Closed)));
                        assert!(matches!(keeps_open.try_reserve(), Err(Closed)));
                    }
                    assert_eq!(keeps_open.len(), if number == 3 { 0 } else { room });
                }
                if let [receiver, _] = &receivers[..] {
                    assert!(receiver.is_closed());
                    assert!(receiver.iter().eq(0..room), "what is buffered is received");
                    assert_eq!(receiver.recv(), Err(WaitError::Closed));
                    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
                }
            });
        }
    });
}

#[test]
fn the_end_reaches_all_who_wait_and_values_come_back() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous::<usize>();
        let receives = [(); 3].map(|()| Task::waiting(receiver.recv_source()));
        let ends = [(); 2].map(|()| Task::waiting(sender.closed_source()));
        assert!(receiver.close());
        assert!(receives.map(|mut task| task.poll()) == [Some(Err(Closed)); 3]);
        assert!(ends.map(|mut task| task.poll()) == [Some(()); 2]);

        let (sender, receiver) = channel::bounded(1);
        sender.send(String::from("buffered")).unwrap();
        scope(|s| {
            let waits = s.spawn(|| sender.send("mine".into()).unwrap_err());
            let reserves = s.spawn(|| sender.reserve().map(drop));
            let _ = (yield_now(), yield_now());
            receiver.close();
            assert_eq!(waits.join().unwrap(), Rejected { value: "mine".into(), error: WaitError::Closed });
            assert_eq!(reserves.join().unwrap(), Err(WaitError::Closed));
        });
        assert_eq!(receiver.recv().as_deref(), Ok("buffered"));
    });
}

#[test]
fn a_cancelled_call_has_no_effect_and_a_value_comes_back() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel();
        let (sender, receiver) = channel::bounded(1);
        let refused = token.run(|| sender.send(1)).unwrap_err();
        assert!(refused.value == 1 && matches!(refused.error, WaitError::Cancelled(_)) && sender.is_empty());
        assert!(matches!(token.run(|| sender.reserve().map(drop)), Err(WaitError::Cancelled(_))));
        sender.send(2).unwrap();
        assert!(matches!(token.run(|| receiver.recv()), Err(WaitError::Cancelled(_))));
        // In the middle of the wait.
        let refused = timeout(MILLI, || sender.send(3)).unwrap_err();
        assert!(
            refused.value == 3 && matches!(refused.error, WaitError::Cancelled(cancelled) if cancelled.timed_out())
        );
        assert!(timeout(MILLI, || sender.reserve().map(drop)).is_err());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
        assert!(timeout(MILLI, || receiver.recv()).is_err());
        // An iterator ends.
        sender.send(4).unwrap();
        assert_eq!((token.run(|| receiver.iter().count()), receiver.len()), (0, 1));
        let mut exclusive = receiver.into_exclusive().unwrap();
        assert!(matches!(token.run(|| exclusive.recv()), Err(WaitError::Cancelled(_))));
        // What never waits ignores it.
        assert_eq!(token.run(|| exclusive.try_recv()), Ok(4));
        assert_eq!(token.run(|| sender.try_send(5)), Ok(()));
    });
}

#[test]
fn ends_are_counted_and_told_apart() {
    let (sender, receiver) = channel::bounded::<u8>(1);
    assert_eq!((sender.sender_count(), sender.receiver_count()), (1, 1));
    let (others, other) = (vec![sender.clone(), sender.clone()], receiver.clone());
    assert_eq!((receiver.sender_count(), receiver.receiver_count()), (3, 2));
    assert!(sender.same_channel(&others[1]) && receiver.same_channel(&other));
    let (another, another_receiver) = channel::bounded::<u8>(1);
    assert!(!sender.same_channel(&another) && !receiver.same_channel(&another_receiver));
    drop(others);
    drop(receiver);
    assert_eq!((other.sender_count(), sender.receiver_count(), sender.is_closed()), (1, 1, false));
    drop(other);
    assert_eq!((sender.receiver_count(), sender.is_closed()), (0, true));
}

#[test]
fn a_weak_sender_keeps_nothing_open() {
    everywhere(|| {
        let (sender, receiver) = channel::unbounded();
        let weak: WeakSender<u32> = sender.downgrade();
        assert_eq!(sender.sender_count(), 1);
        let strong = weak.clone().upgrade().unwrap();
        assert!(strong.same_channel(&sender));
        drop(sender);
        strong.send(1).unwrap();
        assert!(!receiver.is_closed());
        strong.close();
        // Closed, but a sender is left.
        assert!(weak.upgrade().unwrap().send(2).is_err());
        drop(strong);
        assert!(weak.upgrade().is_none());
        assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1]);
    });
}

/// The last sender goes while others make senders of weak ones: the channel is open as long as
/// one of them has a sender, and not longer.
#[test]
fn the_last_sender_goes_once() {
    let (upgraded, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
    meet::simulated(200, |_| {
        let (sender, receiver) = channel::unbounded();
        let weak = sender.downgrade();
        scope(|s| {
            s.spawn(move || drop(sender));
            for n in 0..3 {
                let (weak, upgraded, late) = (&weak, &upgraded, &late);
                s.spawn(move || match weak.upgrade() {
                    Some(strong) => {
                        let _ = yield_now();
                        strong.send(n).unwrap();
                        upgraded.fetch_add(1, SeqCst);
                    }
                    None => drop(late.fetch_add(1, SeqCst)),
                });
            }
            let before = receiver.iter().count();
            assert!(before <= 3 && receiver.is_closed() && weak.upgrade().is_none());
        });
    });
    assert!(upgraded.into_inner() > 0 && late.into_inner() > 0);
}

#[test]
fn an_exclusive_receiver_is_the_only_one() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(3);
        let other = receiver.clone();
        let receiver = receiver.into_exclusive().unwrap_err();
        drop(other);
        (0..3).for_each(|n| sender.send(n).unwrap());
        let mut exclusive = receiver.into_exclusive().unwrap();
        assert_eq!((exclusive.len(), exclusive.try_recv(), exclusive.len()), (3, Ok(0), 2));
        // It has them, so there is room for as many again.
        assert_eq!(sender.len(), 0);
        (3..6).for_each(|n| sender.send(n).unwrap());
        assert!(sender.is_full() && exclusive.len() == 5 && !exclusive.is_empty());
        // Back to the front.
        let receiver = exclusive.into_shared();
        assert_eq!((receiver.len(), sender.try_send(6).is_err()), (5, true));
        let second = receiver.clone();
        assert_eq!((receiver.recv(), second.recv(), receiver.len()), (Ok(1), Ok(2), 3));
        drop(second);
        let mut exclusive = receiver.into_exclusive().unwrap();
        assert!(exclusive.close() && exclusive.is_closed() && !exclusive.close());
        assert_eq!([(); 3].map(|()| exclusive.recv()), [Ok(3), Ok(4), Ok(5)]);
        assert_eq!((exclusive.recv(), exclusive.try_recv()), (Err(WaitError::Closed), Err(TryRecvError::Closed)));
    });
}

#[test]
fn a_value_that_comes_back_goes_to_the_next_receiver_and_before_all_others() {
    everywhere(|| {
        each(|capacity, sender, receiver| {
            let (first, mut second) = (Task::waiting(receiver.recv_source()), Task::waiting(receiver.recv_source()));
            sender.send(1).unwrap();
            drop(first);
            assert_eq!(second.poll(), Some(Ok(1)));
            drop(second);
            let (first, second) = (Task::waiting(receiver.recv_source()), Task::waiting(receiver.recv_source()));
            (2..4).for_each(|n| sender.send(n).unwrap());
            let mut sends = Task::new(sender.send_source(4));
            let sent = sends.poll().is_some();
            assert_eq!(sent, capacity != Some(0));
            drop(second);
            drop(first);
            assert_eq!(sender.len(), 2 + usize::from(sent));
            assert!(receiver.try_iter().eq(2..5));
            assert!(sent || sends.poll().is_some());
            // Of an exclusive receiver, too.
            let mut exclusive = receiver.into_exclusive().unwrap();
            let task = Task::waiting(exclusive.recv_source());
            sender.send(5).unwrap();
            drop(task);
            assert_eq!(exclusive.recv(), Ok(5));
        });
    });
}

#[test]
fn what_was_sent_and_is_never_received_goes_to_the_hook_in_its_order() {
    everywhere(|| {
        for exclusive in [false, true] {
            let undelivered = std::sync::Arc::new(Mutex::new(Vec::new()));
            let sees = undelivered.clone();
            let (sender, receiver) =
                Options::bounded(3).on_undelivered(move |n: usize| sees.lock().unwrap().push(n)).build();
            (0..3).for_each(|n| sender.send(n).unwrap());
            let waits = Task::waiting(sender.send_source(9));
            if exclusive {
                let mut exclusive = receiver.into_exclusive().unwrap();
                assert_eq!(exclusive.recv(), Ok(0));
                (4..6).for_each(|n| sender.send(n).unwrap());
                drop(exclusive);
                assert_eq!(*undelivered.lock().unwrap(), [1, 2, 9, 4, 5]);
            } else {
                drop(waits);
                drop(receiver.clone());
                assert!(undelivered.lock().unwrap().is_empty());
                drop(receiver);
                assert_eq!(*undelivered.lock().unwrap(), [0, 1, 2]);
            }
            assert_eq!(sender.send(7).unwrap_err().value, 7);
            assert!(!undelivered.lock().unwrap().contains(&7), "it has come back");
        }
    });
}

#[test]
fn everybody_meets_everybody() {
    const VALUES: usize = 300;
    each(|_, sender, receiver| {
        let seen = Mutex::new(BTreeSet::new());
        let (senders, receivers) = (Mutex::new(vec![sender; 3]), Mutex::new(vec![receiver; 3]));
        let next = AtomicUsize::new(0);
        // Of either side a fiber in each of two pools, and a thread that awaits.
        mixed(6, |n| {
            let awaits = n % 3 == 2;
            if n < 3 {
                let sender = senders.lock().unwrap().pop().unwrap();
                while let value = next.fetch_add(1, SeqCst)
                    && value < VALUES
                {
                    if awaits { block_on(sender.send_source(value)).unwrap() } else { sender.send(value).unwrap() }
                }
            } else {
                let receiver = receivers.lock().unwrap().pop().unwrap();
                let receive = || if awaits { block_on(receiver.recv_source()).ok() } else { receiver.recv().ok() };
                while let Some(value) = receive() {
                    assert!(seen.lock().unwrap().insert(value), "{value} came twice");
                }
            }
        });
        assert!(seen.into_inner().unwrap().into_iter().eq(0..VALUES));
    });
}

#[test]
fn iterators_of_several_receivers_share_the_values() {
    everywhere(|| {
        each(|_, sender, receiver| {
            scope(|s| {
                let parts =
                    [receiver.clone(), receiver].map(|receiver| s.spawn(|| receiver.into_iter().collect::<Vec<_>>()));
                (0..20).for_each(|n| sender.send(n).unwrap());
                drop(sender);
                let parts = parts.map(|part| part.join().unwrap());
                assert!(parts.iter().all(|part| part.is_sorted()), "{parts:?}");
                assert!(parts.concat().into_iter().collect::<BTreeSet<_>>().into_iter().eq(0..20));
            });
        });
    });
}

/// As long as a value is there, the end of the channel is not what is seen.
#[test]
fn a_value_that_is_there_is_seen_while_others_close_the_channel() {
    for _ in 0..1000 {
        let (sender, receiver) = channel::bounded(1);
        sender.send(1).unwrap();
        let received = std::thread::scope(|t| {
            t.spawn(move || drop(sender));
            receiver.try_recv()
        });
        assert_eq!(received, Ok(1));
    }
}

#[test]
fn errors_say_what_to_do_and_convert() {
    fn io_kind(error: impl Into<std::io::Error>) -> ErrorKind {
        error.into().kind()
    }
    assert_eq!(io_kind(TryRecvError::Empty), ErrorKind::WouldBlock);
    assert_eq!(io_kind(TryRecvError::Closed), io_kind(Closed));
    assert_eq!(io_kind(TrySendError::Full), io_kind(segue::Full));
    assert_eq!(io_kind(TrySendError::Closed), io_kind(Closed));
    assert_eq!(TrySendError::Closed.to_string(), Closed.to_string());
    assert!(TryRecvError::Empty.to_string().contains("no value"));
}

#[test]
fn ends_can_be_sent_and_shared_where_the_values_can_be_sent() {
    fn can<T: Send + Sync>(_: &T) {}
    let (sender, receiver) = Options::<Cell<u8>>::bounded(MAX_CAPACITY).build();
    can(&sender);
    can(&receiver);
    can(&sender.downgrade());
    assert_eq!(format!("{sender:?}"), format!("Sender {{ len: 0, capacity: Some({MAX_CAPACITY}), closed: false }}"));
    assert!(format!("{receiver:?} {:?}", receiver.iter()).ends_with("Iter { .. }"));
    can(&Mutex::new(receiver.into_exclusive().unwrap()));
}

/// Waits for what never comes.
type Waits = fn(&Sender<usize>, Receiver<usize>);

#[test]
fn reports_name_the_line_of_the_user() {
    let ways: [Waits; 6] = [
        |_, receiver| _ = receiver.recv(),
        |_, receiver| _ = receiver.iter().count(),
        |_, receiver| _ = receiver.into_iter().count(),
        |_, receiver| {
            let _other = receiver.clone();
            _ = receiver.into_iter().count();
        },
        |sender, _receiver| _ = sender.send(1),
        |sender, _receiver| _ = sender.closed_source().wait(),
    ];
    for way in ways {
        let stuck = segue::testing::Sim::new(0).run(|| {
            let (sender, receiver) = channel::rendezvous();
            way(&sender, receiver);
        });
        let report = stuck.unwrap_err().to_string();
        assert!(report.contains("channel at crates/segue/tests/channel/channel.rs:"), "{report}");
    }
}
