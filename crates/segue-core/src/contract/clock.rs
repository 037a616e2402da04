//! The clock of a scheduler, as the contract knows it: not at all.
//!
//! A scheduler hands out its timers as a [`Clock`]; the room `timers` above makes of it what it is.
#![allow(unsafe_code)] // The room `timers` relies on the one implementation.

/// The [`Timers`](crate::scheduling::Timers) of a scheduler, to which this dereferences.
///
/// # Safety
/// The implementing type is `Timers`.
pub unsafe trait Clock {}
