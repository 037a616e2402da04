//! Tells somebody, or everybody, that it is time to look again.
//!
//! Used to build structures that keep their state elsewhere (in atomics, in a file, on another
//! machine), and that only need to wake the waiters for a change.
//!
//! # States
//!
//! ```text
//!   permit   false --notify_one, nobody waits--> true --a wait takes it--> false
//!   waiters  --notify_one--> the first is told ONE      --notify_all--> each is told ALL
//!   rounds   counts the notify_all
//! ```
//!
//! The permit and the waiters are under the lock. **What holds when idle**: the permit is there
//! only if nobody waits, since a newcomer takes the permit, and `notify_one` leaves one only if
//! nobody is there.
//!
//! **Commit point** of a wait: the look that finds the permit or a new round, or the instant of its
//! notification. **Cancellation** before that: the waiter leaves the queue. A future that is
//! dropped after ONE passes that on: to the next, or as the permit. One that was told ALL need not,
//! as everybody else was told too.
//!
//! **The race to fear**: a look at the state elsewhere that finds nothing, a `notify_all`, and then
//! the wait, which has missed that. So a wait counts from its *making* and not from its first step:
//! a wait remembers the round of its making, and is over if there is a later one.
//!
//! # Orderings
//!
//! The lock orders: the notifier releases the lock after its earlier work; a caller that takes the
//! permit, or becomes a waiter, acquires the lock. A waiter that is told through the queue is
//! ordered by the claim. `rounds` is stored (release) under the lock, and read without the lock
//! when a wait is made: such a look can be late, never early; that only lets an older `notify_all`
//! count, as if called just then.
//!
//! The semantics are those of tokio's `Notify`.

use segue_core::{Cancelled, Guard, Operation, Source, WaitQueue, Waitable, WaitsFor, preemption_point};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The two kinds of notifications.
#[derive(Clone)]
enum Told {
    /// No other waiter was told.
    One,
    /// So is everybody.
    All,
}

/// Wakes one waiter or all of them; the next one, if there is none.
///
/// No data are kept: a woken waiter looks for the change itself. As many calls of
/// [`notify_one`](Notify::notify_one) as one likes leave one permit, if nobody waits.
///
/// # Examples
///
/// ```
/// use segue::sync::Notify;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
///
/// let (level, changed) = (AtomicU32::new(0), Notify::new());
/// segue::try_scope(|s| {
///     s.spawn(|| {
///         level.store(7, SeqCst);
///         changed.notify_one();
///     });
///     while level.load(SeqCst) < 7 {
///         changed.wait()?;
///     }
///     Ok::<(), segue::Cancelled>(())
/// })?;
/// # Ok::<(), segue::ScopeError>(())
/// ```
#[derive(Default)]
pub struct Notify {
    /// Whether a permit is there.
    permit: WaitQueue<bool, Told>,
    rounds: AtomicUsize,
}

impl Notify {
    /// Without a permit.
    #[must_use]
    pub const fn new() -> Self {
        Self { permit: WaitQueue::new(false), rounds: AtomicUsize::new(0) }
    }

    /// Wakes the one that has waited longest; if nobody waits, leaves a permit for the next, unless
    /// there is one. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let notify = segue::sync::Notify::new();
    /// notify.notify_one();
    /// assert_eq!(notify.wait(), Ok(()));
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        preemption_point();
        tell_one(&mut self.permit.lock());
    }

    /// Wakes all waiters of now, and each [`wait_source`](Notify::wait_source) that is made
    /// already. Leaves no permit. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let notify = segue::sync::Notify::new();
    /// let mut made_before = notify.wait_source();
    /// notify.notify_all();
    /// assert!(made_before.attempt().is_some());
    /// assert!(!notify.try_wait());
    /// ```
    pub fn notify_all(&self) {
        preemption_point();
        let permit = self.permit.lock();
        // Written under the lock alone.
        let rounds = self.rounds.load(Ordering::Relaxed).wrapping_add(1);
        self.rounds.store(rounds, Ordering::Release);
        permit.hand_over_all(0, Told::All);
    }

    /// Takes the permit, if there is one. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let notify = segue::sync::Notify::new();
    /// notify.notify_one();
    /// notify.notify_one();
    /// assert!(notify.try_wait());
    /// assert!(!notify.try_wait());
    /// ```
    #[must_use]
    pub fn try_wait(&self) -> bool {
        preemption_point();
        std::mem::take(self.permit.lock().state())
    }

    /// Takes the permit, or suspends the calling fiber, or parks the calling thread, until a
    /// notification. First come, first served.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A notification that has come by then is the result of the
    /// wait.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), Cancelled> {
        self.wait_source().wait()
    }

    /// [`wait`](Notify::wait) as a source: to be awaited, or chosen among others.
    ///
    /// A [`notify_all`](Notify::notify_all) after this call counts for this source, even if nobody
    /// has begun to wait by then. So make the source, look, and wait only then:
    ///
    /// ```
    /// # use segue::sync::Notify;
    /// # use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    /// # async fn example(is_done: &AtomicBool, changed: &Notify) {
    /// loop {
    ///     let change = changed.wait_source();
    ///     if is_done.load(SeqCst) {
    ///         break;
    ///     }
    ///     change.await;
    /// }
    /// # }
    /// ```
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A task that was woken by [`notify_one`](Notify::notify_one),
    /// and is dropped before its next poll, passes that on, to the next or as the permit.
    #[inline]
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = ()>> {
        let made_in = self.rounds.load(Ordering::Acquire);
        Waitable::new(self.permit.operation(WaitsFor::new("a notification"), Notified { notify: self, made_in }))
    }
}

/// Tells the first waiter that takes the permit, or leaves the permit.
#[inline]
fn tell_one(permit: &mut Guard<'_, bool, Told>) {
    if permit.hand_over(0, Told::One).is_err() {
        *permit.state() = true;
    }
}

/// Waits to be told.
struct Notified<'a> {
    notify: &'a Notify,
    made_in: usize,
}

impl Operation<bool, Told> for Notified<'_> {
    type Output = ();

    #[inline]
    fn attempt(&mut self, permit: &mut Guard<'_, bool, Told>) -> Option<()> {
        // A new round first: that leaves the permit to others.
        let there = self.notify.rounds.load(Ordering::Relaxed) != self.made_in || std::mem::take(permit.state());
        there.then_some(())
    }

    fn is_ready(&mut self, permit: &mut Guard<'_, bool, Told>) -> bool {
        self.notify.rounds.load(Ordering::Relaxed) != self.made_in || *permit.peek()
    }

    #[inline]
    fn commit(&mut self, told: Option<Told>) -> Option<()> {
        told.map(drop)
    }

    fn give_back(&mut self, told: Option<Told>, permit: &mut Guard<'_, bool, Told>) -> Option<Told> {
        if matches!(told, Some(Told::One)) {
            tell_one(permit);
        }
        None
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("permit", self.permit.lock().peek()).finish()
    }
}
