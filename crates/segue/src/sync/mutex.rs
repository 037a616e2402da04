//! A value that one at a time may use, with a guard that may be held across waits and moved between
//! threads.
//!
//! Used by fibers, threads and tasks alike, and by [`Condvar`](super::Condvar).
//!
//! # States
//!
//! One word of four bits; the waiters stand in the queue.
//!
//! ```text
//!   -         --lock-----------------------------------------> LOCKED             anybody, by an exchange of the word
//!   LOCKED    --lock fails under the queue's lock------------> LOCKED WAITERS     it joins the queue next
//!   LOCKED    --unlock---------------------------------------> -                  the holder, by one subtraction
//!   WAITERS   --the unlocker tells the first-----------------> WAITERS? TOLD      under the queue's lock; the mutex is free
//!   TOLD      --lock, by the one that was told---------------> LOCKED             or by any locker before it: then TOLD stays
//!   LOCKED TOLD --the one that was told finds it taken-------> LOCKED WAITERS FAIR   it queues again, at the front
//!   FAIR      --the unlocker hands over to the first---------> LOCKED             nobody else may lock while FAIR is set
//! ```
//!
//! | bit | changed by | invariant |
//! | --- | --- | --- |
//! | LOCKED | set by the locker, by an exchange; cleared by the holder | there is one guard, or one waiter that was handed the lock |
//! | WAITERS | the holder of the queue's lock | set if the queue is not empty; may be left over |
//! | TOLD | set under the queue's lock, cleared by the one that was told | one waiter was told and has not attempted since |
//! | FAIR | the holder of the queue's lock | set if the first in the queue was told in vain; may be left over while LOCKED |
//!
//! **The next holder** is the first to come (barging). A lock that is passed on to a waiter that
//! has yet to run lies idle meanwhile, and under load every lock would then cost a switch. But the
//! unlocker tells a waiter, one at a time, and a waiter that was told and finds the mutex taken
//! again gets it at the very next unlock, before everybody else. So a waiter is overtaken only
//! until its first turn. That is a bound in turns and not in numbers: for a fiber one turn of its
//! worker's. A plain thread runs after the operating system's wake-up, which takes tens of
//! microseconds where a processor is free, and longer where none is; a mutex that is held for
//! nanoseconds is locked thousands of times meanwhile, and many more on a busy machine.
//!
//! **Commit point**: the exchange of the word, or the claim by which the lock is handed over.
//! **Idle**: no bit, empty queue.
//!
//! **Cancellation**: a waiter leaves the queue, and the bits are mended. One that was handed the
//! lock and has gone unlocks; one that was told and has gone tells the next. One that was told and
//! is there attempts before anything else, also as an arm of a select (R12 of the contract), and
//! TOLD is cleared by that attempt, whether or not it succeeds. So no waiter that leaves later has
//! a notification to pass on.
//!
//! **The race to fear**: a lost wake-up, that is a free mutex with waiters, none of them told. The
//! unlocker skips the queue only if the subtraction itself shows that nobody waits, or that a
//! waiter is told. The told waiter attempts later than the unlock. If the attempt fails, there is
//! another holder, and the exchange by which the waiter sees LOCKED leaves FAIR in the word. So
//! that holder's unlock goes to the queue.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the subtraction of LOCKED | the exchange that sets it | the value |
//! | the claim | the waiter's look at its trigger | the value, when the lock is handed over; the unlocker has acquired the word |
//!
//! All changes of the word are read-modify-writes, so each acquires what any unlock before has
//! released.
//!
//! **The owner's word** is a record for dumps, and decides nothing: each locker notes itself, an
//! unlock that takes the slow way clears the word.
//!
//! After the mutex of parking_lot and `sync.Mutex` of Go. They hand the lock over to starving
//! waiters too, but after a millisecond.
#![allow(unsafe_code)] // The cell behind the lock.

use segue_core::{
    Cancelled, Guard, Operation, Owner, Source, Unlocked, WaitQueue, Waitable, Waiting, WaitsFor, admit,
    preemption_point,
};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;
const TOLD: u32 = 4;
const FAIR: u32 = 8;

/// The content of a waiter's slot. Nothing, in a first wait, and after a notification.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Told before, and found the mutex taken: the next unlock hands over.
    Overtaken,
    /// Has the lock.
    Handed,
}

/// The lock without the value.
#[derive(Default)]
struct Raw {
    word: AtomicU32,
    /// Noted by each locker, for dumps.
    owner: Owner,
    queue: WaitQueue<(), Standing>,
}

impl Raw {
    /// Locks a free mutex. A waiter that was `overtaken` ignores FAIR.
    #[inline]
    fn try_lock(&self, overtaken: bool, told: bool) -> bool {
        let closed = if overtaken { LOCKED } else { LOCKED | FAIR };
        let told = if told { TOLD } else { 0 };
        let lock = |word: u32| (word & closed == 0).then_some((word | LOCKED) & !told);
        self.word.try_update(Ordering::Acquire, Ordering::Relaxed, lock).is_ok()
    }

