//! The end of the process where foreign code unwinds into a worker.
//!
//! Used by the worker loop around policies and parks, and by wakes around drivers.

use segue_core::unwind::NoUnwind;

/// Ends the process if a policy, park or driver unwinds: fibers that were suspended could be
/// neither continued nor freed.
#[inline]
pub(crate) fn no_unwind() -> NoUnwind {
    NoUnwind::new("a policy, park or driver panicked on its worker; the worker's fibers can't go on")
}
