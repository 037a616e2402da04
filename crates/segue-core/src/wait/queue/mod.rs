//! The one queue of waiters: a structure's state and the waiters for a change of it, under one
//! short lock.
//!
//! Used by every structure that somebody can wait on; no other file has a list of waiters.
//!
//! # The idea
//!
//! A structure is a state and a handful of *operations* ([`Operation`]) that look at the state
//! under the lock. One that cannot take effect joins one of the queue's lists, with a node that
//! lies in the waiter's own frame or future. The node has a slot. During the wait the slot has the
//! value that the operation brings (the value of a `put`, the number of permits that is asked for);
//! after the service, the value that the operation gets.
//!
//! Code that changes the state is a *server*. Under the lock a server exchanges its value with that
//! in a waiter's slot, takes the node out, and claims the trigger ([`Guard::exchange`]). If the
//! claim is refused (that waiter was cancelled, or another arm of its select was taken), the two
//! are exchanged back and the next node is tried. So a value is in one place at every moment: with
//! its giver, in a slot, or with its taker. Claimed waiters are resumed when the guard is dropped,
//! after the lock.
//!
//! # States of a node
//!
//! ```text
//!   free --start, register--> queued --withdraw----------------> free
//!                               \-----exchange, claimed--------> taken (what it gets is in the slot)
//!                               \-----exchange, refused--------> out   (as it was; its waiter withdraws)
//!                               \-----dismissed----------------> out   (its waiter would refuse)
//! ```
//!
//! All transitions happen under the lock. **Commit point**: the claim. **Idle**: empty lists.
//! **Cancellation**: the waiter's own thread cancels the trigger first and takes the node out
//! second; between the two, a server finds the claim refused and goes on to the next node. So does
//! a server that comes before that thread has looked, if the waiter's context is cancelled
//! (`contract/refusal.rs`); such a waiter is resumed with those that are served, and then
//! withdraws. So nothing is handed to a waiter that will not look.
//!
//! **The race to fear**: the slot is written after the waiter's frame is gone. This can't happen: a
//! frame goes only after its node was taken out under the lock, and the slot is written under the
//! lock, of nodes that are in. A waiter that was claimed stays until its resume, and so the chain
//! of waiters to be resumed runs through their nodes.
//!
//! # Orderings
//!
//! The lock orders everything but the value's last step: the server writes the slot and then claims
//! (release); the waiter sees the claim (acquire) and then reads the slot, without the lock.
//!
//! Order: first in, first out, in each list; an operation may ask for a place at the front.
//!
//! After the queues of futexes and of crossbeam's channels; nodes on the waiters' stacks as in Go's
//! `sudog`, but without their allocation.
#![allow(unsafe_code)] // Nodes lie in the frames of the waiters.

mod guard;
mod operation;
mod shared;

use crate::contract::fiber::Fiber;
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::UnsafeCell;
use crate::primitives::list::{Linked, Links, List};
use crate::primitives::lock::Lock;
use crate::primitives::waits_for::WaitsFor;
use crate::tree::cancelled::Cancelled;
use crate::wait::source::{self, Ended, Waitable};
use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr;
use std::time::Instant;

pub use guard::Guard;
pub use operation::{Brings, Operation, Take, Unlocked, Waiting};
pub(super) use shared::Shared;

/// A structure's state `S`, and lists of waiters that are served with a `T` each.
///
/// One list will do for most; `LISTS` of them, numbered from zero, keep waiters apart that wait for
/// different things (readers and writers).
pub struct WaitQueue<S, T = (), const LISTS: usize = 1> {
    lock: Lock<Inner<S, T, LISTS>>,
}

struct Inner<S, T, const LISTS: usize> {
    state: S,
    waiters: [List<Head>; LISTS],
    /// Counts, for each list, the servers of all that have let go of the lock meanwhile.
    rounds: [u16; LISTS],
    handed: PhantomData<T>,
}

/// The part of a node that does not depend on the value that is handed over.
struct Head {
    links: Links<Head>,
    /// Null before the joining.
    trigger: Cell<*const Trigger>,
    arm: Cell<u32>,
    /// The list of this node.
    list: Cell<u16>,
    /// The list's round at its joining.
    round: Cell<u16>,
    /// A waiter that is to be resumed, between the claim and the resume.
    claimed: Cell<*const Fiber>,
}

