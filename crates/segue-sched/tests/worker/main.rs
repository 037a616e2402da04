//! What a fiber sees of its worker: spawns, turns, cancellation, checkpoints.

#[path = "../common/mod.rs"]
mod common;

mod cancelling;
mod checkpoints;
mod fairness;
mod passing_on;
mod spawning;
