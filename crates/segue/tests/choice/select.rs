//! `select!` and `any_of`: what the macro takes, which arm is chosen, and what the others keep.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{block_on, everywhere, mixed, simulated};
use segue::channel::{self, Receiver, broadcast};
use segue::source::{OneOf, any_of_biased};
use segue::sync::MVar;
use segue::{Cancelled, Either, Waitable, after, any_of, scope, select, timeout, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_body_may_leave_the_function_or_the_loop_and_use_what_other_arms_had_borrowed() {
    fn first_even(numbers: &Receiver<u32>, seen: &mut Vec<u32>) -> Result<u32, Cancelled> {
        loop {
            let mut never = after(HOUR);
            select! {
                number = numbers.recv_source() => {
                    let Ok(number) = number else { break };
                    never = after(MILLI);
                    assert_eq!(never.attempt(), None);
                    if number % 2 == 0 {
                        return Ok(number);
                    }
                    seen.push(number);
                    continue;
                }
                () = never.by_ref() => unreachable!("an hour"),
            }?;
        }
        Ok(0)
    }
    let (sender, numbers) = channel::unbounded();
    [1, 3, 4, 5].into_iter().for_each(|n| sender.send(n).unwrap());
    drop(sender);
    let mut seen = Vec::new();
    assert_eq!(first_even(&numbers, &mut seen), Ok(4));
    assert_eq!(first_even(&numbers, &mut seen), Ok(0));
    assert_eq!(seen, [1, 3, 5]);
}

#[test]
fn each_way_to_write_an_arm() {
    let (sender, receiver) = channel::bounded(8);
    (0..8).for_each(|n| sender.send(n).unwrap());
    let tuple = receiver.recv_source().map(|n| (n.unwrap(), "more"));
    assert_eq!(select! { (n, _) = tuple => n }, Ok(0));
    let either = receiver.recv_source().map(|n| if n == Ok(1) { n } else { Err(segue::Closed) }.map_err(|_| 0));
    assert_eq!(select! { Ok(n) | Err(n) = either => n, }, Ok(1));
    let next = select! { biased; n = receiver.recv_source() => { n.unwrap() } () = after(HOUR) => 100 };
    assert_eq!(next, Ok(2));
    let next = select! { biased; () = after(Duration::ZERO), if false => 100, n = receiver.recv_source(), if 1 > 0 => n.unwrap() };
    assert_eq!(next, Ok(3));
    let next = select! { n = receiver.recv_source() => n.unwrap(), deadline(Instant::now()) => 100 };
    assert_eq!(next, Ok(4), "what is there is taken, also after the deadline");
    let next = select! { n = receiver.recv_source() => n.unwrap(), default => 100 };
    assert_eq!(next, 5);
    let next = select! { biased; n = receiver.recv_source() => n.unwrap(), default => { 100 } };
    assert_eq!(next, 6);
    assert_eq!(receiver.recv(), Ok(7));
    assert_eq!(select! { n = receiver.recv_source() => n.unwrap(), default => 100, }, 100);
    let late = select! { n = receiver.recv_source() => n.unwrap(), deadline(Instant::now() + MILLI) => 100, };
    assert_eq!(late, Ok(100));
    let late = select! { () = after(MILLI) => 1, deadline(None) => 100 };
    assert_eq!(late, Ok(1));
    let late = select! { n = receiver.recv_source(), if false => n.unwrap(), deadline(Instant::now()) => 100 };
    assert_eq!(late, Ok(100), "all arms are switched off");
    let zero = || after(Duration::ZERO);
    let with_commas = select! { biased; () = zero(), if false => { 1 }, () = zero() => { 2 }, () = zero() => { 3 }, };
    assert_eq!(with_commas, Ok(2), "a comma may stand behind a block");
    let without = select! { deadline(None) => { 1 } () = zero(), if false => { 2 } () = zero() => { 3 } };
    assert_eq!(without, Ok(3));
    let without = select! { default => { 1 } n = receiver.recv_source() => { n.unwrap() } };
    assert_eq!(without, 1);
    let none: Result<u32, _> = timeout(MILLI, || select! { n = receiver.recv_source(), if false => n.unwrap() });
    assert!(none.unwrap_err().timed_out());
}

#[test]
fn it_can_be_written_by_another_macro_and_has_names_of_its_own() {
    #![allow(non_upper_case_globals, dead_code)]
    macro_rules! first_of {
        ($left:expr, $right:expr, $late:expr) => {
            select! {
                biased;
                left = $left => left,
                right = $right => { right }
                deadline(Instant::now()) => $late,
            }
        };
    }
    const chosen: u8 = 0;
    const cancelled: u8 = 0;
    static yielded: u8 = 0;
    static output: u8 = 0;
    let at = |duration, number| after(duration).map(move |()| number);
    assert_eq!(first_of!(at(Duration::ZERO, 1), at(HOUR, 2), 3), Ok(1));
    assert_eq!(first_of!(at(HOUR, 1), at(Duration::ZERO, 2), 3), Ok(2));
    assert_eq!(first_of!(at(HOUR, 1), at(HOUR, 2), 3), Ok(3));
    assert_eq!(select! { n = at(HOUR, 1) => { n } default => 4 }, 4);
}

#[test]
fn in_a_task_it_is_awaited() {
    let (sender, receiver) = channel::unbounded();
    sender.send(1).unwrap();
    let task = async move {
        let mut seen = Vec::new();
        loop {
            select! {
                await; biased;
                n = receiver.recv_source() => seen.push(n.unwrap()),
                deadline(segue::now() + MILLI) => break,
            }
        }
        let last = select! { await; () = after(MILLI) => 2, n = receiver.recv_source() => n.unwrap() };
        seen.push(last);
        seen
    };
    fn is_send<T: Send>(task: T) -> T {
        task
    }
    assert_eq!(segue::wait_future(is_send(task)), Ok(vec![1, 2]));
    drop(sender);
}

#[test]
fn twelve_arms_of_different_types() {
    for ready in 0..12 {
        let at = |arm| after(if arm == ready { Duration::ZERO } else { HOUR });
        let chosen = select! {
            () = at(0) => 0,
            n = at(1).map(|()| 1_u8) => usize::from(n),
            n = at(2).map(|()| "2") => n.parse().unwrap(),
            () = at(3) => 3,
            () = at(4) => 4,
            () = at(5) => 5,
            n = at(6).map(|()| String::from("6")) => n.parse().unwrap(),
            () = at(7) => 7,
            () = at(8) => 8,
            () = at(9) => 9,
            () = at(10) => 10,
            () = at(11) => 11,
        };
        assert_eq!(chosen, Ok(ready));
    }
}

#[test]
fn what_a_losing_arm_has_brought_stays_with_its_source() {
    everywhere(|| {
        let (one, inbox) = channel::rendezvous();
        let (other, _full) = channel::bounded(1);
        other.send(String::from("first")).unwrap();
        let mut sending = one.send_source(String::from("to one"));
        let mut waiting = other.send_source(String::from("to other"));
        let chosen = scope(|s| {
            s.spawn(|| assert_eq!(inbox.recv().unwrap(), "to one"));
            select! {
                sent = sending.by_ref() => sent.map(|()| 1),
                sent = waiting.by_ref() => sent.map(|()| 2),
            }
        });
        assert_eq!(chosen, Ok(Ok(1)));
        assert_eq!((sending.into_value(), waiting.into_value()), (None, Some(String::from("to other"))));
    });
}

#[test]
fn a_source_that_has_sent_is_done_however_often_it_is_asked() {
    let (sender, receiver) = channel::bounded(4);
    let (news, mut heard) = broadcast::lossless(4);
    let place = MVar::empty();
    let mut sources = [sender.send_source(1).boxed(), news.send_source(1).boxed(), place.put_source(1).map(Ok).boxed()];
    for source in &mut sources {
        for _ in 0..3 {
            assert_eq!(select! { sent = source.by_ref() => sent, default => Err(segue::Closed) }, Ok(()));
            assert_eq!(source.by_ref().wait(), Ok(Ok(())), "also where there is no room any more");
        }
    }
    assert!(receiver.close());
    assert_eq!(sources[0].attempt(), Some(Ok(())), "also after the end");
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
    assert_eq!((heard.try_recv(), heard.try_recv()), (Some(Ok(1)), None));
    assert_eq!((place.try_take(), place.try_take()), (Some(1), None));
    assert_eq!(news.send_source(2).into_value(), Some(2), "one that has not, has its value");
}

#[test]
fn both_ends_of_one_rendezvous_wait_for_a_third() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        for round in 0..4 {
            let chosen = scope(|s| {
                let chosen = s.spawn(|| {
                    let mut sending = sender.send_source(1);
                    let chosen = select! {
                        sent = sending.by_ref() => { sent.unwrap(); None }
                        received = receiver.recv_source() => received.ok(),
                    };
                    (chosen, sending.into_value())
                });
                let _ = yield_now();
                if round % 2 == 0 {
                    assert_eq!(receiver.recv(), Ok(1));
                } else {
                    sender.send(2).unwrap();
                }
                chosen.join().unwrap()
            });
            assert_eq!(chosen, if round % 2 == 0 { (Ok(None), None) } else { (Ok(Some(2)), Some(1)) });
        }
        let late = timeout(MILLI, || {
            select! {
                sent = sender.send_source(1) => sent.unwrap(),
                received = receiver.recv_source() => assert_eq!(received, Ok(0)),
            }
        });
        assert!(late.unwrap_err().timed_out());
        assert!(receiver.try_recv().is_err() && sender.try_send(1).is_err(), "it has left both queues");
    });
}

