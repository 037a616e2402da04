//! The selectors: the kernel interfaces that tell which sockets are ready.
//!
//! Used by the reactor alone. [`Backend`] is the public choice.

mod backend;
#[cfg(linux)]
mod epoll;
#[cfg(any(feature = "polling", not(linux)))]
mod polled;
mod reports;

pub use backend::Backend;
pub(crate) use reports::{Interest, Ready, Selector};
