//! Every interleaving of a wait that registers with a commit, and with its cancellation.
//!
//! Planted, by hand, and found: WAITERS that is set after the comparison (`attempts.rs`) leaves the
//! first model's waiter waiting for ever.

use crate::in_order;
use crate::models::queue::canceller;
use crate::models::{Reached, check, model};
use loom::thread;
use segue_core::scheduling::Family;
use segue_stm::{TVar, atomically};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn a_commit_against_a_wait_that_registers_is_not_lost() {
    static ONCE: Reached = Reached::new("there at the first look");
    static TWICE: Reached = Reached::new("there at the second look");
    model(3, || {
        let var = TVar::new(0);
        let writer = {
            let var = var.clone();
            thread::spawn(move || var.set(1).unwrap())
        };
        let looks = AtomicUsize::new(0);
        atomically(|tx| {
            looks.fetch_add(1, Ordering::Relaxed);
            tx.check(*tx.read(&var)? == 1)
        })
        .unwrap();
        writer.join().unwrap();
        match looks.load(Ordering::Relaxed) {
            1 => ONCE.note(),
            _ => TWICE.note(),
        }
    });
    check(&[&ONCE, &TWICE]);
}

#[test]
fn a_wait_for_two_variables_hears_of_the_second() {
    static ONCE: Reached = Reached::new("there at the first look");
    static TWICE: Reached = Reached::new("there at the second look");
    model(2, || {
        let vars: [TVar<u32>; 2] = in_order(|_| 0);
        let writer = {
            let var = vars[1].clone();
            thread::spawn(move || var.set(1).unwrap())
        };
        let looks = AtomicUsize::new(0);
        atomically(|tx| {
            looks.fetch_add(1, Ordering::Relaxed);
            let sum = *tx.read(&vars[0])? + *tx.read(&vars[1])?;
            tx.check(sum == 1)
        })
        .unwrap();
        writer.join().unwrap();
        match looks.load(Ordering::Relaxed) {
            1 => ONCE.note(),
            _ => TWICE.note(),
        }
    });
    check(&[&ONCE, &TWICE]);
}

#[test]
fn a_wait_ends_by_the_commit_or_by_its_cancellation() {
    static DONE: Reached = Reached::new("done");
    static CANCELLED: Reached = Reached::new("cancelled");
    model(2, || {
        let var = TVar::new(0);
        let family = Arc::new(Family::detached());
        let writer = {
            let var = var.clone();
            thread::spawn(move || var.set(1).unwrap())
        };
        let canceller = canceller(&family);
        let done = family.enter_context(|| atomically(|tx| tx.check(*tx.read(&var)? == 1)));
        writer.join().unwrap();
        canceller.join().unwrap();
        DONE.note_if(done.is_ok());
        CANCELLED.note_if(done.is_err());
        // Nobody is left in the queue.
        var.set(2).unwrap();
    });
    check(&[&DONE, &CANCELLED]);
}
