//! Watched values under every scheduler and between them: nobody misses the last version, and
//! nobody is shown one twice.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed, simulated};
use segue::channel::watch::{self, Receiver, Sender};
use segue::testing::Sim;
use segue::{Builder, CancelToken, Closed, Either, WaitError, after, scope, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

fn pauses(n: u64) {
    (0..n).try_for_each(|_| yield_now()).unwrap();
}

/// Follows a value that only grows, to the end; answers what it was shown.
fn follow(receiver: &mut Receiver<u64>, as_task: bool) -> Vec<u64> {
    let mut shown = vec![*receiver.peek()];
    loop {
        let changed =
            if as_task { block_on(receiver.changed_source()) } else { receiver.changed().map_err(|_| Closed) };
        match changed {
            Ok(()) => shown.push(*receiver.get()),
            Err(Closed) => return shown,
        }
    }
}

#[test]
fn nobody_misses_the_last_version() {
    everywhere(|| {
        let (sender, receiver) = watch::channel(0);
        scope(|s| {
            for n in 0..4 {
                let mut receiver = receiver.clone();
                drop(s.spawn(move || {
                    let shown = follow(&mut receiver, n % 2 == 0);
                    assert!(shown.is_sorted(), "{shown:?}");
                    assert_eq!(shown.last(), Some(&20));
                }));
            }
            for _ in 0..2 {
                let sender = sender.clone();
                drop(s.spawn(move || (0..10).for_each(|_| _ = sender.update(|n| n + 1))));
            }
            drop(sender);
        });
        assert_eq!((receiver.has_changed(), *receiver.peek()), (true, 20));
    });
}

#[test]
fn random_operations_do_what_a_number_for_each_receiver_says() {
    let (mut changed, mut closed, mut none) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (sender, receiver) = watch::channel(0);
        let mut senders = vec![sender];
        // Each with the version that it has seen, which is the value.
        let (mut receivers, mut newest) = (vec![(receiver, 0)], 0);
        for _ in 0..80 {
            let many = receivers.len() > 1;
            let any = random.usize(0..receivers.len());
            let (receiver, seen) = &mut receivers[any];
            match (random.u32(0..30), senders.first()) {
                (0..5, Some(sender)) => {
                    assert_eq!(*sender.set(newest + 1), newest);
                    newest += 1;
                }
                (5..9, Some(sender)) => {
                    assert_eq!(*sender.update(|n| n + 1), newest);
                    newest += 1;
                }
                (9..11, Some(sender)) => assert_eq!(*sender.get(), newest),
                (11, Some(sender)) => receivers.push((sender.subscribe(), newest)),
                (12, Some(sender)) => {
                    let sender = sender.clone();
                    senders.push(sender);
                }
                (13, Some(_)) if random.u32(0..4) == 0 => drop(senders.pop()),
                (14, _) => {
                    assert_eq!(*receiver.get(), newest);
                    *seen = newest;
                }
                (15, _) => assert_eq!(*receiver.peek(), newest),
                (16, _) => {
                    let copy = (receiver.clone(), *seen);
                    receivers.push(copy);
                }
                (17, _) if many => drop(receivers.swap_remove(any)),
                (18..21, _) => {
                    let suits = receiver.wait_for(|n| *n == newest).unwrap();
                    assert_eq!(*suits, newest);
                    *seen = newest;
                }
                _ => {
                    let got = receiver.changed_source().attempt();
                    if *seen != newest {
                        assert_eq!(got, Some(Ok(())), "seed {seed}");
                        *seen = newest;
                        changed += 1;
                    } else if senders.is_empty() {
                        assert_eq!(got, Some(Err(Closed)), "seed {seed}");
                        assert_eq!(receiver.wait_for(|_| false), Err(WaitError::Closed));
                        closed += 1;
                    } else {
                        assert_eq!(got, None, "seed {seed}");
                        none += 1;
                    }
                }
            }
            for (receiver, seen) in &receivers {
                assert_eq!(receiver.has_changed(), *seen != newest, "seed {seed}");
            }
        }
    }
    println!("{changed} changed, {closed} closed, {none} unchanged");
    assert!(changed > 100 && closed > 100 && none > 100);
}

