//! Closures and items at the same time: all, the first, so many at once; and again; and so often.
#![cfg(feature = "sched")]

use crate::meet;

use meet::everywhere;
use segue::concurrent::{First, RateLimiter, Retry, at_most, first_ok, join_all, race};
use segue::sync::{Barrier, Semaphore, promise};
use segue::testing::{Explore, Sim};
use segue::{
    CancelToken, Cancelled, Either, WaitError, after, channel, is_cancelled, now, scope, shield, sleep, timeout,
    wait_future, yield_now,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(2);
/// Of the simulated clock.
const LATER: Duration = Duration::from_millis(150);

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap()
}

/// Runs `f` under a token that is cancelled before.
fn when_cancelled<T>(f: impl FnOnce() -> T) -> T {
    let token = CancelToken::new();
    token.cancel_with("no longer wanted");
    token.run(f)
}

fn simulated<T>(f: impl FnOnce() -> T) -> T {
    Sim::new(3).run(f).unwrap_or_else(|deadlock| panic!("{deadlock}"))
}

#[test]
fn all_closures_run_at_once_and_their_results_keep_their_order() {
    everywhere(|| {
        // Each waits for all others.
        let meeting = Barrier::new(5);
        let results = join_all((0..5).map(|n| {
            let meeting = &meeting;
            move || meeting.wait().map(|_| n).unwrap()
        }));
        assert_eq!(results.unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(join_all(Vec::<fn() -> u8>::new()).unwrap(), []);
    });
}

#[test]
fn an_error_of_one_closure_stops_no_other() {
    everywhere(|| {
        let results = join_all(["1", "x", "3"].map(|text| move || text.parse::<u32>())).unwrap();
        assert_eq!(results.iter().filter_map(|result| result.as_ref().ok()).sum::<u32>(), 4);
        assert!(results[1].is_err());
    });
}

#[test]
fn closures_that_were_never_begun_leave_the_results_of_the_others() {
    everywhere(|| {
        let begun = AtomicUsize::new(0);
        let incomplete = when_cancelled(|| join_all((0..4).map(|_| || begun.fetch_add(1, SeqCst)))).unwrap_err();
        assert_eq!((begun.into_inner(), incomplete.results), (0, vec![None; 4]));
        assert_eq!(incomplete.error.reason().unwrap().to_string(), "no longer wanted");
    });
    // Those that have begun are told, and what they make of it comes back.
    let told = simulated(|| timeout(SOON, || join_all([|| sleep(Duration::MAX), || Ok(())]))).unwrap();
    assert!(told[0].as_ref().unwrap_err().timed_out() && told[1].is_ok());
}

#[test]
fn the_first_of_a_race_ends_it_and_the_others_results_are_kept() {
    everywhere(|| {
        let (resolver, promised) = promise::<u32>();
        let turns = [0, 1, 2];
        let First { index, value, others } = race(turns.map(|n| {
            let promised = &promised;
            move || match n {
                1 => Ok(1),
                // Has its value in the end, although it was cancelled.
                2 => shield(|| yield_now().map(|()| 2)).map_err(WaitError::from),
                _ => promised.wait().copied(),
            }
        }))
        .unwrap();
        // The third may have been faster, but not the first, for which nobody resolves.
        assert_eq!(value, Ok(index as u32));
        assert!(index != 0);
        for (number, result) in &others {
            assert!(*number != index && result.as_ref().is_ok_and(|value| *value == *number as u32) == (*number != 0));
        }
        drop(resolver);
    });
}

#[test]
fn what_a_loser_obtains_at_the_last_moment_is_not_lost() {
    // Two receivers race for two values that are there: both may have theirs.
    let mut both = 0;
    for seed in 0..200 {
        let (sender, receiver) = channel::bounded(2);
        (1..=2).for_each(|value| sender.send(value).unwrap());
        let First { value, others, .. } = Sim::new(seed)
            .run(|| {
                let slow = || {
                    let received = receiver.recv();
                    // By then another one may have won.
                    let _ = shield(yield_now);
                    received
                };
                race([&slow, &slow]).unwrap()
            })
            .unwrap_or_else(|deadlock| panic!("{deadlock}"));
        let mut got: Vec<i32> = others.into_iter().filter_map(|(_, result)| result.ok()).chain(value.ok()).collect();
        both += usize::from(got.len() == 2);
        got.extend(std::iter::from_fn(|| receiver.try_recv().ok()));
        got.sort_unstable();
        assert_eq!(got, [1, 2], "seed {seed}");
    }
    assert!(both > 0, "no loser has obtained a value, so nothing was tried");
}

#[test]
fn a_race_that_is_over_begins_no_further_closure() {
    // On one worker the first closure runs where the iterator waits.
    let begun = AtomicUsize::new(0);
    let closures = (0..100).map(|n| {
        yield_now().unwrap_or_default();
        let begun = &begun;
        move || begun.fetch_add(1, SeqCst) + n
    });
    let first = simulated(|| race(closures)).unwrap();
    let begun = begun.into_inner();
    assert!(begun < 100 && first.others.len() == begun - 1, "{begun} have begun");
}

#[test]
fn a_race_of_nobody_waits_until_it_is_cancelled() {
    everywhere(|| {
        let late = timeout(SOON, || race(Vec::<fn() -> u8>::new())).unwrap_err();
        assert!(late.timed_out());
        let never = when_cancelled(|| race([|| 1])).unwrap_err();
        assert_eq!(never.reason().unwrap().to_string(), "no longer wanted");
    });
}

#[test]
fn the_first_success_counts_and_if_there_is_none_all_errors_do() {
    everywhere(|| {
        let first = first_ok(["x", "7", "y"].map(|text| move || text.parse::<u32>())).unwrap();
        assert_eq!((first.index, first.value), (1, 7));
        assert!(first.others.iter().all(|(_, result)| result.is_err()));
        let none = first_ok(["x", "y"].map(|text| move || text.parse::<u32>())).unwrap_err();
        assert_eq!(none.errors.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(none.to_string(), "none has succeeded; number 1 failed: invalid digit found in string");
        let nothing = first_ok(Vec::<fn() -> Result<u8, String>>::new()).unwrap_err();
        assert!(nothing.errors.is_empty() && nothing.cancelled.is_none());
        let cancelled = when_cancelled(|| first_ok([|| Ok::<_, String>(1)])).unwrap_err();
        assert!(cancelled.cancelled.is_some() && cancelled.errors.is_empty());
    });
}

#[test]
fn a_slow_success_is_cancelled_by_a_quick_one_and_not_by_a_quick_failure() {
    simulated(|| {
        let start = now();
        let pauses = [(30, true), (5, false), (10, true)];
        let first = first_ok(pauses.map(|(ms, succeeds)| {
            move || {
                sleep(Duration::from_millis(ms)).map_err(|_| "cancelled")?;
                if succeeds { Ok(ms) } else { Err("failed") }
            }
        }))
        .unwrap();
        assert_eq!((first.value, (now() - start).as_millis()), (10, 10));
        assert_eq!(first.others, [(0, Err("cancelled")), (1, Err("failed"))]);
    });
}

#[test]
fn a_panic_of_a_closure_ends_the_others_and_is_raised() {
    everywhere(|| {
        let ended = AtomicUsize::new(0);
        let told = message(|| {
            let _ = join_all((0..3).map(|n| {
                let ended = &ended;
                move || {
                    if n == 1 {
                        std::panic::panic_any("out of ink");
                    }
                    let cancelled = sleep(Duration::MAX);
                    ended.fetch_add(1, SeqCst);
                    cancelled
                }
            }));
        });
        assert_eq!(told, "out of ink");
        // Those that had begun.
        assert!(ended.into_inner() <= 2);
    });
}

#[test]
fn items_are_worked_on_so_many_at_a_time_and_their_results_keep_their_order() {
    everywhere(|| {
        for bound in [1, 3, usize::MAX] {
            let (at_work, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let results = at_most(bound).map(0..20_usize, |n| {
                most.fetch_max(at_work.fetch_add(1, SeqCst) + 1, SeqCst);
                yield_now().unwrap();
                at_work.fetch_sub(1, SeqCst);
                n * n
            });
            assert_eq!(results.unwrap(), (0..20).map(|n| n * n).collect::<Vec<_>>());
            assert!((1..=bound.min(20)).contains(&most.into_inner()));
        }
        assert_eq!(at_most(4).map(Vec::<u8>::new(), |n| n).unwrap(), []);
    });
}

#[test]
fn as_many_items_as_are_allowed_are_really_worked_on_at_once() {
    everywhere(|| {
        // Each of four waits for the three others.
        let meeting = Barrier::new(4);
        at_most(4).for_each(0..8, |_| _ = meeting.wait().unwrap()).unwrap();
        at_most(usize::MAX).for_each(0..4, |_| _ = meeting.wait().unwrap()).unwrap();
    });
}

#[test]
fn an_item_that_was_not_begun_stays_in_its_iterator() {
    everywhere(|| {
        let mut items = 0..1000_u32;
        let token = CancelToken::new();
        let begun = std::sync::Mutex::new(Vec::new());
        let incomplete = token.run(|| {
            at_most(3).map(items.by_ref(), |n| {
                begun.lock().unwrap().push(n);
                if n == 10 {
                    token.cancel();
                }
                yield_now().is_ok()
            })
        });
        let incomplete = incomplete.unwrap_err();
        let mut all = begun.into_inner().unwrap();
        assert_eq!(incomplete.results.iter().flatten().count(), all.len());
        assert!(all.len() < 1000);
        all.extend(items);
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    });
}

#[test]
fn an_iterator_that_ends_by_a_cancellation_is_no_success() {
    everywhere(|| {
        let (sender, jobs) = channel::bounded(4);
        sender.send(1).unwrap();
        let ended = timeout(SOON, || at_most(2).map(&jobs, |job| job));
        assert_eq!(ended.unwrap_err().results, [Some(1)]);
        drop(sender);
        assert_eq!(at_most(2).map(jobs, |job| job).unwrap(), []);
    });
}

#[test]
fn a_question_is_answered_by_the_first_that_says_so() {
    everywhere(|| {
        let asked = AtomicUsize::new(0);
        let is_there = at_most(2).any(0..1_000_000, |n| {
            asked.fetch_add(1, SeqCst);
            n == 5
        });
        assert!(is_there.unwrap() && asked.into_inner() < 1000);
        assert!(!at_most(2).any([1, 2, 3], |n| n > 5).unwrap());
        assert!(!at_most(2).any(Vec::<u8>::new(), |_| true).unwrap());
        // Found is found, although it is cancelled then.
        let token = CancelToken::new();
        let found = token.run(|| {
            at_most(1).any(0..10, |n| {
                token.cancel();
                n == 0
            })
        });
        assert!(found.unwrap());
        assert!(when_cancelled(|| at_most(1).any([0], |_| true)).is_err());
    });
}

#[test]
fn a_panic_of_an_item_or_of_the_iterator_ends_the_rest_and_is_raised() {
    everywhere(|| {
        let items = |bad: u32| (0..100_u32).inspect(move |n| assert_ne!(*n, bad, "the iterator has had enough"));
        let told = message(|| drop(at_most(3).for_each(items(1000), |n| assert_ne!(n, 7, "not this one"))));
        assert!(told.contains("not this one"), "{told}");
        let asked = AtomicUsize::new(0);
        let told = message(|| drop(at_most(3).map(items(7), |_| asked.fetch_add(1, SeqCst))));
        assert!(told.contains("the iterator has had enough"), "{told}");
        assert!(asked.into_inner() <= 7);
    });
}

#[test]
fn no_items_at_a_time_is_a_clear_error() {
    assert!(message(|| _ = at_most(0)).contains("say how many, 1 at least"));
    assert!(message(|| _ = Retry::new(0)).contains("say how often, once at least"));
    assert!(message(|| _ = Retry::new(1).jitter(2.0)).contains("from 0 to 1, and not 2"));
    assert!(message(|| _ = Retry::new(1).jitter(f64::NAN)).contains("from 0 to 1"));
}

/// A drop that works on items while its fiber panics.
struct Late<'a>(&'a AtomicUsize);

impl Drop for Late<'_> {
    fn drop(&mut self) {
        at_most(usize::MAX).for_each(0..10_000, |_| _ = self.0.fetch_add(1, SeqCst)).unwrap();
    }
}

#[test]
fn items_are_worked_on_during_a_panic_too_without_a_deep_stack() {
    everywhere(|| {
        let done = AtomicUsize::new(0);
        message(|| {
            let _late = Late(&done);
            std::panic::panic_any("first");
        });
        assert_eq!(done.into_inner(), 10_000);
    });
}

#[test]
fn items_are_worked_on_inside_of_items() {
    everywhere(|| {
        let seats = Semaphore::new(4);
        let sums = at_most(2).map(0..4_u64, |outer| {
            let inner = at_most(2).map(0..4_u64, |inner| seats.acquire().map(|_seat| outer * inner));
            inner.unwrap().into_iter().map(Result::unwrap).sum::<u64>()
        });
        assert_eq!(sums.unwrap(), [0, 6, 12, 18]);
    });
}

#[test]
fn pauses_double_up_to_the_longest_and_no_try_is_made_too_many() {
    simulated(|| {
        let retry = Retry::new(6).first_pause(Duration::from_millis(10)).longest_pause(Duration::from_millis(40));
        let (start, mut at) = (now(), Vec::new());
        let given_up = retry.jitter(0.0).run(|attempt| {
            at.push((attempt, (now() - start).as_millis()));
            Err::<(), _>("busy")
        });
        assert_eq!(at, [(1, 0), (2, 10), (3, 30), (4, 70), (5, 110), (6, 150)]);
        assert_eq!(given_up.unwrap_err().to_string(), "tried 6 times, at last: busy");
        // With a jitter each pause is between half of it and all of it.
        let (mut before, mut parts) = (now(), Vec::new());
        let _ = retry.jitter(0.5).longest_pause(Duration::from_millis(10)).run(|_| {
            parts.push((now() - before).as_micros());
            before = now();
            Err::<(), _>(())
        });
        assert!(parts[1..].iter().all(|us| (5_000..=10_000).contains(us)), "{parts:?}");
        assert!(parts[1..].windows(2).any(|two| two[0] != two[1]), "nothing was drawn");
    });
}

#[test]
fn the_pauses_of_a_retry_follow_from_the_seed() {
    let waited = |seed| {
        let run = Sim::new(seed).run(|| {
            let start = now();
            let _ = Retry::new(6).run(|_| Err::<(), _>("busy"));
            now() - start
        });
        run.unwrap()
    };
    let mut all: Vec<_> = (0..16).map(waited).collect();
    assert_eq!(all, (0..16).map(waited).collect::<Vec<_>>());
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 16, "each seed has pauses of its own");
}

