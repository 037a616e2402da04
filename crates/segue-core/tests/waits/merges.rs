//! Sources that are merged: they stay registered between the waits, and what they were handed
//! comes, or goes back.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::rounds;
use mailbox::{Calls, Mailbox, poll};
use segue_core::{Cancelled, Either, Merge, Source, WaitQueue, WaitsFor, after, at, guard, merge, now, timeout};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

fn mailboxes<const N: usize>() -> [Mailbox<u32>; N] {
    std::array::from_fn(|_| Mailbox::new())
}

fn receiving(mailboxes: &[Mailbox<u32>]) -> Merge<impl Source<Output = u32>> {
    merge(mailboxes.iter().map(Mailbox::receive_source))
}

#[test]
fn arms_stay_registered_between_the_waits() {
    let all = mailboxes::<3>();
    let mut merged = receiving(&all);
    assert!(all.iter().all(|mailbox| !mailbox.has_waiters()), "nothing happens before the first look");
    assert_eq!(merged.try_next(), None);
    assert!(all.iter().all(Mailbox::has_waiters));
    assert!(all[1].send(7), "it is handed to the arm");
    assert_eq!(merged.next(), Ok((1, 7)));
    assert!(all[0].has_waiters() && all[2].has_waiters() && !all[1].has_waiters());
    assert_eq!(merged.try_next(), None);
    assert!(all[1].has_waiters(), "it registers again at the next call");
    drop(merged);
    assert!(all.into_iter().all(|mailbox| mailbox.into_messages().is_empty()));
}

#[test]
fn each_that_is_ready_has_its_turn_before_any_has_a_second_one() {
    let all = mailboxes::<3>();
    let mut merged = receiving(&all);
    for round in 0..3 {
        all.iter().for_each(|mailbox| mailbox.leave(round));
    }
    for round in 0..3 {
        let mut arms = [0; 3].map(|_| merged.try_next().unwrap());
        arms.sort_unstable();
        assert_eq!(arms, [(0, round), (1, round), (2, round)]);
    }
    // One that is always ready, and one that is served in between.
    (0..10).for_each(|n| all[0].leave(n));
    assert_eq!((merged.try_next(), merged.try_next()), (Some((0, 0)), Some((0, 1))));
    all[2].leave(100);
    let both = [merged.try_next().unwrap(), merged.try_next().unwrap()];
    assert!(both.contains(&(2, 100)), "{both:?}");
}

#[test]
fn a_wait_that_ends_without_an_output_leaves_what_was_handed() {
    let all = mailboxes::<2>();
    let mut merged = receiving(&all);
    assert_eq!(merged.try_next(), None);
    assert!(timeout(Duration::from_millis(1), || merged.next()).is_err());
    assert!(all[0].send(1));
    let cancelled: Result<_, Cancelled> = timeout(Duration::ZERO, || merged.next());
    assert!(cancelled.is_err(), "it was cancelled before it looked");
    // Losing a choice, and dropped futures.
    assert_eq!(after(Duration::ZERO).or_else(merged.next_source()).wait(), Ok(Either::Left(())));
    let (calls, waker) = Calls::new();
    assert_eq!(merged.next(), Ok((0, 1)));
    for message in 0..3 {
        let mut future = Box::pin(merged.next_source().into_future());
        assert!(poll(future.as_mut(), &waker).is_pending());
        assert!(all[1].send(message));
        assert_eq!(calls.count() as u32, message + 1);
        drop(future);
        assert_eq!(merged.try_next(), Some((1, message)));
    }
}

#[test]
fn what_was_not_yielded_is_given_back_and_what_was_told_passed_on() {
    let all = mailboxes::<3>();
    let mut merged = receiving(&all);
    assert_eq!(merged.try_next(), None);
    assert!(all[0].send(1));
    all[1].leave(2);
    drop(merged);
    assert_eq!(all.map(Mailbox::into_messages), [vec![1], vec![2], vec![]]);

    // Those that stand behind get it.
    let mailbox = Mailbox::new();
    for serve in [|m: &Mailbox<u32>| assert!(m.send(3)), |m: &Mailbox<u32>| m.leave(3)] {
        let mut merged = merge([mailbox.receive_source()]);
        assert_eq!(merged.try_next(), None);
        let mut behind = pin!(mailbox.receive_source().into_future());
        assert!(poll(behind.as_mut(), Waker::noop()).is_pending());
        serve(&mailbox);
        assert!(poll(behind.as_mut(), Waker::noop()).is_pending());
        drop(merged);
        assert_eq!(poll(behind.as_mut(), Waker::noop()), Poll::Ready(3));
    }
}

