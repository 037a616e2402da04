//! The stream of a connection with its buffers, below all messages.

pub(crate) mod buffers;
pub(crate) mod facts;
pub(crate) mod line;
mod sending;
pub(crate) mod transport;