#[test]
fn the_same_channel_twice_gives_each_value_once() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        scope(|s| {
            s.spawn(|| (0..100).for_each(|n| sender.send(n).unwrap()));
            for expected in 0..100 {
                let chosen = any_of([receiver.recv_source(), receiver.recv_source()]).wait();
                assert_eq!(chosen.unwrap().1, Ok(expected));
            }
        });
        assert!(receiver.is_empty());
    });
}

#[test]
fn a_choice_without_arms_ends_by_its_cancellation_alone() {
    let none: Vec<Waitable<segue::core::Deadline>> = Vec::new();
    assert_eq!(any_of(none.clone()).attempt(), None);
    assert!(timeout(MILLI, || any_of(none).wait()).unwrap_err().timed_out());
    let found = segue::testing::Sim::new(1).run(|| any_of(Vec::<Waitable<segue::core::Deadline>>::new()).wait());
    let report = found.unwrap_err().to_string();
    assert!(report.contains("one of several"), "{report}");
}

#[test]
fn a_choice_without_arms_is_an_arm_that_is_never_ready() {
    let none = || any_of(Vec::<Waitable<segue::core::Deadline>>::new());
    everywhere(|| {
        for _ in 0..100 {
            let (sender, receiver) = channel::bounded(2);
            sender.send(7).unwrap();
            let ready = || receiver.recv_source();
            assert!(matches!(any_of((none(), ready())).wait(), Ok(OneOf::B(Ok(7)))));
            sender.send(7).unwrap();
            assert!(matches!(any_of((ready(), none())).wait(), Ok(OneOf::A(Ok(7)))));
            sender.send(7).unwrap();
            assert!(matches!(any_of((none(), ready().or(after(HOUR)))).wait(), Ok(OneOf::B(Either::Left(Ok(7))))));
            sender.send(7).unwrap();
            assert!(matches!(none().or(none()).or(ready()).wait(), Ok(Either::Right(Ok(7)))));
            sender.send(7).unwrap();
            sender.send(8).unwrap();
            let lists = [vec![], vec![ready(), ready()], vec![], vec![]].map(any_of);
            assert_eq!(any_of(lists).wait().unwrap().0, 1);
        }
    });
}

