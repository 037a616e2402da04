//! A cancellation that comes at one moment or another: before a fiber has run, while others are
//! being spawned, when one is about to end, and through a thousand scopes.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{everywhere, pool};
use segue::sync::Latch;
use segue::testing::{Explore, Sim};
use segue::{Builder, Cancelled, JoinError, after, check, is_cancelled, scope, shield, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn before_its_first_run_a_fiber_is_not_run_and_what_it_has_is_dropped() {
    everywhere(|| {
        let (ran, drops) = (AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|s| {
            s.cancel_with("no need");
            let (counted, borrowed) = (Counted(&drops), Counted(&drops));
            let fiber = s.spawn(|| {
                ran.fetch_add(1, SeqCst);
                drop(counted);
            });
            let task = s.spawn_task(async {
                ran.fetch_add(1, SeqCst);
                drop(borrowed);
            });
            for joined in [fiber.join(), task.join()] {
                match joined {
                    Err(JoinError::NeverRan(cancelled)) => assert_eq!(cancelled.to_string(), "cancelled: no need"),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(drops.load(SeqCst), 2);
        });
        assert_eq!(ran.into_inner(), 0);
    });
}

/// Spawns while another one cancels. Answers how many fibers have ended without a cancellation, how
/// many were cancelled where they waited, and how many never ran.
fn spawn_against_cancel() -> [usize; 3] {
    let (drops, seen) = (AtomicUsize::new(0), Mutex::new([0; 3]));
    let spawned = scope(|s| {
        let token = s.token();
        drop(s.spawn(move || token.cancel_with("at some moment")));
        let mut handles = Vec::new();
        for n in 0..6 {
            let (counted, seen) = (Counted(&drops), &seen);
            handles.push(s.spawn(move || {
                let _counted = counted;
                let ended = if n % 2 == 0 { check() } else { never() };
                seen.lock().unwrap()[usize::from(ended.is_err())] += 1;
                ended.map_err(|cancelled| assert_eq!(cancelled.to_string(), "cancelled: at some moment"))
            }));
            let _ = yield_now();
        }
        let number = handles.len();
        // Half of the handles go before the end.
        handles.truncate(3);
        for handle in handles {
            match handle.join() {
                Ok(_) => {}
                Err(JoinError::NeverRan(why)) => assert_eq!(why.to_string(), "cancelled: at some moment"),
                Err(other) => panic!("{other}"),
            }
        }
        number
    });
    assert!(!is_cancelled());
    assert_eq!(drops.into_inner(), spawned, "each closure has gone, run or not");
    let [ended, cancelled, _] = seen.into_inner().unwrap();
    [ended, cancelled, spawned - ended - cancelled]
}

#[test]
fn while_others_are_spawned_each_runs_or_never_does() {
    let outcomes: [AtomicUsize; 3] = Default::default();
    let count = |seen: [usize; 3]| {
        for (outcome, more) in outcomes.iter().zip(seen) {
            outcome.fetch_add(more, SeqCst);
        }
    };
    Explore::random(300).check(|| count(spawn_against_cancel()));
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
    for workers in [1, 2] {
        let rounds = if cfg!(miri) { 5 } else { 500 };
        pool(workers).run(|| (0..rounds).for_each(|_| count(spawn_against_cancel()))).unwrap();
    }
}

#[test]
fn about_its_end_a_fiber_s_result_is_there_or_it_never_ran() {
    let outcomes: [AtomicUsize; 3] = Default::default();
    let one = || {
        let drops = AtomicUsize::new(0);
        let outcome = scope(|s| {
            let canceller = Builder::new().cancellable();
            let result = Counted(&drops);
            let fiber = s.spawn(move || (result, check().is_err()));
            let token = s.token();
            let cancels = canceller.spawn(move || token.cancel());
            let outcome = match shield(|| fiber.join()) {
                Ok((_result, cancelled)) => usize::from(cancelled),
                Err(JoinError::NeverRan(_)) => 2,
                Err(other) => panic!("{other}"),
            };
            shield(|| cancels.join()).unwrap();
            assert!(is_cancelled());
            outcome
        });
        assert_eq!(drops.into_inner(), 1, "neither lost nor doubled");
        outcomes[outcome].fetch_add(1, SeqCst);
    };
    Explore::exhaustive(100_000).check(one);
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
    let rounds = if cfg!(miri) { 5 } else { 1_000 };
    pool(2).run(|| (0..rounds).for_each(|_| one())).unwrap();
}

#[test]
fn when_the_body_has_ended_and_when_all_is_over() {
    everywhere(|| {
        let (mut late, ended, began) = (None, AtomicUsize::new(0), Latch::new(3));
        scope(|s| {
            let (token, began, ended) = (s.token(), &began, &ended);
            late = Some(s.token());
            for _ in 0..3 {
                drop(s.spawn(move || {
                    began.count_down(1);
                    never().unwrap_err();
                    ended.fetch_add(1, SeqCst);
                }));
            }
            // The scope waits for the others when it cancels.
            drop(s.spawn(move || {
                began.wait().unwrap();
                token.cancel();
            }));
        });
        assert_eq!(ended.into_inner(), 3);
        late.unwrap().cancel_with("too late");
        assert!(check().is_ok());
    });
}

/// As many scopes, one in the other, each in a fiber of the one around it.
fn nest(depth: usize, innermost: &(dyn Fn() -> usize + Sync)) -> usize {
    if depth == 0 {
        return innermost();
    }
    scope(|s| {
        let inner = Builder::new().stack_size(1 << 16).within(s).spawn(move || nest(depth - 1, innermost));
        inner.join().map_or(0, |ended| ended + 1)
    })
}

#[test]
fn a_thousand_nested_scopes_pass_a_cancellation_inwards_and_a_panic_outwards() {
    let depth = if cfg!(miri) { 10 } else { 1_000 };
    Sim::new(1)
        .run(|| {
            let (began, begins) = segue::sync::promise();
            let began = Mutex::new(Some(began));
            let ended = scope(|s| {
                let nested = s.spawn(|| {
                    nest(depth, &|| {
                        began.lock().unwrap().take().unwrap().fill(()).unwrap();
                        assert_eq!(never().unwrap_err().to_string(), "cancelled: from outside");
                        0
                    })
                });
                begins.wait().unwrap();
                s.cancel_with("from outside");
                nested.join().unwrap()
            });
            assert_eq!(ended, depth, "each has ended in its order");
            let raised = catch_unwind(AssertUnwindSafe(|| nest(depth, &|| resume_unwind(Box::new("from inside")))));
            assert_eq!(raised.unwrap_err().downcast_ref(), Some(&"from inside"));
        })
        .unwrap();
}
