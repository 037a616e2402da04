//! What goes on when a scope's fibers have ended: its daemons, and its hooks.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{AtDrop, everywhere};
use segue::cancel::Overran;
use segue::testing::Sim;
use segue::{Builder, CancelToken, Cancelled, JoinError, after, check, is_cancelled, scope, shield, sleep, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

/// Unwinds without the noise of the panic hook.
fn fail<R>(text: &'static str) -> R {
    resume_unwind(Box::new(text))
}

fn text_of<R>(f: impl FnOnce() -> R) -> String {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else { panic!("it was to panic") };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload.downcast_ref::<&str>().expect("a text").to_string(),
    }
}

#[test]
fn daemons_are_cancelled_when_the_rest_is_done_and_waited_for() {
    everywhere(|| {
        let (ended, why) = (AtomicBool::new(false), Mutex::new(String::new()));
        let value = scope(|s| {
            let (began, begins) = segue::sync::promise();
            drop(s.spawn_daemon(|| {
                began.fill(()).unwrap();
                let cancelled = never().unwrap_err();
                *why.lock().unwrap() = cancelled.to_string();
                // Its cleanup may take its time.
                shield(|| sleep(Duration::from_micros(1))).unwrap();
                ended.store(true, SeqCst);
            }));
            begins.wait().unwrap();
            let child = s.spawn(|| {
                yield_now().unwrap();
                assert!(!is_cancelled(), "the daemon does not end the scope, nor the end of the body");
                7
            });
            child.join().unwrap()
        });
        assert_eq!(value, 7);
        assert!(ended.into_inner(), "the scope did not wait");
        assert_eq!(why.into_inner().unwrap(), "cancelled: the scope is over");
    });
}

#[test]
fn a_daemon_that_ends_by_itself_keeps_nobody() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        scope(|s| {
            let daemon = s.spawn_daemon(|| ran.fetch_add(1, SeqCst));
            assert_eq!(daemon.join().unwrap(), 0);
        });
        assert_eq!(ran.into_inner(), 1);
    });
}

