//! The count of open descriptors, for programs that run one test at a time.

use super::{enlist, pair};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How many descriptors the process has.
pub fn open() -> usize {
    // The directory is open while it is read; so each count has one too many.
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Each with its number and object.
fn all() -> Vec<(String, String)> {
    let name = |entry: std::fs::DirEntry| {
        let object =
            std::fs::read_link(entry.path()).map_or_else(|error| error.to_string(), |link| link.display().to_string());
        (entry.file_name().display().to_string(), object)
    };
    std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| name(entry.unwrap())).collect()
}

/// Runs a test, while no other one runs, and sees that it leaves no descriptor. A look at a driver
/// (`driver/looks.rs`) may be the last that holds that driver, and so close it a moment later.
pub fn leaves_no_descriptor(test: impl FnOnce()) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Makes the shared driver.
    let (_client, server) = pair();
    enlist(&server);
    let before = open();
    test();
    let ended = Instant::now();
    while open() > before {
        assert!(ended.elapsed() < Duration::from_secs(10), "descriptors stay open: {before} before, now {:?}", all());
        // No event tells of a descriptor that another thread closes.
        std::thread::sleep(Duration::from_millis(1));
    }
}
