//! Every interleaving of a body that looks at state outside with the change of that state.
//!
//! Planted, by hand, and found: a look before the body has the handle of the event alone, and a
//! version that is read after the look, each leave a waiter waiting for ever.

use crate::models::{Reached, check, model};
use loom::sync::Mutex;
use loom::thread;
use segue_core::Cancelled;
use segue_stm::{atomically, outside};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn wait_for(state: &Mutex<u32>, least: u32) -> Result<usize, Cancelled> {
    let attempts = AtomicUsize::new(0);
    atomically(|_| {
        attempts.fetch_add(1, Ordering::Relaxed);
        let look = || (*state.lock().unwrap() >= least).then_some(());
        Ok(outside::look(look).expect("in a body")?)
    })?;
    Ok(attempts.into_inner())
}

fn add_one(state: &Mutex<u32>) {
    *state.lock().unwrap() += 1;
    outside::changed();
}

#[test]
fn a_change_against_a_look_in_vain_is_not_lost() {
    static ONCE: Reached = Reached::new("there at the first attempt");
    static TWICE: Reached = Reached::new("there at the second attempt");
    model(3, || {
        let state = Arc::new(Mutex::new(0));
        let changer = {
            let state = Arc::clone(&state);
            thread::spawn(move || add_one(&state))
        };
        match wait_for(&state, 1).unwrap() {
            1 => ONCE.note(),
            _ => TWICE.note(),
        }
        changer.join().unwrap();
    });
    check(&[&ONCE, &TWICE]);
}

#[test]
fn of_two_changes_each_is_heard() {
    static ONCE: Reached = Reached::new("there at the first attempt");
    static THRICE: Reached = Reached::new("woken by the first change, and in vain");
    model(2, || {
        let state = Arc::new(Mutex::new(0));
        let changer = {
            let state = Arc::clone(&state);
            thread::spawn(move || (0..2).for_each(|_| add_one(&state)))
        };
        let attempts = wait_for(&state, 2).unwrap();
        ONCE.note_if(attempts == 1);
        THRICE.note_if(attempts == 3);
        changer.join().unwrap();
    });
    check(&[&ONCE, &THRICE]);
}
