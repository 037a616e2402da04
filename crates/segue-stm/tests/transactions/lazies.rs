//! Bodies that need a value which somebody else computes (papers/002, 6.5).
use crate::common::{Wakes, alone};
use segue::sync::{Entry, ForceError, Lazy, OnceCell, promise};
use segue::testing::{Sim, settle};
use segue::{Builder, Either, after};
use segue_stm::{Stop, TVar, Tx, atomically, outside, transaction};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Whoever has called `entry` on an empty cell initialises the cell.
fn begun<T>(cell: &OnceCell<T>) -> segue::sync::Initializer<'_, T> {
    match cell.entry() {
        Ok(Entry::Empty(initializer)) => initializer,
        _ => panic!("the cell is empty"),
    }
}

/// Adds the value of the cell, which is 7 if the body has to initialise the cell.
fn add<'a>(cell: &'a OnceCell<u32>, sum: &'a TVar<u32>) -> impl for<'t> Fn(&Tx<'t>) -> Result<u32, Stop> + 'a {
    |tx| {
        tx.modify(sum, |sum| sum + 100)?;
        let value = *cell.get_or_init(|| 7)?;
        tx.modify(sum, |sum| sum - 100 + value)?;
        tx.read(sum).copied()
    }
}

#[test]
fn a_body_waits_for_an_initialiser_that_another_fiber_of_its_worker_runs() {
    let _alone = alone();
    let (sum, attempts) = (TVar::new(1), AtomicUsize::new(0));
    let run = Sim::new(1).run(|| {
        let (go, goes) = promise();
        let lazy = Lazy::new(|| *goes.wait().unwrap());
        segue::scope(|s| {
            let initialises = s.spawn(|| *lazy.force().unwrap());
            settle().unwrap();
            let waits = s.spawn(|| {
                atomically(|tx| {
                    attempts.fetch_add(1, SeqCst);
                    tx.write(&sum, 100)?;
                    tx.write(&sum, *lazy.force()?)
                })
            });
            settle().unwrap();
            assert_eq!((attempts.load(SeqCst), sum.get()), (1, 1), "it is undone, and waits");
            let _ = go.fill(7);
            assert_eq!((initialises.join().unwrap(), waits.join().unwrap()), (7, Ok(())));
        });
    });
    run.unwrap_or_else(|deadlock| panic!("{deadlock}"));
    assert_eq!((attempts.load(SeqCst), sum.get()), (2, 7));
}

/// The initialiser needs what the transaction in turn would hold if it waited in place.
#[test]
fn a_body_in_turn_lets_go_of_its_turn_while_a_thread_initialises() {
    let _alone = alone();
    let (counter, attempts, begun) = (TVar::new(0), AtomicUsize::new(0), Barrier::new(2));
    let lazy = Lazy::new(|| {
        begun.wait();
        while attempts.load(SeqCst) < 17 {
            std::thread::yield_now();
        }
        atomically(|tx| tx.modify(&counter, |n| n + 100)).unwrap();
        7
    });
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(lazy.force(), Ok(&7)));
        begun.wait();
        atomically(|tx| {
            let seen = *tx.read(&counter)?;
            if attempts.fetch_add(1, SeqCst) < 16 {
                std::thread::scope(|s| _ = s.spawn(|| counter.set(seen + 1).unwrap()));
                return tx.write(&counter, seen);
            }
            tx.write(&counter, seen + *lazy.force()?)
        })
        .unwrap();
    });
    assert_eq!(counter.get(), 16 + 100 + 7);
}

#[test]
fn a_task_waits_for_an_initialiser_and_is_woken_by_its_end_alone() {
    let _alone = alone();
    let (cell, other, third, sum) = (OnceCell::new(), OnceCell::new(), OnceCell::new(), TVar::new(0));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut task = Context::from_waker(&waker);
    let initializer = begun(&cell);
    let mut waits = pin!(transaction(add(&cell, &sum)).into_future());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    TVar::new(0).set(1).unwrap();
    assert_eq!(wakes.0.load(SeqCst), 0);
    // Nobody has looked at that cell in vain.
    other.set(1).unwrap();
    assert_eq!(wakes.0.load(SeqCst), 0);
    // Of a cell that somebody else has found busy: the body looks in vain, and waits again.
    let busy = begun(&third);
    assert!(third.try_entry().is_none());
    busy.fill(1);
    assert_eq!(wakes.0.load(SeqCst), 1);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    initializer.fill(5);
    assert_eq!(wakes.0.load(SeqCst), 2);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(5));
}