    /// The first look, by which a free mutex that nobody wants is locked.
    #[inline]
    fn try_lock_idle(&self) -> bool {
        self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn unlock(&self) {
        let before = self.word.fetch_sub(LOCKED, Ordering::Release);
        if before != LOCKED {
            self.unlocked(before);
        }
    }

    #[cold]
    #[inline(never)]
    fn unlocked(&self, before: u32) {
        self.owner.clear_own();
        if before & TOLD == 0 {
            self.pass_on(&mut self.queue.lock());
        }
    }

    /// Tells a waiter that the mutex is free, or hands the lock over, if nobody else has it or is
    /// told; and mends the bits.
    fn pass_on(&self, queue: &mut Guard<'_, (), Standing>) {
        let word = self.word.load(Ordering::Relaxed);
        if word & LOCKED == 0 && queue.first(0) == Some(&Standing::Overtaken) {
            // FAIR is set, since that one waits; so nobody locks but another one that was told.
            let locked = self.word.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0;
            if locked {
                self.owner.hand_over();
            }
            if locked && queue.hand_over(0, Standing::Handed).is_err() {
                self.word.fetch_sub(LOCKED, Ordering::Release);
            }
        } else if word & (LOCKED | TOLD) == 0 && !queue.is_empty(0) {
            self.word.fetch_or(TOLD, Ordering::Relaxed);
            if !queue.notify_one(0) {
                self.word.fetch_and(!TOLD, Ordering::Relaxed);
            }
        }
        self.mend(queue);
    }

    /// Makes WAITERS and FAIR agree with the queue.
    fn mend(&self, queue: &Guard<'_, (), Standing>) {
        let waiters = if queue.is_empty(0) { 0 } else { WAITERS };
        let fair = if queue.first(0) == Some(&Standing::Overtaken) { FAIR } else { 0 };
        self.word.update(Ordering::Relaxed, Ordering::Relaxed, |word| word & !(WAITERS | FAIR) | waiters | fair);
    }
}

/// Mutual exclusion around a value.
///
/// As [`std::sync::Mutex`], with these differences. A waiting fiber is suspended, and its thread is
/// not. The guard may be held across waits, and is `Send` if the value is, so a task may hold it
/// across an `.await`. A wait can be cancelled. There is no poisoning: a panic unlocks, and the
/// value stays as after the panic; where half a change must not be seen, wrap the value in a
/// [`Poison`](super::Poison).
///
/// A fiber that locks a mutex of its own a second time waits for itself, which the simulator
/// reports as a deadlock.
///
/// # Fairness
///
/// The first to come takes an unlocked mutex, which keeps short critical sections fast. Unlocks
/// tell the waiters in the order in which they came; a waiter that was told but finds the mutex
/// taken again gets the lock at the next unlock, before everybody else. So nobody starves.
///
/// # Examples
///
/// ```
/// use segue::sync::Mutex;
///
/// let total = Mutex::new(0);
/// segue::scope(|s| {
///     for n in 1..=4 {
///         let total = &total;
///         s.spawn(move || total.lock().map(|mut total| *total += n));
///     }
/// });
/// assert_eq!(total.into_inner(), 10);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    raw: Raw,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex owns its value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: a shared mutex gives the value to one guard at a time: it moves between threads and is
// never shared by them.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex around `value`.
    #[inline]
    pub const fn new(value: T) -> Self {
        let raw = Raw { word: AtomicU32::new(0), owner: Owner::new(), queue: WaitQueue::new(()) };
        Self { raw, value: UnsafeCell::new(value) }
    }

    /// The value. Nobody else has the mutex, so no lock is needed.
    #[inline]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks the mutex, after waiting while somebody else has the lock.
    ///
    /// In a task, `lock_source().await`. (`lock().await` does not compile. rustc advises to remove
    /// the `.await`; the rest parks the thread that polls.)
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. In a `Drop` during a panic, where a fiber can't wait, the
    /// call locks a free mutex, and counts as cancelled at a locked one.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline(always)] // With the note of the owner it would become a function: half as much again.
    #[track_caller]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Cancelled> {
        admit()?;
        if self.raw.try_lock_idle() { Ok(self.guard_of_caller()) } else { self.lock_slowly() }
    }

    /// As [`lock`](Mutex::lock), for reports that name something else than a mutex.
    #[track_caller]
    pub(crate) fn lock_for(&self, waits_for: WaitsFor) -> Result<MutexGuard<'_, T>, Cancelled> {
        admit()?;
        if self.raw.try_lock_idle() {
            Ok(self.guard_of_caller())
        } else {
            Waitable::new(self.locking(waits_for)).wait()
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_slowly(&self) -> Result<MutexGuard<'_, T>, Cancelled> {
        if self.raw.try_lock(false, false) {
            return Ok(self.guard_of_caller());
        }
        let guard = self.lock_source().wait()?;
        self.raw.owner.note_caller();
        Ok(guard)
    }

    #[inline]
    pub(super) fn locking(&self, waits_for: WaitsFor) -> Waiting<'_, Lock<'_, T>, (), Standing> {
        self.raw.queue.operation(waits_for, Lock { mutex: self, told: false, overtaken: false })
    }

    /// [`lock`](Mutex::lock) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; with a lock that was handed over by then, the mutex is
    /// unlocked.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let log = segue::sync::Mutex::new(Vec::new());
    /// log.lock_source().await.push("from a task");
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock_source(&self) -> Waitable<impl Source<Output = MutexGuard<'_, T>>> {
        Waitable::new(self.locking(WaitsFor::new("a mutex")))
    }

    /// Locks a free mutex. Never waits.
    ///
    /// A mutex that is about to be handed to a waiter is not free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        preemption_point();
        self.raw.try_lock(false, false).then(|| self.guard())
    }

    /// The value, to change. Nobody else has the mutex, so no lock is needed.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// For a caller that has just locked.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        self.raw.owner.note();
        MutexGuard { mutex: self, value: PhantomData }
    }

    /// The same, for a caller that is no task.
    #[inline(always)]
    #[track_caller]
    fn guard_of_caller(&self) -> MutexGuard<'_, T> {
        self.raw.owner.note_caller();
        MutexGuard { mutex: self, value: PhantomData }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Mutex");
        match self.try_lock() {
            Some(guard) => out.field("value", &&*guard),
            None => out.field("value", &format_args!("<locked>")),
        };
        out.finish()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

