//! Channels and bad input: what callers, values, wakers and hooks may do to them, and what that
//! comes to.

use crate::meet;

use meet::{Task, everywhere, poll_once, pool, simulated, task};
use segue::channel::{self, Exclusive, Options, Sender};
use segue::{Closed, WaitError, scope, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};

/// What `f` panics with.
fn panics<R>(f: impl FnOnce() -> R) -> String {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it was to panic") };
    panic.downcast::<String>().map_or_else(|panic| (*panic.downcast::<&str>().unwrap()).to_string(), |text| *text)
}

#[test]
fn errors_of_the_caller_are_named() {
    let too_large = panics(|| channel::bounded::<u8>(usize::MAX));
    assert!(too_large.contains("`unbounded()` has no bound"), "{too_large}");
    let (sender, receiver) = channel::rendezvous();
    for message in [panics(|| drop(sender.reserve())), panics(|| drop(sender.try_reserve()))] {
        assert!(message.contains("a rendezvous has no room to reserve"), "{message}");
    }
    // The channel goes on.
    let mut waits = Task::waiting(sender.send_source(1));
    assert_eq!((receiver.recv(), waits.poll()), (Ok(1), Some(Ok(()))));
}

/// A source that has sent its value has none for a second time, also where a receiver waits or
/// there is room.
#[test]
fn a_source_that_has_sent_is_not_sent_again() {
    everywhere(|| {
        for capacity in [0, 1, 3] {
            let (sender, receiver) = channel::bounded(capacity);
            let mut sending = sender.send_source(1);
            let mut receives = [(); 2].map(|()| Task::waiting(receiver.recv_source()));
            assert_eq!(sending.by_ref().wait(), Ok(Ok(())));
            assert_eq!((sending.by_ref().wait(), sending.attempt()), (Ok(Ok(())), Some(Ok(()))), "it is done");
            assert_eq!((receives[0].poll(), receives[1].wakes()), (Some(Ok(1)), 0));
            sender.send(2).unwrap();
            assert_eq!(receives[1].poll(), Some(Ok(2)));
        }
    });
}

const CROWD: usize = if cfg!(debug_assertions) { 30_000 } else { 100_000 };

#[test]
fn the_end_reaches_a_crowd_while_others_send() {
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        let mut receives: Vec<_> = (0..CROWD).map(|_| task(receiver.recv_source())).collect();
        assert!(receives.iter_mut().all(|receive| poll_once(receive).is_none()));
        let mut ends: Vec<_> = (0..CROWD / 10).map(|_| task(sender.closed_source())).collect();
        assert!(ends.iter_mut().all(|end| poll_once(end).is_none()));
        let sent = std::thread::scope(|t| {
            let sends = [(); 2].map(|()| t.spawn(|| (0..).take_while(|n| sender.send(*n).is_ok()).count()));
            while receiver.len() + usize::from(capacity == 0) == 0 {
                std::thread::yield_now();
            }
            assert!(receiver.close());
            sends.map(|sends| sends.join().unwrap()).into_iter().sum::<usize>()
        });
        let received = receives.iter_mut().filter_map(poll_once).map(|received| usize::from(received.is_ok()));
        let received: Vec<_> = received.collect();
        assert_eq!(received.len(), CROWD, "somebody still waits");
        assert_eq!(received.iter().sum::<usize>() + receiver.try_iter().count(), sent);
        assert!(ends.iter_mut().all(|end| poll_once(end).is_some()));
    }
}

#[test]
fn the_end_gives_a_crowd_of_senders_its_values_back() {
    let (sender, receiver) = channel::bounded(1);
    sender.send(usize::MAX).unwrap();
    let mut sends: Vec<_> = (0..CROWD).map(|n| Box::new(sender.send_source(n))).collect();
    {
        let mut tasks: Vec<_> = sends.iter_mut().map(|sending| task(sending.by_ref())).collect();
        assert!(tasks.iter_mut().all(|send| poll_once(send).is_none()));
        let received = std::thread::scope(|t| {
            let receives = t.spawn(|| receiver.iter().count());
            sender.close();
            receives.join().unwrap()
        });
        // Some were received meanwhile. Half of the tasks look, the others are dropped.
        let sent = tasks.iter_mut().step_by(2).map(poll_once).filter(|sent| *sent == Some(Ok(()))).count();
        assert!(sent < received);
    }
    let left = sends.into_iter().filter_map(|sending| sending.into_value()).count();
    assert!(left <= CROWD && receiver.recv() == Err(WaitError::Closed));
    assert!(left > 0);
}

/// The other senders go while one waits for room.
#[test]
fn a_sender_that_goes_in_the_middle_of_a_reserve() {
    simulated(100, |_| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(0).unwrap();
        let others = [sender.clone(), sender.clone()];
        scope(|s| {
            s.spawn(move || {
                let room = sender.reserve().unwrap();
                let _ = yield_now();
                room.send(1).unwrap();
            });
            s.spawn(move || drop(others));
            assert!(receiver.iter().eq([0, 1]));
        });
    });
}

