//! A crate that is `no_std`, with the one line in place of its `extern crate std`.
#![no_std]

extern crate alloc;
#[macro_use]
extern crate segue_std as std;

/// A part without std.
mod part {
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    pub(crate) fn doubled(numbers: &[u32]) -> Vec<u32> {
        numbers.iter().map(|n| 2 * n).collect()
    }

    pub(crate) fn count(at: &AtomicUsize) -> usize {
        at.fetch_add(1, SeqCst)
    }
}

use core::sync::atomic::AtomicUsize;
use std::borrow::ToOwned;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

#[test]
fn the_part_with_std_has_segues() {
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let at = Arc::new(AtomicUsize::new(0));
    let all: Vec<_> = (1..4)
        .map(|n| {
            let (numbers, at) = (Arc::clone(&numbers), Arc::clone(&at));
            std::thread::spawn(move || {
                part::count(&at);
                numbers.lock().unwrap().push(n);
                segue::fiber::current().is_some()
            })
        })
        .collect();
    assert!(all.into_iter().all(|one| one.join().unwrap()));
    let mut doubled = part::doubled(&numbers.lock().unwrap());
    doubled.sort_unstable();
    assert_eq!(format!("{doubled:?}"), "[2, 4, 6]");
    assert_eq!((part::count(&at), doubled.to_owned()), (3, vec![2, 4, 6]));
    println!("{doubled:?}");
}
