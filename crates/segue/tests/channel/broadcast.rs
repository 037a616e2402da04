//! Broadcasts under every scheduler and between them: everybody gets everything in one order, and
//! what users bring along may do what it likes. `broadcast_conservation.rs` has models and storms.

use crate::drain;
use crate::meet;

use drain::drain;
use meet::{Task, block_on, everywhere};
use segue::channel::broadcast::{self, NoMessage, RecvError, Sender, Waits};
use segue::testing::Sim;
use segue::{Builder, Cancelled, Closed, Either, WaitError, after, scope, yield_now};
use std::io;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[test]
fn everybody_gets_everything_in_one_order() {
    everywhere(|| {
        let (sender, receiver) = broadcast::lossless(3);
        let all = scope(|s| {
            let copies: Vec<_> = (0..4)
                .map(|n| {
                    let mut copy = receiver.clone();
                    s.spawn(move || drain(&mut copy, n % 2 == 0))
                })
                .collect();
            drop(receiver);
            for n in 0..3 {
                let sender = sender.clone();
                drop(s.spawn(move || {
                    for step in 0..10 {
                        let message = n * 100 + step;
                        match n {
                            0 => block_on(sender.send_source(message)).unwrap(),
                            _ => sender.send(message).unwrap(),
                        }
                    }
                }));
            }
            drop(sender);
            copies.into_iter().map(|copy| copy.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(all.iter().all(|one| *one == all[0]), "one order for all");
        let (got, missed) = &all[0];
        assert_eq!((got.len(), *missed), (30, 0));
        for n in 0..3 {
            assert!(got.iter().filter(|message| **message / 100 == n).is_sorted(), "the order of a sender");
        }
    });
}

#[test]
fn what_was_sent_before_the_end_comes_before_it() {
    everywhere(|| {
        for ends in [Sender::close, |_: &Sender<u64>| ()] {
            let (sender, mut receiver) = broadcast::channel(4);
            let mut other = receiver.clone();
            (0..3).for_each(|n| assert_eq!(sender.send(n).unwrap(), 2));
            ends(&sender);
            drop(sender);
            assert_eq!(drain(&mut receiver, false), (vec![0, 1, 2], 0));
            assert_eq!(drain(&mut other, true), (vec![0, 1, 2], 0));
            assert_eq!(receiver.try_recv(), Some(Err(NoMessage::Closed)));
        }
    });
}

#[test]
fn a_receive_that_was_told_and_dropped_has_taken_nothing() {
    let (sender, mut receiver) = broadcast::channel(2);
    let mut other = receiver.clone();
    let behind = Task::waiting(other.recv_source());
    for n in 0..3 {
        let task = Task::waiting(receiver.recv_source());
        sender.send(n).unwrap();
        assert_eq!(task.wakes(), 1);
        drop(task);
        assert_eq!(receiver.recv(), Ok(n));
    }
    assert_eq!(behind.wakes(), 1, "told of the first");
    drop(behind);
    assert_eq!(other.recv(), Err(RecvError::Lagged(1)));
    assert_eq!((other.recv(), other.recv()), (Ok(1), Ok(2)));
}

#[test]
fn a_future_that_has_yielded_and_is_kept_holds_nobody_up() {
    let (sender, mut receiver) = broadcast::lossless(1);
    let mut other = receiver.clone();
    let mut kept = Task::waiting(receiver.recv_source());
    assert!(sender.send(1).is_ok());
    assert_eq!(kept.poll(), Some(Ok(1)));
    assert_eq!(other.recv(), Ok(1));
    let mut first = Task::new(sender.send_source(2));
    assert_eq!(first.poll(), Some(Ok(())));
    let mut second = Task::waiting(sender.send_source(3));
    assert_eq!(other.recv(), Ok(2));
    assert_eq!(second.wakes(), 0, "the kept one's receiver has yet to get it");
    drop(kept);
    assert_eq!(receiver.recv(), Ok(2));
    // Its message was taken; that it has not looked makes no difference.
    assert_eq!((receiver.recv(), other.recv(), second.wakes()), (Ok(3), Ok(3), 1));
    assert_eq!(second.poll(), Some(Ok(())));
    drop((first, second));
    assert!(sender.is_empty());
}

#[test]
fn a_message_that_was_taken_from_a_dropped_future_was_sent() {
    let (sender, mut receiver) = broadcast::lossless(1);
    sender.send(1).unwrap();
    let (first, second) = (Task::waiting(sender.send_source(2)), Task::waiting(sender.send_source(3)));
    assert_eq!(receiver.recv(), Ok(1));
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(receiver.recv(), Ok(2));
    drop(second);
    assert_eq!(receiver.recv(), Ok(3));
    assert_eq!(receiver.try_recv(), None);
}

#[test]
fn a_message_that_nobody_took_is_still_there_when_its_future_was_told_of_the_end() {
    everywhere(|| {
        let ends: [fn(&Sender<_, Waits>, broadcast::Receiver<_>); 2] =
            [|sender, _| sender.close(), |_, last| drop(last)];
        for end in ends {
            let (sender, receiver) = broadcast::lossless(1);
            sender.send("first").unwrap();
            let mut sending = sender.send_source("second");
            let task = Task::waiting(sending.by_ref());
            end(&sender, receiver);
            assert_eq!(task.wakes(), 1);
            drop(task);
            assert_eq!(sending.by_ref().wait(), Ok(Err(Closed)), "it was not sent");
            assert_eq!(sending.into_value(), Some("second"));
        }
    });
}

#[test]
fn a_receiver_that_goes_makes_room_and_the_last_one_sends_the_values_back() {
    everywhere(|| {
        let (sender, slow) = broadcast::lossless(1);
        let mut quick = slow.clone();
        sender.send(0).unwrap();
        assert_eq!(quick.recv(), Ok(0));
        scope(|s| {
            let goes_on = s.spawn(|| sender.send(1));
            let mut hears = quick.clone();
            let heard = s.spawn(move || hears.recv());
            let _ = yield_now();
            drop(slow);
            assert!(goes_on.join().unwrap().is_ok());
            assert_eq!(heard.join().unwrap(), Ok(1), "one that waited is told of what came into the room");
            let waiters: Vec<_> = (2..40)
                .map(|n| {
                    (
                        n,
                        s.spawn({
                            let sender = &sender;
                            move || sender.send(n)
                        }),
                    )
                })
                .collect();
            let _ = yield_now();
            drop(quick);
            for (n, waiter) in waiters {
                let back = waiter.join().unwrap().unwrap_err();
                assert_eq!((back.value, back.error), (n, WaitError::Closed));
            }
        });
        assert_eq!((sender.len(), sender.receiver_count()), (0, 0));
        let mut late = sender.subscribe();
        assert!(sender.send(7).is_ok());
        assert_eq!(late.recv(), Ok(7));
    });
}

#[test]
fn closing_ends_all_waits_while_others_send() {
    for _ in 0..20 {
        let (sender, receiver) = broadcast::channel(8);
        let (full, _stays) = broadcast::lossless(1);
        full.send(0).unwrap();
        std::thread::scope(|s| {
            for n in 0..80 {
                let mut receiver = receiver.clone();
                let full = &full;
                s.spawn(move || {
                    if n % 8 == 0 {
                        assert_eq!(full.send(n).unwrap_err().value, n);
                    }
                    drain(&mut receiver, n % 2 == 0)
                });
            }
            for n in 0..2 {
                let sender = sender.clone();
                s.spawn(move || while sender.send(n).is_ok() {});
            }
            sender.close();
            full.close();
        });
        assert_eq!(sender.send(1).unwrap_err().error, Closed);
    }
}

/// A waker that drops what it was given.
struct Drops<T>(Mutex<Option<T>>);

impl<T: Send + 'static> Wake for Drops<T> {
    fn wake(self: Arc<Self>) {
        let gone = self.0.lock().unwrap().take();
        drop(gone);
    }
}

#[test]
fn a_waker_may_drop_the_channel() {
    fn waker<T: Send + 'static>(gone: T) -> Waker {
        Waker::from(Arc::new(Drops(Mutex::new(Some(gone)))))
    }
    // The waker of a receive has the last receiver but its own, and a sender.
    let (sender, mut receiver) = broadcast::channel(1);
    let waker_of = waker((receiver.clone(), sender.clone()));
    {
        let mut task = Box::pin(receiver.recv_source().into_future());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker_of)).is_pending());
        assert_eq!(sender.send(5).unwrap(), 2);
    }
    assert_eq!((sender.receiver_count(), receiver.recv()), (1, Ok(5)));
    // It has the last sender, which closes what another one is closing, and tells it again.
    let waker_of = waker(sender.clone());
    let mut task = Box::pin(receiver.recv_source().into_future());
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker_of)).is_pending());
    drop(sender);
    drop((waker_of, task));
    assert_eq!(receiver.recv(), Err(RecvError::Closed));
    // The waker of a send has the last receiver that would get it.
    let (sender, mut receiver) = broadcast::lossless(1);
    sender.send(1).unwrap();
    let waker_of = waker(receiver.clone());
    let mut task = Box::pin(sender.send_source(2).into_future());
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker_of)).is_pending());
    drop(receiver.recv());
    drop(receiver);
    assert_eq!(sender.receiver_count(), 1, "the waker's");
    sender.close();
    drop((task, waker_of));
    assert_eq!((sender.receiver_count(), sender.len()), (0, 0));
}

