//! Closures that begin after a delay: when, and what becomes of those that are taken back.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{AtDrop, everywhere, pool, simulated};
use segue::effect::{Effect, SharedHandler, perform};
use segue::sched::StackConfig;
use segue::sync::promise;
use segue::testing::{Explore, Sim};
use segue::{
    Builder, CancelToken, Cancelled, JoinError, after, check, fiber, now, scope, shield, sleep, try_scope, yield_now,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Why a closure never ran.
fn reason<T, H>(joined: Result<T, JoinError<H>>) -> String {
    match joined {
        Err(JoinError::NeverRan(cancelled)) => cancelled.to_string(),
        Err(other) => panic!("it was to be taken back: {other}"),
        Ok(_) => panic!("it has run"),
    }
}

#[test]
fn in_virtual_time_each_begins_when_its_delay_is_over() {
    simulated(20, |_| {
        let begun = now();
        let since = || now() - begun;
        let delays = [3, 1, 2, 1];
        let order = Mutex::new(Vec::new());
        scope(|s| {
            let fibers = delays.map(|n| {
                Builder::new().after(n * HOUR).within(s).spawn(|| {
                    order.lock().unwrap().push(since());
                    // It may wait, as any other.
                    sleep(HOUR / 2).unwrap();
                    since()
                })
            });
            assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), delays.map(|n| n * HOUR + HOUR / 2));
        });
        assert_eq!(order.into_inner().unwrap(), [1, 1, 2, 3].map(|n| n * HOUR));
        // The delay counts from the spawn, whatever its spawner does meanwhile.
        let late = Builder::new().after(HOUR).spawn(now);
        let at = now() + HOUR;
        sleep(2 * HOUR).unwrap();
        assert_eq!(late.join().unwrap(), at);
    });
}

#[test]
fn without_a_delay_it_begins_at_once_and_after_the_longest_never() {
    simulated(20, |_| {
        let begun = now();
        assert_eq!(Builder::new().after(Duration::ZERO).spawn(now).join().unwrap(), begun);
        let never = Builder::new().after(Duration::MAX).spawn(|| ());
        sleep(1_000_000 * HOUR).unwrap();
        assert!(!never.is_finished());
        never.cancel();
        assert_eq!(reason(never.join()), "cancelled");
    });
    // A run takes those back that are left when it ends.
    let left = segue::run(|| Builder::new().after(Duration::MAX).spawn(|| ()));
    assert!(reason(left.join()).starts_with("cancelled"));
}

#[test]
fn everywhere_it_runs_with_what_its_builder_says_and_borrows() {
    everywhere(|| {
        let word = String::from("later");
        scope(|s| {
            let named = Builder::new().name("reminder").stack_size(1 << 20).after(MILLI).within(s).spawn(|| {
                let deep = std::hint::black_box([1_u8; 700_000]);
                yield_now().unwrap();
                let name = fiber::current().and_then(|fiber| fiber.name().map(String::from));
                (name, word.len() + usize::from(deep[7]))
            });
            let (name, length) = named.join().unwrap();
            assert!(length == 6 && name.is_none_or(|name| name == "reminder"));
        });
        // Nobody joins it, and the scope waits.
        let ran = AtomicUsize::new(0);
        scope(|s| drop(Builder::new().after(MILLI).within(s).spawn(|| ran.fetch_add(1, SeqCst))));
        assert_eq!(ran.into_inner(), 1);
    });
}

#[test]
fn one_that_is_taken_back_is_dropped_and_says_why() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let drops = AtomicUsize::new(0);
        let token = CancelToken::new();
        scope(|s| {
            let delayed = |wait: bool, token: &CancelToken| {
                let counted = Counted(&drops);
                let fiber = Builder::new().token(token).after(HOUR).within(s).spawn(|| drop(counted));
                if wait {
                    sleep(MILLI).unwrap();
                }
                fiber
            };
            // Before it has looked at the clock, and after; by its handle; with others.
            for wait in [false, true] {
                let alone = delayed(wait, &CancelToken::new());
                alone.cancel_with("not wanted");
                assert_eq!(reason(alone.join()), "cancelled: not wanted");
            }
            assert!(delayed(true, &CancelToken::new()).cancel_and_join().is_err());
            let together = [false, true].map(|wait| delayed(wait, &token));
            token.cancel_with("all of them");
            for fiber in together {
                assert_eq!(reason(fiber.join()), "cancelled: all of them");
            }
            assert_eq!(drops.load(SeqCst), 5);
            // Under a token that is cancelled already it does not begin, however short the delay.
            let late = Builder::new().token(&token).after(Duration::ZERO).within(s).spawn(|| ());
            assert_eq!(reason(late.join()), "cancelled: all of them");
            // And by its scope.
            let scoped = delayed(true, &CancelToken::new());
            s.cancel_with("enough");
            assert_eq!(reason(scoped.join()), "cancelled: enough");
            assert_eq!(drops.load(SeqCst), 6);
        });
    });
}