#[test]
fn a_change_of_what_the_body_has_read_wakes_it_too() {
    let _alone = alone();
    let (cell, needs) = (OnceCell::new(), TVar::new(true));
    let initializer = begun(&cell);
    let mut waits =
        pin!(transaction(|tx| if *tx.read(&needs)? { Ok(*cell.get_or_init(|| 7)?) } else { Ok(0) }).into_future());
    let mut task = Context::from_waker(Waker::noop());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    needs.set(false).unwrap();
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(0));
    initializer.fill(5);
}

#[test]
fn a_transaction_that_needs_a_value_is_an_arm_beside_others() {
    let _alone = alone();
    let (cell, sum) = (OnceCell::new(), TVar::new(0));
    let initializer = begun(&cell);
    let choose = || transaction(add(&cell, &sum)).or_else(after(Duration::from_millis(1))).wait().unwrap();
    assert!(matches!(choose(), Either::Right(())));
    assert_eq!(sum.get(), 0);
    std::thread::scope(|s| {
        s.spawn(|| initializer.fill(5));
        let patient = transaction(add(&cell, &sum)).or_else(after(Duration::MAX)).wait().unwrap();
        assert!(matches!(patient, Either::Left(5)));
    });
}

/// The need of a value is no `retry`: nobody else's branch is taken.
#[test]
fn a_branch_that_needs_a_value_waits_for_that_and_leaves_no_choice() {
    let _alone = alone();
    let (cell, sum, seconds) = (OnceCell::new(), TVar::new(0), Cell::new(0));
    let initializer = begun(&cell);
    let body = |tx: &Tx<'_>| {
        tx.or_else(
            |tx| tx.catch(|tx| add(&cell, &sum)(tx).map(Ok::<_, ()>)),
            |_| {
                seconds.set(seconds.get() + 1);
                Ok(Ok(0))
            },
        )
    };
    let mut waits = pin!(transaction(body).into_future());
    let mut task = Context::from_waker(Waker::noop());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    initializer.fill(5);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(Ok(5)));
    assert_eq!((seconds.get(), sum.get()), (0, 5));
}

#[test]
fn a_transaction_inside_waits_as_the_one_around() {
    let _alone = alone();
    let (cell, sum) = (OnceCell::new(), TVar::new(0));
    let initializer = begun(&cell);
    let body = |tx: &Tx<'_>| {
        tx.write(&sum, 10)?;
        Ok(atomically(add(&cell, &sum))?)
    };
    let mut waits = pin!(transaction(body).into_future());
    let mut task = Context::from_waker(Waker::noop());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    assert_eq!(sum.get(), 0);
    initializer.fill(5);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(15));
}

#[test]
fn after_an_initialiser_that_panics_or_gives_up_the_body_runs_its_own() {
    let _alone = alone();
    for panics in [false, true] {
        let (cell, sum) = (OnceCell::new(), TVar::new(0));
        let initializer = begun(&cell);
        let mut waits = pin!(transaction(add(&cell, &sum)).into_future());
        let mut task = Context::from_waker(Waker::noop());
        assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
        let end = || {
            let _given_up = initializer;
            if panics {
                std::panic::resume_unwind(Box::new("planned"));
            }
        };
        assert_eq!(catch_unwind(AssertUnwindSafe(end)).is_err(), panics);
        assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(7));
    }
}

/// The right is handed to a task in the queue of the cell; only when that task has gone is the cell
/// empty.
#[test]
fn a_right_that_comes_back_from_a_waiter_that_has_gone_wakes_the_body() {
    let _alone = alone();
    let (cell, sum) = (OnceCell::new(), TVar::new(0));
    let initializer = begun(&cell);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut task = Context::from_waker(&waker);
    let mut next = Box::pin(cell.get_or_init_source(|| 3).into_future());
    assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut waits = pin!(transaction(add(&cell, &sum)).into_future());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    drop(initializer);
    assert_eq!(wakes.0.load(SeqCst), 0, "somebody else has the right");
    drop(next);
    assert_eq!(wakes.0.load(SeqCst), 1);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(7));
}

