//! Tokens, deadlines and cleanup on every scheduler: who is cancelled when, with which reason, and
//! what it leaves.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{everywhere, pool, simulated};
use segue::sync::{Barrier, Entry, Latch, MVar, Mutex, Notify, OnceCell, RwLock, Semaphore, promise};
use segue::{
    CancelToken, Cancelled, JoinError, after, check, deadline, finally, is_cancelled, now, scope, shield, sleep,
};
use segue::{spawn, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// An error of the user's own, as the reason.
#[derive(Debug, PartialEq)]
struct Unwanted(u32);

impl std::fmt::Display for Unwanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order {} is not wanted any more", self.0)
    }
}

impl std::error::Error for Unwanted {}

/// The number in the reason.
fn order(cancelled: &Cancelled) -> u32 {
    cancelled.reason().and_then(|reason| reason.downcast_ref::<Unwanted>()).expect("the user's reason").0
}

#[test]
fn in_virtual_time_limits_end_to_the_instant() {
    simulated(20, |_| {
        let begun = now();
        let ended = timeout(HOUR, || sleep(2 * HOUR)).unwrap_err();
        assert_eq!((ended.timed_out(), now() - begun), (true, HOUR));
        assert_eq!(ended.to_string(), "cancelled: the time allowed is over");
        // The shorter one, inside or outside, and the outer one still shows after it.
        assert!(timeout(HOUR, || timeout(2 * HOUR, || after(3 * HOUR).wait())).is_err());
        assert_eq!(now() - begun, 2 * HOUR);
        timeout(2 * HOUR, || {
            assert!(timeout(HOUR, || sleep(3 * HOUR)).is_err());
            assert_eq!((now() - begun, check()), (3 * HOUR, Ok(())));
            assert!(sleep(2 * HOUR).is_err_and(|cancelled| cancelled.timed_out()));
        });
        assert_eq!((now() - begun, check()), (4 * HOUR, Ok(())));
        let at = now() + HOUR;
        assert!(deadline(Some(at), || sleep(2 * HOUR)).is_err() && now() == at);
        assert!(deadline(None, || sleep(HOUR)).is_ok());
        // What is there in time, or late, is returned.
        assert_eq!(timeout(HOUR, || sleep(HOUR - MILLI)), Ok(()));
        assert_eq!(timeout(HOUR, || shield(|| sleep(2 * HOUR)).map(|()| check().is_err())), Ok(true));
        // Of many fibers each has its own.
        scope(|s| {
            for hours in 1..20 {
                s.spawn(move || {
                    let begun = now();
                    assert!(timeout(hours * HOUR, || after(Duration::MAX).wait()).is_err());
                    assert_eq!(now() - begun, hours * HOUR);
                });
            }
        });
    });
}

/// Waits under limits inside of each other, of which the one at `nearest` is over soon, and the
/// others never. Answers which of them is over when its body has ended.
fn nested(limits: usize, nearest: usize, wait: &dyn Fn() -> Result<(), Cancelled>) -> Vec<bool> {
    fn level(
        number: usize,
        limits: usize,
        nearest: usize,
        wait: &dyn Fn() -> Result<(), Cancelled>,
    ) -> (Vec<bool>, bool) {
        let limit = if number == nearest { MILLI } else { HOUR };
        let (mut over, ended) = if number == limits {
            let ended = wait().unwrap_err();
            assert!(ended.timed_out(), "{ended}");
            (Vec::new(), true)
        } else {
            let inside = || level(number + 1, limits, nearest, wait);
            // By a duration, by a point in time, and in a scope of its own.
            match number % 3 {
                0 => timeout(limit, inside),
                1 => deadline(now().checked_add(limit), inside),
                _ => timeout(limit, || scope(|_| inside())),
            }
        };
        over.push(check().is_err());
        (over, ended)
    }
    let (mut over, ended) = level(0, limits, nearest, wait);
    assert!(ended && check().is_ok());
    over.reverse();
    over
}

