//! The rings of all workers of the process, each with its scheduler.
//!
//! Used by schedulers, which enter the rings of their workers, and by snapshots.

use crate::recorder::ring::Ring;
use segue_core::scheduling::PerProcess;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

/// The ring of one worker.
pub(crate) struct Ink {
    pub(super) ring: Ring,
    pub(super) scheduler: Arc<str>,
    pub(super) number: u64,
    pub(super) worker: usize,
    /// The instant that times count from.
    pub(super) epoch: Instant,
}

/// Nothing foreign is called under this lock. The child of a fork begins with none.
static ALL: PerProcess<Vec<Weak<Ink>>> = PerProcess::new(Vec::new);

/// The instant that all recordings of the process count from: that of the first ring.
pub(super) fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// A number for a scheduler, from 1 on.
pub(crate) fn next_scheduler() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// The rings that there are.
pub(super) fn all() -> Vec<Arc<Ink>> {
    ALL.lock().iter().filter_map(Weak::upgrade).collect()
}

impl Ink {
    /// A ring of so many bytes, for this worker, which snapshots find as long as the worker has it.
    pub(crate) fn new(bytes: usize, scheduler: &str, number: u64, worker: usize) -> Arc<Self> {
        let ring = Ring::new(bytes.clamp(LEAST, MOST) / size_of::<u64>());
        let ink = Arc::new(Self { ring, scheduler: scheduler.into(), number, worker, epoch: epoch() });
        let mut all = ALL.lock();
        all.retain(|ink| ink.strong_count() != 0);
        all.push(Arc::downgrade(&ink));
        drop(all);
        ink
    }
}

/// The least and the largest size of a ring, in bytes.
const LEAST: usize = 4096;
const MOST: usize = 1 << 30;
