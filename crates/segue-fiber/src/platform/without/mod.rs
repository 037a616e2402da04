//! What stands in for the parts that a port has left out.

#[cfg(not(target_os = "linux"))]
pub(crate) mod program;
#[cfg(not(target_os = "linux"))]
pub(crate) mod trace;
#[cfg(not(unwinds))]
pub(crate) mod unwind;