#[test]
fn of_limits_inside_of_each_other_the_nearest_ends_the_wait_whoever_waits_and_for_what() {
    everywhere(|| {
        let never = || after(Duration::MAX).wait();
        let locked = MVar::<()>::empty();
        let take = || locked.take();
        // The look after each limit: all inside of the nearest are over, and those outside not.
        for nearest in 0..4 {
            let expected: Vec<bool> = (0..=4).map(|outside| outside > nearest).collect();
            assert_eq!(nested(4, nearest, &never), expected);
            assert_eq!(nested(4, nearest, &take), expected);
            // In a poll of a task, and in a fiber that the limits are not around.
            let task = segue::spawn_task(async move { nested(4, nearest, &|| after(Duration::MAX).wait()) });
            assert_eq!(task.join().unwrap(), expected);
        }
        // A choice has the nearest arm.
        let first = after(HOUR).or(after(MILLI)).or(after(Duration::MAX)).wait().unwrap();
        assert_eq!(first, segue::Either::Left(segue::Either::Right(())));
    });
}

#[test]
fn a_wait_that_is_ended_by_time_has_left_its_queue() {
    fn late<T>(wait: impl FnOnce() -> Result<T, Cancelled>) {
        let ended = timeout(MILLI, wait).err().expect("nobody serves it");
        assert!(ended.timed_out() && check().is_ok());
    }
    everywhere(|| {
        let mutex = Mutex::new(());
        let guard = mutex.lock().unwrap();
        late(|| mutex.lock());
        drop(guard);
        assert!(mutex.try_lock().is_some());
        let semaphore = Semaphore::new(1);
        late(|| Ok(semaphore.acquire_many(2)?));
        assert!(semaphore.try_acquire().is_some());
        let lock = RwLock::new(());
        let read = lock.read().unwrap();
        late(|| lock.write());
        assert!(lock.try_read().is_some(), "no writer waits any more");
        drop(read);
        let write = lock.write().unwrap();
        late(|| lock.read());
        drop(write);
        assert!(lock.try_write().is_some());
        let place = MVar::empty();
        late(|| place.take());
        late(|| place.read());
        assert_eq!(place.try_put(1), Ok(()));
        late(|| Ok(place.put(2)?));
        assert_eq!((place.try_take(), place.try_take()), (Some(1), None));
        let notify = Notify::new();
        late(|| notify.wait());
        notify.notify_one();
        assert!(notify.try_wait(), "nobody else has it");
        let (latch, barrier) = (Latch::new(1), Barrier::new(2));
        late(|| latch.wait());
        late(|| barrier.wait());
        scope(|s| {
            s.spawn(|| barrier.wait().unwrap());
            barrier.wait().unwrap();
        });
        let (resolver, promised) = promise();
        late(|| promised.wait_source().wait());
        resolver.fill(1).unwrap();
        assert_eq!(promised.wait(), Ok(&1));
        let cell = OnceCell::new();
        let Some(Entry::Empty(initializer)) = cell.try_entry() else { unreachable!("it is empty") };
        late(|| cell.entry_source().wait().map(drop));
        drop(initializer);
        assert_eq!(cell.try_set(1), Ok(()));
    });
}

#[test]
fn one_fiber_is_cancelled_with_any_error_and_the_others_are_not() {
    everywhere(|| {
        let (token, place) = (CancelToken::new(), MVar::<u8>::empty());
        scope(|s| {
            let waits = s.spawn(|| token.run(|| place.take()));
            let waits_too = s.spawn(|| place.take());
            let _ = yield_now();
            token.cancel_with(Unwanted(7));
            // The first reason stays.
            token.cancel_with(Unwanted(8));
            let cancelled = waits.join().unwrap().unwrap_err();
            assert_eq!((order(&cancelled), cancelled.timed_out()), (7, false));
            assert_eq!(cancelled.to_string(), "cancelled: order 7 is not wanted any more");
            place.put(1).unwrap();
            assert_eq!(waits_too.join().unwrap(), Ok(1));
        });
        assert!(token.is_cancelled() && !is_cancelled() && check().is_ok());
        // Late comers are cancelled, whatever they would wait for.
        place.put(1).unwrap();
        assert_eq!(order(&token.run(|| place.take()).unwrap_err()), 7);
        assert_eq!(place.try_take(), Some(1));
    });
}

