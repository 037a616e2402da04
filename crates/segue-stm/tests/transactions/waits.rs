//! `retry`, `or_else`, and bodies that do not go on.
use crate::common::Wakes;
use segue_core::{Cancelled, Either, after, check};
use segue_stm::{Stop, TVar, Tx, atomically, transaction};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn take(var: &TVar<Option<u32>>) -> impl Fn(&Tx<'_>) -> Result<u32, Stop> {
    move |tx| match *tx.replace(var, None)? {
        Some(value) => Ok(value),
        None => tx.retry(),
    }
}

/// Polled once: it waits. Then `change` is to wake it, or not.
fn is_woken(body: impl for<'t> Fn(&Tx<'t>) -> Result<u32, Stop>, change: impl FnOnce()) -> (usize, Option<u32>) {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut task = Context::from_waker(&waker);
    let mut waits = pin!(transaction(body).into_future());
    assert_eq!(waits.as_mut().poll(&mut task), Poll::Pending);
    change();
    let woken = wakes.0.load(SeqCst);
    match waits.as_mut().poll(&mut task) {
        Poll::Ready(value) => (woken, Some(value)),
        Poll::Pending => (woken, None),
    }
}

#[test]
fn a_choice_of_which_both_branches_retry_is_woken_by_what_either_has_read() {
    let [left, right, other] = [(); 3].map(|()| TVar::new(None));
    let either = |tx: &Tx<'_>| tx.or_else(take(&left), take(&right));
    assert_eq!(is_woken(either, || left.set(Some(1)).unwrap()), (1, Some(1)));
    assert_eq!(is_woken(either, || right.set(Some(2)).unwrap()), (1, Some(2)));
    assert_eq!(is_woken(either, || other.set(Some(3)).unwrap()), (0, None));
    // Both of two choices.
    let four = |tx: &Tx<'_>| {
        tx.or_else(|tx| tx.or_else(take(&left), take(&right)), |tx| tx.or_else(take(&other), take(&left)))
    };
    left.set(None).unwrap();
    other.set(None).unwrap();
    assert_eq!(is_woken(four, || other.set(Some(4)).unwrap()), (1, Some(4)));
    assert_eq!((left.get(), right.get(), other.get()), (None, None, None));
}

#[test]
fn a_retry_that_has_read_nothing_is_an_error_at_once() {
    let var = TVar::new(0);
    let nothing = atomically(|tx| tx.retry::<()>()).unwrap_err();
    assert!(nothing.to_string().contains("has read no variable"), "{nothing}");
    assert!(
        atomically(|tx| {
            tx.write(&var, 1)?;
            tx.retry::<()>()
        })
        .is_err()
    );
    assert!(
        atomically(|tx| {
            let own = TVar::new(0);
            tx.read(&own)?;
            tx.retry::<()>()
        })
        .is_err()
    );
    assert_eq!(var.get(), 0);
}

#[test]
fn a_transaction_in_a_branch_that_retries_is_that_branch() {
    let (left, right) = (TVar::new(None), TVar::new(Some(7)));
    let inside = |tx: &Tx<'_>| tx.or_else(|_| atomically(take(&left)).map_err(Stop::from), take(&right));
    assert_eq!(atomically(inside), Ok(7));
}

/// Consistent, and without an end of its own.
#[test]
fn a_body_that_loops_ends_by_a_check_of_the_cancellation() {
    let var = TVar::new(0);
    let (begun, begins) = std::sync::mpsc::channel();
    segue::run(|| {
        let endless = segue::Builder::new().cancellable().spawn({
            let var = var.clone();
            move || {
                atomically(|tx| -> Result<(), Stop> {
                    let _ = begun.send(());
                    loop {
                        tx.write(&var, tx.read(&var)? + 1)?;
                        check()?;
                        std::thread::yield_now();
                    }
                })
            }
        });
        // The body has the only worker.
        let token = endless.token().clone();
        std::thread::spawn(move || {
            begins.recv().unwrap();
            token.cancel();
        });
        assert!(endless.join().is_ok_and(|outcome| outcome.is_err()));
    });
    assert_eq!(var.get(), 0);
}

