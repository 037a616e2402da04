//! Why a call that never waits has not taken effect.
//!
//! Used by senders and receivers.

use crate::{Closed, Full};
use std::error::Error;
use std::{fmt, io};

/// Why a value could not be sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySendError {
    /// No receiver waits, and there is no room; there may be later.
    Full,
    /// The channel was closed.
    Closed,
}

impl fmt::Display for TrySendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => Full.fmt(f),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl Error for TrySendError {}

impl From<TrySendError> for io::Error {
    /// As [`Full`] and [`Closed`] convert.
    fn from(error: TrySendError) -> Self {
        match error {
            TrySendError::Full => Full.into(),
            TrySendError::Closed => Closed.into(),
        }
    }
}

/// Why no value could be received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is none; there may be later.
    Empty,
    /// The channel was closed, and all was received.
    Closed,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty: there is no value"),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl Error for TryRecvError {}

impl From<TryRecvError> for io::Error {
    /// Of kind `WouldBlock`, or as [`Closed`] converts.
    fn from(error: TryRecvError) -> Self {
        match error {
            TryRecvError::Empty => Self::new(io::ErrorKind::WouldBlock, error),
            TryRecvError::Closed => Closed.into(),
        }
    }
}
