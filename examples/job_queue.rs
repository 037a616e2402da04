//! A job queue that loses nothing: so many workers, retries with pauses, and an orderly end. At a
//! shutdown the workers take no more jobs, and those that run have a grace. A job that is cut goes
//! back into the store, with those that nobody has taken, for the next run. The time is simulated:
//! so it takes none, and the checks are exact.

use segue::cancel::finishing_source;
use segue::channel::{self, Receiver};
use segue::concurrent::Retry;
use segue::testing::Sim;
use segue::{Builder, Cancelled, now, scope, select, sleep};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use std::{iter, mem};

const JOBS: u32 = 60;
const WORKERS: usize = 4;
const ATTEMPTS: u32 = 3;
const OPEN: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_secs(2);

/// What is kept between two runs; elsewhere a table, or files. Nobody waits with its lock.
#[derive(Debug, Default)]
struct Store {
    waiting: Vec<u32>,
    done: Vec<u32>,
    given_up: Vec<u32>,
    /// How often a job was cut.
    cut: usize,
}

/// Why an attempt has failed.
enum Failed {
    /// What passes by itself.
    Busy,
    Cut,
}

/// One attempt. Each third job is done at once; some take long, some need a second attempt, and one
/// in twenty never succeeds.
fn attempt(job: u32, number: u32) -> Result<(), Failed> {
    let takes = if job % 15 == 7 { 30_000 } else { job % 3 * 400 };
    sleep(Duration::from_millis(takes.into())).map_err(|_cancelled| Failed::Cut)?;
    match job % 20 {
        9 => Err(Failed::Busy),
        3 if number == 1 => Err(Failed::Busy),
        _ => Ok(()),
    }
}

/// How many jobs are under way, and the most that there were.
#[derive(Default)]
struct Gauge([AtomicUsize; 2]);

impl Gauge {
    fn during<T>(&self, f: impl FnOnce() -> T) -> T {
        let [running, most] = &self.0;
        most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
        let result = f();
        running.fetch_sub(1, Relaxed);
        result
    }
}

fn work(inbox: &Receiver<u32>, store: &Mutex<Store>, gauge: &Gauge) -> Result<(), Cancelled> {
    let retry = Retry::new(ATTEMPTS).first_pause(Duration::from_millis(200));
    loop {
        let next = select! {
            biased;
            () = finishing_source() => return Ok(()),
            job = inbox.recv_source() => job,
        }?;
        let Ok(job) = next else { return Ok(()) }; // There are no more.
        let tried = gauge.during(|| retry.run_while(|error| matches!(error, Failed::Busy), |n| attempt(job, n)));
        // From here on nothing waits: so nothing comes between the end of a job and its record.
        let mut store = store.lock().expect("nobody panics with it");
        match tried {
            Ok(()) => store.done.push(job),
            // The attempt was cut, or the pause after it.
            Err(gave_up) if matches!(gave_up.error, Failed::Cut) || gave_up.cancelled.is_some() => {
                store.waiting.push(job);
                store.cut += 1;
            }
            Err(_) => store.given_up.push(job),
        }
    }
}

/// Works on what waits: until that is done, or, with a limit, until then and for the grace.
fn run(store: &Mutex<Store>, gauge: &Gauge, limit: Option<Duration>) {
    let (jobs, inbox) = channel::unbounded();
    let waiting = mem::take(&mut store.lock().unwrap().waiting);
    waiting.into_iter().for_each(|job| jobs.try_send(job).expect("there is room"));
    drop(jobs);
    scope(|s| {
        let work = || work(&inbox, store, gauge);
        let worker = |n| Builder::new().name(format!("worker {n}")).within(s).spawn(work);
        let workers: Vec<_> = (0..WORKERS).map(worker).collect();
        if let Some(limit) = limit {
            sleep(limit).expect("nobody cancels the queue");
            s.cancel_soft(GRACE); // Elsewhere by a signal: see the crawler.
        }
        // A worker that is idle when the grace is over has nothing to give back.
        workers.into_iter().for_each(|worker| drop(worker.join().expect("a worker does not panic")));
    });
    let left = iter::from_fn(|| inbox.try_recv().ok());
    store.lock().unwrap().waiting.extend(left);
}

fn main() {
    for seed in 0..20 {
        let simulated = Sim::new(seed).run(|| {
            let store = Mutex::new(Store { waiting: (0..JOBS).collect(), ..Store::default() });
            let (gauge, begun) = (Gauge::default(), now());
            run(&store, &gauge, Some(OPEN));
            assert_eq!(now() - begun, OPEN + GRACE, "a job that takes long was cut when the grace was over");
            let (done, left) = store.lock().map(|store| (store.done.len(), store.waiting.len())).unwrap();
            run(&store, &gauge, None);
            let Store { waiting, done: mut all, mut given_up, cut } = store.into_inner().unwrap();
            assert!(waiting.is_empty() && (1..=WORKERS).contains(&cut));
            assert_eq!(given_up.len() as u32, JOBS / 20);
            all.append(&mut given_up);
            all.sort_unstable();
            assert!(all.into_iter().eq(0..JOBS), "each job once, and none is lost");
            assert_eq!(gauge.0.map(AtomicUsize::into_inner), [0, WORKERS]);
            (done, cut, left)
        });
        let (done, cut, left) = simulated.expect("no deadlock");
        println!("seed {seed}: {done} jobs done, {cut} cut, {left} left to the next run, which did the rest");
    }
}
