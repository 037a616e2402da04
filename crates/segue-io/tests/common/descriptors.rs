//! The count of open descriptors, for programs that run one test at a time.

use super::{enlist, pair};
use std::sync::{Mutex, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How many descriptors the process has.
pub fn open() -> usize {
    // The directory is open while it is read; so each count has one too many.
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a test, while no other one runs, and sees that it leaves no descriptor. One count may have
/// descriptors that were made once, or that another thread is about to close. Those that a test
/// leaves are more after each run.
pub fn leaves_no_descriptor(test: impl Fn()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Makes the shared driver.
    let (_client, server) = pair();
    enlist(&server);
    let mut counts = vec![open()];
    while counts.len() < 4 {
        test();
        counts.push(open());
        if counts[counts.len() - 1] <= counts[counts.len() - 2] {
            return;
        }
    }
    panic!("descriptors stay open, after each run more: {counts:?}");
}
