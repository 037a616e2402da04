//! Conditions: no notification is lost between the unlock and the wait, or on a waiter that has
//! gone, and the guard comes back.

use crate::meet;

use meet::{block_on, everywhere, poll_once, pool, simulated, task};
use segue::cancel::shield_for;
use segue::sync::{Condvar, Mutex, MutexGuard};
use segue::{CancelToken, Cancelled, Either, after, scope, shield, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_waiter_sees_what_the_notifier_did() {
    everywhere(|| {
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        scope(|s| {
            for n in 0..4 {
                let (turn, changed) = (&turn, &changed);
                s.spawn(move || -> Result<(), Cancelled> {
                    for round in 0..10 {
                        let mut guard = changed.wait_while(turn.lock()?, |turn| *turn != 4 * round + n)?;
                        *guard += 1;
                        changed.notify_all();
                    }
                    Ok(())
                });
            }
        });
        assert_eq!(turn.into_inner(), 40);
    });
}

#[test]
fn a_bounded_buffer_of_fibers_loses_nothing() {
    everywhere(|| {
        let (items, filled, emptied) = (Mutex::new(Vec::new()), Condvar::new(), Condvar::new());
        let sum = AtomicUsize::new(0);
        scope(|s| {
            for n in 0..3 {
                let (items, filled, emptied, sum) = (&items, &filled, &emptied, &sum);
                s.spawn(move || -> Result<(), Cancelled> {
                    for k in 0..20 {
                        emptied.wait_while(items.lock()?, |items| items.len() == 2)?.push(n * 20 + k);
                        filled.notify_one();
                    }
                    Ok(())
                });
                s.spawn(move || -> Result<(), Cancelled> {
                    for _ in 0..20 {
                        let item = filled.wait_while(items.lock()?, |items| items.is_empty())?.pop();
                        emptied.notify_one();
                        sum.fetch_add(item.unwrap(), SeqCst);
                    }
                    Ok(())
                });
            }
        });
        assert_eq!(sum.into_inner(), (0..60).sum());
    });
}

#[test]
fn the_one_that_has_waited_longest_is_notified_first() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let mut waits = task(changed.wait_source(mutex.lock().unwrap()));
        assert!(poll_once(&mut waits).is_none());
        assert!(mutex.try_lock().is_some(), "the mutex is unlocked once it waits");
        tasks.push(waits);
    }
    for n in 0..3 {
        changed.notify_one();
        let woken: Vec<bool> = tasks.iter_mut().map(|task| poll_once(task).is_some()).collect();
        assert_eq!(woken, (0..tasks.len()).map(|k| k == 0).collect::<Vec<_>>(), "{n}");
        drop(tasks.remove(0));
    }
}

#[test]
fn a_cancelled_wait_gives_the_guard_back() {
    everywhere(|| {
        let (mutex, changed) = (Mutex::new(1), Condvar::new());
        let guard = mutex.lock().unwrap();
        let failed = timeout(Duration::from_millis(1), || {
            changed.wait(guard).map(drop).map_err(|error| {
                assert!(mutex.try_lock().is_none(), "it is locked again");
                assert!(error.error.timed_out() && error.to_string().contains("cancelled"));
                *error.value
            })
        });
        assert_eq!(failed, Err(1));
        // Cancelled before: it is not unlocked at all; and `?` drops the guard.
        let token = CancelToken::new();
        token.cancel();
        let guard = mutex.lock().unwrap();
        let failed: Result<u32, Cancelled> = token.run(|| Ok(*changed.wait(guard)?));
        assert!(failed.is_err() && mutex.try_lock().is_some());
    });
}

#[test]
fn a_cancelled_wait_waits_for_the_mutex() {
    everywhere(|| {
        let (mutex, changed, token) = (Mutex::new(0), Condvar::new(), CancelToken::new());
        scope(|s| {
            let waits = s.spawn(|| {
                token.run(|| match changed.wait_while(mutex.lock()?, |n| *n < 10) {
                    Ok(_) => Ok(0),
                    Err(error) => Ok(*error.value),
                })
            });
            let mut guard = mutex.lock().unwrap();
            token.cancel();
            let _ = yield_now();
            *guard = 1;
            drop(guard);
            // It was cancelled before it had the mutex, or it has it again after the change.
            assert!(matches!(waits.join().unwrap(), Ok(1) | Err(Cancelled { .. })));
        });
    });
}

