//! The calls of the holder of a queue's lock: look at the state, and serve the waiters.
//!
//! Used by the structures, in the operations that change their state.
#![allow(unsafe_code)] // Nodes lie in the frames of the waiters.

use super::{Head, Inner, Node, WaitQueue};
use crate::chain::barrier;
use crate::chain::deferred_wakers::Batch;
use crate::contract::trigger::Trigger;
use crate::contract::wakeup::Wakeup;
use crate::primitives::lock::LockGuard;
use crate::primitives::waits_for::WaitsFor;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// How many waiters are served before the lock is let go of.
const BATCH: usize = 32;

/// The state and the waiters of a queue, locked. The drop resumes the waiters that were served
/// meanwhile, after the lock, in the order in which they were served.
#[must_use]
pub struct Guard<'a, S, T, const LISTS: usize = 1> {
    inner: ManuallyDrop<LockGuard<'a, Inner<S, T, LISTS>>>,
    /// The chain of waiters to be resumed; it runs through the links of their nodes, which are in
    /// no list any more.
    first: *const Head,
    last: *const Head,
    /// The waiter that this guard registers; null without one.
    registers: *const Trigger,
}

impl<'a, S, T, const LISTS: usize> Guard<'a, S, T, LISTS> {
    #[inline]
    pub(super) fn new(inner: LockGuard<'a, Inner<S, T, LISTS>>, registers: *const Trigger) -> Self {
        Self { inner: ManuallyDrop::new(inner), first: ptr::null(), last: ptr::null(), registers }
    }

    #[inline]
    pub(super) fn inner(&mut self) -> &mut Inner<S, T, LISTS> {
        &mut self.inner
    }

    #[inline]
    pub(super) fn is_of(&self, queue: &WaitQueue<S, T, LISTS>) -> bool {
        ptr::eq(self.inner.lock(), &raw const queue.lock)
    }

    /// Whether somebody is to be resumed when this is dropped.
    #[inline]
    pub(super) fn has_served(&self) -> bool {
        !self.first.is_null()
    }

    /// The state.
    #[inline]
    pub fn state(&mut self) -> &mut S {
        &mut self.inner.state
    }

    /// The state, to look at.
    #[inline]
    pub fn peek(&self) -> &S {
        &self.inner.state
    }

    /// Whether nobody stands in a list.
    #[inline]
    pub fn is_empty(&self, list: usize) -> bool {
        self.inner.waiters[list].is_empty()
    }

    /// Whether somebody stands in any list.
    pub fn has_waiters(&self) -> bool {
        self.inner.waiters.iter().any(|list| !list.is_empty())
    }

    /// The waiters of a list that may be served, each with its value. Left out are waiters that
    /// would refuse, and other arms of the waiter that this guard registers.
    ///
    /// For the [`is_ready`](super::Operation::is_ready) of operations that wait for each other.
    ///
    /// # Examples
    ///
    /// The sender at a rendezvous, where the receivers stand in list 0:
    ///
    /// ```
    /// # use segue_core::{Guard};
    /// fn is_ready<T>(queue: &mut Guard<'_, (), T, 2>) -> bool {
    ///     queue.partners(0).next().is_some()
    /// }
    /// ```
    pub fn partners(&self, list: usize) -> impl Iterator<Item = Option<&T>> {
        self.inner.waiters[list].iter().filter_map(|head| {
            // SAFETY: the node is in the queue, so its waiter is in its wait: to leave, the waiter
            // takes this lock.
            let trigger = unsafe { head.as_ref() }.trigger.get();
            // SAFETY: as above.
            let serves = !ptr::eq(trigger, self.registers) && !unsafe { (*trigger).refuses() };
            // SAFETY: as in `first`.
            serves.then(|| unsafe { head.cast::<Node<T>>().as_ref().slot.with(|slot| (*slot).as_ref()) })
        })
    }

    /// The value that the first waiter of a list brings.
    #[inline]
    pub fn first(&self, list: usize) -> Option<&T> {
        let node = self.inner.waiters[list].front()?.cast::<Node<T>>();
        // SAFETY: a node that is in the queue is in its waiter's frame, which can't go while this
        // lock is held; its slot is used under the lock until the claim. The head is a `Node<T>`'s
        // first field, since only nodes are queued.
        unsafe { node.as_ref().slot.with(|slot| (*slot).as_ref()) }
    }

