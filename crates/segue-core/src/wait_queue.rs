//! The one queue of waiters: a structure's state and those who wait for it to change, under one short lock.
//!
//! Used by every structure that somebody can wait on; no other file has a list of waiters.
//!
//! # The idea
//!
//! A waiter's node lies in the waiter's own frame and hangs in the queue from registration until it is taken out: by the
//! waiter that withdraws, or by whoever hands over to it. To hand over is, under the lock: put the value into the node's slot, claim the
//! trigger, take the node out. If the claim fails (that waiter was cancelled, or another arm of its select was taken), the value comes
//! back out of the slot and goes to the next; so it reaches a waiter that takes it, or stays with the one who offers it.
//!
//! # States of a node
//!
//! ```text
//!   free --register--> queued --withdraw--------------------------> free
//!                        \-----hand over, claim succeeded---------> taken (value in the slot)
//!                        \-----hand over, claim failed------------> out  (slot empty; its waiter withdraws)
//! ```
//!
//! All transitions happen under the lock. **Commit point**: the claim. **Idle**: an empty list. **Cancellation**: the waiter's own thread cancels the
//! trigger first and takes the node out second; between the two, a hand-over finds the claim refused and goes on to the next node. So nothing
//! is handed to a waiter that will not look.
//!
//! **The race to fear**: the slot is written for a waiter whose frame is gone. It cannot: a frame goes only after its node was taken out
//! under the lock, and the slot is written under the lock, of nodes that are in.
//!
//! # Orderings
//!
//! The lock orders everything but the value's last step: the hand-over writes the slot and then claims (release); the waiter sees the
//! claim (acquire) and then reads the slot, without the lock.
//!
//! Order: first in, first out.
#![allow(unsafe_code)] // Nodes lie in the frames of the waiters.

use crate::atomic::UnsafeCell;
use crate::cancel::Cancelled;
use crate::fiber::{Fiber, WaitsFor};
use crate::list::{Linked, Links, List};
use crate::lock::{Lock, LockGuard};
use crate::source::{self, Ended, Source};
use crate::trigger::{Trigger, Wakeup};
use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
use std::ptr::{self, NonNull};
use std::time::Instant;

/// A structure's state `S`, and a queue of waiters that are handed a `T` each.
pub struct WaitQueue<S, T = ()> {
    lock: Lock<Inner<S, T>>,
}

struct Inner<S, T> {
    state: S,
    waiters: List<Head>,
    handed: PhantomData<T>,
}

/// The part of a node that does not depend on what is handed over.
struct Head {
    links: Links<Head>,
    trigger: Cell<*const Trigger>,
    arm: Cell<usize>,
    /// Who is to be resumed, between the claim and the wakeup.
    claimed: Cell<*const Fiber>,
}

impl Linked for Head {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// A waiter's place in a queue. It lies in the waiter's frame.
#[repr(C)] // The head comes first: the list links heads.
pub struct Node<T> {
    head: Head,
    slot: UnsafeCell<Option<T>>,
    /// Others reach a queued node while its waiter has a `&mut` to it: that must not promise the compiler to be the only way there.
    shared: PhantomPinned,
}

impl<T> Node<T> {
    fn new() -> Self {
        Self {
            head: Head {
                links: Links::new(),
                trigger: Cell::new(ptr::null()),
                arm: Cell::new(0),
                claimed: Cell::new(ptr::null()),
            },
            slot: UnsafeCell::new(None),
            shared: PhantomPinned,
        }
    }
}

impl<S, T> WaitQueue<S, T> {
    /// A queue without waiters, around `state`.
    #[must_use]
    pub fn new(state: S) -> Self {
        Self { lock: Lock::new(Inner { state, waiters: List::new(), handed: PhantomData }) }
    }

    /// Locks the state and the waiters. To be held for a few instructions, without waiting or running foreign code.
    #[inline]
    pub fn lock(&self) -> Guard<'_, S, T> {
        Guard { inner: self.lock.lock() }
    }