#[test]
fn a_daemon_that_was_not_started_in_time_never_is() {
    everywhere(|| {
        let daemon = scope(|s| {
            s.cancel_with("no need");
            s.spawn_daemon(|| 1)
        });
        match daemon.join() {
            Err(JoinError::NeverRan(cancelled)) => assert_eq!(cancelled.to_string(), "cancelled: no need"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn a_daemon_spawns_while_the_scope_has_fibers_and_is_refused_later() {
    everywhere(|| {
        let (early, late) = (Mutex::new(None), Mutex::new(None));
        scope(|s| {
            let (early, late) = (&early, &late);
            let (done, is_done) = segue::sync::promise();
            drop(s.spawn_daemon(move || {
                *early.lock().unwrap() = Some(s.spawn(|| 1).join().unwrap());
                done.fill(()).unwrap();
                never().unwrap_err();
                let fiber = s.spawn(|| 2);
                let daemon = s.spawn_daemon(|| 2);
                let task = s.spawn_task(async { 2 });
                assert!(fiber.is_finished(), "it is refused at once");
                *late.lock().unwrap() = Some([fiber.join(), daemon.join(), task.join()].map(|join| match join {
                    Err(JoinError::NeverRan(cancelled)) => cancelled.to_string(),
                    other => panic!("{other:?}"),
                }));
            }));
            is_done.wait().unwrap();
        });
        assert_eq!(early.into_inner().unwrap(), Some(1));
        assert_eq!(late.into_inner().unwrap().unwrap(), ["cancelled: the scope is over"; 3]);
    });
}

#[test]
fn what_is_refused_is_dropped_and_a_panic_of_that_is_its_handle_s_and_the_scope_s() {
    struct Sour(&'static str);
    impl Drop for Sour {
        fn drop(&mut self) {
            fail::<()>(self.0);
        }
    }
    everywhere(|| {
        // By a hook.
        let joined = Mutex::new(String::new());
        let raised = text_of(|| {
            scope(|s| {
                s.on_exit(Duration::MAX, || {
                    let (closure, future) = (Sour("closure"), Sour("future"));
                    let refused = s.spawn(move || std::mem::forget(closure));
                    *joined.lock().unwrap() = refused.join().unwrap_err().to_string();
                    drop(s.spawn_task(async move { std::mem::forget(future) }));
                });
            });
        });
        assert_eq!(joined.into_inner().unwrap(), "the fiber panicked: closure");
        assert_eq!(raised, "closure; then the drop of what was refused panicked: future");
        // By a daemon that is left, to which the handle is of no interest.
        let raised = text_of(|| {
            scope(|s| {
                let (began, begins) = segue::sync::promise();
                drop(s.spawn_daemon(|| {
                    began.fill(()).unwrap();
                    never().unwrap_err();
                    let sour = Sour("of a daemon");
                    drop(s.spawn(move || std::mem::forget(sour)));
                }));
                begins.wait().unwrap();
            });
        });
        assert_eq!(raised, "of a daemon");
    });
}

#[test]
fn a_daemon_that_panics_fails_the_scope() {
    everywhere(|| {
        let text = text_of(|| {
            scope(|s| {
                drop(s.spawn_daemon(|| fail::<()>("out of ink")));
                never().unwrap_err()
            })
        });
        assert_eq!(text, "out of ink");
        // Also one that panics because it is cancelled, when all else is done.
        let text = text_of(|| {
            scope(|s| {
                let (began, begins) = segue::sync::promise();
                drop(s.spawn_daemon(|| {
                    began.fill(()).unwrap();
                    never().unwrap_or_else(|_| fail("not yet"));
                }));
                begins.wait().unwrap();
            })
        });
        assert_eq!(text, "not yet");
    });
}

#[test]
fn a_daemon_that_ignores_cancellation_is_waited_for() {
    everywhere(|| {
        let turns = AtomicUsize::new(0);
        scope(|s| {
            let (began, begins) = segue::sync::promise();
            drop(s.spawn_daemon(|| {
                began.fill(()).unwrap();
                shield(|| {
                    for _ in 0..20 {
                        yield_now().unwrap();
                        turns.fetch_add(1, SeqCst);
                    }
                });
            }));
            begins.wait().unwrap();
        });
        assert_eq!(turns.into_inner(), 20);
    });
}

#[test]
fn hooks_run_at_the_end_the_last_one_first_and_may_wait_although_all_is_cancelled() {
    everywhere(|| {
        let log = Mutex::new(Vec::new());
        let token = CancelToken::new();
        token.run(|| {
            scope(|s| {
                let log = &log;
                let note = move |what: &'static str| {
                    sleep(Duration::from_micros(1)).expect("it is shielded");
                    log.lock().unwrap().push(what);
                };
                s.on_exit(Duration::from_secs(60), move || note("first"));
                s.on_exit(Duration::from_secs(60), move || {
                    note("second");
                    s.on_exit(Duration::MAX, move || note("added by the second"));
                });
                drop(s.spawn_daemon(move || {
                    drop(never());
                    log.lock().unwrap().push("daemon");
                }));
                drop(s.spawn(move || {
                    s.on_exit(Duration::MAX, move || note("of a fiber"));
                    log.lock().unwrap().push("fiber");
                }));
                while log.lock().unwrap().is_empty() {
                    yield_now().unwrap();
                }
                token.cancel();
            });
        });
        let mut log = log.into_inner().unwrap();
        log.retain(|what| *what != "daemon");
        assert_eq!(log, ["fiber", "of a fiber", "second", "added by the second", "first"]);
    });
}

#[test]
fn all_hooks_run_if_some_panic_and_all_panics_are_kept() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        let text = text_of(|| {
            scope(|s| {
                for text in ["third", "second", "first"] {
                    let ran = &ran;
                    s.on_exit(Duration::MAX, move || {
                        ran.fetch_add(1, SeqCst);
                        fail(text)
                    });
                }
            })
        });
        assert_eq!(ran.into_inner(), 3);
        let [first, second, third] = text.split("; then ").collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(first, "first");
        assert!(second.starts_with("a hook") && second.ends_with("panicked: second"), "{second}");
        assert!(third.ends_with("panicked: third"), "{third}");
    });
}

#[test]
fn a_hook_that_waits_for_ever_is_over_with_its_budget_and_is_named() {
    let found = Sim::new(3).run(|| {
        let started = segue::now();
        let why = Mutex::new(None);
        let at = scope(|s| {
            s.on_exit(Duration::from_secs(5), || *why.lock().unwrap() = never().err());
            line!() - 1
        });
        let why = why.into_inner().unwrap().expect("it was cancelled");
        assert!(why.timed_out());
        let overran: &Overran = why.reason().unwrap().downcast_ref().unwrap();
        assert_eq!(overran.budget(), Duration::from_secs(5));
        assert!(overran.at().file().ends_with("scope_ends.rs") && overran.at().line() == at, "{overran}");
        assert_eq!(segue::now() - started, Duration::from_secs(5));
        // The next wait does not see it.
        assert!(check().is_ok());
    });
    found.unwrap();
}

#[test]
fn a_budget_of_zero_is_none_at_all_and_the_longest_never_ends() {
    everywhere(|| {
        let seen = Mutex::new(Vec::new());
        scope(|s| {
            for budget in [Duration::ZERO, Duration::MAX] {
                s.on_exit(budget, || seen.lock().unwrap().push(sleep(Duration::ZERO).is_ok()));
            }
        });
        assert_eq!(seen.into_inner().unwrap(), [true, false]);
    });
}

#[test]
fn a_hook_opens_scopes_of_its_own() {
    everywhere(|| {
        let sum = AtomicUsize::new(0);
        scope(|s| {
            s.on_exit(Duration::from_secs(60), || {
                assert!(s.spawn(|| ()).join().is_err(), "this one is over");
                scope(|inner| {
                    let fibers = [1, 2, 3].map(|n| inner.spawn(move || n));
                    sum.store(fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum(), SeqCst);
                });
            });
        });
        assert_eq!(sum.into_inner(), 6);
    });
}

#[test]
fn a_scope_in_a_drop_during_a_panic_has_daemons_and_hooks() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        let text = text_of(|| {
            let _cleans = AtDrop(|| {
                scope(|s| {
                    drop(s.spawn_daemon(|| {
                        drop(never());
                        ran.fetch_add(1, SeqCst)
                    }));
                    s.on_exit(Duration::from_secs(1), || _ = ran.fetch_add(10, SeqCst));
                });
            });
            fail::<()>("outer")
        });
        assert_eq!(text, "outer");
        assert!([10, 11].contains(&ran.into_inner()), "the hook has run");
    });
}

