//! Mutexes: one at a time, nobody starves, and no lock or telling is lost whoever leaves when.

use crate::meet;

use meet::{block_on, everywhere, poll_once, pool, simulated, task};
use segue::sched::Fifo;
use segue::sync::{Condvar, Mutex, MutexGuard, Notify, Poison};
use segue::testing::Sim;
use segue::{CancelToken, Either, after, scope, shield, spawn, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn one_at_a_time() {
    everywhere(|| {
        let total = Mutex::new(0);
        scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for round in 0..30 {
                        let mut guard = total.lock().unwrap();
                        let seen = *guard;
                        if round % 3 == 0 {
                            let _ = yield_now();
                        }
                        *guard = seen + 1;
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 240);
    });
}

#[test]
fn it_has_the_shape_of_the_one_in_std() {
    static COUNT: Mutex<u32> = Mutex::new(1);
    *COUNT.lock().unwrap() += 1;
    let guard = COUNT.try_lock().unwrap();
    assert!(COUNT.try_lock().is_none() && std::ptr::eq(MutexGuard::mutex(&guard), &raw const COUNT));
    assert_eq!(format!("{COUNT:?} {guard:?} {guard}"), "Mutex { value: <locked> } 2 2");
    drop(guard);
    let mut mutex: Mutex<Vec<u8>> = Mutex::from(vec![1]);
    mutex.get_mut().push(2);
    let unsized_mutex: &Mutex<[u8]> = &Mutex::new([1, 2]);
    assert_eq!(unsized_mutex.lock().unwrap().len(), mutex.into_inner().len());
    assert_eq!(Mutex::<u8>::default().into_inner(), 0);
    fn is_send<T: Send>(_: T) {}
    fn is_sync<T: Sync>(_: &T) {}
    let guard = COUNT.lock().unwrap();
    is_sync(&guard);
    is_send(guard);
    is_send(COUNT.lock_source().into_future());
}

#[test]
fn a_guard_may_be_dropped_on_another_thread() {
    let mutex = Mutex::new(0);
    std::thread::scope(|t| {
        let guard = mutex.lock().unwrap();
        t.spawn(move || drop(guard));
        assert_eq!(*mutex.lock().unwrap(), 0);
    });
}

/// Whoever holds the mutex over and over must let a waiter in.
#[test]
fn a_waiter_is_overtaken_only_until_it_has_run_once() {
    everywhere(|| {
        let (mutex, done, overtaken) = (Mutex::new(()), AtomicBool::new(false), AtomicUsize::new(0));
        scope(|s| {
            s.spawn(|| {
                while !done.load(SeqCst) {
                    let guard = mutex.lock().unwrap();
                    let _ = yield_now();
                    overtaken.fetch_add(1, SeqCst);
                    drop(guard);
                }
            });
            s.spawn(|| {
                for _ in 0..5 {
                    let _ = yield_now();
                    drop(mutex.lock().unwrap());
                }
                done.store(true, SeqCst);
            });
        });
    });
    // The steps, by hand: told, overtaken, handed over.
    let mutex = Mutex::new(());
    let guard = mutex.lock().unwrap();
    let (mut first, mut second) = (task(mutex.lock_source()), task(mutex.lock_source()));
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    drop(guard);
    let barged = mutex.try_lock().expect("it is free for whoever comes first");
    assert!(poll_once(&mut first).is_none());
    drop(barged);
    assert!(mutex.try_lock().is_none(), "it was handed over");
    assert!(poll_once(&mut second).is_none());
    let guard = poll_once(&mut first).expect("it was handed over");
    drop(guard);
    assert!(poll_once(&mut second).is_some());
}

#[test]
fn a_cancelled_wait_leaves_the_mutex_usable() {
    everywhere(|| {
        let mutex = Mutex::new(0);
        let guard = mutex.lock().unwrap();
        let failed = timeout(Duration::from_millis(1), || mutex.lock().map(drop));
        assert!(failed.is_err_and(|cancelled| cancelled.timed_out()));
        drop(guard);
        let token = CancelToken::new();
        token.cancel();
        token.run(|| {
            assert!(mutex.lock().is_err(), "cancellation sticks");
            assert!(mutex.try_lock().is_some(), "and is ignored by what never waits");
        });
        assert!(mutex.lock().is_ok());
    });
}

#[test]
fn during_a_panic_a_free_mutex_is_locked_and_a_taken_one_refused() {
    struct LocksInDrop<'a>(&'a Mutex<u32>);
    impl Drop for LocksInDrop<'_> {
        fn drop(&mut self) {
            match self.0.lock() {
                Ok(mut guard) => *guard += 1,
                Err(_) => assert!(self.0.try_lock().is_none()),
            }
        }
    }
    let run = pool(1).run(|| {
        let (free, taken) = (Mutex::new(0), Mutex::new(0));
        let guard = taken.lock().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _locks = (LocksInDrop(&free), LocksInDrop(&taken));
            std::panic::panic_any("planted");
        }));
        drop(guard);
        assert!(panicked.is_err() && taken.try_lock().is_some());
        (free.into_inner(), taken.into_inner())
    });
    assert_eq!(run, Ok((1, 0)));
}

