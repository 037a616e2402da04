//! Waiting: what can be waited for ([`source`]), the one queue under every structure ([`queue`]),
//! choices, sources that are made of others, and how tasks and futures come in.

pub(crate) mod admission;
pub(crate) mod any_of;
pub(crate) mod arms;
pub(crate) mod as_task;
mod bell;
pub(crate) mod deadline;
pub(crate) mod draw;
pub(crate) mod executor;
pub(crate) mod filter_map;
pub(crate) mod future;
pub(crate) mod future_source;
pub(crate) mod guarded;
pub(crate) mod holders;
mod link;
pub(crate) mod merge;
pub(crate) mod nack;
pub(crate) mod no_suspend;
pub(crate) mod park;
pub(crate) mod parts;
pub(crate) mod queue;
pub(crate) mod retreat;
pub(crate) mod select;
pub(crate) mod source;
pub(crate) mod stand_in;
pub(crate) mod ticks;
pub(crate) mod trigger;
pub(crate) mod waker;