#[test]
fn a_body_that_waits_for_an_initialiser_is_cancelled() {
    let _alone = alone();
    let (cell, sum) = (OnceCell::new(), TVar::new(0));
    let initializer = begun(&cell);
    let run = Sim::new(1).run(|| {
        segue::scope(|s| {
            let waits = Builder::new().cancellable().within(s).spawn(|| atomically(add(&cell, &sum)));
            settle().unwrap();
            waits.token().cancel();
            assert!(waits.join().is_ok_and(|outcome| outcome.is_err()));
        });
    });
    run.unwrap_or_else(|deadlock| panic!("{deadlock}"));
    initializer.fill(5);
    assert_eq!(sum.get(), 0);
    assert_eq!(atomically(add(&cell, &sum)), Ok(5));
}

#[test]
fn an_initialiser_whose_transaction_needs_its_own_value_is_told_so() {
    let _alone = alone();
    static KNOT: Lazy<Result<u32, String>> = Lazy::named("KNOT", || {
        atomically(|_| match KNOT.force()? {
            Ok(value) => Ok(*value),
            Err(_) => Ok(0),
        })
        .map_err(|error| error.to_string())
    });
    let said = KNOT.force().unwrap().clone().unwrap_err();
    assert!(said.contains("KNOT") && said.contains("its own initialiser"), "{said}");
}

#[test]
fn a_body_that_ignores_the_error_of_a_force_commits_nothing() {
    let _alone = alone();
    let (cell, sum, goes_on) = (OnceCell::new(), TVar::new(0), Cell::new(0));
    let initializer = begun(&cell);
    let body = |tx: &Tx<'_>| {
        let value = cell.get_or_init(|| 7);
        goes_on.set(goes_on.get() + 1);
        // Nothing is initialised on behalf of an attempt that is in vain.
        let other = OnceCell::new();
        assert_eq!(other.get_or_init(|| 1).is_err(), value.is_err());
        let _ = tx.write(&sum, value.map_or(100, |value| *value));
        Ok(())
    };
    let mut waits = pin!(transaction(body).into_future());
    let mut task = Context::from_waker(Waker::noop());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    assert_eq!((sum.get(), goes_on.get()), (0, 1));
    initializer.fill(5);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(()));
    assert_eq!(sum.get(), 5);
}

#[test]
fn an_initialiser_that_nobody_else_runs_runs_in_the_body() {
    let _alone = alone();
    let (cell, sum) = (OnceCell::new(), TVar::new(1));
    assert_eq!(atomically(add(&cell, &sum)), Ok(8));
    assert!(outside::look(|| Some(())).is_none());
    // One that would wait there is refused, as any wait.
    let waits = OnceCell::<u32>::new();
    let outcome = segue::run(|| {
        atomically(|_| -> Result<(), Stop> {
            match waits.get_or_try_init(|| segue::yield_now().map(|()| 1)) {
                Err(ForceError::Failed(refused)) => Err(refused.into()),
                other => panic!("{other:?}"),
            }
        })
    });
    assert!(outcome.unwrap_err().to_string().contains("`retry`"));
}

/// Initialisers that wait, are interrupted, give up or run in a body; transactions that need their
/// values: nobody is left waiting, and each value is made once.
#[test]
fn no_wake_up_of_a_body_is_lost_under_any_schedule() {
    let _alone = alone();
    let waited = AtomicUsize::new(0);
    for seed in 0..if cfg!(miri) { 5 } else { 500 } {
        let run = Sim::new(seed).preemptive().run(|| {
            let (cells, sum) = ([(); 2].map(|()| OnceCell::new()), TVar::new(0));
            let (made, attempts) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let make = || made.fetch_add(1, SeqCst) as u32 + 1;
            segue::scope(|s| {
                for cell in &cells {
                    s.spawn(|| {
                        // Fails at first, and only then has a value.
                        let fails = cell.get_or_try_init(|| segue::yield_now().map_err(drop).and(Err::<u32, ()>(())));
                        let _ = fails
                            .or_else(|_| cell.get_or_try_init(|| segue::yield_now().map(|()| make())).map_err(drop));
                    });
                }
                for _ in 0..3 {
                    s.spawn(|| {
                        atomically(|tx| {
                            attempts.fetch_add(1, SeqCst);
                            let before = *tx.read(&sum)?;
                            let values = *cells[0].get_or_init(make)? + *cells[1].get_or_init(make)?;
                            tx.write(&sum, before + values)
                        })
                        .unwrap();
                    });
                }
            });
            assert_eq!((made.load(SeqCst), sum.get()), (2, 3 * 3));
            waited.fetch_add(attempts.load(SeqCst) - 3, SeqCst);
        });
        run.unwrap_or_else(|deadlock| panic!("seed {seed}: {deadlock}"));
    }
    assert!(waited.load(SeqCst) > 0);
}

