//! A ring's two queues in shared memory, and the one system call.
//!
//! Owned by `Ring`; `setup.rs` makes it.
#![allow(unsafe_code)] // The queues borrow from the ring beside them.

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::time::Duration;

/// How many completions are taken out at a time.
pub(super) const BATCH: usize = 64;

/// Longer than this is waited for in several turns.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The handles borrow from the ring, which stays in its place on the heap and is freed last.
pub(super) struct Queues {
    submitter: ManuallyDrop<Submitter<'static>>,
    submissions: ManuallyDrop<SubmissionQueue<'static>>,
    completions: ManuallyDrop<CompletionQueue<'static>>,
    ring: NonNull<IoUring>,
}

impl Queues {
    pub(super) fn new(ring: IoUring) -> Self {
        let ring = NonNull::from(Box::leak(Box::new(ring)));
        // SAFETY: from a box that was leaked just now. Nothing but these three handles uses it
        // until `drop`, which ends them first.
        let (mut submitter, submissions, completions) = unsafe { &mut *ring.as_ptr() }.split();
        // It saves a look-up of the descriptor per call. A kernel that can't goes without.
        let _ = submitter.register_ring_fd();
        Self {
            submitter: ManuallyDrop::new(submitter),
            submissions: ManuallyDrop::new(submissions),
            completions: ManuallyDrop::new(completions),
            ring,
        }
    }

    /// How many submissions the kernel has not got yet.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        self.submissions.len()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.submissions.is_full()
    }

    /// Puts in a submission, which the kernel gets at the next [`enter`](Queues::enter).
    ///
    /// # Panics
    /// If the queue is full.
    ///
    /// # Safety
    /// What the entry points to stays until its completion.
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: the caller's.
        let pushed = unsafe { self.submissions.push(entry) };
        assert!(pushed.is_ok(), "no room was made in a ring's queue");
    }

    /// Whether the kernel has completions for this ring, in the queue or about to be put there.
    #[inline]
    pub(super) fn is_called(&mut self) -> bool {
        self.completions.sync();
        !self.completions.is_empty() || self.owes()
    }

    /// Whether completions come into the queue only when the kernel is entered.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.submissions.taskrun() || self.submissions.cq_overflow()
    }

    /// Gives the kernel all submissions, and has it put completions into the queue; waits until
    /// there are `want`, or for `timeout`.
    ///
    /// That it was interrupted or that the time is over is no error.
    pub(super) fn enter(&mut self, want: u32, timeout: Option<Duration>) -> io::Result<()> {
        self.submissions.sync();
        let pending = u32::try_from(self.submissions.len()).unwrap_or(u32::MAX);
        let entered = match timeout {
            Some(timeout) if want > 0 => {
                let timeout = Timespec::from(timeout.min(LONGEST));
                let args = SubmitArgs::new().timespec(&timeout);
                let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
                // SAFETY: the flags announce this argument, which lives for the call.
                unsafe { self.submitter.enter(pending, want, flags.bits(), Some(&args)) }
            }
            // SAFETY: there is no argument.
            _ => unsafe { self.submitter.enter::<()>(pending, want, EnterFlags::GETEVENTS.bits(), None) },
        };
        self.submissions.sync();
        match entered.err().and_then(|error| error.raw_os_error()) {
            // Interrupted, the time is over; or no memory, or too many completions, right now: the
            // submissions stay in the queue for the next time.
            None | Some(libc::EINTR | libc::ETIME | libc::EAGAIN | libc::EBUSY) => Ok(()),
            Some(error) => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Takes out some completions.
    #[inline]
    pub(super) fn take<'b>(&mut self, batch: &'b mut [MaybeUninit<cqueue::Entry>; BATCH]) -> &'b [cqueue::Entry] {
        self.completions.sync();
        let taken = self.completions.fill(batch);
        self.completions.sync();
        taken
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // Else the thread keeps the ring. It fails where it was not registered.
        let _ = self.submitter.unregister_ring_fd();
        // SAFETY: dropped once, here; the handles first, then the ring that they borrow from, which
        // came out of a box.
        unsafe {
            ManuallyDrop::drop(&mut self.completions);
            ManuallyDrop::drop(&mut self.submissions);
            ManuallyDrop::drop(&mut self.submitter);
            drop(Box::from_raw(self.ring.as_ptr()));
        }
    }
}
