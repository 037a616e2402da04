//! What a job of this crate costs beside a loop over `async-nats` with the same guarantees, by one
//! server on loopback: jobs a second with some in flight, and the latency of an empty job alone.
//!
//! ```text
//! cargo run --release -p segue-remote --features nats --example remote_overhead -- nats://127.0.0.1:4222
//! ```
//!
//! The loop does by hand what the pool and the worker do: publish with a message id and an
//! acknowledgement; a pull consumer; a record that is created once; an acknowledgement; a hint; a
//! read of the record. It has no cancellation, no extension of leases, no attempts, no types. Both
//! run in one process, in turns. Not in CI: figures of a busy machine say nothing.

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use async_nats::jetstream::{self, Context};
use futures_core::Stream;
use segue_remote::{Options, Pool, Worker, job};
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// Takes so many ms.
#[job]
fn takes(ms: u64) -> Result<u64, segue::Cancelled> {
    segue::sleep(Duration::from_millis(ms))?;
    Ok(ms)
}

async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Option<T> {
    poll_fn(|task| Pin::new(&mut *stream).poll_next(task)).await
}

/// The loop by hand.
struct Bare {
    context: Context,
    waiting: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>,
    run: u64,
}

impl Bare {
    async fn new(url: &str, at_most: usize) -> Self {
        let client = async_nats::connect(url).await.unwrap();
        let context = jetstream::new(client.clone());
        let stream = |name: &str, subject: &str, retention| Config {
            name: name.to_owned(),
            subjects: vec![subject.to_owned()],
            retention,
            max_messages_per_subject: -1,
            ..Config::default()
        };
        let queue = stream("BARE_JOBS", "bare.job.*", RetentionPolicy::WorkQueue);
        let queue = context.get_or_create_stream(queue).await.unwrap();
        context.get_or_create_stream(stream("BARE_RESULTS", "bare.result.*", RetentionPolicy::Limits)).await.unwrap();
        let consumer = pull::Config {
            durable_name: Some("bare".to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_ack_pending: 10_000,
            ..pull::Config::default()
        };
        let consumer = queue.get_or_create_consumer("bare", consumer).await.unwrap();
        let works = context.clone();
        tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(at_most));
            let mut jobs = consumer.stream().max_messages_per_batch(at_most).messages().await.unwrap();
            while let Some(Ok(job)) = next(&mut jobs).await {
                let (permit, works) = (Arc::clone(&slots).acquire_owned().await, works.clone());
                tokio::spawn(async move {
                    let _permit = permit;
                    let id = job.subject.strip_prefix("bare.job.").unwrap().to_owned();
                    let ms: u64 = serde_json::from_slice(&job.payload).unwrap();
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    let mut headers = HeaderMap::new();
                    headers.insert("Nats-Expected-Last-Subject-Sequence", "0");
                    let result = serde_json::to_vec(&ms).unwrap().into();
                    let stored = works.publish_with_headers(format!("bare.result.{id}"), headers, result).await;
                    stored.unwrap().await.unwrap();
                    job.ack().await.unwrap();
                    works.client().publish("bare.done", id.into()).await.unwrap();
                });
            }
        });
        let waiting: Arc<Mutex<HashMap<String, oneshot::Sender<()>>>> = Arc::default();
        let hints = Arc::clone(&waiting);
        let mut done = client.subscribe("bare.done").await.unwrap();
        client.flush().await.unwrap();
        tokio::spawn(async move {
            while let Some(message) = next(&mut done).await {
                let id = std::str::from_utf8(&message.payload).unwrap();
                if let Some(waiting) = hints.lock().unwrap().remove(id) {
                    let _gone = waiting.send(());
                }
            }
        });
        let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
        Self { context, waiting, run }
    }

    async fn job(&self, number: usize, ms: u64) {
        let id = format!("{}-{number}", self.run);
        let (hint, hinted) = oneshot::channel();
        self.waiting.lock().unwrap().insert(id.clone(), hint);
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id.as_str());
        let job = serde_json::to_vec(&ms).unwrap().into();
        let sent = self.context.publish_with_headers(format!("bare.job.{id}"), headers, job).await;
        sent.unwrap().await.unwrap();
        hinted.await.unwrap();
        let results = self.context.get_stream_no_info("BARE_RESULTS").await.unwrap();
        let result = results.get_last_raw_message_by_subject(&format!("bare.result.{id}")).await.unwrap();
        assert_eq!(serde_json::from_slice::<u64>(&result.payload).unwrap(), ms);
    }
}

fn summary(name: &str, jobs: usize, took: Duration, alone: &mut [Duration]) -> f64 {
    alone.sort();
    let per_second = jobs as f64 / took.as_secs_f64();
    let at = |part: usize| alone[alone.len() * part / 100];
    println!("{name:>8}: {per_second:>7.0} jobs a second; alone: median {:?}, 99 of 100 within {:?}", at(50), at(99));
    per_second
}

fn main() {
    let url = std::env::args().nth(1).expect("the address of a server, as nats://127.0.0.1:4222");
    let (jobs, alone, at_most) = (5000, 500, 64);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bare = Arc::new(tokio.block_on(Bare::new(&url, at_most)));
    let pool = Pool::nats(&url, Options::new("overhead").log(|_| {})).unwrap();
    let worker = Worker::new(pool.clone()).register::<Takes>().at_most(at_most);
    let stop = segue::CancelToken::new();
    let runs = stop.clone();
    let worker = segue::spawn(move || runs.run(|| worker.run()));
    for ms in [0, 1, 10] {
        for round in 0..3 {
            println!("-- jobs of {ms} ms, round {round}");
            let began = Instant::now();
            let mut taken = Vec::new();
            for result in pool.map((0..jobs).map(|_| Takes { ms }), at_most) {
                assert_eq!(result, Ok(ms));
            }
            let took = began.elapsed();
            for _ in 0..alone {
                let began = Instant::now();
                assert_eq!(pool.submit(Takes { ms }).take(), Ok(Ok(ms)));
                taken.push(began.elapsed());
            }
            let ours = summary("segue", jobs, took, &mut taken);

            let (began, first) = (Instant::now(), (ms as usize * 10 + round) * 1_000_000);
            tokio.block_on(async {
                let slots = Arc::new(Semaphore::new(at_most));
                let mut all = Vec::new();
                for number in 0..jobs {
                    let (permit, bare) = (Arc::clone(&slots).acquire_owned().await, Arc::clone(&bare));
                    all.push(tokio::spawn(async move {
                        let _permit = permit;
                        bare.job(first + number, ms).await;
                    }));
                }
                for one in all {
                    one.await.unwrap();
                }
            });
            let took = began.elapsed();
            let mut taken = Vec::new();
            for number in 0..alone {
                let began = Instant::now();
                tokio.block_on(bare.job(first + jobs + number, ms));
                taken.push(began.elapsed());
            }
            let theirs = summary("by hand", jobs, took, &mut taken);
            println!("   a job's overhead: {:.2}", theirs / ours);
        }
    }
    stop.ask_to_finish();
    println!("{:?}", worker.join().unwrap().unwrap());
}