#[test]
fn a_reason_passes_through_scopes_shields_and_deadlines() {
    everywhere(|| {
        let (token, begun, seen) = (CancelToken::new(), Latch::new(3), AtomicUsize::new(0));
        scope(|s| {
            s.spawn(|| {
                token.run(|| {
                    scope(|inner| {
                        for _ in 0..3 {
                            inner.spawn(|| {
                                begun.count_down(1);
                                // The longer limit does not show.
                                let ended = timeout(HOUR, || after(Duration::MAX).wait()).unwrap_err();
                                assert_eq!(order(&ended), 3);
                                shield(|| {
                                    assert!(!is_cancelled() && sleep(Duration::from_nanos(1)).is_ok());
                                    // A deadline inside of a shield is the only one that shows.
                                    assert!(timeout(MILLI, || sleep(HOUR)).is_err_and(|inner| inner.timed_out()));
                                });
                                assert_eq!(order(&check().unwrap_err()), 3);
                                seen.fetch_add(1, SeqCst);
                            });
                        }
                    });
                    // Also those that are started late: whatever runs of them sees it.
                    scope(|late| {
                        late.spawn(|| assert_eq!(order(&check().unwrap_err()), 3));
                    });
                });
                check().unwrap();
            });
            begun.wait().unwrap();
            token.cancel_with(Unwanted(3));
        });
        assert_eq!(seen.into_inner(), 3);
    });
}

#[test]
fn a_reason_passes_through_joins() {
    everywhere(|| {
        let (token, endless) = (CancelToken::new(), CancelToken::new());
        scope(|s| {
            let stays = s.spawn(|| endless.run(|| after(Duration::MAX).wait()));
            let joins = s.spawn(|| token.run(move || stays.join()));
            let _ = yield_now();
            token.cancel_with(Unwanted(4));
            match joins.join().unwrap() {
                Err(JoinError::WaitCancelled(cancelled, _)) => assert_eq!(order(&cancelled), 4),
                other => unreachable!("{other:?}"),
            }
            endless.cancel_with(Unwanted(5));
        });
    });
}

#[test]
fn a_reason_passes_into_a_pool_and_out_of_it() {
    let other = pool(1);
    let body = || {
        let (token, here) = (CancelToken::new(), MVar::empty());
        scope(|s| {
            let runs = s.spawn(|| {
                token.run(|| {
                    let inside = other.run(|| {
                        here.put(()).unwrap();
                        let ended = after(Duration::MAX).wait().unwrap_err();
                        (order(&ended), order(&scope(|_| check()).unwrap_err()))
                    });
                    // It had begun, so what it returns is returned; the next one does not begin.
                    assert_eq!(inside, Ok((6, 6)));
                    let refused: Result<(), _> = other.run(|| unreachable!("the caller is cancelled"));
                    assert_eq!(order(&refused.unwrap_err()), 6);
                    assert_eq!(other.call(|| order(&check().unwrap_err())), 6);
                    assert_eq!(shield(|| other.run(|| sleep(Duration::from_nanos(1)))), Ok(Ok(())));
                });
            });
            here.take().unwrap();
            token.cancel_with(Unwanted(6));
            runs.join().unwrap();
        });
    };
    // Not in the simulator, whose world is closed.
    for workers in [1, 2] {
        pool(workers).run(body).unwrap();
        segue::runtime().workers(workers).run(body).unwrap();
    }
    body();
}

#[test]
fn a_token_cancels_from_any_thread_at_any_instant() {
    let outcomes: [AtomicUsize; 2] = Default::default();
    let (a, b) = (pool(2), pool(1));
    std::thread::scope(|t| {
        let (tokens, next) = std::sync::mpsc::channel::<CancelToken>();
        t.spawn(move || next.into_iter().for_each(|token| token.cancel_with(Unwanted(1))));
        for caller in 0..3 {
            let (tokens, outcomes, a, b) = (tokens.clone(), &outcomes, &a, &b);
            let body = move || {
                for round in 0..500 {
                    let (token, place) = (CancelToken::new(), MVar::empty());
                    if round % 3 == 0 {
                        place.put(round).unwrap();
                    }
                    tokens.send(token.clone()).unwrap();
                    match token.run(|| place.take()) {
                        Ok(value) => {
                            assert_eq!(value, round);
                            outcomes[0].fetch_add(1, SeqCst);
                        }
                        Err(cancelled) => {
                            assert_eq!((order(&cancelled), place.into_inner()), (1, (round % 3 == 0).then_some(round)));
                            outcomes[1].fetch_add(1, SeqCst);
                        }
                    }
                }
            };
            t.spawn(move || match caller {
                0 => a.run(body).unwrap(),
                1 => b.run(body).unwrap(),
                _ => body(),
            });
        }
    });
    assert!(outcomes[1].load(SeqCst) >= 1000, "{outcomes:?}");
}

