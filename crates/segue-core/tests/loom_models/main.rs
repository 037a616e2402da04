//! Models of the protocols of waits, wakers, tasks and cancellation.
#![cfg(loom)]

#[path = "../mailbox/mod.rs"]
mod mailbox;
#[path = "../models/mod.rs"]
mod models;
#[path = "../rendezvous/mod.rs"]
mod rendezvous;

mod loom_async_task;
mod loom_captured;
mod loom_combinators;
mod loom_context;
mod loom_future;
mod loom_lazy_timer;
mod loom_merge;
mod loom_planted;
mod loom_refusal;
mod loom_select;
mod loom_task;
mod loom_trigger;
mod loom_wait_queue;
mod loom_waker;
