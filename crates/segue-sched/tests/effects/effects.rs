//! Handlers and generators in fibers: waits inside of them, two fibers interleaved, cancellation
//! through them, contexts that come along.
//!
//! Not on the host with a thread for each fiber: there a handled computation is on a thread that
//! does not know which fiber it is part of.
#![cfg(not(feature = "threads"))]

use crate::common::{Meet, everywhere};
use segue_core::{CancelToken, Cancelled, check, scope, sleep, spawn, timeout, yield_now};
use segue_fiber::effect::{Continuation, Effect, Handler, perform, try_perform};
use segue_fiber::{Yielder, generator, leaked_stacks, region};
use segue_sched::{Fifo, Runtime, Sim};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

struct Wait(Duration);
impl Effect for Wait {
    type Output = Result<(), Cancelled>;
}

#[test]
fn a_wait_inside_of_handlers_suspends_the_fiber_with_all_of_its_stacks() {
    everywhere(|| {
        let run = |mine: u64| {
            Handler::new().on(|_: Ask, k| k.resume(mine)).handle(|| {
                Handler::new().answer(|Wait(time)| sleep(time)).handle(|| {
                    let mut sum = 0;
                    for _ in 0..10 {
                        sum += perform(Ask);
                        yield_now().unwrap();
                        perform(Wait(Duration::from_micros(10))).unwrap();
                        sum += perform(Ask);
                    }
                    sum
                })
            })
        };
        scope(|s| {
            let all: Vec<_> = (0..8).map(|mine| s.spawn(move || (mine, run(mine)))).collect();
            for handle in all {
                let (mine, sum) = handle.join().unwrap();
                assert_eq!(sum, 20 * mine);
            }
        });
        assert!(try_perform(Ask).is_err());
    });
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn clauses_and_cases_may_wait() {
    everywhere(|| {
        let yielded = Handler::new()
            .on(|_: Ask, k| {
                sleep(Duration::from_micros(50)).unwrap();
                let result: u64 = k.resume(20);
                yield_now().unwrap();
                result + 1
            })
            .value(|it: u64| {
                yield_now().unwrap();
                it * 2
            })
            .handle(|| {
                yield_now().unwrap();
                perform(Ask)
            });
        assert_eq!(yielded, 41);
    });
}

#[test]
fn a_fiber_starts_without_the_handlers_of_who_spawned_it() {
    everywhere(|| {
        Handler::new().answer(|_: Ask| 1).on(|Wait(_), k| k.resume(Ok(()))).handle(|| {
            assert_eq!(perform(Ask), 1);
            assert!(spawn(|| try_perform(Ask).is_err()).join().unwrap());
            // And a scheduler inside of a handler is outside of it.
            let inner = Runtime::new().workers(1).run(|| {
                spawn(|| yield_now().unwrap()).join().unwrap();
                try_perform(Ask).is_err()
            });
            assert!(inner.unwrap());
            assert_eq!(perform(Ask), 1);
            perform(Wait(Duration::ZERO)).unwrap();
        });
    });
}

/// Else the clause would run with the values of the local fiber in place of its own, and a resume
/// inside of a loan of one would end them.
#[test]
fn a_local_fiber_that_runs_in_place_starts_without_handlers_too() {
    let local = || {
        let answered = Cell::new(0);
        Handler::new()
            .on(|_: Ask, k| {
                answered.set(answered.get() + 1);
                k.resume(1)
            })
            .handle(|| {
                assert!(scope(|s| s.spawn_local(|| try_perform(Ask).is_err()).join().unwrap()));
                assert_eq!(perform(Ask), 1);
            });
        assert_eq!(answered.get(), 1);
    };
    local();
    everywhere(local);
}

#[test]
fn cancellation_passes_through_handlers_as_a_value() {
    everywhere(|| {
        let token = CancelToken::new();
        let canceller = token.clone();
        let handle = spawn(move || {
            token.run(|| {
                Handler::new().on(|Wait(time), k| k.resume(sleep(time))).handle(|| {
                    let first = perform(Wait(Duration::from_secs(1000)));
                    let second = sleep(Duration::from_secs(1000));
                    first.is_err() && second.is_err() && check().is_err()
                })
            })
        });
        yield_now().unwrap();
        canceller.cancel();
        assert!(handle.join().unwrap());
    });
}

#[test]
fn generators_that_wait() {
    everywhere(|| {
        scope(|s| {
            for step in 1..4 {
                drop(s.spawn(move || {
                    let steps = generator(move |y| {
                        for it in 0..5 {
                            yield_now().unwrap();
                            y.give(it * step);
                        }
                    });
                    assert!(steps.inspect(|_| yield_now().unwrap()).eq((0..5).map(|it| it * step)));
                }));
            }
        });
        let words = ["a", "b"];
        region(|region| {
            let mut letters = region.generator(|y: &Yielder<&str>| {
                for word in &words {
                    sleep(Duration::from_micros(10)).unwrap();
                    y.give(word);
                }
            });
            assert_eq!((letters.next(), letters.next(), letters.next()), (Some("a"), Some("b"), None));
        });
    });
}

#[test]
fn an_element_is_not_given_across_a_fiber() {
    everywhere(|| {
        region(|region| {
            let mut through = region.generator(|y: &Yielder<u32>| {
                let refused = Runtime::new()
                    .workers(1)
                    .run(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| y.give(1))).is_err());
                assert!(refused.unwrap());
                y.give(2);
            });
            assert_eq!((through.next(), through.next()), (Some(2), None));
        });
    });
}

