//! Values that fibers carry: the attributes that a policy reads, fiber-local values, and a number
//! of their own.

pub(crate) mod attributes;
pub(crate) mod locals;
pub(crate) mod mark;
pub(crate) mod run;