#[test]
fn a_retry_ends_with_its_caller_and_with_what_will_not_pass() {
    simulated(|| {
        let retry = Retry::new(u32::MAX).first_pause(Duration::from_millis(1)).longest_pause(Duration::MAX);
        let late = timeout(Duration::from_secs(3600), || retry.run(|_| Err::<(), _>("busy"))).unwrap_err();
        assert!(late.cancelled.as_ref().is_some_and(Cancelled::timed_out) && late.attempts > 10);
        assert!(late.to_string().contains("at last: busy; then it was cancelled"), "{late}");
        let gone = retry
            .run_while(|error| *error != "gone", |attempt| Err::<(), _>(if attempt == 3 { "gone" } else { "busy" }));
        assert_eq!(gone.unwrap_err().attempts, 3);
        // A try that fails since it was cancelled is the last one.
        let once = when_cancelled(|| retry.run(|_| sleep(SOON))).unwrap_err();
        assert_eq!((once.attempts, once.cancelled.is_some()), (1, true));
        let all = Retry::new(3).first_pause(Duration::MAX).jitter(1.0);
        assert!(timeout(SOON, || all.run(|_| Err::<(), _>(()))).is_err(), "a pause of any length is one");
    });
}

#[test]
fn nothing_runs_on_after_the_call() {
    everywhere(|| {
        let alive = AtomicUsize::new(0);
        scope(|_| {
            let _ = race((0..8).map(|n| {
                let alive = &alive;
                move || {
                    alive.fetch_add(1, SeqCst);
                    if n != 3 {
                        // One that ignores it for a while holds the race up.
                        while !is_cancelled() {
                            let _ = yield_now();
                        }
                    }
                    alive.fetch_sub(1, SeqCst);
                }
            }));
            assert_eq!(alive.load(SeqCst), 0);
        });
    });
}

