//! Cancellation in two stages, and cleanup within a budget.
#![cfg(feature = "sched")]

use crate::meet;

use meet::everywhere;
use segue::cancel::{Overran, finishing_source, is_finishing, shield_for};
use segue::sync::Latch;
use segue::testing::Sim;
use segue::{
    Builder, CancelToken, Cancelled, Either, after, check, finally, is_cancelled, now, scope, shield, sleep, timeout,
    try_scope, wait_future, yield_now,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(1);

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

/// Serves until it is asked to finish; how often it did.
fn serve() -> Result<u32, Cancelled> {
    let mut served = 0;
    loop {
        match after(Duration::from_millis(1)).or(finishing_source()).wait()? {
            Either::Left(()) => served += 1,
            Either::Right(()) => return Ok(served),
        }
    }
}

#[test]
fn what_is_asked_to_finish_goes_on_to_wait_and_ends_by_itself() {
    everywhere(|| {
        scope(|s| {
            let server = s.spawn(serve);
            // Asked further in, and by what does not wait in the scope's own context.
            let inner = s.spawn(|| timeout(HOUR, || scope(|s| s.spawn(serve).join().unwrap())));
            let looks = s.spawn(|| {
                while !is_finishing() {
                    yield_now().unwrap();
                }
                check()
            });
            yield_now().unwrap();
            assert!(!is_finishing());
            s.cancel_soft(HOUR);
            assert!(is_finishing() && !is_cancelled());
            sleep(Duration::from_micros(1)).expect("waits go on");
            assert!(server.join().unwrap().is_ok());
            assert!(inner.join().unwrap().is_ok());
            assert!(looks.join().unwrap().is_ok());
            assert!(s.spawn(is_finishing).join().unwrap(), "what comes later is asked, too");
            assert!(!shield(is_finishing), "it does not show under a shield");
        });
        assert!(!is_finishing());
    });
}

#[test]
fn what_does_not_end_within_the_grace_is_cancelled_and_named() {
    for seed in 0..20 {
        let ended = Sim::new(seed).run(|| {
            let before = now();
            scope(|s| {
                let deaf = Builder::new().name("deaf").within(s).spawn(never);
                let ends = Builder::new().name("ends").within(s).spawn(serve);
                s.cancel_soft(Duration::from_secs(5));
                s.cancel_soft(HOUR);
                assert!(ends.join().unwrap().is_ok());
                let why = deaf.join().unwrap().unwrap_err();
                assert_eq!(now() - before, Duration::from_secs(5));
                why.to_string()
            })
        });
        let why = ended.unwrap();
        assert_eq!(why, "cancelled: asked to finish, and not over after 5s: `deaf`", "with seed {seed}");
    }
}

#[test]
fn the_grace_ends_with_the_scope() {
    let took = Sim::new(1).run(|| {
        let before = now();
        scope(|s| {
            s.cancel_soft(HOUR);
            drop(s.spawn(|| sleep(Duration::from_secs(1)).unwrap()));
        });
        now() - before
    });
    assert_eq!(took.unwrap(), Duration::from_secs(1));
}

#[test]
fn a_grace_of_zero_is_none_and_the_longest_does_not_end() {
    everywhere(|| {
        scope(|s| {
            s.cancel_soft(Duration::MAX);
            assert!(check().is_ok() && is_finishing());
            s.cancel_soft(Duration::ZERO);
            let why = check().unwrap_err().to_string();
            assert!(why.starts_with("cancelled: asked to finish, and not over after 0ns"), "{why}");
        });
    });
}

#[test]
fn a_scope_that_fails_within_its_grace_is_cancelled_at_once() {
    everywhere(|| {
        let error = try_scope(|s| {
            s.cancel_soft(HOUR);
            s.spawn_try(|| Err::<(), _>("out of ink"));
            never()
        });
        assert_eq!(error.unwrap_err().to_string(), "a fiber failed: out of ink");
    });
}

#[test]
fn a_token_asks_what_runs_under_it_also_later_and_a_task_waits_for_that() {
    everywhere(|| {
        let token = CancelToken::new();
        scope(|s| {
            let server = s.spawn(|| token.run(serve));
            token.ask_to_finish();
            assert!(server.join().unwrap().is_ok());
        });
        assert!(token.run(is_finishing) && token.run(check).is_ok() && !token.is_cancelled());
        // Who waits for the cancellation is not told.
        let none = after(Duration::from_micros(1)).or(token.cancelled_source()).wait();
        assert_eq!(none, Ok(Either::Left(())));
        let asked = token.run(|| wait_future(async { finishing_source().await }));
        assert_eq!(asked, Ok(()));
        token.cancel();
        assert!(token.run(check).is_err() && token.run(is_finishing));
    });
}

#[test]
fn a_cancellation_ends_a_wait_to_be_asked() {
    everywhere(|| {
        scope(|s| {
            let waits = s.spawn(|| finishing_source().wait());
            let chooses = s.spawn(|| after(HOUR).or(finishing_source()).wait().map(drop));
            yield_now().unwrap();
            s.cancel();
            for fiber in [waits, chooses] {
                // It was cancelled, or told in the same moment.
                drop(fiber.join());
            }
        });
        let none = after(Duration::from_micros(1)).or(finishing_source()).wait();
        assert_eq!(none, Ok(Either::Left(())), "nobody asks outside");
    });
}

#[test]
fn to_ask_races_those_who_begin_to_wait_for_it() {
    let pool = segue::sched::Runtime::new().workers(2).pool().unwrap();
    let ended = AtomicUsize::new(0);
    let rounds = if cfg!(miri) { 5 } else { 2_000 };
    pool.call(|| {
        for _ in 0..rounds {
            scope(|s| {
                for _ in 0..3 {
                    drop(s.spawn(|| {
                        timeout(HOUR, || finishing_source().wait()).unwrap();
                        ended.fetch_add(1, SeqCst);
                    }));
                }
                s.cancel_soft(Duration::MAX);
            });
        }
    });
    assert_eq!(ended.into_inner(), 3 * rounds);
}

#[test]
fn of_nested_budgets_the_smallest_counts_whichever_is_outside() {
    let ends = Sim::new(1).run(|| {
        let began = now();
        let took = |f: &dyn Fn() -> Result<(), Cancelled>| {
            let before = now();
            let why = f().unwrap_err();
            (now() - before, why.reason().unwrap().downcast_ref::<Overran>().map(Overran::budget))
        };
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
        let outer_is_short = took(&|| shield_for(short, || shield_for(long, || shield(never))));
        let inner_is_short = took(&|| shield_for(long, || shield_for(short, never)));
        // Through scopes, fibers, a cleanup and a time limit, with an effect around.
        let far_in = took(&|| {
            shield_for(short, || {
                scope(|s| {
                    let fiber = s.spawn(|| {
                        let mut ended = Ok(());
                        timeout(long, || finally(|| (), || ended = shield(|| timeout(long, never))));
                        ended
                    });
                    fiber.join().unwrap()
                })
            })
        });
        // A limit of one's own that is shorter is what it was.
        let limit = shield_for(long, || timeout(short, never)).unwrap_err();
        assert!(limit.timed_out() && !limit.reason().unwrap().is::<Overran>());
        assert_eq!(now() - began, 4 * short);
        assert!(check().is_ok());
        [outer_is_short, inner_is_short, far_in]
    });
    assert_eq!(ends.unwrap(), [(Duration::from_secs(1), Some(Duration::from_secs(1))); 3]);
}

#[test]
fn a_budget_holds_cancellation_off_and_is_over_for_who_computes() {
    everywhere(|| {
        let token = CancelToken::new();
        token.run(|| {
            token.cancel();
            assert!(check().is_err());
            shield_for(HOUR, || {
                check().unwrap();
                sleep(Duration::from_micros(1)).unwrap();
            });
            shield_for(Duration::MAX, || check().unwrap());
            let used_up = shield_for(Duration::ZERO, check).unwrap_err();
            assert!(used_up.reason().unwrap().is::<Overran>());
            assert!(check().is_err());
        });
    });
    // By the real clock: it neither waits nor yields.
    let used_up = segue::run(|| {
        shield_for(Duration::from_millis(2), || {
            loop {
                if let Err(cancelled) = check() {
                    break cancelled;
                }
            }
        })
    });
    assert!(used_up.reason().unwrap().is::<Overran>());
}

#[test]
fn who_has_overrun_is_named() {
    let why = Sim::new(1).run(|| {
        let printer = Builder::new().name("printer");
        printer.spawn(|| shield_for(Duration::from_secs(2), never).unwrap_err().to_string()).join().unwrap()
    });
    let why = why.unwrap();
    assert!(why.starts_with("cancelled: the cleanup at crates/segue/tests/choice/two_stages.rs:"), "{why}");
    assert!(why.ends_with(" in fiber `printer` has used up its budget of 2s"), "{why}");
}

#[test]
fn a_token_names_the_fibers_that_wait_under_it_until_they_have_ended() {
    let token = CancelToken::new();
    let ended = Sim::new(1).run(|| {
        let named = |name| Builder::new().name(name).token(&token).spawn(never);
        let fibers = ["one", "two"].map(named);
        let inside = || scope(|s| Builder::new().name("inside").within(s).spawn(|| sleep(MOMENT)).join().unwrap());
        token.run(inside).unwrap();
        let mut names = token.names(9);
        names.sort();
        assert_eq!(names, ["one", "two"]);
        assert_eq!((token.names(1).len(), token.names(0).len()), (1, 0));
        token.cancel_soft(HOUR);
        fibers.map(|fiber| fiber.join().unwrap().unwrap_err().to_string())
    });
    let text = |names| format!("cancelled: asked to finish, and not over after 3600s: {names}");
    let both = ["`one`, `two`", "`two`, `one`"].map(text);
    let ended = ended.unwrap();
    assert!(ended.iter().all(|why| both.contains(why)), "{ended:?}");
    assert!(token.names(9).is_empty());
}

#[test]
fn a_token_cancels_what_is_left_when_its_grace_is_over_and_not_before() {
    for seed in 0..20 {
        let token = CancelToken::new();
        let ended = Sim::new(seed).run(|| {
            let before = now();
            let after = |fiber: Result<u32, Cancelled>| (fiber, now() - before);
            let (deaf, serves, slow) = (
                Builder::new().name("deaf").token(&token).spawn(never),
                Builder::new().token(&token).spawn(serve),
                Builder::new().token(&token).spawn(|| sleep(Duration::from_secs(4)).map(|()| 4)),
            );
            sleep(MOMENT).unwrap();
            token.cancel_soft(HOUR);
            token.cancel_soft(Duration::from_secs(5));
            token.cancel_soft(HOUR);
            assert!(!token.is_cancelled() && token.run(is_finishing) && token.run(check).is_ok());
            let (served, at) = after(serves.join().unwrap());
            assert!(served.is_ok() && at <= 2 * MOMENT, "it was asked at once");
            let (slept, at) = after(slow.join().unwrap());
            assert!(slept == Ok(4) && at < Duration::from_secs(5), "its grace is not over");
            let why = deaf.join().unwrap().unwrap_err();
            assert_eq!(now() - before, Duration::from_secs(5) + MOMENT);
            assert!(token.is_cancelled());
            why.to_string()
        });
        let why = ended.unwrap();
        assert_eq!(why, "cancelled: asked to finish, and not over after 5s: `deaf`", "with seed {seed}");
    }
}

#[test]
fn a_grace_that_is_not_needed_leaves_nothing_among_the_timers() {
    let next = || segue::core::with_current(|fiber| fiber.scheduler().timers().until_next());
    let left = Sim::new(1).run(|| {
        let token = CancelToken::new();
        token.cancel_soft(HOUR);
        let of_an_hour = next();
        token.cancel_soft(MOMENT);
        let of_a_moment = next();
        scope(|s| s.cancel_soft(HOUR));
        let kept = token.clone();
        drop(token);
        let by_another_owner = next();
        drop(kept);
        [of_an_hour, of_a_moment, by_another_owner, next()]
    });
    assert_eq!(left.unwrap(), [Some(HOUR), Some(MOMENT), Some(MOMENT), None]);
}

#[test]
fn a_grace_ends_while_every_worker_computes() {
    let why = segue::runtime().workers(1).run(|| {
        let token = CancelToken::new();
        token.cancel_soft(Duration::from_millis(5));
        // It neither waits nor looks at a clock.
        token.run(|| {
            loop {
                if let Err(cancelled) = check() {
                    break cancelled.to_string();
                }
            }
        })
    });
    assert_eq!(why.unwrap(), "cancelled: asked to finish, and not over after 5ms");
}

#[test]
fn a_token_can_shield_from_everything_but_itself() {
    everywhere(|| {
        let (caller, token) = (CancelToken::new(), CancelToken::new());
        caller.cancel();
        let inside = || {
            // Whatever is opened inside is shielded with it.
            let fiber = scope(|s| s.spawn(|| (check().is_ok(), is_finishing())).join().unwrap());
            let nested = timeout(HOUR, || shield(|| check().is_ok()) && check().is_ok());
            (check().is_ok(), is_finishing(), fiber, nested)
        };
        caller.run(|| {
            assert!(check().is_err());
            assert_eq!(token.shield(inside), (true, false, (true, false), true));
            assert!(check().is_err(), "the caller's shows again");
            token.ask_to_finish();
            assert_eq!(token.shield(inside), (true, true, (true, true), true));
            // Also further in, and by several at once.
            assert!(token.shield(|| token.shield(is_finishing) && is_finishing()));
            token.cancel_with("enough");
            let cancelled = token.shield(never).unwrap_err();
            assert_eq!(cancelled.reason().unwrap().to_string(), "enough");
            assert!(token.shield(|| shield(check)).is_ok());
        });
        // What waits under it, of several fibers, is reached.
        let token = CancelToken::new();
        let begun = Latch::new(3);
        scope(|s| {
            let wait = || {
                token.shield(|| {
                    begun.count_down(1);
                    never()
                })
            };
            let waits = [(); 3].map(|()| s.spawn(wait));
            begun.wait().unwrap();
            s.cancel();
            assert!(shield(yield_now).is_ok() && waits.iter().all(|wait| !wait.is_finished()));
            token.cancel();
            assert!(waits.into_iter().all(|wait| shield(|| wait.join()).unwrap().is_err()));
        });
    });
}

#[test]
fn a_budget_around_holds_inside_of_the_shield_of_a_token() {
    Sim::new(5)
        .run(|| {
            let token = CancelToken::new();
            let start = now();
            let overran = shield_for(MOMENT, || token.shield(never)).unwrap_err();
            assert!(overran.reason().unwrap().is::<Overran>() && now() - start == MOMENT);
            // A time limit around does not: that is the caller's cancellation.
            timeout(MOMENT, || token.shield(|| sleep(HOUR))).unwrap();
            assert_eq!(now() - start, MOMENT + HOUR);
            assert!(token.shield(|| timeout(MOMENT, never)).unwrap_err().timed_out());
        })
        .unwrap();
}

#[test]
fn the_shield_of_a_token_is_captured_with_what_is_inside() {
    Sim::new(5)
        .run(|| {
            let token = CancelToken::new();
            let inner = token.clone();
            let mut numbers = segue::effect::generator(move |yielder| {
                inner.shield(|| {
                    yielder.give(check().is_ok() && !is_finishing());
                    yielder.give(check().is_ok() && is_finishing());
                    yielder.give(check().is_err());
                });
                yielder.give(check().is_ok());
            });
            assert_eq!(numbers.next(), Some(true));
            token.ask_to_finish();
            let caller = CancelToken::new();
            caller.cancel();
            assert_eq!(caller.run(|| numbers.next()), Some(true));
            token.cancel();
            assert_eq!(scope(|_| numbers.next()), Some(true));
            assert_eq!(numbers.next(), Some(true));
            assert_eq!(numbers.next(), None);
        })
        .unwrap();
}
