//! Shared handlers: what starts inside of one and ends before it does sees it, on whatever worker,
//! and nothing else does.

use segue_core::{blocking, scope, spawn};
use segue_fiber::effect::{Effect, Handler, SharedHandler, Unhandled, perform, try_perform};
use segue_fiber::generator;
use segue_sched::{Runtime, Sim, join};
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

struct Add(u64);
impl Effect for Add {
    type Output = ();
}

/// Which handler answers.
struct Ask;
impl Effect for Ask {
    type Output = u64;
}

/// Something that only the innermost handlers know.
struct Other;
impl Effect for Other {
    type Output = u64;
}

fn count(n: u64) {
    if n < 2 {
        perform(Add(1));
    } else {
        join(|| count(n / 2), || count(n - n / 2));
    }
}

#[test]
fn halves_of_joins_perform_on_whatever_worker_they_run() {
    let pool = Runtime::new().workers(2).pool().unwrap();
    let (sum, threads) = (AtomicU64::new(0), Mutex::new(vec![]));
    // Until two threads were seen; a half is stolen soon.
    for round in 1.. {
        let add = |Add(n)| {
            sum.fetch_add(n, Relaxed);
            let mut threads = threads.lock().unwrap();
            if !threads.contains(&thread::current().id()) {
                threads.push(thread::current().id());
            }
        };
        pool.run(|| SharedHandler::new().answer(add).handle(|| count(4096))).unwrap();
        assert_eq!(sum.load(Relaxed), 4096 * round);
        if threads.lock().unwrap().len() >= 2 {
            break;
        }
    }
}

#[test]
fn halves_of_a_join_outside_of_workers_perform_in_place() {
    let seen = SharedHandler::new().answer(|Ask| 7).handle(|| join(|| perform(Ask), || perform(Ask)));
    assert_eq!(seen, (7, 7));
}

#[test]
fn fibers_of_a_scope_and_theirs_inherit_and_their_own_handlers_come_first() {
    for seed in 0..10 {
        let answers = Sim::new(seed).run(|| {
            SharedHandler::new().answer(|Ask| 1).handle(|| {
                scope(|s| {
                    let plain = s.spawn(|| perform(Ask));
                    let deep =
                        s.spawn(|| scope(|s| s.spawn(|| join(|| perform(Ask), || perform(Ask)).1).join().unwrap()));
                    let own = s.spawn(|| Handler::new().answer(|Ask| 2).handle(|| perform(Ask)));
                    let captures =
                        s.spawn(|| Handler::new().on(|Other, k| k.resume(30)).handle(|| perform(Other) + perform(Ask)));
                    [plain, deep, own, captures].map(|fiber| fiber.join().unwrap())
                })
            })
        });
        assert_eq!(answers.unwrap(), [1, 1, 2, 31]);
    }
}

#[test]
fn a_clause_sees_what_is_further_out_and_not_its_performers_handlers() {
    let further = SharedHandler::new().answer(|Ask| 5);
    let answer = further.handle(|| {
        let nearer = SharedHandler::new().answer(|Other| perform(Ask) * 10);
        nearer.handle(|| {
            scope(|s| {
                let fiber = s.spawn(|| Handler::new().answer(|Ask| 6).handle(|| (perform(Other), perform(Ask))));
                fiber.join().unwrap()
            })
        })
    });
    assert_eq!(answer, (50, 6));
}

#[test]
fn what_may_outlive_a_handler_does_not_inherit_it() {
    Sim::new(1)
        .run(|| {
            scope(|s| {
                SharedHandler::new().answer(|Ask| 1).handle(|| {
                    let detached = spawn(|| try_perform(Ask).is_err());
                    assert!(detached.join().unwrap());
                    // The scope is around the handler.
                    assert!(s.spawn(|| try_perform(Ask).is_err()).join().unwrap());
                    assert!(blocking(|| try_perform(Ask).is_err()).unwrap());
                    // It would be captured without the handler.
                    let captured = Handler::new().on(|Other, k| k.resume(1)).handle(|| {
                        assert_eq!(perform(Ask), 1);
                        scope(|s| s.spawn(|| try_perform(Ask).is_err()).join().unwrap())
                            && join(|| try_perform(Ask).is_err(), || true).0
                    });
                    assert!(captured);
                    let given = generator(|y| {
                        y.give(perform(Ask) == 1);
                        y.give(scope(|s| s.spawn(|| try_perform(Ask).is_err()).join().unwrap()));
                    });
                    assert_eq!(given.collect::<Vec<_>>(), [true, true]);
                });
            });
        })
        .unwrap();
}

#[test]
fn a_handler_inside_of_what_is_captured_is_inherited_there() {
    let kept = RefCell::new(None);
    let first = Handler::new()
        .on(|Other, k| {
            // In another scope, as far as the chain is concerned.
            *kept.borrow_mut() = Some(scope(|_| k.resume(3)));
            0
        })
        .handle(|| {
            SharedHandler::new().answer(|Ask| 4).handle(|| {
                let n = scope(|s| perform(Other) + s.spawn(|| perform(Ask)).join().unwrap());
                n + join(|| perform(Ask), || 0).0
            })
        });
    assert_eq!((first, kept.into_inner()), (0, Some(11)));
}

#[test]
fn panics_of_clauses_are_the_performers() {
    let sum = SharedHandler::new()
        .answer(|Ask| panic!("no answer"))
        .handle(|| scope(|s| s.spawn(|| catch_unwind(|| perform(Ask)).map_or_else(|_| 1, |_| 2)).join().unwrap()));
    assert_eq!(sum, 1);
}

#[test]
fn the_message_names_what_was_inherited() {
    let message = SharedHandler::new().answer(|Ask| 1).handle(|| {
        let halves = join(|| catch_unwind(|| perform(Other)).unwrap_err(), || ());
        halves.0.downcast_ref::<Unhandled>().unwrap().to_string()
    });
    assert!(message.contains("in the middle of an operation, a join at ") && message.contains("Ask]"), "{message}");
}
