//! Parallel loops, sorts and scans.

#[path = "../common/mod.rs"]
mod common;

mod loops;
mod sorts;
mod vectors;
mod waits;
