//! Timers and deadlines.
#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;

mod deadlines;
mod lazy_timers;
mod timers;
mod timers_model;
