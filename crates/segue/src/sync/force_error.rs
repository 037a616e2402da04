//! Why a force has no value, and how it names the cell.
//!
//! Used by [`OnceCell`](super::OnceCell), [`Lazy`](super::Lazy) and [`Once`](super::Once).

use segue_core::Cancelled;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::panic::Location;

/// A call to a cell, as errors and reports say it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Called {
    /// The cell's type, or its name.
    pub(super) what: &'static str,
    /// Where the cell was made, if it knows.
    pub(super) created: Option<&'static Location<'static>>,
    /// Where the call is.
    pub(super) at: &'static Location<'static>,
}

impl Called {
    /// To a cell without a name, from the caller's caller.
    #[track_caller]
    pub(super) fn of<C>() -> Self {
        Self { what: std::any::type_name::<C>(), created: None, at: Location::caller() }
    }

    /// The error of this call if the caller has been initialising the cell since another one.
    #[cold]
    pub(super) fn recursive(self, since: &'static Location<'static>) -> Recursive {
        Recursive { called: self, since }
    }
}

/// An initialiser needs the very value that it makes, on its own fiber or on one that it waits for
/// without fail. A fiber that it has detached and joins is not taken for that, since the join can
/// be cancelled; the two wait for each other then, which a simulation reports.
///
/// What it prints names the cell, where the initialiser was started and where it came back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Recursive {
    called: Called,
    since: &'static Location<'static>,
}

impl Recursive {
    /// The cell's name if it has one, otherwise its type.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.called.what
    }

    /// Where the cell was forced from inside of its initialiser.
    #[must_use]
    pub fn at(&self) -> &'static Location<'static> {
        self.called.at
    }

    /// Where the force was called that runs the initialiser.
    #[must_use]
    pub fn since(&self) -> &'static Location<'static> {
        self.since
    }
}

impl fmt::Debug for Recursive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recursive({self})")
    }
}

impl fmt::Display for Recursive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what())?;
        if let Some(created) = self.called.created {
            write!(f, " (made at {created})")?;
        }
        write!(f, " was forced at {} from inside of its own initialiser, which runs since {}", self.at(), self.since)
    }
}

impl Error for Recursive {}

/// Why a force has no value. `E` is what the caller's initialiser failed with; one that can't fail
/// is [`Infallible`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForceError<E = Infallible> {
    /// The wait for somebody else's initialiser was cancelled.
    Cancelled(Cancelled),
    /// The initialiser has forced its own cell.
    Recursive(Recursive),
    /// The caller's own initialiser has failed, with this.
    Failed(E),
}

impl<E> From<Cancelled> for ForceError<E> {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl<E> From<Recursive> for ForceError<E> {
    fn from(recursive: Recursive) -> Self {
        Self::Recursive(recursive)
    }
}

impl<E: fmt::Display> fmt::Display for ForceError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled(cancelled) => cancelled.fmt(f),
            Self::Recursive(recursive) => recursive.fmt(f),
            Self::Failed(error) => write!(f, "the initialiser failed: {error}"),
        }
    }
}

// What it prints has the cause in it; so `E` need not be an `Error`, which boxed ones are not.
impl<E: fmt::Debug + fmt::Display> Error for ForceError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Cancelled(cancelled) => cancelled.source(),
            Self::Recursive(_) | Self::Failed(_) => None,
        }
    }
}

/// For the body of a transaction, which begins again, or fails if cancelled or recursive.
#[cfg(feature = "stm")]
impl From<ForceError> for segue_stm::Stop {
    fn from(error: ForceError) -> Self {
        match error {
            ForceError::Cancelled(cancelled) => cancelled.into(),
            ForceError::Recursive(recursive) => Cancelled::with_reason(recursive).into(),
            ForceError::Failed(never) => match never {},
        }
    }
}

/// Why a value was not set; a [`Rejected`](crate::Rejected) gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetError {
    /// The cell has a value already.
    Full,
    /// Somebody else initialises the cell: [`OnceCell::try_set`](super::OnceCell::try_set) does not
    /// wait for that.
    Busy,
    /// The wait for somebody else's initialiser was cancelled.
    Cancelled(Cancelled),
    /// The call comes from inside of the cell's initialiser.
    Recursive(Recursive),
}

impl From<Cancelled> for SetError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<Recursive> for SetError {
    fn from(recursive: Recursive) -> Self {
        Self::Recursive(recursive)
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the cell has a value already"),
            Self::Busy => f.write_str("somebody else initialises the cell"),
            Self::Cancelled(cancelled) => cancelled.fmt(f),
            Self::Recursive(recursive) => recursive.fmt(f),
        }
    }
}

impl Error for SetError {}
