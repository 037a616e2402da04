//! The drivers: how an op on a socket is carried out, and how a worker idles meanwhile.
pub(crate) mod bell;
pub(crate) mod completions;
pub(crate) mod op;
pub(crate) mod outsiders;
pub(crate) mod park;
pub(crate) mod presence;
pub(crate) mod reactor;
pub(crate) mod readiness;
pub(crate) mod ready;
pub(crate) mod run;
pub(crate) mod settled;
pub(crate) mod socket;

pub use park::DriverPark;
