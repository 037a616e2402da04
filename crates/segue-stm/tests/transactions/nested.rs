//! Transactions inside of a body are a part of the one around.

use segue_stm::{TVar, atomically, transaction};
use std::cell::Cell;

#[test]
fn a_retry_inside_is_a_retry_of_the_branch_around() {
    let (gate, written) = (TVar::new(false), TVar::new(0));
    let chosen = atomically(|tx| {
        tx.or_else(
            |tx| {
                tx.write(&written, 1)?;
                Ok(atomically(|tx| tx.check(*tx.read(&gate)?)).map(|()| "first")?)
            },
            |tx| Ok(if *tx.read(&written)? == 0 { "second" } else { "half of the first" }),
        )
    });
    assert_eq!(chosen, Ok("second"));
    assert_eq!(written.get(), 0);
}

#[test]
fn a_transaction_inside_is_undone_with_the_one_around() {
    let (inner, outer) = (TVar::new(0), TVar::new(0));
    let undone = atomically(|tx| {
        tx.catch(|tx| {
            atomically(|tx| tx.write(&inner, 1))?;
            inner.set(2)?;
            tx.write(&outer, *tx.read(&inner)?)?;
            Ok(if *tx.read(&outer)? == 2 { Err("undone") } else { Ok(()) })
        })
    });
    assert_eq!(undone, Ok(Err("undone")));
    assert_eq!((inner.get(), outer.get()), (0, 0));
}

#[test]
fn a_retry_that_a_body_does_not_pass_on_is_one_all_the_same() {
    let (gate, written) = (TVar::new(false), TVar::new(0));
    let mut attempts = transaction(|tx| {
        let _ = tx.check(*tx.read(&gate)?);
        tx.modify(&written, |n| n + 1)
    });
    assert!(attempts.attempt().is_none());
    assert_eq!(written.get(), 0);
    gate.set(true).unwrap();
    assert!(attempts.attempt().is_some());
    assert_eq!(written.get(), 1);
}

#[test]
fn a_choice_takes_back_no_retry_from_before() {
    let written = TVar::new(0);
    let mut attempts = transaction(|tx| {
        let _ = atomically(|tx| {
            tx.modify(&written, |n| n + 1)?;
            tx.retry::<()>()
        });
        tx.or_else(|_| Ok(()), |_| Ok(()))
    });
    assert!(attempts.attempt().is_none());
    assert_eq!(written.get(), 0);
}

/// A conflict inside counts, so the turn comes: by the seventeenth attempt.
#[test]
fn conflicts_of_a_transaction_inside_lead_to_the_turn() {
    let (seen, written) = (TVar::new(0), TVar::new(0));
    let attempts = Cell::new(0);
    atomically(|tx| {
        let before = *tx.read(&seen)?;
        attempts.set(attempts.get() + 1);
        if attempts.get() <= 16 {
            std::thread::scope(|s| {
                s.spawn(|| atomically(|tx| tx.write(&seen, before + 1).and_then(|()| tx.write(&written, 7))).unwrap());
            });
        }
        Ok(atomically(|tx| tx.modify(&written, |n| n + 1))?)
    })
    .unwrap();
    assert_eq!((attempts.get(), written.get()), (17, 8));
}
