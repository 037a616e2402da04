//! A closure that is tried again, with pauses that grow.
//!
//! Used by applications, through `concurrent`, around whatever may fail for a while: a connect, a
//! request, a lock that somebody else's program has.

use segue_core::{Cancelled, random, sleep};
use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

/// Tries a closure until a success: so often, with such pauses.
///
/// The first pause is [`first_pause`](Retry::first_pause), each further one twice as long, up to
/// [`longest_pause`](Retry::longest_pause). Of each a part is drawn, so that many that have failed
/// at the same moment do not all come back at the same moment. The clock and the numbers drawn are
/// those of the caller's scheduler: in a simulation both follow from the seed.
///
/// A time limit for one try, or for all of them, is a [`timeout`](crate::timeout) inside of the
/// closure, or around [`run`](Retry::run).
///
/// # Examples
///
/// ```
/// use segue::concurrent::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::new(5).first_pause(Duration::from_millis(1));
/// let answer = retry.run(|attempt| if attempt < 3 { Err("busy") } else { Ok(attempt * 14) });
/// assert_eq!(answer.unwrap(), 42);
///
/// let given_up = retry.run(|_| Err::<(), _>("gone")).unwrap_err();
/// assert_eq!((given_up.error, given_up.attempts), ("gone", 5));
/// ```
///
/// # Sources
/// "Full jitter" takes all of a pause at random, "equal jitter" half of it;
/// [`jitter`](Retry::jitter) sets that part, half by default.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use = "nothing is tried before `run`"]
pub struct Retry {
    attempts: u32,
    first: Duration,
    longest: Duration,
    jitter: f64,
}

impl Retry {
    /// Tries `attempts` times at most; `u32::MAX` is as good as for ever. The first pause is 100
    /// ms, the longest 10 s, and half of each is drawn.
    ///
    /// # Panics
    /// If `attempts` is zero.
    pub fn new(attempts: u32) -> Self {
        assert_ne!(attempts, 0, "a closure that is tried no times has no result: say how often, once at least");
        Self { attempts, first: Duration::from_millis(100), longest: Duration::from_secs(10), jitter: 0.5 }
    }

    /// How long the first pause is.
    pub fn first_pause(self, first: Duration) -> Self {
        Self { first, ..self }
    }

    /// How long the longest pause is. If the first is longer, all are as this.
    pub fn longest_pause(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// The part of a pause that is drawn at random, from 0, none of the pause, to 1, all: a pause
    /// of ten seconds with a jitter of 0.5 takes between five and ten.
    ///
    /// # Panics
    /// If `part` is not between 0 and 1.
    pub fn jitter(self, jitter: f64) -> Self {
        assert!((0.0..=1.0).contains(&jitter), "the jitter is a part of the pause, from 0 to 1, and not {jitter}");
        Self { jitter, ..self }
    }

    /// Calls `f` with the number of the attempt, from 1 on, until the first success or the end of
    /// the tries.
    ///
    /// # Cancellation
    /// A pause is cut short, and a try that has failed is not followed by another; `f` sees the
    /// caller's cancellation in its waits. The last error is returned. *May already have happened*:
    /// the effects of `f`.
    ///
    /// # Errors
    /// [`GaveUp`] with the last error.
    #[track_caller]
    pub fn run<T, E>(&self, f: impl FnMut(u32) -> Result<T, E>) -> Result<T, GaveUp<E>> {
        self.run_while(|_| true, f)
    }

    /// As [`run`](Retry::run), as long as `is_worth_it` accepts the error: lasting errors are not
    /// tried again.
    ///
    /// # Cancellation
    /// As for [`run`](Retry::run).
    ///
    /// # Errors
    /// [`GaveUp`] with the last error.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::concurrent::Retry;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let refused = |error: &Error| error.kind() == ErrorKind::ConnectionRefused;
    /// let given_up = Retry::new(9).run_while(refused, |_| Err::<(), _>(Error::from(ErrorKind::AddrNotAvailable)));
    /// assert_eq!(given_up.unwrap_err().attempts, 1);
    /// ```
    #[track_caller]
    pub fn run_while<T, E>(
        &self,
        mut is_worth_it: impl FnMut(&E) -> bool,
        mut f: impl FnMut(u32) -> Result<T, E>,
    ) -> Result<T, GaveUp<E>> {
        let mut pause = self.first.min(self.longest);
        let mut attempts = 1;
        loop {
            let error = match f(attempts) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if attempts == self.attempts || !is_worth_it(&error) {
                return Err(GaveUp { error, attempts, cancelled: None });
            }
            if let Err(cancelled) = sleep(self.drawn(pause)) {
                return Err(GaveUp { error, attempts, cancelled: Some(cancelled) });
            }
            attempts = attempts.saturating_add(1);
            pause = pause.saturating_mul(2).min(self.longest);
        }
    }

    /// A pause, less the drawn part of its jitter.
    fn drawn(&self, pause: Duration) -> Duration {
        let part = f64::from(random() as u32) / f64::from(u32::MAX);
        pause
            - Duration::try_from_secs_f64(pause.as_secs_f64() * self.jitter * part)
                .map_or(pause, |less| less.min(pause))
    }
}

/// A closure was tried and has not succeeded.
///
/// `?` converts this into [`io::Error`], if the closure fails with that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaveUp<E> {
    /// The error of the last try.
    pub error: E,
    /// The number of tries.
    pub attempts: u32,
    /// The reason for no further try, if the caller was cancelled.
    pub cancelled: Option<Cancelled>,
}

impl<E: fmt::Display> fmt::Display for GaveUp<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.attempts {
            1 => write!(f, "tried once: {}", self.error)?,
            number => write!(f, "tried {number} times, at last: {}", self.error)?,
        }
        match &self.cancelled {
            Some(cancelled) => write!(f, "; then it was {cancelled}"),
            None => Ok(()),
        }
    }
}

impl<E: Error + 'static> Error for GaveUp<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl From<GaveUp<io::Error>> for io::Error {
    /// The cancellation, if there was one; else the last error.
    fn from(given_up: GaveUp<io::Error>) -> Self {
        given_up.cancelled.map_or(given_up.error, Into::into)
    }
}