#[test]
fn a_future_that_has_yielded_and_is_kept_holds_nothing() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let mut received = task(receiver.recv_source());
        assert_eq!(poll_once(&mut received), None);
        sender.send(1).unwrap();
        assert_eq!(poll_once(&mut received), Some(Ok(1)));
        let mut sent = task(sender.send_source(2));
        assert_eq!(poll_once(&mut sent), Some(Ok(())));
        let mut waited = task(sender.send_source(3));
        assert!(poll_once(&mut waited).is_none() && receiver.recv() == Ok(2));
        assert_eq!(poll_once(&mut waited), Some(Ok(())));
        assert_eq!((receiver.recv(), receiver.len()), (Ok(3), 0));
        let mut reserved = task(sender.reserve_source());
        drop(poll_once(&mut reserved).unwrap().unwrap());
        assert!(!sender.is_full());
        drop((received, sent, waited, reserved));
        assert!(receiver.is_empty() && !sender.is_full());
    });
}

/// A waker that does something, once.
struct Does(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Does {
    fn waker(action: impl FnOnce() + Send + 'static) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(Box::new(action))))))
    }
}

impl Wake for Does {
    fn wake(self: Arc<Self>) {
        if let Some(action) = self.0.lock().unwrap().take() {
            action();
        }
    }
}

#[test]
fn a_waker_that_drops_the_channel() {
    everywhere(|| {
        // The last other sender goes inside of the send that wakes.
        let (sender, receiver) = channel::bounded(1);
        let other = sender.clone();
        let mut receives = pin!(receiver.recv_source().into_future());
        let waker = Does::waker(move || drop(other));
        assert!(receives.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sender.send(1).unwrap();
        drop(sender);
        assert!(receives.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(receiver.is_closed());
        // All receivers, inside of the end that the last sender brings.
        let (sender, receiver) = channel::bounded::<u8>(1);
        let receiver = Arc::new(receiver);
        let waits = Arc::clone(&receiver);
        let mut receives = Box::pin(async move { waits.recv_source().await });
        let waker = Does::waker(move || drop(receiver));
        assert!(receives.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(sender);
        assert_eq!(poll_once(&mut receives), Some(Err(Closed)));
    });
}

#[test]
fn a_waker_that_sends_and_receives() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let (again, from) = (sender.clone(), receiver.clone());
        let mut receives = pin!(receiver.recv_source().into_future());
        let waker = Does::waker(move || {
            again.try_send(2).unwrap();
            assert_eq!(from.try_recv(), Ok(2));
            assert!(from.close());
        });
        assert!(receives.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sender.send(1).unwrap();
        assert!(receives.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert!(sender.is_closed() && receiver.is_empty());
    });
}

/// A value whose drop sends another on the same channel, which it finds in its place.
struct SendsAtDrop(u32, Arc<OnceLock<Sender<SendsAtDrop>>>, Arc<AtomicUsize>);

impl Drop for SendsAtDrop {
    fn drop(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            self.2.fetch_add(1, SeqCst);
            let next = Self(left, Arc::clone(&self.1), Arc::clone(&self.2));
            // If it is refused, its own drop follows at once.
            drop(self.1.get().unwrap().try_send(next));
        }
    }
}

#[test]
fn a_value_whose_drop_sends_on_the_same_channel() {
    everywhere(|| {
        let (place, drops) = (Arc::new(OnceLock::new()), Arc::new(AtomicUsize::new(0)));
        let value = |left| SendsAtDrop(left, Arc::clone(&place), Arc::clone(&drops));
        let (sender, receiver) = channel::bounded(2);
        assert!(place.set(sender.clone()).is_ok());
        sender.try_send(value(3)).ok().unwrap();
        assert_eq!(receiver.iter().take(3).count(), 3);
        assert_eq!((receiver.len(), drops.load(SeqCst)), (1, 3));
        // Of a future that is dropped while it waits, and of a source.
        sender.try_send(value(0)).ok().unwrap();
        drop(Task::waiting(sender.send_source(value(2))));
        assert_eq!(drops.load(SeqCst), 5);
        drop(receiver.recv().unwrap());
        drop(sender.send_source(value(1)));
        assert_eq!(drops.load(SeqCst), 6);
        // Of what is left when the receiver goes: it is closed, so nothing is sent.
        drop(receiver.recv().unwrap());
        sender.try_send(value(2)).ok().unwrap();
        drop(receiver);
        assert_eq!((drops.load(SeqCst), sender.len()), (8, 0));
    });
}

struct PanicsAtDrop(&'static AtomicUsize);

impl Drop for PanicsAtDrop {
    fn drop(&mut self) {
        if self.0.fetch_add(1, SeqCst) == 0 {
            std::panic::panic_any("planted");
        }
    }
}

fn one_whose_drops_panic_once() -> &'static AtomicUsize {
    Box::leak(Box::new(AtomicUsize::new(0)))
}

#[test]
fn a_value_whose_drop_panics() {
    everywhere(|| {
        // The receiver goes, the others are dropped all the same.
        let drops = one_whose_drops_panic_once();
        let (sender, receiver) = channel::unbounded();
        (0..3).for_each(|_| sender.send(PanicsAtDrop(drops)).ok().unwrap());
        assert_eq!(panics(|| drop(receiver)), "planted");
        assert_eq!((drops.load(SeqCst), sender.receiver_count(), sender.is_closed()), (3, 0, true));
        // A future that is dropped while it waits leaves the queue first.
        let drops = one_whose_drops_panic_once();
        let (sender, receiver) = channel::rendezvous();
        let waits = Task::waiting(sender.send_source(PanicsAtDrop(drops)));
        assert_eq!(panics(|| drop(waits)), "planted");
        assert!(receiver.try_recv().is_err());
        let mut waits = Task::waiting(sender.send_source(PanicsAtDrop(drops)));
        assert!(receiver.try_recv().is_ok() && waits.poll().is_some());
    });
}

/// A channel whose hook does this with the values; four were sent, of which one was received.
fn hooked(hook: impl Fn(u32) + Send + Sync + 'static) -> (Sender<u32>, Exclusive<u32>) {
    let (sender, receiver) = Options::unbounded().on_undelivered(hook).build();
    let mut receiver = receiver.into_exclusive().unwrap();
    (0..2).for_each(|n| sender.send(n).unwrap());
    assert_eq!(receiver.recv(), Ok(0));
    (2..4).for_each(|n| sender.send(n).unwrap());
    (sender, receiver)
}

/// One value is with the receiver, and two are in the buffer: the hook is called once, and does not
/// panic a second time while that unwinds.
#[test]
fn a_hook_that_panics() {
    everywhere(|| {
        for exclusive in [false, true] {
            let calls = Arc::new(AtomicUsize::new(0));
            let counts = Arc::clone(&calls);
            let (sender, receiver) = hooked(move |n| {
                counts.fetch_add(1, SeqCst);
                panic!("planted at {n}");
            });
            let message = if exclusive { panics(|| drop(receiver)) } else { panics(|| drop(receiver.into_shared())) };
            assert_eq!((message.as_str(), calls.load(SeqCst)), ("planted at 1", 1));
            assert!(sender.is_closed() && sender.is_empty() && sender.receiver_count() == 0);
        }
    });
}

#[test]
fn a_hook_that_sends_on_the_same_channel_has_its_value_back() {
    everywhere(|| {
        let place = Arc::new(OnceLock::<Sender<u32>>::new());
        let (sends, refused) = (Arc::clone(&place), Arc::new(AtomicUsize::new(0)));
        let counts = Arc::clone(&refused);
        let (sender, receiver) = hooked(move |n| {
            let back = sends.get().unwrap().send(n).unwrap_err();
            assert_eq!((back.value, back.error), (n, WaitError::Closed));
            counts.fetch_add(1, SeqCst);
        });
        assert!(place.set(sender.clone()).is_ok());
        drop(receiver);
        assert_eq!((refused.load(SeqCst), sender.len()), (3, 0));
    });
}

#[test]
fn a_hook_that_waits_for_another_fiber() {
    everywhere(|| {
        let (notes, noted) = channel::rendezvous();
        let (sender, receiver) = hooked(move |n| notes.send(n).unwrap());
        scope(|s| {
            s.spawn(move || drop(receiver));
            drop(sender);
            assert_eq!([(); 3].map(|()| noted.recv()), [Ok(1), Ok(2), Ok(3)]);
        });
    });
}

/// Fibers of two workers that wait in a crowd, and are cancelled and told of the end together.
#[test]
fn a_crowd_of_fibers_is_cancelled_while_the_channel_is_closed() {
    const FIBERS: usize = 300;
    for round in 0..10 {
        pool(2)
            .run(|| {
                let (sender, receiver) = channel::bounded::<usize>(round % 3);
                let ended = AtomicUsize::new(0);
                scope(|s| {
                    for n in 0..FIBERS {
                        let (sender, receiver, ended) = (&sender, &receiver, &ended);
                        s.spawn(move || {
                            if n % 5 == 0 {
                                _ = sender.send(n)
                            } else {
                                _ = receiver.recv()
                            }
                            ended.fetch_add(1, SeqCst);
                        });
                    }
                    (0..round).for_each(|_| yield_now().unwrap());
                    std::thread::scope(|t| {
                        t.spawn(|| sender.close());
                        s.cancel();
                    });
                });
                assert!(ended.into_inner() <= FIBERS);
            })
            .unwrap();
    }
}
