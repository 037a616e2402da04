//! What simulators have to be told: where a fiber may be preempted, and what happens outside.

pub(crate) mod external_work;
pub(crate) mod preemption;
