//! A program does the same with and without dumps: results, order and schedule.

use segue::sched::Sim;
use segue::sync::{Mutex, Semaphore};
use segue::{channel, scope, sleep};
use std::sync::Mutex as Plain;
use std::time::Duration;

/// What a program of several fibers does, in order; `looks` is called at several places.
fn course(seed: u64, looks: fn()) -> Vec<(usize, u64)> {
    let course = Plain::new(Vec::new());
    let note = |who: usize, what: u64| course.lock().unwrap().push((who, what));
    let run = Sim::new(seed).run(|| {
        let (total, permits) = (Mutex::new(0_u64), Semaphore::new(2));
        let (sender, receiver) = channel::bounded(2);
        scope(|s| {
            for who in 0..5 {
                let (total, permits, sender, note) = (&total, &permits, sender.clone(), &note);
                s.spawn(move || {
                    for round in 0..4 {
                        let _permit = permits.acquire().unwrap();
                        looks();
                        let mut total = total.lock().unwrap();
                        *total += round;
                        note(who, *total);
                        drop(total);
                        sender.send(segue_core::random() % 100).unwrap();
                        looks();
                        sleep(Duration::from_millis(round)).unwrap();
                    }
                });
            }
            drop(sender);
            s.spawn(|| {
                for value in &receiver {
                    looks();
                    note(99, value);
                }
            });
        });
    });
    assert_eq!(run, Ok(()));
    course.into_inner().unwrap()
}

#[test]
fn a_simulation_takes_the_same_course() {
    let _alone = crate::alone();
    let (mut courses, seeds) = (std::collections::HashSet::new(), if cfg!(miri) { 0..2 } else { 0..8 });
    for seed in seeds {
        let without = course(seed, || ());
        assert_eq!(course(seed, || drop(segue::dump())), without, "seed {seed}");
        courses.insert(without);
    }
    assert!(courses.len() > 1, "the seeds make a difference");
}
