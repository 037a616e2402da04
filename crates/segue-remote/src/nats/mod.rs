//! The engine at a server of NATS with JetStream.
//!
//! Used by `Pool::nats`.
//!
//! A pool `p` has three streams. `SEGUE_p_JOBS` is the queue: a job is the message
//! `segue.p.job.NAME.VERSION.ID`, which stays until it is acknowledged. Each kind of jobs has one
//! durable consumer there, which all workers of that kind share, and which delivers a message anew
//! that was not acknowledged in time. `KV_SEGUE_p_RESULTS` is the bucket of records, by id: a record
//! is published with the condition that its subject has no message yet, so the server decides which
//! is the first. `SEGUE_p_DEAD` has the dead letters, under the same condition.
//!
//! Hints are plain messages, which no stream keeps: `segue.p.done.PREFIX` to one submitter,
//! `segue.p.done.key` to all, for jobs with a key; `segue.p.cancel` to all workers. So a submitter
//! has no consumer at the server, and nothing is left behind by one that goes.
//!
//! **Order.** A record is stored, then the job is acknowledged and the hint sent. A worker that dies
//! before the acknowledgement leaves a job that has a record; the next worker reads that, since the
//! delivery is not the first. Without a record in the bucket and a message in the queue there will
//! never be one.
//!
//! **An answer that does not come** says nothing: the publish may have happened. The caller repeats
//! the call. A job that is published twice has one message id, so the server drops the second, for
//! two minutes; after that its second execution finds the first one's record.
//!
//! * `connection.rs`: the thread of the client, and what it hears.
//! * `durability.rs`: how often the server syncs.
//! * `setup.rs`: streams, their settings, and subjects.
//! * `leases.rs`: pull requests.
//! * `wire.rs`: headers, and the server's errors.

mod connection;
mod durability;
mod leases;
mod setup;
mod wire;

use crate::engine::{DeadLetter, Engine, EngineError, Envelope, Kind, Lease, Leases, Outcome, Record, Signals, id};
use crate::error::RemoteError;
use crate::options::{Log, Options};
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::{ConnectOptions, HeaderMap};
use connection::Connection;
use setup::Names;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::Published;

/// The engine at a server of NATS.
pub(crate) struct Nats(Arc<Shared>);

struct Shared {
    connection: Connection,
    names: Names,
    prefix: String,
    log: Log,
    hears_cancellations: AtomicBool,
}

impl Nats {
    pub(crate) fn connect(url: &str, connect: ConnectOptions, options: &Options) -> Result<Self, RemoteError> {
        let (names, prefix) = (Names::of(options), id::prefix());
        let connection = Connection::new(url, connect, options.log.clone())?;
        let shared =
            Shared { connection, names, prefix, log: options.log.clone(), hears_cancellations: AtomicBool::new(false) };
        shared.wait(setup::ensure(shared.context(), &shared.names))?;
        for subject in [shared.names.done(&shared.prefix), shared.names.done("key")] {
            let hear = shared.connection.hear(subject, Signals::finished);
            shared.wait(hear)?;
        }
        let server = shared.connection.client.server_info();
        let log = &options.log;
        durability::warn(&server.version, options.monitor.as_deref(), &mut |line| log.say(line))?;
        Ok(Self(Arc::new(shared)))
    }
}

impl Shared {
    fn context(&self) -> &async_nats::jetstream::Context {
        &self.connection.context
    }

    /// Waits for this future of the client's.
    fn wait<T>(&self, future: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
        segue_bridge::tokio::wait(&self.connection.runtime.handle, future)?
    }

    /// The stream of this name, without a question to the server.
    async fn stream(&self, name: &str) -> Result<Stream<()>, EngineError> {
        self.context().get_stream_no_info(name).await.map_err(wire::unavailable)
    }

