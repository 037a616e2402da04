//! Calls to other parties, on threads that their callers can interrupt, and leave behind.
//!
//! Used by `fs` for files of servers and of the kernel's own file systems, and by `descriptor` for
//! calls that can't be told not to wait.

mod calls;
mod interrupt;

pub(crate) use calls::{Asked, Patience, detach, fill, gather, in_place, is_called_for, room, run, run_with, scatter};