/// The nanoseconds from the start at which so many tokens could be had one by one.
fn moments(limit: &RateLimiter, tokens: u32) -> Vec<u128> {
    let start = now();
    (0..tokens).map(|_| limit.acquire(1).map(|()| (now() - start).as_nanos()).unwrap()).collect()
}

#[test]
fn a_rate_limiter_lets_a_burst_through_and_then_one_by_one_without_a_drift() {
    simulated(|| {
        let limit = RateLimiter::new(3, Duration::from_secs(1), 2);
        // A third of a second is no whole number of nanoseconds: each comes at the first that is
        // not too early, and the third of each second exactly.
        let times = moments(&limit, 2 + 3 * 1000);
        for (number, time) in times.iter().enumerate() {
            let due = (number as u128).saturating_sub(1) * 1_000_000_000;
            assert_eq!(*time, due.div_ceil(3), "token {number}");
        }
        // A pause of any length saves up one burst, and what is begun of the next one counts.
        sleep(Duration::from_secs(1)).unwrap();
        assert_eq!(limit.available(), 2);
        sleep(Duration::from_secs(3600)).unwrap();
        assert_eq!(limit.available(), 2);
        assert_eq!(moments(&limit, 3), [0, 0, 333_333_334]);
        sleep(Duration::from_nanos(333_333_333 + 166_666_667)).unwrap();
        assert_eq!(moments(&limit, 2), [0, 166_666_666]);
    });
}

