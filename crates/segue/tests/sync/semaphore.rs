//! Semaphores: how many may go on, in which order, and that no permit is lost or doubled whoever
//! leaves when.

use crate::meet;

use meet::{block_on, everywhere, poll_once, pool, simulated, task};
use segue::sync::{Permit, Semaphore};
use segue::{CancelToken, Cancelled, scope, shield, timeout, yield_now};
use segue::{Closed, WaitError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn permits_are_taken_split_merged_forgotten_and_given_back() {
    static SEMAPHORE: Semaphore = Semaphore::new(5);
    let mut many = SEMAPHORE.acquire_many(4).unwrap();
    let one = many.split(1).unwrap();
    assert!(many.split(4).is_none());
    assert_eq!((many.count(), one.count(), SEMAPHORE.available_permits()), (3, 1, 1));
    assert!(SEMAPHORE.try_acquire_many(2).is_none());
    many.merge(one);
    drop(many);
    assert_eq!(SEMAPHORE.available_permits(), 5);
    SEMAPHORE.acquire_many(2).unwrap().forget();
    assert_eq!(SEMAPHORE.available_permits(), 3);
    SEMAPHORE.add_permits(2);
    assert_eq!(SEMAPHORE.try_acquire_many(5).map(|all| all.count()), Some(5));
    assert_eq!(SEMAPHORE.acquire_many(0).unwrap().count(), 0);

    let shared = Arc::new(Semaphore::new(3));
    let mut owned = shared.acquire_many(3).unwrap().into_owned(&shared);
    assert!(shared.try_acquire().is_none());
    let part = owned.split(2).unwrap();
    let thread = std::thread::spawn(move || drop(part));
    thread.join().unwrap();
    assert_eq!(shared.available_permits(), 2);
    owned.merge(block_on(shared.acquire_source()).unwrap().into_owned(&shared));
    assert_eq!((owned.count(), shared.available_permits()), (2, 1));
    owned.forget();
    assert_eq!(shared.available_permits(), 1);
    let last = shared.try_acquire().unwrap().into_owned(&shared);
    assert!(shared.try_acquire().is_none());
    std::thread::spawn(move || drop(last)).join().unwrap();
    assert_eq!(shared.try_acquire().map(|one| one.count()), Some(1));
}

#[test]
fn too_many_permits_and_strangers_are_refused() {
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| drop(Semaphore::new(usize::MAX))));
    let (full, other) = (Semaphore::new(Semaphore::MAX_PERMITS), Arc::new(Semaphore::new(1)));
    assert!(panics(&|| full.add_permits(1)));
    assert!(panics(&|| drop(full.acquire_many(usize::MAX))));
    assert!(panics(&|| drop(full.try_acquire().unwrap().into_owned(&other))));
    assert!(panics(&|| full.try_acquire().unwrap().merge(other.try_acquire().unwrap())));
    assert_eq!((full.available_permits(), other.available_permits()), (Semaphore::MAX_PERMITS, 1));
}

