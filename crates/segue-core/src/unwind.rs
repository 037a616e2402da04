//! Where the panic of foreign code must not get any further: it stays inside, or it ends the process.
//!
//! Used by tasks, wakers, wait queues and schedulers, on whose going on others depend.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code whose panic must not get out, and then yields nothing: the panic hook has reported it, and its payload, whose drop may panic again, is leaked.
pub fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(std::mem::forget).ok()
}

/// Ends the process if a panic passes by; to be [disarmed](NoUnwind::disarm) when all went well.
#[must_use = "it watches until it is disarmed"]
pub struct NoUnwind(&'static str);

impl NoUnwind {
    /// `why` is what the process then says.
    #[inline]
    pub const fn new(why: &'static str) -> Self {
        Self(why)
    }

    /// There was no panic.
    #[inline]
    pub const fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for NoUnwind {
    fn drop(&mut self) {
        eprintln!("segue: {}", self.0);
        std::process::abort();
    }
}
