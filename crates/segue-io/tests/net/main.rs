//! Sockets: streams, datagrams, names, and the waits of all of them.

#[path = "../common/mod.rs"]
mod common;

mod accepting;
mod connecting;
mod names;
mod options;
mod splitting;
mod streams;
mod udp;
mod unix;
mod waits;
