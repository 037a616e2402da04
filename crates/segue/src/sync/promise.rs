//! A value that is filled in once and waited for by any number of fibers, threads and tasks.
//!
//! Used where one part of a program computes a value for which another part waits, on any
//! schedulers.
//!
//! # States
//!
//! ```text
//!   EMPTY --on_close: the hook under the lock----> HOOKED  the resolver; again: another hook
//!   EMPTY, HOOKED --fill: the value into the cell--> FULL    the resolver, once: it is consumed
//!   EMPTY, HOOKED --drop of the resolver-----------> BROKEN
//!   EMPTY, HOOKED --drop of the promise------------> GONE    what the resolver would fill in comes back
//!   FULL  --take-----------------------------------> FULL    by `&mut`: the cell is empty then, which counts as broken
//! ```
//!
//! The state changes under the wait queue's lock, so that no joining waiter misses it; the state is
//! read without the lock. The resolver alone writes the cell, before FULL. After FULL the cell is
//! read by reference through a shared promise, and taken through an exclusive one: the borrow
//! checker keeps the two apart.
//!
//! The hook lies beside the waiters, under the same lock, in HOOKED alone. The side that settles
//! takes the hook out, and so there is one: after its lock the promise's drop calls the hook, and
//! the resolver drops it. A promise without a hook goes from EMPTY to its end, and never looks for
//! one.
//!
//! **Commit point** of a wait: the look that finds the state settled, or being told so in the
//! queue. **Cancellation**: the waiter leaves the queue, and the value stays in the promise.
//!
//! Orderings: `settle` stores the state (release) after the cell; a reader of the state (acquire)
//! sees the cell. A waiter that is told sees the cell through the claim.
//!
//! After thesis section 2.4 (promises), with the pair of promise and resolver of Gears, by which
//! filling twice is impossible by type.

// The cell of the value, and the place of a hook; and one move out of a type with a `Drop`, so that
// a resolver is one pointer with a niche.
#![allow(unsafe_code)]

use segue_core::unwind::contain;
use segue_core::{Guard, Half, Operation, Source, Unlocked, WaitQueue, Waitable, WaitsFor, preemption_point};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicU8, Ordering};
use std::{ptr, thread};

use crate::{Closed, Rejected, WaitError};

const EMPTY: u8 = 0;
const HOOKED: u8 = 1;
// Settled, from here on.
const FULL: u8 = 2;
const BROKEN: u8 = 3;
const GONE: u8 = 4;

/// The closure that the resolver has called at the promise's end.
type Hook = Box<dyn FnOnce() + Send>;

/// The hook is there in HOOKED alone, in which no promise ends. So one that has none is made and
/// freed without a look; and a box around the hook's box makes its room one word.
struct Shared<T> {
    state: AtomicU8,
    waiters: WaitQueue<()>,
    value: UnsafeCell<Option<T>>,
    hook: UnsafeCell<MaybeUninit<Box<Hook>>>,
}

// SAFETY: the state is atomic, the queue locked, and the hook used under its lock; the cell is
// written by the one resolver before the state says FULL, and after that read by holders of a `&T`,
// or taken through an exclusive promise.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new() -> Self {
        let hook = UnsafeCell::new(MaybeUninit::uninit());
        Self { state: AtomicU8::new(EMPTY), waiters: WaitQueue::new(()), value: UnsafeCell::new(None), hook }
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.state.load(Ordering::Acquire) >= FULL
    }

    /// Answers whether the promise was empty. If not, there may be a hook.
    #[inline(always)] // Into `fill`; the others are `settle_empty`.
    fn settle(&self, state: u8) -> bool {
        let waiters = self.waiters.lock();
        let first = self.state.load(Ordering::Relaxed) == EMPTY;
        if first {
            self.state.store(state, Ordering::Release);
            waiters.notify_all(0);
        }
        first
    }

    /// As [`settle`](Self::settle), where there was a hook, which is called if the promise goes.
    #[cold]
    #[inline(never)]
    fn settle_hooked(&self, state: u8) -> bool {
        let waiters = self.waiters.lock();
        if self.state.load(Ordering::Relaxed) != HOOKED {
            return false;
        }
        // SAFETY: this has the lock, under which the place is used and the state changes. In HOOKED
        // there is one, and the state is another one from the next line on.
        let hook = unsafe { (*self.hook.get()).assume_init_read() };
        self.state.store(state, Ordering::Release);
        waiters.notify_all(0);
        if state == GONE {
            call(*hook);
        }
        true
    }

    /// One of its ends goes, and the value has not come.
    #[cold]
    #[inline(never)]
    fn settle_empty(&self, state: u8) {
        preemption_point();
        if !self.settle(state) {
            let _was_hooked = self.settle_hooked(state);
        }
    }
}