/// Locks a mutex.
pub(super) struct Lock<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// TOLD is set for this waiter.
    told: bool,
    /// This waiter was told, and found the mutex taken.
    overtaken: bool,
}

impl<'a, T: ?Sized> Lock<'a, T> {
    #[inline]
    fn lock(&mut self) -> Option<MutexGuard<'a, T>> {
        if !self.mutex.raw.try_lock(self.told || self.overtaken, self.told) {
            return None;
        }
        self.told = false;
        Some(self.mutex.guard())
    }

    /// Whether the mutex is free for this one; if not, the bits are set for its joining the queue.
    fn is_free(&mut self) -> bool {
        let insists = self.told || self.overtaken;
        let (closed, set) = if insists { (LOCKED, WAITERS | FAIR) } else { (LOCKED | FAIR, WAITERS) };
        let told = if self.told { TOLD } else { 0 };
        let wait = |word: u32| (word & closed != 0).then_some((word | set) & !told);
        let is_free = self.mutex.raw.word.try_update(Ordering::Relaxed, Ordering::Relaxed, wait).is_err();
        if !is_free {
            (self.told, self.overtaken) = (false, insists);
        }
        is_free
    }
}

impl<'a, T: ?Sized> Operation<(), Standing> for Lock<'a, T> {
    type Output = MutexGuard<'a, T>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<MutexGuard<'a, T>> {
        match self.lock() {
            Some(guard) => Unlocked::Done(guard),
            None if !self.may_be_ready() => Unlocked::No,
            None => Unlocked::Look,
        }
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        self.told || self.mutex.raw.word.load(Ordering::Relaxed) & LOCKED == 0
    }

    fn attempt(&mut self, _: &mut Guard<'_, (), Standing>) -> Option<MutexGuard<'a, T>> {
        while self.is_free() {
            let guard = self.lock();
            if guard.is_some() {
                return guard;
            }
        }
        None
    }

    fn is_ready(&mut self, _: &mut Guard<'_, (), Standing>) -> bool {
        self.is_free()
    }

    fn owner(&self) -> Option<&Owner> {
        Some(&self.mutex.raw.owner)
    }

    fn place(&self) -> (usize, bool) {
        (0, self.overtaken)
    }

    fn offer(&mut self) -> Option<Standing> {
        self.overtaken.then_some(Standing::Overtaken)
    }

    fn retract(&mut self, _: Option<Standing>, queue: &mut Guard<'_, (), Standing>) {
        // If this waiter was overtaken, the next in the queue was not.
        self.mutex.raw.pass_on(queue);
    }

    #[inline]
    fn commit(&mut self, slot: Option<Standing>) -> Option<MutexGuard<'a, T>> {
        if slot == Some(Standing::Handed) {
            return Some(self.mutex.guard());
        }
        self.told = true;
        None
    }

    fn give_back(&mut self, slot: Option<Standing>, queue: &mut Guard<'_, (), Standing>) -> Option<Standing> {
        let raw = &self.mutex.raw;
        if slot == Some(Standing::Handed) {
            raw.word.fetch_sub(LOCKED, Ordering::Release);
        } else {
            // This waiter was told, and will not lock: the next one is told.
            raw.word.fetch_and(!TOLD, Ordering::Relaxed);
        }
        raw.pass_on(queue);
        None
    }
}

/// The right to use a mutex' value. The mutex is unlocked when this is dropped, on any thread.
///
/// A guard that is forgotten leaves the mutex locked.
#[must_use = "the mutex is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Shared and sent as an exclusive reference is.
    value: PhantomData<&'a mut T>,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The locked mutex.
    #[must_use]
    pub fn mutex(guard: &Self) -> &'a Mutex<T> {
        guard.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the mutex is locked, and this is its one guard, which is borrowed.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is locked, and this is its one guard, which is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        preemption_point();
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
