//! A number of permits that are taken and given back, one or several at a time.
//!
//! Used to bound how many do something at once: requests in flight, open files, bytes in a buffer.
//!
//! # States
//!
//! One word holds the free permits and a bit that says that somebody may wait.
//!
//! ```text
//!   (permits, -)        --acquire n, n <= permits--> (permits - n, -)        anybody, by an exchange of the word
//!   (permits, -)        --acquire n, n > permits---> (permits, WAITERS)      under the queue's lock; it joins the queue next
//!   (permits, -)        --release n----------------> (permits + n, -)        anybody, by an exchange
//!   (permits, WAITERS)  --release n----------------> the waiters from the front take theirs, as long as it lasts
//!   (permits, WAITERS)  --a waiter leaves----------> the same: it may have been the one that the others waited behind
//! ```
//!
//! While WAITERS is set only the holder of the queue's lock changes the word. If the queue is not empty, the bit is set. The converse may fail: an attempt
//! that gave up, or a wait that ended under the lock, can leave the bit behind, which costs the next caller the lock and is then mended.
//!
//! A waiter's slot has the number that it asks for; it is taken out of the slot with the claim, and the same number out of the word. So permits are in one
//! place: in the word, or with a [`Permit`].
//!
//! **Order**: first in, first out, without exception. A large request at the front holds up all smaller ones behind it, and so is not starved by them; a
//! newcomer does not overtake either.
//!
//! **Commit point**: the exchange of the word, or the claim. **Idle**: no bit, empty queue. **Cancellation**: the waiter leaves the queue, and
//! whoever it stood before goes on if there is enough. One that was served and is dropped puts back what it got, in the same way as a release.
//!
//! **The race to fear**: a release that sees no waiter, while one that saw too few permits is about to queue. Both work on the one word: either the
//! release comes first, and the other's exchange to WAITERS fails and sees the permits, or it comes second and sees the bit.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the exchange that adds permits | the exchange that takes them | what was done under the permits |
//! | the claim | the waiter's look at its trigger | the same; whoever serves has acquired the word before |
//!
//! After the weighted semaphores of Go (`x/sync/semaphore`), which keep the same order.

use segue_core::{Cancelled, Guard, Operation, Source, WaitQueue, Waitable, WaitsFor, check, preemption_point, wait};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const WAITERS: usize = 1;
const SHIFT: u32 = 1;

/// Permits that any number of fibers, threads and tasks take and give back.
///
/// Strictly first in, first out: who asks for many is not starved by those who ask for few, and these wait behind it. A permit goes
/// back when it is dropped, on any thread.
///
/// # Examples
///
/// ```
/// use segue::sync::Semaphore;
///
/// let connections = Semaphore::new(2);
/// let first = connections.acquire()?;
/// let second = connections.acquire()?;
/// assert!(connections.try_acquire().is_none());
/// drop(first);
/// assert_eq!(connections.available_permits(), 1);
/// # Ok::<(), segue::Cancelled>(())
/// ```
pub struct Semaphore {
    /// The free permits, shifted, and WAITERS.
    word: AtomicUsize,
    waiters: WaitQueue<(), usize>,
}

impl Semaphore {
    /// The largest number of permits that a semaphore can have.
    pub const MAX_PERMITS: usize = usize::MAX >> SHIFT;

