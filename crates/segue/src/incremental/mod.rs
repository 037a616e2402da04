//! Push parsers: code that reads, fed piece by piece.
//!
//! Used by programs that get their input from callbacks, events or decoders, and parse that input
//! by code that reads.

pub use segue_sched::fiber::incremental::*;
