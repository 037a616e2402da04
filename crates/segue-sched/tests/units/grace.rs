//! When the grace of closures is over, by made-up times. A part of `worker/run_loop/grace.rs`,
//! which it sees from inside.

use super::*;

/// After how many microseconds it is over, looked at every other one, if a turn takes so many.
fn grace(turn: u64) -> u64 {
    let begin = Instant::now();
    let mut seen = None;
    let mut is_over = |at: u64| Grace::is_over(&mut seen, (at / turn) as usize, 1, begin + Duration::from_micros(at));
    (0..).step_by(2).find(|&at| is_over(at)).unwrap()
}

#[test]
fn a_worker_that_stays_in_its_turn_has_less_grace_than_one_that_begins_others() {
    let (one_turn, short_turns) = (GRACE_IN_TURN.as_micros() as u64, GRACE.as_micros() as u64);
    assert_eq!(grace(u64::MAX), one_turn);
    assert_eq!(grace(5), short_turns);
    // A turn that takes too long ends it, also if it is not the first.
    assert!((one_turn..=2 * one_turn).contains(&grace(one_turn + 10)));
}

#[test]
fn closures_that_are_seen_anew_have_all_of_their_grace() {
    let begin = Instant::now();
    let mut seen = None;
    assert!(!Grace::is_over(&mut seen, 1, 1, begin));
    assert!(Grace::is_over(&mut seen, 1, 1, begin + GRACE_IN_TURN));
    seen = None;
    assert!(!Grace::is_over(&mut seen, 1, 1, begin + GRACE_IN_TURN));
}

#[test]
fn a_crowd_of_closures_has_no_grace() {
    let now = Instant::now();
    assert!(!Grace::is_over(&mut None, 1, CROWD, now));
    assert!(Grace::is_over(&mut None, 1, CROWD + 1, now));
}
