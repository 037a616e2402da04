//! The states of a parked worker, one after the other. Part of `driver/presence.rs`.

use super::*;

#[test]
fn who_ends_an_unwatched_sleep_is_told() {
    let presence = Presence::default();
    assert!(!presence.leave_unwatched(), "it runs");
    assert!(presence.lie_down(true));
    assert!(presence.leave_unwatched() && presence.leave_unwatched() && !presence.is_running());
    assert!(presence.get_up() && presence.is_running());
    assert!(presence.lie_down(true) && presence.leave_unwatched());
    assert_eq!(presence.unpark(), Was::Parked { unwatched: true });
    assert!(!presence.is_running() && !presence.leave_unwatched(), "it is on its way");
    assert!(!presence.get_up(), "the unpark was told");
}

#[test]
fn an_unpark_ends_the_next_sleep_before_it_begins() {
    let presence = Presence::default();
    assert_eq!(presence.unpark(), Was::Elsewhere);
    assert!(!presence.lie_down(true) && !presence.get_up());
    assert!(presence.lie_down(false));
    assert_eq!((presence.unpark(), presence.looks()), (Was::Suspended, 1));
}
