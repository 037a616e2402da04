//! The rules of transactions in "Composable scheduler activations for Haskell": 5.3, 6.2 and 6.4.

use segue::testing::Sim;
use segue_stm::{Stop, TVar, Tx, atomically};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Runs `f` under schedules in which any operation may be interrupted.
fn each_schedule(f: impl Fn()) {
    for seed in 0..if cfg!(miri) { 5 } else { 300 } {
        Sim::new(seed).preemptive().run(&f).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

#[test]
fn variables_are_made_read_and_written_between_pure_steps() {
    let old = TVar::new(3);
    let (new, sum) = atomically(|tx| {
        let new = TVar::new(4); // TNew
        let (left, right) = (*tx.read(&old)?, *tx.read(&new)?); // TRead
        let sum = left * left + right * right; // TPureStep
        tx.write(&new, sum)?; // TWrite
        tx.write(&old, *tx.read(&new)? + 1)?; // its own write is read
        Ok((new, sum))
    })
    .unwrap();
    assert_eq!((old.get(), new.get(), sum), (26, 25, 25));
}

#[test]
fn no_fiber_sees_the_states_between_the_steps_of_another() {
    let interrupted = AtomicUsize::new(0);
    each_schedule(|| {
        let (variables, running) = ([(); 3].map(|()| TVar::new(0)), AtomicBool::new(false));
        segue::scope(|s| {
            s.spawn(|| {
                atomically(|tx| {
                    running.store(true, SeqCst);
                    for variable in &variables {
                        tx.modify(variable, |n| n + 1)?;
                    }
                    Ok(())
                })
                .unwrap();
                running.store(false, SeqCst);
            });
            for _ in 0..4 {
                let seen = atomically(|tx| Ok([*tx.read(&variables[0])?, *tx.read(&variables[2])?])).unwrap();
                assert!(seen == [0, 0] || seen == [1, 1], "half a transaction: {seen:?}");
                interrupted.fetch_add(usize::from(running.load(SeqCst)), SeqCst);
            }
        });
    });
    assert_ne!(interrupted.load(SeqCst), 0, "nobody looked in the middle of the transaction");
}

#[test]
fn an_error_undoes_the_effects_but_for_variables_made_meanwhile() {
    // TCExn: the error is caught inside of the transaction, and brings a new variable along.
    let (kept, undone) = (TVar::new(1), TVar::new(1));
    let caught = atomically(|tx| {
        tx.write(&kept, 2)?;
        let caught = tx.catch(|tx| {
            tx.write(&undone, 2)?;
            tx.write(&kept, 3)?;
            Ok(Err::<(), _>(TVar::new("made meanwhile")))
        })?;
        let new = caught.expect_err("the error is there");
        Ok((*tx.read(&new)?, *tx.read(&kept)?, *tx.read(&undone)?))
    });
    assert_eq!(caught, Ok(("made meanwhile", 2, 1)));
    assert_eq!((kept.get(), undone.get()), (2, 1));

    // TThrow: the error ends the transaction.
    let thrown = atomically(|tx| {
        tx.catch(|tx| {
            tx.write(&kept, 4)?;
            let new = TVar::new(5);
            tx.write(&undone, *tx.read(&new)?)?;
            Ok(Err::<(), _>(new))
        })
    });
    assert_eq!(thrown.unwrap().unwrap_err().get(), 5);
    assert_eq!((kept.get(), undone.get()), (2, 1));
}

#[test]
fn a_panic_undoes_the_effects_and_goes_on_with_its_payload() {
    let (variable, made) = (TVar::new(1), Mutex::new(None));
    let body = |tx: &Tx<'_>| -> Result<(), Stop> {
        tx.write(&variable, 2)?;
        *made.lock().unwrap() = Some(TVar::new(3));
        resume_unwind(Box::new("thrown"))
    };
    let thrown = catch_unwind(AssertUnwindSafe(|| atomically(body)));
    assert_eq!(thrown.unwrap_err().downcast_ref(), Some(&"thrown"));
    assert_eq!((variable.get(), made.lock().unwrap().take().unwrap().get()), (1, 3));
    // Nothing of that transaction is in the way of the next.
    assert_eq!(atomically(|tx| tx.replace(&variable, 4).copied()), Ok(1));
}

#[test]
fn retry_passes_through_catch_and_through_whatever_would_follow() {
    each_schedule(|| {
        let (flag, other) = (TVar::new(false), TVar::new(0));
        let (begun, gone_on) = (AtomicUsize::new(0), AtomicUsize::new(0));
        segue::scope(|s| {
            let waiter = s.spawn(|| {
                atomically(|tx| {
                    begun.fetch_add(1, SeqCst);
                    // TCRetry: no error for `catch`, and so none of its roll-backs.
                    let caught = tx.catch(|tx| {
                        tx.write(&other, 1)?;
                        tx.check(*tx.read(&flag)?)?;
                        Ok(Ok::<_, ()>(7))
                    });
                    // Bind of `retry` is `retry`.
                    let value = caught?;
                    gone_on.fetch_add(1, SeqCst);
                    Ok(value)
                })
            });
            atomically(|tx| tx.write(&flag, true)).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(Ok(7)));
        });
        assert_eq!((other.get(), gone_on.load(SeqCst)), (1, 1));
        assert!(begun.load(SeqCst) <= 2, "one wake-up, one more attempt");
    });
}

