//! One value of which each of several receivers sees the newest version.
//!
//! Used for a present state without a history worth keeping: a configuration, the progress of a
//! computation, whether a connection is up.
//!
//! # States
//!
//! ```text
//!   (value, version)  --set, update--> (value', version + 1)   all who wait are told
//!   senders           --the last one is dropped--> 0           all who wait are told
//!   seen              of each receiver: --changed, get, wait_for--> the version that it was shown
//! ```
//!
//! The value, its version and the number of senders change under the wait queue's lock; `seen`
//! belongs to its receiver. **Commit point** of a wait: the look that finds a version which its
//! receiver has not seen, and marks that as seen. **Idle**: an empty queue. **Cancellation**: the
//! waiter leaves the queue. Waiters are told, and not handed anything; so one that was told and has
//! gone leaves its receiver unchanged, and the change is there for the receiver's next wait.
//!
//! **The race to fear**: a change between a look at the value and the wait for the next. The look
//! yields its version, and the wait is over if that is not the newest.
//!
//! The value is in an `Arc`: the `Arc` is exchanged, or cloned, under the lock, and dropped by the
//! last reader. So neither the user's clone nor drop runs under the lock, and a value that somebody
//! looks at holds nobody up. `update` computes without the lock, and begins anew if the version has
//! changed meanwhile; each time one of those that update has succeeded.
//!
//! # Orderings
//!
//! The lock orders everything.
//!
//! The semantics are those of tokio's `watch`, but for the view: an `Arc` instead of a borrow,
//! under which a sender would have to wait.
//!
//! # Examples
//!
//! ```
//! use segue::channel::watch;
//!
//! let (progress, mut seen) = watch::channel(0);
//! segue::scope(|s| {
//!     s.spawn(move || (1..=100).for_each(|percent| _ = progress.set(percent)));
//!     // Not every step, but always the last.
//!     while seen.changed().is_ok() {
//!         println!("{} %", seen.peek());
//!     }
//! });
//! assert_eq!(*seen.peek(), 100);
//! ```

use crate::{Closed, WaitError};
use segue_core::{Guard, Operation, Source, WaitQueue, Waitable, WaitsFor, admit, preemption_point};
use std::sync::Arc;
use std::{fmt, mem};

type Queue<T> = WaitQueue<State<T>>;

struct State<T> {
    value: Arc<T>,
    version: u64,
    senders: usize,
}

/// A watched value, with its sender and a first receiver, which counts `initial` as seen.
///
/// # Examples
///
/// ```
/// let (sender, mut receiver) = segue::channel::watch::channel("off");
/// assert!(!receiver.has_changed());
/// assert_eq!(*sender.set("on"), "off");
/// assert_eq!((receiver.has_changed(), *receiver.get()), (true, "on"));
/// assert!(!receiver.has_changed());
/// ```
#[must_use]
pub fn channel<T>(initial: T) -> (Sender<T>, Receiver<T>) {
    let queue = Arc::new(Queue::new(State { value: Arc::new(initial), version: 0, senders: 1 }));
    (Sender { queue: Arc::clone(&queue) }, Receiver { queue, seen: 0 })
}

/// The version of now, and its value.
fn look<T>(queue: &Queue<T>) -> (u64, Arc<T>) {
    preemption_point();
    let queue = queue.lock();
    let State { value, version, .. } = queue.peek();
    (*version, Arc::clone(value))
}

/// The side of a watched value for changes. For changes from several places, share or clone the
/// sender.
///
/// When the last one is dropped, the receivers are told once they have seen the last version.
pub struct Sender<T> {
    queue: Arc<Queue<T>>,
}

impl<T> Sender<T> {
    /// Puts a new value in place of the present one, and returns that. Never waits, and never
    /// fails: no matter whether anybody looks.
    ///
    /// # Order
    /// Receivers see versions in the order in which they were set, and may miss any but the last.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, receiver) = segue::channel::watch::channel(1);
    /// drop(receiver);
    /// assert_eq!(*sender.set(2), 1);
    /// assert_eq!(*sender.subscribe().peek(), 2);
    /// ```
    pub fn set(&self, value: T) -> Arc<T> {
        preemption_point();
        replace(self.queue.lock(), Arc::new(value))
    }

    /// Puts the result of `f` on the value in its place, and returns the replaced value.
    ///
    /// No lock is held during `f`: `f` may wait, and use this channel. If the value was changed
    /// meanwhile, the result of `f` is dropped, and `f` is called again with the new value; so each
    /// change is made of the one before. If `f` panics, nothing has changed. One that itself sets
    /// the value each time is called for ever.
    ///
    /// # Examples
    ///
    /// ```
    /// let (count, watched) = segue::channel::watch::channel(0);
    /// segue::scope(|s| {
    ///     for _ in 0..8 {
    ///         s.spawn(|| count.update(|count| count + 1));
    ///     }
    /// });
    /// assert_eq!(*watched.peek(), 8);
    /// ```
    pub fn update(&self, mut f: impl FnMut(&T) -> T) -> Arc<T> {
        loop {
            let (version, value) = look(&self.queue);
            let new = Arc::new(f(&value));
            preemption_point();
            let queue = self.queue.lock();
            if queue.peek().version == version {
                return replace(queue, new);
            }
        }
    }

    /// The value of now. Never waits.
    #[must_use]
    pub fn get(&self) -> Arc<T> {
        look(&self.queue).1
    }

    /// A new receiver, which counts the value of now as seen.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = look(&self.queue).0;
        Receiver { queue: Arc::clone(&self.queue), seen }
    }
}

