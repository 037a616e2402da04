//! The schedulers of the process.
//!
//! Written where a scheduler begins and ends; read by dumps.

use crate::worker::group::Group;
use segue_core::scheduling::PerProcess;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

struct Entry {
    number: u64,
    name: String,
    group: Weak<Group>,
    simulates: bool,
}

/// The schedulers of this process. A forked child begins with none: it has not the threads of its
/// parent's.
static ROSTER: PerProcess<Vec<Entry>> = PerProcess::new(Vec::new);

/// The process in which the first scheduler began.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// A scheduler's place on the list, until the drop.
pub(crate) struct Enlisted(u64);

/// A scheduler on the list.
pub(crate) struct Listed {
    /// Counts the schedulers of the process.
    pub(crate) number: u64,
    pub(crate) name: String,
    pub(crate) group: Arc<Group>,
    /// Its time is virtual.
    pub(crate) simulates: bool,
}

/// Puts a scheduler on the list, until its group is dropped.
pub(crate) fn enlist(group: &Arc<Group>, name: &str, simulates: bool) {
    PROCESS.get_or_init(process::id);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Relaxed) + 1;
    let entry = Entry { number, name: name.to_owned(), group: Arc::downgrade(group), simulates };
    ROSTER.lock().push(entry);
    group.set_enlisted(Box::new(Enlisted(number)));
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        let mut roster = ROSTER.lock();
        // None in the child of a fork that ends what its parent began.
        let at = roster.iter().position(|entry| entry.number == self.0);
        let entry = at.map(|at| roster.remove(at));
        drop(roster);
        drop(entry);
    }
}

/// Whether the calling process is a forked child of one with schedulers, and has none of its own.
pub(crate) fn is_child() -> bool {
    PROCESS.get().is_some_and(|process| *process != process::id()) && ROSTER.lock().is_empty()
}

/// All schedulers that have not ended, in the order in which they began.
pub(crate) fn schedulers() -> Vec<Listed> {
    let listed = |entry: &Entry| {
        let group = entry.group.upgrade()?;
        Some(Listed { number: entry.number, name: entry.name.clone(), group, simulates: entry.simulates })
    };
    let roster = ROSTER.lock();
    let all = roster.iter().filter_map(listed).collect();
    // The last share of a group may be one of these, and takes the lock in its drop.
    drop(roster);
    all
}
