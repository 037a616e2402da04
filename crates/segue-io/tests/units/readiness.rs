//! Edges of one direction of a socket, and the mark of a drained one. Part of
//! `driver/readiness.rs`.

use super::*;

#[test]
fn an_edge_before_the_wait_is_not_slept_through() {
    let direction = Direction::new();
    let tick = direction.tick();
    direction.report(false);
    assert_eq!(direction.wait(tick, None, None, WaitsFor::new("an edge")), Ok(()));
}

#[test]
fn a_wait_at_the_present_tick_waits() {
    let direction = Direction::new();
    let now = Some(Instant::now());
    assert_eq!(direction.wait(direction.tick(), now, None, WaitsFor::new("an edge")), Err(Ended::TimedOut));
}

#[test]
fn drained_ends_with_the_next_edge_and_for_good_when_unsteady() {
    let direction = Direction::new();
    direction.set_drained(direction.tick());
    assert!(direction.is_drained(direction.tick()));
    direction.report(false);
    assert!(!direction.is_drained(direction.tick()));
    direction.report(true);
    direction.set_drained(direction.tick());
    assert!(!direction.is_drained(direction.tick()));
}
