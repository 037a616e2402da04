//! Fork-join, and who gets the other half.

#[path = "../common/mod.rs"]
mod common;

mod joining;
mod wishes;
