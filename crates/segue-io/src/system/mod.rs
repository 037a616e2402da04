//! The ground floor: system calls, the process and its forks, whole buffers, pauses.
//!
//! Used by every other room. Nothing here knows of a driver, or waits for one.

pub(crate) mod fork;
pub(crate) mod pauses;
pub(crate) mod sys;
pub(crate) mod whole;
