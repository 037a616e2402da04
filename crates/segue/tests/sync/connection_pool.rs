//! The pool of `examples/connection_pool.rs` as tests: its planted race is found, and without it
//! every schedule passes.

#[allow(dead_code, unreachable_pub)] // Its `main` is the example's.
#[path = "../../../../examples/connection_pool.rs"]
mod example;

use example::{Connection, Order, Pool, two_share_one};
use segue::{CancelToken, scope};

#[segue::test(policy = exhaustive(100_000))]
fn a_pool_without_the_race_passes_every_schedule() -> Result<(), String> {
    two_share_one(Order::ConnectionFirst)
}

#[segue::test]
#[should_panic(expected = "2 were opened")]
fn the_race_is_found() {
    two_share_one(Order::PermitFirst).unwrap();
}

#[segue::test(policy = pct(3), leaks = forbid)]
fn who_is_cancelled_gives_back_what_it_has() {
    let (pool, token) = (Pool::new(1, Order::ConnectionFirst), CancelToken::new());
    scope(|s| {
        s.spawn(|| token.run(|| pool.get(|| Connection(1)).map(drop)));
        s.spawn(|| token.run(|| pool.get(|| Connection(2)).map(drop)));
        s.spawn(|| token.cancel());
    });
    // The permit is there, and at most one of the two was opened.
    let lease = pool.get(|| Connection(3)).unwrap();
    drop(lease);
    pool.get(|| unreachable!("there is one")).map(drop).unwrap();
}
