//! Where jobs are submitted.
//!
//! Used by applications. The pool writes the arguments, waits for room in the queue, and starts a
//! fiber that waits for the result; `watch.rs` is that wait.

use crate::engine::{DeadLetter, Engine, EngineError, Envelope, Expected, Kind, Outcome, Record, id, retry};
use crate::error::RemoteError;
use crate::job::{Format, Job, kind_of};
use crate::local::Local;
use crate::map::Bounded;
use crate::options::{Log, Options, SubmitOptions};
use crate::serve::{Handler, Server};
use crate::watch::{self, Patience, Wait, Waited};
use segue::channel::{self, Sender};
use segue::deadline;
use segue::sched::Handle;
use segue::sync::{Promise, Resolver, promise};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where jobs are submitted. Clones are the same pool.
///
/// Each submit starts a fiber that waits for the result: on the fibers of a local pool, else where
/// [`segue::spawn`] starts one.
#[derive(Clone)]
pub struct Pool(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Arc<dyn Engine>,
    patience: Patience,
    pub(crate) retry_after: Duration,
    pub(crate) ack_wait: Duration,
    pub(crate) log: Log,
    pub(crate) name: String,
    here: Option<Here>,
}

/// The workers of a local pool.
struct Here {
    /// None for those of the caller.
    fibers: Option<Handle>,
    server: Arc<Server>,
    kinds: Mutex<HashSet<Kind>>,
    /// To the fiber that starts a server for each type: so the fiber-locals of a submitter reach
    /// no job but those that the submitter spawns.
    starts: Sender<Handler>,
    local: Local,
}

impl Here {
    fn spawn(&self, f: impl FnOnce() + Send + 'static) {
        match &self.fibers {
            Some(fibers) => drop(fibers.spawn(f)),
            None => drop(segue::spawn(f)),
        }
    }

    /// From now on jobs of this type are run.
    fn serve<J: Job>(&self) {
        if self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(kind_of::<J>()) {
            // Never waits, so a submitter that is cancelled sends, too.
            let _closed = segue::shield(|| self.starts.send(Handler::of::<J>()));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(here) = &self.here {
            here.server.stop_leasing();
            here.local.close();
        }
    }
}

/// A job on its way.
struct Sent {
    kind: Kind,
    id: String,
    expected: Expected,
    until: Option<Instant>,
}

impl Pool {
    /// A pool in this process: its jobs run on these fibers, each type from its first submit on,
    /// up to 1,024 at once.
    ///
    /// Arguments and results take the way over bytes here, too: a program that works with this pool
    /// works with that of a server. The jobs inherit the fiber-locals of this call, and not those
    /// of their submitters.
    ///
    /// A job that submits to its own pool and waits keeps its place: 1,024 such parents leave none
    /// for their children. Give the children a pool of their own.
    pub fn local(fibers: &segue::Pool) -> Self {
        Self::local_with(fibers, Options::default())
    }

    /// As [`local`](Self::local), with other settings than those by default.
    pub fn local_with(fibers: &segue::Pool, options: Options) -> Self {
        Self::local_on(Some(fibers.handle()), options)
    }

    /// As [`local_with`](Self::local_with), with fibers where [`segue::spawn`] starts them: those
    /// of a simulation, if the pool is made and used there.
    ///
    /// # Examples
    ///
    /// A job's hour takes no time in a test:
    ///
    /// ```
    /// use segue_remote::{Options, Pool, job};
    /// use std::time::Duration;
    ///
    /// #[job]
    /// fn naps() -> Result<(), segue::Cancelled> {
    ///     segue::sleep(Duration::from_secs(3600))
    /// }
    ///
    /// segue::testing::Sim::new(1).run(|| {
    ///     let pool = Pool::local_here(Options::default());
    ///     assert_eq!(pool.submit(Naps {}).take(), Ok(Ok(())));
    /// });
    /// ```
    pub fn local_here(options: Options) -> Self {
        Self::local_on(None, options)
    }

