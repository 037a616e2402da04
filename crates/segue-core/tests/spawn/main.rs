//! Fibers and threads: scopes, handles, fiber-local values.
#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;

mod fiber_locals;
mod handles;
mod plain_threads;
mod scopes;
