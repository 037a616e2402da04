//! Sources that are made of others, of closures and of futures, and the types of sources.
//!
//! Used beside [`select!`](crate::select!), [`any_of`](crate::any_of) and
//! [`Waitable`](crate::Waitable), which choose among sources.

pub use segue_core::{Fate, Merge, Missed, Nack, OneOf, Ticks, any_of_biased, future_source, guard, merge, with_nack};
