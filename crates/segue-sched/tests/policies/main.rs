//! Policies: those that ship, and the interface for others.

#[path = "../common/mod.rs"]
mod common;

mod attributes;
mod depth_first;
mod gangs;
mod models;
mod placing;
mod policies;
mod starvation;
