//! The simulator and the explorer.

#[path = "../common/mod.rs"]
mod common;

mod exploring;
mod outside;
mod settling;
mod sim;