#[test]
fn conservation_in_every_schedule_with_cancellations_and_dropped_futures() {
    let (cancels, drops, skips) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(600, |seed| {
        let (sender, receiver) = watch::channel(0);
        let token = CancelToken::new();
        scope(|s| {
            for n in 0..4 {
                let (mut receiver, token) = (receiver.clone(), &token);
                let (cancels, drops, skips) = (&cancels, &drops, &skips);
                drop(s.spawn(move || {
                    let (mut last, mut is_cancelled) = (0, false);
                    loop {
                        let changed = match n {
                            0 => block_on(receiver.changed_source()).map_err(WaitError::from),
                            1 => {
                                let mut task = Task::new(receiver.changed_source());
                                match task.poll() {
                                    Some(changed) => changed.map_err(WaitError::from),
                                    None => {
                                        pauses(1 + seed % 2);
                                        drop(task);
                                        drops.fetch_add(1, SeqCst);
                                        continue;
                                    }
                                }
                            }
                            2 if !is_cancelled => token.run(|| receiver.changed()),
                            _ => receiver.changed(),
                        };
                        match changed {
                            Ok(()) => {
                                let shown = *receiver.get();
                                // What comes between the two is shown, and counts as seen.
                                assert!(shown > last, "never the same twice");
                                skips.fetch_add(usize::from(shown > last + 1), SeqCst);
                                last = shown;
                                pauses(n);
                            }
                            Err(WaitError::Cancelled(_)) => {
                                is_cancelled = true;
                                cancels.fetch_add(1, SeqCst);
                            }
                            Err(WaitError::Closed) => break,
                        }
                    }
                    assert_eq!(last, 6, "nobody misses the last version");
                }));
            }
            drop(s.spawn(|| {
                pauses(seed % 5);
                token.cancel();
            }));
            for n in 1..=6 {
                assert_eq!(*sender.set(n), n - 1);
                pauses(seed % 3);
            }
            drop(sender);
        });
    });
    let (cancels, drops, skips) = (cancels.into_inner(), drops.into_inner(), skips.into_inner());
    println!("{cancels} cancelled, {drops} dropped, {skips} skips");
    assert!(cancels > 100 && drops > 100 && skips > 100);
}

#[test]
fn updates_are_made_of_each_other_in_every_schedule() {
    let retries = AtomicUsize::new(0);
    simulated(300, |_| {
        let (sender, receiver) = watch::channel(0);
        scope(|s| {
            for _ in 0..3 {
                let (sender, retries) = (&sender, &retries);
                drop(s.spawn(move || {
                    for _ in 0..3 {
                        let mut calls = 0;
                        sender.update(|n| {
                            calls += 1;
                            // No lock is held: it may wait.
                            pauses(1);
                            n + 1
                        });
                        retries.fetch_add(calls - 1, SeqCst);
                    }
                }));
            }
        });
        assert_eq!(*receiver.peek(), 9);
    });
    let retries = retries.into_inner();
    println!("{retries} retries");
    assert!(retries > 100);
}

#[test]
fn an_update_that_panics_changes_nothing() {
    let (sender, receiver) = watch::channel(1);
    assert!(catch_unwind(AssertUnwindSafe(|| sender.update(|_| panic!("planted")))).is_err());
    assert_eq!((*receiver.peek(), receiver.has_changed()), (1, false));
    // It may use the channel; what it has set itself is a change, and it is called again.
    let mut calls = 0;
    let replaced = sender.update(|n| {
        calls += 1;
        if calls == 1 {
            sender.set(10);
        }
        n + 1
    });
    assert_eq!((*replaced, *sender.get(), calls), (10, 11, 2));
}