    /// A semaphore with this many free permits.
    ///
    /// # Panics
    /// If they are more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    pub const fn new(permits: usize) -> Self {
        assert!(permits <= Self::MAX_PERMITS, "a semaphore can't have that many permits");
        Self { word: AtomicUsize::new(permits << SHIFT), waiters: WaitQueue::new(()) }
    }

    /// Takes a permit, after waiting in line for it.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit<'_>, Cancelled> {
        self.acquire_many(1)
    }

    /// Takes `count` permits at once, after waiting in line for all of them; those that come later wait behind.
    ///
    /// More than there are can be asked for: it waits until somebody [adds](Semaphore::add_permits) to them.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; those behind go on if there is enough for them.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If `count` is more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS), which there can never be.
    ///
    /// # Examples
    ///
    /// ```
    /// let memory = segue::sync::Semaphore::new(1024);
    /// let mut buffer = memory.acquire_many(1000)?;
    /// drop(buffer.split(600));
    /// assert_eq!((buffer.count(), memory.available_permits()), (400, 624));
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire_many(&self, count: usize) -> Result<Permit<'_>, Cancelled> {
        check_count(count);
        check()?;
        if !self.take_unlocked(count) {
            return self.acquire_slowly(count, WaitsFor::new("a permit"));
        }
        Ok(Permit { semaphore: self, count })
    }

    #[cold]
    fn acquire_slowly(&self, count: usize, waits_for: WaitsFor) -> Result<Permit<'_>, Cancelled> {
        wait(&mut self.waiters.operation(waits_for, Acquire { semaphore: self, count }))
    }

    /// [`acquire`](Semaphore::acquire) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; a permit that it was handed by then goes to the next.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let connections = segue::sync::Semaphore::new(2);
    /// let permit = connections.acquire_source().await;
    /// assert_eq!(permit.count(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_source(&self) -> Waitable<impl Source<Output = Permit<'_>>> {
        self.acquire_many_source(1)
    }

    /// [`acquire_many`](Semaphore::acquire_many) as a source.
    ///
    /// # Cancellation
    /// As for [`acquire_source`](Semaphore::acquire_source).
    ///
    /// # Panics
    /// As for [`acquire_many`](Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_many_source(&self, count: usize) -> Waitable<impl Source<Output = Permit<'_>>> {
        check_count(count);
        let operation = Acquire { semaphore: self, count };
        Waitable::new(self.waiters.operation(WaitsFor::new("a permit"), operation))
    }

    /// As [`acquire`](Semaphore::acquire), for a permit that is not tied to a borrow.
    ///
    /// In a task, await the source and [make it owned](Permit::into_owned).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::Semaphore;
    /// use std::sync::Arc;
    ///
    /// let connections = Arc::new(Semaphore::new(1));
    /// let permit = Arc::clone(&connections).acquire_owned()?;
    /// segue::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(connections.available_permits(), 1);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, Cancelled> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Semaphore::acquire_many), for permits that are not tied to a borrow.
    ///
    /// # Cancellation
    /// As for [`acquire_many`](Semaphore::acquire_many).
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// As for [`acquire_many`](Semaphore::acquire_many).
    #[track_caller]
    pub fn acquire_many_owned(self: Arc<Self>, count: usize) -> Result<OwnedPermit, Cancelled> {
        Ok(self.acquire_many(count)?.into_owned(&self))
    }

    /// Takes a permit if one is free and nobody is in line for it. Never waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if so many are free and nobody is in line. Never waits.
    ///
    /// # Panics
    /// As for [`acquire_many`](Semaphore::acquire_many).
    #[inline]
    pub fn try_acquire_many(&self, count: usize) -> Option<Permit<'_>> {
        preemption_point();
        check_count(count);
        // The second look settles whether somebody waits: the bit alone may be left over.
        let taken = self.take_unlocked(count)
            || (self.word.load(Ordering::Relaxed) & WAITERS != 0 && {
                let queue = &mut self.waiters.lock();
                self.serve(queue);
                self.take_unlocked(count)
            });
        taken.then(|| Permit { semaphore: self, count })
    }

    /// Adds permits, which those in line take first. Never waits.
    ///
    /// Also the way to give back permits that were [forgotten](Permit::forget).
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS) free ones. A permit that is dropped after too many were added panics as well.
    #[inline]
    pub fn add_permits(&self, count: usize) {
        preemption_point();
        if count != 0 && !self.put_if(count, |word| word & WAITERS == 0) {
            self.release_slowly(count);
        }
    }

    /// How many permits are free at this moment.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        preemption_point();
        self.word.load(Ordering::Acquire) >> SHIFT
    }

    #[cold]
    fn release_slowly(&self, count: usize) {
        let mut queue = self.waiters.lock();
        self.put_if(count, |_| true);
        self.serve(&mut queue);
    }

    /// Takes `count` if they are there and the bit is not.
    #[inline]
    fn take_unlocked(&self, count: usize) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 && word >> SHIFT >= count {
            let less = word - (count << SHIFT);
            match self.word.compare_exchange_weak(word, less, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Adds `count` if `may` says so of the word.
    #[inline]
    fn put_if(&self, count: usize, may: impl Fn(usize) -> bool) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while may(word) {
            assert!(count <= Self::MAX_PERMITS - (word >> SHIFT), "a semaphore can't have that many permits");
            let more = word + (count << SHIFT);
            match self.word.compare_exchange_weak(word, more, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether `count` are there and nobody is in line; if not, the bit is set, for the caller to join the queue.
    fn is_ready(&self, count: usize, queue: &Guard<'_, (), usize>) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if queue.is_empty(0) && word >> SHIFT >= count {
                return true;
            }
            match self.word.compare_exchange_weak(word, word | WAITERS, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(now) => word = now,
            }
        }
    }

    /// Hands out what is there, from the front, and mends the bit.
    fn serve(&self, queue: &mut Guard<'_, (), usize>) {
        let mut permits = self.word.load(Ordering::Acquire) >> SHIFT;
        if !queue.is_empty(0) {
            // Somebody is in the queue, so the bit is set, and nobody else changes the word.
            loop {
                let mut wanted = None;
                let served = queue.exchange_if(0, &mut wanted, |wanted| wanted.is_some_and(|n| *n <= permits));
                if !served {
                    break;
                }
                permits -= wanted.expect("a waiter's slot has the number that it asks for");
            }
            self.word.store(permits << SHIFT | WAITERS, Ordering::Release);
        }
        if queue.is_empty(0) {
            self.word.fetch_and(!WAITERS, Ordering::Release);
        }
    }
}

#[inline]
#[track_caller]
fn check_count(count: usize) {
    assert!(count <= Semaphore::MAX_PERMITS, "a semaphore can't ever have {count} permits");
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Semaphore").field("available_permits", &self.available_permits()).finish_non_exhaustive()
    }
}

