//! The ways in which schedules are chosen: at random, by priorities that change at random, and one
//! after the other.
//!
//! Used by the explorer, which makes one for each schedule, and by the simulator.

use super::course::{Choice, Strategy};
use super::trace::FiberNumber;
use fastrand::Rng;
use std::collections::HashMap;

/// Draws from all that could go on.
pub(crate) struct Random(Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }
}

impl Strategy for Random {
    fn choose(&mut self, options: &[FiberNumber]) -> usize {
        self.0.usize(..options.len())
    }
}

/// Random priorities, with `depth - 1` points at which one sinks: probabilistic concurrency
/// testing.
///
/// Every fiber is born with a random priority, and of those that could go on the highest does. At
/// each of `depth - 1` steps, drawn from the first `steps`, the one that would go on sinks below
/// all others. A bug of depth `d` is one for which `d` orderings between two steps suffice. Each
/// schedule finds it with a probability of at least `1 / (fibers * steps^(d - 1))`.
///
/// After Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic
/// Guarantees of Finding Bugs", 2010, section 3. A step is here what a fiber does from one point to
/// the next. What is not in the paper: a fiber that tires sinks too.
pub(crate) struct Pct {
    rng: Rng,
    priorities: HashMap<FiberNumber, i64>,
    /// At which step, and to which priority; in the order of the steps.
    changes: Vec<(u64, i64)>,
    /// Below every fiber that has tired.
    floor: i64,
}

impl Pct {
    pub(crate) fn new(seed: u64, depth: u32, steps: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut changes: Vec<_> = (1..i64::from(depth)).map(|value| (rng.u64(1..=steps.max(1)), value)).collect();
        // Ordered so that the next one is the last.
        changes.sort_unstable_by_key(|(step, _)| std::cmp::Reverse(*step));
        Self { rng, priorities: HashMap::new(), changes, floor: 0 }
    }

    fn highest(&self, options: &[FiberNumber]) -> usize {
        (0..options.len()).max_by_key(|index| self.priorities[&options[*index]]).unwrap_or_default()
    }
}

impl Strategy for Pct {
    fn step(&mut self, step: u64, options: &[FiberNumber]) {
        let first = self.highest(options);
        while let Some((_, value)) = self.changes.pop_if(|(at, _)| *at <= step) {
            self.priorities.insert(options[first], value);
        }
    }

    fn choose(&mut self, options: &[FiberNumber]) -> usize {
        self.highest(options)
    }

    fn born(&mut self, number: FiberNumber) {
        // Above all that one can sink to.
        let priority = self.rng.i64(1 << 32..);
        self.priorities.insert(number, priority);
    }

    fn tire(&mut self, number: FiberNumber) {
        self.floor -= 1;
        self.priorities.insert(number, self.floor);
    }
}

/// Makes the choices that it is given, and then always the first.
pub(crate) struct Replay(std::vec::IntoIter<u32>);

impl Replay {
    pub(crate) fn new(choices: Vec<u32>) -> Self {
        Self(choices.into_iter())
    }
}

impl Strategy for Replay {
    fn choose(&mut self, _options: &[FiberNumber]) -> usize {
        self.0.next().unwrap_or_default() as usize
    }
}

/// The choices that lead to the schedule after this one, depth first; `None` if there is none.
///
/// The last choice that was not the last of its kind is changed to the next; what comes after it
/// begins anew.
pub(crate) fn successor(choices: &[Choice]) -> Option<Vec<u32>> {
    let last = choices.iter().rposition(|(chosen, of)| chosen + 1 < *of)?;
    let mut next: Vec<u32> = choices[..=last].iter().map(|(chosen, _)| *chosen).collect();
    next[last] += 1;
    Some(next)
}