    /// Publishes to a stream, and waits until the stream has the message.
    async fn publish(&self, subject: String, headers: HeaderMap, payload: Vec<u8>) -> Result<Published, EngineError> {
        let sent = self.context().publish_with_headers(subject, headers, payload.into()).await;
        let stored = match sent {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        match wire::published(stored) {
            Ok(Published::NoStream) => {
                // Somebody has deleted the stream: the caller's next try finds a new one.
                setup::ensure(self.context(), &self.names).await?;
                Err(EngineError::Unavailable("a stream was missing".to_owned()))
            }
            other => other,
        }
    }

    /// Sends a message that no stream keeps.
    async fn tell(&self, subject: String, payload: Vec<u8>) -> Result<(), EngineError> {
        self.connection.client.publish(subject, payload.into()).await.map_err(wire::unavailable)
    }

    /// The last message of this subject, by the server that decides.
    async fn last(&self, stream: &str, subject: &str) -> Result<Option<(HeaderMap, Vec<u8>)>, EngineError> {
        match self.stream(stream).await?.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some((message.headers, message.payload.to_vec()))),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(error) if wire::is_no_stream(&error) => {
                    setup::ensure(self.context(), &self.names).await?;
                    Ok(None)
                }
                _ => Err(wire::unavailable(error)),
            },
        }
    }

    async fn read(&self, id: &str) -> Result<Option<Record>, EngineError> {
        let Some((headers, bytes)) = self.last(&self.names.results, &self.names.result(id)).await? else {
            return Ok(None);
        };
        // Somebody has deleted the key.
        if headers.get("KV-Operation").is_some() {
            return Ok(None);
        }
        Record::from_bytes(&bytes).map(Some).map_err(EngineError::Refused)
    }

    /// Stores a record, and answers whether it is the first.
    async fn store(&self, id: &str, record: &Record) -> Result<bool, EngineError> {
        let stored = self.publish(self.names.result(id), wire::first_of_its_subject(), record.to_bytes()).await?;
        Ok(matches!(stored, Published::Stored))
    }

    /// Acknowledges the message of a lease, and tells the submitters.
    async fn settle(&self, id: &str, lease: Option<&Lease>) -> Result<(), EngineError> {
        if let Some(lease) = lease {
            self.tell(lease.ticket.clone(), b"+ACK".to_vec()).await?;
        }
        let to = self.names.done(id::prefix_of(id).unwrap_or("key"));
        self.tell(to, id.as_bytes().to_vec()).await
    }

    /// Keeps a dead letter, unless there is one of this job.
    async fn bury(&self, lease: &Lease, reason: &str) -> Result<(), EngineError> {
        let (job, subject) = (&lease.job, self.names.dead(&lease.job.kind, &lease.job.id));
        let headers = |reason: &str| {
            let mut headers = wire::first_of_its_subject();
            wire::add_reason(&mut headers, lease, reason);
            headers
        };
        match self.publish(subject.clone(), headers(reason), job.arguments.clone()).await {
            Err(EngineError::Refused(why)) => {
                let reason = format!("{reason} (and the arguments can't be kept: {why})");
                self.publish(subject, headers(&reason), Vec::new()).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    async fn consumer(&self, kind: &Kind) -> Result<PullConsumer, EngineError> {
        let stream = self.stream(&self.names.jobs).await?;
        let name = Names::consumer(kind);
        Box::pin(stream.get_or_create_consumer(&name, self.names.consumer_config(kind)))
            .await
            .map_err(wire::unavailable)
    }
}

impl Engine for Nats {
    fn enqueue(&self, job: &Envelope) -> Result<(), EngineError> {
        let subject = self.0.names.job(&job.kind, &job.id);
        // `WrongLast`: a job of this key is in the queue.
        self.0.wait(self.0.publish(subject, wire::headers(job), job.arguments.clone())).map(drop)
    }

    fn lease(&self, kind: &Kind) -> Result<Box<dyn Leases>, EngineError> {
        if !self.0.hears_cancellations.swap(true, Ordering::AcqRel) {
            let hear = self.0.connection.hear(self.0.names.cancel(), Signals::cancelled);
            if let Err(error) = self.0.wait(hear) {
                self.0.hears_cancellations.store(false, Ordering::Release);
                return Err(error);
            }
        }
        Ok(Box::new(self.0.wait(leases::NatsLeases::new(&self.0, kind))?))
    }

    fn extend(&self, lease: &Lease) -> Result<(), EngineError> {
        self.0.wait(self.0.tell(lease.ticket.clone(), b"+WPI".to_vec()))
    }

    fn finish(&self, id: &str, record: &Record, lease: Option<&Lease>) -> Result<bool, EngineError> {
        let shared = &self.0;
        shared.wait(async {
            if lease.is_none() {
                shared.tell(shared.names.cancel(), id.as_bytes().to_vec()).await?;
            }
            let is_first = shared.store(id, record).await?;
            shared.settle(id, lease).await?;
            if lease.is_none() {
                // If the server does not answer, the job runs, and its record is a later one.
                let queue = shared.stream(&shared.names.jobs).await?;
                let _purged = queue.purge().filter(shared.names.job(&record.kind, id)).await;
            }
            Ok(is_first)
        })
    }

    fn give_up(&self, lease: &Lease, record: &Record, reason: &str) -> Result<bool, EngineError> {
        let (shared, id) = (&self.0, &lease.job.id);
        shared.wait(async {
            let is_first = shared.store(id, record).await?
                // That of a worker which died before it had buried the job?
                || shared.read(id).await?.is_some_and(|first| matches!(first.outcome, Outcome::GaveUp(_)));
            if is_first {
                shared.bury(lease, reason).await?;
            }
            shared.settle(id, Some(lease)).await?;
            Ok(is_first)
        })
    }

    fn put_back(&self, lease: &Lease, delay: Duration) -> Result<(), EngineError> {
        let payload = format!("-NAK {{\"delay\":{}}}", delay.as_nanos());
        self.0.wait(self.0.tell(lease.ticket.clone(), payload.into_bytes()))
    }

    fn read(&self, id: &str) -> Result<Option<Record>, EngineError> {
        self.0.wait(self.0.read(id))
    }

    fn is_queued(&self, kind: &Kind, id: &str) -> Result<bool, EngineError> {
        let subject = self.0.names.job(kind, id);
        Ok(self.0.wait(self.0.last(&self.0.names.jobs, &subject))?.is_some())
    }

    fn knows(&self, kind: &Kind) -> Result<bool, EngineError> {
        let shared = &self.0;
        shared.wait(async {
            let stream = shared.stream(&shared.names.jobs).await?;
            match stream.consumer_info(Names::consumer(kind)).await {
                Ok(_) => Ok(true),
                Err(error) if wire::is_no_consumer(&error.kind()) => Ok(false),
                Err(error) => Err(wire::unavailable(error)),
            }
        })
    }

    fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, EngineError> {
        let shared = &self.0;
        shared.wait(async {
            let stream = shared.stream(&shared.names.dead).await?;
            let (mut letters, mut next) = (Vec::new(), 1);
            while letters.len() < most {
                let asked = stream.raw_message_builder().sequence(next).next_by_subject(shared.names.all_dead());
                match asked.send().await {
                    Ok(message) => {
                        next = message.sequence + 1;
                        letters.extend(wire::dead_letter(&message));
                    }
                    Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => break,
                    Err(error) => return Err(wire::unavailable(error)),
                }
            }
            Ok(letters)
        })
    }

    fn signals(&self) -> &Signals {
        &self.0.connection.signals
    }

    fn prefix(&self) -> &str {
        &self.0.prefix
    }

    fn flush(&self) -> Result<(), EngineError> {
        let client = &self.0.connection.client;
        self.0.wait(async { client.flush().await.map_err(wire::unavailable) })
    }
}