impl Linked for Head {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// A waiter's place in a queue. The place lies in the waiter's frame or future.
#[repr(C)] // The head comes first: the list links heads.
pub struct Node<T> {
    head: Head,
    slot: UnsafeCell<Option<T>>,
    /// Others reach a queued node while its waiter has a `&mut` there: that must not promise the
    /// compiler to be the only way.
    shared: PhantomPinned,
}

impl<T> Default for Node<T> {
    #[inline]
    fn default() -> Self {
        Self {
            head: Head {
                links: Links::new(),
                trigger: Cell::new(ptr::null()),
                arm: Cell::new(0),
                list: Cell::new(0),
                round: Cell::new(0),
                claimed: Cell::new(ptr::null()),
            },
            slot: UnsafeCell::new(None),
            shared: PhantomPinned,
        }
    }
}

impl<S, T, const LISTS: usize> WaitQueue<S, T, LISTS> {
    /// A queue without waiters, around `state`.
    #[cfg(not(loom))]
    #[must_use]
    #[inline]
    pub const fn new(state: S) -> Self {
        const { assert!(LISTS <= 1 << 16, "a queue has at most 65,536 lists") };
        let waiters = [const { List::new() }; LISTS];
        Self { lock: Lock::new(Inner { state, waiters, rounds: [0; LISTS], handed: PhantomData }) }
    }

    /// A queue without waiters, around `state`.
    #[cfg(loom)]
    #[must_use]
    pub fn new(state: S) -> Self {
        const { assert!(LISTS <= 1 << 16, "a queue has at most 65,536 lists") };
        let waiters = [const { List::new() }; LISTS];
        Self { lock: Lock::new(Inner { state, waiters, rounds: [0; LISTS], handed: PhantomData }) }
    }

    /// Locks the state and the waiters. To be held for a few instructions, without waiting or
    /// running foreign code.
    ///
    /// Waiters that are served under the guard go on at its drop. So a guard must not be leaked;
    /// and a future that was served under a guard must not be dropped before that guard, on the
    /// same thread: that would wait for ever.
    #[inline]
    pub fn lock(&self) -> Guard<'_, S, T, LISTS> {
        Guard::new(self.lock.lock(), ptr::null())
    }

    /// The state, without the lock: nobody else has the queue.
    pub fn into_inner(self) -> S {
        self.lock.into_inner().state
    }

    /// The source of an operation on this queue.
    #[inline]
    pub fn operation<O>(&self, waits_for: WaitsFor, operation: O) -> Waiting<'_, O, S, T, LISTS>
    where
        O: Operation<S, T, LISTS>,
    {
        Waiting { queue: self, waits_for, operation }
    }
}

impl<S, T> WaitQueue<S, T> {
    /// The source that is ready when `ready` says so, and yields the result of `take`. Its waiters
    /// stand in this queue.
    ///
    /// Both are called under the lock, so they run no foreign code; a `clone` of the user's is
    /// some. Code that changes the state tells the waiters to attempt again, by
    /// [`Guard::notify_all`], or hands one of them a value, by [`Guard::hand_over`]. A value that
    /// was handed to a waiter that has gone is dropped: where that must not happen, write an
    /// [`Operation`].
    ///
    /// `examples/watch.rs` has such a value and waits for its changes.
    #[inline]
    pub fn source<R, A>(&self, waits_for: WaitsFor, ready: R, take: A) -> Waiting<'_, Take<R, A>, S, T>
    where
        R: Fn(&S) -> bool,
        A: FnMut(&mut S) -> T,
    {
        self.operation(waits_for, Take { ready, take })
    }

    /// Takes a value, after waiting in the queue while there is none.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; nothing was handed over.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// A gate in six lines, for fibers and threads alike:
    ///
    /// ```
    /// use segue_core::{WaitQueue, WaitsFor};
    ///
    /// let gate: WaitQueue<bool> = WaitQueue::new(false);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| gate.wait(WaitsFor::new("the gate"), |open| *open, |_| ()).unwrap());
    ///     let mut guard = gate.lock();
    ///     *guard.state() = true;
    ///     guard.notify_all(0);
    /// });
    /// ```
    #[inline]
    pub fn wait<R, A>(&self, waits_for: WaitsFor, ready: R, take: A) -> Result<T, Cancelled>
    where
        R: Fn(&S) -> bool,
        A: FnMut(&mut S) -> T,
    {
        source::wait(&mut self.source(waits_for, ready, take))
    }

    /// As [`wait`](WaitQueue::wait), but gives up at `deadline`; `None` is never.
    ///
    /// # Cancellation
    /// As for [`wait`](WaitQueue::wait).
    ///
    /// # Errors
    /// [`Ended`] says why there is no value.
    pub fn wait_until<R, A>(
        &self,
        deadline: Option<Instant>,
        waits_for: WaitsFor,
        ready: R,
        take: A,
    ) -> Result<T, Ended>
    where
        R: Fn(&S) -> bool,
        A: FnMut(&mut S) -> T,
    {
        Waitable::new(self.source(waits_for, ready, take)).wait_until(deadline)
    }
}

impl<S: Default, T, const LISTS: usize> Default for WaitQueue<S, T, LISTS> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S, T, const LISTS: usize> std::fmt::Debug for WaitQueue<S, T, LISTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the state: its own `Debug` must not run under the lock.
        let waiters = self.lock().has_waiters();
        f.debug_struct("WaitQueue").field("waiters", &waiters).finish_non_exhaustive()
    }
}
