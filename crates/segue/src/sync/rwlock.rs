//! A value that many may read at once, or one may change.
//!
//! Used where reads are frequent and long enough to be worth sharing; else a
//! [`Mutex`](super::Mutex) is cheaper.
//!
//! # States
//!
//! One word: the number of readers, and two bits. Readers and writers wait in a list each.
//!
//! ```text
//!   free       --read-----> 1 reader     anybody, by an exchange of the word
//!   n readers  --read-----> n + 1        anybody, by an exchange
//!   free       --write----> WRITER       anybody, by an exchange
//!   n readers  --unlock---> n - 1        by a subtraction; the last one serves, if WAITERS is set
//!   WRITER     --unlock---> free         by an exchange; if WAITERS is set, under the queue's lock, which serves
//! ```
//!
//! While WAITERS is set nobody enters on its own: the holder of the queue's lock hands the lock
//! over, to all readers that wait, or to one writer. If a waiter stands in a list, the bit is set;
//! it may be left over.
//!
//! **Order**: a writer that waits holds off new readers. When a writer unlocks, the readers that
//! wait by then enter together, and before the next writer; when the last reader leaves, the first
//! writer enters. So under load the two alternate, and neither starves. Writers among themselves
//! are served first in, first out.
//!
//! **Commit point**: the exchange of the word, or the claim. **Idle**: a word of zero, empty lists.
//! **Cancellation**: the waiter leaves its list; a writer that leaves lets in the readers that it
//! held off. A waiter that was served and has gone unlocks.
//!
//! **The race to fear**: the last reader leaves while a writer is about to queue. The writer sets
//! WAITERS by an exchange that fails if the number has changed meanwhile, and the reader sees the
//! bit in its subtraction. Between that and its look under the lock others may serve; it looks at
//! the word again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | a reader's subtraction, a writer's unlock | the exchange that enters; `serve`, before it claims | the value, and that it is not read any more |
//! | the claim | the waiter's look at its trigger | the same, when the lock is handed over |
//!
//! After the phase-fair locks of Brandenburg and Anderson (2010).
#![allow(unsafe_code)] // The cell behind the lock.

use segue_core::{
    Cancelled, Guard, Operation, Owner, Source, Unlocked, WaitQueue, Waitable, Waiting, WaitsFor, admit,
    preemption_point,
};
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rwlock_guard::{RwLockGuard, RwLockReadGuard, RwLockWriteGuard};

const WRITER: usize = 1;
const WAITERS: usize = 2;
const READER: usize = 4;
/// Guards can be forgotten, so their number has a limit of its own.
const MOST: usize = usize::MAX / 2;

/// The lists of the queue.
const READERS: usize = 0;
const WRITERS: usize = 1;

type Queue<'a> = Guard<'a, (), (), 2>;

/// The lock without the value.
#[derive(Default)]
pub(super) struct Raw {
    word: AtomicUsize,
    /// The writer, for dumps; nobody while there is none.
    owner: Owner,
    queue: WaitQueue<(), (), 2>,
}

