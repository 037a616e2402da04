//! Effect handlers, generators, and regions of bodies that are suspended.
//!
//! Used by programs with control flow of their own. The documentation of `segue_fiber::effect` has
//! the meaning of handlers and continuations.

pub use segue_sched::fiber::effect::*;
pub use segue_sched::fiber::{Generator, Region, Yielder, generator, generator_with_stack, multi, region};