#[test]
fn one_that_has_begun_sees_the_cancellation_at_its_waits() {
    everywhere(|| {
        let (began, begins) = promise();
        let fiber = Builder::new().after(MILLI).spawn(move || {
            began.fill(()).unwrap();
            let why = after(Duration::MAX).wait().unwrap_err();
            (why.to_string(), check().is_err(), shield(check).is_ok())
        });
        begins.wait().unwrap();
        fiber.cancel_with("too late to take it back");
        assert_eq!(fiber.join().unwrap(), (String::from("cancelled: too late to take it back"), true, true));
        // A handle that is dropped takes nothing back.
        let (resolver, ran) = promise();
        drop(Builder::new().after(MILLI).spawn(move || resolver.fill(7)));
        assert_eq!(ran.take(), Ok(7));
    });
}

#[test]
fn at_the_very_instant_it_is_taken_back_or_runs_and_never_after_the_cancel() {
    let outcomes: [AtomicUsize; 3] = Default::default();
    Explore::random(500).check(|| {
        let cancelled = AtomicUsize::new(0);
        let outcome = scope(|s| {
            let fiber = Builder::new().after(HOUR).within(s).spawn(|| (cancelled.load(SeqCst), check().is_err()));
            sleep(HOUR).unwrap();
            fiber.cancel();
            cancelled.store(1, SeqCst);
            match fiber.join() {
                Ok((0, seen)) => usize::from(seen),
                Ok(_) => panic!("it began when `cancel` had returned"),
                Err(error) => {
                    assert!(matches!(error, JoinError::NeverRan(_)));
                    2
                }
            }
        });
        outcomes[outcome].fetch_add(1, SeqCst);
    });
    assert!(outcomes[0].load(SeqCst) > 0 && outcomes[2].load(SeqCst) > 0, "{outcomes:?}");
}

#[test]
fn cancel_against_the_delay_on_workers() {
    let (rounds, outcomes) = (if cfg!(miri) { 10 } else { 500 }, [AtomicUsize::new(0), AtomicUsize::new(0)]);
    for workers in [1, 2] {
        pool(workers)
            .run(|| {
                for round in 0..rounds {
                    let delay = Duration::from_micros(round % 30);
                    let fiber = Builder::new().after(delay).spawn(move || round);
                    if round % 2 == 0 {
                        let _ = yield_now();
                    }
                    match fiber.cancel_and_join() {
                        Ok(value) => assert_eq!(value, round),
                        Err(error) => assert!(matches!(error, JoinError::NeverRan(_)), "{error}"),
                    }
                    let ran = Builder::new().after(delay).spawn(move || round).join();
                    assert_eq!(ran.unwrap(), round);
                }
            })
            .unwrap();
    }
    for workers in [1, 2] {
        let ran = AtomicUsize::new(0);
        let taken_back = pool(workers)
            .run(|| {
                scope(|s| {
                    let fibers: Vec<_> = (0..rounds)
                        .map(|n| {
                            let delay = Duration::from_micros(n);
                            Builder::new().after(delay).within(s).spawn(|| ran.fetch_add(1, SeqCst))
                        })
                        .collect();
                    sleep(Duration::from_micros(rounds / 2)).unwrap();
                    fibers.into_iter().filter_map(|fiber| fiber.cancel_and_join().err()).count()
                })
            })
            .unwrap();
        assert_eq!(ran.load(SeqCst) + taken_back, rounds as usize, "each has run or was taken back");
        outcomes[0].fetch_add(ran.into_inner(), SeqCst);
        outcomes[1].fetch_add(taken_back, SeqCst);
    }
    println!("ran, taken back: {outcomes:?}");
}