#[test]
fn a_rate_limiter_serves_in_order_also_who_asks_for_many() {
    simulated(|| {
        let limit = RateLimiter::new(10, Duration::from_secs(1), 5);
        assert!(limit.try_acquire(5) && !limit.try_acquire(1));
        let start = now();
        let order = std::sync::Mutex::new(Vec::new());
        scope(|s| {
            for tokens in [4, 1, 2] {
                let (limit, order) = (&limit, &order);
                s.spawn(move || {
                    limit.acquire(tokens).unwrap();
                    order.lock().unwrap().push((tokens, (now() - start).as_millis()));
                });
                // It is in line now.
                sleep(Duration::from_millis(1)).unwrap();
            }
            sleep(LATER).unwrap();
            assert!(!limit.try_acquire(1), "there is one, and others are in line");
        });
        assert_eq!(*order.lock().unwrap(), [(4, 400), (1, 500), (2, 700)]);
    });
}

#[test]
fn a_cancelled_wait_for_tokens_takes_none_and_the_next_one_moves_up() {
    simulated(|| {
        let limit = RateLimiter::new(10, Duration::from_secs(1), 5);
        limit.acquire(5).unwrap();
        let start = now();
        scope(|s| {
            // The first in line, and one behind, leave; the last one has what both left.
            for tokens in [5, 3] {
                let limit = &limit;
                s.spawn(move || {
                    let late = timeout(Duration::from_millis(50), || limit.acquire(tokens));
                    assert!(late.unwrap_err().timed_out());
                });
                sleep(Duration::from_millis(1)).unwrap();
            }
            let last = s.spawn(|| limit.acquire(1).map(|()| (now() - start).as_millis()));
            assert_eq!(last.join().unwrap().unwrap(), 100);
        });
        // Before it has begun: what is there is not taken.
        sleep(Duration::from_secs(1)).unwrap();
        assert!(when_cancelled(|| limit.acquire(1)).is_err());
        // An arm that loses has taken nothing, and is out of the line; a task likewise.
        limit.acquire(5).unwrap();
        let lost = limit.acquire_source(2).or(after(Duration::from_millis(150))).wait().unwrap();
        assert!(matches!(lost, Either::Right(())));
        assert_eq!(limit.available(), 1);
        let won = limit.acquire_source(2).or(after(Duration::from_millis(150))).wait().unwrap();
        assert!(matches!(won, Either::Left(())));
        wait_future(async { limit.acquire_source(1).await }).unwrap();
        // 200 ms after the burst, and 100 more.
        assert_eq!((limit.available(), (now() - start).as_millis()), (0, 1100 + 300));
    });
}

