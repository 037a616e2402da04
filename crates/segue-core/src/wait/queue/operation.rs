//! Operations on a queue, and the source that each of them is.
//!
//! Implemented by the structures, one small type per operation; the rest (waits in a fiber, a
//! thread, a task, a select) is written once, here and in `source.rs`.
#![allow(unsafe_code)] // Nodes are registered by address.

use super::{Guard, Head, Inner, Node, WaitQueue};
use crate::chain::unwind::NoUnwind;
use crate::chain::{self, barrier};
use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::{Object, Owner, WaitsFor};
use crate::wait::parts::Parts;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable, registered};
use std::ptr::{self, NonNull};

/// The outcome of an [`Operation`] without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Unlocked<T> {
    /// The operation has taken effect.
    Done(T),
    /// Certainly nothing: a look need not take the lock. Not for an operation that was told to
    /// attempt again, and has noted that.
    No,
    /// The lock has to be taken to know.
    Look,
}

impl<T> Unlocked<T> {
    /// [`No`](Self::No) unless there is something.
    #[inline]
    pub fn or_no(done: Option<T>) -> Self {
        done.map_or(Self::No, Self::Done)
    }
}

/// One attempt to do something to a structure, which may have to wait.
///
/// Most methods are called under the lock of the queue, so none of them runs foreign code; wakers
/// included: waiters that were served are resumed after the lock. A panic in `is_ready`, `offer`,
/// `place` or `retract` may end the process, since other arms of a select may be registered then. A
/// fiber's wait in `is_ready`, `offer` or `place` is refused like a cancelled one, for the same
/// reason.
///
/// A wait calls them in this order:
///
/// ```text
///   attempt --yields-----------------------------------------------------> done
///        \--nothing--> offer --is served--> commit --yields--------------> done
///                        | |                    \--nothing (was told)----> attempt
///                        | \--is served, its waiter does not want it-----> give_back
///                        \--its waiter leaves----------------------------> retract
/// ```
///
/// The offer follows the attempt under the same lock. An arm of a choice lets go of the lock in
/// between, and takes the lock again with `is_ready`, before the offer. After `retract` a wait may
/// begin anew.
///
/// Where nothing is brought and nothing can be lost, [`WaitQueue::source`] makes an operation of
/// two closures. `examples/exchange.rs` has one that brings a value, meets a partner, and takes its
/// value back after a cancellation.
pub trait Operation<S, T, const LISTS: usize = 1> {
    /// The output.
    type Output;

    /// The way without the lock, if there is one. Not called under the lock. By default a look
    /// follows if something [may be ready](Operation::may_be_ready).
    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Self::Output> {
        if self.may_be_ready() { Unlocked::Look } else { Unlocked::No }
    }

    /// Whether a look may find something, without the lock and without an effect. `false` is
    /// certain, as [`Unlocked::No`] is: a choice passes this operation by.
    #[inline]
    fn may_be_ready(&self) -> bool {
        true
    }

