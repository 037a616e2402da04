//! Rows that are stuck, each in a public function, and whether the report of each names this row.

use segue::Cancelled;
use segue::testing::Sim;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::time::Duration;

/// Something that is stuck, and the place that the row begins at.
pub struct Row(&'static Location<'static>, fn());

#[track_caller]
pub fn row(stuck: fn()) -> Row {
    Row(Location::caller(), stuck)
}

/// Waits for what never comes.
#[track_caller]
pub fn never() -> Result<(), Cancelled> {
    segue::after(Duration::MAX).wait()
}

/// Runs each row, and says which of them are reported with another place than one of their own.
pub fn misplaced(table: &[Row]) -> Vec<String> {
    let ends = table.iter().skip(1).map(|row| row.0.line()).chain([u32::MAX]);
    let wrong = table.iter().zip(ends).filter_map(|(Row(place, stuck), end)| {
        let line = place.line();
        // Cancelled, what has std's names unwinds.
        let deadlock = Sim::new(1).run(|| drop(catch_unwind(AssertUnwindSafe(stuck))));
        let deadlock = deadlock.expect_err(&format!("the row of line {line} is not stuck"));
        let is_own = |at: &Location<'_>| at.file() == place.file() && (line..end).contains(&at.line());
        let all_own = deadlock.fibers.iter().all(|fiber| fiber.waits_for.is_some_and(|waits| is_own(waits.at)));
        (!all_own).then(|| format!("line {line}: {deadlock}"))
    });
    wrong.collect()
}

/// Fails with all rows that are [misplaced].
pub fn check(table: &[Row]) {
    let wrong = misplaced(table);
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), table.len(), wrong.join("\n"));
}