#[test]
fn a_wait_that_the_budget_of_a_shield_ends_waits_for_the_mutex_too() {
    everywhere(|| {
        let (mutex, changed, holds) = (Mutex::new(0), Condvar::new(), AtomicUsize::new(0));
        scope(|s| {
            let waits = s.spawn(|| {
                shield_for(20 * MILLISECOND, || {
                    let guard = mutex.lock().unwrap();
                    holds.store(1, SeqCst);
                    *changed.wait(guard).expect_err("nobody notifies").value
                })
            });
            while holds.load(SeqCst) == 0 {
                yield_now().unwrap();
            }
            // When the budget is over the mutex is locked, and the waiter waits for it.
            let mut guard = mutex.lock().unwrap();
            after(30 * MILLISECOND).wait().unwrap();
            *guard = 1;
            drop(guard);
            // Or the budget was over before the wait had begun, on a machine that is busy.
            assert!(waits.join().unwrap() <= 1);
        });
    });
}

#[test]
fn a_wait_while_panicking_keeps_the_mutex_locked() {
    struct WaitsInDrop<'a>(&'a Mutex<u32>, &'a Condvar);
    impl Drop for WaitsInDrop<'_> {
        fn drop(&mut self) {
            let mut error = self.1.wait(self.0.lock().unwrap()).unwrap_err();
            *error.value += 1;
        }
    }
    let run = pool(1).run(|| {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _waits = WaitsInDrop(&mutex, &changed);
            std::panic::panic_any("planted");
        }));
        assert!(panicked.is_err());
        mutex.into_inner()
    });
    assert_eq!(run, Ok(1));
}

#[test]
fn a_wait_is_chosen_among_others() {
    everywhere(|| {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        let waits = changed.wait_source(mutex.lock().unwrap()).or(after(Duration::from_millis(1)));
        assert!(matches!(waits.wait(), Ok(Either::Right(()))));
        // The guard was given away.
        let guard = mutex.try_lock().unwrap();
        let busy = Mutex::new(());
        let held = busy.lock().unwrap();
        scope(|s| {
            s.spawn(|| {
                *mutex.lock().unwrap() += 1;
                changed.notify_all();
            });
            let waits = busy.lock_source().or(changed.wait_source(guard));
            assert!(matches!(waits.wait(), Ok(Either::Right(guard)) if *guard == 1));
        });
        drop(held);
    });
}

#[test]
fn a_wait_that_begins_anew_in_a_select_misses_nothing() {
    // The second arm seems ready when it is registered and is not when it is taken; meanwhile the
    // first has unlocked.
    let (mutex, changed, other) = (Mutex::new(0), Condvar::new(), Mutex::new(()));
    std::thread::scope(|t| {
        let other = &other;
        t.spawn(|| {
            for _ in 0..20_000 {
                drop(other.lock().unwrap());
            }
        });
        t.spawn(|| {
            for n in 1..=5_000 {
                let mut guard = block_on(mutex.lock_source());
                while *guard < n {
                    match changed.wait_source(guard).or(other.lock_source()).wait().unwrap() {
                        Either::Left(again) => guard = again,
                        Either::Right(_) => guard = mutex.lock().unwrap(),
                    }
                }
            }
        });
        t.spawn(|| {
            for _ in 0..5_000 {
                *mutex.lock().unwrap() += 1;
                changed.notify_one();
            }
        });
    });
    assert_eq!(mutex.into_inner(), 5_000);
}

#[test]
fn conservation_a_task_that_was_notified_and_is_dropped_passes_that_on() {
    let (mutex, changed) = (Mutex::new(()), Condvar::new());
    let wait = || {
        let mut waits = task(changed.wait_source(mutex.lock().unwrap()));
        assert!(poll_once(&mut waits).is_none());
        waits
    };
    // Before it has looked; while it waits for the mutex; when it was handed the mutex.
    for step in 0..4 {
        let (mut first, mut second) = (wait(), wait());
        changed.notify_one();
        if step > 0 {
            let held = mutex.lock().unwrap();
            assert!(poll_once(&mut first).is_none());
            if step == 1 {
                drop(first);
                drop(held);
            } else {
                drop(held);
                if step == 3 {
                    let barged = mutex.try_lock().unwrap();
                    assert!(poll_once(&mut first).is_none());
                    drop(barged);
                    assert!(mutex.try_lock().is_none());
                }
                drop(first);
            }
        } else {
            drop(first);
        }
        assert!(poll_once(&mut second).is_some(), "{step}");
        assert!(mutex.try_lock().is_some());
    }
    // One that is never polled has its guard still.
    let waits = task(changed.wait_source(mutex.lock().unwrap()));
    assert!(mutex.try_lock().is_none());
    drop(waits);
    assert!(mutex.try_lock().is_some());
}

