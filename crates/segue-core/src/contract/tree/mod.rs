//! What a fiber is inside of: the tree of contexts by which it is cancelled, and the family that
//! waits for it.

pub(crate) mod cancelled;
pub(crate) mod context;
pub(crate) mod extent;
pub(crate) mod failure;
pub(crate) mod family;
pub(crate) mod spare;
