//! The streams of a pool, its settings, and the names of all subjects.
//!
//! Used by the engine: when it connects, and when a stream is missing.
//!
//! The settings on which all programs have to agree stand in the description of the queue, in
//! words. Two programs that create a pool at once with one setting both succeed; with two, the
//! second is told.

use super::wire;
use crate::engine::{EngineError, Kind, id};
use crate::options::Options;
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::sleep;

/// How long dead letters are kept.
const KEEP_LETTERS: Duration = Duration::from_secs(30 * 24 * 3600);
/// For how long the server knows the ids of messages.
const DUPLICATES: Duration = Duration::from_secs(120);
/// After how long without a worker the server forgets a kind: submitters of a version that is
/// retired learn that, and the jobs of a pool that rests for a weekend stay.
const RETIRED_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many workers of a kind may ask for jobs at once.
const MOST_ASKING: i64 = 10_000;
/// How long a server may take to delete a stream.
const AFTER_DELETION: Duration = Duration::from_millis(500);

/// The names of a pool's streams and subjects, and its settings.
pub(super) struct Names {
    pool: String,
    pub(super) jobs: String,
    pub(super) results: String,
    pub(super) dead: String,
    settings: String,
    max_jobs: i64,
    ack_wait: Duration,
    max_ack_pending: i64,
    keep_results: Duration,
    replicas: usize,
}

impl Names {
    pub(super) fn of(options: &Options) -> Self {
        let &Options { max_jobs, ack_wait, max_ack_pending, keep_results, replicas, .. } = options;
        let settings = format!(
            "segue-remote 1: max_jobs {max_jobs}, ack_wait {ack_wait:?}, max_ack_pending {max_ack_pending}, \
             keep_results {keep_results:?}, replicas {replicas}"
        );
        let pool = options.name.clone();
        Self {
            jobs: format!("SEGUE_{pool}_JOBS"),
            results: format!("KV_SEGUE_{pool}_RESULTS"),
            dead: format!("SEGUE_{pool}_DEAD"),
            pool,
            settings,
            max_jobs: i64::try_from(max_jobs).unwrap_or(i64::MAX),
            ack_wait,
            max_ack_pending: i64::try_from(max_ack_pending).unwrap_or(i64::MAX),
            keep_results,
            replicas,
        }
    }

    pub(super) fn job(&self, kind: &Kind, id: &str) -> String {
        format!("segue.{}.job.{}.{}.{id}", self.pool, kind.name, kind.version)
    }

    /// The job of this id: of each version, if the id is that of a key.
    pub(super) fn same_job(&self, kind: &Kind, id: &str) -> String {
        match id::is_keyed(id) {
            true => format!("segue.{}.job.{}.*.{id}", self.pool, kind.name),
            false => self.job(kind, id),
        }
    }

    /// Of records: the subject that the bucket's key has.
    pub(super) fn result(&self, id: &str) -> String {
        format!("$KV.SEGUE_{}_RESULTS.{id}", self.pool)
    }

    /// Of the dead letter of the job with this sequence: later jobs of its key have others.
    pub(super) fn dead(&self, kind: &Kind, id: &str, sequence: u64) -> String {
        format!("segue.{}.dead.{}.{}.{id}.{sequence}", self.pool, kind.name, kind.version)
    }

    pub(super) fn all_dead(&self) -> String {
        format!("segue.{}.dead.*.*.*.*", self.pool)
    }

    pub(super) fn done(&self, to: &str) -> String {
        format!("segue.{}.done.{to}", self.pool)
    }

    pub(super) fn cancel(&self) -> String {
        format!("segue.{}.cancel", self.pool)
    }

    /// How often a job that waits in a worker is extended.
    pub(super) fn extend_every(&self) -> Duration {
        self.ack_wait / 3
    }

    /// How often a worker looks for stranded jobs.
    pub(super) fn look_every(&self) -> Duration {
        self.ack_wait.max(Duration::from_secs(1))
    }

