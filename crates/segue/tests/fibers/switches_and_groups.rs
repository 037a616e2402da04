//! What Eio's documentation says of switches, fibers and time, and that of Gears of groups, futures
//! and time-outs: each of it, as it is here.
//!
//! | there | what it does | the test |
//! | --- | --- | --- |
//! | `Switch.run` | returns when all of its fibers have ended | `a_switch_waits_for_its_fibers` |
//! | `Switch.run` | the first exception cancels the rest and is raised, others are attached | `a_switch_raises_the_first_failure_and_has_the_others`, `panic_pairs.rs` |
//! | `Switch.fail` | fails it from outside of its body | `a_switch_is_failed_by_who_has_it` |
//! | `Switch.on_release` | runs when the fibers have ended, the last one first, also if it fails, protected | `handlers_run_at_the_release_the_last_one_first` |
//! | `Switch.remove_hook` | takes such a handler back | `a_handler_that_was_taken_back_does_nothing` |
//! | `Fiber.fork` on a switch that is over | is refused | `a_switch_that_is_over_accepts_nothing` |
//! | `Fiber.fork_daemon` | is cancelled when the others are done | `a_daemon_keeps_no_switch_open` |
//! | `Fiber.fork_promise` | a failure is the promise's, and is not raised | `a_forked_failure_may_be_its_promise_s_alone` |
//! | `Fiber.both`, `all`, `pair` | all run at once; the first failure cancels the others and is raised | `of_both_the_first_failure_cancels_the_other` |
//! | `Fiber.first` | the first result; the other one is cancelled, and awaited | `first_takes_one_result_and_awaits_the_loser` |
//! | `Fiber.first` | if the winner's failure is the first to come, it is raised | `a_failure_that_is_first_is_the_outcome` |
//! | `Fiber.first ~combine`, `n_any` | two results that come at once are both kept | `two_that_win_at_once_lose_nothing` |
//! | `Fiber.any` | as `first`, of many | `first_takes_one_result_and_awaits_the_loser` |
//! | `Fiber.List.map ~max_fibers`, `Fiber.List.iter` | so many at once, results in order | `so_many_at_once_in_order` |
//! | `Fiber.check`, `Fiber.is_cancelled` | fails when it is cancelled, says so | `a_cancelled_fiber_is_told_when_it_asks` |
//! | `Cancel.protect` | is not cancelled inside, and again after it | `protected_code_goes_on_and_what_follows_does_not` |
//! | `Cancel.sub`, `Cancel.cancel` | cancels what is inside and nothing around it | `a_context_of_its_own_cancels_nothing_around` |
//! | `Time.with_timeout`, `Timeout.run` | an error when the time is over, the result if not | `a_timeout_is_an_error_or_the_result` |
//! | `Async.group` | cancels and awaits what is left at its end: for daemons; others are awaited | `a_daemon_keeps_no_switch_open`, `a_switch_waits_for_its_fibers` |
//! | group, cancelled | passes it on to its members, and to those that join later | `a_cancelled_group_cancels_who_joins_it_later` |
//! | `Future.cancel` | ends that future's wait, and its children's | `one_future_is_cancelled_with_its_children` |
//! | `Future.await` of a cancelled one | raises `CancellationException` | `one_future_is_cancelled_with_its_children` |
//! | `zip`, `awaitAll`, `awaitAllOrCancel` | all results; the first failure cancels the rest | `of_both_the_first_failure_cancels_the_other` |
//! | `or`, `awaitFirst`, `awaitFirstWithCancel` | the first success, or all failures; the others are cancelled | `the_first_success_or_all_failures` |
//! | `withTimeout`, `withTimeoutOption` | raises, or yields nothing, when the time is over, and awaits the body | `a_timeout_is_an_error_or_the_result` |
//! | `uninterruptible` | as `Cancel.protect` | `protected_code_goes_on_and_what_follows_does_not` |
#![cfg(feature = "sched")]

use crate::meet;

