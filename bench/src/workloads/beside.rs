//! `beside`: a thousand connections that ask, and one more that streams: how long
//! 99 of a hundred answers take at most. The servers are those of `echo`, with a message in
//! flight on each of the connections; so an answer takes about as long as all of them together.
//!
//! The figure is a time by the client's clock, from a message to its echo. The client streams by
//! the same thread and the same ring with which it asks.

use crate::measure::{Variant, Workload, smoke};
use crate::servers::{MULTISHOT, Service, names, slowest};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "beside",
    timed: "by the client's clock: how long 99 of 100 answers take at most, without and beside a connection that streams",
    variants,
};

fn variants() -> Vec<Variant> {
    let connections = if smoke() { 100 } else { 1_000 };
    let variant = |name: &str, streams| {
        let variant = Variant::new(name, "answer, the slowest hundredth left out", 2);
        let all = names(Service::Echo).filter(|who| *who != MULTISHOT).chain(["Go"]);
        let variant = all.fold(variant, |variant, who| variant.add_client(who, slowest(who, connections, streams)));
        variant.absent(MULTISHOT, "it answers one message at a time")
    };
    vec![variant("1,000 connections", false), variant("1,000 connections, and one streams", true).against_first()]
}