#[test]
fn a_rate_limiter_lets_no_more_through_than_come_under_any_schedule() {
    Explore::random(60).check(|| {
        let limit = RateLimiter::new(1000, Duration::from_secs(1), 3);
        let (taken, start) = (AtomicUsize::new(0), now());
        scope(|s| {
            for number in 0..6_u32 {
                let (limit, taken) = (&limit, &taken);
                s.spawn(move || {
                    for round in 0..4 {
                        let tokens = 1 + (number + round) % 3;
                        let patience = Duration::from_millis(u64::from(2 * number + round));
                        let got = match number % 3 {
                            0 => limit.try_acquire(tokens),
                            1 => timeout(patience, || limit.acquire(tokens)).is_ok(),
                            _ => limit.acquire(tokens).is_ok(),
                        };
                        if got {
                            let all = taken.fetch_add(tokens as usize, SeqCst) + tokens as usize;
                            assert!(all as u128 <= 3 + (now() - start).as_millis(), "{all} at {:?}", now() - start);
                        }
                    }
                });
            }
        });
        // None is lost, either: what was not taken is there.
        let left = (3 + (now() - start).as_millis() - taken.into_inner() as u128).min(3);
        assert_eq!(u128::from(limit.available()), left);
    });
}

#[test]
fn tokens_that_are_there_are_refused_to_nobody_since_another_one_takes() {
    const EACH: u32 = if cfg!(miri) { 100 } else { 100_000 };
    let limit = RateLimiter::new(1, Duration::from_secs(3600), 2 * EACH);
    let take_all = || (0..EACH).filter(|_| limit.try_acquire(1)).count();
    let taken: usize =
        thread::scope(|t| [0; 2].map(|_| t.spawn(take_all)).map(|taker| taker.join().unwrap()).iter().sum());
    assert_eq!((taken, limit.available()), (2 * EACH as usize, 0));
}

#[test]
fn a_rate_limiter_refuses_what_can_never_be() {
    let none = || RateLimiter::new(0, Duration::from_secs(1), 1);
    assert!(message(|| _ = none()).contains("needs a rate, an interval and a burst"));
    let limit = RateLimiter::new(1, Duration::MAX, u32::MAX);
    assert!(limit.try_acquire(u32::MAX) && limit.available() == 0);
    assert!(timeout(SOON, || limit.acquire(u32::MAX)).is_err(), "a long time is one");
    let small = RateLimiter::new(u32::MAX, Duration::from_nanos(1), 1);
    assert!((0..1000).all(|_| small.acquire(1).is_ok()));
    assert!(message(|| drop(small.acquire(2))).contains("the burst of this rate limiter is 1"));
    everywhere(|| scope(|s| drop((0..8).map(|_| s.spawn(|| small.acquire(1).unwrap())).collect::<Vec<_>>())));
}
