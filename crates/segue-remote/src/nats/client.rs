//! The operations of the engine at a server.
//!
//! Used by `Pool::nats`.

use super::connection::Connection;
use super::durability;
use super::leases::NatsLeases;
use super::setup::{self, Names};
use super::shared::Shared;
use super::wire;
use crate::engine::{DeadLetter, Engine, EngineError, Envelope, Kind, Lease, Leases, Outcome, Record, Signals, id};
use crate::error::RemoteError;
use crate::options::Options;
use async_nats::ConnectOptions;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The engine at a server of NATS.
pub(crate) struct Nats(Arc<Shared>);

impl Nats {
    pub(crate) fn connect(url: &str, connect: ConnectOptions, options: &Options) -> Result<Self, RemoteError> {
        let (names, prefix) = (Names::of(options), id::prefix());
        let connection = Connection::new(url, connect, options.log.clone())?;
        let shared =
            Shared { connection, names, prefix, log: options.log.clone(), hears_cancellations: AtomicBool::new(false) };
        let (server, log) = (shared.connection.client.server_info(), &options.log);
        durability::warn(&server.version, options.monitor.as_deref(), &mut |line| log.say(line))?;
        shared.wait(setup::ensure(shared.context(), &shared.names))?;
        for subject in [shared.names.done(&shared.prefix), shared.names.done("key")] {
            let hear = shared.connection.hear(subject, Signals::finished);
            shared.wait(hear)?;
        }
        Ok(Self(Arc::new(shared)))
    }
}

impl Engine for Nats {
    fn enqueue(&self, job: &Envelope) -> Result<(), EngineError> {
        // Another version has the key? Two submits at once may both find that none has.
        if id::is_keyed(&job.id) && self.is_queued(&job.kind, &job.id)? {
            return Ok(());
        }
        let subject = self.0.names.job(&job.kind, &job.id);
        // `NotFirst`: a job of this key is in the queue.
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
        Ok(Box::new(self.0.wait(NatsLeases::new(&self.0, kind))?))
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
                let _purged = queue.purge().filter(shared.names.same_job(&record.kind, id)).await;
            }
            Ok(is_first)
        })
    }

    fn give_up(&self, lease: &Lease, record: &Record, reason: &str) -> Result<bool, EngineError> {
        let (shared, id) = (&self.0, &lease.job.id);
        shared.wait(async {
            let is_first = shared.store(id, record).await?
                // That of a worker which died before it had buried the job?
                || match shared.read(id).await {
                    Ok(first) => first.is_some_and(|first| matches!(first.outcome, Outcome::GaveUp(_))),
                    Err(EngineError::Refused(_)) => true,
                    Err(error) => return Err(error),
                };
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

    fn give_back(&self, lease: &Lease) -> Result<(), EngineError> {
        match self.0.wait(self.0.give_back(lease)) {
            // The queue is full: better with an attempt less than late.
            Err(EngineError::Full | EngineError::Refused(_)) => self.put_back(lease, Duration::ZERO),
            other => other,
        }
    }

    fn read(&self, id: &str) -> Result<Option<Record>, EngineError> {
        self.0.wait(self.0.read(id))
    }

    fn is_queued(&self, kind: &Kind, id: &str) -> Result<bool, EngineError> {
        let subject = self.0.names.same_job(kind, id);
        Ok(self.0.wait(self.0.message(&self.0.names.jobs, subject))?.is_some())
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
