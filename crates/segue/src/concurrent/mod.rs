//! Several closures or items at a time, over data that the caller owns: all of them, the first of
//! them, so many at once.
//!
//! Used by applications. Whatever runs closures here is a [`scope`](crate::scope): closures and
//! items may borrow, each closure is a fiber of the caller's scheduler, and nothing is left running
//! when the call returns.
//!
//! * [`join_all`] runs closures and has all results.
//! * [`race`] has the first one that ends, [`first_ok`] the first that succeeds; the others are
//!   cancelled and waited for, and their late results come along.
//! * [`at_most`] bounds how many items are worked on at a time: [`map`](AtMost::map),
//!   [`for_each`](AtMost::for_each), [`any`](AtMost::any).
//! * [`Retry`] tries one closure again, with pauses that grow.
//! * [`RateLimiter`] lets so many through in an interval.
//!
//! ```
//! use segue::concurrent::{at_most, first_ok, join_all};
//!
//! let words = ["straight", "line", "code"];
//! let lengths = join_all(words.iter().map(|word| || word.len()))?;
//! assert_eq!(lengths, [8, 4, 4]);
//!
//! let number = first_ok(words.iter().map(|word| || word.parse::<u32>()));
//! assert_eq!(number.unwrap_err().errors.len(), 3);
//!
//! let shouted = at_most(2).map(words, |word| word.to_uppercase())?;
//! assert_eq!(shouted, ["STRAIGHT", "LINE", "CODE"]);
//! # Ok::<(), segue::Cancelled>(())
//! ```
//!
//! # Cancellation
//!
//! A closure that runs is never ended from outside: a cancellation of its waits asks for the end,
//! and the closure chooses its result. So each closure that has begun yields a result, and every
//! result is returned, the winner's or beside it. A closure that has not begun is dropped unrun; an
//! item that was not begun stays in its iterator.
//!
//! # Panics
//!
//! A panic of a closure or of an iterator cancels the rest, and is raised when all have ended.

mod each;
mod race;
mod rate_limiter;
mod retry;

pub use each::{AtMost, at_most};
pub use race::{First, NoneOk, first_ok, join_all, race};
pub use rate_limiter::RateLimiter;
pub use retry::{GaveUp, Retry};

use segue_core::Cancelled;
use std::error::Error;
use std::{fmt, io};

/// Not all have been begun, since the caller was cancelled: with the results of those that were.
///
/// `?` converts this into [`Cancelled`] or with [`io::Error`].
pub struct Incomplete<T> {
    /// In their order; `None` where nothing was begun. There may be fewer than items.
    pub results: Vec<Option<T>>,
    /// Why.
    pub error: Cancelled,
}

impl<T> From<Incomplete<T>> for Cancelled {
    /// Drops the results.
    fn from(incomplete: Incomplete<T>) -> Self {
        incomplete.error
    }
}

impl<T> From<Incomplete<T>> for io::Error {
    /// Drops the results.
    fn from(incomplete: Incomplete<T>) -> Self {
        incomplete.error.into()
    }
}

// Of the error alone: the results need not be shown.
impl<T> fmt::Debug for Incomplete<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = self.results.iter().flatten().count();
        f.debug_struct("Incomplete").field("begun", &begun).field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Incomplete<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} of the results are there", self.error, self.results.iter().flatten().count())
    }
}

impl<T> Error for Incomplete<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