    /// Takes effect if possible, and serves the waiters that can go on then.
    fn attempt(&mut self, queue: &mut Guard<'_, S, T, LISTS>) -> Option<Self::Output>;

    /// Whether an attempt would succeed. If not, the operation joins its list next, under the same
    /// lock. Other arms of its waiter may be registered: one that waits for others asks for its
    /// [partners](Guard::partners), of which the waiter itself is none.
    fn is_ready(&mut self, queue: &mut Guard<'_, S, T, LISTS>) -> bool;

    /// The list to wait in, and whether at its front: by default at the end of the first.
    #[inline]
    fn place(&self) -> (usize, bool) {
        (0, false)
    }

    /// The word that names the fiber which this operation waits for, if one does: that of a lock.
    #[inline]
    fn owner(&self) -> Option<&Owner> {
        None
    }

    /// The value to bring: in the slot during the wait. By default nothing.
    #[inline]
    fn offer(&mut self) -> Option<T> {
        None
    }

    /// Has left its list without being served: takes its value back, and mends the state's record
    /// of the waiters.
    #[inline]
    fn retract(&mut self, _offered: Option<T>, _queue: &mut Guard<'_, S, T, LISTS>) {}

    /// Was served: `slot` is its content now. `None` is to attempt again.
    fn commit(&mut self, slot: Option<T>) -> Option<Self::Output>;

    /// Was served, and its waiter has gone: undoes that, and serves the next waiter. The returned
    /// value is dropped after the lock.
    fn give_back(&mut self, slot: Option<T>, queue: &mut Guard<'_, S, T, LISTS>) -> Option<T>;
}

/// An [`Operation`] that brings a value, and has that value still, or again, before taking effect.
pub trait Brings {
    /// The value's type.
    type Value;

    /// The value, unless gone.
    fn into_value(self) -> Option<Self::Value>;
}

/// The source that an [`Operation`] on a [`WaitQueue`] is.
#[derive(Debug)]
pub struct Waiting<'a, O, S, T, const LISTS: usize = 1> {
    pub(super) queue: &'a WaitQueue<S, T, LISTS>,
    pub(super) waits_for: WaitsFor,
    pub(super) operation: O,
}

impl<O: Operation<S, T, LISTS>, S, T, const LISTS: usize> Waiting<'_, O, S, T, LISTS> {
    /// The operation, with the value that a cancelled one has taken back.
    #[inline]
    pub fn into_operation(self) -> O {
        self.operation
    }

    #[inline(always)]
    fn look(&mut self) -> Option<O::Output> {
        match self.operation.attempt_unlocked() {
            Unlocked::Done(done) => Some(done),
            Unlocked::No => None,
            Unlocked::Look => self.operation.attempt(&mut self.queue.lock()),
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_behind(&self) -> bool {
        barrier(self.waits_for, || self.operation.may_be_ready())
    }

    /// The operation may be a user's.
    #[cold]
    #[inline(never)]
    fn look_behind(&mut self) -> Option<O::Output> {
        barrier(self.waits_for, || self.look())
    }

    /// Leaves the queue, as [`withdraw`](Source::withdraw) does, or finds that a server has taken
    /// the slot out: for a source that stands in several queues under one arm, and is told through
    /// any of these.
    ///
    /// # Safety
    /// The trigger was not taken, or the resume that is owed for that has come.
    pub unsafe fn leave(&mut self, slot: &mut Node<T>) {
        // A slot that was never queued has no trigger, and nothing to take back. Others only read
        // the slot, as long as it is not claimed.
        if slot.head.trigger.get().is_null() {
            return;
        }
        let no_unwind = no_unwind();
        let mut queue = self.queue.lock();
        slot.head.trigger.set(ptr::null());
        let list = slot.head.list.get() as usize;
        // SAFETY: the node is in this list, or was taken out under the lock, and then the slot is
        // the waiter's: after a refused claim, or by the caller's promise.
        let offered = unsafe {
            let slot = NonNull::from(slot);
            queue.inner().waiters[list].remove(slot.cast::<Head>());
            slot.as_ref().slot.with_mut(|slot| (*slot).take())
        };
        self.operation.retract(offered, &mut queue);
        drop(queue);
        no_unwind.disarm();
    }

    /// # Safety
    /// The slot stays in place until its withdrawal or service, and is in no list.
    #[inline]
    unsafe fn join(
        own: &WaitQueue<S, T, LISTS>,
        operation: &mut O,
        queue: &mut Guard<'_, S, T, LISTS>,
        slot: &mut Node<T>,
        trigger: &Trigger,
        arm: usize,
    ) {
        // A guard can be exchanged for another queue's, also by an operation that has only borrowed
        // the guard.
        assert!(queue.is_of(own), "an operation has put another queue's guard in the place of its own's");
        let (list, front) = operation.place();
        assert!(list < LISTS, "an operation waits in a list that its queue does not have");
        slot.head.trigger.set(trigger);
        slot.head.arm.set(u32::try_from(arm).expect("a trigger has fewer arms"));
        slot.head.list.set(list as u16);
        // SAFETY: nobody else knows the slot yet.
        slot.slot.with_mut(|slot| unsafe { *slot = operation.offer() });
        // SAFETY: the waiter calls this, to be registered with its trigger.
        unsafe { trigger.expose() };
        let node = NonNull::from(slot).cast::<Head>();
        let Inner { waiters, rounds, .. } = queue.inner();
        // SAFETY: as the caller promises; the pointer is made from the whole node, and the head is
        // its first field. The first of a list is in place.
        unsafe {
            // A waiter that passes others has come before them.
            let passed = waiters[list].front().filter(|_| front).map(|first| first.as_ref().round.get());
            node.as_ref().round.set(passed.unwrap_or(rounds[list]));
            if front { waiters[list].push_front(node) } else { waiters[list].push_back(node) }
        }
    }
}

impl<O: Operation<S, T, LISTS> + Brings, S, T, const LISTS: usize> Waitable<Waiting<'_, O, S, T, LISTS>> {
    /// The value that the operation has brought, unless that has taken effect: for a source that
    /// was chosen among others [by reference](Waitable::by_ref), and lost.
    #[must_use]
    pub fn into_value(self) -> Option<O::Value> {
        self.into_source().into_operation().into_value()
    }
}

/// A node would stay in a queue when its frame goes.
fn no_unwind() -> NoUnwind {
    NoUnwind::new("an operation panicked while it was registered in a queue; the process can't go on")
}

// SAFETY: a node is reached only in the queue, under the lock, until its claim; `withdraw` takes
// the node out under the lock. A value is put into the slot before the claim. Nothing here holds on
// to the thread: the lock is taken and released within a step.
unsafe impl<O, S, T, const LISTS: usize> Source for Waiting<'_, O, S, T, LISTS>
where
    O: Operation<S, T, LISTS>,
{
    type Output = O::Output;
    type Slot = Node<T>;

    #[inline]
    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    #[inline]
    fn object(&self) -> Object {
        self.operation.owner().map_or_else(|| Object::at(self.queue), Object::owned)
    }

    #[inline]
    fn address(&self, least: usize) -> Option<usize> {
        Some(ptr::from_ref(self.queue).addr()).filter(|address| *address >= least)
    }

    #[inline]
    fn attempt(&mut self) -> Option<O::Output> {
        if chain::top().is_null() { self.look() } else { self.look_behind() }
    }

    #[inline]
    fn parts(&self) -> Parts {
        Parts::one(if chain::top().is_null() { self.operation.may_be_ready() } else { self.ask_behind() })
    }

    #[inline]
    fn part_count(&self) -> usize {
        1
    }

    /// In one hold of the lock.
    #[inline(always)] // As a function of its own it takes 3 ns more of a message.
    unsafe fn start(
        &mut self,
        slot: &mut Node<T>,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<Option<O::Output>, Retreat> {
        if let Unlocked::Done(done) = self.operation.attempt_unlocked() {
            return Ok(Some(done));
        }
        let mut queue = self.queue.lock();
        let done = self.operation.attempt(&mut queue);
        if done.is_none() {
            // SAFETY: as the caller promises.
            unsafe { Self::join(self.queue, &mut self.operation, &mut queue, slot, trigger, arm) };
            if queue.has_served() {
                // The attempt may have served others, in vain for itself, and to resume them may
                // call wakers.
                registered(self.waits_for, || drop(queue));
            }
        }
        Ok(done)
    }

    unsafe fn register(&mut self, slot: &mut Node<T>, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        let no_unwind = no_unwind();
        let joined = registered(self.waits_for, || {
            let mut queue = Guard::new(self.queue.lock.lock(), trigger);
            if self.operation.is_ready(&mut queue) {
                return Err(trigger.retreat());
            }
            // SAFETY: as the caller promises.
            unsafe { Self::join(self.queue, &mut self.operation, &mut queue, slot, trigger, arm) };
            Ok(())
        });
        no_unwind.disarm();
        joined
    }

    unsafe fn withdraw(&mut self, slot: &mut Node<T>) {
        // SAFETY: nobody has claimed the waiter through this slot.
        unsafe { self.leave(slot) };
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut Node<T>, _arm: usize) -> Option<O::Output> {
        // SAFETY: the trigger was taken through this arm, so the node is out and nobody else
        // reaches the slot.
        let served = slot.slot.with_mut(|slot| unsafe { (*slot).take() });
        self.operation.commit(served)
    }

    unsafe fn give_back(&mut self, slot: &mut Node<T>, _arm: usize) {
        // SAFETY: as in `commit`.
        let served = slot.slot.with_mut(|slot| unsafe { (*slot).take() });
        let mut queue = self.queue.lock();
        let rest = self.operation.give_back(served, &mut queue);
        drop(queue);
        drop(rest);
    }
}

/// The operation of [`WaitQueue::source`]: two closures.
#[derive(Clone, Copy, Debug)]
pub struct Take<R, A> {
    pub(super) ready: R,
    pub(super) take: A,
}

impl<S, T, R, A> Operation<S, T> for Take<R, A>
where
    R: Fn(&S) -> bool,
    A: FnMut(&mut S) -> T,
{
    type Output = T;

    #[inline]
    fn attempt(&mut self, queue: &mut Guard<'_, S, T>) -> Option<T> {
        (self.ready)(queue.state()).then(|| (self.take)(queue.state()))
    }

    #[inline]
    fn is_ready(&mut self, queue: &mut Guard<'_, S, T>) -> bool {
        (self.ready)(queue.state())
    }

    #[inline]
    fn commit(&mut self, slot: Option<T>) -> Option<T> {
        slot
    }

    fn give_back(&mut self, slot: Option<T>, queue: &mut Guard<'_, S, T>) -> Option<T> {
        match slot {
            // A waiter that was only told passes that on: perhaps no other was told.
            None => {
                queue.notify_one(0);
                None
            }
            Some(value) => queue.hand_over(0, value).err(),
        }
    }
}