    fn local_on(fibers: Option<Handle>, options: Options) -> Self {
        let local = Local::new(&options);
        let engine: Arc<dyn Engine> = Arc::new(local.clone());
        let server = Arc::new(Server::new(Arc::clone(&engine), &options, 1024));
        let (starts, handlers) = channel::unbounded::<Handler>();
        let here = Here { fibers, server: Arc::clone(&server), kinds: Mutex::default(), starts, local };
        here.spawn(move || {
            while let Ok(handler) = handlers.recv() {
                let server = Arc::clone(&server);
                segue::spawn(move || server.serve(handler));
            }
        });
        Self::of(engine, options, Some(here))
    }

    /// A pool with its queue and results at a server of NATS with JetStream, 2.9.10 or later. Its
    /// jobs are run by [`Worker`](crate::Worker)s.
    ///
    /// The first program creates the pool's streams there. The client reconnects by itself; see
    /// [`Options::connect`]. A thread of this pool runs the client.
    ///
    /// # Cancellation
    /// *May already have happened*: the server may have the pool's streams.
    ///
    /// # Errors
    /// [`RemoteError::Unavailable`] if the server can't be reached, or has no JetStream.
    /// [`RemoteError::Refused`] if the pool of this name has other settings, or its name is none.
    #[cfg(feature = "nats")]
    pub fn nats(url: &str, mut options: Options) -> Result<Self, RemoteError> {
        if !id::is_name(&options.name) {
            return Err(RemoteError::Refused(format!("{:?} can't be the name of a pool", options.name)));
        }
        let connect = std::mem::take(&mut options.connect);
        let engine = crate::nats::Nats::connect(url, connect, &options)?;
        Ok(Self::new(engine, options))
    }

    /// A pool on an engine of the program's own.
    pub fn new(engine: impl Engine, options: Options) -> Self {
        Self::of(Arc::new(engine), options, None)
    }

    fn of(engine: Arc<dyn Engine>, options: Options, here: Option<Here>) -> Self {
        let Options { reread_every, unknown_after, retry_after, ack_wait, log, name, .. } = options;
        let patience = Patience { reread_every, unknown_after };
        Self(Arc::new(Inner { engine, patience, retry_after, ack_wait, log, name, here }))
    }

    /// Submits a job, with the settings by default. See [`submit_with`](Self::submit_with).
    ///
    /// # Cancellation
    /// As for [`submit_with`](Self::submit_with).
    pub fn submit<J: Job>(&self, job: J) -> Promise<Result<J::Output, RemoteError>> {
        self.submit_with(job, SubmitOptions::new())
    }

    /// Submits a job: waits until the queue has the job, and returns the promise of the result.
    ///
    /// A full queue is waited for, and so is a server that is away. The promise has all errors,
    /// also those of the submission. Dropping the promise cancels the job, unless the job has a
    /// [key](SubmitOptions::key).
    ///
    /// # Cancellation
    /// *May already have happened*: the promise has [`RemoteError::Cancelled`], and the job is
    /// cancelled, which a worker may learn late.
    pub fn submit_with<J: Job>(&self, job: J, options: SubmitOptions) -> Promise<Result<J::Output, RemoteError>> {
        let (resolver, promise) = promise();
        if let Some(here) = &self.0.here {
            here.serve::<J>();
        }
        match self.0.send(&job, options) {
            Ok(sent) => self.answer::<J>(sent, resolver, true),
            Err(error) => drop(resolver.fill(Err(error))),
        }
        promise
    }

    /// The result of the job of this type and [key](SubmitOptions::key), which this program or
    /// another one has submitted. Never waits, and submits nothing.
    ///
    /// Dropping the promise cancels nothing.
    pub fn result<J: Job>(&self, key: &str) -> Promise<Result<J::Output, RemoteError>> {
        let (resolver, promise) = promise();
        let kind = kind_of::<J>();
        let id = match keyed::<J>(key) {
            Ok(id) => id,
            Err(error) => {
                drop(resolver.fill(Err(error)));
                return promise;
            }
        };
        let expected = self.0.engine.signals().expect(&id);
        // Of the first reading.
        expected.notify.notify_one();
        self.answer::<J>(Sent { kind, id, expected, until: None }, resolver, false);
        promise
    }

