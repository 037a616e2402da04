//! Descriptors that carry bytes and need be no sockets, and the types over them.
//!
//! Used by programs as `pipe`, `pty`, `stdio` and `fd`; by `fs` for streams that have a path, by
//! `process` for the ends of a child's pipes.

pub(crate) mod bytes;
pub mod fd;
#[cfg(linux)]
pub mod foreign;
pub(crate) mod ops;
pub mod pipe;
pub mod pty;
pub mod stdio;
