//! Sources, drivers, and simulated ones; pipes.

#[path = "../common/mod.rs"]
mod common;

mod drivers;
mod pipes;
mod simulated;
mod source_storms;
mod sources;
