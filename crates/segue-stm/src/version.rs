//! The word of a variable, and its versions.
//!
//! Used by variables, which make them, and by attempts, which read the word, lock it, and publish a
//! new version there.
//!
//! # The idea
//!
//! A value never changes: a write makes a new [`Version`], and a commit puts that in the place of
//! the last. A variable is one word, the address of its current version with three flags in the low
//! bits. A version has the number of the commit that has published it. So one load tells an attempt
//! whether a commit is under way there, and one more whether the value is older than its snapshot.
//!
//! # States of the word
//!
//! ```text
//!                 lock: a committer                publish
//!   version ----------------------------> LOCKED ------------> another version
//!      ^  ^                                 |
//!      |  '---------unlock: in vain---------'
//!      |
//!      '--hold, let go: the transaction in turn (`turn.rs`)--> HELD --lock, publish--> another version
//!
//!   any --a waiter that joins the queue--> with WAITERS, until the next publication
//! ```
//!
//! LOCKED is held within a commit, in which no foreign code runs. A version is read by its
//! address only if the word that named it was not LOCKED, see [`Version::number`].
//!
//! # Old versions
//!
//! A version names the one before. That one may be freed by then; but if a version is newer than
//! the snapshot of an attempt that is under way, then the one before was replaced after the
//! attempt's beginning, and is kept for it (`snapshot.rs`). So an attempt walks from the current
//! version back to the first that is not newer than its snapshot, and no further.
#![allow(unsafe_code)] // Versions are reached by address.

use segue_core::WaitQueue;
use segue_core::atomic::{AtomicPtr, AtomicUsize, Ordering, spin_loop, yield_now};
use std::panic::Location;
use std::ptr::{self, NonNull};

/// A commit is under way that replaces the version.
pub(crate) const LOCKED: usize = 1;
/// Somebody waits for a change.
pub(crate) const WAITERS: usize = 2;
/// The transaction in turn has read or written the variable: nobody else may lock.
pub(crate) const HELD: usize = 4;
const FLAGS: usize = LOCKED | WAITERS | HELD;

/// A value in the course of time; the beginning of a [`Holding`].
#[repr(C, align(8))]
pub(crate) struct Version {
    /// The number of its commit, written before it was published.
    number: u64,
    /// The version before.
    older: *const Version,
    /// Where the value was written.
    pub(crate) site: &'static Location<'static>,
}

/// A version with its value.
#[repr(C)]
pub(crate) struct Holding<T> {
    version: Version,
    pub(crate) value: T,
}

impl<T> Holding<T> {
    /// A version that is not published yet.
    #[inline]
    pub(crate) fn make(value: T, site: &'static Location<'static>) -> NonNull<Version> {
        let version = Version { number: 0, older: ptr::null(), site };
        NonNull::from(Box::leak(Box::new(Self { version, value }))).cast()
    }

    /// # Safety
    /// The version holds a `T`, and is in memory for `'t`.
    #[inline]
    pub(crate) unsafe fn value<'t>(version: NonNull<Version>) -> &'t T {
        // SAFETY: as the caller promises; a published value does not change, and neither does one
        // of an attempt.
        unsafe { &version.cast::<Self>().as_ref().value }
    }
}

impl Version {
    /// The number of its commit.
    ///
    /// # Safety
    /// A snapshot has begun before the version was found, in a word that was not LOCKED, and has
    /// not ended. (Then the version is replaced, if at all, by a commit after the snapshot's
    /// number: of a commit that has its number already, the snapshot's load of the clock would have
    /// brought the locks along, and the word would be LOCKED. So the version is kept for the
    /// snapshot.)
    #[inline]
    pub(crate) unsafe fn number(this: NonNull<Self>) -> u64 {
        // SAFETY: as the caller promises, the version is kept for a snapshot.
        unsafe { (*this.as_ptr()).number }
    }

    /// The newest version that is not newer than `number`, from this one back.
    ///
    /// # Safety
    /// As for [`number`](Version::number); `number` is the snapshot's, or that of its beginning.
    #[cold]
    pub(crate) unsafe fn as_of(mut this: NonNull<Self>, number: u64) -> NonNull<Self> {
        // SAFETY: the version that was found is in memory; and the one before a version that is
        // newer than the snapshot was replaced after the snapshot's beginning. A variable's first
        // version has the number 0.
        unsafe {
            while (*this.as_ptr()).number > number {
                this = NonNull::new_unchecked((*this.as_ptr()).older.cast_mut());
            }
        }
        this
    }
}

/// Compares the values of two versions.
type Differ = unsafe fn(NonNull<Version>, NonNull<Version>) -> bool;

/// The code for values of one type.
pub(crate) struct Kind {
    /// Frees a version, with its value.
    ///
    /// # Safety
    /// Nobody reaches the version, which is of this kind.
    pub(crate) free: unsafe fn(NonNull<Version>),
    /// Whether the drop of a value has an effect.
    pub(crate) has_drop: bool,
    /// Whether two values differ, where that can be asked.
    ///
    /// # Safety
    /// Both versions are in memory, and of this kind.
    pub(crate) differ: Option<Differ>,
}

impl Kind {
    pub(crate) const fn of<T>() -> Self {
        Self { free: free::<T>, has_drop: std::mem::needs_drop::<T>(), differ: None }
    }

    pub(crate) const fn of_comparable<T: PartialEq>() -> Self {
        Self { differ: Some(differ::<T>), ..Self::of::<T>() }
    }
}