/// A value that sends when it is dropped, so many times.
#[derive(Clone)]
struct Sends(Arc<Mutex<Option<Sender<Sends>>>>, Arc<AtomicUsize>);

impl Drop for Sends {
    fn drop(&mut self) {
        let again = self.1.try_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        let sender = self.0.lock().unwrap().clone().filter(|_| again);
        if let Some(sender) = sender {
            let _ = sender.send(self.clone());
        }
    }
}

#[test]
fn a_value_may_send_on_the_channel_when_it_is_dropped() {
    for drops in 0..4 {
        let (sender, mut receiver) = broadcast::channel(1);
        let left = Arc::new(AtomicUsize::new(20));
        let value = Sends(Arc::new(Mutex::new(Some(sender.clone()))), Arc::clone(&left));
        let place = Arc::clone(&value.0);
        let _ = sender.send(value.clone());
        match drops {
            // Overwritten, received, left behind by the last receiver, refused.
            0 => _ = sender.send(value.clone()),
            1 => drop(receiver.recv()),
            2 => {
                let late = receiver.resubscribe();
                drop(receiver);
                drop(late);
            }
            _ => {
                sender.close();
                drop(sender.send(value.clone()));
            }
        }
        drop(value);
        assert!(left.load(SeqCst) < 20, "it has sent");
        left.store(0, SeqCst);
        drop(place.lock().unwrap().take());
    }
}

