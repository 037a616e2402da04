//! The failures of a scope: errors and panics, each with its fiber, in the order in which they
//! came.
//!
//! Used by families, which collect them, and by `try_scope`, which returns them.
//!
//! # Echoes
//!
//! The first failure cancels the scope, and most of those that come later only say so: their error
//! is the `Cancelled` of a wait, with the scope's own reason. Or their error is that of a handle,
//! with an error that the scope has kept before, told once more. Such an *echo* is not a failure if
//! there is anything else. An echo is told from an error that matters by the cause that the error
//! names, and the reason by its address; an error that can't be told counts as a failure: so none
//! is lost.

use crate::chain::unwind::{caught, contain, text};
use crate::contract::current;
use crate::primitives::payload::{NO_DESCRIPTION, Panic, Payload};
use crate::thread::plain;
use crate::tree::cancelled::{Cancelled, Reason, source_or_cancellation};
use std::error::Error;
use std::sync::{Arc, LazyLock};
use std::{fmt, io};

/// Something that has gone wrong in a scope: an error or a panic.
///
/// The display has its fiber: "fiber `courier` failed: out of ink". For an error with a `Display`
/// that panics, the display says that.
pub struct Failure {
    /// A part of the scope: "the body".
    part: &'static str,
    /// The name of its fiber.
    fiber: Option<Box<str>>,
    /// The error; of a panic, the reason for those that are cancelled because of the panic.
    cause: Arc<Reason>,
    panic: Option<Panic>,
}

impl Failure {
    pub(crate) fn of_error(part: &'static str, cause: Arc<Reason>) -> Self {
        Self { part, fiber: own_name(), cause, panic: None }
    }

    pub(crate) fn of_panic(part: &'static str, payload: Payload) -> Self {
        let fiber = own_name();
        let cause = Reason::new(format!("{} of the scope panicked: {}", Whose(part, &fiber), text(payload.as_ref())));
        Self { part, fiber, cause, panic: Some(Panic::new(payload)) }
    }

    /// The error, if there is one.
    #[must_use]
    pub fn error(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.panic.is_none().then_some(&*self.cause.0)
    }

    /// The panic, if there is one.
    #[must_use]
    pub fn panic(&self) -> Option<&Panic> {
        self.panic.as_ref()
    }

    /// The payload for `std::panic::resume_unwind`, of a panic.
    #[must_use]
    pub fn into_panic(self) -> Option<Payload> {
        self.panic.map(Panic::into_payload)
    }

    /// The name of the failed fiber, if there is one.
    #[must_use]
    pub fn fiber(&self) -> Option<&str> {
        self.fiber.as_deref()
    }

    pub(crate) fn cause(&self) -> Arc<Reason> {
        Arc::clone(&self.cause)
    }

    /// Its own text, without the fiber. That text is foreign code, and a panic there must not cost
    /// the scope its other failures.
    pub(crate) fn said(&self) -> String {
        let (it, or): (&dyn fmt::Display, _) = match &self.panic {
            Some(panic) => (panic, NO_DESCRIPTION),
            None => (&self.cause.0, "(an error whose `Display` panicked)"),
        };
        contain(|| it.to_string()).unwrap_or_else(|| or.to_owned())
    }

    /// The cancellation of which the failure consists, if there is no more. Calls foreign code.
    pub(crate) fn cancellation(&self) -> Option<Cancelled> {
        self.error().and_then(|error| cancellation_in(error)).cloned()
    }
}

fn own_name() -> Option<Box<str>> {
    current::with_running(|fiber| match fiber {
        Some(fiber) => fiber.name().map(Box::from),
        None => plain::name(),
    })
}

/// "fiber `courier`", or the kind of the part.
struct Whose<'a>(&'static str, &'a Option<Box<str>>);

impl fmt::Display for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self("a fiber", Some(name)) => write!(f, "fiber `{name}`"),
            Self(part, Some(name)) => write!(f, "{part} in fiber `{name}`"),
            Self(part, None) => f.write_str(part),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Failure").field(&format_args!("{self}")).finish()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.panic.is_some() { "panicked" } else { "failed" };
        write!(f, "{} {verb}: {}", Whose(self.part, &self.fiber), self.said())
    }
}

/// The failures so far.
#[derive(Debug)]
pub(crate) struct Failures {
    all: Vec<Failure>,
    /// The first of those that say only that they were cancelled.
    echo: Option<Failure>,
}

impl Failures {
    pub(crate) const NONE: Self = Self { all: Vec::new(), echo: None };

    /// Adds one, and answers the reason for the scope's cancellation.
    pub(crate) fn add(&mut self, failure: Failure) -> Arc<Reason> {
        self.all.push(failure);
        Arc::clone(&self.all[0].cause)
    }

    /// Whether `cancelled` was caused by one of them, and so says nothing new.
    pub(crate) fn have_caused(&self, cancelled: &Cancelled) -> bool {
        self.all.iter().any(|failure| cancelled.is_for(&failure.cause))
    }

    /// Keeps the first mere cancellation; gives back any other.
    pub(crate) fn add_echo(&mut self, failure: Failure) -> Option<Failure> {
        if self.echo.is_some() { Some(failure) } else { self.echo.replace(failure) }
    }

    /// Those that were no echoes, in their order.
    pub(crate) fn take(&mut self) -> Option<ScopeError> {
        ScopeError::of(std::mem::take(&mut self.all))
    }

    /// A mere cancellation.
    pub(crate) fn take_echo(&mut self) -> Option<ScopeError> {
        ScopeError::of(self.echo.take().into_iter().collect())
    }
}