#[test]
fn a_condition_is_waited_for_and_marks_nothing_until_it_holds() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(0);
        assert_eq!(receiver.wait_for(|n| *n == 0).as_deref(), Ok(&0), "the value of now is looked at, too");
        sender.set(1);
        let late = segue::timeout(Duration::from_millis(1), || receiver.wait_for(|n| *n == 3)).unwrap_err();
        assert!(late.timed_out() && receiver.has_changed(), "what did not suit was not seen");
        scope(|s| {
            let mut copy = receiver.clone();
            let waits = s.spawn(move || copy.wait_for(|n| *n >= 3).map(|n| (*n, copy.has_changed())));
            (2..=3).for_each(|n| _ = sender.set(n));
            assert_eq!(waits.join().unwrap(), Ok((3, false)));
        });
        let token = CancelToken::new();
        token.cancel();
        assert!(matches!(token.run(|| receiver.wait_for(|_| true)), Err(WaitError::Cancelled(_))));
        drop(sender);
        assert_eq!(receiver.wait_for(|n| *n == 4), Err(WaitError::Closed));
        assert_eq!(receiver.changed(), Ok(()));
        assert_eq!(receiver.changed(), Err(WaitError::Closed));
    });
}

#[test]
fn conservation_on_threads_where_receivers_come_and_go() {
    let (mut drops, mut cancels) = (0, 0);
    for round in 0..60 {
        let (sender, receiver) = watch::channel(0);
        let (dropped, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let senders = Mutex::new((0..3).map(|_| sender.clone()).collect::<Vec<Sender<u64>>>());
        drop(sender);
        mixed(9, |n| {
            if n < 3 {
                let sender = senders.lock().unwrap().pop().unwrap();
                (0..20).for_each(|_| _ = sender.update(|n| n + 1));
                return;
            }
            let mut receiver = receiver.clone();
            let mut last = 0;
            loop {
                let changed = match (n + round) % 3 {
                    0 => receiver.changed(),
                    1 => {
                        let mut task = Task::new(receiver.changed_source());
                        match task.poll() {
                            Some(changed) => changed.map_err(WaitError::from),
                            None => {
                                let _ = yield_now();
                                drop(task);
                                dropped.fetch_add(1, SeqCst);
                                continue;
                            }
                        }
                    }
                    _ => {
                        let token = CancelToken::new();
                        let waited = scope(|s| {
                            drop(s.spawn(|| token.cancel()));
                            token.run(|| receiver.changed())
                        });
                        match waited {
                            Err(WaitError::Cancelled(_)) => {
                                cancelled.fetch_add(1, SeqCst);
                                receiver.changed()
                            }
                            waited => waited,
                        }
                    }
                };
                if changed.is_err() {
                    break;
                }
                let shown = *receiver.get();
                assert!(shown > last, "never the same twice");
                last = shown;
            }
            assert_eq!(last, 60, "nobody misses the last version");
        });
        drops += dropped.into_inner();
        cancels += cancelled.into_inner();
    }
    println!("{drops} dropped, {cancels} cancelled");
    assert!(drops > 0 && cancels > 0);
}

#[test]
fn a_wait_that_was_told_and_dropped_has_seen_nothing() {
    let (sender, mut receiver) = watch::channel(0);
    let mut other = receiver.clone();
    let mut behind = Task::waiting(other.changed_source());
    let task = Task::waiting(receiver.changed_source());
    sender.set(1);
    assert_eq!((task.wakes(), behind.wakes()), (1, 1));
    drop(task);
    assert!(receiver.has_changed());
    assert_eq!((receiver.changed(), receiver.has_changed()), (Ok(()), false));
    sender.set(2);
    assert_eq!((behind.poll(), behind.wakes()), (Some(Ok(())), 1));
    // Kept, it holds nobody up.
    assert_eq!(receiver.changed(), Ok(()));
    drop(behind);
    assert!(!other.has_changed(), "it has counted the newest as seen");
    let source = &mut receiver.changed_source();
    sender.set(3);
    assert_eq!(source.by_ref().wait(), Ok(Ok(())));
    assert_eq!(source.attempt(), None, "a source that is waited for again goes on from there");
}

#[test]
fn the_last_sender_tells_all_while_others_set() {
    for _ in 0..20 {
        let (sender, receiver) = watch::channel(0);
        std::thread::scope(|s| {
            for n in 0..80 {
                let mut receiver = receiver.clone();
                s.spawn(move || assert_eq!(follow(&mut receiver, n % 2 == 0).last(), Some(&200)));
            }
            for _ in 0..2 {
                let sender = sender.clone();
                s.spawn(move || (0..100).for_each(|_| _ = sender.update(|n| n + 1)));
            }
            drop(sender);
        });
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
    let (sender, mut receiver) = watch::channel(0);
    let mut other = receiver.clone();
    let waker = Waker::from(Arc::new(Drops(Mutex::new(Some((sender.clone(), receiver.clone()))))));
    let mut task = Box::pin(receiver.changed_source().into_future());
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    sender.set(1);
    drop((sender, task));
    assert_eq!((receiver.changed(), receiver.changed()), (Ok(()), Err(WaitError::Closed)));
    assert_eq!(other.changed(), Ok(()));
    // The waker has the last sender, and is dropped with the wait.
    let (sender, mut receiver) = watch::channel(0);
    let waker = Waker::from(Arc::new(Drops(Mutex::new(Some(sender)))));
    let mut task = Box::pin(receiver.changed_source().into_future());
    assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    waker.wake();
    drop(task);
    assert_eq!(receiver.changed(), Err(WaitError::Closed));
}

/// A value that sets another one when it is dropped, so many times.
struct Sets(Arc<Mutex<Option<Sender<Sets>>>>, u32);

impl Drop for Sets {
    fn drop(&mut self) {
        let sender = self.0.lock().unwrap().clone();
        if let Some(sender) = sender.filter(|_| self.1 > 0) {
            drop(sender.set(Sets(Arc::clone(&self.0), self.1 - 1)));
        }
    }
}

#[test]
fn a_value_may_set_another_one_when_it_is_dropped() {
    let place = Arc::new(Mutex::new(None));
    let (sender, mut receiver) = watch::channel(Sets(Arc::clone(&place), 1));
    *place.lock().unwrap() = Some(sender.clone());
    let old = receiver.peek();
    drop(sender.set(Sets(Arc::clone(&place), 5)));
    assert_eq!((receiver.changed(), receiver.has_changed()), (Ok(()), false));
    // The one who was the last to look at it drops it.
    drop(old);
    assert!(receiver.has_changed());
    assert_eq!(receiver.get().1, 4, "that of the one which was replaced by its own");
    drop(sender.update(|old| Sets(Arc::clone(&old.0), 0)));
    assert_eq!(receiver.get().1, 3);
    place.lock().unwrap().take();
}

#[test]
fn a_change_is_chosen_among_others_and_stays_if_it_is_not() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(0);
        let mut other = receiver.clone();
        sender.set(1);
        let both = receiver.changed_source().or_else(other.changed_source()).wait();
        assert_eq!(both, Ok(Either::Left(Ok(()))));
        let both = receiver.changed_source().or_else(other.changed_source()).wait();
        assert_eq!(both, Ok(Either::Right(Ok(()))));
        let none = receiver.changed_source().or(after(Duration::from_millis(1))).wait();
        assert_eq!(none, Ok(Either::Right(())));
        assert!(format!("{sender:?}{other:?}").contains("value: 1"));
    });
}

#[test]
fn plain_threads_alone_see_what_was_done_before() {
    // Small, so that Miri can look for missing orderings.
    let (sender, receiver) = watch::channel(0);
    std::thread::scope(|s| {
        for n in 0..2 {
            let mut receiver = receiver.clone();
            s.spawn(move || assert_eq!(follow(&mut receiver, n == 0).last(), Some(&3)));
        }
        (1..=3).for_each(|n| _ = sender.set(n));
        drop(sender);
    });
}

#[test]
fn a_deadlock_names_who_waits() {
    let run = Sim::new(1).run(|| {
        let (_sender, mut receiver) = watch::channel(0);
        scope(|s| drop(Builder::new().name("watcher").within(s).spawn(move || receiver.changed())));
    });
    let text = run.unwrap_err().to_string();
    let names = text.contains("fiber `watcher` waits for a change of a watched value at ");
    assert!(names && text.contains("watch.rs:"), "{text}");
}
