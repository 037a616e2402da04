//! The cancellation tree: the contexts that a fiber is inside of, and the error that a
//! cancellation is.

pub(crate) mod cancelled;
pub(crate) mod context;
pub(crate) mod extent;
pub(crate) mod membership;
pub(crate) mod reports;