use meet::{everywhere, simulated};
use segue::concurrent::{at_most, first_ok, join_all, race};
use segue::{
    Builder, CancelToken, Cancelled, JoinError, after, check, is_cancelled, now, scope, shield, sleep, timeout,
    try_scope, yield_now,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

#[test]
fn a_switch_waits_for_its_fibers() {
    simulated(20, |_| {
        let begun = now();
        scope(|s| (1..4).for_each(|n| drop(s.spawn(move || sleep(n * SECOND)))));
        assert_eq!(now() - begun, 3 * SECOND);
    });
}

#[test]
fn a_switch_raises_the_first_failure_and_has_the_others() {
    everywhere(|| {
        let cleaned = AtomicUsize::new(0);
        let error = try_scope(|s| {
            drop(s.spawn(|| {
                never().unwrap_err();
                cleaned.fetch_add(1, SeqCst)
            }));
            s.spawn_try(|| Err::<(), _>("Failure \"simulated error\""));
            never().map_err(|_| "the body, too")
        });
        let error = error.unwrap_err();
        assert_eq!(error.first().error().unwrap().to_string(), "Failure \"simulated error\"");
        assert_eq!(error.later().len(), 1);
        // One that was cancelled before it began has nothing to clean up.
        assert!(cleaned.into_inner() <= 1 && !is_cancelled());
    });
}

#[test]
fn a_switch_is_failed_by_who_has_it() {
    everywhere(|| {
        let error = try_scope(|s| {
            let fiber = s.spawn(never);
            s.fail_with("from outside");
            assert!(fiber.join().map_or(true, |waited| waited.is_err()));
            never()
        });
        assert_eq!(error.unwrap_err().to_string(), "a part failed: from outside");
    });
}

#[test]
fn handlers_run_at_the_release_the_last_one_first() {
    everywhere(|| {
        let log = Mutex::new(Vec::new());
        let failed = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                let log = &log;
                for name in ["closed", "flushed"] {
                    s.on_exit(SECOND, move || {
                        yield_now().expect("it is protected");
                        log.lock().unwrap().push(name);
                    });
                }
                drop(s.spawn(move || {
                    drop(never());
                    log.lock().unwrap().push("ended");
                }));
                yield_now().unwrap();
                resume_unwind(Box::new("oops"))
            })
        }));
        assert_eq!(Result::<(), _>::unwrap_err(failed).downcast_ref(), Some(&"oops"));
        let mut log = log.into_inner().unwrap();
        log.retain(|entry| *entry != "ended" || segue::fiber::current().is_none());
        assert!(log.ends_with(&["flushed", "closed"]), "{log:?}");
    });
}

#[test]
fn a_handler_that_was_taken_back_does_nothing() {
    everywhere(|| {
        let released = Mutex::new(None);
        let connection = Mutex::new(Some("connection"));
        scope(|s| {
            // A handler is taken back by taking what it has to release.
            s.on_exit(SECOND, || *released.lock().unwrap() = connection.lock().unwrap().take());
            assert_eq!(connection.lock().unwrap().take(), Some("connection"));
        });
        assert_eq!(released.into_inner().unwrap(), None);
    });
}

#[test]
fn a_switch_that_is_over_accepts_nothing() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        scope(|s| {
            s.on_exit(SECOND, || {
                let late = s.spawn(|| ran.fetch_add(1, SeqCst));
                assert!(matches!(late.join(), Err(JoinError::NeverRan(_))));
            });
        });
        assert_eq!(ran.into_inner(), 0);
    });
}

#[test]
fn a_daemon_keeps_no_switch_open() {
    simulated(20, |_| {
        let (begun, ticks, cleaned) = (now(), AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|s| {
            drop(s.spawn_daemon(|| {
                while after(SECOND).wait().is_ok() {
                    ticks.fetch_add(1, SeqCst);
                }
                // It is awaited, however long its cleanup takes.
                shield(|| sleep(SECOND)).unwrap();
                cleaned.fetch_add(1, SeqCst);
            }));
            drop(s.spawn(|| sleep(5 * SECOND / 2)));
        });
        assert_eq!((now() - begun, ticks.into_inner(), cleaned.into_inner()), (7 * SECOND / 2, 2, 1));
    });
}