/// The reason for a scope's failure: the first failure, and all others before all of its fibers had
/// ended.
///
/// The display has all of them. Errors that say only that the scope was cancelled are left out,
/// unless there is nothing else.
///
/// # Examples
///
/// ```
/// use segue_core::{sleep, try_scope};
/// use std::time::Duration;
///
/// let failed = try_scope(|s| {
///     s.spawn_try(|| sleep(Duration::from_secs(3600)));
///     s.spawn_try(|| "many".parse::<u32>());
///     sleep(Duration::MAX)
/// });
/// let error = failed.unwrap_err();
/// assert_eq!(error.to_string(), "a fiber failed: invalid digit found in string");
/// assert!(error.first().error().unwrap().is::<std::num::ParseIntError>());
/// assert!(error.later().is_empty());
/// ```
#[derive(Debug)]
pub struct ScopeError {
    /// There is at least one.
    failures: Vec<Failure>,
}

impl ScopeError {
    fn of(failures: Vec<Failure>) -> Option<Self> {
        (!failures.is_empty()).then_some(Self { failures })
    }

    /// With a panic of the drop of the value that the error replaces.
    pub(crate) fn in_place_of<T>(mut self, part: &'static str, dropped: T) -> Self {
        if let Err(payload) = caught(|| drop(dropped)) {
            self.failures.push(Failure::of_panic(part, payload));
        }
        self
    }

    /// The first failure. The others were cancelled because of that one.
    #[must_use]
    pub fn first(&self) -> &Failure {
        &self.failures[0]
    }

    /// The later failures, in order.
    #[must_use]
    pub fn later(&self) -> &[Failure] {
        &self.failures[1..]
    }

    /// All failures, in order.
    pub fn into_failures(self) -> impl ExactSizeIterator<Item = Failure> {
        self.failures.into_iter()
    }

    /// Whether the first failure was the cancellation of a deadline.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.first().error().and_then(|error| cancellation_in(error)).is_some_and(Cancelled::timed_out)
    }
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)?;
        self.later().iter().try_for_each(|failure| write!(f, "; then {failure}"))
    }
}

impl Error for ScopeError {
    /// The source of the first error: the error itself is in the message.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first().error()?.source()
    }
}

impl From<ScopeError> for io::Error {
    /// Of the kind of the first failure if that is an [`io::Error`], of kind `TimedOut` for a
    /// deadline's cancellation, and `Other` if not.
    fn from(error: ScopeError) -> Self {
        let kind = match error.first().error().and_then(|first| first.downcast_ref::<Self>()) {
            Some(first) => first.kind(),
            None if error.timed_out() => io::ErrorKind::TimedOut,
            None => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The system's number for a cancelled operation; where unknown, a number that the system never
/// uses.
const ECANCELED: i32 = if cfg!(any(target_os = "linux", target_os = "android")) {
    125
} else if cfg!(any(target_os = "macos", target_os = "ios")) {
    89
} else if cfg!(target_os = "freebsd") {
    85
} else {
    i32::MIN
};

impl Cancelled {
    /// Whether an I/O error is a cancellation that has passed through: of a scope, a token, or a
    /// time limit around the call. A time-out that was set on a socket is none, although its kind
    /// is `TimedOut`, too: that ends one call, and the next one waits again, while after a
    /// cancellation each call fails at once.
    ///
    /// So is `ECANCELED`, with which calls of the C library fail that suspend a cancelled fiber
    /// (the crate `segue-unblock`), and the error of a `try_scope` in which nothing else has
    /// failed.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Cancelled, after, timeout};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// let around = timeout(Duration::from_millis(1), || after(Duration::MAX).wait());
    /// let around = io::Error::from(around.unwrap_err());
    /// let of_the_socket = io::Error::from(io::ErrorKind::TimedOut);
    /// assert_eq!(around.kind(), of_the_socket.kind());
    /// assert!(Cancelled::caused(&around) && !Cancelled::caused(&of_the_socket));
    /// # #[cfg(target_os = "linux")]
    /// assert!(Cancelled::caused(&io::Error::from_raw_os_error(125)));
    /// ```
    #[must_use]
    pub fn caused(error: &io::Error) -> bool {
        Self::from_io(error).is_some()
    }

    /// The cancellation that has passed through an I/O error, if there is one: with its reason. A
    /// number of the system's, `ECANCELED`, has none. See [`caused`](Self::caused).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Cancelled, after, timeout};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// let read = || -> io::Result<()> { Ok(after(Duration::MAX).wait()?) };
    /// let error = timeout(Duration::from_millis(1), read).unwrap_err();
    /// assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    /// assert!(Cancelled::from_io(&error).unwrap().timed_out());
    /// ```
    #[must_use]
    pub fn from_io(error: &io::Error) -> Option<&Self> {
        static BARE: LazyLock<Cancelled> = LazyLock::new(Cancelled::new);
        match error.get_ref() {
            Some(inner) if inner.is::<ScopeError>() => cancellation_in(inner),
            Some(inner) => inner.downcast_ref(),
            None => (error.raw_os_error()? == ECANCELED).then(|| &*BARE),
        }
    }
}

/// How many sources of errors are looked through: an error may be its own source, or have others
/// for ever. The errors that an error owns come to an end, and are not counted.
const SOURCES: usize = 100;

/// The cancellation that an error names as its cause.
#[cold]
fn cancellation_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Cancelled> {
    let mut error = error;
    let mut sources = 0..SOURCES;
    loop {
        if let found @ Some(_) = error.downcast_ref() {
            return found;
        }
        error = if let Some(of_io) = error.downcast_ref::<io::Error>() {
            of_io.get_ref()?
        } else if let Some(ScopeError { failures }) = error.downcast_ref() {
            match &failures[..] {
                [only] => only.error()?,
                _ => return None,
            }
        } else {
            sources.next()?;
            source_or_cancellation(error)?
        };
    }
}