#[test]
fn no_more_go_on_than_there_are_permits() {
    everywhere(|| {
        let (semaphore, inside, most) = (Semaphore::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..8 {
                let (semaphore, inside, most) = (&semaphore, &inside, &most);
                s.spawn(move || {
                    for round in 0..20 {
                        let count = 1 + (n + round) % 3;
                        let permit = semaphore.acquire_many(count).unwrap();
                        most.fetch_max(inside.fetch_add(count, SeqCst) + count, SeqCst);
                        let _ = yield_now();
                        inside.fetch_sub(count, SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        assert!(most.into_inner() <= 3);
        assert_eq!(semaphore.available_permits(), 3);
    });
}

#[test]
fn those_who_wait_are_served_in_the_order_of_their_arrival_and_nobody_overtakes() {
    everywhere(|| {
        let semaphore = Semaphore::new(2);
        let mut all = semaphore.acquire_many(2).unwrap();
        // Tasks join the queue when they are polled, so their order is known.
        let mut tasks = [1, 2, 1, 1].map(|count| Some(task(semaphore.acquire_many_source(count))));
        let mut granted = [const { None }; 4];
        macro_rules! go_on {
            () => {{
                for (task, granted) in tasks.iter_mut().zip(&mut granted) {
                    if let Some(permit) = task.as_mut().and_then(poll_once).map(Result::unwrap) {
                        *granted = Some(permit);
                        *task = None;
                    }
                }
                granted.each_ref().map(|permit: &Option<Permit>| permit.is_some())
            }};
        }
        assert_eq!(go_on!(), [false; 4]);
        drop(all.split(1));
        assert_eq!(go_on!(), [true, false, false, false]);
        // One is free, but the second wants two, and so nobody behind it goes on, and no newcomer.
        granted[0] = None;
        assert_eq!(go_on!(), [false; 4]);
        assert_eq!((semaphore.available_permits(), semaphore.try_acquire().is_none()), (1, true));
        drop(all);
        assert_eq!(go_on!(), [false, true, false, false]);
        granted[1] = None;
        assert_eq!(go_on!(), [false, false, true, true]);
        drop(granted);
        assert_eq!(semaphore.available_permits(), 2);
    });
}

#[test]
fn a_large_request_is_not_starved_by_small_ones() {
    everywhere(|| {
        let (semaphore, done) = (Semaphore::new(4), AtomicUsize::new(0));
        scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    while done.load(SeqCst) == 0 {
                        let permit = semaphore.acquire().unwrap();
                        let _ = yield_now();
                        drop(permit);
                    }
                });
            }
            s.spawn(|| {
                let _ = yield_now();
                drop(semaphore.acquire_many(4).unwrap());
                done.store(1, SeqCst);
            });
        });
        assert_eq!(semaphore.available_permits(), 4);
    });
}

#[test]
fn when_the_first_in_line_leaves_those_behind_go_on() {
    everywhere(|| {
        let semaphore = Semaphore::new(1);
        let mut large = task(semaphore.acquire_many_source(2));
        assert!(poll_once(&mut large).is_none());
        let mut small = task(semaphore.acquire_source());
        assert!(poll_once(&mut small).is_none());
        drop(large);
        assert!(poll_once(&mut small).is_some());
        assert_eq!(semaphore.available_permits(), 1);
        // The same for a fiber whose time is over, and the bit is mended.
        let cancelled = timeout(Duration::from_millis(1), || semaphore.acquire_many(2).map(drop));
        assert!(cancelled.is_err_and(|cancelled| cancelled.timed_out()));
        assert!(semaphore.try_acquire().is_some() && semaphore.acquire().is_ok());
    });
}

#[test]
fn conservation_a_task_that_was_served_and_is_dropped_gives_back() {
    let semaphore = Semaphore::new(0);
    let (mut first, mut second) = (task(semaphore.acquire_many_source(2)), task(semaphore.acquire_source()));
    assert!(poll_once(&mut first).is_none() && poll_once(&mut second).is_none());
    semaphore.add_permits(2);
    assert_eq!(semaphore.available_permits(), 0, "the first has them");
    drop(first);
    let permit = poll_once(&mut second).expect("it was next").unwrap();
    assert_eq!(semaphore.available_permits(), 1);
    drop(permit);
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn conservation_whoever_is_cancelled_at_whichever_step() {
    let (got, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(400, |seed| {
        let semaphore = Semaphore::new(2);
        scope(|s| {
            for n in 0..6 {
                let (semaphore, got, cancelled) = (&semaphore, &got, &cancelled);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| {
                        for _ in 0..3 {
                            match semaphore.acquire_many(1 + (n + seed as usize) % 2) {
                                Ok(_permit) => {
                                    got.fetch_add(1, SeqCst);
                                    let _ = yield_now();
                                }
                                Err(_) => {
                                    cancelled.fetch_add(1, SeqCst);
                                    assert!(semaphore.acquire().is_err(), "cancellation sticks");
                                }
                            }
                        }
                    });
                });
                if n % 2 == 0 {
                    s.spawn(move || {
                        for _ in 0..seed % 7 {
                            let _ = yield_now();
                        }
                        canceller.cancel();
                    });
                }
            }
        });
        assert_eq!(semaphore.available_permits(), 2);
        assert!(semaphore.try_acquire_many(2).is_some());
    });
    assert!(got.into_inner() > 100 && cancelled.into_inner() > 100);
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_and_dropped_tasks() {
    const PERMITS: usize = 3;
    let (inside, semaphore) = (AtomicUsize::new(0), Semaphore::new(PERMITS));
    let outcomes: [AtomicUsize; 4] = Default::default();
    let enter = |permit: Permit| {
        assert!(inside.fetch_add(permit.count(), SeqCst) + permit.count() <= PERMITS);
        std::hint::spin_loop();
        inside.fetch_sub(permit.count(), SeqCst);
    };
    std::thread::scope(|t| {
        for workers in [1, 2] {
            let (semaphore, outcomes, enter) = (&semaphore, &outcomes, &enter);
            t.spawn(move || {
                pool(workers).run(|| {
                    for round in 0..2000 {
                        scope(|s| {
                            let inner = scope(|_| CancelToken::new());
                            let token = inner.clone();
                            let waits = s.spawn(move || {
                                token.run(|| match semaphore.acquire_many(1 + round % PERMITS) {
                                    Ok(permit) => {
                                        enter(permit);
                                        outcomes[0].fetch_add(1, SeqCst);
                                    }
                                    Err(_) => drop(outcomes[1].fetch_add(1, SeqCst)),
                                });
                            });
                            if round % 2 == 0 {
                                let _ = yield_now();
                            }
                            if round % 3 != 0 {
                                inner.cancel();
                            }
                            shield(|| waits.join()).unwrap();
                        });
                    }
                })
            });
        }
        t.spawn(|| {
            for round in 0..4000 {
                let mut waits = task(semaphore.acquire_many_source(1 + round % PERMITS));
                for _ in 0..round % 5 {
                    if let Some(permit) = poll_once(&mut waits).map(Result::unwrap) {
                        enter(permit);
                        outcomes[2].fetch_add(1, SeqCst);
                        break;
                    }
                    std::thread::yield_now();
                }
                drop(waits);
            }
        });
        t.spawn(|| {
            for round in 0..4000 {
                enter(block_on(semaphore.acquire_many_source(1 + round % PERMITS)).unwrap());
                outcomes[3].fetch_add(1, SeqCst);
            }
        });
    });
    assert_eq!(semaphore.available_permits(), PERMITS);
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
}

#[test]
fn a_closed_semaphore_tells_all_who_wait_and_all_who_come() {
    everywhere(|| {
        let semaphore = Arc::new(Semaphore::new(1));
        let out = semaphore.acquire().unwrap();
        let mut tasks = [1, 2, 0].map(|count| task(semaphore.acquire_many_source(count)));
        assert!(tasks.iter_mut().all(|task| poll_once(task).is_none()));
        let waiting = AtomicUsize::new(0);
        scope(|s| {
            let acquire = || {
                waiting.fetch_add(1, SeqCst);
                semaphore.acquire_many(2).map(drop)
            };
            let handles = [(); 30].map(|()| s.spawn(acquire));
            while waiting.load(SeqCst) < handles.len() {
                yield_now().unwrap();
            }
            assert!(!semaphore.is_closed());
            semaphore.close();
            assert!(semaphore.is_closed());
            handles.into_iter().for_each(|handle| assert_eq!(handle.join().unwrap(), Err(WaitError::Closed)));
        });
        for mut task in tasks {
            assert_eq!(poll_once(&mut task).map(|closed| closed.map(drop)), Some(Err(Closed)));
        }
        // Permits come back, and nobody has them.
        drop(out);
        semaphore.add_permits(3);
        assert_eq!(semaphore.available_permits(), 4);
        assert!(semaphore.try_acquire().is_none() && semaphore.try_acquire_many(0).is_none());
        assert_eq!(semaphore.acquire_many(0).map(drop), Err(WaitError::Closed));
        assert_eq!(semaphore.acquire().map(|permit| drop(permit.into_owned(&semaphore))), Err(WaitError::Closed));
        assert_eq!(block_on(semaphore.acquire_source()).map(drop), Err(Closed));
        semaphore.close();
        // A cancelled caller is told of that.
        let token = CancelToken::new();
        token.cancel();
        assert!(matches!(token.run(|| semaphore.acquire().map(drop)), Err(WaitError::Cancelled(_))));
    });
}

#[test]
fn what_was_handed_over_before_the_close_is_kept_or_comes_back() {
    let semaphore = Semaphore::new(0);
    let [mut kept, mut dropped, mut late] = [(); 3].map(|()| task(semaphore.acquire_source()));
    assert!([&mut kept, &mut dropped, &mut late].map(poll_once).iter().all(Option::is_none));
    semaphore.add_permits(2);
    semaphore.close();
    drop(dropped);
    assert_eq!(semaphore.available_permits(), 1, "of the one that was dropped");
    assert_eq!(poll_once(&mut late).map(|closed| closed.map(drop)), Some(Err(Closed)));
    let permit = poll_once(&mut kept).unwrap().expect("it was served first");
    drop(permit);
    assert_eq!(semaphore.available_permits(), 2);
    // One that was told, and is dropped before it looks, has nothing to give back.
    let other = Semaphore::new(0);
    let mut told = task(other.acquire_source());
    assert!(poll_once(&mut told).is_none());
    other.close();
    drop(told);
    assert_eq!(other.available_permits(), 0);
}

#[test]
fn a_closed_semaphore_is_the_reason_of_what_it_becomes() {
    let semaphore = Semaphore::new(1);
    semaphore.close();
    let cancelled = || -> Result<(), Cancelled> {
        let _permit = semaphore.acquire()?;
        Ok(())
    };
    assert!(cancelled().unwrap_err().reason().unwrap().is::<Closed>());
    let io = || -> std::io::Result<()> {
        let _permit = semaphore.acquire()?;
        Ok(())
    };
    let error = io().unwrap_err();
    assert!(error.kind() == std::io::ErrorKind::BrokenPipe && Cancelled::from_io(&error).is_none());
    assert_eq!(WaitError::Closed.to_string(), Closed.to_string());
}

#[test]
fn conservation_whoever_closes_at_whichever_step() {
    let (got, closed, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(400, |seed| {
        let (semaphore, token) = (Semaphore::new(2), CancelToken::new());
        scope(|s| {
            for n in 0..6 {
                let (semaphore, got, closed, cancelled) = (&semaphore, &got, &closed, &cancelled);
                let token = if n == 0 { token.clone() } else { CancelToken::new() };
                s.spawn(move || {
                    token.run(|| {
                        for _ in 0..4 {
                            let late = semaphore.is_closed();
                            match semaphore.acquire_many(1 + (n + seed as usize) % 2) {
                                Ok(_permit) => {
                                    assert!(!late, "a permit of a closed semaphore");
                                    got.fetch_add(1, SeqCst);
                                    let _ = yield_now();
                                }
                                Err(WaitError::Closed) => {
                                    assert!(semaphore.is_closed());
                                    closed.fetch_add(1, SeqCst);
                                }
                                Err(WaitError::Cancelled(_)) => drop(cancelled.fetch_add(1, SeqCst)),
                            }
                        }
                    });
                });
            }
            for _ in 0..seed % 9 {
                let _ = yield_now();
            }
            if seed % 2 == 0 {
                token.cancel();
            }
            semaphore.close();
        });
        assert_eq!((semaphore.available_permits(), semaphore.try_acquire().is_none()), (2, true));
    });
    assert!([got, closed, cancelled].map(AtomicUsize::into_inner).iter().all(|count| *count > 100));
}

#[test]
fn conservation_on_threads_that_close() {
    let (got, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let pool = pool(2);
    for round in 0..500 {
        let semaphore = Semaphore::new(2);
        let acquire = |count: usize| match semaphore.acquire_many(count) {
            Ok(_permit) => drop(got.fetch_add(1, SeqCst)),
            Err(error) => {
                assert_eq!(error, WaitError::Closed);
                closed.fetch_add(1, SeqCst);
            }
        };
        std::thread::scope(|t| {
            t.spawn(|| (0..20).for_each(|n| acquire(1 + n % 2)));
            t.spawn(|| pool.run(|| scope(|s| (0..20).for_each(|n| drop(s.spawn(move || acquire(1 + n % 2)))))));
            t.spawn(|| {
                (0..20).for_each(|_| drop(block_on(semaphore.acquire_source())));
                (0..round % 50).for_each(|_| std::hint::spin_loop());
                semaphore.close();
            });
        });
        assert_eq!(semaphore.available_permits(), 2);
    }
    assert!(got.into_inner() > 100 && closed.into_inner() > 100);
}