/// Takes a number of permits.
struct Acquire<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl<'a> Acquire<'a> {
    #[inline]
    fn permit(&self) -> Permit<'a> {
        Permit { semaphore: self.semaphore, count: self.count }
    }
}

impl<'a> Operation<(), usize> for Acquire<'a> {
    type Output = Permit<'a>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Option<Permit<'a>> {
        self.semaphore.take_unlocked(self.count).then(|| self.permit())
    }

    fn attempt(&mut self, queue: &mut Guard<'_, (), usize>) -> Option<Permit<'a>> {
        while self.semaphore.is_ready(self.count, queue) {
            // The queue is empty, so if the bit is set, it is left over.
            self.semaphore.serve(queue);
            if let Some(permit) = self.attempt_unlocked() {
                return Some(permit);
            }
        }
        None
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, (), usize>) -> bool {
        self.semaphore.is_ready(self.count, queue)
    }

    fn offer(&mut self) -> Option<usize> {
        Some(self.count)
    }

    fn retract(&mut self, _: Option<usize>, queue: &mut Guard<'_, (), usize>) {
        self.semaphore.serve(queue);
    }

    fn commit(&mut self, _: Option<usize>) -> Option<Permit<'a>> {
        Some(self.permit())
    }

    fn give_back(&mut self, _: Option<usize>, queue: &mut Guard<'_, (), usize>) -> Option<usize> {
        self.semaphore.put_if(self.count, |_| true);
        self.semaphore.serve(queue);
        None
    }
}

/// Permits of a [`Semaphore`], which go back when this is dropped.
#[must_use = "the permits go back when this is dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl<'a> Permit<'a> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps them from going back: the semaphore has that many less from now on.
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Takes `count` of them away into a permit of their own; `None` if they are not that many.
    pub fn split(&mut self, count: usize) -> Option<Permit<'a>> {
        self.count = self.count.checked_sub(count)?;
        Some(Permit { semaphore: self.semaphore, count })
    }

    /// Adds those of another permit to these.
    ///
    /// # Panics
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: Permit<'a>) {
        assert!(std::ptr::eq(self.semaphore, other.semaphore), "permits of different semaphores can't be merged");
        self.count += std::mem::take(&mut other.count);
    }

    /// The same permits, not tied to a borrow.
    ///
    /// # Panics
    /// If they are not of this semaphore.
    pub fn into_owned(mut self, semaphore: &Arc<Semaphore>) -> OwnedPermit {
        assert!(
            std::ptr::eq(self.semaphore, &raw const **semaphore),
            "a permit belongs to the semaphore that it is of"
        );
        OwnedPermit { semaphore: Arc::clone(semaphore), count: std::mem::take(&mut self.count) }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}

/// Permits of a [`Semaphore`] that they share the ownership of; they go back when this is dropped.
#[must_use = "the permits go back when this is dropped"]
#[derive(Debug)]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl OwnedPermit {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps them from going back: the semaphore has that many less from now on.
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Takes `count` of them away into a permit of their own; `None` if they are not that many.
    pub fn split(&mut self, count: usize) -> Option<OwnedPermit> {
        self.count = self.count.checked_sub(count)?;
        Some(OwnedPermit { semaphore: Arc::clone(&self.semaphore), count })
    }

    /// Adds those of another permit to these.
    ///
    /// # Panics
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: OwnedPermit) {
        assert!(Arc::ptr_eq(&self.semaphore, &other.semaphore), "permits of different semaphores can't be merged");
        self.count += std::mem::take(&mut other.count);
    }
}

impl Drop for OwnedPermit {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}
