//! A number of permits that are taken and given back, one or several at a time.
//!
//! Used to bound how many do something at once: requests in flight, open files, bytes in a buffer.
//!
//! # States
//!
//! One word holds the free permits, a bit that says that somebody may wait, and one that says that
//! the semaphore is closed.
//!
//! ```text
//!   (permits, -)        --acquire n, n <= permits--> (permits - n, -)        anybody, by an exchange of the word
//!   (permits, -)        --acquire n, n > permits---> (permits, WAITERS)      under the queue's lock; it joins the queue next
//!   (permits, -)        --release n----------------> (permits + n, -)        anybody, by an exchange
//!   (permits, WAITERS)  --release n----------------> the waiters from the front take theirs, as long as it lasts
//!   (permits, WAITERS)  --a waiter leaves----------> the same: it may have been the one that the others waited behind
//! ```
//!
//! `close` sets CLOSED under the queue's lock, and tells all waiters; their slots keep the number.
//! From then on nobody joins the queue and nobody takes; permits that come back are counted.
//!
//! While WAITERS is set only the holder of the queue's lock changes the word. If the queue is not
//! empty, the bit is set. The converse may fail: an attempt that gave up, or a wait that ended
//! under the lock, can leave the bit behind, which costs the next caller the lock and is then
//! mended.
//!
//! A waiter's slot has the requested number; the claim takes that number out of the slot, and the
//! same number out of the word. So permits are in one place: in the word, or with a [`Permit`].
//!
//! **Order**: first in, first out, without exception. A large request at the front holds up all
//! smaller ones behind, and so is not starved by them; a newcomer does not overtake either.
//!
//! **Commit point**: the exchange of the word, or the claim. **Idle**: no bit, empty queue.
//! **Cancellation**: the waiter leaves the queue, and the next ones go on if there is enough. A
//! waiter that was served and is dropped puts its permits back, in the same way as a release.
//!
//! **The race to fear**: a release that sees no waiter, while one that saw too few permits is about
//! to queue. Both work on the one word: either the release comes first, and the other's exchange to
//! WAITERS fails and sees the permits, or the release comes second and sees the bit.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the exchange that adds permits | the exchange that takes them | the work under the permits |
//! | the claim | the waiter's look at its trigger | the same; the server has acquired the word before |
//! | the bit CLOSED | the look that finds the bit | the work before the close |
//!
//! After the weighted semaphores of Go (`x/sync/semaphore`), which keep the same order.

use super::Permit;
use crate::{Closed, WaitError};
use segue_core::{Guard, Operation, Source, Unlocked, WaitQueue, Waitable, WaitsFor, admit, preemption_point};
use std::sync::atomic::{AtomicUsize, Ordering};

const WAITERS: usize = 1;
const CLOSED: usize = 2;
const SHIFT: u32 = 2;

/// Permits that any number of fibers, threads and tasks take and give back.
///
/// Strictly first in, first out: small requests do not starve a caller that asks for many, and wait
/// behind that caller. A permit goes back in its drop, on any thread; for one that is not tied to a
/// borrow, [make it owned](Permit::into_owned).
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
/// # Ok::<(), segue::WaitError>(())
/// ```
pub struct Semaphore {
    /// The free permits, shifted, and the two bits.
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

