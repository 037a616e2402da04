//! The errors that structures share: closed, full, cancelled or closed, and one that gives back
//! what an operation was given.
//!
//! Used by `sync`, and by applications, for which `?` makes of them what their own functions fail
//! with.

use segue_core::Cancelled;
use std::error::Error;
use std::{fmt, io};

/// What is waited for will never come: the other side has gone, or has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: what is waited for will never come")
    }
}

impl Error for Closed {}

impl From<Closed> for Cancelled {
    /// With [`Closed`] as the reason.
    fn from(closed: Closed) -> Self {
        Self::with_reason(closed)
    }
}

impl From<Closed> for io::Error {
    /// Of kind `BrokenPipe`.
    fn from(closed: Closed) -> Self {
        Self::new(io::ErrorKind::BrokenPipe, closed)
    }
}

/// There is no room, and the operation does not wait for some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("full: there is no room")
    }
}

impl Error for Full {}

impl From<Full> for io::Error {
    /// Of kind `WouldBlock`.
    fn from(full: Full) -> Self {
        Self::new(io::ErrorKind::WouldBlock, full)
    }
}

/// Why a wait for something that can be closed has got nothing.
///
/// `?` takes it into a function that fails with [`Cancelled`], where [`Closed`] is the reason, and
/// into one that fails with [`io::Error`].
///
/// # Examples
///
/// ```
/// use segue::sync::Semaphore;
/// use segue::{Cancelled, Closed, WaitError};
///
/// let seats = Semaphore::new(1);
/// seats.close();
/// assert_eq!(seats.acquire().unwrap_err(), WaitError::Closed);
///
/// let sit = || -> Result<(), Cancelled> {
///     let _seat = seats.acquire()?;
///     Ok(())
/// };
/// assert!(sit().unwrap_err().reason().unwrap().is::<Closed>());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The wait was cancelled.
    Cancelled(Cancelled),
    /// What was waited for will never come.
    Closed,
}

impl WaitError {
    /// Whether the wait was cancelled by a deadline.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        matches!(self, Self::Cancelled(cancelled) if cancelled.timed_out())
    }
}

impl From<Closed> for WaitError {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Cancelled> for WaitError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<WaitError> for Cancelled {
    /// With [`Closed`] as the reason if it is that.
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Cancelled(cancelled) => cancelled,
            WaitError::Closed => Closed.into(),
        }
    }
}

impl From<WaitError> for io::Error {
    /// As [`Cancelled`] and [`Closed`] convert.
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Cancelled(cancelled) => cancelled.into(),
            WaitError::Closed => Closed.into(),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled(cancelled) => cancelled.fmt(f),
            Self::Closed => Closed.fmt(f),
        }
    }
}

impl Error for WaitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cancelled(cancelled) => cancelled.source(),
            Self::Closed => None,
        }
    }
}

/// An operation did not take place; here is what it was given, and why.
///
/// `?` keeps the error alone where a function fails with [`Cancelled`] or with [`io::Error`].
///
/// # Examples
///
/// ```
/// use segue::sync::{MVar, promise};
/// use segue::{Closed, Full, Rejected};
///
/// let place = MVar::new(1);
/// assert_eq!(place.try_put(2), Err(Rejected { value: 2, error: Full }));
///
/// let (resolver, promised) = promise();
/// drop(promised);
/// assert_eq!(resolver.fill("unread"), Err(Rejected { value: "unread", error: Closed }));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Rejected<T, E = Cancelled> {
    /// What the operation was given.
    pub value: T,
    /// Why it did not take place.
    pub error: E,
}

impl<T, E: Into<Cancelled>> From<Rejected<T, E>> for Cancelled {
    /// Drops the value.
    fn from(rejected: Rejected<T, E>) -> Self {
        rejected.error.into()
    }
}

impl<T, E: Into<io::Error>> From<Rejected<T, E>> for io::Error {
    /// Drops the value.
    fn from(rejected: Rejected<T, E>) -> Self {
        rejected.error.into()
    }
}

// Of the error alone: the value need not be shown.
segue_core::impl_debug!([T, E: fmt::Debug] Rejected<T, E>, |it| error: it.error);

impl<T, E: fmt::Display> fmt::Display for Rejected<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T, E: Error> Error for Rejected<T, E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