#[test]
fn of_a_thousand_arms_each_can_be_the_one() {
    let channels: Vec<_> = (0..1000).map(|_| channel::bounded::<usize>(1)).collect();
    let chosen = || any_of(channels.iter().map(|(_, receiver)| receiver.recv_source()).collect::<Vec<_>>());
    for index in [0, 1, 499, 998, 999] {
        channels[index].0.send(index).unwrap();
        assert_eq!(chosen().wait(), Ok((index, Ok(index))), "before");
        let waited = thread::scope(|t| {
            let waits = t.spawn(|| chosen().wait());
            thread::yield_now();
            channels[index].0.send(index).unwrap();
            waits.join().unwrap()
        });
        assert_eq!(waited, Ok((index, Ok(index))), "meanwhile");
        channels[index].0.send(index).unwrap();
        assert_eq!(block_on(chosen()), (index, Ok(index)));
    }
    assert!(channels.iter().all(|(sender, receiver)| {
        // Nobody stands in the queues.
        sender.send(7).is_ok() && receiver.recv() == Ok(7)
    }));
}

#[test]
fn of_arms_that_are_always_ready_each_is_chosen_and_a_biased_choice_takes_the_first() {
    let ready = || [(); 5].map(|()| after(Duration::ZERO));
    let mut chosen = [0; 5];
    (0..10_000).for_each(|_| chosen[any_of(ready()).wait().unwrap().0] += 1);
    assert!(chosen.iter().all(|times| *times > 1_500), "{chosen:?}");
    assert!((0..100).all(|_| any_of_biased(ready()).wait() == Ok((0, ()))));
    // One that is a choice itself has the chance of all its arms.
    let mut nested = 0;
    for _ in 0..10_000 {
        let four = any_of(std::array::from_fn::<_, 4, _>(|_| after(Duration::ZERO)));
        nested += usize::from(matches!(any_of((four, after(Duration::ZERO))).wait(), Ok(OneOf::A(_))));
    }
    assert!((7_000..9_000).contains(&nested), "{nested}");
}

