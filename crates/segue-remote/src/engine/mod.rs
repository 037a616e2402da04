//! The seam: all that an engine does for a pool and for workers, in one trait.
//!
//! Used by the pool, the workers, and authors of further engines.
//!
//! An engine has six operations. It *enqueues* a job; *leases* jobs to workers, and leases a job
//! anew if its worker was silent for the ack wait; *extends* a lease; *finishes* a job by a record,
//! of which the first counts; *gives up* a job, as a dead letter; and lets submitters *watch* for
//! records. A watch has two parts: [`Signals`], which are hints and may be lost, and
//! [`Engine::read`], which decides.
//!
//! All else is above: arguments and results, attempts and their delays, deadlines, cancellation,
//! the intervals of reading. So the tests of the crate hold for any engine.
//!
//! * `message.rs`: a job and a record, and the record's bytes.
//! * `id.rs`: ids of jobs.
//! * `signals.rs`: hints.
//! * `error.rs`: failures of an engine; `retry.rs`: repeating an operation.

mod error;
pub(crate) mod id;
mod message;
mod retry;
mod signals;

pub use error::EngineError;
pub use message::{DeadLetter, Envelope, Kind, Lease, Outcome, Record};
pub(crate) use retry::retry;
pub(crate) use signals::Expected;
pub use signals::Signals;

use std::time::Duration;

/// Queues, acknowledgements and redelivery, for a pool and its workers.
///
/// The methods may suspend the calling fiber. Each may be called by any number of fibers at once.
///
/// # Cancellation
/// An operation of a caller that is cancelled fails with [`EngineError::Cancelled`], and may
/// already have happened. Each of them can be repeated.
pub trait Engine: Send + Sync + 'static {
    /// Puts a job into the queue, in which the job stays until somebody finishes it or gives it up.
    ///
    /// A job is not put there again if its id is in the queue; that is a success. The engine
    /// need not know for ever which ids were there.
    ///
    /// # Errors
    /// [`Full`](EngineError::Full) if there is no room, [`Unavailable`](EngineError::Unavailable)
    /// if the engine can't say: the caller tries again later. [`Refused`](EngineError::Refused) if
    /// this job will never be taken.
    fn enqueue(&self, job: &Envelope) -> Result<(), EngineError>;

    /// A worker's stream of jobs of one kind.
    ///
    /// From then on the engine [knows](Engine::knows) this kind.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn lease(&self, kind: &Kind) -> Result<Box<dyn Leases>, EngineError>;

    /// Tells that the worker of a lease is alive: the ack wait begins anew. May be lost.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn extend(&self, lease: &Lease) -> Result<(), EngineError>;

    /// Keeps a lease until its end without extensions, for a worker in the engine's own process,
    /// which can't die alone. Answers whether: if not, the worker extends. An extension ends that.
    /// Never waits.
    fn hold(&self, _lease: &Lease) -> bool {
        false
    }

    /// Stores the record of a job unless there is one, then takes the job from the queue, and tells
    /// submitters. Answers whether this record is the first.
    ///
    /// Without a lease it is the submitter that ends the job: workers are told to cancel the job.
    /// Submitters learn of a record only after the engine has stored the record.
    ///
    /// # Errors
    /// [`Refused`](EngineError::Refused) if this record can't be stored, since it is too large;
    /// else as for [`enqueue`](Engine::enqueue).
    fn finish(&self, id: &str, record: &Record, lease: Option<&Lease>) -> Result<bool, EngineError>;

    /// Finishes a job by a record that says so, and keeps the job as a dead letter.
    ///
    /// If another record is the first, there is no dead letter. A job that is given up twice, since
    /// a worker died in between, is one dead letter. So is one with a record that can't be read.
    ///
    /// # Errors
    /// As for [`finish`](Engine::finish).
    fn give_up(&self, lease: &Lease, record: &Record, reason: &str) -> Result<bool, EngineError>;

    /// Has the job leased again, after `delay`.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue). The job comes back after the ack wait in any case.
    fn put_back(&self, lease: &Lease, delay: Duration) -> Result<(), EngineError>;

    /// Has the job leased again at once, as if this lease had not been: its attempt does not count.
    /// An engine that can't do that puts the job back.
    ///
    /// # Errors
    /// As for [`put_back`](Engine::put_back).
    fn give_back(&self, lease: &Lease) -> Result<(), EngineError> {
        self.put_back(lease, Duration::ZERO)
    }

    /// The only submitter of this job has the record: the engine may delete it. Never waits.
    fn forget(&self, _id: &str) {}

    /// The record of a job, if there is one. This is the engine's last word: it is never older than
    /// a record that was stored before the call.
    ///
    /// # Errors
    /// [`Refused`](EngineError::Refused) if the record can't be read; else as for
    /// [`enqueue`](Engine::enqueue).
    fn read(&self, id: &str) -> Result<Option<Record>, EngineError>;

    /// Whether the job is in the queue, leased or not.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn is_queued(&self, kind: &Kind, id: &str) -> Result<bool, EngineError>;

    /// Whether any worker has leased jobs of this kind, as far back as the engine knows.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn knows(&self, kind: &Kind) -> Result<bool, EngineError>;

    /// The oldest dead letters.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, EngineError>;

    /// The hints of this engine.
    fn signals(&self) -> &Signals;

    /// The start of an id that no other submitter has.
    fn prefix(&self) -> &str;

    /// Sends all that was not sent yet.
    ///
    /// # Errors
    /// As for [`enqueue`](Engine::enqueue).
    fn flush(&self) -> Result<(), EngineError>;
}

/// Jobs of one kind, for one worker. Made by [`Engine::lease`].
pub trait Leases: Send {
    /// The next job. `most` is how many the worker could take at once: the engine may fetch so many
    /// ahead.
    ///
    /// # Cancellation
    /// *No effect*: a job that had arrived is that of the next call, or goes back when this is
    /// dropped.
    ///
    /// # Errors
    /// [`EngineError::Closed`] if there will be no more.
    fn next(&mut self, most: usize) -> Result<Lease, EngineError>;

    /// Takes no more jobs: one that is [given back](Engine::give_back) after this does not come
    /// here again. The drop does that, too, a little later.
    ///
    /// # Cancellation
    /// *May already have happened*.
    fn end(&mut self) {}
}
