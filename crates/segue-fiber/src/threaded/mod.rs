//! The host in which each coroutine is an OS thread, so that all logic above runs under Miri and
//! the sanitizers.
//!
//! Used by the crate's root with the feature `threads`; the interface is that of `native`.

mod baton;
mod coroutine;
mod region;
mod watched;

use std::fmt;
use std::io;

pub use coroutine::prefetch;
pub(crate) use coroutine::{Core, RawCoroutine, into_stack, let_go, place, take_apart};
pub(crate) use region::Region;
pub use watched::Watched;

/// What every backtrace says here.
const NO_TRACES: &str = "no backtraces where each fiber is a thread: build without the feature `threads`";

/// What a printed trace knows of the program: nothing, since there are no traces.
pub(crate) struct Symbols(());

impl Symbols {
    pub(crate) fn with<R>(f: impl FnOnce(Option<&Symbols>) -> R) -> R {
        f(None)
    }

    pub(crate) fn own(&self, addresses: &[usize]) -> usize {
        addresses.len()
    }

    pub(crate) fn write(&self, _: &mut fmt::Formatter<'_>, _: usize, _: usize) -> Result<bool, fmt::Error> {
        Ok(false)
    }
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