/// # Safety
/// As for [`Kind::free`].
unsafe fn free<T>(version: NonNull<Version>) {
    // SAFETY: `Holding::make` has made a box of this, and nobody else has the version.
    drop(unsafe { Box::from_raw(version.cast::<Holding<T>>().as_ptr()) });
}

/// # Safety
/// As for [`Kind::differ`].
unsafe fn differ<T: PartialEq>(one: NonNull<Version>, other: NonNull<Version>) -> bool {
    // SAFETY: as the caller promises, both hold a `T` and are in memory.
    unsafe { Holding::<T>::value(one) != Holding::<T>::value(other) }
}

/// A variable, without its type.
pub(crate) struct Head {
    word: AtomicPtr<Version>,
    handles: AtomicUsize,
    pub(crate) kind: &'static Kind,
    pub(crate) name: Option<&'static str>,
    /// Where the variable was made.
    pub(crate) place: &'static Location<'static>,
    /// Those that wait for a change of the version, each with a `retry`.
    pub(crate) waiters: WaitQueue<(), ()>,
}

/// The content of a word.
#[derive(Clone, Copy)]
pub(crate) struct Word(*mut Version);

impl Word {
    #[inline]
    pub(crate) fn has(self, flags: usize) -> bool {
        self.0.addr() & flags != 0
    }

    #[inline]
    pub(crate) fn version(self) -> NonNull<Version> {
        // SAFETY: a word has the address of a version, which is aligned to 8.
        unsafe { NonNull::new_unchecked(self.0.map_addr(|address| address & !FLAGS)) }
    }
}

/// How often to look at a locked word before the time slice is given away.
const SPINS: u32 = 64;

impl Head {
    pub(crate) fn make(
        first: NonNull<Version>,
        kind: &'static Kind,
        name: Option<&'static str>,
        place: &'static Location<'static>,
    ) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(Self {
            word: AtomicPtr::new(first.as_ptr()),
            handles: AtomicUsize::new(1),
            kind,
            name,
            place,
            waiters: WaitQueue::new(()),
        })))
    }

    /// Frees a variable with its last version.
    ///
    /// # Safety
    /// Nobody reaches the variable.
    pub(crate) unsafe fn free(this: NonNull<Self>) {
        // SAFETY: `make` has made a box of this, which nobody else reaches, nor its version.
        unsafe {
            let head = Box::from_raw(this.as_ptr());
            (head.kind.free)(head.load().version());
        }
    }

    /// One more handle.
    #[inline]
    pub(crate) fn share(&self) {
        // As in an `Arc`: a count that overflows is of handles that were forgotten.
        if self.handles.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            std::process::abort();
        }
    }

    /// One more handle, unless the last one has gone.
    pub(crate) fn try_share(&self) -> bool {
        let mut handles = self.handles.load(Ordering::Relaxed);
        while handles != 0 {
            match self.handles.compare_exchange_weak(handles, handles + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => handles = now,
            }
        }
        false
    }

    /// Whether there is another handle beside the caller's.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.handles.load(Ordering::Relaxed) > 1
    }

    /// One handle less; answers whether it was the last.
    #[inline]
    pub(crate) fn unshare(&self) -> bool {
        // No fence after the last one, which the thread sanitizer would not see.
        self.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// The word once no commit is under way there.
    #[cold]
    pub(crate) fn load_unlocked(&self) -> Word {
        let mut spins = 0;
        loop {
            let word = self.load();
            if !word.has(LOCKED) {
                return word;
            }
            pause(&mut spins);
        }
    }

    /// Sets a flag if the word has none of those that `exclude` it. The answer is the word before,
    /// or the one that has excluded the flag.
    #[inline]
    pub(crate) fn set_unless(&self, flag: usize, exclude: usize) -> Result<Word, Word> {
        let mut word = self.load();
        loop {
            if word.has(exclude) {
                return Err(word);
            }
            let with = word.0.map_addr(|address| address | flag);
            match self.word.compare_exchange_weak(word.0, with, Ordering::Acquire, Ordering::Acquire) {
                // The address of the version that is there now, which an equal one may not be.
                Ok(before) => return Ok(Word(before)),
                Err(now) => word = Word(now),
            }
        }
    }

    /// Sets a flag, and answers the word before.
    pub(crate) fn set(&self, flag: usize) -> Word {
        self.update(|address| address | flag)
    }

    /// Takes a flag off.
    pub(crate) fn clear(&self, flag: usize) {
        self.update(|address| address & !flag);
    }

    fn update(&self, change: impl Fn(usize) -> usize) -> Word {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let changed = word.map_addr(&change);
            match self.word.compare_exchange_weak(word, changed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Word(before),
                Err(now) => word = now,
            }
        }
    }

    /// Publishes a version in the place of `before`, and takes all flags off; answers whether
    /// somebody waits.
    ///
    /// # Safety
    /// The caller has locked the word, and nobody else knows `new`, which is of this variable's
    /// kind.
    #[inline]
    pub(crate) unsafe fn publish(&self, new: NonNull<Version>, number: u64, before: NonNull<Version>) -> bool {
        // SAFETY: as the caller promises, nobody else knows the new version.
        unsafe {
            (*new.as_ptr()).number = number;
            (*new.as_ptr()).older = before.as_ptr();
        }
        Word(self.word.swap(new.as_ptr(), Ordering::AcqRel)).has(WAITERS)
    }
}

/// Lets some time pass, for a holder of a lock that will not take long.
#[inline]
pub(crate) fn pause(spins: &mut u32) {
    *spins += 1;
    if spins.is_multiple_of(SPINS) { yield_now() } else { spin_loop() }
}
