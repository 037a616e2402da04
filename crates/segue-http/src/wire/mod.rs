//! The stream of a connection with its buffers, below all messages.

pub(crate) mod buffers;
pub(crate) mod facts;
pub(crate) mod line;
pub(crate) mod transport;
