//! Every interleaving of the end of a value with those that may still see it. The values are cells
//! that the model checker watches: a look at one that was dropped is a race, or a panic.
//!
//! Planted, by hand, and found: a snapshot that begins by a plain store of its slot, behind the
//! load of the clock (`snapshot.rs`); memory that is freed without a look at the slots.
#![allow(unsafe_code, unused_unsafe)] // Cells that the model checker watches.

use crate::in_order;
use crate::models::{Reached, check, model};
use loom::cell::UnsafeCell;
use loom::thread;
use segue_stm::{TVar, atomically};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Value {
    number: u32,
    is_there: UnsafeCell<bool>,
    drops: Arc<AtomicUsize>,
}

// SAFETY: the model checker looks which thread touches the cell when.
unsafe impl Send for Value {}
// SAFETY: as above, also of shared values.
unsafe impl Sync for Value {}

impl Value {
    fn new(number: u32, drops: &Arc<AtomicUsize>) -> Self {
        Self { number, is_there: UnsafeCell::new(true), drops: drops.clone() }
    }

    fn look(&self) -> u32 {
        // SAFETY: the model checker looks for a race.
        assert!(self.is_there.with(|is_there| unsafe { *is_there }), "seen after its drop");
        self.number
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: the model checker looks for a race.
        self.is_there.with_mut(|is_there| unsafe { *is_there = false });
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_value_is_freed_after_the_attempts_that_may_see_it() {
    static OLD: Reached = Reached::new("the old one was seen");
    static NEW: Reached = Reached::new("the new one was seen");
    static KEPT: Reached = Reached::new("kept for the reader");
    model(3, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let var = TVar::new(Value::new(1, &drops));
        let writer = {
            let (var, drops) = (var.clone(), drops.clone());
            thread::spawn(move || {
                var.set(Value::new(2, &drops)).unwrap();
                drops.load(Ordering::Relaxed)
            })
        };
        let seen = atomically(|tx| {
            let value = tx.read(&var)?;
            let number = value.look();
            loom::thread::yield_now();
            value.look();
            Ok(number)
        })
        .unwrap();
        let freed_by_the_writer = writer.join().unwrap();
        OLD.note_if(seen == 1);
        NEW.note_if(seen == 2);
        KEPT.note_if(freed_by_the_writer == 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1, "freed when nobody can see it any more");
        drop(var);
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    });
    check(&[&OLD, &NEW, &KEPT]);
}

/// The reader has begun before: it reads the value of then, which two commits have replaced.
#[test]
fn an_attempt_of_the_past_reads_old_versions() {
    static PAST: Reached = Reached::new("the past");
    static NOW: Reached = Reached::new("the last values");
    model(2, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let [x, y] = in_order(|_| Value::new(0, &drops));
        let writer = {
            let (x, y, drops) = (x.clone(), y.clone(), drops.clone());
            thread::spawn(move || {
                for number in 1..3 {
                    atomically(|tx| {
                        tx.write(&x, Value::new(number, &drops))?;
                        tx.write(&y, Value::new(number, &drops))
                    })
                    .unwrap();
                }
            })
        };
        let pair = atomically(|tx| Ok((tx.read(&x)?.look(), tx.read(&y)?.look()))).unwrap();
        writer.join().unwrap();
        assert_eq!(pair.0, pair.1);
        PAST.note_if(pair.0 == 0);
        NOW.note_if(pair.0 == 2);
        assert_eq!(drops.load(Ordering::Relaxed), 4);
    });
    check(&[&PAST, &NOW]);
}

/// One handle goes in a body that has read the variable, the other elsewhere.
#[test]
fn a_variable_is_freed_after_the_attempts_that_have_met_it() {
    static HERE: Reached = Reached::new("the body had the last handle");
    static THERE: Reached = Reached::new("the other thread had the last handle");
    model(3, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let var = TVar::new(Value::new(1, &drops));
        let other = {
            let (var, drops) = (var.clone(), drops.clone());
            thread::spawn(move || {
                drop(var);
                drops.load(Ordering::Relaxed)
            })
        };
        let var = std::cell::Cell::new(Some(var));
        atomically(|tx| {
            let Some(mine) = var.take() else { return Ok(()) };
            let value = tx.read(&mine)?;
            drop(mine);
            value.look();
            assert_eq!(value.drops.load(Ordering::Relaxed), 0);
            Ok(())
        })
        .unwrap();
        let here = drops.load(Ordering::Relaxed);
        other.join().unwrap();
        HERE.note_if(here == 1);
        THERE.note_if(here == 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
    check(&[&HERE, &THERE]);
}
