//! Pull requests: a worker asks the server for jobs, and gets them one by one.
//!
//! Used by the fibers of workers that take leases, one for each kind.
//!
//! A request is for a number of messages and for some time. The server answers with messages, as
//! there are jobs, to the inbox that all requests of this stream of leases share, and with a status
//! when the time is over. `outstanding` is how many more may come. There is a new request only when
//! none may, so a worker never has more messages than it has asked for. A request is lost with its
//! server, and with a connection: a new connection, and a time without an end, count as its end.
//!
//! **Stranded jobs.** A server that was killed may come back with a consumer that takes messages
//! for acknowledged which are in the queue still (2.9.10 does so when it is killed under load):
//! nobody would ever get them. So a worker looks now and then at the oldest message of its kind. A
//! message below the consumer's floor of acknowledgements, in two looks at one consumer, is
//! stranded. Then the worker deletes the consumer, and a new one delivers all that is in the queue.
//! Jobs that run meanwhile run twice, and have one result.
//!
//! **Idle** there is one request, which costs a message every [`EXPIRES`].
//!
//! **Cancellation**: a wait that is cancelled has taken no message from the inbox. At the end, or
//! the drop, those in the inbox go back to the server.

use super::inbox::Inbox;
use super::setup::{self, Names};
use super::shared::Shared;
use super::wire;
use crate::engine::{EngineError, Kind, Lease, Leases};
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::BatchConfig;
use async_nats::{Message, StatusCode, Subject};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long the server keeps a request.
const EXPIRES: Duration = Duration::from_secs(5);
/// How long after that the server may take to say so.
const MARGIN: Duration = Duration::from_secs(2);
/// How often a wait looks whether its request is lost.
const LOOK: Duration = Duration::from_millis(500);
/// The pauses after refused requests; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a job waits in the inbox before its record is looked for.
const STALE: Duration = Duration::from_secs(1);

pub(super) struct NatsLeases {
    shared: Arc<Shared>,
    kind: Kind,
    consumer: PullConsumer,
    inbox: Subject,
    messages: Inbox,
    outstanding: usize,
    /// After the next refusal.
    pause: Duration,
    asked: Instant,
    epoch: u64,
    looked: Instant,
    /// A message that may be stranded, and when its consumer was made.
    suspect: Option<(u64, String)>,
}

impl NatsLeases {
    pub(super) async fn new(shared: &Arc<Shared>, kind: &Kind) -> Result<Self, EngineError> {
        let consumer = shared.consumer(kind).await?;
        let client = &shared.connection.client;
        let inbox = Subject::from(client.new_inbox());
        let messages = client.subscribe(inbox.clone()).await.map_err(wire::unavailable)?;
        let epoch = shared.connection.epoch.load(Ordering::Acquire);
        Ok(Self {
            shared: Arc::clone(shared),
            kind: kind.clone(),
            consumer,
            inbox,
            messages: Inbox::new(shared, messages),
            outstanding: 0,
            pause: FIRST_PAUSE,
            asked: Instant::now(),
            epoch,
            looked: Instant::now(),
            suspect: None,
        })
    }

    /// Asks for jobs, unless some that were asked for may still come.
    async fn ask(&mut self, most: usize) -> Result<(), EngineError> {
        let epoch = self.shared.connection.epoch.load(Ordering::Acquire);
        if self.epoch != epoch || self.asked.elapsed() > EXPIRES + MARGIN {
            (self.epoch, self.outstanding) = (epoch, 0);
        }
        if self.outstanding == 0 {
            let batch = BatchConfig { batch: most, expires: Some(EXPIRES), ..BatchConfig::default() };
            self.consumer.request_batch(batch, self.inbox.clone()).await.map_err(wire::unavailable)?;
            (self.outstanding, self.asked) = (most, Instant::now());
        }
        Ok(())
    }

