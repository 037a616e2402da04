//! The presence of a worker: in its park, or at work; and how a parked worker is woken.
//!
//! Used by `park`, which says so, and by `outsiders`, which has others turn the reactor of a worker
//! that does not come to do so.
//!
//! # The word
//!
//! To wake a thread out of the kernel costs a system call, which is needed only while the
//! thread is there. One word says so:
//!
//! ```text
//!                    park                 unpark: notify the kernel, or resume the fiber
//!   RUNNING -------------> PARKED, SUSPENDED ------------> UNPARKED
//!      |  ^                  |        |                     |
//!      |  |    a look at it  v        |                     |
//!      |  |               UNWATCHED --)-- as from PARKED -->|
//!      |  +------------------+--------+                     |
//!      |  |     the wait has ended                          |
//!      |  +-------------------------------------------------+
//!      |                                                    |
//!      +----------------------------------------------------+
//!                    unpark: no system call
//! ```
//!
//! A park that finds UNPARKED looks for events without waiting. **The race to fear**: an unpark
//! between the last look for work and the wait in the kernel. If the unpark comes before the
//! exchange to PARKED, then the exchange fails; if after, then the unpark sees PARKED and notifies
//! the kernel, where a notification stays until a wait has taken it. A notification that comes
//! late, after its wait has ended for another reason, cuts a later one short, which a park may do.
//! SUSPENDED is the same with a [`WaitPark`](segue_core::scheduling::WaitPark) in the kernel's
//! place, which keeps an unpark, too.
//!
//! UNWATCHED is PARKED for both sides, but that the side which ends UNWATCHED calls for the looks
//! of `outsiders` again: they have ended, since nothing is to be looked at while the worker waits
//! there.
//!
//! **Another thread takes reports** while the worker is away, and with the reports perhaps a
//! notification: one for a worker which has come back meanwhile, and has gone into the kernel. Then
//! the word does not say RUNNING, since that notification was sent after the exchange to UNPARKED,
//! unless the worker has returned from the kernel since. So a thread that has taken reports, and
//! sees anything but RUNNING, notifies once more.
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `unpark`'s swap | `park`'s failed exchange, or its swap at the end | the work that the worker is woken for |
//! | the exchange to UNWATCHED | the swap that ends that state | that no look is to come (`outsiders`) |
//!
//! `looks` counts how often the worker has looked into its driver, and orders nothing.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const UNPARKED: u8 = 2;
const SUSPENDED: u8 = 3;
const UNWATCHED: u8 = 4;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    state: AtomicU8,
    looks: AtomicUsize,
}

/// Where a worker was that is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Was {
    /// Somewhere else: its next park finds out.
    Elsewhere,
    /// In the kernel, watched or unwatched.
    Parked { unwatched: bool },
    /// In a fiber that is suspended.
    Suspended,
}

impl Presence {
    /// The worker is going to wait in the kernel, or to suspend its fiber. Answers whether the
    /// worker may: no unpark came first. In any case [`get_up`](Presence::get_up) follows.
    #[must_use]
    pub(crate) fn lie_down(&self, in_kernel: bool) -> bool {
        let to = if in_kernel { PARKED } else { SUSPENDED };
        self.state.compare_exchange(RUNNING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The wait has ended. Answers whether the worker was unwatched.
    #[must_use]
    pub(crate) fn get_up(&self) -> bool {
        self.looked();
        self.state.swap(RUNNING, Ordering::AcqRel) == UNWATCHED
    }

    /// Somebody has work for the worker.
    pub(crate) fn unpark(&self) -> Was {
        match self.state.swap(UNPARKED, Ordering::AcqRel) {
            PARKED => Was::Parked { unwatched: false },
            UNWATCHED => Was::Parked { unwatched: true },
            SUSPENDED => Was::Suspended,
            _ => Was::Elsewhere,
        }
    }

    /// Leaves a worker unwatched that waits in the kernel.
    #[must_use]
    pub(crate) fn leave_unwatched(&self) -> bool {
        let left = self.state.compare_exchange(PARKED, UNWATCHED, Ordering::AcqRel, Ordering::Acquire);
        matches!(left, Ok(_) | Err(UNWATCHED))
    }

    /// Whether the worker is at work, without an unpark since its last park.
    pub(crate) fn is_running(&self) -> bool {
        self.state.load(Ordering::Acquire) == RUNNING
    }

    /// The worker has looked into its driver. For its own thread.
    #[inline]
    pub(crate) fn looked(&self) {
        self.looks.store(self.looks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// How often the worker has looked.
    pub(crate) fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "../../tests/units/presence.rs"]
mod tests;