impl Raw {
    /// Enters if nobody is in the way; `past` are the bits that do not matter.
    #[inline]
    fn enter(&self, write: bool, past: usize) -> bool {
        let (closed, entry) = if write { (!past, WRITER) } else { ((WRITER | WAITERS) & !past, READER) };
        let enter = |word: usize| {
            (word & closed == 0).then(|| {
                assert!(word < MOST, "an RwLock has too many readers");
                word + entry
            })
        };
        self.word.try_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Whether a holder keeps such a one out.
    #[inline]
    fn is_held(&self, write: bool) -> bool {
        self.word.load(Ordering::Relaxed) & if write { !WAITERS } else { WRITER } != 0
    }

    /// Enters if nobody is in the way or waits.
    #[inline]
    fn try_enter(&self, write: bool) -> bool {
        // The second look settles whether somebody waits: the bit alone may be left over.
        self.enter(write, 0)
            || (self.word.load(Ordering::Relaxed) & WAITERS != 0
                && self.among_waiters(|queue| {
                    self.dismiss_cancelled(queue);
                    self.mend(queue);
                    self.enter(write, 0)
                }))
    }

    #[cold]
    fn among_waiters<R>(&self, f: impl FnOnce(&mut Queue<'_>) -> R) -> R {
        f(&mut self.queue.lock())
    }

    /// A waiter that was cancelled and has not noticed yet holds nobody off.
    fn dismiss_cancelled(&self, queue: &mut Queue<'_>) {
        if queue.dismiss_cancelled(WRITERS) | queue.dismiss_cancelled(READERS) {
            self.serve(queue, WRITERS);
        }
    }

    /// Whether one of that kind may enter, and nobody is before it; if not, WAITERS is set, for it
    /// to join its list.
    fn is_ready(&self, write: bool, queue: &mut Queue<'_>) -> bool {
        self.dismiss_cancelled(queue);
        let is_first = queue.is_empty(WRITERS) && (!write || queue.is_empty(READERS));
        let closed = if write { !WAITERS } else { WRITER };
        let wait = |word: usize| (!is_first || word & closed != 0).then_some(word | WAITERS);
        self.word.try_update(Ordering::Relaxed, Ordering::Relaxed, wait).is_err()
    }

    #[inline]
    pub(super) fn unlock(&self, write: bool) {
        if write {
            self.owner.forget();
            if self.word.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
                self.among_waiters(|queue| self.give_back(true, queue));
            }
        } else {
            let before = self.word.fetch_sub(READER, Ordering::Release);
            if before < 2 * READER && before & WAITERS != 0 {
                self.among_waiters(|queue| self.serve(queue, WRITERS));
            }
        }
    }

    fn give_back(&self, write: bool, queue: &mut Queue<'_>) {
        let (entry, first) = if write { (WRITER, READERS) } else { (READER, WRITERS) };
        self.word.fetch_sub(entry, Ordering::Release);
        self.serve(queue, first);
    }

    /// A writer goes on as a reader.
    pub(super) fn downgrade(&self) {
        self.owner.forget();
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & WAITERS != 0 {
            self.among_waiters(|queue| self.serve(queue, READERS));
        }
    }

    /// Lets in the waiters that can enter, `first` one kind, then the other, and mends the bit.
    fn serve(&self, queue: &mut Queue<'_>, first: usize) {
        // While the word is free, readers or a writer are let in, whichever comes first.
        if first == READERS || queue.is_empty(WRITERS) {
            self.admit_readers(queue);
        }
        self.admit_writer(queue);
        if queue.is_empty(WRITERS) {
            self.admit_readers(queue);
        }
        self.mend(queue);
    }

    /// Takes away a bit that is left over.
    fn mend(&self, queue: &Queue<'_>) {
        if !queue.has_waiters() {
            self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        }
    }

    fn admit_readers(&self, queue: &mut Queue<'_>) {
        while !queue.is_empty(READERS) && self.enter(false, WAITERS) {
            if !queue.notify_one(READERS) {
                self.word.fetch_sub(READER, Ordering::Release);
            }
        }
    }

    fn admit_writer(&self, queue: &mut Queue<'_>) {
        if !queue.is_empty(WRITERS) && self.enter(true, WAITERS) && !queue.notify_one(WRITERS) {
            self.word.fetch_sub(WRITER, Ordering::Release);
        }
    }
}

/// A lock that many readers may have at once, or one writer.
///
/// As [`std::sync::RwLock`], with the differences that [`Mutex`](super::Mutex) has: a waiting fiber
/// is suspended and its thread is not, guards may be held across waits and sent to other threads, a
/// wait can be cancelled, and nothing is poisoned (see [`Poison`](super::Poison)).
///
/// # Fairness
///
/// A writer that waits holds off new readers, so a reader must not wait to read once more. When a
/// writer unlocks, the readers that wait enter together, before the next writer. Neither side
/// starves.
///
/// # Examples
///
/// ```
/// use segue::sync::RwLock;
///
/// let lock = RwLock::new(5);
/// {
///     let (one, two) = (lock.read()?, lock.read()?);
///     assert_eq!(*one + *two, 10);
/// }
/// *lock.write()? += 1;
/// assert_eq!(lock.into_inner(), 6);
/// # Ok::<(), segue::Cancelled>(())
/// ```
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    pub(super) raw: Raw,
    pub(super) value: UnsafeCell<T>,
}