#[test]
fn handles_that_are_forgotten_keep_no_scope_open() {
    everywhere(|| {
        let ran = AtomicUsize::new(0);
        let count = || _ = ran.fetch_add(1, SeqCst);
        scope(|s| {
            std::mem::forget(s.spawn(count));
            std::mem::forget(s.spawn(count).join_source());
            std::mem::forget(s.spawn_task(async { count() }));
            std::mem::forget(s.spawn_daemon(|| drop(never())));
            std::mem::forget(Builder::new().cancellable().within(s).spawn(count));
            std::mem::forget(s.token());
        });
        assert_eq!(ran.into_inner(), 4);
    });
}

#[test]
fn daemons_race_the_end_of_the_scope() {
    let pool = segue::sched::Runtime::new().workers(2).pool().unwrap();
    let rounds = if cfg!(miri) { 5 } else { 2_000 };
    let (made, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    pool.call(|| {
        for _ in 0..rounds {
            let ran = AtomicUsize::new(0);
            let mut accepted = 0;
            let joins = Mutex::new(Vec::new());
            scope(|s| {
                let (ran, joins) = (&ran, &joins);
                drop(s.spawn_daemon(move || {
                    for _ in 0..3 {
                        joins.lock().unwrap().push(s.spawn(|| ran.fetch_add(1, SeqCst)));
                    }
                }));
                drop(s.spawn(|| ()));
            });
            for join in joins.into_inner().unwrap() {
                match join.join() {
                    Ok(_) => accepted += 1,
                    Err(JoinError::NeverRan(_)) => drop(refused.fetch_add(1, SeqCst)),
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!(ran.into_inner(), accepted, "each one has run before the scope ended, or never");
            made.fetch_add(accepted, SeqCst);
        }
    });
    println!("{made:?} made, {refused:?} refused");
}
