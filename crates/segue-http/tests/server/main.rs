//! The server among clients of all kinds.

#[path = "../common/mod.rs"]
mod common;

mod bad_requests;
mod connections;
mod cuts;
mod request_bodies;
mod responses;
mod timeouts;
