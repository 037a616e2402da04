//! Requests and responses, their heads and bodies: how they are parsed, read and written.

mod authority;
pub(crate) mod body;
pub(crate) mod body_error;
mod chunked;
mod date;
pub(crate) mod encode;
pub(crate) mod head;
pub(crate) mod response;
