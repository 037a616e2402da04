//! Every interleaving of a wait's limit and the entry that comes up: no limit is missed, and none
//! is over before its time.

use crate::models;

use loom::thread;
use models::{Reached, check, model};
use segue_core::drivers::{LazyTimer, Limit, TimeLimited};
use segue_core::scheduling::Timers;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct One(LazyTimer);

impl TimeLimited for One {
    fn timer(&self, _number: usize) -> &LazyTimer {
        &self.0
    }

    fn expire(&self, _number: usize) {}
}

#[test]
fn a_wait_begins_while_the_entry_of_the_last_one_comes_up() {
    static FIRST: Reached = Reached::new("the last one was over");
    static ENDED: Reached = Reached::new("the last one had ended");
    model(3, || {
        let (timers, one) = (Timers::simulated(), Arc::new(One(LazyTimer::new())));
        let begun = timers.now();
        let limit = Limit::set_among(&timers, &one, 0, begun + SECOND).unwrap();
        timers.advance(SECOND);
        let firing = thread::spawn({
            let timers = timers.clone();
            move || timers.fire()
        });
        drop(limit);
        let limit = Limit::set_among(&timers, &one, 0, begun + 2 * SECOND).unwrap();
        let fired = firing.join().unwrap();
        FIRST.note_if(fired == 1);
        ENDED.note_if(fired == 0);
        assert!(!limit.is_over(), "over before its time");
        timers.advance(SECOND);
        assert_eq!((timers.fire(), limit.is_over()), (1, true), "a limit was missed");
        assert!(timers.is_empty());
    });
    check(&[&FIRST, &ENDED]);
}

#[test]
fn a_wait_with_an_earlier_limit_begins_while_the_entry_moves_to_a_later_one() {
    static MOVED: Reached = Reached::new("the entry had moved to the later limit");
    static NOT: Reached = Reached::new("the entry had not");
    model(3, || {
        let (timers, one) = (Timers::simulated(), Arc::new(One(LazyTimer::new())));
        let begun = timers.now();
        drop(Limit::set_among(&timers, &one, 0, begun + SECOND).unwrap());
        let limit = Limit::set_among(&timers, &one, 0, begun + 3 * SECOND).unwrap();
        timers.advance(SECOND);
        let firing = thread::spawn({
            let timers = timers.clone();
            move || timers.fire()
        });
        drop(limit);
        let moved = timers.until_next() == Some(2 * SECOND);
        MOVED.note_if(moved);
        NOT.note_if(!moved);
        let limit = Limit::set_among(&timers, &one, 0, begun + 2 * SECOND).unwrap();
        assert_eq!(firing.join().unwrap(), 0);
        timers.advance(SECOND);
        assert_eq!((timers.fire(), limit.is_over()), (1, true), "a limit was missed");
        assert!(timers.is_empty());
    });
    check(&[&MOVED, &NOT]);
}
