//! `http_loop`: loops that answer HTTP, each in a process of its own with one thread, asked over
//! loopback by a client on another processor. An operation is one request of two headers and its
//! answer, a text of 2,053 bytes; each connection has one request in flight.
//!
//! A loop reads into a buffer of 4 KiB, parses what is there with httparse, answers each request
//! with fixed bytes, and keeps the connection. All loops use the same functions for that. Their
//! rivals in turn are whole servers, which make their answers anew, of the same length: `hyper`,
//! "segue, server", and Go's.
//!
//! Timed: the processor time of all threads of the server's process, as the kernel counts it. Not
//! timed: starting, connecting, the client. The system calls are counted once, before the rounds.
//! If a server is less than busy, it also pays for falling asleep and being woken.

use crate::measure::{Variant, Workload, smoke};
use crate::servers::{Service, ask, names};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "http_loop",
    timed: "a server's processor time per request: minimal loops with httparse, and whole servers",
    variants,
};

fn variants() -> Vec<Variant> {
    [16, 100, 1_000].into_iter().map(|connections| served(Service::Http, connections, "request")).collect()
}

/// All servers of a service, asked over so many connections.
pub(super) fn served(service: Service, connections: usize, op: &'static str) -> Variant {
    let name = match connections {
        1 => "1 connection".to_owned(),
        1_000.. => format!("{},{:03} connections", connections / 1_000, connections % 1_000),
        _ => format!("{connections} connections"),
    };
    let variant = Variant::new(name, op, 1).served();
    let connections = if smoke() { connections.min(100) } else { connections };
    let all = names(service).chain(["Go"]);
    all.fold(variant, |variant, who| variant.add_client(who, ask(service, who, connections)))
}