/// Calls a hook, in the drop of the promise. While that panics, one more panic would end the
/// process.
fn call(hook: Hook) {
    if thread::panicking() {
        contain(hook);
    } else {
        hook();
    }
}

/// Waits until a promise is settled, and yields the cell's content then.
struct Settled<'a, T, F> {
    shared: &'a Shared<T>,
    /// Called after the settlement: the resolver is done with the cell.
    find: F,
}

// SAFETY: the source uses the value only to find its output; all else that it shares with the
// resolver is atomic or locked.
unsafe impl<'a, T, R: Send, F: Fn(&'a Shared<T>) -> R + Send> Send for Settled<'a, T, F> {}

impl<'a, T, R, F: Fn(&'a Shared<T>) -> R> Settled<'a, T, F> {
    #[inline]
    fn look(&self) -> Option<R> {
        self.shared.is_settled().then(|| (self.find)(self.shared))
    }
}

impl<'a, T, R, F: Fn(&'a Shared<T>) -> R> Operation<(), ()> for Settled<'a, T, F> {
    type Output = R;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<R> {
        Unlocked::or_no(self.look())
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        self.shared.is_settled()
    }

    #[inline]
    fn attempt(&mut self, _: &mut Guard<'_, (), ()>) -> Option<R> {
        self.look()
    }

    fn is_ready(&mut self, _: &mut Guard<'_, (), ()>) -> bool {
        self.shared.is_settled()
    }

    #[inline]
    fn commit(&mut self, _: Option<()>) -> Option<R> {
        Some((self.find)(self.shared))
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, (), ()>) -> Option<()> {
        // Only told, as everybody else.
        None
    }
}

/// Makes a promise and the resolver to fill it.
///
/// # Examples
///
/// ```
/// let (resolver, promise) = segue::sync::promise();
/// std::thread::spawn(move || resolver.fill(42));
/// assert_eq!(promise.wait(), Ok(&42));
/// ```
pub fn promise<T>() -> (Resolver<T>, Promise<T>) {
    let (left, right) = Half::pair(Shared::new());
    (Resolver(left), Promise(right))
}

/// The reading side of a promise. Share a promise by reference, or in an `Arc`.
#[must_use = "nobody can read what is filled in"]
pub struct Promise<T>(Half<Shared<T>>);

// SAFETY: the value goes from the resolver's thread to that of the promise's owner, once; all else
// that is shared is atomic or locked.
unsafe impl<T: Send> Send for Promise<T> {}
// SAFETY: a shared promise gives shared access to the value.
unsafe impl<T: Send + Sync> Sync for Promise<T> {}

impl<T> Promise<T> {
    /// Suspends the calling fiber, or parks the calling thread, until the promise is filled.
    ///
    /// Any number may wait; all are woken, in the order in which they came. For a promise that is
    /// filled already this is one load.
    ///
    /// # Cancellation
    /// *No effect*: the promise can be waited for again.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the resolver was dropped unfilled; [`WaitError::Cancelled`] if the
    /// caller was cancelled.
    #[track_caller]
    pub fn wait(&self) -> Result<&T, WaitError> {
        Ok(self.wait_source().wait()??)
    }