#[test]
fn arms_come_and_go() {
    let all = mailboxes::<3>();
    let mut merged = Merge::new();
    assert!(merged.is_empty() && merged.try_next().is_none());
    assert_eq!((merged.push(all[0].receive_source()), merged.push(all[1].receive_source())), (0, 1));
    assert_eq!(merged.try_next(), None);
    assert!(all[0].send(1) && all[1].send(2));
    let mut source = merged.remove(0).unwrap();
    assert!(merged.remove(0).is_none() && merged.remove(9).is_none());
    assert_eq!(source.attempt(), Some(1), "it was given back, and the source is whole");
    assert_eq!(merged.push(all[2].receive_source()), 0, "a place is used again");
    assert_eq!(merged.push(source), 2);
    assert_eq!(merged.len(), 3);
    assert_eq!(merged.next(), Ok((1, 2)));
    assert_eq!(merged.try_next(), None);
    assert!(all[2].send(3) && all[0].send(4));
    assert_eq!((merged.next(), merged.next()), (Ok((0, 3)), Ok((2, 4))));
    // One that is due goes, too.
    assert!(merged.remove(2).is_some());
    assert_eq!(merged.try_next(), None);
    assert!(!all[0].has_waiters());
}

#[test]
fn a_forgotten_future_takes_nothing_from_those_behind_it() {
    let all = mailboxes::<2>();
    let mut merged = receiving(&all);
    for _ in 0..40 {
        let mut future = Box::pin(merged.next_source().into_future());
        assert!(poll(future.as_mut(), Waker::noop()).is_pending());
        mem::forget(future);
    }
    thread::scope(|t| {
        let waiter = t.spawn(|| merged.next());
        assert!(all[0].send(5));
        assert_eq!(waiter.join().unwrap(), Ok((0, 5)));
    });
}

#[test]
fn an_arm_that_lets_nothing_pass_does_not_keep_the_others() {
    let looks = AtomicUsize::new(0);
    let mailbox = Mailbox::new();
    let never = at(Some(now())).filter_map(|()| {
        looks.fetch_add(1, SeqCst);
        None::<u32>
    });
    let mut merged = merge([never.boxed(), mailbox.receive_source().boxed()]);
    assert_eq!(merged.try_next(), None);
    assert!(mailbox.send(1));
    assert_eq!(merged.next(), Ok((1, 1)));
    // Nor the one that waits.
    let waited = timeout(Duration::from_millis(5), || merged.next());
    assert!(waited.is_err() && looks.load(SeqCst) > 64, "{}", looks.load(SeqCst));
    thread::scope(|t| {
        let waiter = t.spawn(|| merged.next());
        mailbox.send(2);
        assert_eq!(waiter.join().unwrap(), Ok((1, 2)));
    });
}

#[test]
fn an_arm_whose_closure_panics_is_still_there() {
    let mailbox = Mailbox::new();
    let odd = mailbox.receive_source().map(|n: u32| if n.is_multiple_of(2) { panic!("even") } else { n });
    let mut merged = merge([odd]);
    for served_before in [true, false] {
        if !served_before {
            assert_eq!(merged.try_next(), None);
        }
        mailbox.send(2);
        assert!(catch_unwind(AssertUnwindSafe(|| merged.try_next())).is_err());
        mailbox.send(3);
        assert_eq!(merged.try_next(), Some((0, 3)));
    }
}