// SAFETY: the lock owns its value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: a shared lock gives the value to one writer at a time, hence `Send`, or to several
// readers, hence `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        let raw = Raw { word: AtomicUsize::new(0), owner: Owner::new(), queue: WaitQueue::new(()) };
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// The value. Nobody else has the lock.
    #[inline]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Locks for reading, after waiting while somebody writes or waits to write.
    ///
    /// In a task, `read_source().await`, and not this, which parks the thread that polls.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. During a panic as for [`Mutex::lock`](super::Mutex::lock).
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If there are more readers than an eighth of what a `usize` can count, of which most were
    /// forgotten.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> Result<RwLockReadGuard<'_, T>, Cancelled> {
        self.lock()
    }

    /// [`read`](RwLock::read) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; if it had the lock by then, it is unlocked.
    ///
    /// # Panics
    /// As for [`read`](RwLock::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let lock = segue::sync::RwLock::new(5);
    /// assert_eq!(*lock.read_source().await, 5);
    /// *lock.write_source().await = 6;
    /// # }
    /// ```
    #[track_caller]
    pub fn read_source(&self) -> Waitable<impl Source<Output = RwLockReadGuard<'_, T>>> {
        self.lock_source()
    }

    /// Locks for reading if nobody writes or waits to write. Never waits.
    ///
    /// # Panics
    /// As for [`read`](RwLock::read).
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.try_lock()
    }

    /// Locks for writing, after waiting while anybody else has the lock or came before.
    ///
    /// In a task, `write_source().await`, and not this, which parks the thread that polls.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; the readers that it held off enter. During a panic as for
    /// [`Mutex::lock`](super::Mutex::lock).
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> Result<RwLockWriteGuard<'_, T>, Cancelled> {
        self.lock()
    }

    /// [`write`](RwLock::write) as a source.
    ///
    /// # Cancellation
    /// As for [`read_source`](RwLock::read_source).
    #[track_caller]
    pub fn write_source(&self) -> Waitable<impl Source<Output = RwLockWriteGuard<'_, T>>> {
        self.lock_source()
    }

    /// Locks for writing if nobody has the lock or waits for it. Never waits.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.try_lock()
    }

    /// The value, to change. Nobody else has the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[inline]
    #[track_caller]
    fn lock<const WRITE: bool>(&self) -> Result<RwLockGuard<'_, T, WRITE>, Cancelled> {
        admit()?;
        if self.raw.enter(WRITE, 0) { Ok(self.guard_of_caller()) } else { self.lock_slowly() }
    }

    #[cold]
    #[track_caller]
    fn lock_slowly<const WRITE: bool>(&self) -> Result<RwLockGuard<'_, T, WRITE>, Cancelled> {
        let guard = self.lock_source().wait()?;
        if WRITE {
            self.raw.owner.note_caller();
        }
        Ok(guard)
    }

    /// For a caller that has just locked, and is no task.
    #[inline]
    #[track_caller]
    fn guard_of_caller<const WRITE: bool>(&self) -> RwLockGuard<'_, T, WRITE> {
        if WRITE {
            self.raw.owner.note_caller();
        }
        RwLockGuard { lock: self }
    }

    /// The same, for any caller.
    #[inline]
    fn guard<const WRITE: bool>(&self) -> RwLockGuard<'_, T, WRITE> {
        if WRITE {
            self.raw.owner.note();
        }
        RwLockGuard { lock: self }
    }

    #[inline]
    #[track_caller]
    fn lock_source<const WRITE: bool>(&self) -> Waitable<Waiting<'_, Enter<'_, T, WRITE>, (), (), 2>> {
        let waits_for = WaitsFor::new(if WRITE { "an RwLock, to write" } else { "an RwLock, to read" });
        Waitable::new(self.raw.queue.operation(waits_for, Enter(self)))
    }

    #[inline]
    fn try_lock<const WRITE: bool>(&self) -> Option<RwLockGuard<'_, T, WRITE>> {
        preemption_point();
        self.raw.try_enter(WRITE).then(|| self.guard())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        match self.try_read() {
            Some(guard) => out.field("value", &&*guard),
            None => out.field("value", &format_args!("<locked>")),
        };
        out.finish()
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// Locks for reading, or for writing.
struct Enter<'a, T: ?Sized, const WRITE: bool>(&'a RwLock<T>);

impl<'a, T: ?Sized, const WRITE: bool> Operation<(), (), 2> for Enter<'a, T, WRITE> {
    type Output = RwLockGuard<'a, T, WRITE>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Self::Output> {
        if self.0.raw.enter(WRITE, 0) {
            Unlocked::Done(self.0.guard())
        } else if self.may_be_ready() {
            Unlocked::Look
        } else {
            Unlocked::No
        }
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        !self.0.raw.is_held(WRITE)
    }

    fn attempt(&mut self, queue: &mut Queue<'_>) -> Option<Self::Output> {
        while self.0.raw.is_ready(WRITE, queue) {
            if self.0.raw.enter(WRITE, WAITERS) {
                self.0.raw.mend(queue);
                return Some(self.0.guard());
            }
        }
        None
    }

    fn is_ready(&mut self, queue: &mut Queue<'_>) -> bool {
        self.0.raw.is_ready(WRITE, queue)
    }

    fn owner(&self) -> Option<&Owner> {
        Some(&self.0.raw.owner)
    }

    fn place(&self) -> (usize, bool) {
        (if WRITE { WRITERS } else { READERS }, false)
    }

    fn retract(&mut self, _: Option<()>, queue: &mut Queue<'_>) {
        self.0.raw.serve(queue, WRITERS);
    }

    #[inline]
    fn commit(&mut self, _: Option<()>) -> Option<Self::Output> {
        Some(self.0.guard())
    }

    fn give_back(&mut self, _: Option<()>, queue: &mut Queue<'_>) -> Option<()> {
        self.0.raw.give_back(WRITE, queue);
        None
    }
}
