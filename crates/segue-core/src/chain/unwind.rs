//! Where the panic of foreign code must not get any further: it stays inside, or it ends the
//! process.
//!
//! Used by tasks, wakers, wait queues and schedulers: others depend on their going on.

use crate::chain::barrier;
use crate::primitives::payload::{NO_DESCRIPTION, NO_MESSAGE, Payload, message};
use crate::primitives::waits_for::WaitsFor;
use std::any::Any;
use std::fmt::Display;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Ends the process, and says why on the standard error if anybody reads it. It never unwinds, as
/// `eprintln!` does when the other end of a pipe is closed: the caller can't go on.
#[cold]
#[inline(never)]
pub fn abort(why: impl Display) -> ! {
    let _ = writeln!(io::stderr(), "segue: {why}");
    std::process::abort();
}

/// Calls foreign code and keeps its panic in; then it yields nothing. The panic hook has reported
/// the panic, and the payload is leaked, since its drop may panic again.
///
/// It is behind a [barrier]: what others rely on goes on after it.
#[track_caller]
pub fn contain<R>(f: impl FnOnce() -> R) -> Option<R> {
    caught(f).map_err(std::mem::forget).ok()
}

/// As [`contain`], for a caller that reports the panic.
#[track_caller]
pub(crate) fn caught<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    let foreign = WaitsFor::new("a waker, a drop or other code that an operation calls");
    barrier(foreign, || catch_unwind(AssertUnwindSafe(f)))
}

/// Calls a user's closure where a fiber begins with it. By this name std knows that the frames
/// further out say nothing to a user, and leaves them out of a panic's backtrace.
///
/// A job begins in a function of the same name, which is there in any case; this one is called
/// where the compiler leaves in between what catches panics and the like.
#[doc(hidden)]
#[cfg_attr(debug_assertions, inline(never))]
#[cfg_attr(not(debug_assertions), inline(always))]
pub fn __rust_begin_short_backtrace<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// The text of a panic, or that there is none. It may be foreign code that describes it.
#[cold]
pub(crate) fn text(payload: &(dyn Any + Send)) -> String {
    let said = contain(|| message(payload).unwrap_or_else(|| NO_MESSAGE.to_owned()));
    said.unwrap_or_else(|| NO_DESCRIPTION.to_owned())
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
    #[inline]
    fn drop(&mut self) {
        abort(self.0);
    }
}
