//! Slots: words in the headers of fibers and jobs that belong to rooms above the contract.
//!
//! Used by those rooms. The contract carries slots from the spawner to the fiber, and follows two:
//! a claim looks whether `waits_in` was cancelled, and an interrupt whether `context` was. So a
//! context begins with a [`ContextHead`]. Until a fiber begins, `locals` has the fiber's job.
//!
//! | slot | leads to | belongs to |
//! | --- | --- | --- |
//! | `context` | the innermost context that the fiber is inside of | `tree` |
//! | `member_of` | the context that lists the fiber, by `links` | `tree` |
//! | `waits_in` | the context that can cancel the wait (`refusal.rs`) | `tree` |
//! | `family` | the family of the fibers that this fiber detaches | `spawn` |
//! | `attributes` | words for the policy | `values` |
//! | `locals` | the table of fiber-local values | `values` |
//! | `mark` | a number, which no other fiber of the thread has (`values/mark.rs`); 0 before its first use | `values` |
//! | `task` | the executor's part of a fiber that is a task | `wait` |
//! | `draws` | the state of the fiber's random numbers | `wait` |
//! | `kernel_waits` | how many of the fiber's waits only the kernel ends, for the report of a simulation | `drivers` |
//! | `unblocked` | whether calls of the C library that block suspend the fiber instead | `drivers` |

use crate::primitives::atomic::{AtomicU8, Ordering};

/// The head of a context: the flags. The room `tree` has the rest.
pub(crate) struct ContextHead {
    pub(crate) flags: AtomicU8,
}

impl ContextHead {
    /// The context is cancelled. The other flags belong to `tree`.
    pub(crate) const CANCELLED: u8 = 1;

    pub(crate) fn new(flags: u8) -> Self {
        Self { flags: AtomicU8::new(flags) }
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.flags.load(Ordering::Acquire) & Self::CANCELLED != 0
    }
}

/// The name of a [`Family`](crate::scheduling::Family), the fibers of an owner: an address or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyId(*const ());

impl FamilyId {
    pub(crate) const NONE: Self = Self(std::ptr::null());

    #[inline]
    pub(crate) const fn new(family: *const ()) -> Self {
        Self(family)
    }

    #[inline]
    pub(crate) const fn as_ptr(self) -> *const () {
        self.0
    }

    /// The address as a number, which another family may have when this one has gone.
    #[must_use]
    pub fn addr(self) -> usize {
        self.0.addr()
    }
}
