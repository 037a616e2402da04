//! Waits: sources and choices among them, queues, wakers, futures; and the cancellation of waits.

#[path = "../common/mod.rs"]
mod common;
#[path = "../mailbox/mod.rs"]
mod mailbox;
#[path = "../rendezvous/mod.rs"]
mod rendezvous;

mod cancellation;
mod chained_wakers;
mod choices;
mod combinators;
mod future_sources;
mod futures;
mod hostile;
mod hostile_wakers;
mod lying_operations;
mod merges;
mod nacks;
mod planted_choices;
mod rendezvous_choices;
mod source_storms;
mod tokens;
mod trigger;
mod wait_queue;
mod wakers;
