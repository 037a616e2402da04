//! One connection of a server, from its first byte to its end, and its place among the others.

pub(crate) mod gate;
mod record;
mod respond;
pub(crate) mod serve;
