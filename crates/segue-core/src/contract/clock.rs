//! The clock of a scheduler: its timers, of which the contract knows no more than this. Schedulers
//! hand a clock out; the room `timers` above gives the timers back.
#![allow(unsafe_code)] // The room `timers` relies on the one implementation.

/// The [`Timers`](crate::scheduling::Timers) of a scheduler, to which a clock dereferences.
///
/// # Safety
/// The implementing type is `Timers`.
pub unsafe trait Clock {}
