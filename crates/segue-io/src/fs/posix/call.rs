//! The seam between a request to a file system and the wait for it, where there is no ring.
//!
//! Used by everything in `fs`, through [`run`]. It is the way of callers that wait in place, and of
//! a fiber that must not be suspended; the others make their calls `elsewhere`.
//!
//! **Commit point**: the kernel's. **Cancellation**: before a call has begun, *no effect*. A call
//! that has begun is waited for.

use crate::driver::workers::is_orphan;
use crate::system::sys::until_done;
use std::io;

/// One request to a file system, with the memory that the request borrows.
pub(in crate::fs) trait Call: Send {
    /// The result of a success.
    type Output: Send;

    /// The words of a report for a fiber that waits in this call.
    const WAITS_FOR: &'static str;

    /// The result without waiting; `None` if there is none, or the kernel can't tell. Then nothing
    /// has happened.
    fn at_once(&mut self) -> Option<io::Result<Self::Output>> {
        None
    }

    /// Makes the system call, which may block the thread.
    fn perform(&mut self) -> rustix::io::Result<Self::Output>;
}

/// How a call flies in a ring, where there are rings.
macro_rules! flies {
    ($($way:tt)*) => {};
}

pub(in crate::fs) use flies;

/// Carries out a call: suspends the calling fiber, or blocks the calling thread, meanwhile.
#[track_caller]
pub(in crate::fs) fn run<C: Call>(mut call: C) -> io::Result<C::Output> {
    segue_core::admit()?;
    if !segue_core::in_fiber() || is_orphan() {
        return until_done(|| call.perform());
    }
    match call.at_once() {
        Some(done) => done,
        None => segue_core::blocking(|| until_done(|| call.perform()))?,
    }
}
