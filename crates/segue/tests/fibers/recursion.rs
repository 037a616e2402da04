//! An initialiser that needs its own value is told so, wherever it is that it asks for it: on its
//! own fiber, or on one that it waits for without fail. Everybody else waits.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{block_on, everywhere, pool, simulated};
use segue::sched::Fifo;
use segue::sync::{Barrier, ForceError, Lazy, Once, OnceCell, promise};
use segue::{Cancelled, blocking, finally, join, move_to, run, scope, shield, spawn, spawn_task};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Forces `cell` by `f`, in whose place the cell is forced again.
fn recursive(within: impl FnOnce(&(dyn Fn() -> bool + Sync)) -> bool) {
    let cell = OnceCell::new();
    let forced = cell.get_or_try_init(|| {
        let again = || matches!(cell.get_or_init(|| 0), Err(ForceError::Recursive(_)));
        if within(&again) { Ok(7) } else { Err("it was not told") }
    });
    assert_eq!(forced, Ok(&7));
}

#[test]
fn fibers_of_a_scope() {
    everywhere(|| {
        recursive(|again| scope(|s| s.spawn(again).join().unwrap()));
        recursive(|again| scope(|s| s.spawn_task(async { again() }).join().unwrap()));
        recursive(|again| scope(|s| s.spawn(|| scope(|s| s.spawn(again).join().unwrap())).join().unwrap()));
        // The scope waits, and nobody joins.
        recursive(|again| {
            let told = AtomicUsize::new(0);
            scope(|s| drop(s.spawn(|| told.fetch_add(again().into(), SeqCst))));
            told.into_inner() == 1
        });
    });
}

#[test]
fn a_task_that_is_awaited_in_a_scope() {
    everywhere(|| {
        let cell = OnceCell::new();
        let forced = cell.get_or_init(|| {
            let asks = async { matches!(cell.wait_source().await, Err(ForceError::Recursive(_))) };
            scope(|s| s.spawn_task(asks).join().unwrap())
        });
        assert_eq!(forced, Ok(&true));
    });
}

#[test]
fn a_call_that_blocks() {
    everywhere(|| recursive(|again| blocking(again).unwrap()));
}

#[test]
fn a_run_inside() {
    let inner = || segue::sched::Runtime::new().workers(1);
    for _ in 0..3 {
        recursive(|again| run(again));
        recursive(|again| inner().run_with(Fifo::default, || spawn_here(again)).unwrap());
        inner().run(|| recursive(|again| inner().run(again).unwrap())).unwrap();
    }
}

/// On another fiber of the run, which the run waits for.
fn spawn_here(again: &(dyn Fn() -> bool + Sync)) -> bool {
    scope(|s| s.spawn(again).join().unwrap())
}

#[test]
fn a_detached_fiber_of_a_run_inside_ends_with_it() {
    static CELL: OnceCell<bool> = OnceCell::new();
    let again = || matches!(CELL.get_or_init(|| false), Err(ForceError::Recursive(_)));
    let inner = segue::sched::Runtime::new().workers(1);
    assert_eq!(CELL.get_or_init(|| inner.run(|| spawn(again).join().unwrap()).unwrap()), Ok(&true));
}

#[test]
fn another_scheduler() {
    let (one, two) = (pool(1), pool(1));
    recursive(|again| one.run(again).unwrap());
    one.run(|| recursive(|again| two.run(again).unwrap())).unwrap();
    one.run(|| recursive(|again| move_to(&two.handle(), again).unwrap())).unwrap();
    one.run(|| recursive(|again| two.run(|| one.run(again).unwrap()).unwrap())).unwrap();
}

#[test]
fn the_other_half_of_a_join() {
    everywhere(|| recursive(|again| join(|| true, again).1));
    // On another worker: the first half waits for the second to begin.
    pool(2)
        .run(|| {
            for _ in 0..50 {
                let met = Barrier::new(2);
                recursive(|again| {
                    let second = || {
                        met.wait().unwrap();
                        again()
                    };
                    join(|| met.wait().unwrap(), second).1
                });
            }
        })
        .unwrap();
}