#[test]
fn an_arm_that_is_removed_has_gone_also_if_what_it_gives_back_panics() {
    struct Loud(bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(!self.0, "nobody has taken it");
        }
    }
    let queue: WaitQueue<(), Loud> = WaitQueue::new(());
    let source = || queue.source(WaitsFor::new("something loud"), |()| false, |()| Loud(false));
    for is_collected in [false, true] {
        let mut merged = merge([source(), source()]);
        assert!(merged.try_next().is_none());
        assert!(queue.lock().hand_over(0, Loud(false)).is_ok());
        assert!(queue.lock().hand_over(0, Loud(true)).is_ok());
        if is_collected {
            // With it the other one comes into the row.
            assert_eq!(merged.try_next().map(|(index, _)| index), Some(0));
        }
        assert!(catch_unwind(AssertUnwindSafe(|| merged.remove(1))).is_err(), "its value is dropped");
        assert_eq!(merged.len(), 1);
        assert_eq!(merged.push(source()), 1);
        assert!(queue.lock().hand_over(0, Loud(false)).is_err(), "it is looked at by the next call");
        assert_eq!(merged.try_next().is_none(), is_collected);
        assert!(merged.try_next().is_none());
        for _ in 0..2 {
            assert!(queue.lock().hand_over(0, Loud(false)).is_ok());
            assert!(merged.try_next().is_some());
        }
    }
}

#[test]
fn merges_of_merges_guards_deadlines_and_choices() {
    let all = mailboxes::<4>();
    let (left, right) = all.split_at(2);
    let (mut left, mut right) = (receiving(left), receiving(right));
    {
        let mut both = merge([left.next_source().boxed(), right.next_source().boxed()]);
        assert_eq!(both.try_next(), None);
        assert!(all[3].send(1) && all[0].send(2));
        assert_eq!((both.next(), both.next()), (Ok((1, (1, 1))), Ok((0, (0, 2)))));
        assert_eq!(both.try_next(), None);
        assert!(all[2].send(3));
        // It is in the inner arm, and goes back no further than there.
    }
    assert_eq!(right.next(), Ok((0, 3)));

    let made = AtomicUsize::new(0);
    let anew = guard(|| {
        // The second round is over by the message, however long that takes.
        let limit = if made.fetch_add(1, SeqCst) == 1 { Duration::MAX } else { Duration::from_millis(1) };
        all[0].receive_source().or(after(limit))
    });
    drop(left);
    let mut rounds = merge([anew]);
    assert_eq!(rounds.next(), Ok((0, Either::Right(()))));
    all[0].send(4);
    assert_eq!(rounds.next(), Ok((0, Either::Left(4))));
    assert_eq!((rounds.next(), made.load(SeqCst)), (Ok((0, Either::Right(()))), 3));
}

#[test]
fn conservation_on_many_threads_with_merges_that_come_and_go() {
    const SENDERS: usize = 3;
    let each = rounds(2_000) as u32;
    let all = mailboxes::<4>();
    let received = AtomicUsize::new(0);
    let total = SENDERS * each as usize;
    let sums: Vec<u64> = thread::scope(|t| {
        for sender in 0..SENDERS {
            let all = &all;
            t.spawn(move || {
                for n in 0..each {
                    let to = &all[(n as usize + sender) % all.len()];
                    if n % 3 == 0 { to.leave(n) } else { _ = to.send(n) }
                }
            });
        }
        let (all, received) = (&all, &received);
        let owners = [0, 1].map(|owner| {
            t.spawn(move || {
                let mut sum = 0;
                while received.load(SeqCst) < total {
                    let mut merged = receiving(all);
                    for _ in 0..17 + owner {
                        let end = after(Duration::from_millis(1));
                        match merged.next_source().or_else(end).wait().unwrap() {
                            Either::Left((_, n)) => sum += u64::from(n),
                            Either::Right(()) => break,
                        }
                        received.fetch_add(1, SeqCst);
                    }
                    // With whatever was handed to it by now.
                }
                sum
            })
        });
        owners.map(|owner| owner.join().unwrap()).to_vec()
    });
    let all_of_one = u64::from(each) * u64::from(each - 1) / 2;
    assert_eq!((received.load(SeqCst), sums.iter().sum::<u64>()), (total, all_of_one * SENDERS as u64));
    assert!(all.into_iter().all(|mailbox| mailbox.into_messages().is_empty()));
}
