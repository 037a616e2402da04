//! Effect handlers in fibers.

#[path = "../common/mod.rs"]
mod common;

mod effects;
mod shared_handlers;
