//! A limit on how often something is done: a bucket of tokens that fills at a steady rate.
//!
//! Used where a service allows so many requests a second, or a disk so many bytes.
//!
//! # The idea
//!
//! The bucket is one number: the time at which the bucket was empty, or would have been. The number
//! counts nanoseconds times the tokens of an interval; so a token is as many units as the interval
//! has nanoseconds, nothing is rounded, and nothing drifts. To take tokens moves that point ahead.
//! No timer fills the bucket.
//!
//! Each taker stands in line, at a semaphore with one permit. The first in line waits for the time
//! at which its tokens are there, takes them, and lets the next one come to the front:
//!
//! ```text
//!   in line --the permit--> first --the time comes--> takes, and gives the permit to the next
//! ```
//!
//! While somebody stands in line only the first takes, so its time is certain: computed once, with
//! one timer for any number of waiters. While nobody does, a newcomer takes the tokens, under the
//! lock of the bucket alone, which counts the line.
//!
//! **Commit point**: the take. **Cancellation**: the permit goes to the next in line, and nothing
//! was taken. **The race to fear**: a newcomer that takes the tokens of the first in line. This
//! can't happen: the first was counted before its look at the tokens.

use crate::sync::Semaphore;
use segue_core::{Cancelled, Source, Waitable, admit, at, future_source, now, preemption_point, wait_future};
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lets so many through in an interval, and a burst at once.
///
/// A bucket of tokens: full at first, with `burst` tokens; the bucket fills at a steady rate, of so
/// many tokens in each interval, until full again. Each [`acquire`](Self::acquire) takes tokens
/// out, and waits for them in line. So in an interval of any length `t` not more get through than
/// `burst` and those that come in `t`.
///
/// Strictly first in, first out: a caller that asks for many is not starved by callers that ask for
/// few. Fibers, threads and tasks may use the same one. Times are exact, by the clock of the
/// caller's scheduler: in a simulation, by the simulated one.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "sched")] {
/// use segue::concurrent::RateLimiter;
/// use segue::testing::Sim;
/// use segue::now;
/// use std::time::Duration;
///
/// // Ten a second, three of them at once.
/// let times = Sim::new(1).run(|| {
///     let (limit, start) = (RateLimiter::new(10, Duration::from_secs(1), 3), now());
///     (0..5).map(|_| limit.acquire(1).map(|()| (now() - start).as_millis())).collect::<Result<Vec<_>, _>>()
/// });
/// assert_eq!(times.unwrap()?, [0, 0, 0, 100, 200]);
/// # }
/// # Ok::<(), segue::Cancelled>(())
/// ```
pub struct RateLimiter {
    rate: u32,
    per: Duration,
    burst: u32,
    line: Semaphore,
    /// Never locked across a wait.
    bucket: Mutex<Bucket>,
}

/// Points in time, in units from the start.
struct Bucket {
    /// The time of the first call; `None` before.
    start: Option<Instant>,
    /// The time at which the bucket was empty, or would have been with steady filling from the
    /// beginning.
    empty: i128,
    /// How many are in line.
    in_line: usize,
}

/// A place in line, which its drop gives up.
struct Place<'l>(&'l RateLimiter);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.lock().in_line -= 1;
    }
}

impl RateLimiter {
    /// A bucket with `burst` tokens, which gets `rate` tokens in each interval of length `per`,
    /// spread evenly, as long as there is room.
    ///
    /// # Panics
    /// If one of the three is zero: then nothing would ever be let through, or everything.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::concurrent::RateLimiter;
    /// use std::time::Duration;
    ///
    /// static REQUESTS: RateLimiter = RateLimiter::new(100, Duration::from_secs(1), 10);
    /// assert!(REQUESTS.try_acquire(10) && !REQUESTS.try_acquire(10));
    /// ```
    #[must_use]
    pub const fn new(rate: u32, per: Duration, burst: u32) -> Self {
        assert!(rate != 0 && !per.is_zero() && burst != 0, "a rate limiter needs a rate, an interval and a burst");
        // The bucket is full at the first call.
        let bucket = Bucket { start: None, empty: i128::MIN, in_line: 0 };
        Self { rate, per, burst, line: Semaphore::new(1), bucket: Mutex::new(bucket) }
    }

