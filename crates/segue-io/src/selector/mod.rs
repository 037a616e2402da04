//! The selectors: the kernel interfaces that tell which sockets are ready.
//!
//! Used by the reactor alone. [`Backend`] is the public choice.

mod backend;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
#[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
mod polled;
mod reports;

pub use backend::Backend;
pub(crate) use reports::{Interest, Ready, Selector};
