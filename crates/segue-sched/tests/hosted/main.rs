//! Fibers without a worker, and closures that wait where nobody expects it.

#[path = "../common/mod.rs"]
mod common;

mod hosted;
mod hostile_hosts;
mod kept_wakers;
mod lying_operations;