#[test]
fn behind_a_shield_and_in_a_cleanup() {
    everywhere(|| {
        recursive(|again| shield(again));
        recursive(|again| shield(|| scope(|s| s.spawn(again).join().unwrap())));
        recursive(|again| {
            let mut told = false;
            finally(|| (), || told = again());
            told
        });
        shield(|| recursive(|again| blocking(again).unwrap()));
    });
}

#[test]
fn through_the_initialisers_of_others() {
    everywhere(|| {
        recursive(|again| {
            let between = Lazy::new(|| scope(|s| s.spawn(again).join().unwrap()));
            scope(|s| s.spawn(|| *between.force().unwrap()).join().unwrap())
        });
    });
}

#[test]
fn every_kind_of_cell() {
    everywhere(|| {
        let once = Once::new();
        let mut told = false;
        once.call_once(|| told = scope(|s| s.spawn(|| once.call_once(|| ()).is_err()).join().unwrap())).unwrap();
        assert!(told);
    });
    static KNOT: Lazy<u32, fn() -> Result<u32, ForceError>> = Lazy::named("KNOT", || {
        let again = || match KNOT.force_fallible() {
            Err(ForceError::Recursive(recursive)) => recursive.into(),
            Err(ForceError::Failed(failed)) => failed,
            Err(ForceError::Cancelled(cancelled)) => cancelled.into(),
            Ok(_) => unreachable!("there is no value"),
        };
        Err(blocking(again).unwrap())
    });
    let Err(ForceError::Failed(ForceError::Recursive(error))) = KNOT.force_fallible() else { unreachable!() };
    let text = error.to_string();
    assert!(text.starts_with("KNOT (made at ") && text.contains("from inside of its own initialiser"), "{text}");
}

// Who is not inside waits, and gets the value.

#[test]
fn a_sibling_of_the_initialiser_waits() {
    simulated(100, |_| {
        let cell = OnceCell::new();
        scope(|s| {
            for n in 0..4 {
                let cell = &cell;
                s.spawn(move || {
                    let init = || {
                        scope(|s| drop(s.spawn(segue::yield_now)));
                        segue::sleep(Duration::from_millis(1)).unwrap();
                        n
                    };
                    cell.get_or_init(init).unwrap();
                });
            }
        });
        assert!(cell.get().is_some());
    });
}

#[test]
fn a_fiber_that_the_initialiser_only_started_waits() {
    everywhere(|| {
        let cell: &OnceCell<u32> = Box::leak(Box::default());
        let mut started = None;
        let value = cell.get_or_init(|| {
            let (asks, asked) = promise();
            started = Some((
                spawn(move || {
                    asks.fill(()).unwrap();
                    cell.wait().copied()
                }),
                spawn_task(async { cell.wait_source().await.copied() }),
            ));
            asked.wait().unwrap();
            7
        });
        assert_eq!(value, Ok(&7));
        let (fiber, task) = started.unwrap();
        assert_eq!((fiber.join().unwrap(), task.join().unwrap()), (Ok(7), Ok(7)));
    });
}

#[test]
fn what_was_inside_of_an_attempt_that_failed_may_force_later() {
    everywhere(|| {
        let cell = OnceCell::new();
        let cell = &cell;
        scope(|s| {
            // It began outside, and has lived through an attempt of its own.
            let failed = cell.get_or_try_init(|| scope(|s| s.spawn(|| Err::<u32, _>(())).join().unwrap()));
            assert_eq!(failed, Err(ForceError::Failed(())));
            assert_eq!(s.spawn(|| cell.get_or_init(|| 1).copied()).join().unwrap(), Ok(1));
        });
        assert_eq!(block_on(cell.wait_source()), Ok(&1));
    });
}

#[test]
fn the_initialiser_sees_the_cancellation_around() {
    everywhere(|| {
        let cell = OnceCell::new();
        let ended = segue::timeout(Duration::from_millis(1), || {
            cell.get_or_try_init(|| segue::sleep(Duration::from_secs(9999)).map(|()| 1))
        });
        let Err(ForceError::Failed(cancelled)) = ended else { unreachable!() };
        assert!(Cancelled::timed_out(&cancelled));
    });
}