    /// [`wait`](Promise::wait) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (resolver, promise) = segue::sync::promise();
    /// resolver.fill(42).unwrap();
    /// assert_eq!(promise.wait_source().await, Ok(&42));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = Result<&T, Closed>>> {
        let shared = &*self.0;
        // SAFETY: the promise is settled, so the resolver is done with the cell, and the value is
        // not taken while this promise is borrowed.
        let find = |shared: &'_ Shared<T>| unsafe { &*shared.value.get() }.as_ref().ok_or(Closed);
        Waitable::new(shared.waiters.operation(WaitsFor::new("a promise"), Settled { shared, find }))
    }

    /// The value, if the promise is filled. Never waits.
    ///
    /// # Errors
    /// [`Closed`] if the resolver was dropped unfilled.
    pub fn try_get(&self) -> Option<Result<&T, Closed>> {
        preemption_point();
        self.wait_source().attempt()
    }

    /// As [`wait`](Promise::wait), and takes the value out.
    ///
    /// # Cancellation
    /// The promise is consumed: a value that the resolver fills in comes back to the resolver.
    /// [Take by reference](Promise::take_source) to keep the promise.
    ///
    /// # Errors
    /// As for [`wait`](Promise::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise();
    /// resolver.fill(String::from("yours")).unwrap();
    /// assert_eq!(promise.take(), Ok(String::from("yours")));
    /// ```
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn take(mut self) -> Result<T, WaitError> {
        Ok(self.take_source().wait()??)
    }

    /// [`take`](Promise::take) as a source. Once the value is taken, the promise counts as broken.
    ///
    /// # Cancellation
    /// *No effect*: the value stays in the promise, also if the future is dropped.
    #[inline]
    #[track_caller]
    pub fn take_source(&mut self) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        let shared = &*self.0;
        // SAFETY: the promise is settled, so the resolver is done with the cell, and nobody else
        // has this promise.
        let find = |shared: &Shared<T>| unsafe { &mut *shared.value.get() }.take().ok_or(Closed);
        Waitable::new(shared.waiters.operation(WaitsFor::new("a promise"), Settled { shared, find }))
    }
}

impl<T> Drop for Promise<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_settled() {
            self.0.settle_empty(GONE);
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.try_get() {
            None => "empty",
            Some(Ok(_)) => "full",
            Some(Err(Closed)) => "broken",
        };
        f.debug_struct("Promise").field("state", &state).finish()
    }
}

/// The writing side of a promise. A drop without a fill breaks the promise, which the waiters are
/// told.
#[must_use = "dropping the resolver breaks the promise"]
pub struct Resolver<T>(Half<Shared<T>>);

// SAFETY: as for the promise; a resolver only gives a value away.
unsafe impl<T: Send> Send for Resolver<T> {}
// SAFETY: a shared resolver reads the state, waits for a change of that, and has its hook, which is
// `Send`, under the lock; a shared resolver does not reach the cell.
unsafe impl<T: Send> Sync for Resolver<T> {}

impl<T> Resolver<T> {
    /// Fills the promise and wakes all its waiters. Never waits.
    ///
    /// # Errors
    /// Gives the value back if the promise was dropped before: nobody can take the value.
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise();
    /// drop(promise);
    /// assert_eq!(resolver.fill(42).unwrap_err().value, 42);
    /// ```
    #[inline]
    pub fn fill(self, value: T) -> Result<(), Rejected<T, Closed>> {
        preemption_point();
        let this = ManuallyDrop::new(self);
        // SAFETY: the half is moved out once, and its former resolver is neither used nor dropped.
        let shared = unsafe { ptr::read(&this.0) };
        // SAFETY: nobody reads the cell before the state is FULL, and this is the only resolver.
        unsafe { *shared.value.get() = Some(value) };
        if shared.settle(FULL) || shared.settle_hooked(FULL) {
            return Ok(());
        }
        // SAFETY: the promise is gone, so nobody else has the cell.
        let value = unsafe { &mut *shared.value.get() }.take().expect("it was put there");
        Err(Rejected { value, error: Closed })
    }

