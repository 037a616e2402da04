//! Channels: queues, broadcasts, and the last value.
#![cfg(feature = "sched")]

#[path = "../common/drain.rs"]
mod drain;
#[path = "../common/meet.rs"]
mod meet;

mod broadcast;
mod broadcast_conservation;
mod channel;
mod channel_delivery;
mod channel_front;
mod channel_misuse;
mod channel_model;
mod channel_reserve;
mod channel_selects;
mod watch;
