//! Fiber-local values on plain threads, fit for Miri: what is lent stays where it is while others
//! are made, read and handed down. `fiber_locals.rs` of the umbrella crate has the rest.
#![cfg(not(loom))]

use segue_core::{fiber_local, scope};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

fiber_local! {
    static FIRST: RefCell<String> = RefCell::new("first".to_owned()), inherited;
    static SECOND: Cell<u64> = Cell::new(2);
    static THIRD: RefCell<Vec<u8>> = RefCell::new(vec![3]), inherited;
    static FOURTH: u8 = 4, inherited;
    static FIFTH: Box<u8> = Box::new(5);
}

#[test]
fn what_is_lent_stays_in_place_while_others_are_made_and_handed_down() {
    let thread = std::thread::spawn(|| {
        FIRST.with(|first| {
            FOURTH.with(|fourth| {
                SECOND.set(SECOND.get() + u64::from(*fourth));
                THIRD.with_borrow_mut(|third| third.push(FIFTH.with(|fifth| **fifth)));
                first.borrow_mut().push_str(", changed");
                let child = scope(|s| {
                    s.spawn(|| (FIRST.with_borrow(String::clone), THIRD.with_borrow(Vec::clone), SECOND.get())).join()
                });
                assert_eq!(child.unwrap(), ("first, changed".to_owned(), vec![3, 5], 2));
                first.borrow_mut().push('!');
                assert_eq!((*fourth, SECOND.get()), (4, 6));
            });
        });
        // A clone that fails, of a value that is borrowed, fails the spawn and loses nothing.
        THIRD.with_borrow_mut(|third| {
            assert!(catch_unwind(AssertUnwindSafe(|| scope(|s| drop(s.spawn(|| ()))))).is_err());
            third.push(6);
        });
        (FIRST.with_borrow(String::clone), THIRD.with_borrow(Vec::clone))
    });
    assert_eq!(thread.join().unwrap(), ("first, changed!".to_owned(), vec![3, 5, 6]));
}