    async fn take(&mut self, most: usize) -> Result<Lease, EngineError> {
        loop {
            if self.looked.elapsed() >= self.shared.names.look_every() {
                self.looked = Instant::now();
                // If that fails, the next one may not.
                let _looked = Box::pin(self.look_for_stranded()).await;
            }
            self.ask(most).await?;
            let (arrived, message) = match timeout(LOOK, self.messages.first()).await {
                Err(_) => continue,
                Ok(None) => return Err(EngineError::Closed),
                Ok(Some(first)) => first,
            };
            if let Some(status) = message.status.filter(|status| *status != StatusCode::OK) {
                self.messages.remove_first();
                self.hear(status, &message).await?;
                continue;
            }
            let lease = wire::lease(message);
            let is_over = match &lease {
                Some(lease) if arrived.elapsed() >= STALE => self.is_over(lease).await,
                _ => false,
            };
            self.messages.remove_first();
            self.outstanding = self.outstanding.saturating_sub(1);
            self.pause = FIRST_PAUSE;
            if let Some(lease) = lease.filter(|_| !is_over) {
                return Ok(lease);
            }
        }
    }

    /// Whether a job that has waited here was cancelled meanwhile: nobody has heard the hint.
    async fn is_over(&self, lease: &Lease) -> bool {
        // Further attempts look themselves.
        lease.attempt == 1
            && matches!(self.shared.read(&lease.job.id).await, Ok(Some(_)))
            && self.shared.settle(&lease.job.id, Some(lease)).await.is_ok()
    }

    /// Looks at the oldest message of this kind, and makes a new consumer if that is stranded.
    async fn look_for_stranded(&mut self) -> Result<(), EngineError> {
        let (shared, name) = (&self.shared, Names::consumer(&self.kind));
        let stream = shared.stream(&shared.names.jobs).await?;
        let subject = shared.names.job(&self.kind, "*");
        let oldest = stream.raw_message_builder().sequence(1).next_by_subject(subject).send().await;
        let suspect = match oldest {
            Err(_) => None,
            Ok(message) => {
                let info = stream.consumer_info(&name).await.map_err(wire::unavailable)?;
                let is_below = message.sequence <= info.ack_floor.stream_sequence;
                is_below.then(|| (message.sequence, format!("{:?}", info.created)))
            }
        };
        if suspect.is_some() && suspect == self.suspect {
            shared
                .log
                .say(&format!("{}: the server has jobs that it delivers to nobody; made a new consumer", self.kind));
            stream.delete_consumer(&name).await.map_err(wire::unavailable)?;
            self.consumer = shared.consumer(&self.kind).await?;
            self.outstanding = 0;
            self.suspect = None;
        } else {
            self.suspect = suspect;
        }
        Ok(())
    }

    /// The end of a request, or of the consumer.
    async fn hear(&mut self, status: StatusCode, message: &Message) -> Result<(), EngineError> {
        let headers = message.headers.as_ref();
        let left = headers.and_then(|headers| headers.get("Nats-Pending-Messages"));
        let left = left.and_then(|left| left.as_str().parse().ok()).unwrap_or(self.outstanding);
        self.outstanding = self.outstanding.saturating_sub(left);
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::TIMEOUT) {
            self.pause = FIRST_PAUSE;
            return Ok(());
        }
        // The consumer has gone, or has too many requests: the next one may be refused as fast.
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let is_gone = message.description.as_deref().is_some_and(|text| text.contains("Deleted"));
        if status == StatusCode::NO_RESPONDERS || is_gone {
            self.outstanding = 0;
            setup::restore(self.shared.context(), &self.shared.names).await?;
            self.consumer = self.shared.consumer(&self.kind).await?;
        }
        Ok(())
    }
}

impl Leases for NatsLeases {
    fn next(&mut self, most: usize) -> Result<Lease, EngineError> {
        let shared = Arc::clone(&self.shared);
        shared.wait(self.take(most.max(1)))
    }

    fn end(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _client_has_ended = shared.wait(async {
            self.messages.end().await;
            Ok(())
        });
    }
}
