//! Dumps: what they say, what they find, and that they change nothing.

#![cfg(feature = "sched")]

mod changes_nothing;
mod deadlocks;
mod edges;
mod lock_programs;
mod none;
mod places;
mod planted;
mod said;

use segue::sched::{Dump, FiberDump};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One test at a time: a dump is of the whole process, with the fibers of all tests.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Dumps until `found` answers with something: for what other threads bring about.
#[track_caller]
fn dump_until<T>(mut found: impl FnMut(&Dump) -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let dump = segue::dump();
        if let Some(found) = found(&dump) {
            return found;
        }
        assert!(Instant::now() < limit, "it does not come about:\n{dump}");
        thread::yield_now();
    }
}

/// The one fiber with this name.
#[track_caller]
fn named<'d>(dump: &'d Dump, name: &str) -> &'d FiberDump {
    find(dump, name).unwrap_or_else(|| panic!("there is no fiber `{name}`:\n{dump}"))
}

/// The fiber with this name, of which there is one at most.
#[track_caller]
fn find<'d>(dump: &'d Dump, name: &str) -> Option<&'d FiberDump> {
    let all: Vec<_> = dump.fibers().filter(|fiber| fiber.name.as_deref() == Some(name)).collect();
    assert!(all.len() <= 1, "there are {} fibers `{name}`:\n{dump}", all.len());
    all.first().copied()
}
