//! The log of an attempt: the versions that it has read, and those that it would publish.
//!
//! Used by attempts, each of which has one, and by writes without an attempt; a thread keeps the
//! last log for the next, with its memory.
//!
//! A version of the attempt stays in memory until the attempt's end, also one that a second write
//! has replaced or a roll-back has taken out, since the body may have a reference to its value.
#![allow(unsafe_code)] // Versions are reached by address.

use crate::snapshot::{Retired, retire};
use crate::stop::Blame;
use crate::version::{Head, Kind, Version};
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::Location;
use std::ptr::NonNull;

/// A variable and the version that was read there.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub(crate) head: NonNull<Head>,
    pub(crate) version: NonNull<Version>,
    pub(crate) site: &'static Location<'static>,
}

impl Read {
    pub(crate) fn blame(&self) -> Blame {
        Blame { head: self.head, seen: Some(self.version), site: self.site }
    }
}

/// A variable and the version that is to be published there.
pub(crate) struct Write {
    pub(crate) head: NonNull<Head>,
    pub(crate) new: NonNull<Version>,
    pub(crate) kind: &'static Kind,
    /// The version that is replaced, once the variable is locked.
    pub(crate) before: Option<NonNull<Version>>,
}

impl Write {
    pub(crate) fn blame(&self) -> Blame {
        // SAFETY: the version is this attempt's own, which has not published it.
        Blame { head: self.head, seen: None, site: unsafe { self.new.as_ref() }.site }
    }
}

/// A write that was replaced by a later one.
struct Replaced {
    /// The index of the write, until the commit, which sorts them.
    write: usize,
    version: NonNull<Version>,
    kind: &'static Kind,
}

/// A point of a log to come back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    writes: usize,
    replaced: usize,
}

#[derive(Default)]
pub(crate) struct Log {
    pub(crate) reads: Vec<Read>,
    pub(crate) writes: Vec<Write>,
    replaced: Vec<Replaced>,
    /// Versions that were taken out.
    rolled_back: Vec<(NonNull<Version>, &'static Kind)>,
    /// A bit for each variable that is written, by its address.
    filter: u64,
    /// The indices of the writes, once these are many.
    index: HashMap<NonNull<Head>, usize, BuildHasherDefault<OfAddress>>,
    /// The number of reads at which those of one variable are looked for.
    crowded: usize,
    /// Variables that the transaction in turn holds.
    pub(crate) held: Vec<NonNull<Head>>,
    /// The number of the commit, if it has come to that.
    pub(crate) committed: Option<u64>,
}

/// How many writes are looked through one by one.
const FEW: usize = 8;
/// How many reads there are before the first search for repeated ones, which sorts all of them.
const CROWD: usize = 1 << 16;

#[inline]
fn bit(head: NonNull<Head>) -> u64 {
    // Not the golden ratio: neighbours of that lie at Fibonacci's distances, 144 bytes for one.
    1 << (head.addr().get().wrapping_mul(0xF135_7AEA_2E62_A9C5_u64 as usize) >> (usize::BITS - 6))
}

impl Log {
    pub(crate) fn read(&mut self, head: NonNull<Head>, version: NonNull<Version>, site: &'static Location<'static>) {
        if !self.read_at_once(head, version, site) {
            self.thin_out();
            self.reads.push(Read { head, version, site });
        }
    }

    /// As `read`, if there is room. Answers whether there was.
    #[inline]
    pub(crate) fn read_at_once(
        &mut self,
        head: NonNull<Head>,
        version: NonNull<Version>,
        site: &'static Location<'static>,
    ) -> bool {
        let has_room = self.reads.len() != self.reads.capacity();
        if has_room {
            self.reads.push(Read { head, version, site });
        }
        has_room
    }

    /// Drops repeated reads, so that a body which looks at the same variables again and again needs
    /// no more memory than for these.
    #[cold]
    #[inline(never)]
    fn thin_out(&mut self) {
        if self.reads.len() >= self.crowded.max(CROWD) {
            self.reads.sort_unstable_by_key(|read| read.head);
            self.reads.dedup_by_key(|read| read.head);
            self.crowded = 2 * self.reads.len();
        }
        self.reads.reserve(16);
    }

    /// Whether the attempt may have written a variable.
    #[inline]
    pub(crate) fn may_own(&self, head: NonNull<Head>) -> bool {
        self.filter != 0 && self.filter & bit(head) != 0
    }

    /// The version that the attempt has written.
    #[inline]
    pub(crate) fn own(&self, head: NonNull<Head>) -> Option<NonNull<Version>> {
        if self.may_own(head) { self.find(head).map(|write| self.writes[write].new) } else { None }
    }

