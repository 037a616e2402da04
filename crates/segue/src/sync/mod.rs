//! Structures at which fibers of any scheduler and plain threads meet.
//!
//! Each is written once against `segue-core`, with its one queue of waiters, and knows no scheduler. More of them
//! come; so far there is the promise.

mod promise;

pub use promise::{Promise, Resolver, WaitError, promise};