#[test]
fn an_arm_that_flickers_starves_nobody_in_a_million_rounds() {
    let (flickers, flickering) = channel::unbounded();
    let (steady, steadily) = channel::unbounded();
    let (over, taken, retreats) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    steady.send(()).unwrap();
    thread::scope(|t| {
        t.spawn(|| {
            while !over.load(SeqCst) {
                flickers.send(()).unwrap();
                retreats.fetch_add(usize::from(flickering.try_recv().is_ok()), SeqCst);
            }
        });
        for _ in 0..1_000_000 {
            select! {
                flicker = flickering.recv_source() => flicker.unwrap(),
                value = steadily.recv_source() => {
                    value.unwrap();
                    taken.fetch_add(1, SeqCst);
                    steady.send(()).unwrap();
                }
            }
            .unwrap();
        }
        over.store(true, SeqCst);
    });
    assert!(taken.load(SeqCst) > 400_000, "{taken:?}");
    assert!(retreats.load(SeqCst) > 0);
}

/// papers/004, section 4.1: neither waits for the other for ever, and one commit decides for both.
#[test]
fn crosswise_choices_over_two_rendezvous_meet() {
    let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let meet = || {
        let (to_one, one) = channel::rendezvous();
        let (to_other, other) = channel::rendezvous();
        let (mine, theirs) = scope(|s| {
            let theirs = s.spawn(|| {
                select! {
                    value = one.recv_source() => value.ok(),
                    sent = to_other.send_source(2) => sent.err().map(|_| 0),
                }
            });
            let mine = select! {
                sent = to_one.send_source(1) => sent.err().map(|_| 0),
                value = other.recv_source() => value.ok(),
            };
            (mine.unwrap(), theirs.join().unwrap().unwrap())
        });
        match (mine, theirs) {
            (None, Some(1)) => sent.fetch_add(1, SeqCst),
            (Some(2), None) => received.fetch_add(1, SeqCst),
            other => panic!("{other:?}"),
        };
        assert!(one.try_recv().is_err() && other.try_recv().is_err());
    };
    simulated(200, |_| meet());
    mixed(12, |_| meet());
    assert!(sent.load(SeqCst) > 0 && received.load(SeqCst) > 0, "{sent:?} {received:?}");
}

/// How often the first of two ready channels is taken among idle ones, for 1,000 times: of 10,000.
fn share_of_the_first(all: &[(channel::Sender<usize>, Receiver<usize>)], ready: [usize; 2]) -> usize {
    ready.iter().for_each(|arm| all[*arm].0.send(*arm).unwrap());
    let taken = (0..10_000).filter(|_| {
        let (arm, value) =
            any_of(all.iter().map(|(_, receiver)| receiver.recv_source()).collect::<Vec<_>>()).wait().unwrap();
        assert_eq!(value, Ok(arm));
        all[arm].0.send(arm).unwrap();
        arm == ready[0]
    });
    let first = taken.count() / 10;
    ready.iter().for_each(|arm| assert_eq!(all[*arm].1.try_recv(), Ok(*arm)));
    first
}

#[test]
fn channels_that_are_ready_have_the_same_chance_wherever_idle_ones_stand() {
    let all: Vec<_> = (0..70).map(|_| channel::bounded(1)).collect();
    for (arms, ready) in [(12, [10, 11]), (12, [0, 1]), (12, [3, 11]), (70, [10, 69]), (70, [65, 66])] {
        let share = share_of_the_first(&all[..arms], ready);
        assert!((450..=550).contains(&share), "{ready:?} of {arms}: {share}");
    }
}
