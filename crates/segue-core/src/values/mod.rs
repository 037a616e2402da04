//! Values that fibers carry: the attributes that a policy reads, fiber-local values, a number of
//! their own, and a state of the thread.

pub(crate) mod attributes;
pub(crate) mod carried;
pub(crate) mod locals;
pub(crate) mod mark;
pub(crate) mod run;
