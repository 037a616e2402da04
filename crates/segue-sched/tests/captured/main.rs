//! Computations that are captured in the middle of something.

#[path = "../common/mod.rs"]
mod common;

mod astray;
mod captured;
mod captured_contexts;
mod captured_far;
