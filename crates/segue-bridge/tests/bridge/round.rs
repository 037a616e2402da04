//! The example `round`, for a shorter while.

use crate::program;

use program::round;

#[test]
fn everybody_passes_the_baton_and_the_sums_agree() {
    let goal = 5_000;
    let (baton, sum, parties) = round(goal);
    let passes: u64 = parties.iter().map(|(_, tally)| tally.passes).sum();
    assert_eq!((baton, sum, passes), (goal, goal, goal));
    let cancelled: u64 = parties.iter().map(|(_, tally)| tally.cancelled).sum();
    assert!(cancelled > 0);
    for (name, tally) in parties {
        assert!(tally.passes > 0, "{name} had no turn");
        assert_eq!(tally.waits, tally.passes + tally.cancelled, "{name}");
    }
}
