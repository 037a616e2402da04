//! When a worker naps, and when it takes a sample. A part of `worker/run_loop/in_vain.rs`, which it
//! sees from inside.

use super::*;

/// A worker is woken, looks in one turn, and finds nothing. Answers whether it is to nap then.
fn comes_in_vain(naps: &mut Naps) -> bool {
    naps.woke(7, true);
    assert!(!naps.is_due(), "after a nap it looks");
    naps.lies_down(8);
    naps.is_due()
}

/// How often it is woken before it naps.
fn until_nap(naps: &mut Naps) -> u32 {
    (1..).find(|_| comes_in_vain(naps)).expect("it naps")
}

fn napping() -> Naps {
    let mut naps = Naps::default();
    until_nap(&mut naps);
    naps
}

#[test]
fn some_wake_ups_in_vain_are_followed_by_naps() {
    let mut naps = Naps::default();
    assert_eq!(until_nap(&mut naps), FEW);
    assert!((0..10).all(|_| comes_in_vain(&mut naps)));
}

#[test]
fn closures_that_end_soon_count_as_well_and_one_that_is_worth_it_ends_the_naps() {
    let mut naps = Naps::default();
    (0..FEW).for_each(|_| naps.took(Was::Short));
    assert!(naps.is_due());
    for what in [Was::Worth, Was::Settled] {
        naps.woke(1, true);
        naps.took(what);
        assert!(!naps.is_due());
        assert_eq!(until_nap(&mut naps), FEW);
    }
}

#[test]
fn a_wake_up_after_which_something_ran_was_not_in_vain() {
    let mut naps = Naps::default();
    for _ in 0..10 * FEW {
        naps.woke(1, true);
        naps.lies_down(3);
    }
    assert!(!naps.is_due());
}

#[test]
fn a_nap_without_offers_is_followed_by_sleep() {
    let mut naps = napping();
    naps.woke(1, false);
    naps.lies_down(2);
    assert!(!naps.is_due());
}

#[test]
fn a_nap_ends_without_sleep_if_there_is_no_time_for_it() {
    let mut naps = napping();
    naps.end();
    assert!(!naps.is_due());
    naps.took(Was::Short);
    assert!(naps.is_due());
}

#[test]
fn it_samples_after_each_nap_or_more_rarely_if_samples_go_on_to_wait() {
    let mut naps = napping();
    let samples_after = |naps: &mut Naps, what: Was| {
        let passed = (0..).position(|_: u32| (comes_in_vain(naps), naps.samples()).1).expect("it samples again");
        naps.took(what);
        while !naps.is_due() {
            comes_in_vain(naps);
        }
        passed
    };
    for what in [Was::Short, Was::Worth, Was::Settled] {
        assert_eq!(samples_after(&mut naps, what), 0, "before {what:?}");
    }
    assert_eq!(samples_after(&mut naps, Was::Settled), 1);
    assert_eq!(samples_after(&mut naps, Was::Settled), 3);
    assert_eq!(samples_after(&mut naps, Was::Short), 7);
    assert_eq!(samples_after(&mut naps, Was::Short), 0);
}
