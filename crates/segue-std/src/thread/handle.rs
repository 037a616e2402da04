//! The handle of a fiber that may outlive its spawner.

use super::Thread;
use crate::cancelled::wait;
use segue::JoinError;
use std::panic::resume_unwind;

/// [`std::thread::JoinHandle`]. Dropping it detaches the fiber.
pub struct JoinHandle<T> {
    handle: segue::JoinHandle<std::thread::Result<T>>,
    thread: Thread,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(handle: segue::JoinHandle<std::thread::Result<T>>, thread: Thread) -> Self {
        Self { handle, thread }
    }

    /// Waits for the end of the fiber, and takes its result.
    ///
    /// # Cancellation
    /// Unwinds; see [the module](crate). The fiber goes on, detached.
    ///
    /// # Errors
    /// What the fiber panicked with; a [`Cancelled`](segue::Cancelled), if it was cancelled in a
    /// wait that unwinds, or before it began.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        ended(wait!(self.handle.join()))
    }

    /// The fiber.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Whether the fiber has ended. Never waits.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

segue::core::impl_debug!([T] JoinHandle<T>, |it| thread: it.thread);

/// The result of a fiber that catches its own panic.
pub(super) fn ended<T, H>(joined: Result<std::thread::Result<T>, JoinError<H>>) -> std::thread::Result<T> {
    match joined {
        Ok(result) => result,
        Err(JoinError::WaitCancelled(cancelled, _)) => resume_unwind(Box::new(cancelled)),
        Err(JoinError::NeverRan(cancelled) | JoinError::Cancelled(cancelled)) => Err(Box::new(cancelled)),
        Err(JoinError::Panicked(panic)) => Err(panic.into_payload()),
    }
}
