//! The pauses between attempts at what the kernel tells nobody of: a lock on a file, the other end
//! of a named pipe, room in the queue of a Unix socket.
//!
//! Used by `fs` and `net`.
//!
//! They double up to a longest one, on a clock that goes with the real one: in a simulation, too,
//! if that is open to the world. In one that is closed nobody outside ever does anything, so what
//! is waited for comes from its own fibers, or not at all; and its clock jumps to whatever is next.
//! There pauses grow with the time that was waited, without an end: so an attempt is late by a
//! sixteenth of that time at most, and if nothing else happens any more some four hundred attempts
//! lead beyond what the clock can show. Then no timer is left, and the simulator names the fiber
//! that waits.

use segue_core::drivers::{KernelWait, kernel_wait};
use segue_core::{Ended, WaitQueue, WaitsFor, now};
use std::io;
use std::time::{Duration, Instant};

/// The first pause.
const FIRST: Duration = Duration::from_millis(1);

/// Which part of the time that was waited a pause is, where it may be longer than the longest.
const PART: u32 = 16;

/// The pauses of one operation.
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
    /// When the first one began.
    began: Option<Instant>,
}

impl Pauses {
    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { next: FIRST, longest, began: None }
    }

    /// Waits until the next attempt is due; not beyond `timeout` after the first pause began.
    ///
    /// # Errors
    /// `TimedOut` then; that of a cancellation.
    #[track_caller]
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, waits_for: WaitsFor) -> io::Result<()> {
        let now = now();
        let began = *self.began.get_or_insert(now);
        let deadline = timeout.and_then(|time| began.checked_add(time));
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut pause = self.next;
        let kernel = Some(kernel_wait()).filter(KernelWait::may_end);
        if kernel.is_none() {
            pause = pause.max(now.duration_since(began) / PART);
        }
        self.next = self.longest.min(self.next * 2);
        let due = [now.checked_add(pause), deadline].into_iter().flatten().min();
        let told = WaitQueue::<()>::new(());
        match told.wait_until(due, waits_for, |()| false, |()| ()) {
            Err(Ended::Cancelled(cancelled)) => Err(cancelled.into()),
            Ok(()) | Err(Ended::TimedOut) => Ok(()),
        }
    }
}