    /// Serves the first waiter of a list that can be served: `held` and the content of its slot are
    /// exchanged. Answers whether a waiter was served; if not, `held` is unchanged, and the list
    /// empty.
    #[inline]
    pub fn exchange(&mut self, list: usize, held: &mut Option<T>) -> bool {
        // SAFETY: `serve` hands in a node of this queue, under the lock.
        self.serve(list, |_| true, |node| unsafe { swap(node, held) })
    }

    /// As [`exchange`](Guard::exchange), but only with waiters that bring a value that `suits`: the
    /// call ends at the first other one, and nobody overtakes.
    #[inline]
    #[track_caller]
    pub fn exchange_if(&mut self, list: usize, held: &mut Option<T>, suits: impl Fn(Option<&T>) -> bool) -> bool {
        // The guard has access to the waiters' frames, and the lock: nothing is captured across
        // that.
        // SAFETY: as in `first`.
        let suits = |node: &Node<T>| node.slot.with(|slot| suits(unsafe { &*slot }.as_ref()));
        // SAFETY: `serve` hands in a node of this queue, under the lock.
        let exchange = |node| unsafe { swap(node, held) };
        barrier(WaitsFor::new("a look at who waits"), || self.serve(list, suits, exchange))
    }

    /// Hands `value` to the first waiter of a list that can be served; the value that the waiter
    /// had brought is dropped.
    ///
    /// # Errors
    /// Gives `value` back without a waiter.
    #[inline]
    pub fn hand_over(&mut self, list: usize, value: T) -> Result<(), T> {
        let mut held = Some(value);
        if self.exchange(list, &mut held) { Ok(()) } else { Err(held.expect("nobody took it")) }
    }

    /// Tells the first waiter of a list to attempt again. Answers whether there was one.
    #[inline]
    pub fn notify_one(&mut self, list: usize) -> bool {
        self.serve(list, |_| true, |_| ())
    }

    /// Tells every waiter of a list to attempt again.
    ///
    /// The call lets go of the lock after every 32 of them, and resumes those; so this is the last
    /// use of the guard. A waiter that joins the list meanwhile is not told.
    #[inline(always)] // It is small, but for what is cold.
    pub fn notify_all(mut self, list: usize) {
        // As a rule there is one at most.
        if self.notify_one(list) && !self.is_empty(list) {
            self.serve_all(list, || |_| ());
        }
    }

    /// Hands a clone of `value` to every waiter of a list; otherwise as
    /// [`notify_all`](Guard::notify_all).
    pub fn hand_over_all(self, list: usize, value: T)
    where
        T: Clone,
    {
        if self.is_empty(list) {
            return;
        }
        self.serve_all(list, || {
            let mut held = Some(value.clone());
            // SAFETY: `serve` hands in a node of this queue, under the lock.
            move |node| unsafe { swap(node, &mut held) }
        });
    }

    /// Serves all waiters that are in a list now, one by one, in batches; between these the lock is
    /// free.
    #[cold]
    fn serve_all<E: FnMut(NonNull<Node<T>>)>(mut self, list: usize, exchange: impl Fn() -> E) {
        let round = self.inner.rounds[list];
        // The rounds go around; those of a list's members are close to each other.
        let is_older = |node: &Node<T>| node.head.round.get().wrapping_sub(round).cast_signed() <= 0;
        loop {
            for _ in 0..BATCH {
                if !self.serve(list, is_older, exchange()) {
                    return;
                }
            }
            if round == self.inner.rounds[list] {
                self.inner().rounds[list] = round.wrapping_add(1);
            }
            let lock = self.inner.lock();
            drop(self);
            self = Self::new(lock.lock(), ptr::null());
        }
    }

