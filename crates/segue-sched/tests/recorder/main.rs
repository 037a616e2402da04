//! The flight recorder: which events there are, in which order, and that a snapshot is true while
//! workers write.

mod events;
mod under_load;
