//! Values that fibers carry: the attributes that a policy reads, and fiber-local values.

pub(crate) mod attributes;
pub(crate) mod locals;
pub(crate) mod run;