/// A value that looks at the channel when it is dropped.
struct Looks<'a>(&'a Sender<Looks<'a>, Waits>, &'a AtomicUsize);

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        assert!(self.0.len() <= 1);
        self.1.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_value_may_look_at_the_channel_when_it_is_dropped() {
    let drops = AtomicUsize::new(0);
    for ends in [Sender::close, |_: &Sender<Looks<'_>, Waits>| ()] {
        // The values borrow the sender that they are sent by.
        let (sender, receiver) = broadcast::lossless(1);
        let sender = &*Box::leak(Box::new(sender));
        let value = || Looks(sender, &drops);
        let before = drops.load(SeqCst);
        assert!(sender.send(value()).is_ok());
        let mut waiting: Vec<_> = (0..3).map(|_| Task::waiting(sender.send_source(value()))).collect();
        drop(waiting.pop());
        assert_eq!(drops.load(SeqCst) - before, 1, "withdrawn");
        ends(sender);
        // It drops what is in the ring; the tasks are told, and have their values.
        drop(receiver);
        assert_eq!(drops.load(SeqCst) - before, 2, "left behind");
        assert!(waiting.iter().all(|task| task.wakes() == 1));
        drop(waiting);
        assert_eq!((drops.load(SeqCst) - before, sender.len()), (4, 0), "told, and dropped");
    }
}