#[test]
fn a_panic_unlocks_and_marks_what_is_wrapped_in_poison() {
    everywhere(|| {
        let shared = Arc::new(Mutex::new(Poison::new(0)));
        let other = Arc::clone(&shared);
        let panicked = spawn(move || {
            let mut guard = other.lock().unwrap();
            *guard.change().unwrap() += 1;
            let _change = guard.change();
            std::panic::panic_any("planted");
        });
        assert!(panicked.join().is_err());
        let mut guard = shared.lock().unwrap();
        assert!(guard.is_poisoned() && guard.change().is_err() && guard.get().is_err());
        *guard.clear() = 5;
        assert_eq!(guard.get(), Ok(&5));
    });
}

#[test]
fn to_lock_twice_is_a_deadlock_that_is_reported() {
    let run = Sim::new(1).run(|| {
        let mutex = Mutex::new(());
        let _guard = mutex.lock();
        let _again = mutex.lock();
    });
    let report = run.unwrap_err().to_string();
    assert!(report.contains("waits for a mutex at ") && report.contains("mutex.rs:"), "{report}");
}

#[test]
fn conservation_a_task_that_was_told_or_handed_the_lock_and_is_dropped_passes_it_on() {
    // Told.
    let mutex = Mutex::new(());
    let guard = mutex.lock().unwrap();
    let mut tasks = [(); 3].map(|()| task(mutex.lock_source()));
    assert!(tasks.iter_mut().all(|task| poll_once(task).is_none()));
    drop(guard);
    let [first, mut second, third] = tasks;
    drop(first);
    // Overtaken, and then handed the lock.
    let barged = mutex.try_lock().unwrap();
    assert!(poll_once(&mut second).is_none());
    drop(barged);
    assert!(mutex.try_lock().is_none());
    drop(second);
    let mut third = third;
    assert!(poll_once(&mut third).is_some());
    // Overtaken, and dropped while it waits at the front.
    let guard = mutex.lock().unwrap();
    let mut tasks = [(); 2].map(|()| task(mutex.lock_source()));
    assert!(tasks.iter_mut().all(|task| poll_once(task).is_none()));
    drop(guard);
    let barged = mutex.try_lock().unwrap();
    let [mut first, mut second] = tasks;
    assert!(poll_once(&mut first).is_none());
    drop(first);
    drop(barged);
    assert!(mutex.try_lock().is_some(), "it was told, not handed over");
    assert!(poll_once(&mut second).is_some());
}

#[test]
fn conservation_a_select_that_was_told_attempts_there_first() {
    let (mutex, other) = (Mutex::new(1), Mutex::new(2));
    let (guard, held) = (mutex.lock().unwrap(), other.lock().unwrap());
    let mut select = task(other.lock_source().or(mutex.lock_source()));
    let mut waits = task(mutex.lock_source());
    assert!(poll_once(&mut select).is_none() && poll_once(&mut waits).is_none());
    // The right arm is told; before it looks, the left one is there as well. It must not be
    // forgotten that the right one was told.
    drop(guard);
    drop(held);
    assert!(matches!(poll_once(&mut select), Some(Either::Right(guard)) if *guard == 1));
    drop(select);
    assert!(poll_once(&mut waits).is_some(), "the telling was lost");
}

