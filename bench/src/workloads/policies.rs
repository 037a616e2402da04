//! The policies under which Segue takes part: one table. Used by the workloads in which order or
//! place may matter, and by the page, which has the default against the best of them.

use crate::measure::{SEGUE, Span, Variant};
use segue::sched::{ByPriority, Fifo, Lifo, Policy as Order, RoundRobin, Stealing};
use std::num::NonZero;

/// A policy, and how Segue is named that runs under it.
pub struct Policy {
    /// [`SEGUE`] for the default, else beginning with it.
    pub who: &'static str,
    run: fn(usize, &mut dyn FnMut()),
}

/// The default.
pub const DEFAULT: Policy = Policy { who: SEGUE, run: |workers, main| under(workers, Stealing::default, main) };

/// All of them, a line each. The default is the first.
pub const POLICIES: &[Policy] = &[
    DEFAULT,
    Policy { who: "segue, fifo", run: |workers, main| under(workers, Fifo::default, main) },
    Policy { who: "segue, by priority", run: |workers, main| under(workers, ByPriority::strict, main) },
    Policy { who: "segue, round robin", run: |workers, main| under(workers, RoundRobin::default, main) },
    Policy { who: "segue, runs of 64", run: |workers, main| under(workers, runs, main) },
    RUNS_LIFO,
    LIFO,
];

/// In `policy_overhead`, which is about turns in order, it takes no part, nor does the next.
pub const LIFO: Policy = Policy { who: "segue, lifo", run: |workers, main| under(workers, Lifo::default, main) };

/// As above.
pub const RUNS_LIFO: Policy = Policy {
    who: "segue, runs of 64, lifo",
    run: |workers, main| under(workers, || runs().ordered_by(Lifo::default()), main),
};

/// Neighbours in a chain have the same worker.
fn runs() -> RoundRobin {
    RoundRobin::in_runs_of(NonZero::new(64).expect("not zero"))
}

fn under<P: Order>(workers: usize, policy: impl Fn() -> P + Send + Sync, main: &mut dyn FnMut()) {
    segue::runtime().workers(workers).run_with(policy, main).expect("segue starts");
}

/// Whether this is how Segue is named under one of the policies.
pub fn is_policy(who: &str) -> bool {
    POLICIES.iter().any(|policy| policy.who == who)
}

impl Policy {
    /// Runs `main` as the first fiber of a runtime with this many workers, of which the caller is
    /// one.
    pub fn run<T>(&self, workers: usize, main: impl FnOnce() -> T) -> T {
        let (mut main, mut result) = (Some(main), None);
        (self.run)(workers, &mut || result = main.take().map(|main| main()));
        result.expect("the first fiber has run")
    }
}

/// Adds Segue once for each policy.
pub fn add_all(variant: Variant, run: impl Fn(&Policy, u64) -> Span + Copy + 'static) -> Variant {
    add_but(&[], variant, run)
}

/// Adds Segue once for each policy but these.
pub fn add_but(not: &[Policy], variant: Variant, run: impl Fn(&Policy, u64) -> Span + Copy + 'static) -> Variant {
    let takes_part = |policy: &&Policy| not.iter().all(|not| not.who != policy.who);
    let those = POLICIES.iter().filter(takes_part);
    those.fold(variant, |variant, policy| variant.add(policy.who, move |n| run(policy, n)))
}