    /// The source that is ready when `ready` says so, yields what `take` takes, and whose waiters stand in this queue.
    ///
    /// Both are called under the lock. A waiter is handed a value by [`Guard::hand_over`], or told by
    /// [`Guard::notify_all`] to attempt again.
    #[inline]
    pub fn source<R, A>(&self, ready: R, take: A) -> Waiting<'_, S, T, R, A>
    where
        R: Fn(&S) -> bool,
        A: FnMut(&mut S) -> T,
    {
        Waiting { queue: self, ready, take }
    }

    /// Takes a value, after waiting in the queue while there is none.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; nothing was handed to it.
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
    ///     guard.notify_all().wake();
    /// });
    /// ```
    #[inline]
    pub fn wait<R, A>(&self, waits_for: WaitsFor, ready: R, take: A) -> Result<T, Cancelled>
    where
        R: Fn(&S) -> bool,
        A: FnMut(&mut S) -> T,
    {
        source::wait(self.source(ready, take), waits_for)
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
        source::wait_until(self.source(ready, take), deadline, waits_for)
    }
}

impl<S, T> std::fmt::Debug for WaitQueue<S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the state, whose own `Debug` must not run under the lock.
        f.debug_struct("WaitQueue").field("waiters", &!self.lock().is_empty()).finish_non_exhaustive()
    }
}

/// The state and the waiters, locked.
#[must_use]
pub struct Guard<'a, S, T> {
    inner: LockGuard<'a, Inner<S, T>>,
}

impl<S, T> Guard<'_, S, T> {
    /// The state.
    #[inline]
    pub fn state(&mut self) -> &mut S {
        &mut self.inner.state
    }

    /// Whether nobody stands in the queue.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inner.waiters.is_empty()
    }

    /// Hands `value` to the first waiter that takes it. Wake it after the lock was dropped.
    ///
    /// # Errors
    /// Gives `value` back if nobody takes it.
    pub fn hand_over(&mut self, value: T) -> Result<Wakeup, T> {
        let mut offered = value;
        while let Some(head) = self.inner.waiters.front() {
            let node = head.cast::<Node<T>>();
            // SAFETY: a node that is in the queue is in its waiter's frame, which can't go while this lock is held; its slot
            // is used under the lock until the claim, and by the waiter after it. The head is a `Node<T>`'s first field,
            // since only `register` queues, and keeps the node's own provenance.
            unsafe {
                node.as_ref().slot.with_mut(|slot| *slot = Some(offered));
                // Out of the queue first: after a claim the node may be gone.
                self.inner.waiters.remove(head);
                if let Some(wakeup) = (*head.as_ref().trigger.get()).claim(head.as_ref().arm.get()) {
                    return Ok(wakeup);
                }
                offered = node.as_ref().slot.with_mut(|slot| (*slot).take()).expect("the claim was refused");
            }
        }
        Err(offered)
    }

    /// Tells every waiter to attempt again, and empties the queue. Releases the lock.
    pub fn notify_all(mut self) -> Wakeups {
        let mut wakeups = Wakeups { first: ptr::null() };
        let mut last: *const Head = ptr::null();
        while let Some(head) = self.inner.waiters.pop_front() {
            // SAFETY: as in `hand_over`. A waiter that was suspended stays so until the wakeups resume it, and until then its
            // node is ours to link; one that was not may be gone after the claim and is not touched again.
            unsafe {
                let claim = (*head.as_ref().trigger.get()).claim(head.as_ref().arm.get());
                let Some(fiber) = claim.and_then(Wakeup::into_fiber) else { continue };
                head.as_ref().claimed.set(fiber.as_ptr());
                head.as_ref().trigger.set(ptr::null());
                match last.as_ref() {
                    None => wakeups.first = head.as_ptr(),
                    Some(last) => last.trigger.set(head.as_ptr().cast()),
                }
                last = head.as_ptr();
            }
        }
        wakeups
    }
}