#[test]
fn conservation_a_lock_that_was_told_in_vain_and_is_not_chosen() {
    let (mutex, notify, changed) = (&Mutex::new(()), &Notify::new(), &Condvar::new());
    let lock = || mutex.lock_source().map(drop);
    let other = || notify.wait_source();
    let again = || changed.wait_source(mutex.try_lock().unwrap()).map(drop);
    let ways: [&(dyn Fn() + Sync); 8] = [
        &|| assert_eq!(lock().or(other()).wait(), Ok(Either::Right(()))),
        &|| assert_eq!(block_on(lock().or(other())), Either::Right(())),
        &|| assert_eq!(other().or(lock()).wait(), Ok(Either::Left(()))),
        &|| assert_eq!(block_on(other().or(lock())), Either::Left(())),
        &|| assert_eq!(other().or(after(MINUTE).or(lock())).wait(), Ok(Either::Left(()))),
        &|| assert_eq!(block_on(after(MINUTE).or(lock()).or(other())), Either::Right(())),
        // The second step of the wait for a condition is a lock.
        &|| assert_eq!(again().or(other()).wait(), Ok(Either::Right(()))),
        &|| assert_eq!(block_on(other().or(again())), Either::Left(())),
    ];
    let body = || {
        for (number, way) in ways.iter().enumerate() {
            println!("way {number}");
            scope(|s| {
                let guard = if number < 6 { Some(mutex.lock().unwrap()) } else { None };
                let chooses = s.spawn(way);
                let _ = yield_now();
                let guard = guard.unwrap_or_else(|| mutex.try_lock().expect("unlocked by the wait"));
                changed.notify_one();
                let _ = yield_now();
                let next = s.spawn(|| mutex.lock().map(drop));
                let _ = yield_now();
                drop(guard);
                let barged = mutex.try_lock().expect("the one that chooses is told, and the mutex is free");
                notify.notify_one();
                chooses.join().unwrap();
                drop(barged);
                next.join().unwrap().unwrap();
            });
            assert!(mutex.try_lock().is_some() && !notify.try_wait());
        }
    };
    // In turn, so that each is where it is to be.
    segue::sched::Runtime::new().workers(1).run_with(Fifo::default, body).unwrap();
}

#[test]
fn conservation_whoever_is_cancelled_at_whichever_step() {
    let (got, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(400, |seed| {
        let mutex = Mutex::new(0_u64);
        scope(|s| {
            for n in 0..6 {
                let (mutex, got, cancelled) = (&mutex, &got, &cancelled);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| {
                        for _ in 0..4 {
                            match mutex.lock() {
                                Ok(mut guard) => {
                                    let seen = *guard;
                                    let _ = yield_now();
                                    *guard = seen + 1;
                                    got.fetch_add(1, SeqCst);
                                }
                                Err(_) => drop(cancelled.fetch_add(1, SeqCst)),
                            }
                        }
                    });
                });
                if n % 2 == 0 {
                    s.spawn(move || {
                        for _ in 0..(seed + n) % 11 {
                            let _ = yield_now();
                        }
                        canceller.cancel();
                    });
                }
            }
        });
        assert!(mutex.try_lock().is_some());
    });
    assert!(got.into_inner() > 100 && cancelled.into_inner() > 100);
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_selects_and_dropped_tasks() {
    let (mutex, other) = (Mutex::new(0_usize), Mutex::new(()));
    let outcomes: [AtomicUsize; 6] = Default::default();
    let count = |n: usize| outcomes[n].fetch_add(1, SeqCst);
    std::thread::scope(|t| {
        for workers in [1, 2] {
            let (mutex, count) = (&mutex, &count);
            t.spawn(move || {
                pool(workers).run(|| {
                    for round in 0..3000 {
                        scope(|s| {
                            let token = CancelToken::new();
                            let canceller = token.clone();
                            let waits = s.spawn(move || {
                                token.run(|| match mutex.lock() {
                                    Ok(mut guard) => {
                                        *guard += 1;
                                        if round % 4 == 0 {
                                            let _ = yield_now();
                                        }
                                        count(0);
                                    }
                                    Err(_) => drop(count(1)),
                                });
                            });
                            if round % 2 == 0 {
                                let _ = yield_now();
                            }
                            if round % 3 != 0 {
                                canceller.cancel();
                            }
                            shield(|| waits.join()).unwrap();
                        });
                    }
                })
            });
        }
        t.spawn(|| {
            for round in 0..4000 {
                let mut waits = task(mutex.lock_source());
                for _ in 0..round % 5 {
                    if let Some(mut guard) = poll_once(&mut waits) {
                        *guard += 1;
                        count(2);
                        break;
                    }
                    std::thread::yield_now();
                }
            }
        });
        t.spawn(|| {
            for round in 0..4000 {
                let _busy = (round % 2 == 0).then(|| other.lock().unwrap());
                match block_on(other.lock_source().or(mutex.lock_source())) {
                    Either::Left(_) => drop(count(3)),
                    Either::Right(mut guard) => {
                        *guard += 1;
                        count(4);
                    }
                }
            }
        });
        for _ in 0..2 {
            t.spawn(|| {
                for _ in 0..4000 {
                    *mutex.lock().unwrap() += 1;
                    count(5);
                }
            });
        }
    });
    let counts = outcomes.map(AtomicUsize::into_inner);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(mutex.into_inner(), counts[0] + counts[2] + counts[4] + counts[5]);
}
