//! Channels: messages between fibers of any scheduler, plain threads and tasks of any async
//! runtime.
//!
//! * [`broadcast`]: each receiver gets every message, or is told how many it has missed.
//! * [`watch`]: one value, of which each receiver sees the newest.

pub mod broadcast;
pub mod watch;
