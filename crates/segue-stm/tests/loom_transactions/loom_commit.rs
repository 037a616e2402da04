//! Every interleaving of a commit with another, and with the reads of a body.
//!
//! Planted, by hand, and found: a validation before the locks (`commit.rs`) ends the skew's model
//! with both; a read that does not look for LOCKED, or an extension that validates nothing
//! (`tx.rs`), ends the pair's with (0, 1).

use crate::in_order;
use crate::models::{Reached, check, model};
use loom::thread;
use segue_stm::{TVar, atomically};

/// Each reads the variable that the other writes.
#[test]
fn of_two_crosswise_commits_one_sees_the_other() {
    static FIRST: Reached = Reached::new("the first alone");
    static SECOND: Reached = Reached::new("the second alone");
    model(2, || {
        let vars: [TVar<u32>; 2] = in_order(|_| 0);
        let [x, y] = vars.clone();
        let set = |read: TVar<u32>, written: TVar<u32>| {
            move || {
                atomically(|tx| if *tx.read(&read)? == 0 { tx.write(&written, 1) } else { Ok(()) }).unwrap();
            }
        };
        let other = thread::spawn(set(y.clone(), x.clone()));
        set(x, y)();
        other.join().unwrap();
        let both = vars.each_ref().map(TVar::get);
        FIRST.note_if(both == [0, 1]);
        SECOND.note_if(both == [1, 0]);
        assert_eq!(both[0] + both[1], 1, "both have seen nothing: {both:?}");
    });
    check(&[&FIRST, &SECOND]);
}

#[test]
fn two_increments_are_both_counted() {
    static ONCE: Reached = Reached::new("no conflict");
    static AGAIN: Reached = Reached::new("a conflict");
    model(2, || {
        let var = TVar::new(0);
        let attempts = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let add = |var: TVar<u32>, attempts: std::sync::Arc<std::sync::atomic::AtomicUsize>| {
            move || {
                atomically(|tx| {
                    attempts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    tx.modify(&var, |n| n + 1)
                })
                .unwrap();
            }
        };
        let other = thread::spawn(add(var.clone(), attempts.clone()));
        add(var.clone(), attempts.clone())();
        other.join().unwrap();
        let attempts = attempts.load(std::sync::atomic::Ordering::Relaxed);
        ONCE.note_if(attempts == 2);
        AGAIN.note_if(attempts > 2);
        assert_eq!(var.get(), 2);
    });
    check(&[&ONCE, &AGAIN]);
}

/// The pair is written by one commit, and read by a body that is let see nothing else.
#[test]
fn a_body_sees_all_of_a_commit_or_nothing() {
    static BEFORE: Reached = Reached::new("the pair before");
    static AFTER: Reached = Reached::new("the pair after");
    model(3, || {
        let [x, y] = in_order(|_| 0);
        let writer = {
            let (x, y) = (x.clone(), y.clone());
            thread::spawn(move || {
                atomically(|tx| {
                    tx.write(&x, 1)?;
                    tx.write(&y, 1)
                })
                .unwrap();
            })
        };
        let pair = atomically(|tx| {
            let pair = (*tx.read(&x)?, *tx.read(&y)?);
            assert_eq!(pair.0, pair.1, "half of a commit");
            Ok(pair)
        });
        writer.join().unwrap();
        BEFORE.note_if(pair == Ok((0, 0)));
        AFTER.note_if(pair == Ok((1, 1)));
    });
    check(&[&BEFORE, &AFTER]);
}

/// Nothing that was read has changed: the snapshot moves.
#[test]
fn a_body_sees_a_later_commit_to_what_it_reads_next() {
    static BEFORE: Reached = Reached::new("the value before");
    static AFTER: Reached = Reached::new("the value after");
    model(3, || {
        let [x, y] = in_order(|_| 0);
        let writer = {
            let y = y.clone();
            thread::spawn(move || y.set(1).unwrap())
        };
        let pair = atomically(|tx| Ok((*tx.read(&x)?, *tx.read(&y)?))).unwrap();
        writer.join().unwrap();
        assert_eq!(pair.0, 0);
        BEFORE.note_if(pair.1 == 0);
        AFTER.note_if(pair.1 == 1);
    });
    check(&[&BEFORE, &AFTER]);
}