#[test]
fn a_perform_inside_of_a_scope_is_resumed_there() {
    let report = Sim::new(1).run(|| {
        let told = RefCell::new(vec![]);
        let sum = Handler::new()
            .on(|_: Ask, k| {
                told.borrow_mut().push("asked");
                k.resume(5)
            })
            .handle(|| {
                let inside = timeout(Duration::from_secs(1), || Ok::<_, Cancelled>(perform(Ask)));
                scope(|s| inside.unwrap() + s.spawn(|| 1).join().unwrap() + perform(Ask))
            });
        (sum, told.into_inner().len())
    });
    assert_eq!(report.unwrap(), (11, 2));
}

#[test]
fn a_computation_goes_on_in_a_scope_of_its_own_inside_of_another() {
    thread_local!(static KEPT: Cell<Option<Continuation<'static, u64, u64>>> = const { Cell::new(None) });
    let sum = Runtime::new().workers(1).run_with(Fifo::default, || {
        scope(|s| {
            drop(s.spawn(|| {
                Handler::stored()
                    .on(|_: Ask, k| {
                        KEPT.set(Some(k));
                        0
                    })
                    .handle(|| segue_core::shield(|| scope(|s| s.spawn(|| 2).join().unwrap() + perform(Ask))))
            }));
        });
        let k = KEPT.take().unwrap();
        scope(|s| {
            s.cancel();
            k.resume(1)
        })
    });
    assert_eq!(sum.unwrap(), 3);
}

#[test]
fn a_shielded_scope_in_a_handled_computation_is_not_cancelled_with_its_runtime() {
    let (began, finished) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (began_inside, finished_inside) = (Arc::clone(&began), Arc::clone(&finished));
    let over = Arc::new(Meet::new());
    let told = Arc::clone(&over);
    let run = Runtime::new().workers(1).run_with(Fifo::default, || {
        // Says that the run is cancelled.
        drop(spawn(move || {
            assert!(Meet::<()>::new().wait().is_err());
            over.put(());
        }));
        drop(spawn(move || {
            let inside = || {
                scope(|s| {
                    drop(s.spawn(|| {
                        began_inside.store(true, SeqCst);
                        finished_inside.store(told.wait().is_ok(), SeqCst);
                    }));
                })
            };
            Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| segue_core::shield(|| scope(|_| inside())))
        }));
        while !began.load(SeqCst) {
            yield_now().unwrap();
        }
    });
    run.unwrap();
    assert!(finished.load(SeqCst));
}
