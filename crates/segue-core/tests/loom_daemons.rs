//! Every interleaving of a daemon that spawns with the end of its scope: a fiber is accepted and
//! runs before the scope ends, or it is refused and never runs.
#![cfg(loom)]

mod models;

use loom::thread;
use models::{Reached, check, model};
use segue_core::JoinError;
use segue_core::scheduling::{Family, Job, Spawn, scope_over, thread_spawner};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs each job on a thread of the model checker's.
struct Threads;

impl Spawn for Threads {
    fn spawn(&self, job: Job) {
        thread::spawn(move || job.run());
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        thread_spawner().share()
    }
}

#[test]
fn a_daemon_that_spawns_against_the_end_of_the_scope() {
    static ACCEPTED: Reached = Reached::new("accepted");
    static REFUSED: Reached = Reached::new("refused, or cancelled before it started");
    model(2, || {
        let (ran, accepted) = (AtomicBool::new(false), AtomicBool::new(false));
        // The model's own family, as the model checker's words are of one run.
        scope_over(
            || Some((&Threads, Box::leak(Box::new(Family::detached())))),
            |s| {
                let (ran, accepted) = (&ran, &accepted);
                drop(s.spawn_daemon(move || {
                    let late = s.spawn(move || ran.store(true, Ordering::Relaxed));
                    // By the result: a join would wait, which the end of the scope cancels.
                    if !late.is_finished() {
                        accepted.store(true, Ordering::Relaxed);
                        drop(late);
                    } else if let Err(JoinError::NeverRan(_)) = late.join() {
                        REFUSED.note();
                    }
                }));
            },
        );
        // It ran before the scope has ended; or it was cancelled before it started.
        let ran = ran.into_inner();
        ACCEPTED.note_if(ran && accepted.into_inner());
    });
    check(&[&ACCEPTED, &REFUSED]);
}
