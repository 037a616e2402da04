//! Requests and responses, their heads and bodies: how they are parsed, read and written.

pub(crate) mod answers;
mod authority;
pub(crate) mod body;
pub(crate) mod body_error;
mod chunked;
pub(crate) mod content;
mod date;
pub(crate) mod encode;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod file_body;
pub(crate) mod framing;
pub(crate) mod head;
pub(crate) mod idle;
#[cfg(feature = "json")]
pub(crate) mod json;
mod names;
pub(crate) mod refusal;
pub(crate) mod response;
mod trailers;
pub(crate) mod upgrade;