/// As many notifications as waiters, some of whom are cancelled: those who stay get theirs.
#[test]
fn conservation_of_notifications_whoever_is_cancelled_at_whichever_step() {
    let (got, gone) = (AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(400, |seed| {
        // A count of tokens that are taken by those who are notified.
        let (tokens, changed) = (Mutex::new(0_usize), Condvar::new());
        let taken = AtomicUsize::new(0);
        scope(|s| {
            for n in 0..6 {
                let (tokens, changed, got, gone, taken) = (&tokens, &changed, &got, &gone, &taken);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| {
                        let Ok(guard) = tokens.lock() else { return };
                        match changed.wait_while(guard, |tokens| *tokens == 0) {
                            Ok(mut guard) => {
                                *guard -= 1;
                                taken.fetch_add(1, SeqCst);
                                got.fetch_add(1, SeqCst);
                            }
                            Err(error) => {
                                let _guard: MutexGuard<usize> = error.value;
                                gone.fetch_add(1, SeqCst);
                            }
                        }
                    });
                });
                if n % 2 == 0 {
                    s.spawn(move || {
                        for _ in 0..(seed + n) % 7 {
                            let _ = yield_now();
                        }
                        canceller.cancel();
                    });
                }
                s.spawn(move || {
                    for _ in 0..(seed + n) % 5 {
                        let _ = yield_now();
                    }
                    *tokens.lock().unwrap() += 1;
                    let _ = yield_now();
                    changed.notify_one();
                });
            }
        });
        // Otherwise somebody would still wait, and the simulator had reported a deadlock.
        assert_eq!(tokens.into_inner() + taken.into_inner(), 6);
    });
    assert!(got.into_inner() > 100 && gone.into_inner() > 100);
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_and_dropped_tasks() {
    const TOKENS: usize = 3000;
    let (tokens, changed, finished) = (Mutex::new(0_usize), Condvar::new(), AtomicUsize::new(0));
    let counts: [AtomicUsize; 5] = Default::default();
    let take = |mut guard: MutexGuard<usize>, n: usize| {
        *guard -= 1;
        drop(guard);
        finished.fetch_add(1, SeqCst);
        counts[n].fetch_add(1, SeqCst);
    };
    // Nobody takes all before the others have begun.
    let leaves_some = |mine: usize| {
        counts[mine].load(SeqCst) < TOKENS / 4 || [0, 2, 4].iter().all(|other| counts[*other].load(SeqCst) > 0)
    };
    std::thread::scope(|t| {
        let (tokens, changed, counts, take, finished) = (&tokens, &changed, &counts, &take, &finished);
        let leaves_some = &leaves_some;
        t.spawn(move || {
            pool(2).run(|| {
                for round in (0..).take_while(|_| finished.load(SeqCst) < TOKENS || counts[1].load(SeqCst) == 0) {
                    if !leaves_some(0) {
                        std::thread::yield_now();
                        continue;
                    }
                    scope(|s| {
                        let token = CancelToken::new();
                        let canceller = token.clone();
                        let waits = s.spawn(move || {
                            token.run(|| {
                                let Ok(guard) = tokens.lock() else { return };
                                match changed.wait_while(guard, |tokens| *tokens == 0) {
                                    Ok(guard) => take(guard, 0),
                                    Err(_) => drop(counts[1].fetch_add(1, SeqCst)),
                                }
                            });
                        });
                        for _ in 0..round % 4 {
                            let _ = yield_now();
                        }
                        canceller.cancel();
                        shield(|| waits.join()).unwrap();
                    });
                }
            })
        });
        t.spawn(move || {
            for round in (0..).take_while(|_| finished.load(SeqCst) < TOKENS) {
                if !leaves_some(2) {
                    std::thread::yield_now();
                    continue;
                }
                let mut waits = Box::pin(async {
                    let mut guard = tokens.lock_source().await;
                    while *guard == 0 {
                        guard = changed.wait_source(guard).await;
                    }
                    guard
                });
                for _ in 0..round % 5 {
                    if let Some(guard) = poll_once(&mut waits) {
                        take(guard, 2);
                        break;
                    }
                    std::thread::yield_now();
                }
                drop(waits);
                counts[3].fetch_add(1, SeqCst);
            }
        });
        // Whoever stays takes the rest; each token is announced once.
        t.spawn(move || {
            while finished.load(SeqCst) < TOKENS {
                if !leaves_some(4) {
                    std::thread::yield_now();
                    continue;
                }
                let guard = tokens.lock().unwrap();
                let waits = || changed.wait_while(guard, |tokens| *tokens == 0 && finished.load(SeqCst) < TOKENS);
                let guard = waits().unwrap();
                if *guard > 0 {
                    take(guard, 4);
                }
            }
        });
        t.spawn(move || {
            for _ in 0..TOKENS {
                *tokens.lock().unwrap() += 1;
                changed.notify_one();
                std::thread::yield_now();
            }
            while finished.load(SeqCst) < TOKENS {
                std::thread::yield_now();
            }
            // What is not changed under the mutex is announced after it was locked, or it falls
            // between a look and the wait.
            drop(tokens.lock());
            changed.notify_all();
        });
    });
    assert_eq!((tokens.into_inner(), finished.into_inner()), (0, TOKENS));
    let counts = counts.map(AtomicUsize::into_inner);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
