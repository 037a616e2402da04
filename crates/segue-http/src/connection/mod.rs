//! One connection of a server, from its first byte to its end, and its place among the others.

mod contexts;
mod ending;
pub(crate) mod gate;
mod incoming;
mod record;
mod respond;
pub(crate) mod serve;