#[test]
fn a_forked_failure_may_be_its_promise_s_alone() {
    everywhere(|| {
        let value = try_scope(|s| {
            let fork = s.spawn(|| "none".parse::<u32>());
            let parsed = fork.join().unwrap();
            assert!(parsed.is_err() && check().is_ok(), "nobody else hears of it");
            Ok::<_, Cancelled>(7)
        });
        assert_eq!(value.unwrap(), 7);
    });
}

#[test]
fn of_both_the_first_failure_cancels_the_other() {
    everywhere(|| {
        let all = join_all([1, 2, 3].map(|n| move || n * n));
        assert_eq!(all.unwrap(), [1, 4, 9]);
        let why = Mutex::new(String::new());
        let both = try_scope(|s| {
            let (began, begins) = segue::sync::promise();
            let other = s.spawn_try(|| {
                began.fill(()).unwrap();
                never().inspect_err(|cancelled| *why.lock().unwrap() = cancelled.to_string())
            });
            begins.wait().unwrap();
            s.spawn_try(|| Err::<(), _>("one"));
            other.join().unwrap()?;
            Ok::<_, Cancelled>(())
        });
        assert_eq!(both.unwrap_err().to_string(), "a fiber failed: one");
        assert_eq!(*why.lock().unwrap(), "cancelled: one");
    });
}

#[test]
fn first_takes_one_result_and_awaits_the_loser() {
    simulated(20, |_| {
        let (begun, cleaned) = (now(), AtomicUsize::new(0));
        let first = race([3, 1, 2].map(|n| {
            let cleaned = &cleaned;
            move || {
                let slept = sleep(n * SECOND);
                if slept.is_err() {
                    shield(|| sleep(SECOND)).unwrap();
                    cleaned.fetch_add(1, SeqCst);
                }
                (n, slept.is_ok())
            }
        }));
        let first = first.unwrap();
        assert_eq!((first.index, first.value), (1, (1, true)));
        assert_eq!((now() - begun, cleaned.into_inner()), (2 * SECOND, 2));
        // What the losers have returned is there as well.
        assert_eq!(first.others, [(0, (3, false)), (2, (2, false))]);
    });
}

#[test]
fn a_failure_that_is_first_is_the_outcome() {
    simulated(20, |_| {
        let begun = now();
        let outcome = race([2, 1].map(|n| {
            move || match sleep(n * SECOND) {
                Ok(()) if n == 1 => Err("failed first"),
                slept => slept.map_err(|_| "cancelled"),
            }
        }));
        assert_eq!(outcome.unwrap().value, Err("failed first"));
        let raised = catch_unwind(AssertUnwindSafe(|| {
            race([true, false].map(|waits| {
                move || match waits {
                    true => drop(never()),
                    false => resume_unwind(Box::new("raised first")),
                }
            }))
        }));
        assert_eq!(raised.map(drop).unwrap_err().downcast_ref(), Some(&"raised first"));
        assert_eq!(now() - begun, SECOND);
    });
}

#[test]
fn two_that_win_at_once_lose_nothing() {
    simulated(50, |_| {
        let first = race([1, 2].map(|n| {
            move || {
                sleep(SECOND).ok();
                n
            }
        }));
        let first = first.unwrap();
        let mut both: Vec<_> = first.others.into_iter().map(|(_, value)| value).chain([first.value]).collect();
        both.sort_unstable();
        assert!(both == [1, 2] || both.len() == 1, "one that has not begun has no result: {both:?}");
    });
}

#[test]
fn so_many_at_once_in_order() {
    simulated(20, |_| {
        let (begun, at_once, most) = (now(), AtomicUsize::new(0), AtomicUsize::new(0));
        let squares = at_most(2).map(1..=4, |n: u32| {
            most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
            sleep(SECOND).unwrap();
            at_once.fetch_sub(1, SeqCst);
            n * n
        });
        assert_eq!(squares.unwrap(), [1, 4, 9, 16]);
        assert_eq!((most.into_inner(), now() - begun), (2, 2 * SECOND));
    });
}

