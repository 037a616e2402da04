//! A source that reports to the holders of its *nacks* whether it was chosen.
//!
//! Used by protocols in which a request is made when a wait begins, and has to be taken back if
//! the answer is not waited for any more: a server that looks for its client's nack.
//!
//! # The idea
//!
//! The protocol of sources can't tell the losers: a `withdraw` may be a retreat, and an arm that
//! was never registered hears nothing at all. But every source is owned by the wait, or by its
//! lender, and is dropped when out of the running: another arm was chosen, the wait was cancelled,
//! its future was dropped, a step has panicked. A source is dropped when none of its arms is
//! registered (R17). So a [`Watched`] tells its nacks of the loss in a drop without an output.
//!
//! # States
//!
//! ```text
//!   open --an attempt or commit yields-----> chosen
//!     \----the source is dropped-----------> lost
//! ```
//!
//! They are under the lock of the queue in which the waiters for a nack stand, and both changes are
//! made by the owner of the source; there is no race between the two. **Commit point** of a wait
//! for a nack: the look that finds the nack settled. **Cancellation** of one: the waiter leaves the
//! queue.
//!
//! After `withNack` of Concurrent ML, where an event that was chosen leaves its nack open for ever.
//! Here the nack says so, and its waiters can end.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::waits_for::WaitsFor;
use crate::sim::preemption::preemption_point;
use crate::wait::guarded::{Guarded, guard};
use crate::wait::holders::steps_of_the_same_slot;
use crate::wait::queue::{Node, Shared, WaitQueue};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};
use std::convert::identity;
use std::sync::Arc;

/// The fate of a source that was made by [`with_nack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a nack is also settled when its source was chosen"]
pub enum Fate {
    /// The source has yielded.
    Chosen,
    /// The source never will: another arm was chosen, the wait was cancelled or has panicked, the
    /// future or the source was dropped.
    Lost,
}

/// A source that is ready when the [`Fate`] of another source is settled. Given out by
/// [`with_nack`].
///
/// Clones are the same nack. A settled nack stays ready. A future that is forgotten, and a source
/// that is kept, leave the nack open.
#[derive(Clone)]
pub struct Nack(Shared<Settling, Option<Fate>, Fate>);

type Settling = WaitQueue<Option<Fate>, Fate>;

// SAFETY: every step is that of the inner source.
unsafe impl Source for Nack {
    type Output = Fate;
    type Slot = Node<Fate>;

    steps_of_the_same_slot!(self => self.0, identity);
}

impl std::fmt::Debug for Nack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fate = *self.0.queue().lock().peek();
        f.debug_struct("Nack").field("fate", &fate).finish()
    }
}

/// The part that settles the nacks of one source.
struct Settler(Arc<Settling>);

impl Settler {
    /// Settles the fate, unless settled.
    fn settle(&self, fate: Fate) {
        preemption_point();
        let mut settling = self.0.lock();
        if settling.peek().is_none() {
            *settling.state() = Some(fate);
            settling.notify_all(0);
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.settle(Fate::Lost);
    }
}

/// The source that a closure of [`with_nack`] has made.
pub struct Watched<S> {
    source: S,
    /// Dropped last.
    settler: Settler,
}

impl<S> Watched<S> {
    /// Says that the source was chosen.
    fn chosen<T>(&self, output: T) -> T {
        self.settler.settle(Fate::Chosen);
        output
    }
}

// SAFETY: every step is that of the source. After one that has yielded, when none of its arms is
// registered, the waiters of the nacks are told; so that may call wakers.
unsafe impl<S: Source> Source for Watched<S> {
    type Output = S::Output;
    type Slot = S::Slot;

    steps_of_the_same_slot!(self => self.source, |output| self.chosen(output));
}

impl_debug!([S: std::fmt::Debug] Watched<S>, |it| source: it.source);

/// As [`guard`], but `make` is given a nack: a source that is ready once the made source is chosen
/// or lost, and yields [that](Fate).
///
/// The fate is [`Lost`](Fate::Lost) as soon as the source is dropped without an output: another arm
/// of a choice was chosen; the wait was cancelled; the future was dropped; `make`, or another part
/// of the wait, has panicked. The fate is [`Chosen`](Fate::Chosen) as soon as the source has
/// yielded. Both come to pass in the fiber, thread or task that waits, after its wait; a waiter
/// that was served and is not wanted any more has lost, also where that stays done.
///
/// [By reference](Waitable::by_ref) the source is in the running until its own drop, through all
/// single waits.
///
/// # Cancellation
/// That of the source that was made; the nack is settled as lost.
///
/// # Panics
/// As for [`guard`].
///
/// # Examples
///
/// A request is made when the wait begins, and taken back when nobody waits for its answer:
///
/// ```
/// use segue_core::{Either, Fate, after, spawn, with_nack};
/// use std::time::Duration;
///
/// let mut server = None;
/// let answer = with_nack(|nack| {
///     server = Some(spawn(move || nack.wait()));
///     after(Duration::MAX)
/// });
/// let outcome = answer.or(after(Duration::from_millis(50))).wait();
/// assert_eq!(outcome, Ok(Either::Right(())));
/// assert_eq!(server.unwrap().join().unwrap(), Ok(Fate::Lost));
/// ```
#[track_caller]
pub fn with_nack<S, F>(mut make: F) -> Waitable<Guarded<Watched<S>, impl FnMut() -> Watched<S>>>
where
    S: Source,
    F: FnMut(Waitable<Nack>) -> S,
{
    let waits_for = WaitsFor::new("a nack");
    guard(move || {
        let host = Arc::new(Settling::new(None));
        // First, so that the watch is dropped also if `make` panics.
        let settler = Settler(Arc::clone(&host));
        let take = |fate: &mut Option<Fate>| fate.expect("it is settled");
        let nack = Nack(Shared { host, queue: |settling| settling, waits_for, ready: Option::is_some, take });
        Watched { source: make(Waitable::new(nack)), settler }
    })
}
