//! What the holder of a queue's lock may do: look at the state, and serve those who wait.
//!
//! Used by the structures, in the operations that change their state.
#![allow(unsafe_code)] // Nodes lie in the frames of the waiters.

use super::{Head, Inner, Node, WaitQueue};
use crate::deferred::Batch;
use crate::lock::LockGuard;
use crate::trigger::Wakeup;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

/// The state and the waiters of a queue, locked. Those who were served meanwhile are resumed when it is dropped, after the
/// lock, in the order in which they were served.
#[must_use]
pub struct Guard<'a, S, T, const LISTS: usize = 1> {
    inner: ManuallyDrop<LockGuard<'a, Inner<S, T, LISTS>>>,
    /// The chain of those who are to be resumed; it runs through `trigger` in their nodes, which their claims have made free.
    first: *const Head,
    last: *const Head,
}

impl<'a, S, T, const LISTS: usize> Guard<'a, S, T, LISTS> {
    #[inline]
    pub(super) fn new(inner: LockGuard<'a, Inner<S, T, LISTS>>) -> Self {
        Self { inner: ManuallyDrop::new(inner), first: ptr::null(), last: ptr::null() }
    }

    #[inline]
    pub(super) fn inner(&mut self) -> &mut Inner<S, T, LISTS> {
        &mut self.inner
    }

    #[inline]
    pub(super) fn is_of(&self, queue: &WaitQueue<S, T, LISTS>) -> bool {
        self.inner.is_of(&queue.lock)
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

    /// What the first waiter of a list brings.
    #[inline]
    pub fn first(&self, list: usize) -> Option<&T> {
        let node = self.inner.waiters[list].front()?.cast::<Node<T>>();
        // SAFETY: a node that is in the queue is in its waiter's frame, which can't go while this lock is held; its slot is used
        // under the lock until the claim. The head is a `Node<T>`'s first field, since only nodes are queued.
        unsafe { node.as_ref().slot.with(|slot| (*slot).as_ref()) }
    }

    /// Serves the first waiter of a list that takes it: `held` and what is in its slot are exchanged. Answers whether anybody took it; if
    /// not, `held` is as it was, and the list empty.
    #[inline]
    pub fn exchange(&mut self, list: usize, held: &mut Option<T>) -> bool {
        self.exchange_if(list, held, |_| true)
    }

    /// As [`exchange`](Guard::exchange), but only with waiters that bring what `suits`: it ends at the first one that does not, and nobody overtakes.
    #[inline]
    pub fn exchange_if(&mut self, list: usize, held: &mut Option<T>, suits: impl Fn(Option<&T>) -> bool) -> bool {
        self.serve(list, suits, |node| {
            // SAFETY: as in `first`.
            unsafe { node.as_ref().slot.with_mut(|slot| ptr::swap(slot, held)) };
        })
    }

    /// Hands `value` to the first waiter of a list that takes it; what that one had brought is dropped.
    ///
    /// # Errors
    /// Gives `value` back if nobody takes it.
    #[inline]
    pub fn hand_over(&mut self, list: usize, value: T) -> Result<(), T> {
        let mut held = Some(value);
        if self.exchange(list, &mut held) { Ok(()) } else { Err(held.expect("nobody took it")) }
    }

    /// Tells the first waiter of a list that takes it to attempt again. Answers whether there was one.
    #[inline]
    pub fn notify_one(&mut self, list: usize) -> bool {
        self.serve(list, |_| true, |_| ())
    }

    /// Tells every waiter of a list to attempt again.
    pub fn notify_all(&mut self, list: usize) {
        while self.notify_one(list) {}
    }

    /// Claims the first waiter of a list that can be claimed, unless what it or one before it brings does not suit. `exchange` is called
    /// before the claim, and again if that is refused.
    #[inline]
    fn serve(
        &mut self,
        list: usize,
        suits: impl Fn(Option<&T>) -> bool,
        mut exchange: impl FnMut(NonNull<Node<T>>),
    ) -> bool {
        while let Some(head) = self.inner.waiters[list].front() {
            let node = head.cast::<Node<T>>();
            // SAFETY: as in `first`.
            if !unsafe { node.as_ref().slot.with(|slot| suits((*slot).as_ref())) } {
                return false;
            }
            exchange(node);
            // SAFETY: a node that is in the queue is in its waiter's frame, which can't go while this lock is held. A waiter that was
            // suspended and is claimed stays until it is resumed, and until then its node is ours to link; one that was not may be gone after
            // the claim and is not touched again.
            unsafe {
                // Out of the queue first: after a claim the node may be gone.
                self.inner.waiters[list].remove(head);
                match (*head.as_ref().trigger.get()).claim(head.as_ref().arm.get() as usize) {
                    Some(wakeup) => {
                        if let Some(fiber) = wakeup.into_fiber() {
                            head.as_ref().claimed.set(fiber.as_ptr());
                            self.chain(head);
                        }
                        return true;
                    }
                    None => exchange(node),
                }
            }
        }
        false
    }

    /// # Safety
    /// The node's waiter was claimed and not resumed.
    #[inline]
    unsafe fn chain(&mut self, head: NonNull<Head>) {
        // SAFETY: as the caller promises, for this one and all that were chained before.
        unsafe {
            head.as_ref().trigger.set(ptr::null());
            match self.last.as_ref() {
                None => self.first = head.as_ptr(),
                Some(last) => last.trigger.set(head.as_ptr().cast()),
            }
        }
        self.last = head.as_ptr();
    }
}

impl<S, T, const LISTS: usize> Drop for Guard<'_, S, T, LISTS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: dropped once, here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        // SAFETY: as below.
        let several = unsafe { self.first.as_ref() }.is_some_and(|first| !first.trigger.get().is_null());
        let _batch = several.then(Batch::new);
        // SAFETY: every node in the chain belongs to a waiter that stays suspended until its wakeup is dropped; its link is
        // read before that.
        while let Some(head) = unsafe { self.first.as_ref() } {
            self.first = head.trigger.get().cast();
            drop(Wakeup::from_fiber(NonNull::new(head.claimed.get().cast_mut())));
        }
    }
}
