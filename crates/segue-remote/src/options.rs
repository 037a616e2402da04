//! The settings of a pool, and those of a job.
//!
//! Used by applications, when they make a pool and when they submit.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A hundred years: longer times are as long, so that each ends before the end of the clock.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Where lines of a pool and of its workers go.
#[derive(Clone)]
pub(crate) struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// Hands a line over. A panic of the function goes no further than to the panic hook.
    pub(crate) fn say(&self, line: &str) {
        let _panicked = catch_unwind(AssertUnwindSafe(|| (self.0)(line)));
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// The settings of a pool.
///
/// Five are the pool's own: `max_jobs`, `ack_wait`, `max_ack_pending`, `keep_results` and
/// `replicas`. All programs that use a pool of this name have to agree on them, and `Pool::nats`
/// refuses others.
///
/// # Examples
///
/// ```
/// use segue_remote::Options;
/// use std::time::Duration;
///
/// let options = Options::new("mail").max_jobs(10_000).ack_wait(Duration::from_secs(10));
/// # let _ = options;
/// ```
#[derive(Debug)]
#[must_use]
pub struct Options {
    pub(crate) name: String,
    pub(crate) max_jobs: u64,
    pub(crate) ack_wait: Duration,
    pub(crate) max_ack_pending: u64,
    pub(crate) keep_results: Duration,
    pub(crate) reread_every: Duration,
    pub(crate) unknown_after: Duration,
    pub(crate) retry_after: Duration,
    pub(crate) log: Log,
    #[cfg(feature = "nats")]
    pub(crate) connect: async_nats::ConnectOptions,
    #[cfg(feature = "nats")]
    pub(crate) monitor: Option<String>,
    #[cfg(feature = "nats")]
    pub(crate) replicas: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self::new("default")
    }
}

impl Options {
    /// The settings by default, for the pool of this name: up to 64 letters, digits, `-` and `_`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            max_jobs: 100_000,
            ack_wait: Duration::from_secs(30),
            max_ack_pending: 10_000,
            keep_results: Duration::from_secs(3600),
            reread_every: Duration::from_secs(2),
            unknown_after: Duration::from_secs(30),
            retry_after: Duration::from_millis(100),
            log: Log(Arc::new(|line| eprintln!("segue-remote: {line}"))),
            #[cfg(feature = "nats")]
            connect: async_nats::ConnectOptions::new(),
            #[cfg(feature = "nats")]
            monitor: None,
            #[cfg(feature = "nats")]
            replicas: 1,
        }
    }

    /// How many jobs the queue holds, those that run included. `submit` waits for room. By default
    /// 100,000.
    pub fn max_jobs(mut self, jobs: u64) -> Self {
        self.max_jobs = jobs.max(1);
        self
    }

    /// How long a worker may be silent before others get its jobs; at least 10 ms. A worker that
    /// lives speaks up three times as often, so long jobs need no longer wait. By default 30 s.
    pub fn ack_wait(mut self, wait: Duration) -> Self {
        self.ack_wait = wait.clamp(Duration::from_millis(10), LONGEST);
        self
    }

    /// How many jobs of one kind all workers together may have at once. By default 10,000. The
    /// local engine has no such bound.
    pub fn max_ack_pending(mut self, jobs: u64) -> Self {
        self.max_ack_pending = jobs.max(1);
        self
    }

    /// How long a result is kept, for submitters that ask again. By default an hour.
    pub fn keep_results(mut self, age: Duration) -> Self {
        self.keep_results = age.clamp(Duration::from_millis(100), LONGEST);
        self
    }

    /// How often a submitter reads, though no hint has come. By default every 2 s.
    pub fn reread_every(mut self, interval: Duration) -> Self {
        self.reread_every = interval.clamp(Duration::from_millis(1), LONGEST);
        self
    }

    /// How long a job waits for the first worker that knows it, before
    /// [`NoSuchJob`](crate::RemoteError::NoSuchJob). By default 30 s. A server of NATS forgets a
    /// kind a week after its last worker has gone.
    pub fn unknown_after(mut self, patience: Duration) -> Self {
        self.unknown_after = patience;
        self
    }

    /// How long after a panic a job is tried again; twice as long after each further one, up to
    /// half a minute. By default 100 ms.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = delay;
        self
    }

    /// Where warnings and the lines of workers go. By default to the standard error stream.
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.log = Log(Arc::new(log));
        self
    }

    /// TLS, credentials, names, reconnects: the client's own options. Their callback of events is
    /// replaced.
    #[cfg(feature = "nats")]
    pub fn connect(mut self, options: async_nats::ConnectOptions) -> Self {
        self.connect = options;
        self
    }

    /// On how many servers of a cluster jobs and results lie: 1, 3 or 5. One of the pool's own
    /// settings. By default 1.
    #[cfg(feature = "nats")]
    pub fn replicas(mut self, servers: usize) -> Self {
        self.replicas = servers.max(1);
        self
    }

    /// The address of the server's monitoring, as `server:8222`: `Pool::nats` asks there how often
    /// the server syncs to its disk, and warns unless it is at each message.
    #[cfg(feature = "nats")]
    pub fn monitor(mut self, address: &str) -> Self {
        self.monitor = Some(address.to_owned());
        self
    }
}

/// The settings of one job.
///
/// # Examples
///
/// ```
/// use segue_remote::{Pool, SubmitOptions, job};
/// use std::time::Duration;
///
/// #[job]
/// fn charge(cents: u32) -> String {
///     format!("charged {cents}")
/// }
///
/// let fibers = segue::runtime().workers(1).pool()?;
/// let pool = Pool::local(&fibers);
/// let order = || SubmitOptions::new().key("order 17").limit(Duration::from_secs(60));
/// assert_eq!(pool.submit_with(Charge { cents: 500 }, order()).take()?, Ok("charged 500".to_owned()));
/// // The same operation: nothing is charged again.
/// assert_eq!(pool.submit_with(Charge { cents: 700 }, order()).take()?, Ok("charged 500".to_owned()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SubmitOptions {
    pub(crate) key: Option<String>,
    pub(crate) attempts: u64,
    pub(crate) limit: Option<Duration>,
    pub(crate) trace: Option<String>,
}

impl Default for SubmitOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SubmitOptions {
    /// The settings by default.
    pub fn new() -> Self {
        Self { key: None, attempts: 3, limit: None, trace: None }
    }

    /// The name of this operation among those of the job's name, up to 128 bytes: all that are
    /// submitted with one key have one result, for as long as
    /// [results are kept](Options::keep_results). A program that was restarted asks by
    /// [`Pool::result`](crate::Pool::result). Such a job is its submitters' together: a promise
    /// that is dropped does not cancel it, but [`Pool::cancel`](crate::Pool::cancel) does.
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// How often a job may be given to a worker, before it is a dead letter: at least once, by
    /// default 3 times. A panic takes one, and so does a worker that dies with the job; a worker
    /// that ends in order takes none. A job that answers with an error is not tried again.
    pub fn attempts(mut self, attempts: u64) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How long after its submission the job is of no use any more. Then the promise has
    /// [`TimedOut`](crate::RemoteError::TimedOut), and a worker cancels the job. The submitter
    /// measures with its monotonic clock. A worker takes the age of a job from its own wall clock
    /// and the server's, so it is wrong by their difference.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The caller's span, a `traceparent` of the W3C's trace context, which the job finds in
    /// [`current`](crate::current()).
    pub fn trace(mut self, traceparent: &str) -> Self {
        self.trace = Some(traceparent.to_owned());
        self
    }
}