// An initialiser whose rest is kept, while its fiber ends and its header's address is used again.

#[cfg(not(feature = "threads"))]
mod captured {
    use super::*;
    use segue::effect::{Continuation, Effect, Handler, perform};
    use segue::yield_now;
    use std::cell::RefCell;

    struct Ask;
    impl Effect for Ask {
        type Output = u32;
    }

    thread_local!(static KEPT: RefCell<Option<Continuation<'static, u32, u32>>> = const { RefCell::new(None) });

    type Surrounding = fn(&dyn Fn() -> u32) -> u32;

    const SURROUNDINGS: [Surrounding; 3] = [|f| f(), |f| shield(f), |f| segue::timeout(Duration::from_secs(9999), f)];

    /// Runs `body` to its perform, and keeps its rest.
    fn keep(body: impl FnOnce() -> u32 + 'static) {
        let clause = |Ask, k| {
            KEPT.set(Some(k));
            0
        };
        assert_eq!(Handler::stored().on(clause).handle(body), 0);
    }

    fn go_on() -> u32 {
        KEPT.take().unwrap().resume(7)
    }

    fn fiber() -> (usize, u64) {
        segue::core::with_current(|fiber| (std::ptr::from_ref(fiber).addr(), fiber.id()))
    }

    #[test]
    fn another_fiber_at_the_address_waits() {
        let used_again = segue::sched::Runtime::new().workers(1).run_with(Fifo::default, || {
            let mut used_again = 0;
            for around in SURROUNDINGS {
                let cell: &OnceCell<u32> = Box::leak(Box::default());
                let init = move || *cell.get_or_init(|| around(&|| perform(Ask))).unwrap();
                let first = spawn(move || {
                    keep(init);
                    // It has left its initialiser.
                    assert!(segue::timeout(Duration::from_millis(1), || cell.wait()).is_err());
                    fiber()
                });
                let first = first.join().unwrap();
                let second = spawn(move || (fiber(), cell.wait().copied()));
                yield_now().unwrap();
                assert_eq!(go_on(), 7);
                let (second, value) = second.join().unwrap();
                assert_eq!(value, Ok(7));
                used_again += u32::from(first.0 == second.0);
            }
            used_again
        });
        assert_eq!(used_again.unwrap(), 3, "the same address each time");
    }

    #[test]
    fn the_rest_of_an_initialiser_is_inside_of_it_wherever_it_goes_on() {
        let told = segue::sched::Runtime::new().workers(1).run_with(Fifo::default, || {
            let mut told = 0;
            for around in SURROUNDINGS {
                let cell: &OnceCell<u32> = Box::leak(Box::default());
                let again = move || scope(|s| s.spawn(|| cell.wait().is_err()).join().unwrap());
                let rest = move || perform(Ask) + u32::from(again());
                let init = move || *cell.get_or_init(|| around(&rest)).unwrap();
                spawn(move || keep(init)).join().unwrap();
                told += spawn(go_on).join().unwrap() - 7;
            }
            told
        });
        assert_eq!(told.unwrap(), 3);
    }

    #[test]
    fn what_has_left_an_initialiser_is_not_inside_of_it() {
        let value = segue::sched::Runtime::new().workers(1).run_with(Fifo::default, || {
            let cell: &OnceCell<u32> = Box::leak(Box::default());
            let forces = spawn(move || {
                cell.get_or_init(|| {
                    // A computation that another fiber goes on with, in contexts of its own that
                    // were made here.
                    keep(move || {
                        segue::timeout(Duration::from_secs(9999), || perform(Ask) - 7 + *cell.wait().unwrap())
                    });
                    yield_now().unwrap();
                    1
                })
                .copied()
            });
            let takes = spawn(go_on);
            (forces.join().unwrap(), takes.join().unwrap())
        });
        assert_eq!(value.unwrap(), (Ok(1), 1));
    }
}