    /// Cancels the job of this type and [key](SubmitOptions::key). Answers whether that is its
    /// result now: if not, there is another one.
    ///
    /// # Cancellation
    /// *May already have happened*.
    ///
    /// # Errors
    /// [`RemoteError::Unavailable`], [`RemoteError::Cancelled`]; [`RemoteError::Refused`] if the
    /// key is too long, or the name of the job is none.
    pub fn cancel<J: Job>(&self, key: &str) -> Result<bool, RemoteError> {
        let (engine, id) = (&self.0.engine, keyed::<J>(key)?);
        let record = Record { kind: kind_of::<J>(), attempt: 0, outcome: Outcome::Cancelled };
        let is_first = engine.finish(&id, &record, None)?;
        Ok(is_first || engine.read(&id)?.is_some_and(|first| first.outcome == Outcome::Cancelled))
    }

    /// Submits these jobs, `at_most` of them at a time, and yields their results in the order of
    /// the jobs. The iterator submits when it is asked; dropping it cancels those under way.
    ///
    /// # Cancellation
    /// Each remaining result of a caller that is cancelled is [`RemoteError::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use segue_remote::{Pool, job};
    /// #[job]
    /// fn square(n: u64) -> u64 {
    ///     n * n
    /// }
    ///
    /// let fibers = segue::runtime().workers(2).pool()?;
    /// let pool = Pool::local(&fibers);
    /// let squares: Result<Vec<u64>, _> = pool.map((1..=4).map(|n| Square { n }), 2).collect();
    /// assert_eq!(squares?, [1, 4, 9, 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map<J: Job, I: IntoIterator<Item = J>>(
        &self,
        jobs: I,
        at_most: usize,
    ) -> impl Iterator<Item = Result<J::Output, RemoteError>> + use<J, I> {
        let (pool, mut jobs) = (self.clone(), jobs.into_iter().fuse());
        Bounded::new(move || jobs.next().map(|job| pool.submit(job)), at_most)
    }

    /// The oldest jobs that were given up, up to so many. NATS keeps them for 30 days, a local pool
    /// the last 1,000.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// [`RemoteError::Unavailable`], [`RemoteError::Cancelled`].
    pub fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, RemoteError> {
        Ok(self.0.engine.dead_letters(most)?)
    }

    /// The engine of this pool.
    #[must_use]
    pub fn engine(&self) -> &dyn Engine {
        &*self.0.engine
    }

    /// Starts the fiber that fills the promise.
    fn answer<J: Job>(&self, sent: Sent, resolver: Resolver<Result<J::Output, RemoteError>>, submits: bool) {
        let inner = Arc::clone(&self.0);
        self.0.spawn(move || {
            let Sent { kind, id, expected, until } = sent;
            let owns = submits && !id::is_keyed(&id);
            let wait = Wait { engine: &*inner.engine, patience: inner.patience, kind: &kind, id: &id, owns, until };
            match wait.record(&expected, || resolver.closed_source()) {
                Ok(Waited::Record(record)) => drop(resolver.fill(output::<J>(record))),
                Ok(Waited::Nobody) => {}
                Ok(Waited::Late(record)) => {
                    drop(resolver.fill(Err(RemoteError::TimedOut)));
                    let _unreachable = watch::withdraw(&*inner.engine, &id, &record);
                }
                Err(error) => drop(resolver.fill(Err(error))),
            }
            if owns {
                inner.engine.forget(&id);
            }
        });
    }
}

impl Inner {
    pub(crate) fn spawn(&self, f: impl FnOnce() + Send + 'static) {
        match &self.here {
            Some(here) => here.spawn(f),
            None => drop(segue::spawn(f)),
        }
    }

