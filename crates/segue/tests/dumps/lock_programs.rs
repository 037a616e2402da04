//! Random programs of locks against a model: the dump finds the fibers of each deadlock, and none
//! else.
//!
//! Each fiber locks and unlocks some of a few mutexes, in an order that is drawn, with yields in
//! between. When nothing moves any more, the model knows from the program's own notes which fiber
//! has which lock and which fiber wants which: each wants one at most, so the model follows the one
//! arrow.

use segue::sched::{Sim, settle};
use segue::sync::Mutex;
use segue::{Builder, CancelToken, scope};
use std::collections::BTreeSet;
use std::sync::Mutex as Plain;

const FIBERS: usize = 6;
const LOCKS: usize = 4;

/// The program's own notes.
#[derive(Default)]
struct Notes {
    holder: [Option<usize>; LOCKS],
    wants: [Option<usize>; FIBERS],
}

impl Notes {
    /// The fibers that come back to themselves.
    fn in_cycles(&self) -> BTreeSet<usize> {
        let next = |fiber: usize| self.holder[self.wants[fiber]?];
        let comes_back = |&start: &usize| {
            let mut at = next(start);
            for _ in 0..FIBERS {
                match at {
                    Some(fiber) if fiber == start => return true,
                    Some(fiber) => at = next(fiber),
                    None => return false,
                }
            }
            false
        };
        (0..FIBERS).filter(comes_back).collect()
    }
}

/// Runs one program, and answers how many fibers are in deadlocks.
fn run_program(seed: u64) -> usize {
    let mut stuck = 0;
    let run = Sim::new(seed).run(|| {
        let mut random = fastrand::Rng::with_seed(seed);
        // Short programs mostly come to their ends.
        let limit = 1 + random.usize(..5);
        let programs: [Vec<usize>; FIBERS] =
            std::array::from_fn(|_| (0..1 + random.usize(..limit)).map(|_| random.usize(..LOCKS)).collect());
        let locks: [Mutex<()>; LOCKS] = std::array::from_fn(|_| Mutex::new(()));
        let notes = Plain::new(Notes::default());
        let token = CancelToken::new();
        stuck = scope(|s| {
            for (fiber, program) in programs.iter().enumerate() {
                let (token, locks, notes) = (token.clone(), &locks, &notes);
                let body = move || {
                    let mut held = Vec::new();
                    for &lock in program {
                        notes.lock().unwrap().wants[fiber] = Some(lock);
                        let Ok(guard) = locks[lock].lock() else { return };
                        let mut notes = notes.lock().unwrap();
                        notes.wants[fiber] = None;
                        notes.holder[lock] = Some(fiber);
                        held.push((lock, guard));
                        if held.len() > 2 {
                            let (lock, guard) = held.remove(0);
                            notes.holder[lock] = None;
                            drop(notes);
                            drop(guard);
                        } else {
                            drop(notes);
                        }
                        let _ = segue::yield_now();
                    }
                    let mut notes = notes.lock().unwrap();
                    held.iter().for_each(|(lock, _)| notes.holder[*lock] = None);
                };
                Builder::new().name(fiber.to_string()).within(s).spawn(move || token.run(body));
            }
            settle().unwrap();
            let dump = segue::dump();
            let expected = notes.lock().unwrap().in_cycles();
            token.cancel();
            let waiters = dump.deadlocks.iter().flat_map(|cycle| &cycle.waiters);
            let found: BTreeSet<usize> =
                waiters.map(|it| it.name.split('`').nth(1).unwrap().parse().unwrap()).collect();
            assert_eq!(found, expected, "seed {seed}:\n{dump}");
            expected.len()
        });
    });
    assert_eq!(run, Ok(()));
    stuck
}

#[test]
fn the_dump_agrees_with_the_model_on_a_thousand_programs() {
    let _alone = crate::alone();
    let programs = if cfg!(miri) { 3 } else { 1_000 };
    let sizes: BTreeSet<usize> = (0..programs).map(run_program).collect();
    // Some come to their ends, some have one fiber that waits for itself, some more.
    assert!(cfg!(miri) || [0, 1, 2, 3].iter().all(|size| sizes.contains(size)), "{sizes:?}");
}