/// On threads: each makes a cell and needs that of the other, over and over.
#[test]
fn threads_meet_at_cells_many_times_over() {
    let _alone = alone();
    let rounds: Vec<_> = (0..if cfg!(miri) { 10 } else { 2_000 }).map(|_| (OnceCell::new(), TVar::new(0))).collect();
    let barrier = Barrier::new(2);
    let seen = Mutex::new(0);
    std::thread::scope(|s| {
        for me in 0..2 {
            let (rounds, barrier, seen) = (&rounds, &barrier, &seen);
            s.spawn(move || {
                for (round, (cell, sum)) in rounds.iter().enumerate() {
                    barrier.wait();
                    if (round + me) % 2 == 0 {
                        cell.get_or_init(|| (0..round % 50).map(|_| std::hint::spin_loop()).count()).unwrap();
                    }
                    atomically(|tx| {
                        let value = *cell.get_or_init(|| round % 50)?;
                        tx.modify(sum, |sum| sum + value)
                    })
                    .unwrap();
                    *seen.lock().unwrap() += 1;
                }
            });
        }
    });
    assert_eq!(*seen.lock().unwrap(), 2 * rounds.len());
    assert!(rounds.iter().enumerate().all(|(round, (_, sum))| sum.get() == 2 * (round % 50)));
}

/// The body gives up the right to the second lazy each time, and is not to tell itself.
#[test]
fn a_lazy_of_a_lazy_that_is_being_made_is_waited_for() {
    let _alone = alone();
    let first = OnceCell::new();
    let initializer = begun(&first);
    let second = Lazy::new(|| Ok::<u32, ForceError>(first.get_or_init(|| 7)? + 1));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut task = Context::from_waker(&waker);
    // Whatever the body makes of the error.
    let body = |_: &Tx<'_>| Ok(*second.force_fallible().unwrap_or(&0));
    let mut both = [(); 2].map(|()| Box::pin(transaction(body).into_future()));
    for _ in 0..2 {
        for waits in &mut both {
            assert!(waits.as_mut().poll(&mut task).is_pending());
        }
        assert_eq!(wakes.0.load(SeqCst), 0);
    }
    initializer.fill(5);
    for waits in &mut both {
        assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(6));
    }
}

#[test]
fn the_value_of_an_initialiser_in_a_body_that_begins_again_is_not_kept() {
    let _alone = alone();
    let first = OnceCell::new();
    let initializer = begun(&first);
    let second = Lazy::new(|| first.get_or_init(|| 7).map_or(0, |first| first + 1));
    let mut waits = pin!(transaction(|_: &Tx<'_>| Ok(*second.force()?)).into_future());
    let mut task = Context::from_waker(Waker::noop());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    assert_eq!(second.get(), None);
    initializer.fill(5);
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Ready(6));
}

/// Else the transaction could be undone, and the value stay.
#[test]
fn an_initialiser_that_runs_in_a_body_has_no_transaction() {
    let _alone = alone();
    let next = TVar::new(0);
    let take = || atomically(|tx| tx.modify(&next, |next| next + 1)).map_err(|error| error.to_string());
    let set = || next.set(1).map_err(|error| error.to_string());
    for initialise in [&take as &(dyn Fn() -> _ + Sync), &set] {
        next.set(0).unwrap();
        let lazy = Lazy::new(initialise);
        let outcome = atomically(|tx| {
            tx.write(&next, 5)?;
            Ok(lazy.force()?.clone())
        });
        assert!(outcome.unwrap_err().to_string().contains("force the cell before"));
        assert_eq!((next.get(), lazy.get()), (0, None));
        assert_eq!(lazy.force(), Ok(&Ok(())));
        assert_eq!(next.get(), 1);
        // The end of an initialiser ends that, also by a panic.
        let panics = OnceCell::new();
        let outcome = atomically(|tx| {
            let panicked = || panics.get_or_init(|| std::panic::resume_unwind(Box::new("planned"))).map(|()| 0);
            assert!(catch_unwind(AssertUnwindSafe(panicked)).is_err());
            OnceCell::new().get_or_init(|| 1)?;
            atomically(|tx| tx.modify(&next, |next| next + 1))?;
            tx.read(&next).copied()
        });
        assert_eq!(outcome, Ok(2));
    }
}
