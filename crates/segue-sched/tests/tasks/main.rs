//! Futures on schedulers.

#[path = "../common/mod.rs"]
mod common;

mod async_tasks;
mod orphans;