#[test]
fn a_cancelled_fiber_is_told_when_it_asks() {
    everywhere(|| {
        scope(|s| {
            assert!(check().is_ok() && !is_cancelled());
            s.cancel();
            assert!(check().is_err() && is_cancelled());
        });
        assert!(check().is_ok() && !is_cancelled());
    });
}

#[test]
fn protected_code_goes_on_and_what_follows_does_not() {
    simulated(20, |_| {
        let begun = now();
        scope(|s| {
            s.cancel();
            shield(|| sleep(SECOND)).unwrap();
            assert!(sleep(SECOND).is_err());
        });
        assert_eq!(now() - begun, SECOND);
    });
}

#[test]
fn a_context_of_its_own_cancels_nothing_around() {
    everywhere(|| {
        let token = CancelToken::new();
        let inside = token.run(|| {
            token.cancel_with("only inside");
            (check().map_err(|cancelled| cancelled.to_string()), scope(|_| check().is_err()))
        });
        assert_eq!(inside, (Err(String::from("cancelled: only inside")), true));
        assert!(check().is_ok());
    });
}

#[test]
fn a_timeout_is_an_error_or_the_result() {
    simulated(20, |_| {
        let begun = now();
        let late = timeout(SECOND, || sleep(2 * SECOND).map(|()| 7));
        assert!(late.as_ref().is_err_and(Cancelled::timed_out) && late.ok().is_none());
        assert_eq!((timeout(2 * SECOND, || sleep(SECOND).map(|()| 7)), now() - begun), (Ok(7), 2 * SECOND));
        // The body is awaited, with the fibers that it has.
        let ended = timeout(SECOND, || {
            scope(|s| {
                let fiber = s.spawn(|| {
                    let waited = never();
                    shield(|| sleep(SECOND)).unwrap();
                    waited
                });
                fiber.join().unwrap()
            })
        });
        assert!(ended.unwrap_err().timed_out());
        assert_eq!((now() - begun, check()), (4 * SECOND, Ok(())));
    });
}

#[test]
fn a_cancelled_group_cancels_who_joins_it_later() {
    everywhere(|| {
        scope(|s| {
            s.cancel_with("over");
            let late = s.spawn(never);
            assert_eq!(late.join().unwrap_err().cancelled().unwrap().to_string(), "cancelled: over");
            // A group that is opened inside, too.
            scope(|_| {
                assert_eq!(never().unwrap_err().to_string(), "cancelled: over");
            });
        });
    });
}

#[test]
fn one_future_is_cancelled_with_its_children() {
    everywhere(|| {
        scope(|s| {
            let (began, begins) = segue::sync::promise();
            let other = s.spawn(|| sleep(Duration::from_millis(1)));
            let future = Builder::new().cancellable().within(s).spawn(|| {
                scope(|inner| {
                    let child = inner.spawn(|| {
                        began.fill(()).unwrap();
                        never().unwrap_err().to_string()
                    });
                    child.join().unwrap()
                })
            });
            begins.wait().unwrap();
            future.cancel_with("this one");
            assert_eq!(future.join().unwrap(), "cancelled: this one");
            assert_eq!((other.join().unwrap(), check()), (Ok(()), Ok(())));
        });
    });
}

#[test]
fn the_first_success_or_all_failures() {
    simulated(20, |_| {
        let begun = now();
        let try_after = |n: u32, outcome: Result<u32, u32>| move || sleep(n * SECOND).map_err(|_| 0).and(outcome);
        let first = first_ok([try_after(1, Err(1)), try_after(2, Ok(2)), try_after(3, Ok(3))]);
        assert_eq!(first.unwrap().value, 2);
        assert_eq!(now() - begun, 2 * SECOND);
        let none = first_ok([try_after(2, Err(1)), try_after(1, Err(2))]);
        assert!(none.is_err());
        assert_eq!(now() - begun, 4 * SECOND);
    });
}
