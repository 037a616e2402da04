//! Why a receiver of a broadcast gets no message, from a look and from a wait.
//!
//! Used by `receiver.rs`, and by applications, in which `?` converts them into errors of their own.

use crate::Closed;
use segue_core::Cancelled;
use std::error::Error;
use std::{fmt, io};

/// The result of a look at a broadcast without a message.
///
/// [`Receiver::try_recv`](super::Receiver::try_recv) and the source of a receive yield this; those
/// have no wait that could be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMessage {
    /// So many messages were overwritten before this receiver got to them. The next receive yields
    /// the oldest one that is left.
    Lagged(u64),
    /// The receiver has got all messages, and there will be no more.
    Closed,
}

impl fmt::Display for NoMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(1) => f.write_str("lagged: a message was overwritten before it was received"),
            Self::Lagged(missed) => write!(f, "lagged: {missed} messages were overwritten before they were received"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl Error for NoMessage {}

impl From<Closed> for NoMessage {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<NoMessage> for io::Error {
    /// `Lagged` is of kind `Other`; `Closed` is as [`Closed`] converts.
    fn from(error: NoMessage) -> Self {
        match error {
            NoMessage::Lagged(_) => Self::other(error),
            NoMessage::Closed => Closed.into(),
        }
    }
}

/// Why a receive from a broadcast has got no message.
///
/// `?` converts this into [`Cancelled`], with the other two as reasons, and into [`io::Error`].
///
/// # Examples
///
/// ```
/// use segue::channel::broadcast::{self, RecvError};
/// use segue::{Cancelled, Closed};
///
/// let (sender, mut receiver) = broadcast::channel(1);
/// sender.send("lost")?;
/// sender.send("kept")?;
/// drop(sender);
/// assert_eq!(receiver.recv(), Err(RecvError::Lagged(1)));
/// assert_eq!(receiver.recv(), Ok("kept"));
///
/// let next = |from: &mut broadcast::Receiver<_>| -> Result<&str, Cancelled> { Ok(from.recv()?) };
/// assert!(next(&mut receiver).unwrap_err().reason().unwrap().is::<Closed>());
/// # Ok::<(), segue::Rejected<&str, Closed>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// So many messages were overwritten before this receiver got to them. The next receive yields
    /// the oldest one that is left.
    Lagged(u64),
    /// The receiver has got all messages, and there will be no more.
    Closed,
    /// The wait was cancelled.
    Cancelled(Cancelled),
}

impl RecvError {
    /// Whether the wait was cancelled by a deadline.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        matches!(self, Self::Cancelled(cancelled) if cancelled.timed_out())
    }
}

impl From<NoMessage> for RecvError {
    fn from(error: NoMessage) -> Self {
        match error {
            NoMessage::Lagged(missed) => Self::Lagged(missed),
            NoMessage::Closed => Self::Closed,
        }
    }
}

impl From<Cancelled> for RecvError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<RecvError> for Cancelled {
    /// With [`Closed`], or a [`NoMessage`] that says how many were missed, as the reason.
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Lagged(missed) => Self::with_reason(NoMessage::Lagged(missed)),
            RecvError::Closed => Self::with_reason(Closed),
            RecvError::Cancelled(cancelled) => cancelled,
        }
    }
}

impl From<RecvError> for io::Error {
    /// As [`Cancelled`] and [`NoMessage`] convert.
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Lagged(missed) => NoMessage::Lagged(missed).into(),
            RecvError::Closed => Closed.into(),
            RecvError::Cancelled(cancelled) => cancelled.into(),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lagged(missed) => NoMessage::Lagged(*missed).fmt(f),
            Self::Closed => NoMessage::Closed.fmt(f),
            Self::Cancelled(cancelled) => cancelled.fmt(f),
        }
    }
}

impl Error for RecvError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cancelled(cancelled) => cancelled.source(),
            Self::Lagged(_) | Self::Closed => None,
        }
    }
}