#[test]
fn a_clone_that_panics_loses_its_own_message_alone() {
    struct Panics(u32);
    impl Clone for Panics {
        fn clone(&self) -> Self {
            assert!(self.0 != 1, "planted");
            Self(self.0)
        }
    }
    let (sender, mut receiver) = broadcast::channel(4);
    let mut other = receiver.clone();
    (0..3).for_each(|n| assert!(sender.send(Panics(n)).is_ok()));
    assert_eq!(receiver.recv().unwrap().0, 0);
    assert!(catch_unwind(std::panic::AssertUnwindSafe(|| drop(receiver.recv()))).is_err());
    assert_eq!(receiver.recv().unwrap().0, 2);
    // The last one gets the messages themselves, without a clone.
    assert_eq!((0..3).map(|_| other.recv().unwrap().0).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn capacities_that_make_no_sense_are_refused_with_advice() {
    for (capacity, says) in [(0, "give it a capacity of 1 or more"), (usize::MAX, "by which a receiver may be late")] {
        for make in [
            |capacity| drop(broadcast::channel::<u64>(capacity)),
            |capacity| drop(broadcast::lossless::<u64>(capacity)),
        ] {
            let make: fn(usize) = make;
            let panic = catch_unwind(|| make(capacity)).unwrap_err();
            let text = segue::JoinError::panicked(panic).to_string();
            assert!(text.contains(says), "{text}");
        }
    }
}

#[test]
fn errors_say_what_has_happened() {
    let lagged = |n| io::Error::from(RecvError::Lagged(n));
    assert_eq!(lagged(1).to_string(), "lagged: a message was overwritten before it was received");
    assert_eq!(lagged(2).to_string(), "lagged: 2 messages were overwritten before they were received");
    assert_eq!(lagged(2).kind(), io::ErrorKind::Other);
    assert_eq!(io::Error::from(RecvError::Closed).kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(NoMessage::from(Closed).to_string(), Closed.to_string());
    let reason = Cancelled::from(RecvError::Lagged(3));
    assert_eq!(reason.reason().unwrap().downcast_ref(), Some(&NoMessage::Lagged(3)));
    everywhere(|| {
        let (_sender, mut receiver) = broadcast::channel::<u64>(1);
        let late = segue::timeout(Duration::from_millis(1), || receiver.recv()).unwrap_err();
        assert!(late.timed_out() && Cancelled::from(late).timed_out());
    });
}

#[test]
fn messages_are_chosen_among_others_and_stay_if_they_are_not() {
    everywhere(|| {
        let (sender, mut receiver) = broadcast::lossless(1);
        let mut other = receiver.clone();
        sender.send(1).unwrap();
        let both = receiver.recv_source().or_else(other.recv_source()).wait();
        assert_eq!(both, Ok(Either::Left(Ok(1))));
        let mut sending = sender.send_source(2);
        let full = sending.by_ref().or(after(Duration::from_millis(1))).wait();
        assert_eq!(full, Ok(Either::Right(())));
        // A choice that would send and receive makes room for itself.
        let room = sending.by_ref().or(other.recv_source()).wait();
        assert_eq!(room, Ok(Either::Right(Ok(1))));
        assert_eq!(sending.by_ref().wait(), Ok(Ok(())));
        assert_eq!(sending.into_value(), None);
        assert_eq!((receiver.recv(), other.recv()), (Ok(2), Ok(2)));
        let none = receiver.recv_source().or(after(Duration::from_millis(1))).wait();
        assert_eq!(none, Ok(Either::Right(())));
    });
}

#[test]
fn plain_threads_alone_see_what_was_done_before() {
    // Small, so that Miri can look for missing orderings.
    let (sender, receiver): (Sender<_, Waits>, _) = broadcast::lossless(1);
    std::thread::scope(|s| {
        for n in 0..2 {
            let mut receiver = receiver.clone();
            s.spawn(move || assert_eq!(drain(&mut receiver, n == 0).0, [0, 1, 2]));
        }
        drop(receiver);
        (0..3).for_each(|n| sender.send(n).unwrap());
        drop(sender);
    });
}

#[test]
fn a_deadlock_names_who_waits() {
    let run = Sim::new(1).run(|| {
        let (sender, receiver) = broadcast::lossless(1);
        scope(|s| {
            let mut copy = receiver.clone();
            let sender = &sender;
            drop(Builder::new().name("listener").within(s).spawn(move || copy.iter().count()));
            drop(Builder::new().name("speaker").within(s).spawn(move || (0..3).for_each(|n| sender.send(n).unwrap())));
        });
    });
    let text = run.unwrap_err().to_string();
    assert!(text.contains("fiber `speaker` waits for room in a broadcast at "), "{text}");
    assert!(text.contains("fiber `listener` waits for a message of a broadcast at "), "{text}");
    assert!(text.contains("broadcast.rs:"), "{text}");
}
