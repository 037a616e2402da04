//! Why a join has no result: the wait was cancelled, or the fiber, or that panicked.
//!
//! Used by handles and by the bridges.

use crate::primitives::payload::Panic;
use crate::spawn::join_handle::JoinHandle;
use crate::tree::cancelled::Cancelled;
use std::any::Any;
use std::convert::Infallible;
use std::error::Error;
use std::panic::resume_unwind;
use std::{fmt, io};

/// Why a join has no result.
///
/// `H` is the [`JoinHandle`](crate::JoinHandle) where the join has used it up; `?` drops the handle
/// where a `JoinError` without one is returned. An `.await` is not cancelled by an error, so there
/// is none to give back.
///
/// # Examples
///
/// ```
/// use std::error::Error;
///
/// fn answer() -> Result<u32, Box<dyn Error + Send + Sync>> {
///     Ok(segue_core::spawn(|| 42).join()?)
/// }
/// assert_eq!(answer().unwrap(), 42);
///
/// let error = segue_core::spawn(|| panic!("out of ink")).join().unwrap_err();
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(error.to_string(), "the fiber panicked: out of ink");
/// ```
#[derive(Debug)]
pub enum JoinError<H = ()> {
    /// The caller's wait was cancelled. The awaited fiber goes on, and can be joined again.
    WaitCancelled(Cancelled, H),
    /// Cancelled before the start: its closure, or future, was dropped.
    NeverRan(Cancelled),
    /// Cancelled in a wait: a task with a dropped future. A fiber is not ended like that; a fiber
    /// returns, or panics.
    Cancelled(Cancelled),
    /// Panicked. Inside a scope the scope keeps the payload, and this one is the message.
    Panicked(Panic),
}

/// The reason for a task without a result, from the task itself.
pub(crate) type Failed = JoinError<Infallible>;

impl<H> JoinError<H> {
    /// The cancellation that is the reason for no result, if there was one: of the wait, or of the
    /// awaited fiber. Never waits.
    #[must_use]
    pub fn cancelled(&self) -> Option<&Cancelled> {
        match self {
            Self::WaitCancelled(cancelled, _) | Self::NeverRan(cancelled) | Self::Cancelled(cancelled) => {
                Some(cancelled)
            }
            Self::Panicked(_) => None,
        }
    }

    /// Whether there is no result because of a cancellation: of the wait, or of the awaited fiber.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled().is_some()
    }

    /// Whether the fiber panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Panicked(_))
    }

    /// The payload for `std::panic::resume_unwind`, after a panic.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        match self {
            Self::Panicked(panic) => Some(panic.into_payload()),
            _ => None,
        }
    }

    /// The cancellation, for a function that returns `Cancelled`: if the fiber panicked, the panic
    /// goes on in the caller, without a second report by the panic hook. If the wait was cancelled,
    /// the handle is dropped, and the joined fiber goes on.
    ///
    /// `?` does not do so by itself, since that would hide a panic that may come out there.
    ///
    /// # Panics
    /// If the fiber did, with its payload; inside a scope, which keeps the payload, with the
    /// message.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Cancelled, JoinError, spawn};
    ///
    /// fn sum() -> Result<u32, Cancelled> {
    ///     let (six, seven) = (spawn(|| 6), spawn(|| 7));
    ///     let six = six.join().map_err(JoinError::into_cancelled)?;
    ///     Ok(six + seven.join().map_err(JoinError::into_cancelled)?)
    /// }
    /// assert_eq!(sum(), Ok(13));
    /// ```
    pub fn into_cancelled(self) -> Cancelled {
        match self {
            Self::WaitCancelled(cancelled, _) | Self::NeverRan(cancelled) | Self::Cancelled(cancelled) => cancelled,
            Self::Panicked(panic) => resume_unwind(panic.into_payload()),
        }
    }

    /// The handle, to join again, after a cancellation of the wait.
    pub fn into_handle(self) -> Option<H> {
        match self {
            Self::WaitCancelled(_, handle) => Some(handle),
            _ => None,
        }
    }

    pub(crate) fn map_handle<I>(self, map: impl FnOnce(H) -> I) -> JoinError<I> {
        match self {
            Self::WaitCancelled(cancelled, handle) => JoinError::WaitCancelled(cancelled, map(handle)),
            Self::NeverRan(cancelled) => JoinError::NeverRan(cancelled),
            Self::Cancelled(cancelled) => JoinError::Cancelled(cancelled),
            Self::Panicked(panic) => JoinError::Panicked(panic),
        }
    }

    pub(crate) fn of(failed: Failed) -> Self {
        failed.map_handle(|never| match never {})
    }
}

impl JoinError {
    /// The payload of `std::panic::catch_unwind`.
    #[must_use]
    pub fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self::Panicked(Panic::new(payload))
    }
}

impl From<Cancelled> for JoinError {
    /// Of the wait.
    fn from(cancelled: Cancelled) -> Self {
        Self::WaitCancelled(cancelled, ())
    }
}

impl<T, C> From<JoinError<JoinHandle<T, C>>> for JoinError {
    /// Drops the handle: the joined fiber goes on, detached.
    fn from(error: JoinError<JoinHandle<T, C>>) -> Self {
        error.map_handle(drop)
    }
}

/// No error says so. This variant is here for the compiler's sentence about `?`, of which it says
/// the label alone.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    label = "its fiber may have panicked: `.map_err(segue::JoinError::into_cancelled)?` raises such a panic here and \
             returns the cancellation; or return a `JoinError`, or a boxed error"
)]
pub trait IsNoPanic {}

impl<H> From<JoinError<H>> for Cancelled
where
    JoinError<H>: IsNoPanic,
{
    fn from(error: JoinError<H>) -> Self {
        error.into_cancelled()
    }
}

impl<H> From<JoinError<H>> for io::Error {
    /// A cancellation as [`Cancelled`] converts; otherwise of kind `Other`, with the panic's
    /// message.
    fn from(error: JoinError<H>) -> Self {
        match error.map_handle(drop) {
            JoinError::Panicked(panic) => Self::other(JoinError::<()>::Panicked(panic)),
            JoinError::WaitCancelled(cancelled, ())
            | JoinError::NeverRan(cancelled)
            | JoinError::Cancelled(cancelled) => cancelled.into(),
        }
    }
}

impl<H> fmt::Display for JoinError<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (said, cancelled) = match self {
            Self::WaitCancelled(cancelled, _) => ("the wait for the fiber was cancelled", cancelled),
            Self::NeverRan(cancelled) => ("the fiber was cancelled before it started", cancelled),
            Self::Cancelled(cancelled) => ("the task was cancelled where it waited", cancelled),
            Self::Panicked(panic) => return write!(f, "the fiber panicked: {panic}"),
        };
        match cancelled.reason() {
            Some(reason) => write!(f, "{said}: {reason}"),
            None => f.write_str(said),
        }
    }
}

impl<H: fmt::Debug> Error for JoinError<H> {
    /// The source of the cancellation's reason: the reason itself is in the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cancelled()?.source()
    }
}
