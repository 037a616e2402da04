//! A task of tokio, fibers of three schedulers, a job of rayon's and a plain thread pass one MVar and one mutex around; a tenth of the waits are cancelled, and the sums agree.
//!
//! Whoever takes the baton counts it one up, puts it back, and adds one to the sum under the mutex. Some of its waits each party lets the others cancel: whoever has the baton cancels them before
//! putting it back, while they are in line. Straight-line code is cancelled by a token; a task drops the future.

use segue::sync::{MVar, Mutex, promise};
use segue::{CancelToken, Sim, runtime};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// What everybody passes around.
pub struct Ring {
    goal: u64,
    /// How often it was passed.
    baton: MVar<u64>,
    sum: Mutex<u64>,
    /// What cancels those who have asked for it.
    cancels: std::sync::Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

/// What one party did.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    /// How often it waited for the baton.
    pub waits: u64,
    /// How many of these waits were cancelled.
    pub cancelled: u64,
    /// How often it passed the baton on.
    pub passes: u64,
}

impl Tally {
    /// Whether too few of the waits were cancelled. A cancellation may come too late, and then the next wait is to make up for it.
    fn wants_cancel(&self) -> bool {
        self.cancelled * 10 < self.waits
    }
}

impl Ring {
    fn ask_to_be_cancelled(&self, cancel: impl FnOnce() + Send + 'static) {
        self.cancels.lock().unwrap().push(Box::new(cancel));
    }

    fn cancel_those_who_asked(&self) {
        let cancels = std::mem::take(&mut *self.cancels.lock().unwrap());
        cancels.into_iter().for_each(|cancel| cancel());
    }

    /// A party in straight-line code, on whatever calls this.
    fn pass(&self) -> Tally {
        let mut tally = Tally::default();
        loop {
            let taken = if tally.wants_cancel() {
                let token = CancelToken::new();
                let canceller = token.clone();
                self.ask_to_be_cancelled(move || canceller.cancel());
                token.run(|| self.baton.take())
            } else {
                self.baton.take()
            };
            tally.waits += 1;
            let Ok(passed) = taken else {
                tally.cancelled += 1;
                continue;
            };
            self.cancel_those_who_asked();
            let over = passed == self.goal;
            self.baton.put(if over { passed } else { passed + 1 }).expect("nobody cancels this");
            if over {
                return tally;
            }
            *self.sum.lock().expect("nobody cancels this") += 1;
            tally.passes += 1;
        }
    }

    /// A party as a task.
    async fn pass_as_task(&self) -> Tally {
        let mut tally = Tally::default();
        loop {
            let taken = if tally.wants_cancel() {
                let (canceller, cancelled) = promise();
                self.ask_to_be_cancelled(move || canceller.fill(()));
                tokio::select! {
                    taken = self.baton.take_source().into_future() => Some(taken),
                    _ = cancelled.wait_source().into_future() => None,
                }
            } else {
                Some(self.baton.take_source().await)
            };
            tally.waits += 1;
            let Some(passed) = taken else {
                tally.cancelled += 1;
                continue;
            };
            self.cancel_those_who_asked();
            let over = passed == self.goal;
            self.baton.put_source(if over { passed } else { passed + 1 }).await;
            if over {
                return tally;
            }
            *self.sum.lock_source().await += 1;
            tally.passes += 1;
        }
    }
}

/// Runs all parties until the baton was passed `goal` times, and returns the baton, the sum, and what each did.
pub fn round(goal: u64) -> (u64, u64, Vec<(&'static str, Tally)>) {
    let ring = Arc::new(Ring { goal, baton: MVar::empty(), sum: Mutex::new(0), cancels: Default::default() });
    let fifo = runtime().workers(1).pool_with(segue::Fifo::default).unwrap();
    let stealing = runtime().workers(2).pool().unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let party = || Arc::clone(&ring);

    let task = party();
    let task = tokio.spawn(async move { task.pass_as_task().await });
    let fiber = party();
    let on_fifo = fifo.spawn(move || fiber.pass());
    let fiber = party();
    let on_stealing = stealing.spawn(move || fiber.pass());
    let fiber = party();
    // Opened, so that what comes from elsewhere counts.
    let simulated = thread::spawn(move || Sim::new(42).open().run(|| fiber.pass()).unwrap());
    let (send, received) = std::sync::mpsc::channel();
    let job = party();
    rayon::spawn(move || send.send(job.pass()).unwrap());
    let thread = party();
    let thread = thread::spawn(move || thread.pass());

    ring.baton.put(0).expect("nobody cancels this");
    let parties = vec![
        ("task of tokio", tokio.block_on(task).unwrap()),
        ("fiber of fifo", on_fifo.join().unwrap()),
        ("fiber of stealing", on_stealing.join().unwrap()),
        ("fiber of sim", simulated.join().unwrap()),
        ("job of rayon", received.recv().unwrap()),
        ("plain thread", thread.join().unwrap()),
    ];
    let baton = ring.baton.take().expect("nobody cancels this");
    let sum = *ring.sum.lock().expect("nobody cancels this");
    (baton, sum, parties)
}

/// `round [PASSES]`
#[allow(dead_code, reason = "a test uses the rest")]
fn main() -> ExitCode {
    let goal = std::env::args().nth(1).map_or(100_000, |passes| passes.parse().expect("a number of passes"));
    let started = Instant::now();
    let (baton, sum, parties) = round(goal);
    println!("{:20} {:>8} {:>8} {:>10}", "", "passes", "waits", "cancelled");
    let mut total = Tally::default();
    for (name, Tally { waits, cancelled, passes }) in &parties {
        println!("{name:20} {passes:8} {waits:8} {cancelled:10}");
        total.waits += waits;
        total.cancelled += cancelled;
        total.passes += passes;
    }
    println!("{:20} {:8} {:8} {:10}", "all", total.passes, total.waits, total.cancelled);
    println!("the baton says {baton}, the mutex {sum}, in {:.1?}", started.elapsed());
    let agree = baton == goal && sum == goal && total.passes == goal;
    if agree { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
