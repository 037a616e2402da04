//! The word for the settled directions of a socket. Part of `driver/settled.rs`.

use super::*;

const READ: Interest = Interest { read: true, write: false };
const WRITE: Interest = Interest { read: false, write: true };

#[test]
fn a_direction_is_settled_once_it_was_set_and_until_the_end() {
    let settled = Settled::default();
    assert!(!settled.has(READ) && !settled.has(WRITE));
    settled.set(settled.before(), READ);
    assert!(settled.has(READ) && !settled.has(WRITE));
    settled.set(settled.before(), WRITE);
    assert!(settled.has(READ) && settled.has(WRITE));
    settled.end();
    assert!(!settled.has(READ) && !settled.has(WRITE));
    settled.set(settled.before(), WRITE);
    assert!(!settled.has(READ) && settled.has(WRITE));
}

#[test]
fn what_was_begun_before_the_end_of_a_reactor_sets_nothing() {
    let settled = Settled::default();
    let before = settled.before();
    settled.end();
    settled.set(before, READ);
    assert!(!settled.has(READ));
}

#[test]
fn another_process_has_nothing_settled() {
    let settled = Settled::default();
    settled.set(settled.before(), READ);
    let word = settled.0.load(Ordering::Relaxed);
    settled.0.store(word ^ 1 << 32, Ordering::Relaxed);
    assert!(!settled.has(READ));
    settled.set(settled.before(), WRITE);
    assert!(!settled.has(READ) && settled.has(WRITE), "bits of another process were kept");
}
