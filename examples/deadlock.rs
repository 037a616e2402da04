//! The simulator finds a deadlock, says who waits for what, and replays the schedule from its seed.
//!
//! Two fibers each fill the other's promise, but only after their own was filled.

use segue::Builder;
use segue::sync::{Promise, Resolver, promise};
use segue::testing::Sim;

fn wait_then_fill(mine: &Promise<u32>, others: Resolver<u32>) {
    if let Ok(number) = mine.wait() {
        others.fill(number + 1).unwrap();
    }
}

fn program() {
    let (fill_left, left) = promise();
    let (fill_right, right) = promise();
    let a = Builder::new().name("left").spawn(move || wait_then_fill(&left, fill_right));
    let b = Builder::new().name("right").spawn(move || wait_then_fill(&right, fill_left));
    let _ = (a.join(), b.join());
}

fn main() {
    let found = Sim::new(42).run(program).expect_err("neither can go first");
    println!("{found}");
    let replayed = Sim::new(42).run(program).expect_err("the same seed leads to the same schedule");
    assert_eq!(found, replayed);
}
