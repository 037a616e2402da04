//! How many occasions pass between tries. Part of `primitives/doubt.rs`.

use super::Doubt;

#[test]
fn tries_in_vain_become_rare_and_never_stop() {
    let mut doubt = Doubt::<1023>::NONE;
    let mut passed = || (0..=1023).position(|_| doubt.tries()).expect("the next try comes");
    for occasions in [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1023] {
        assert_eq!(passed(), occasions);
    }
}

#[test]
fn a_doubt_has_no_more_than_its_most_also_at_the_end_of_its_numbers() {
    let mut doubt = Doubt::<{ u16::MAX }>::NONE;
    (0..20).for_each(|_| doubt.grow());
    assert_eq!(doubt, Doubt::from_bits(u32::MAX));
    assert!((0..u16::MAX).all(|_| !doubt.tries()));
    assert!(doubt.tries());
}

#[test]
fn an_outcome_that_comes_later_grows_the_doubt_repeats_it_or_ends_it() {
    let mut doubt = Doubt::<7>::NONE;
    assert!(doubt.is_over() && doubt.is_over() && !doubt.is_any(), "nothing was in vain yet");
    doubt.grow();
    assert!(doubt.is_any() && !doubt.is_over() && doubt.is_over());
    doubt.again();
    assert!(!doubt.is_over() && doubt.is_over());
    doubt = Doubt::NONE;
    assert!(doubt.is_over());
}

#[test]
fn a_doubt_comes_back_from_its_bits() {
    let mut doubt = Doubt::<1023>::NONE;
    for _ in 0..100 {
        let _ = doubt.tries();
        assert_eq!(Doubt::from_bits(doubt.to_bits()), doubt);
    }
}
