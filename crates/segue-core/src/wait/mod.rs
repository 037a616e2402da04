//! Waiting: what can be waited for ([`source`]), the one queue under every structure ([`queue`]),
//! choices, and how tasks and futures come in.

pub(crate) mod admission;
pub(crate) mod any_of;
pub(crate) mod as_task;
pub(crate) mod deadline;
pub(crate) mod future;
pub(crate) mod holders;
pub(crate) mod no_suspend;
pub(crate) mod park;
pub(crate) mod queue;
pub(crate) mod select;
pub(crate) mod source;
pub(crate) mod waker;
