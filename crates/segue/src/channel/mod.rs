//! Channels: messages between fibers of any scheduler, plain threads and tasks of any async
//! runtime.
//!
//! * [`watch`]: one value, of which each receiver sees the newest.

pub mod watch;
