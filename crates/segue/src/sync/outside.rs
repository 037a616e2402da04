//! `segue_stm::outside`, without transactions.
//!
//! Used by cells, which nobody forces in the body of a transaction then.

use segue_core::Cancelled;

/// No caller is in a body.
#[inline]
pub(super) fn look<R>(_look: impl FnMut() -> Option<R>) -> Option<Result<R, Cancelled>> {
    None
}

/// No transaction is around.
#[inline]
pub(super) fn apart<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Nobody waits in a body.
#[inline]
pub(super) fn changed() {}
