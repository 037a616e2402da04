//! The finer parts of cancellation: requests to finish, shields with a budget, code that must not
//! wait, and the types of failures.
//!
//! Used beside [`CancelToken`](crate::CancelToken), [`timeout`](crate::timeout()) and
//! [`shield`](crate::shield()). `docs/cancellation.md` has the rules.

pub use segue_core::{Failure, Overran, TimedOut, finishing_source, is_finishing, no_suspend, shield_for};
