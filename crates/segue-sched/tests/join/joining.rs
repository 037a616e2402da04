//! Fork-join: nested, borrowed, with panics on either side, with waits in the middle of it, and
//! where one half waits for the other.

use crate::common::{Counted, Meet, everywhere, everywhere_and_on_threads, on_real_schedulers, scaled};
use segue_core::scheduling::run_as_thread;
use segue_core::{scope, shield, sleep, spawn, yield_now};
use segue_sched::par::prelude::*;
use segue_sched::{Plain, Runtime, is_wanted, join, try_join};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[test]
fn joins_nest() {
    let n = if crate::common::STAND_IN { 14 } else { 20 };
    let expected = if crate::common::STAND_IN { 377 } else { 6765 };
    everywhere_and_on_threads(|| assert_eq!(fib(n), expected));
}

#[test]
fn halves_borrow_from_the_caller() {
    fn sum(numbers: &[u64]) -> u64 {
        match numbers {
            [] => 0,
            [one] => *one,
            many => {
                let (left, right) = many.split_at(many.len() / 2);
                let (a, b) = join(|| sum(left), || sum(right));
                a + b
            }
        }
    }
    let numbers: Vec<u64> = (0..scaled(10_000, 500) as u64).collect();
    everywhere_and_on_threads(|| assert_eq!(sum(&numbers), numbers.iter().sum()));
}

#[test]
fn a_panic_in_either_half_comes_out_with_its_payload() {
    everywhere_and_on_threads(|| {
        let ran = AtomicUsize::new(0);
        let in_a = catch_unwind(AssertUnwindSafe(|| join(|| panic_any("a"), || ran.fetch_add(1, SeqCst))));
        assert_eq!(*in_a.unwrap_err().downcast::<&str>().unwrap(), "a");
        let in_b = catch_unwind(AssertUnwindSafe(|| join(|| ran.fetch_add(1, SeqCst), || panic_any("b"))));
        assert_eq!(*in_b.unwrap_err().downcast::<&str>().unwrap(), "b");
        let in_both = catch_unwind(AssertUnwindSafe(|| join(|| panic_any("a"), || panic_any("b"))));
        assert_eq!(*in_both.unwrap_err().downcast::<&str>().unwrap(), "a");
        assert!((1..=2).contains(&ran.load(SeqCst)));
    });
}

#[test]
fn a_panic_after_a_wait_waits_for_the_half_that_was_given_away() {
    everywhere(|| {
        let (ended, drops) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for b_panics in [false, true] {
            let held = Counted(&drops);
            let result = catch_unwind(AssertUnwindSafe(|| {
                let ended = &ended;
                join(
                    || {
                        for _ in 0..5 {
                            yield_now().unwrap();
                        }
                        panic_any("a");
                    },
                    move || {
                        let _held = held;
                        for _ in 0..20 {
                            yield_now().unwrap();
                        }
                        ended.fetch_add(1, SeqCst);
                        if b_panics {
                            panic_any("b");
                        }
                    },
                )
            }));
            assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "a");
        }
        // `b` is run to its end or not at all; what it holds is dropped either way.
        assert_eq!(drops.load(SeqCst), 2);
    });
}

#[test]
fn closures_that_never_run_are_dropped() {
    everywhere_and_on_threads(|| {
        let drops = AtomicUsize::new(0);
        for _ in 0..10 {
            let counted = Counted(&drops);
            let result = catch_unwind(AssertUnwindSafe(|| join(|| panic_any("a"), move || drop(counted))));
            assert!(result.is_err());
        }
        assert_eq!(drops.load(SeqCst), 10);
    });
}

/// Closures of one word and of several are passed in different ways.
#[test]
fn a_closure_of_any_size_is_dropped_once_though_its_drop_panics() {
    struct Bad<'a> {
        _counted: Counted<'a>,
    }
    impl Drop for Bad<'_> {
        fn drop(&mut self) {
            panic_any("drop");
        }
    }
    everywhere(|| {
        let (drops, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let words = [1, 2, 3, 4];
        for calls_b in [false, true] {
            let a = || if calls_b { 1 } else { panic_any("a") };
            let bad = Bad { _counted: Counted(&drops) };
            let small = catch_unwind(AssertUnwindSafe(|| join(a, move || drop(bad))));
            let (bad, calls) = (Bad { _counted: Counted(&drops) }, &calls);
            let large = catch_unwind(AssertUnwindSafe(|| {
                join(a, move || {
                    calls.fetch_add(words.iter().sum(), SeqCst);
                    drop(bad);
                })
            }));
            for result in [small, large] {
                let payload = *result.unwrap_err().downcast::<&str>().unwrap();
                // Another worker may have run `b` before `a` panicked.
                assert!(payload == "drop" || !calls_b && payload == "a", "{payload}");
            }
        }
        assert_eq!(drops.load(SeqCst), 4);
        assert!([10, 20].contains(&calls.load(SeqCst)));
    });
}