    /// Takes `tokens` tokens at once, after waiting in line for all of them.
    ///
    /// In a task, `acquire_source(tokens).await`, and not this, which parks the thread that polls.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; no token was taken.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If `tokens` is more than the burst: so many there can never be at once.
    #[track_caller]
    pub fn acquire(&self, tokens: u32) -> Result<(), Cancelled> {
        self.check(tokens);
        admit()?;
        if self.take_now(tokens) { Ok(()) } else { wait_future(self.acquiring(tokens)) }
    }

    /// [`acquire`](Self::acquire) as a source: to be awaited, or chosen among others.
    ///
    /// The source stands in line from the first look on. [By reference](Waitable::by_ref) the
    /// source keeps its place until it has its tokens, or is dropped; those behind wait meanwhile.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, in a drop; no token was taken.
    ///
    /// # Panics
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::concurrent::RateLimiter;
    /// use segue::{Either, after};
    /// use std::time::Duration;
    ///
    /// let limit = RateLimiter::new(1, Duration::from_secs(3600), 1);
    /// limit.acquire_source(1).wait()?;
    /// let late = limit.acquire_source(1).or(after(Duration::from_millis(1))).wait()?;
    /// assert!(matches!(late, Either::Right(())));
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn acquire_source(&self, tokens: u32) -> Waitable<impl Source<Output = ()>> {
        self.check(tokens);
        future_source(self.acquiring(tokens))
    }

    /// Takes `tokens` tokens if they are there and nobody is in line; answers whether. Never waits.
    ///
    /// # Panics
    /// As for [`acquire`](Self::acquire).
    #[must_use]
    pub fn try_acquire(&self, tokens: u32) -> bool {
        preemption_point();
        self.check(tokens);
        self.take_now(tokens)
    }

    /// How many tokens are there at this moment. Never waits.
    #[must_use]
    pub fn available(&self) -> u32 {
        preemption_point();
        self.with_bucket(|bucket, now| u32::try_from((now - bucket.empty) / self.cost(1)).unwrap_or(0))
    }

    #[track_caller]
    fn check(&self, tokens: u32) {
        let burst = self.burst;
        assert!(tokens <= burst, "{tokens} tokens can't be had at once: the burst of this rate limiter is {burst}");
    }

    fn take_now(&self, tokens: u32) -> bool {
        self.with_bucket(|bucket, now| {
            let is_there = bucket.in_line == 0 && bucket.empty + self.cost(tokens) <= now;
            if is_there {
                bucket.empty += self.cost(tokens);
            }
            is_there
        })
    }

    async fn acquiring(&self, tokens: u32) {
        self.lock().in_line += 1;
        let place = Place(self);
        let first = self.line.acquire_source().await;
        debug_assert!(first.is_ok(), "nobody closes the line");
        at(self.due(tokens)).await;
        // Certain from the moment at which this came to the front: also if a clock is behind.
        self.with_bucket(|bucket, _| {
            bucket.empty += self.cost(tokens);
            bucket.in_line -= 1;
        });
        mem::forget(place);
    }

    /// When so many tokens are there; `None` is never.
    fn due(&self, tokens: u32) -> Option<Instant> {
        self.with_bucket(|bucket, _| {
            let due = bucket.empty + self.cost(tokens);
            let nanos = u128::try_from(due).unwrap_or(0).div_ceil(u128::from(self.rate));
            let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
            bucket.start?.checked_add(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
        })
    }

    /// How many units these tokens are.
    fn cost(&self, tokens: u32) -> i128 {
        // The longest interval has less than 2^94 nanoseconds: so many tokens have less than 2^126
        // units.
        i128::from(tokens) * self.per.as_nanos().cast_signed()
    }

    /// Calls `f` with the bucket, in which there is no more than fits, and with the time, in units.
    fn with_bucket<T>(&self, f: impl FnOnce(&mut Bucket, i128) -> T) -> T {
        let now = now();
        let mut bucket = self.lock();
        let start = *bucket.start.get_or_insert(now);
        let full = self.cost(self.burst);
        let passed = now.saturating_duration_since(start).as_nanos().saturating_mul(u128::from(self.rate));
        let passed = i128::try_from(passed).unwrap_or(i128::MAX);
        bucket.empty = bucket.empty.max(passed - full);
        f(&mut bucket, passed)
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Nothing panics half-way.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, per, burst, .. } = self;
        f.debug_struct("RateLimiter")
            .field("rate", rate)
            .field("per", per)
            .field("burst", burst)
            .finish_non_exhaustive()
    }
}