/// Claimed waiters that have still to be resumed. Dropping them resumes them, in the order of the queue.
#[must_use = "the claimed waiters stay suspended while this lives"]
pub struct Wakeups {
    first: *const Head,
}

impl Wakeups {
    /// Resumes them. Never waits.
    pub fn wake(self) {}
}

impl Drop for Wakeups {
    fn drop(&mut self) {
        // SAFETY: every node in the chain belongs to a waiter that stays suspended until its wakeup is dropped; its link is
        // read before that.
        while let Some(head) = unsafe { self.first.as_ref() } {
            self.first = head.trigger.get().cast();
            let fiber = NonNull::new(head.claimed.get().cast_mut());
            drop(Wakeup::from_fiber(fiber));
        }
    }
}

/// The source of [`WaitQueue::source`].
pub struct Waiting<'a, S, T, R, A> {
    queue: &'a WaitQueue<S, T>,
    ready: R,
    take: A,
}

impl<S, T, R, A> Waiting<'_, S, T, R, A>
where
    R: Fn(&S) -> bool,
    A: FnMut(&mut S) -> T,
{
    #[inline]
    fn take_if_ready(&mut self, inner: &mut Inner<S, T>) -> Option<T> {
        (self.ready)(&inner.state).then(|| (self.take)(&mut inner.state))
    }

    /// # Safety
    /// The slot stays in place until it is withdrawn or claimed, and is in no list.
    #[inline]
    unsafe fn join(inner: &mut Inner<S, T>, slot: &mut Node<T>, trigger: &Trigger, arm: usize) {
        slot.head.trigger.set(trigger);
        slot.head.arm.set(arm);
        // SAFETY: as the caller promises; the pointer is made from the whole node, whose first field is the head.
        unsafe { inner.waiters.push_back(NonNull::from(slot).cast::<Head>()) };
    }
}

// SAFETY: a node is reached only while it is in the queue, under the lock, until it was claimed; `withdraw` takes it out under the
// lock. A value is put into the slot before the claim.
unsafe impl<S, T, R, A> Source for Waiting<'_, S, T, R, A>
where
    R: Fn(&S) -> bool,
    A: FnMut(&mut S) -> T,
{
    type Output = T;
    type Slot = Node<T>;

    #[inline]
    fn slot(&self) -> Node<T> {
        Node::new()
    }

    #[inline]
    fn attempt(&mut self) -> Option<T> {
        let queue = self.queue;
        self.take_if_ready(&mut queue.lock.lock())
    }

    unsafe fn register(&mut self, slot: &mut Node<T>, trigger: &Trigger, arm: usize) -> bool {
        let mut inner = self.queue.lock.lock();
        if (self.ready)(&inner.state) {
            return false;
        }
        // SAFETY: as the caller promises.
        unsafe { Self::join(&mut inner, slot, trigger, arm) };
        true
    }

    #[inline]
    unsafe fn start(&mut self, slot: &mut Node<T>, trigger: &Trigger, arm: usize) -> Option<T> {
        let queue = self.queue;
        let mut inner = queue.lock.lock();
        let taken = self.take_if_ready(&mut inner);
        if taken.is_none() {
            // SAFETY: as the caller promises.
            unsafe { Self::join(&mut inner, slot, trigger, arm) };
        }
        taken
    }

    unsafe fn withdraw(&mut self, slot: &mut Node<T>) {
        let node = NonNull::from(slot).cast::<Head>();
        // SAFETY: the node is in this queue, or was taken out of it under the lock after a refused claim.
        unsafe { self.queue.lock.lock().waiters.remove(node) };
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut Node<T>) -> Option<T> {
        // SAFETY: the trigger was taken through this arm, so the node is out and nobody else reaches the slot.
        slot.slot.with_mut(|slot| unsafe { (*slot).take() })
    }
}