#[test]
fn ten_thousand_that_wait_have_no_stacks() {
    let (count, ran) = (if cfg!(miri) { 50 } else { 10_000 }, AtomicUsize::new(0));
    Sim::new(1)
        .stacks(StackConfig::new().max_slots(3))
        .run(|| {
            scope(|s| {
                for n in 1..=count {
                    drop(Builder::new().after(n * MILLI).within(s).spawn(|| ran.fetch_add(1, SeqCst)));
                }
                let since = now();
                sleep(count * MILLI + MILLI).unwrap();
                assert_eq!(now() - since, count * MILLI + MILLI);
            });
        })
        .unwrap();
    assert_eq!(ran.into_inner(), count as usize);
}

#[test]
fn a_panic_is_its_handle_s_and_its_scope_s() {
    everywhere(|| {
        let fiber = Builder::new().after(MILLI).spawn(|| resume_unwind(Box::new("sour")));
        assert_eq!(Result::<(), _>::unwrap_err(fiber.join()).into_panic().unwrap().downcast_ref(), Some(&"sour"));
        let raised = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                drop(Builder::new().after(MILLI).within(s).spawn(|| resume_unwind(Box::new("of the scope"))));
                assert!(after(Duration::MAX).wait().is_err());
            });
        }));
        assert_eq!(raised.unwrap_err().downcast_ref(), Some(&"of the scope"));
        // So is one in the drop of a closure that was taken back.
        struct Sour;
        impl Drop for Sour {
            fn drop(&mut self) {
                resume_unwind(Box::new("in the drop"));
            }
        }
        let sour = Sour;
        let fiber = Builder::new().after(HOUR).spawn(move || std::mem::forget(sour));
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is_panic());
    });
}

#[test]
fn in_a_scope_that_fails_or_is_over_it_does_not_begin() {
    everywhere(|| {
        let error = try_scope(|s| {
            let late = Builder::new().after(HOUR).within(s).spawn(|| ());
            s.spawn_try(|| Err::<(), _>("out of ink"));
            assert_eq!(reason(late.join()), "cancelled: out of ink");
            Ok::<_, Cancelled>(())
        });
        assert_eq!(error.unwrap_err().to_string(), "a fiber failed: out of ink");
        scope(|s| {
            s.on_exit(HOUR, || {
                let late = Builder::new().after(Duration::ZERO).within(s).spawn(|| ());
                assert!(late.is_finished());
                reason(late.join());
            });
        });
    });
}

#[test]
fn it_inherits_what_fibers_of_its_scope_do() {
    struct Ask;
    impl Effect for Ask {
        type Output = u32;
    }
    let handled = segue::run(|| {
        SharedHandler::new().answer(|Ask| 42).handle(|| {
            scope(|s| {
                let now = s.spawn(|| perform(Ask));
                let later = Builder::new().after(MILLI).within(s).spawn(|| perform(Ask));
                (now.join().unwrap(), later.join().unwrap())
            })
        })
    });
    assert_eq!(handled, (42, 42));
}

#[test]
fn in_a_scope_in_a_drop_during_a_panic_it_never_runs_as_no_task_does() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        let raised = catch_unwind(AssertUnwindSafe(|| {
            let _spawns = AtDrop(|| {
                scope(|s| {
                    let count = || ran.fetch_add(1, SeqCst);
                    let fiber = Builder::new().after(Duration::ZERO).within(s).spawn(count).join();
                    let task = s.spawn_task(async move { count() }).join();
                    // A plain thread that panics may wait.
                    if fiber::current().is_some() {
                        let why = "cancelled: a fiber that is panicking can't wait";
                        assert!(reason(fiber) == why && reason(task) == why);
                    }
                });
            });
            resume_unwind(Box::new("outer"))
        }));
        assert_eq!(Result::<(), _>::unwrap_err(raised).downcast_ref(), Some(&"outer"));
        assert_eq!(ran.into_inner(), if fiber::current().is_some() { 0 } else { 2 });
    });
}