    /// Takes a permit, after waiting in line.
    ///
    /// In a task, `acquire_source().await`, and not this, which parks the thread that polls.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`WaitError`] says whether the caller was cancelled, or the semaphore
    /// [closed](Semaphore::close).
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit<'_>, WaitError> {
        self.acquire_many(1)
    }

    /// Takes `count` permits at once, after waiting in line for all of them; those that come later
    /// wait behind.
    ///
    /// More than there are can be asked for: such a request waits until somebody
    /// [adds](Semaphore::add_permits) permits.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; those behind go on if there is enough for them.
    ///
    /// # Errors
    /// [`WaitError`] says whether the caller was cancelled, or the semaphore
    /// [closed](Semaphore::close).
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
    /// # Ok::<(), segue::WaitError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire_many(&self, count: usize) -> Result<Permit<'_>, WaitError> {
        check_count(count);
        admit()?;
        if self.take_unlocked(count) { Ok(Permit::new(self, count)) } else { self.acquire_slowly(count) }
    }

    #[cold]
    #[track_caller]
    fn acquire_slowly(&self, count: usize) -> Result<Permit<'_>, WaitError> {
        Ok(self.acquire_many_source(count).wait()??)
    }

    /// [`acquire`](Semaphore::acquire) as a source: to be awaited, or chosen among others. The
    /// source yields [`Closed`] once the semaphore is closed.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; a permit that was handed over by then goes to the next.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let connections = segue::sync::Semaphore::new(2);
    /// let permit = connections.acquire_source().await.unwrap();
    /// assert_eq!(permit.count(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn acquire_source(&self) -> Waitable<impl Source<Output = Result<Permit<'_>, Closed>>> {
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
    pub fn acquire_many_source(&self, count: usize) -> Waitable<impl Source<Output = Result<Permit<'_>, Closed>>> {
        check_count(count);
        let operation = Acquire { semaphore: self, count };
        Waitable::new(self.waiters.operation(WaitsFor::new("a permit"), operation))
    }

    /// Takes a permit if one is free, nobody is in line, and the semaphore is not
    /// [closed](Semaphore::is_closed). Never waits.
    #[inline]
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if so many are free, nobody is in line, and the semaphore is not
    /// [closed](Semaphore::is_closed). Never waits.
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
        taken.then(|| Permit::new(self, count))
    }

    /// Adds permits, which those in line take first. Never waits. Once the semaphore is
    /// [closed](Semaphore::close) nobody can have them.
    ///
    /// Also the way to give back permits that were [forgotten](Permit::forget).
    ///
    /// # Panics
    /// If there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS) free ones. A permit that
    /// is dropped after too many were added panics as well.
    #[inline]
    pub fn add_permits(&self, count: usize) {
        preemption_point();
        if count != 0 && !self.put_if(count, |word| word & WAITERS == 0) {
            self.release_slowly(count);
        }
    }

    /// Closes the semaphore: from now on nobody gets a permit. Never waits.
    ///
    /// All waits end with [`WaitError::Closed`], but for those that were served before, which yield
    /// their permits. Permits that are out stay valid, and are counted when they come back. A
    /// semaphore does not open again.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::WaitError;
    /// use segue::sync::Semaphore;
    ///
    /// let seats = Semaphore::new(1);
    /// let taken = seats.acquire()?;
    /// segue::scope(|s| {
    ///     let late = s.spawn(|| seats.acquire().map(drop));
    ///     seats.close();
    ///     assert_eq!(late.join().unwrap(), Err(WaitError::Closed));
    /// });
    /// drop(taken);
    /// assert!(seats.is_closed() && seats.try_acquire().is_none());
    /// assert_eq!(seats.available_permits(), 1);
    /// # Ok::<(), WaitError>(())
    /// ```
    pub fn close(&self) {
        preemption_point();
        let queue = self.waiters.lock();
        // A waiter that is in the queue from here on is only told; see `serve`.
        self.word.update(Ordering::Release, Ordering::Relaxed, |word| (word | CLOSED) & !WAITERS);
        queue.notify_all(0);
    }

    /// Whether [closed](Semaphore::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        preemption_point();
        self.closed()
    }

    fn closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// How many permits are free at this moment; of a closed one, how many are not out.
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

    /// Takes `count` if they are there and neither bit is.
    #[inline]
    fn take_unlocked(&self, count: usize) -> bool {
        let take =
            |word: usize| (word & (WAITERS | CLOSED) == 0 && word >> SHIFT >= count).then(|| word - (count << SHIFT));
        self.word.try_update(Ordering::Acquire, Ordering::Relaxed, take).is_ok()
    }

    /// Adds `count` if `may` says so of the word.
    #[inline]
    fn put_if(&self, count: usize, may: impl Fn(usize) -> bool) -> bool {
        let put = |word: usize| {
            may(word).then(|| {
                assert!(count <= Self::MAX_PERMITS - (word >> SHIFT), "a semaphore can't have that many permits");
                word + (count << SHIFT)
            })
        };
        self.word.try_update(Ordering::Release, Ordering::Relaxed, put).is_ok()
    }

    /// Whether `count` are there and nobody is in line; if not, the bit is set, for the caller to
    /// join the queue. Of one that is not closed.
    fn is_ready(&self, count: usize, queue: &mut Guard<'_, (), usize>) -> bool {
        if !queue.is_empty(0) && queue.dismiss_cancelled(0) {
            self.serve(queue);
        }
        let wait = |word: usize| (!queue.is_empty(0) || word >> SHIFT < count).then_some(word | WAITERS);
        self.word.try_update(Ordering::Relaxed, Ordering::Relaxed, wait).is_err()
    }

    /// Hands out the free permits, from the front, and mends the bit. Those that are still in the
    /// queue of one that is closed are about to be told so.
    fn serve(&self, queue: &mut Guard<'_, (), usize>) {
        if self.closed() {
            return;
        }
        let mut permits = self.word.load(Ordering::Acquire) >> SHIFT;
        if !queue.is_empty(0) {
            // Somebody is in the queue, so WAITERS is set, and nobody else changes the word.
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

segue_core::impl_debug!([] Semaphore, |it| available_permits: it.available_permits(), is_closed: it.closed());

/// Takes a number of permits.
struct Acquire<'a> {
    semaphore: &'a Semaphore,
    count: usize,
}

impl<'a> Acquire<'a> {
    #[inline]
    fn permit(&self) -> Permit<'a> {
        Permit::new(self.semaphore, self.count)
    }
}