    fn find(&self, head: NonNull<Head>) -> Option<usize> {
        if self.writes.len() > FEW {
            return self.index.get(&head).copied();
        }
        self.writes.iter().position(|write| write.head == head)
    }

    #[inline]
    pub(crate) fn write(&mut self, head: NonNull<Head>, new: NonNull<Version>, kind: &'static Kind) {
        if self.may_own(head)
            && let Some(write) = self.find(head)
        {
            let version = std::mem::replace(&mut self.writes[write].new, new);
            self.replaced.push(Replaced { write, version, kind });
            return;
        }
        self.filter |= bit(head);
        self.writes.push(Write { head, new, kind, before: None });
        if self.writes.len() > FEW {
            self.index_writes();
        }
    }

    #[cold]
    fn index_writes(&mut self) {
        let known = self.index.len();
        self.index.extend(self.writes[known..].iter().enumerate().map(|(at, write)| (write.head, known + at)));
    }

    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        Mark { writes: self.writes.len(), replaced: self.replaced.len() }
    }

    /// Undoes the writes since the mark. Reads stay: later steps depend on them.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        while self.replaced.len() > mark.replaced {
            let Replaced { write, version, kind } = self.replaced.pop().expect("it is longer");
            let undone = std::mem::replace(&mut self.writes[write].new, version);
            self.rolled_back.push((undone, kind));
        }
        for undone in self.writes.drain(mark.writes..) {
            self.rolled_back.push((undone.new, undone.kind));
            self.index.remove(&undone.head);
        }
        if self.writes.len() <= FEW {
            self.index.clear();
        }
    }

    /// Empties the log, and retires its versions: those that the commit has replaced, if it has
    /// come to that, and all that were not published.
    ///
    /// # Safety
    /// The attempt has ended, and if there is the number of a commit, that has published all
    /// writes.
    #[inline]
    pub(crate) unsafe fn retire(&mut self) {
        if !self.writes.is_empty() || !self.rolled_back.is_empty() {
            // SAFETY: the caller promises the same of the commit.
            unsafe { self.retire_versions() };
        }
        self.reads.clear();
        self.crowded = 0;
    }

    /// # Safety
    /// As for `retire`.
    unsafe fn retire_versions(&mut self) {
        let Self { writes, replaced, rolled_back, committed, .. } = self;
        // SAFETY: nobody else has seen a version that was not published, and the attempt has ended;
        // the others were replaced by the commit of this number.
        let retired = |stamp, version, kind| unsafe { Retired::version(stamp, version, kind) };
        let committed = committed.take();
        if !replaced.is_empty() || !rolled_back.is_empty() {
            let replaced = replaced.drain(..).map(|gone| retired(0, gone.version, gone.kind));
            retire(replaced.chain(rolled_back.drain(..).map(|(version, kind)| retired(0, version, kind))));
        }
        retire(writes.iter().map(|write| match (committed, write.before) {
            (Some(number), Some(before)) => retired(number, before, write.kind),
            _ => retired(0, write.new, write.kind),
        }));
        writes.clear();
        self.filter = 0;
        self.index.clear();
    }

    /// How much memory the log keeps for another attempt, in entries.
    pub(crate) fn capacity(&self) -> usize {
        let undone = self.replaced.capacity() + self.rolled_back.capacity();
        self.reads.capacity() + self.writes.capacity() + self.index.capacity() + undone + self.held.capacity()
    }
}

#[cfg(not(loom))]
thread_local! {
    /// The log of the last attempt.
    static LAST: Cell<Option<Box<Log>>> = const { Cell::new(None) };
}

// The room of a log decides which way a read takes: in a model each run begins without.
#[cfg(loom)]
loom::thread_local! {
    static LAST: Cell<Option<Box<Log>>> = Cell::new(None);
}

/// How many entries a log keeps room for between attempts.
const KEPT: usize = 1 << 14;

/// The log of this thread, in the hands of an attempt, which ends before this is dropped.
pub(crate) struct Taken(Option<Box<Log>>);

impl Taken {
    #[inline]
    pub(crate) fn take() -> Self {
        Self(Some(LAST.try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }

    #[inline]
    pub(crate) fn get(&mut self) -> &mut Log {
        self.0.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        let Some(mut log) = self.0.take() else { return };
        // SAFETY: the attempt has ended; its commit publishes all writes when it has the number.
        unsafe { log.retire() };
        if log.capacity() <= KEPT {
            let _ = LAST.try_with(|last| last.set(Some(log)));
        }
    }
}

/// A hash of addresses, which are spread by a multiplication.
#[derive(Default)]
pub(crate) struct OfAddress(u64);

impl Hasher for OfAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        self.0 = (self.0.rotate_left(5) ^ value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }
}
