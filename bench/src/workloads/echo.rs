//! `echo`: servers that send back what they get, otherwise as those of `http_loop`. An operation is
//! a message of 64 bytes and its echo; each connection has one message in flight.
//!
//! With one connection client and server take turns: a server sleeps while the message travels, and
//! what is timed is mostly that. With 10,000 the connections' memory is in no cache when its turn
//! comes.

use super::http_loop::served;
use crate::measure::{Variant, Workload};
use crate::servers::Service;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "echo", timed: "a server's processor time per message of 64 bytes that it sends back", variants };

fn variants() -> Vec<Variant> {
    [1, 100, 10_000].into_iter().map(|connections| served(Service::Echo, connections, "message")).collect()
}
