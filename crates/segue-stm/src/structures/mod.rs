//! Structures that are made of variables, for use inside of transactions.
//!
//! Used by bodies. All operations take the [`Tx`](crate::Tx) of a body, so several of them, on
//! several structures, are one step; those that wait do so by [`retry`](crate::Tx::retry), so an
//! [`or_else`](crate::Tx::or_else) around them tries another.
//!
//! # Values
//!
//! An operation hands out a `&'t T`, as [`Tx::read`](crate::Tx::read) does: a reference for the
//! time of the attempt. The alternative was a copy, with `T: Clone`. A transaction that only looks
//! at a value would then pay for the copy, as would each attempt that begins again; and a value
//! without `Clone` could not be stored. A body that wants to keep a value says `.cloned()`, or
//! stores an `Arc`. Structures share values between versions by an `Arc` of their own, where a
//! version has many values.
//!
//! # Order
//!
//! The structures keep no list of waiters. A commit wakes all transactions that wait for one of the
//! variables that it has written; they begin again, and the first to commit has the value. So
//! values keep their order, where the structure has one, and those that wait have none: a
//! program that needs the order of arrival takes a channel or an `MVar` of the crate `segue`.

mod chan;
mod map;
mod mvar;
mod queue;
mod set;

use crate::stop::Stop;
use crate::tx::Tx;

pub use chan::TChan;
pub use map::TMap;
pub use mvar::TMVar;
pub use queue::{TBQueue, TQueue};
pub use set::TSet;

/// The value that was found; a retry where there was none.
fn or_retry<R>(tx: &Tx<'_>, found: Option<R>) -> Result<R, Stop> {
    found.map_or_else(|| tx.retry(), Ok)
}
