//! The turn against commits. Sixteen conflicts come first, of which the model explores nothing.

use crate::models::{Reached, check};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use segue_stm::{TVar, atomically};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many attempts fail before the turn.
const LOST: usize = 16;

/// A word that one thread sets and the other waits for.
#[derive(Default)]
struct Step(Mutex<usize>, Condvar);

impl Step {
    fn set(&self, step: usize) {
        *self.0.lock().unwrap() = step;
        self.1.notify_all();
    }

    fn wait_for(&self, step: usize) {
        let mut now = self.0.lock().unwrap();
        while *now < step {
            now = self.1.wait(now).unwrap();
        }
    }
}

/// As models are explored, but not before somebody asks for that.
fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.expect_explicit_explore = true;
    builder.check(f);
}

#[test]
fn a_commit_waits_for_the_turn_or_comes_before_it() {
    static BEFORE: Reached = Reached::new("the other commits before the turn's read");
    static AFTER: Reached = Reached::new("the other commits after the turn");
    model(2, || {
        let var = TVar::new(0);
        let (asked, answered) = (Arc::new(Step::default()), Arc::new(Step::default()));
        let other = {
            let (var, asked, answered) = (var.clone(), asked.clone(), answered.clone());
            thread::spawn(move || {
                for round in 1..=LOST {
                    asked.wait_for(round);
                    var.set(round).unwrap();
                    answered.set(round);
                }
                asked.wait_for(LOST + 1);
                var.set(100).unwrap();
            })
        };
        let attempts = AtomicUsize::new(0);
        let seen = atomically(|tx| {
            let round = attempts.fetch_add(1, Ordering::Relaxed) + 1;
            if round > LOST {
                loom::explore();
                asked.set(round);
            }
            let seen = *tx.read(&var)?;
            if round <= LOST {
                asked.set(round);
                answered.wait_for(round);
            }
            tx.write(&var, seen + 1)?;
            Ok(seen)
        })
        .unwrap();
        other.join().unwrap();
        assert_eq!(attempts.load(Ordering::Relaxed), LOST + 1, "the turn's attempt does not begin again");
        BEFORE.note_if(seen == 100);
        AFTER.note_if(seen == LOST);
        assert_eq!(var.get(), if seen == 100 { 101 } else { 100 });
    });
    check(&[&BEFORE, &AFTER]);
}
