//! The three kinds of user data of a completion. Part of `ring/flight.rs`.

use super::*;

#[test]
fn user_data_tells_flights_cancels_and_the_reactor_apart() {
    let flight = Flight::new();
    let address = std::ptr::from_ref(&flight).addr();
    for sequence in [0, 1, 2, 7, u16::MAX] {
        assert_eq!(kind_of(flight.user_data(sequence)), Kind::Flight(address));
    }
    assert_ne!(flight.user_data(1), flight.user_data(2));
    assert_eq!(kind_of(CANCELS), Kind::Cancel);
    assert_eq!(kind_of(REACTORS), Kind::Reactor);
}