#[test]
fn the_first_half_may_wait_for_the_second() {
    everywhere(|| {
        let meet = Meet::new();
        let (a, ()) = join(|| meet.wait(), || meet.put(3));
        assert_eq!(a, Ok(3));
    });
}

#[test]
fn the_first_half_may_wait_for_any_half_further_out() {
    fn inner(depth: usize, meets: &[Meet<usize>]) -> usize {
        if depth == 0 {
            return meets.iter().map(|meet| meet.wait().unwrap()).sum();
        }
        join(|| inner(depth - 1, meets), || meets[depth - 1].put(depth)).0
    }
    let depth = scaled(100, 20);
    everywhere(|| {
        // More notes than the ring has room for at first, all given away at once.
        let meets: Vec<_> = (0..depth).map(|_| Meet::new()).collect();
        assert_eq!(inner(depth, &meets), depth * (depth + 1) / 2);
    });
}

#[test]
fn both_halves_meet_in_the_middle() {
    everywhere(|| {
        let (ping, pong) = (Meet::new(), Meet::new());
        let result = join(
            || {
                ping.put(1);
                pong.wait()
            },
            || {
                let got = ping.wait();
                pong.put(2);
                got
            },
        );
        assert_eq!(result, (Ok(2), Ok(1)));
    });
}

#[test]
fn waits_in_the_middle_of_deep_joins() {
    fn deep(n: u32) -> u64 {
        if n < 2 {
            yield_now().unwrap();
            return n.into();
        }
        let (a, b) = join(|| deep(n - 1), || deep(n - 2));
        if n.is_multiple_of(3) {
            yield_now().unwrap();
        }
        a + b
    }
    let (n, expected) = if crate::common::STAND_IN { (7, 13) } else { (14, 377) };
    everywhere(|| {
        scope(|s| {
            // Several at once, so that their notes interleave on each worker.
            let fibers: Vec<_> = (0..4).map(|_| s.spawn(|| deep(n))).collect();
            fibers.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), expected));
        });
    });
}

#[test]
fn joins_that_sleep() {
    everywhere(|| {
        let nap = || sleep(Duration::from_millis(1)).is_ok();
        assert_eq!(join(|| join(nap, nap), || join(nap, nap)), ((true, true), (true, true)));
    });
}

#[test]
fn a_join_in_a_cancelled_scope_runs_both_halves_and_both_see_it() {
    everywhere_and_on_threads(|| {
        scope(|s| {
            s.cancel();
            let (a, b) = join(yield_now, yield_now);
            assert!(a.is_err() && b.is_err());
        });
    });
}

#[test]
fn a_join_whose_scope_is_cancelled_meanwhile() {
    everywhere(|| {
        let waiting = AtomicUsize::new(0);
        scope(|s| {
            let fiber = s.spawn(|| {
                let wait = || {
                    waiting.fetch_add(1, SeqCst);
                    Meet::<()>::new().wait().is_err()
                };
                join(|| join(wait, wait), || join(wait, wait))
            });
            while waiting.load(SeqCst) < 4 {
                yield_now().unwrap();
            }
            s.cancel();
            // Children are in the parent's context: the cancellation finds them, wherever they run.
            assert_eq!(shield(|| fiber.join()).unwrap(), ((true, true), (true, true)));
        });
    });
}

#[test]
fn a_shield_around_a_join_covers_both_halves() {
    everywhere(|| {
        scope(|s| {
            s.cancel();
            let (a, b) = shield(|| join(|| sleep(Duration::from_millis(1)), yield_now));
            assert!(a.is_ok() && b.is_ok());
        });
    });
}

#[test]
fn halves_open_scopes_and_detach() {
    everywhere(|| {
        let count = AtomicUsize::new(0);
        let half = || {
            scope(|s| {
                drop(s.spawn(|| count.fetch_add(1, SeqCst)));
                yield_now().unwrap();
            });
            spawn(|| 1).join().unwrap()
        };
        assert_eq!(join(|| join(half, half), half), ((1, 1), 1));
        assert_eq!(count.load(SeqCst), 3);
    });
}

#[test]
fn an_idle_worker_takes_a_half() {
    // The first half never suspends: it ends when another worker has begun the second, or the test
    // hangs.
    Runtime::new()
        .workers(2)
        .run(|| {
            let begun = AtomicUsize::new(0);
            join(
                || {
                    while begun.load(SeqCst) == 0 {
                        // A fork is where a busy worker looks whether somebody begs.
                        join(|| (), || ());
                    }
                },
                || begun.fetch_add(1, SeqCst),
            );
        })
        .unwrap();
}