#[test]
fn a_transaction_that_retries_is_undone_and_its_fiber_blocked() {
    let (flag, written, attempts) = (TVar::new(false), TVar::new(0), AtomicUsize::new(0));
    let deadlock = Sim::new(1).run(|| {
        let waiter = segue::Builder::new().name("waiter").spawn({
            let (flag, written) = (flag.clone(), written.clone());
            move || {
                atomically(|tx| {
                    tx.write(&written, 1)?;
                    tx.check(*tx.read(&flag)?)
                })
            }
        });
        // The others run meanwhile, and see nothing of the attempt.
        for _ in 0..10 {
            segue::yield_now().unwrap();
            attempts.fetch_add(1, SeqCst);
            assert_eq!(written.get(), 0);
        }
        waiter.join().unwrap()
    });
    assert_eq!(attempts.load(SeqCst), 10);
    let report = deadlock.expect_err("nobody writes").to_string();
    assert!(report.contains("fiber `waiter` waits for a change that a transaction waits for"), "{report}");
    assert_eq!((flag.get(), written.get()), (false, 0));
}

#[test]
fn a_write_to_a_variable_that_was_read_makes_it_ready_again() {
    let blocked = AtomicUsize::new(0);
    each_schedule(|| {
        let (read, unread, attempts) = (TVar::new(0), TVar::new(0), AtomicUsize::new(0));
        segue::scope(|s| {
            let waiter = s.spawn(|| {
                atomically(|tx| {
                    attempts.fetch_add(1, SeqCst);
                    let n = *tx.read(&read)?;
                    tx.check(n == 2)?;
                    Ok(*tx.read(&unread)?)
                })
            });
            segue::testing::settle().unwrap();
            let before = attempts.load(SeqCst);
            // Of no interest to the transaction, which does not run again for that.
            (1..=5).for_each(|n| unread.set(n).unwrap());
            segue::testing::settle().unwrap();
            assert_eq!(attempts.load(SeqCst), before);
            // Of interest, and not enough: the transaction looks, and waits again.
            read.set(1).unwrap();
            segue::testing::settle().unwrap();
            assert_eq!(attempts.load(SeqCst), before + 1);
            blocked.fetch_add(usize::from(!waiter.is_finished()), SeqCst);
            read.set(2).unwrap();
            assert_eq!(waiter.join().unwrap(), Ok(5));
            assert_eq!(attempts.load(SeqCst), before + 2);
        });
    });
    assert_ne!(blocked.load(SeqCst), 0);
}

#[test]
fn an_interrupted_transaction_goes_on_where_it_was_and_is_validated_at_its_end() {
    let (untouched, repeated) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each_schedule(|| {
        let (read, written, other) = (TVar::new(0), TVar::new(0), TVar::new(0));
        let trace = Mutex::new(Vec::new());
        segue::scope(|s| {
            s.spawn(|| {
                atomically(|tx| {
                    trace.lock().unwrap().push("begins");
                    let n = *tx.read(&read)?;
                    tx.write(&written, n + 10)?; // others may run here, as at each of these
                    trace.lock().unwrap().push("ends");
                    Ok(())
                })
                .unwrap();
                trace.lock().unwrap().push("committed");
            });
            s.spawn(|| {
                atomically(|tx| tx.write(&other, 1)).unwrap();
                trace.lock().unwrap().push("harmless");
                atomically(|tx| tx.write(&read, 1)).unwrap();
                trace.lock().unwrap().push("conflict");
            });
        });
        // As if all of it had happened at once, at its end.
        let trace = trace.into_inner().unwrap();
        let at = |event| trace.iter().rposition(|e| *e == event).expect("it has happened");
        let attempts = trace.iter().filter(|event| **event == "begins").count();
        if at("ends") < at("conflict") {
            assert_eq!(attempts, 1, "{trace:?}");
        }
        assert!(written.get() == 10 || at("conflict") < at("committed"), "{trace:?}");
        let first = |event| trace.iter().position(|e| *e == event).expect("it has happened");
        let between = |event| (first("begins")..first("ends")).contains(&first(event));
        // Interrupted by a commit that does not matter, it goes on, and commits.
        untouched.fetch_add(usize::from(between("harmless") && attempts == 1), SeqCst);
        // By one that does, it goes on to its end, and only then begins again.
        repeated.fetch_add(usize::from(between("conflict") && attempts == 2), SeqCst);
        if attempts == 2 {
            assert_eq!(written.get(), 11, "{trace:?}");
            assert!(first("ends") < at("begins"), "{trace:?}");
        }
    });
    assert!(untouched.load(SeqCst) > 0 && repeated.load(SeqCst) > 0, "not all outcomes were seen");
}

/// The body's own `no_suspend` is for code that nobody interrupts.
#[test]
fn a_simulator_interrupts_a_body_but_no_code_in_its_own_no_suspend() {
    let interrupted = AtomicUsize::new(0);
    each_schedule(|| {
        let (variable, inside, around) = (TVar::new(0), AtomicBool::new(false), AtomicBool::new(false));
        segue::scope(|s| {
            s.spawn(|| {
                atomically(|tx| {
                    around.store(true, SeqCst);
                    segue::cancel::no_suspend(|| {
                        inside.store(true, SeqCst);
                        tx.modify(&variable, |n| n + 1)?;
                        tx.modify(&variable, |n| n + 1)?;
                        inside.store(false, SeqCst);
                        Ok::<_, Stop>(())
                    })?;
                    tx.modify(&variable, |n| n + 1)
                })
                .unwrap();
                around.store(false, SeqCst);
            });
            s.spawn(|| {
                for _ in 0..4 {
                    segue::core::preemption_point();
                    assert!(!inside.load(SeqCst), "interrupted in `no_suspend`");
                    interrupted.fetch_add(usize::from(around.load(SeqCst)), SeqCst);
                }
            });
        });
        assert_eq!(variable.get(), 3);
    });
    assert_ne!(interrupted.load(SeqCst), 0, "nobody interrupts the body at all");
}
