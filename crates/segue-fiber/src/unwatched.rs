//! Where nobody knows what a thread does: no thread can be asked.
//!
//! Used by the host on threads, and by ports whose threads can't interrupt each other;
//! `native/watch.rs` documents the interface.

#![allow(unsafe_code)] // The contract is that of the others.

use std::io;
use std::time::Duration;

use crate::backtrace::Backtrace;
use crate::host::NO_TRACES;
use crate::unanswered::Unanswered;

/// A thread that other threads may ask where it is; here, without an answer.
#[derive(Clone, Debug)]
pub struct Watched(());

impl Watched {
    /// Lets other threads ask the calling thread where it is.
    ///
    /// # Errors
    ///
    /// None.
    pub fn register() -> io::Result<Watched> {
        Ok(Watched(()))
    }

    /// An empty backtrace that says why it is empty.
    ///
    /// # Errors
    ///
    /// None.
    pub fn backtrace(&self, _timeout: Duration) -> Result<Backtrace, Unanswered> {
        Ok(Backtrace::empty(NO_TRACES))
    }
}

impl Watched {
    /// Nobody is interrupted: the state comes back, without a look.
    ///
    /// # Safety
    ///
    /// None.
    ///
    /// # Errors
    ///
    /// Always [`Unanswered::TimedOut`].
    pub unsafe fn visit<T: Send>(
        &self,
        _timeout: Duration,
        state: Box<T>,
        _visit: unsafe fn(&mut T, &Interrupted<'_>),
    ) -> (Option<Box<T>>, Result<Backtrace, Unanswered>) {
        (Some(state), Err(Unanswered::TimedOut))
    }
}

/// A thread that was interrupted: here, none is.
#[derive(Debug)]
pub struct Interrupted<'a>(std::convert::Infallible, std::marker::PhantomData<&'a ()>);

impl Interrupted<'_> {
    /// Whether the thread runs in this coroutine.
    pub fn runs_in<H>(&self, _coroutine: &crate::Coroutine<H>) -> Option<bool> {
        match self.0 {}
    }
}
