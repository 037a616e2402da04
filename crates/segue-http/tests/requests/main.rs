//! Requests and responses over a scripted connection, and the time limits of both.

#[path = "../common/mod.rs"]
mod common;

mod bad_requests;
mod body_limits;
mod connections;
mod cuts;
mod foreign;
mod gaps;
mod observed;
mod request_bodies;
mod responses;
mod timeouts;
mod trailers;
