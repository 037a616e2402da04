//! The profile of conflicts: which variable has made transactions begin again, read where, and
//! written where.
//!
//! Used by `attempts.rs`, which records each conflict while somebody profiles, and by users, for
//! the table.
//!
//! A transaction without a conflict is not measured at all: a conflict is blamed for the time from
//! there to the next conflict, or to the end of the transaction. That is the time of an attempt
//! which would not have been, beside the backing off before.
#![allow(unsafe_code)] // Versions are reached by address.

use crate::stop::Blame;
use segue_core::no_suspend;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many profiles are on.
static PROFILES: AtomicUsize = AtomicUsize::new(0);

static TABLE: LazyLock<Mutex<HashMap<Key, Totals>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    name: Option<&'static str>,
    made: &'static Location<'static>,
    used: &'static Location<'static>,
    written: &'static Location<'static>,
}

#[derive(Clone, Copy, Default)]
struct Totals {
    conflicts: u64,
    without_difference: u64,
    lost: Duration,
}

fn table() -> MutexGuard<'static, HashMap<Key, Totals>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The conflict from which a transaction recovers now.
pub(crate) struct Recovery {
    key: Key,
    since: Instant,
}

impl Recovery {
    /// Records a conflict, if somebody profiles.
    ///
    /// # Safety
    /// The attempt that has met the conflict is still under way.
    #[inline]
    pub(crate) unsafe fn begin(blame: &Blame) -> Option<Self> {
        // SAFETY: as the caller promises.
        (PROFILES.load(Ordering::Relaxed) != 0).then(|| unsafe { Self::record(blame) })
    }

    /// # Safety
    /// As for [`begin`](Recovery::begin).
    #[cold]
    unsafe fn record(blame: &Blame) -> Self {
        // SAFETY: the variable and the version that was seen are in memory for the attempt.
        let head = unsafe { blame.head.as_ref() };
        let now = head.load_unlocked().version();
        // SAFETY: the attempt was under way when the word was loaded, which was not locked.
        let written = unsafe { now.as_ref() }.site;
        let differs = |differ: unsafe fn(_, _) -> bool| {
            // SAFETY: both versions are in memory, as above, and of the variable's kind.
            let differs = |seen| unsafe { differ(seen, now) };
            // A comparison is foreign code. One that panics has found no equality.
            let compare = |seen| no_suspend(|| catch_unwind(AssertUnwindSafe(|| differs(seen))));
            blame.seen.map(|seen| compare(seen).map_err(std::mem::forget).unwrap_or(true))
        };
        let is_same = head.kind.differ.and_then(differs) == Some(false);
        let key = Key { name: head.name, made: head.place, used: blame.site, written };
        let mut table = table();
        let totals = table.entry(key).or_default();
        totals.conflicts += 1;
        totals.without_difference += u64::from(is_same);
        Self { key, since: Instant::now() }
    }
}

impl Drop for Recovery {
    fn drop(&mut self) {
        let lost = self.since.elapsed();
        if let Some(totals) = table().get_mut(&self.key) {
            totals.lost += lost;
        }
    }
}

/// A kind of conflict, in a [`Profile`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The variable's name, if it has one.
    pub name: Option<&'static str>,
    /// Where the variable was made.
    pub made: &'static Location<'static>,
    /// Where the transaction that began again had read, or would have written.
    pub used: &'static Location<'static>,
    /// Where the other transaction has written. Of a variable that was only locked by the other,
    /// the last write there.
    pub written: &'static Location<'static>,
    /// How often.
    pub conflicts: u64,
    /// How often the value was the same before and after: such a conflict is no conflict of values.
    /// Known of variables that were made by [`TVar::compared`](crate::TVar::compared).
    pub without_difference: u64,
    /// The time of the attempts that followed.
    pub lost: Duration,
}

/// The conflicts of all transactions of this process since the start of the profile, which is on
/// until its drop. Of several at the same time each has those of all.
///
/// Transactions without conflicts do the same meanwhile as ever; each conflict takes two locks and
/// two looks at the clock more.
///
/// # Examples
///
/// ```
/// use segue_stm::{Profile, TVar, atomically};
///
/// let profile = Profile::start();
/// let hits = TVar::named("hits", 0);
/// std::thread::scope(|s| {
///     for _ in 0..4 {
///         s.spawn(|| (0..1000).for_each(|_| atomically(|tx| tx.modify(&hits, |hits| hits + 1)).unwrap()));
///     }
/// });
/// println!("{profile}");
/// assert!(profile.conflicts().iter().all(|conflict| conflict.name == Some("hits")));
/// ```
#[must_use = "the profile is on until it is dropped"]
#[derive(Debug)]
pub struct Profile(());

impl Profile {
    /// Begins to record conflicts.
    pub fn start() -> Self {
        let _table = table();
        PROFILES.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// The kinds of conflicts, those first that have cost most time.
    #[must_use]
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts: Vec<_> = table().iter().map(|(key, totals)| conflict(key, totals)).collect();
        conflicts.sort_by(|one, other| other.lost.cmp(&one.lost).then(other.conflicts.cmp(&one.conflicts)));
        conflicts
    }
}

fn conflict(key: &Key, totals: &Totals) -> Conflict {
    Conflict {
        name: key.name,
        made: key.made,
        used: key.used,
        written: key.written,
        conflicts: totals.conflicts,
        without_difference: totals.without_difference,
        lost: totals.lost,
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        let mut table = table();
        if PROFILES.fetch_sub(1, Ordering::Relaxed) == 1 {
            table.clear();
        }
    }
}

/// A table with a line for each kind of conflict.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} {:>10} {:>10}  variable, used at, written at", "time lost", "conflicts", "same value")?;
        for conflict in self.conflicts() {
            let lost = format!("{:.1?}", conflict.lost);
            write!(f, "{lost:>12} {:>10} {:>10}  ", conflict.conflicts, conflict.without_difference)?;
            match conflict.name {
                Some(name) => write!(f, "{name}")?,
                None => write!(f, "made at {}", conflict.made)?,
            }
            writeln!(f, ", {}, {}", conflict.used, conflict.written)?;
        }
        Ok(())
    }
}
