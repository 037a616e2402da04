//! Models of the protocols between workers.

mod loom_group;
mod loom_inbox;
mod loom_recorder;