#[test]
fn a_fiber_that_was_cancelled_before_it_began_says_so() {
    simulated(20, |_| {
        let ran = AtomicUsize::new(0);
        let handles = scope(|s| {
            s.token().cancel_with(Unwanted(2));
            let handles: Vec<_> = (0..4).map(|_| s.spawn(|| ran.fetch_add(1, SeqCst))).collect();
            shield(|| handles.into_iter().map(|handle| handle.join()).collect::<Vec<_>>())
        });
        for joined in handles {
            match joined {
                Err(JoinError::NeverRan(cancelled)) => assert_eq!(order(&cancelled), 2),
                other => unreachable!("{other:?}"),
            }
        }
        assert_eq!(ran.into_inner(), 0);
    });
}

#[test]
fn cleanup_waits_after_a_panic_and_an_innocent_fiber_keeps_its_lock_whole() {
    everywhere(|| {
        let (innocent, cleaned, meanwhile) = (std::sync::Mutex::new(0), AtomicUsize::new(0), Notify::new());
        scope(|s| {
            let panics = s.spawn(|| {
                catch_unwind(AssertUnwindSafe(|| {
                    finally(
                        || std::panic::panic_any(Unwanted(9)),
                        || {
                            assert!(!std::thread::panicking());
                            // Waits really: for the other fiber, and for time.
                            meanwhile.wait().unwrap();
                            sleep(Duration::from_nanos(1)).unwrap();
                            cleaned.fetch_add(1, SeqCst);
                        },
                    );
                }))
            });
            for _ in 0..20 {
                *innocent.lock().unwrap() += 1;
                assert!(!std::thread::panicking());
                yield_now().unwrap();
            }
            assert_eq!(cleaned.load(SeqCst), 0);
            meanwhile.notify_one();
            let payload = panics.join().unwrap().unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&Unwanted(9)));
        });
        assert_eq!((cleaned.into_inner(), innocent.into_inner().unwrap()), (1, 20));
    });
}

#[test]
fn cleanup_is_shielded_and_the_outcome_of_the_body_is_kept() {
    everywhere(|| {
        let log = std::sync::Mutex::new(Vec::new());
        let note = |what: &'static str| log.lock().unwrap().push(what);
        let token = CancelToken::new();
        scope(|s| {
            let waits = s.spawn(|| {
                token.run(|| {
                    finally(
                        || {
                            finally(
                                || after(Duration::MAX).wait(),
                                || {
                                    assert!(sleep(Duration::from_nanos(1)).is_ok());
                                    note("inner");
                                },
                            )
                        },
                        || {
                            assert!(yield_now().is_ok() && !is_cancelled());
                            note("outer");
                        },
                    )
                })
            });
            let _ = yield_now();
            token.cancel_with(Unwanted(1));
            assert_eq!(order(&waits.join().unwrap().unwrap_err()), 1);
        });
        assert_eq!(log.into_inner().unwrap(), ["inner", "outer"]);
        // The cleanup panics: alone, and after the body.
        let planted = |n| -> () { std::panic::panic_any(Unwanted(n)) };
        let caught =
            |body: &dyn Fn()| catch_unwind(AssertUnwindSafe(body)).unwrap_err().downcast::<Unwanted>().unwrap().0;
        assert_eq!(caught(&|| finally(|| (), || planted(1))), 1);
        assert_eq!(caught(&|| finally(|| planted(2), || planted(3))), 2);
    });
}

#[test]
fn detached_fibers_are_not_cancelled_with_their_spawner() {
    for workers in [1, 2] {
        pool(workers)
            .run(|| {
                let token = CancelToken::new();
                let detached = token.run(|| {
                    token.cancel();
                    spawn(|| sleep(Duration::from_nanos(1)))
                });
                assert!(matches!(detached.join(), Ok(Ok(()))));
            })
            .unwrap();
    }
}
