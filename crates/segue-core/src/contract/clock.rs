//! The clock of a scheduler: its timers, of which the contract knows no more than this. Schedulers
//! hand a clock out, and `timers/mod.rs` has `Deref for dyn Clock`, which gives the timers back.
#![allow(unsafe_code)] // That `Deref` relies on the one implementation.

/// The [`Timers`](crate::scheduling::Timers) of a scheduler, to which a clock dereferences.
///
/// # Safety
/// The implementing type is `Timers`.
pub unsafe trait Clock {}