// On the host with a thread for each fiber a nested run leaves the fiber's own thread without a
// worker: there the halves run in place.
#[cfg(not(feature = "threads"))]
#[test]
fn on_a_worker_that_a_fiber_blocks_the_first_half_may_wait_for_the_second() {
    use segue_core::{CancelToken, check};
    use segue_sched::blocking_here;

    /// What a fiber runs as a plain thread: the worker has no turn before it has returned.
    fn as_thread<R>(away: bool, f: impl FnOnce() -> R) -> R {
        if away { blocking_here(f) } else { run_as_thread(f) }
    }
    on_real_schedulers(|| {
        for away in [false, true] {
            let gates: [Meet<usize>; 2] = [Meet::new(), Meet::new()];
            let sum = || {
                let second = || join(|| gates[1].wait().unwrap(), || gates[1].put(1));
                let (one, (two, ())) = join(|| gates[0].wait().unwrap(), || (second().0, gates[0].put(2)));
                one + two
            };
            assert_eq!(as_thread(away, sum), 3);
            for (panics, payload) in [(true, "a"), (false, "b")] {
                let half = |mine| if panics == mine { panic_any(payload) } else { 5 };
                let panicked =
                    catch_unwind(AssertUnwindSafe(|| as_thread(away, || join(|| half(true), || half(false)).0)));
                assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), payload);
            }
            let (token, sees) = (CancelToken::new(), || check().is_err());
            token.cancel();
            assert_eq!(token.run(|| as_thread(away, || join(sees, sees))), (true, true));
        }
    });
}

#[test]
fn joins_under_a_stream_of_mail() {
    on_real_schedulers(|| {
        let rounds = scaled(300, 10);
        let meets: Vec<Meet<usize>> = (0..rounds).map(|_| Meet::new()).collect();
        let meets = &meets;
        scope(|s| {
            std::thread::scope(|threads| {
                threads.spawn(move || meets.iter().enumerate().for_each(|(n, meet)| meet.put(n)));
                let fibers = (0..rounds).map(|n| s.spawn(move || join(|| meets[n].wait().unwrap(), || fib(8))));
                for (n, fiber) in fibers.collect::<Vec<_>>().into_iter().enumerate() {
                    assert_eq!(fiber.join().unwrap(), (n, 21));
                }
            });
        });
    });
}

#[test]
fn a_fiber_of_another_scheduler_on_a_worker_s_thread_leaves_no_note_with_the_worker() {
    on_real_schedulers(|| {
        let data = [3_u64; 8];
        let waits = |turns| {
            let sum = || data.iter().sum::<u64>();
            let halves = join(|| (0..turns).all(|_| yield_now().is_ok()).then(sum), sum);
            assert_eq!(halves, (Some(24), 24));
        };
        // On the thread, which the plain scheduler then has; the worker around it is still there.
        run_as_thread(|| {
            Plain::run(|| {
                // Where a fiber has a thread of its own, there is no worker on it.
                let both = try_join(|| 1, || 2).unwrap_or_else(|(a, b)| (a(), b()));
                assert!(both == (1, 2) && !is_wanted());
                // The first to begin is the first to end, which a stack of notes would not bear.
                scope(|s| (1..4).for_each(|turns| drop(s.spawn(move || waits(turns)))));
                assert_eq!((0..1000_u64).into_par_iter().filter(|n| yield_now().is_ok() && n % 2 == 0).count(), 500);
            });
        });
        join(|| yield_now().unwrap(), || ());
    });
}

/// A payload whose drop panics.
struct Sour;

impl Drop for Sour {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in the drop of a payload");
        }
        std::process::abort();
    }
}

#[test]
fn the_payload_of_a_second_half_that_nobody_gets_does_not_get_in_the_way_of_the_first() {
    on_real_schedulers(|| {
        let second = AtomicUsize::new(0);
        let both = || {
            let until_it_runs = || {
                while second.load(SeqCst) == 0 {
                    yield_now().unwrap();
                }
                panic_any("a")
            };
            join(until_it_runs, || {
                second.store(1, SeqCst);
                panic_any(Sour)
            })
        };
        let payload = catch_unwind(AssertUnwindSafe(both)).map(drop).unwrap_err();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "a");
        // The pieces of a loop: the first element waits for a later one, which another fiber has.
        let (second, both) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pieces = || {
            (0..64_u32).into_par_iter().for_each(|n| match n {
                0 => {
                    while second.load(SeqCst) == 0 {
                        yield_now().unwrap();
                    }
                    both.fetch_add(1, SeqCst);
                    panic_any("a")
                }
                1 => {
                    second.store(1, SeqCst);
                    both.fetch_add(1, SeqCst);
                    panic_any(Sour)
                }
                _ => {}
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(pieces)).unwrap_err();
        assert_eq!((*payload.downcast::<&str>().unwrap(), both.into_inner()), ("a", 2));
    });
}
