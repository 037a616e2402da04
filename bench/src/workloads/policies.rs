//! The policies under which Segue takes part: one table. Used by the workloads in which the order of running matters.

use crate::measure::{SEGUE, Span, Variant};
use segue::sched::Policy as Order;
use segue::{Fifo, Stealing};

/// A policy, and how Segue is named that runs under it.
pub struct Policy {
    /// [`SEGUE`] for the default, else beginning with it.
    pub who: &'static str,
    run: fn(usize, &mut dyn FnMut()),
}

/// All of them, a line each. The default is the first. They must let those who yield take turns, which last in, first out does not: `policy_overhead` waits
/// until all fibers have started.
pub const POLICIES: &[Policy] = &[
    Policy { who: SEGUE, run: |workers, main| under(workers, Stealing::default, main) },
    Policy { who: "segue, fifo", run: |workers, main| under(workers, Fifo::default, main) },
];

fn under<P: Order>(workers: usize, policy: impl Fn() -> P + Send + Sync, main: &mut dyn FnMut()) {
    segue::runtime().workers(workers).run_with(policy, main).expect("segue starts");
}

impl Policy {
    /// Runs `main` as the first fiber of a runtime with this many workers, of which the caller is one.
    pub fn run<T>(&self, workers: usize, main: impl FnOnce() -> T) -> T {
        let (mut main, mut result) = (Some(main), None);
        (self.run)(workers, &mut || result = main.take().map(|main| main()));
        result.expect("the first fiber has run")
    }
}

/// Adds Segue once for each policy.
pub fn add_all(variant: Variant, run: impl Fn(&Policy, u64) -> Span + Copy + 'static) -> Variant {
    POLICIES.iter().fold(variant, |variant, policy| variant.add(policy.who, move |n| run(policy, n)))
}
