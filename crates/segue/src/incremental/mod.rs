//! Push parsers: code that reads, fed piece by piece.
//!
//! Used by programs that get their input from callbacks, events or decoders, and parse that input
//! by code that reads. A [`Machine`] has a stack on its thread; a [`FiberMachine`] has a fiber, and
//! goes from thread to thread.

mod spawned;

pub use segue_sched::fiber::incremental::*;
pub use spawned::{FiberMachine, Pieces, spawn};
