//! The host in which each coroutine is an OS thread, so that all logic above runs under Miri and
//! the sanitizers.
//!
//! Used by the crate's root with the feature `threads`; the interface is that of `native`.

mod baton;
mod copies;
mod coroutine;
mod region;

use std::fmt;
use std::io;

use crate::backtrace::StackTrace;
pub use crate::unwatched::{Interrupted, Watched};

pub use copies::{Copied, StackCopies};
pub(crate) use coroutine::{Core, RawCoroutine, into_stack, let_go, place, take_apart};
pub use coroutine::{PASSES_ON, prefetch, prefetch_frames};
pub(crate) use region::Region;

/// What every backtrace says here.
pub(crate) const NO_TRACES: &str = "no backtraces where each fiber is a thread: build without the feature `threads`";

/// There are no stacks to write of.
pub(crate) fn write_stacks(_: &mut fmt::Formatter<'_>, _: &[StackTrace]) -> fmt::Result {
    Ok(())
}

/// Pages matter for the checks of a configuration alone.
pub(crate) fn page_size() -> usize {
    4096
}

/// Does nothing: this host has no stacks to trim.
pub(crate) fn release_heap() {}

/// Does nothing: a thread's stack is guarded by std.
///
/// # Errors
///
/// None.
pub fn install_overflow_handler() -> io::Result<()> {
    Ok(())
}

/// Does nothing: a thread's stack is guarded by std.
///
/// # Errors
///
/// None.
pub fn ensure_alternate_stack() -> io::Result<()> {
    Ok(())
}
