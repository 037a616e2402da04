//! The schedulers of the process.
//!
//! Written where a scheduler begins and ends; read by dumps.

use crate::worker::group::Group;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

struct Entry {
    number: u64,
    name: String,
    group: Weak<Group>,
    simulates: bool,
}

struct Roster {
    entries: Vec<Entry>,
    last: u64,
}

static ROSTER: Mutex<Roster> = Mutex::new(Roster { entries: Vec::new(), last: 0 });

/// The process in which the first scheduler began: its forked children have the list, but none of
/// the threads.
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

fn roster() -> MutexGuard<'static, Roster> {
    ROSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts a scheduler on the list, until its group is dropped.
pub(crate) fn enlist(group: &Arc<Group>, name: &str, simulates: bool) {
    PROCESS.get_or_init(process::id);
    let mut roster = roster();
    roster.last += 1;
    let number = roster.last;
    roster.entries.push(Entry { number, name: name.to_owned(), group: Arc::downgrade(group), simulates });
    drop(roster);
    group.set_enlisted(Box::new(Enlisted(number)));
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        let mut roster = roster();
        let at = roster.entries.iter().position(|entry| entry.number == self.0);
        let entry = at.map(|at| roster.entries.remove(at));
        drop(roster);
        drop(entry);
    }
}

/// Whether the calling process is a forked child of that with the schedulers.
pub(crate) fn is_child() -> bool {
    PROCESS.get().is_some_and(|process| *process != process::id())
}

/// All schedulers that have not ended, in the order in which they began.
pub(crate) fn schedulers() -> Vec<Listed> {
    let listed = |entry: &Entry| {
        let group = entry.group.upgrade()?;
        Some(Listed { number: entry.number, name: entry.name.clone(), group, simulates: entry.simulates })
    };
    let roster = roster();
    let all = roster.entries.iter().filter_map(listed).collect();
    // The last share of a group may be one of these, and takes the lock in its drop.
    drop(roster);
    all
}
