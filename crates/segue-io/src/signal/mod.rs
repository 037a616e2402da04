//! Signals, as something to wait for.
//!
//! Used by programs that are to end in an orderly way, or to read their configuration again.
//! [`Signals`] has the deliveries of one signal; [`ctrl_c`] is the common case.

mod handler;
mod kind;
mod once;
mod signals;

pub use kind::Signal;
pub(crate) use once::is_ignored;
pub use signals::{Signals, ctrl_c};
