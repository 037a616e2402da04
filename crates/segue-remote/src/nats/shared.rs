//! What the engine and its leases share: the client, the names, and requests to the server.
//!
//! Used by the engine and its leases.

use super::connection::Connection;
use super::setup::{self, Names};
use super::wire::{self, Published};
use crate::engine::{EngineError, Kind, Lease, Record, id};
use crate::options::Log;
use async_nats::HeaderMap;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use std::sync::atomic::AtomicBool;

/// The client, and the names of a pool.
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) names: Names,
    pub(super) prefix: String,
    pub(super) log: Log,
    pub(super) hears_cancellations: AtomicBool,
}

impl Shared {
    pub(super) fn context(&self) -> &async_nats::jetstream::Context {
        &self.connection.context
    }

    /// Waits for this future of the client's.
    pub(super) fn wait<T>(&self, future: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
        segue_bridge::tokio::wait(&self.connection.runtime.handle, future)?
    }

    /// The stream of this name, without a question to the server.
    pub(super) async fn stream(&self, name: &str) -> Result<Stream<()>, EngineError> {
        self.context().get_stream_no_info(name).await.map_err(wire::unavailable)
    }

    /// Publishes to a stream, and waits until the stream has the message.
    pub(super) async fn publish(
        &self,
        subject: String,
        headers: HeaderMap,
        payload: Vec<u8>,
    ) -> Result<Published, EngineError> {
        let sent = self.context().publish_with_headers(subject, headers, payload.into()).await;
        let stored = match sent {
            Ok(acknowledgement) => acknowledgement.await,
            Err(error) => Err(error),
        };
        match wire::published(stored) {
            Ok(Published::NoStream) => {
                // Somebody has deleted the stream: the caller's next try finds a new one.
                setup::restore(self.context(), &self.names).await?;
                Err(EngineError::Unavailable("a stream was missing".to_owned()))
            }
            other => other,
        }
    }

    /// Sends a message that no stream keeps.
    pub(super) async fn tell(&self, subject: String, payload: Vec<u8>) -> Result<(), EngineError> {
        self.connection.client.publish(subject, payload.into()).await.map_err(wire::unavailable)
    }

    /// The last message of this subject, by the server that decides; the first, if the subject has
    /// a wildcard.
    pub(super) async fn message(&self, stream: &str, subject: String) -> Result<Option<StreamMessage>, EngineError> {
        let stream = self.stream(stream).await?;
        let asked = stream.raw_message_builder();
        let asked = match subject.contains('*') {
            true => asked.sequence(1).next_by_subject(subject),
            false => asked.last_by_subject(subject),
        };
        match asked.send().await {
            Ok(message) => Ok(Some(message)),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(error) if wire::is_no_stream(&error) => {
                    setup::restore(self.context(), &self.names).await?;
                    Ok(None)
                }
                _ => Err(wire::unavailable(error)),
            },
        }
    }

    pub(super) async fn read(&self, id: &str) -> Result<Option<Record>, EngineError> {
        match self.message(&self.names.results, self.names.result(id)).await? {
            Some(message) if !wire::is_marker(&message.headers) => {
                Record::from_bytes(&message.payload).map(Some).map_err(EngineError::Refused)
            }
            _ => Ok(None),
        }
    }

    /// Stores a record, and answers whether it is the first.
    pub(super) async fn store(&self, id: &str, record: &Record) -> Result<bool, EngineError> {
        let subject = self.names.result(id);
        let mut last = 0;
        loop {
            let stored = self.publish(subject.clone(), wire::after(last), record.to_bytes()).await?;
            if let Published::Stored = stored {
                return Ok(true);
            }
            match self.message(&self.names.results, subject.clone()).await? {
                // Somebody has deleted the key.
                Some(message) if last != message.sequence && wire::is_marker(&message.headers) => {
                    last = message.sequence;
                }
                _ => return Ok(false),
            }
        }
    }

    /// Puts a job in the place of this lease's.
    pub(super) async fn give_back(&self, lease: &Lease) -> Result<(), EngineError> {
        let (job, sequence) = (&lease.job, wire::sequence(&lease.ticket));
        let (subject, headers) = (self.names.job(&job.kind, &job.id), wire::headers_again(lease, sequence));
        // If this was not the last one, the job is there again, or has ended.
        let _is_there = self.publish(subject, headers, job.arguments.clone()).await?;
        self.tell(lease.ticket.clone(), b"+ACK".to_vec()).await
    }

    /// Acknowledges the message of a lease, and tells the submitters.
    pub(super) async fn settle(&self, id: &str, lease: Option<&Lease>) -> Result<(), EngineError> {
        if let Some(lease) = lease {
            self.tell(lease.ticket.clone(), b"+ACK".to_vec()).await?;
        }
        let to = self.names.done(id::prefix_of(id).unwrap_or("key"));
        self.tell(to, id.as_bytes().to_vec()).await
    }

    /// Keeps a dead letter, unless there is one of this job.
    pub(super) async fn bury(&self, lease: &Lease, reason: &str) -> Result<(), EngineError> {
        let (job, sequence) = (&lease.job, wire::sequence(&lease.ticket));
        let subject = self.names.dead(&job.kind, &job.id, sequence);
        let headers = |reason: &str| {
            let mut headers = wire::after(0);
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

    pub(super) async fn consumer(&self, kind: &Kind) -> Result<PullConsumer, EngineError> {
        let stream = self.stream(&self.names.jobs).await?;
        let name = Names::consumer(kind);
        Box::pin(stream.get_or_create_consumer(&name, self.names.consumer_config(kind)))
            .await
            .map_err(wire::unavailable)
    }
}
