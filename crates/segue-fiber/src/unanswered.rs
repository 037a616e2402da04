//! Why a thread that was asked where it is has not said so.
//!
//! Used by [`Watched`](crate::Watched) of either host.

use std::fmt;

/// Why [`Watched::backtrace`](crate::Watched::backtrace) has nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The thread has ended.
    Ended,
    /// The thread did not answer in time.
    TimedOut,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the thread has ended",
            Self::TimedOut => {
                "the thread did not answer in time: it blocks the signal SIGURG, is stopped, or gets no processor time; \
                 ask again, with a longer time-out"
            }
        })
    }
}

impl std::error::Error for Unanswered {}