impl<'a> Operation<(), usize> for Acquire<'a> {
    type Output = Result<Permit<'a>, Closed>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Self::Output> {
        if self.semaphore.take_unlocked(self.count) {
            return Unlocked::Done(Ok(self.permit()));
        }
        if self.may_be_ready() { Unlocked::Look } else { Unlocked::No }
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        let word = self.semaphore.word.load(Ordering::Relaxed);
        word & CLOSED != 0 || word >> SHIFT >= self.count
    }

    fn attempt(&mut self, queue: &mut Guard<'_, (), usize>) -> Option<Self::Output> {
        if self.semaphore.closed() {
            return Some(Err(Closed));
        }
        while self.semaphore.is_ready(self.count, queue) {
            // The queue is empty, so if the bit is set, this one is left over.
            self.semaphore.serve(queue);
            if self.semaphore.take_unlocked(self.count) {
                return Some(Ok(self.permit()));
            }
        }
        None
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, (), usize>) -> bool {
        self.semaphore.closed() || self.semaphore.is_ready(self.count, queue)
    }

    fn offer(&mut self) -> Option<usize> {
        Some(self.count)
    }

    fn retract(&mut self, _: Option<usize>, queue: &mut Guard<'_, (), usize>) {
        self.semaphore.serve(queue);
    }

    /// A server takes the number out of the slot; `close` does not.
    fn commit(&mut self, wanted: Option<usize>) -> Option<Self::Output> {
        Some(if wanted.is_none() { Ok(self.permit()) } else { Err(Closed) })
    }

    fn give_back(&mut self, wanted: Option<usize>, queue: &mut Guard<'_, (), usize>) -> Option<usize> {
        if wanted.is_none() {
            self.semaphore.put_if(self.count, |_| true);
            self.semaphore.serve(queue);
        }
        None
    }
}