    /// Has `hook` called when the promise is dropped, and nobody can take the value any more: to
    /// stop the work that the value was to come from. A fiber or a task that does this work can
    /// wait for [`closed_source`](Resolver::closed_source) instead; a hook is for a library that
    /// answers by callback, or a thread that looks at a flag.
    ///
    /// The owner of the promise gives that up, and not a waiter: a [`wait`](Promise::wait) by
    /// reference that is cancelled leaves the promise, which may be waited for again, and by others
    /// meanwhile. A [`take`](Promise::take) that is cancelled has the promise, and drops that.
    ///
    /// The hook is called once or never. The resolver drops the hook, if the promise is filled or
    /// the resolver dropped first. If the promise was dropped before, the hook is called at once. A
    /// further hook replaces the earlier one, for work that is to be stopped in another way from
    /// then on.
    ///
    /// The drop of the promise calls the hook, as its last step and under no lock: in a cancelled
    /// fiber, a thread, the drop of a task. The drop takes as long as the hook does. The hook can
    /// use the resolver; a wait in it is one of its caller's, and fails at once in a cancelled
    /// caller.
    ///
    /// # Panics
    /// If the hook is called at once, and panics. Otherwise a panic of the hook is that of the
    /// promise's drop; while the thread is panicking already, the second panic goes no further than
    /// to the panic hook.
    ///
    /// # Examples
    ///
    /// A library that answers by callback, and looks at a flag that says whether to go on:
    ///
    /// ```
    /// use segue::{sync::promise, timeout};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    /// use std::{thread, time::Duration};
    ///
    /// fn count(stop: Arc<AtomicBool>, callback: impl FnOnce(u64) + Send + 'static) {
    ///     thread::spawn(move || callback((0..).find(|_| stop.load(SeqCst)).unwrap()));
    /// }
    ///
    /// let stop = Arc::new(AtomicBool::new(false));
    /// let (resolver, number) = promise();
    /// let stops = Arc::clone(&stop);
    /// resolver.on_close(move || stops.store(true, SeqCst));
    /// count(Arc::clone(&stop), |number| _ = resolver.fill(number));
    ///
    /// assert!(timeout(Duration::from_millis(1), || number.take()).is_err());
    /// assert!(stop.load(SeqCst), "nobody waits any more");
    /// ```
    pub fn on_close(&self, hook: impl FnOnce() + Send + 'static) {
        preemption_point();
        let hook: Box<Hook> = Box::new(Box::new(hook));
        let waiters = self.0.waiters.lock();
        if self.0.is_settled() {
            drop(waiters);
            return hook();
        }
        let is_other = self.0.state.swap(HOOKED, Ordering::Relaxed) == HOOKED;
        // SAFETY: as in `settle_hooked`.
        let place = unsafe { &mut *self.0.hook.get() };
        // SAFETY: as the state has said; another one takes its place.
        let replaced = is_other.then(|| unsafe { place.assume_init_read() });
        place.write(hook);
        // Its drop is foreign code.
        drop(waiters);
        drop(replaced);
    }

    /// Whether the promise was dropped: nobody can take the value any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_settled()
    }

    /// Ready when the promise is dropped: for computations that nobody waits for any more.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise::<u32>();
    /// std::thread::spawn(move || drop(promise));
    /// resolver.closed_source().wait()?;
    /// assert!(resolver.is_closed());
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn closed_source(&self) -> Waitable<impl Source<Output = ()>> {
        let shared = &*self.0;
        // As long as there is a resolver, a promise is settled by its drop alone.
        let find = |_: &Shared<T>| ();
        Waitable::new(shared.waiters.operation(WaitsFor::new("the end of a promise"), Settled { shared, find }))
    }
}

impl<T> Drop for Resolver<T> {
    fn drop(&mut self) {
        self.0.settle_empty(BROKEN);
    }
}

segue_core::impl_debug!([T] Resolver<T>);
