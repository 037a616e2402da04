//! The drivers: how an op on a socket is carried out, and how a worker idles meanwhile.
//!
//! Used by everything that waits for the kernel. From the bottom: `readiness`, `settled`,
//! `presence` and `outsiders` have the states, each with its race; `reactor` is the driver of
//! readiness, `looks` has other threads turn it; `workers` says which reactor is the caller's;
//! `socket` is registered there, and `edges` are its events as a source. Above the sockets are the
//! ops (`op`, `ready`), `completions`, which has them fly in a ring, and `run`, which carries an op
//! out. `park` is how a worker idles; `bell` is a socket that a signal handler rings.

pub(crate) mod bell;
#[cfg_attr(not(linux), path = "no_completions.rs")]
pub(crate) mod completions;
mod edges;
mod looks;
pub(crate) mod op;
mod outsiders;
mod park;
mod presence;
mod reactor;
pub(crate) mod readiness;
pub(crate) mod ready;
pub(crate) mod run;
mod settled;
pub(crate) mod socket;
pub(crate) mod workers;

pub use park::DriverPark;
