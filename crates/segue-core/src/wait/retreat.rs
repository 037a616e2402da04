//! Retreats: a waiter is withdrawn in the middle of its registration, and waits again.
//!
//! Used by sources: a choice that finds a value while registering its arms retreats, takes its arms
//! out of their queues, and may then use its trigger again.
#![allow(unsafe_code)] // The word holds the address of a fiber.

use crate::contract::fiber::Fiber;
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::Ordering;

/// The answer of a registration that has found its value: the waiter has been withdrawn, so that
/// nobody serves this waiter any more, unless a claim came just before. Made by
/// [`Trigger::retreat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the waiter does not wait any more, or was claimed"]
pub struct Retreat {
    withdrawn: bool,
}

impl Retreat {
    /// Whether the waiter has been withdrawn. If not, a claim came before.
    pub(crate) fn is_withdrawn(self) -> bool {
        self.withdrawn
    }
}

impl Trigger {
    /// Withdraws the waiter that is being registered, unless a claim came before. For the
    /// [`register`](crate::Source::register) of a source, by the waiter itself: a waiter that
    /// somebody else withdraws so is not resumed by that, and sleeps on.
    #[inline]
    pub fn retreat(&self) -> Retreat {
        Retreat { withdrawn: self.withdraw().is_some() }
    }

    /// Makes a withdrawn trigger wait again.
    ///
    /// # Safety
    /// The waiter has left all queues, so that nobody else knows the trigger. The waiter is the
    /// calling fiber, or a header that the trigger's owner has suspended by the trigger, and stays
    /// in place until the resume or the withdrawal; or null, for no waiter.
    #[inline]
    pub(crate) unsafe fn rearm(&self, waiter: *mut Fiber) {
        self.word.store(waiter, Ordering::Release);
    }
}