    fn send<J: Job>(self: &Arc<Self>, job: &J, options: SubmitOptions) -> Result<Sent, RemoteError> {
        let (kind, until) =
            (kind_of::<J>(), options.limit.map(|limit| segue::now().checked_add(limit)).unwrap_or(None));
        let envelope = self.envelope(job, options)?;
        let (id, engine) = (envelope.id.clone(), &self.engine);
        let expected = engine.signals().expect(&id);
        // An operation that is over is not done again; if that can't be read, its worker will look.
        let read = || deadline(until, || engine.read(&id));
        let has_record = id::is_keyed(&id) && read().is_ok_and(|record| record.is_some());
        let enqueued = if has_record { Ok(()) } else { deadline(until, || retry(|| engine.enqueue(&envelope))) };
        match enqueued {
            Ok(()) => {}
            Err(EngineError::Cancelled(_)) => {
                let is_late = until.is_some_and(|until| until <= segue::now());
                if !id::is_keyed(&id) {
                    // The queue may have the job, and the caller must not wait.
                    let outcome = if is_late { Outcome::TimedOut } else { Outcome::Cancelled };
                    let (inner, record) = (Arc::clone(self), Record { kind, attempt: 0, outcome });
                    self.spawn(move || {
                        let _unreachable = watch::withdraw(&*inner.engine, &id, &record);
                        inner.engine.forget(&id);
                    });
                }
                return Err(if is_late { RemoteError::TimedOut } else { RemoteError::Cancelled });
            }
            Err(error) => return Err(error.into()),
        }
        if has_record {
            expected.notify.notify_one();
        }
        Ok(Sent { kind, id, expected, until })
    }

    fn envelope<J: Job>(&self, job: &J, options: SubmitOptions) -> Result<Envelope, RemoteError> {
        let refused = |why: String| Err(RemoteError::Refused(why));
        let SubmitOptions { key, attempts, limit, trace } = options;
        let keyed = keyed::<J>(key.as_deref().unwrap_or_default())?;
        if trace
            .as_ref()
            .is_some_and(|trace| trace.len() > 1024 || trace.bytes().any(|byte| !(b' '..=b'~').contains(&byte)))
        {
            return refused("a trace is up to 1,024 printable characters of ASCII".to_owned());
        }
        let id = if key.is_some() { keyed } else { id::fresh(self.engine.prefix()) };
        let arguments = match J::Format::write(job) {
            Ok(arguments) => arguments,
            Err(why) => return refused(format!("the arguments of {}: {why}", J::NAME)),
        };
        let format = J::Format::NAME.to_owned();
        Ok(Envelope { id, kind: kind_of::<J>(), format, attempts, limit, trace, arguments })
    }
}

/// The id of the job of this type and key.
fn keyed<J: Job>(key: &str) -> Result<String, RemoteError> {
    let refused = |why: String| Err(RemoteError::Refused(why));
    if !id::is_name(J::NAME) {
        return refused(format!("{:?} can't be the name of a job: up to 64 letters, digits, - and _", J::NAME));
    }
    if key.len() > id::LONGEST_KEY {
        return refused(format!("a key of {} bytes: at most {} may be", key.len(), id::LONGEST_KEY));
    }
    Ok(id::keyed(J::NAME, key))
}

/// The submitter's view of a record.
fn output<J: Job>(record: Record) -> Result<J::Output, RemoteError> {
    let Record { kind, attempt, outcome } = record;
    match outcome {
        Outcome::Done(_) if kind != kind_of::<J>() => {
            Err(RemoteError::Refused(format!("the result is that of {kind}, and not of {}", kind_of::<J>())))
        }
        Outcome::Done(bytes) => {
            let read = catch_unwind(AssertUnwindSafe(|| J::Format::read(&bytes)));
            let read = read.unwrap_or_else(|_| Err("its reading has panicked".to_owned()));
            read.map_err(|why| RemoteError::Refused(format!("the result of {kind}: {why}")))
        }
        Outcome::Failed(message) => Err(RemoteError::Failed(message)),
        Outcome::GaveUp(reason) => Err(RemoteError::GaveUp { attempts: attempt, reason }),
        Outcome::Cancelled => Err(RemoteError::Cancelled),
        Outcome::TimedOut => Err(RemoteError::TimedOut),
        Outcome::NoSuchJob => Err(RemoteError::NoSuchJob { name: kind.name, version: kind.version }),
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.0.name).finish_non_exhaustive()
    }
}
