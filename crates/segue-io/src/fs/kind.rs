//! The kinds of a file, which say how its content is read, and a guess about files in memory.
//!
//! Used by everything in `fs`. The system says of which kind a file is.

use std::sync::atomic::{AtomicU32, Ordering};

/// The kind of a file, which says how its content is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file or a directory of a disk, or a disk.
    Disk,
    /// A file or a directory that somebody else has to be asked for.
    Elsewhere,
    /// A pipe, a terminal, a counter: a wait lasts as long as another party likes.
    Stream,
}

/// How many of a kind are taken to be in memory, when one was.
const TRUSTED: u32 = 15;

/// The outcome of the last look: so many more of the kind are taken to be in memory.
///
/// Entries of one directory lie together: where the metadata of one are in memory, those of the
/// next ones are, nearly always. And a walk through directories that are in memory goes on to
/// others that are. If not, the worker waits for the disk, a bounded number of times.
///
/// A guess, which orders nothing: all accesses are relaxed.
#[derive(Default)]
pub(super) struct Trust(AtomicU32);

impl Trust {
    pub(super) const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// One was in memory.
    pub(super) fn renew(&self) {
        self.0.store(TRUSTED, Ordering::Relaxed);
    }

    /// Whether the next one is to be taken for such.
    pub(super) fn spend(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

/// How far the entries of a directory were named.
pub(super) enum Listed {
    Some,
    All,
}
