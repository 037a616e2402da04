//! When a receiver lets its senders go on for a moment. Part of `channel/patience.rs`.

use super::{CROWD, Patience, ROUNDS};
use std::cell::Cell;

/// One wait, in which the channel stays empty for so many looks. Answers how often it has looked.
fn wait(patience: &Patience, empty: u32) -> u32 {
    let looks = Cell::new(0);
    patience.wait(|| {
        looks.set(looks.get() + 1);
        looks.get() <= empty
    });
    looks.get()
}

#[test]
fn a_try_that_brings_a_crowd_is_followed_by_the_next() {
    let patience = Patience::default();
    for _ in 0..100 {
        assert_eq!(wait(&patience, 0), ROUNDS);
        patience.took(CROWD);
    }
}

#[test]
fn after_tries_in_vain_more_and_more_waits_pass_without_one() {
    let patience = Patience::default();
    let mut pass = 1;
    for _ in 0..15 {
        assert_eq!(wait(&patience, 1), 1, "it ends as soon as nothing comes");
        // What comes after that says nothing of it.
        patience.took(CROWD);
        for _ in 0..pass {
            assert_eq!(wait(&patience, 0), 0);
        }
        pass = (2 * pass + 1).min(1023);
    }
    assert_eq!(pass, 1023);
}

#[test]
fn a_few_values_are_no_crowd_and_a_crowd_ends_all_doubt() {
    let patience = Patience::default();
    for pass in [1, 3, 7] {
        assert_eq!(wait(&patience, 0), ROUNDS);
        patience.took(CROWD - 1);
        assert_eq!((0..pass).map(|_| wait(&patience, 0)).sum::<u32>(), 0);
    }
    assert_eq!(wait(&patience, 0), ROUNDS);
    patience.took(CROWD);
    assert_eq!(wait(&patience, 1), 1);
    assert_eq!((wait(&patience, 0), wait(&patience, 0)), (0, ROUNDS));
}
