//! Failures of an engine.
//!
//! Used by engines, and by the pool and the workers, which try again or give in.

use segue::Cancelled;
use std::error::Error;
use std::fmt;

/// The failure of an operation of an [`Engine`](super::Engine).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The caller was cancelled. The operation may have happened.
    Cancelled(Cancelled),
    /// The queue has no room: try again later.
    Full,
    /// The engine could not be asked, or did not answer: try again later. The operation may have
    /// happened.
    Unavailable(String),
    /// This will never be possible: too large, or against the settings.
    Refused(String),
    /// The engine has ended.
    Closed,
}

impl EngineError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Full | Self::Unavailable(_))
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled(cancelled) => cancelled.fmt(f),
            Self::Full => f.write_str("the queue is full"),
            Self::Unavailable(why) => write!(f, "the engine is not available: {why}"),
            Self::Refused(why) => f.write_str(why),
            Self::Closed => f.write_str("the engine has ended"),
        }
    }
}

impl Error for EngineError {}

impl From<Cancelled> for EngineError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}
