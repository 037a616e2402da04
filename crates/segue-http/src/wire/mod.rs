//! The stream of a connection with its buffers. Knows nothing of HTTP.

pub(crate) mod buffers;
pub(crate) mod line;
pub(crate) mod transport;
