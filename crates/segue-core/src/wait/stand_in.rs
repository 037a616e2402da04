//! Headers that stand for somebody who is woken as a fiber is, and never runs as one: a task that
//! awaits a source, an async task in its context, a waiter for a cancellation.
//!
//! Used where structures and contexts know fibers alone.
#![allow(unsafe_code)] // A scheduler, although one that suspends nothing.

use crate::contract::clock::Clock;
use crate::contract::fiber::{Fiber, Scheduler, Spawn, Wake};
use crate::contract::job::Identity;
use crate::contract::slots::ContextHead;
use crate::primitives::switch::Switch;
use crate::thread::plain;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// What a header stands for.
///
/// # Safety
/// `wake` keeps clauses 4 and 9 to 12 of the contract. The headers are never made current, so that
/// they are never suspended.
pub(crate) unsafe trait StandIn: Sync {
    /// What a wake-up of the header does.
    ///
    /// # Safety
    /// As for [`Scheduler::wake`].
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake);
}

/// The scheduler of one kind of such headers. The type has a size so that its address is its own.
pub(crate) struct StandIns<K> {
    _address: u8,
    _kind: PhantomData<K>,
}

impl<K> StandIns<K> {
    pub(crate) const fn new() -> Self {
        Self { _address: 0, _kind: PhantomData }
    }
}

impl<K: StandIn> StandIns<K> {
    /// A header in this context, or in none.
    ///
    /// # Safety
    /// The context outlives the header, or is null.
    pub(crate) unsafe fn header(&'static self, context: *const ContextHead) -> Fiber {
        // SAFETY: the scheduler is static; and as the caller promises.
        unsafe { Fiber::new(NonNull::from(self), 0, Identity::in_context(context)) }
    }
}

// SAFETY: 1 to 3: its fibers never run and are never suspended. The rest is what `StandIn`
// promises.
unsafe impl<K: StandIn> Scheduler for StandIns<K> {
    unsafe fn suspend(&self, _fiber: &Fiber) -> Option<Switch> {
        unreachable!("what stands for somebody does not wait itself");
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: as the caller promises.
        unsafe { K::wake(fiber, why) };
    }

    unsafe fn yield_now(&self, _fiber: &Fiber) -> Option<Switch> {
        None
    }

    fn spawner(&self) -> &dyn Spawn {
        plain::scheduler().spawner()
    }

    fn timers(&self) -> &dyn Clock {
        plain::scheduler().timers()
    }
}