    pub(super) fn consumer(kind: &Kind) -> String {
        format!("{}_v{}", kind.name, kind.version)
    }

    /// The consumer of a kind. The workers count deliveries, so the server has no bound for them:
    /// it would stop to deliver a job that nobody had given up.
    pub(super) fn consumer_config(&self, kind: &Kind) -> pull::Config {
        pull::Config {
            durable_name: Some(Self::consumer(kind)),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_deliver: -1,
            max_ack_pending: self.max_ack_pending,
            max_waiting: MOST_ASKING,
            inactive_threshold: RETIRED_AFTER,
            filter_subject: self.job(kind, "*"),
            ..pull::Config::default()
        }
    }

    fn stream(&self, name: &str, subject: String) -> Config {
        Config {
            name: name.to_owned(),
            subjects: vec![subject],
            storage: StorageType::File,
            num_replicas: self.replicas,
            max_messages: -1,
            max_bytes: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            ..Config::default()
        }
    }

    fn jobs_config(&self) -> Config {
        Config {
            description: Some(self.settings.clone()),
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            max_messages: self.max_jobs,
            duplicate_window: DUPLICATES,
            ..self.stream(&self.jobs, format!("segue.{}.job.*.*.*", self.pool))
        }
    }

    fn dead_config(&self) -> Config {
        Config { max_age: KEEP_LETTERS, ..self.stream(&self.dead, self.all_dead()) }
    }

    /// As the server's own tools make a bucket, so that they can show it.
    fn results_config(&self) -> Config {
        Config {
            max_age: self.keep_results,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            duplicate_window: DUPLICATES.min(self.keep_results),
            ..self.stream(&self.results, self.result(">"))
        }
    }
}

/// Creates the streams that there are not, and compares the settings of the others.
///
/// Boxed: these futures are some kB, and those of each publish contain one.
pub(super) fn ensure<'a>(context: &'a Context, names: &'a Names) -> Boxed<'a> {
    Box::pin(ensure_each(context, names))
}

/// As [`ensure`], where a stream has gone while the pool is in use, after a pause: a server that
/// deletes a stream takes its files away a little later, and those of a new one of that name along.
pub(super) fn restore<'a>(context: &'a Context, names: &'a Names) -> Boxed<'a> {
    Box::pin(async {
        sleep(AFTER_DELETION).await;
        ensure_each(context, names).await
    })
}

/// A future of this crate's that may be polled by any thread.
pub(super) type Boxed<'a> = Pin<Box<dyn Future<Output = Result<(), EngineError>> + Send + 'a>>;

async fn ensure_each(context: &Context, names: &Names) -> Result<(), EngineError> {
    for config in [names.jobs_config(), names.results_config(), names.dead_config()] {
        let Some(found) = find_or_create(context, &config).await? else { continue };
        let expected = config.description.unwrap_or_default();
        if !expected.is_empty() && found != expected {
            return Err(EngineError::Refused(format!(
                "the pool {} is there with other settings: {found:?}, and not {expected:?}",
                names.pool
            )));
        }
    }
    Ok(())
}

/// The description of the stream, if it was there.
async fn find_or_create(context: &Context, config: &Config) -> Result<Option<String>, EngineError> {
    let find = || async {
        match context.get_stream(&config.name).await {
            Ok(stream) => Ok(Some(stream.cached_info().config.description.clone().unwrap_or_default())),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(error) if wire::is_no_stream(&error) => Ok(None),
                _ => Err(wire::unavailable(error)),
            },
        }
    };
    if let Some(found) = find().await? {
        return Ok(Some(found));
    }
    match context.create_stream(config.clone()).await {
        Ok(_) => Ok(None),
        // Another program was faster, with other settings?
        Err(error) => match find().await? {
            Some(found) => Ok(Some(found)),
            None => Err(wire::unavailable(error)),
        },
    }
}