    /// Claims the first waiter of a list that can be claimed, unless that one or an earlier one
    /// does not suit. `exchange` is called before the claim, and again if that is refused.
    #[inline(always)]
    fn serve(
        &mut self,
        list: usize,
        suits: impl Fn(&Node<T>) -> bool,
        mut exchange: impl FnMut(NonNull<Node<T>>),
    ) -> bool {
        while let Some(head) = self.inner.waiters[list].front() {
            let node = head.cast::<Node<T>>();
            // SAFETY: as in `first`.
            if !suits(unsafe { node.as_ref() }) {
                if self.dismiss_cancelled(list) {
                    continue;
                }
                return false;
            }
            exchange(node);
            // SAFETY: the node is the first of its list.
            match unsafe { self.claim(list, head) } {
                true => return true,
                false => exchange(node),
            }
        }
        false
    }

    /// Takes a node out of its list and claims its waiter. Answers whether the waiter was taken. A
    /// waiter with a resume to come is chained.
    ///
    /// # Safety
    /// The node is in this list.
    #[inline]
    unsafe fn claim(&mut self, list: usize, head: NonNull<Head>) -> bool {
        // SAFETY: a node that is in the queue is in its waiter's frame, which can't go while this
        // lock is held. A waiter that was suspended and is claimed stays until its resume, and
        // until then its node is ours to link; so does one that refuses because of a cancellation,
        // and has a resume to come for that. One that was not suspended may be gone after the claim
        // and is not touched again.
        unsafe {
            // Out of the queue first: after a claim the node may be gone.
            self.inner.waiters[list].remove(head);
            let claimed = (*head.as_ref().trigger.get()).claim(head.as_ref().arm.get() as usize);
            let taken = claimed.is_ok();
            if let Some(fiber) = claimed.unwrap_or_else(|refused| refused).into_fiber() {
                head.as_ref().claimed.set(fiber.as_ptr());
                self.chain(head);
            }
            taken
        }
    }

    /// Lets the first waiters of a list go that would refuse: they were cancelled, and their
    /// threads have had no time to look. Answers whether there was one.
    ///
    /// An operation that serves need not do this, since these waiters would refuse. This is for an
    /// operation that stands back because of waiters.
    #[cold]
    pub fn dismiss_cancelled(&mut self, list: usize) -> bool {
        let mut any = false;
        while let Some(head) = self.inner.waiters[list].front() {
            // SAFETY: the node is in the queue, so its waiter is in its wait: to leave, the waiter
            // takes this lock.
            unsafe {
                if !(*head.as_ref().trigger.get()).refuses() {
                    break;
                }
                let taken = self.claim(list, head);
                debug_assert!(!taken, "what was cancelled refuses");
            }
            any = true;
        }
        any
    }

    /// # Safety
    /// The node's waiter was claimed and not resumed.
    #[inline]
    unsafe fn chain(&mut self, head: NonNull<Head>) {
        // SAFETY: as the caller promises, for this one and all that were chained before.
        unsafe {
            head.as_ref().links.chain(ptr::null());
            match self.last.as_ref() {
                None => self.first = head.as_ptr(),
                Some(last) => last.links.chain(head.as_ptr()),
            }
        }
        self.last = head.as_ptr();
    }
}

/// Exchanges the held value with that in a node's slot.
///
/// # Safety
/// The node is in a queue, or was claimed and not resumed, and the caller holds that queue's lock.
#[inline]
unsafe fn swap<T>(node: NonNull<Node<T>>, held: &mut Option<T>) {
    // SAFETY: the node is in place, as in `Guard::first`, and its slot is used under the lock.
    unsafe { node.as_ref().slot.with_mut(|slot| ptr::swap(slot, held)) };
}

impl<S, T, const LISTS: usize> Drop for Guard<'_, S, T, LISTS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        // SAFETY: as below.
        let several = unsafe { self.first.as_ref() }.is_some_and(|first| !first.links.chained().is_null());
        let _batch = several.then(Batch::new);
        // SAFETY: every node in the chain belongs to a waiter that stays suspended until its wakeup
        // is dropped; its link is read before that.
        while let Some(head) = unsafe { self.first.as_ref() } {
            self.first = head.links.chained();
            // SAFETY: the claim has left the wakeup there, for this.
            drop(unsafe { Wakeup::from_fiber(NonNull::new(head.claimed.get().cast_mut())) });
        }
    }
}