#[test]
fn a_wait_in_a_body_is_refused_on_a_fiber_and_says_what_to_return() {
    let var = TVar::new(0);
    segue::run(|| {
        let mutex = segue::sync::Mutex::new(());
        let _locked = mutex.lock().unwrap();
        let waits: [&dyn Fn() -> Option<Cancelled>; 3] =
            [&|| segue::yield_now().err(), &|| segue::sleep(Duration::MAX).err(), &|| {
                after(Duration::MAX).wait().err()
            }];
        for wait in waits {
            let refused = atomically(|tx| {
                tx.write(&var, 1)?;
                match wait() {
                    Some(refused) => Err(refused.into()),
                    None => Ok(()),
                }
            });
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("`retry`"), "{refused}");
        }
    });
    assert_eq!(var.get(), 0);
}

#[test]
fn a_body_that_ignores_its_stop_commits_nothing() {
    let (x, y) = (TVar::new(0), TVar::new(0));
    let attempts = AtomicUsize::new(0);
    atomically(|tx| {
        let is_first = attempts.fetch_add(1, SeqCst) == 0;
        let seen = *tx.read(&x)?;
        tx.write(&y, seen + 10)?;
        if is_first {
            std::thread::scope(|s| {
                _ = s.spawn(|| {
                    atomically(|tx| {
                        tx.write(&x, 1)?;
                        tx.write(&y, 1)
                    })
                    .unwrap()
                })
            });
            let z = TVar::new(0);
            std::thread::scope(|s| _ = s.spawn(|| z.set(1).unwrap()));
            assert!(tx.read(&z).is_err());
            let _ = tx.write(&z, 5);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((attempts.load(SeqCst), x.get(), y.get()), (2, 1, 11));
}

#[test]
fn a_transaction_is_an_arm_beside_others() {
    let var = TVar::new(None);
    let (sender, receiver) = segue::channel::unbounded::<u32>();
    let choose = || transaction(take(&var)).or_else(receiver.recv_source()).wait().unwrap();
    sender.send(1).unwrap();
    assert!(matches!(choose(), Either::Right(Ok(1))));
    var.set(Some(2)).unwrap();
    sender.send(3).unwrap();
    // The one that is not chosen has no effect.
    assert!(matches!(choose(), Either::Left(2)));
    assert!(matches!(choose(), Either::Right(Ok(3))));
    std::thread::scope(|s| {
        s.spawn(|| var.set(Some(4)).unwrap());
        assert!(matches!(choose(), Either::Left(4)));
    });
}

#[test]
fn a_forgotten_future_that_is_registered_hinders_nobody() {
    let var = TVar::new(None);
    let kept = var.clone();
    let mut waits = Box::pin(transaction(move |tx| take(&kept)(tx)).into_future());
    assert_eq!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    std::mem::forget(waits);
    let take_two = |tx: &Tx<'_>| take(&var)(tx);
    assert_eq!(is_woken(take_two, || var.set(Some(7)).unwrap()), (1, Some(7)));
}

/// Each waits for its own number: fibers, threads, and tasks.
#[test]
fn a_thousand_wait_for_one_variable() {
    let var = TVar::new(0);
    let looks = AtomicUsize::new(0);
    segue::run(|| {
        segue::scope(|s| {
            for until in 1..=1_000 {
                let (var, looks) = (&var, &looks);
                s.spawn(move || {
                    atomically(|tx| {
                        looks.fetch_add(1, SeqCst);
                        tx.check(*tx.read(var)? >= until)
                    })
                    .unwrap();
                });
            }
            segue::yield_now().unwrap();
            var.set(1_000).unwrap();
        });
    });
    assert!(looks.load(SeqCst) <= 2_000, "one wake each: {looks:?}");
}
