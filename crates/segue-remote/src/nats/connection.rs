//! The client of NATS, on a thread of its own, and what it hears.
//!
//! Used by the engine. The thread runs tokio's current-thread runtime: the client's connection and
//! a task for each subject of hints. Fibers poll the client's other futures themselves, and are
//! woken from there.

use super::wire;
use crate::engine::{EngineError, Signals};
use crate::options::Log;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions, Event};
use futures_core::Stream;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a request waits for the server.
const ANSWER: Duration = Duration::from_secs(3);
/// How long the end of a pool waits for the last messages to go.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The client, and the thread on which it runs.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) signals: Signals,
    /// How often the client has connected: requests of an earlier time are lost.
    pub(super) epoch: Arc<AtomicU64>,
    pub(super) runtime: Runtime,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(end) = self.runtime.end.take() {
            // The thread flushes, and ends.
            let _ended = end.send(self.client.clone());
        }
    }
}

impl Connection {
    pub(super) fn new(url: &str, options: ConnectOptions, log: Log) -> Result<Self, EngineError> {
        let (signals, epoch) = (Signals::new(), Arc::new(AtomicU64::new(0)));
        let (hints, connects) = (signals.clone(), Arc::clone(&epoch));
        let options = options.event_callback(move |event| {
            if matches!(event, Event::Connected) {
                // The first one is that of the pool's start.
                if connects.fetch_add(1, Ordering::AcqRel) > 0 {
                    log.say("connected again");
                }
                hints.lost();
            } else {
                log.say(&format!("{event}"));
            }
            ready(())
        });
        let runtime = Runtime::start()?;
        let connect = async {
            let client = Box::pin(options.connect(url)).await.map_err(wire::unavailable)?;
            // Starts a task, so it needs the runtime, too.
            let context = jetstream::ContextBuilder::new().timeout(ANSWER).build(client.clone());
            Ok::<_, EngineError>((client, context))
        };
        let (client, context) = segue_bridge::tokio::wait(&runtime.handle, connect)??;
        Ok(Self { client, context, signals, epoch, runtime })
    }

    /// Calls `heard` with the text of each message of this subject, from now on.
    pub(super) async fn hear(&self, subject: String, heard: fn(&Signals, &str)) -> Result<(), EngineError> {
        let mut messages = self.client.subscribe(subject).await.map_err(wire::unavailable)?;
        let signals = self.signals.clone();
        self.runtime.handle.spawn(async move {
            while let Some(message) = poll_fn(|task| Pin::new(&mut messages).poll_next(task)).await {
                if let Ok(id) = std::str::from_utf8(&message.payload) {
                    heard(&signals, id);
                }
            }
        });
        // A message that is published by another connection after this is heard.
        self.client.flush().await.map_err(wire::unavailable)
    }
}

/// A thread that runs a runtime of tokio, until this is dropped.
pub(super) struct Runtime {
    pub(super) handle: Handle,
    /// Ends the thread, also by its drop; a client has last words.
    end: Option<oneshot::Sender<Client>>,
}

impl Runtime {
    fn start() -> Result<Self, EngineError> {
        let failed = |error: std::io::Error| EngineError::Unavailable(format!("no thread for the client: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<Client>();
        let run = move || {
            runtime.block_on(async {
                if let Ok(client) = ended.await {
                    let _gone_or_away = timeout(LAST_WORDS, client.flush()).await;
                }
            });
        };
        thread::Builder::new().name("segue-remote".to_owned()).spawn(run).map_err(failed)?;
        Ok(Self { handle, end: Some(end) })
    }
}