fn replace<T>(mut queue: Guard<'_, State<T>, ()>, value: Arc<T>) -> Arc<T> {
    let state = queue.state();
    state.version += 1;
    let replaced = mem::replace(&mut state.value, value);
    queue.notify_all(0);
    replaced
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        preemption_point();
        self.queue.lock().state().senders += 1;
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        preemption_point();
        let mut queue = self.queue.lock();
        let state = queue.state();
        state.senders -= 1;
        if state.senders == 0 {
            queue.notify_all(0);
        }
    }
}

segue_core::impl_debug!([T: fmt::Debug] Sender<T>, |it| value: look(&it.queue).1);

/// The side of a watched value for looks, and for waits for changes. A receiver remembers the last
/// version that it has seen.
///
/// A clone has seen the same version, and goes its own way from there.
pub struct Receiver<T> {
    queue: Arc<Queue<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    /// The value of now, which counts as seen. Never waits.
    #[must_use]
    pub fn get(&mut self) -> Arc<T> {
        let (version, value) = look(&self.queue);
        self.seen = version;
        value
    }

    /// The value of now, which does not count as seen by that. Never waits.
    #[must_use]
    pub fn peek(&self) -> Arc<T> {
        look(&self.queue).1
    }

    /// Whether the value of now has not been seen by this receiver. Never waits.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        look(&self.queue).0 != self.seen
    }

    /// Waits for a version that this receiver has not seen, and counts the newest as seen. A look
    /// is up to the caller, by [`peek`](Receiver::peek), or by [`get`](Receiver::get), which counts
    /// versions in between as seen.
    ///
    /// Versions that were replaced before the receiver has come to look are not shown.
    ///
    /// # Cancellation
    /// *No effect*: the change is there for the next wait.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if there is no sender any more, and this receiver has seen the last
    /// version; [`WaitError::Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::WaitError;
    ///
    /// let (sender, mut receiver) = segue::channel::watch::channel(1);
    /// sender.set(2);
    /// sender.set(3);
    /// drop(sender);
    /// assert_eq!((receiver.changed(), *receiver.peek()), (Ok(()), 3));
    /// assert_eq!(receiver.changed(), Err(WaitError::Closed));
    /// ```
    #[inline]
    #[track_caller]
    pub fn changed(&mut self) -> Result<(), WaitError> {
        Ok(self.changed_source().wait()??)
    }

    /// [`changed`](Receiver::changed) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*, also if the future is dropped after its wake-up.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (sender, mut degrees) = segue::channel::watch::channel(20);
    /// while *degrees.get() < 23 {
    ///     degrees.changed_source().await.unwrap();
    /// }
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn changed_source(&mut self) -> Waitable<impl Source<Output = Result<(), Closed>>> {
        changed(&self.queue, &mut self.seen)
    }

    /// Waits until `suits` accepts the value, beginning with the present one, seen or not. The wait
    /// returns that value, which counts as seen.
    ///
    /// `suits` is called without a lock, once for each version that the receiver is shown; a
    /// version that suits may be missed, if it was replaced.
    ///
    /// # Cancellation
    /// *No effect*: no version counts as seen.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if there is no sender any more, and the last version does not suit;
    /// [`WaitError::Cancelled`] if the caller was cancelled. No version counts as seen by that.
    ///
    /// # Examples
    ///
    /// ```
    /// let (sender, mut degrees) = segue::channel::watch::channel(20);
    /// segue::scope(|s| {
    ///     let warm = s.spawn(move || degrees.wait_for(|degrees| *degrees >= 23));
    ///     (21..=25).for_each(|degrees| _ = sender.set(degrees));
    ///     assert!((23..=25).contains(&*warm.join().unwrap().unwrap()));
    /// });
    /// ```
    #[track_caller]
    pub fn wait_for(&mut self, mut suits: impl FnMut(&T) -> bool) -> Result<Arc<T>, WaitError> {
        admit()?;
        loop {
            let (mut version, value) = look(&self.queue);
            if suits(&value) {
                self.seen = version;
                return Ok(value);
            }
            drop(value);
            changed(&self.queue, &mut version).wait()??;
        }
    }
}

#[inline]
#[track_caller]
fn changed<'a, T>(queue: &'a Queue<T>, seen: &'a mut u64) -> Waitable<impl Source<Output = Result<(), Closed>>> {
    Waitable::new(queue.operation(WaitsFor::new("a change of a watched value"), Changed { seen }))
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), seen: self.seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, value) = look(&self.queue);
        let has_changed = version != self.seen;
        f.debug_struct("Receiver").field("value", &value).field("has_changed", &has_changed).finish_non_exhaustive()
    }
}

/// Waits for a version that was not seen.
struct Changed<'a> {
    seen: &'a mut u64,
}

impl<T> Operation<State<T>, ()> for Changed<'_> {
    type Output = Result<(), Closed>;

    #[inline]
    fn attempt(&mut self, queue: &mut Guard<'_, State<T>, ()>) -> Option<Self::Output> {
        let State { version, senders, .. } = queue.peek();
        if version != self.seen {
            *self.seen = *version;
            return Some(Ok(()));
        }
        (*senders == 0).then_some(Err(Closed))
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, State<T>, ()>) -> bool {
        let State { version, senders, .. } = queue.peek();
        version != self.seen || *senders == 0
    }

    #[inline]
    fn commit(&mut self, _: Option<()>) -> Option<Self::Output> {
        None
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, State<T>, ()>) -> Option<()> {
        // Only told, as everybody else.
        None
    }
}
