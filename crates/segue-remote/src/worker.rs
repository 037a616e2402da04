//! A process, or a part of one, that runs the jobs of a pool.
//!
//! Used by the programs that are started on other machines.

use crate::error::RemoteError;
use crate::job::Job;
use crate::options::Log;
use crate::pool::Pool;
use crate::serve::{Counts, Handler, Server};
use segue::cancel::finishing_source;
use segue::signal::{Signal, Signals};
use segue::sync::WaitGroup;
use segue::{select, shield, timeout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long jobs that are cancelled may take to notice, at a worker's end.
const GRACE: Duration = Duration::from_secs(10);

/// A process, or a part of one, that runs the jobs of a pool.
///
/// # Examples
///
/// A whole program, which ends by itself when the system asks it to (here it is asked at once):
///
/// ```
/// use segue_remote::{Pool, Worker, job};
///
/// #[job]
/// fn fib(n: u64) -> u64 {
///     if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
/// }
///
/// # let fibers = segue::runtime().workers(1).pool()?;
/// let pool = Pool::local(&fibers); // Pool::nats("nats://server:4222", Options::new("sums"))?
/// # let stop = segue::CancelToken::new();
/// # stop.ask_to_finish();
/// # stop.run(|| {
/// let summary = Worker::new(pool).register::<Fib>().run()?;
/// println!("{summary:?}");
/// # Ok::<(), segue_remote::RemoteError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Worker {
    pool: Pool,
    handlers: Vec<Handler>,
    at_most: usize,
    drain_within: Duration,
    log: Log,
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// How often a job's function was called.
    pub executions: u64,
    /// How many jobs have their result from this worker.
    pub finished: u64,
    /// How many leases ended where there was a result already.
    pub later: u64,
    /// How many leases went back into the queue.
    pub put_back: u64,
    /// How many jobs this worker has given up.
    pub given_up: u64,
}

impl Worker {
    /// A worker of this pool, which knows no job yet.
    pub fn new(pool: Pool) -> Self {
        let log = pool.0.log.clone();
        Self { pool, handlers: Vec::new(), at_most: 64, drain_within: Duration::from_secs(30), log }
    }

    /// Runs jobs of this type, too. Two versions of a job are two types.
    ///
    /// # Panics
    /// If the name of the job is none, or this worker has that name and version already.
    pub fn register<J: Job>(mut self) -> Self {
        let handler = Handler::of::<J>();
        assert!(crate::engine::id::is_name(J::NAME), "{:?} can't be the name of a job", J::NAME);
        assert!(self.handlers.iter().all(|other| other.kind != handler.kind), "{} is registered already", handler.kind);
        self.handlers.push(handler);
        self
    }

    /// How many jobs run at once: by default 64. Jobs that compute want as many as there are
    /// processors.
    pub fn at_most(mut self, jobs: usize) -> Self {
        self.at_most = jobs.max(1);
        self
    }

    /// How long jobs have to finish at the end of this worker: by default 30 s. Then they are
    /// cancelled, and others get them.
    pub fn drain_within(mut self, limit: Duration) -> Self {
        self.drain_within = limit;
        self
    }

    /// Takes jobs and runs them, until the process receives SIGTERM, or the caller is
    /// [asked to finish](segue::CancelToken::ask_to_finish). Then the worker takes no more, waits
    /// for those that run, and returns.
    ///
    /// The jobs are fibers of the caller's scheduler, or of the default one.
    ///
    /// # Cancellation
    /// Ends the worker: its jobs are cancelled and put back, for others.
    ///
    /// # Errors
    /// [`RemoteError::Refused`] if no job is registered, or SIGTERM can't be waited for.
    pub fn run(self) -> Result<Summary, RemoteError> {
        let Self { pool, handlers, at_most, drain_within, log } = self;
        if handlers.is_empty() {
            return Err(RemoteError::Refused("a worker without a job: register some".to_owned()));
        }
        let terminate = Signals::new(Signal::TERM)
            .map_err(|error| RemoteError::Refused(format!("SIGTERM can't be waited for: {error}")))?;
        let inner = &pool.0;
        let engine = Arc::clone(&inner.engine);
        let server = Arc::new(Server::with(engine, log.clone(), inner.retry_after, inner.ack_wait, at_most));
        let kinds: Vec<String> = handlers.iter().map(|handler| handler.kind.to_string()).collect();
        let takers = Arc::new(WaitGroup::new());
        for handler in handlers {
            let (server, takers) = (Arc::clone(&server), Arc::clone(&takers));
            takers.add(1);
            segue::spawn(move || {
                let _taker = Done(takers);
                server.serve(handler);
            });
        }
        log.say(&format!("worker of pool {}: {}; at most {at_most} at once", inner.name, kinds.join(", ")));

        let end = select! {
            _ = terminate.recv_source() => "SIGTERM",
            () = finishing_source() => "asked to finish",
        };
        server.stop_leasing();
        shield(|| {
            let (why, is_cancelled) = end.map_or(("cancelled", true), |why| (why, false));
            log.say(&format!("{why}: {} jobs to end", server.held()));
            if is_cancelled || timeout(drain_within, || server.idle()).is_err() {
                // Jobs that are given back do not come here again.
                let _or_are_away = timeout(GRACE, || takers.wait());
                server.abort();
            }
            let _ended = timeout(GRACE, || takers.wait().and_then(|()| server.idle()));
            server.stop_extending();
            let _sent = timeout(GRACE, || pool.engine().flush());
        });
        let summary = Summary::of(server.counts());
        log.say(&format!("ended: {summary:?}"));
        Ok(summary)
    }
}

struct Done(Arc<WaitGroup>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.done();
    }
}

impl Summary {
    fn of(counts: &Counts) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            executions: get(&counts.executions),
            finished: get(&counts.finished),
            later: get(&counts.later),
            put_back: get(&counts.put_back),
            given_up: get(&counts.given_up),
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds: Vec<String> = self.handlers.iter().map(|handler| handler.kind.to_string()).collect();
        f.debug_struct("Worker").field("pool", &self.pool).field("kinds", &kinds).finish_non_exhaustive()
    }
}
