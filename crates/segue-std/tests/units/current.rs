//! A late unpark leaves no allocation behind. Part of `thread/current.rs`.

use super::*;

#[test]
fn a_late_unpark_leaves_nothing() {
    for _ in 0..3 {
        let own = segue::spawn(current).join().unwrap();
        let left = Arc::downgrade(&own.0);
        own.unpark();
        drop(own);
        assert_eq!(left.strong_count(), 0, "the fiber has ended");
    }
}
