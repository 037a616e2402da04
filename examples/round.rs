//! A task of tokio, fibers of three schedulers, a job of rayon's and a plain thread pass one MVar
//! and one mutex around; a tenth of the waits are cancelled, and the sums agree.
//!
//! Whoever takes the baton counts it one up, puts it back, and adds one to the sum under the mutex;
//! nobody passes it to himself. A tenth of its waits each party lets the others cancel: whoever
//! takes the baton next cancels them, in the queue. Straight-line code is cancelled by a token; a
//! task drops the future.

use segue::sync::{Barrier, MVar, Mutex, promise};
use segue::testing::Sim;
use segue::{CancelToken, runtime, yield_now};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

const PARTIES: usize = 6;

/// How often it was passed, and by whom last.
#[derive(Clone, Copy)]
struct Baton {
    passed: u64,
    by: usize,
}

/// What everybody passes around.
pub struct Ring {
    goal: u64,
    /// All start together.
    start: Barrier,
    baton: MVar<Baton>,
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
    fn cancel(&mut self) {
        self.waits += 1;
        self.cancelled += 1;
    }

    fn pass(&mut self) {
        self.waits += 1;
        self.passes += 1;
    }

    /// Whether too few of the waits were cancelled. A cancellation may come too late, and then the
    /// next wait is to make up for it.
    fn wants_cancel(&self) -> bool {
        self.cancelled * 10 < self.waits
    }
}

impl Ring {
    fn ask_to_be_cancelled(&self, cancel: impl FnOnce() + Send + 'static) {
        self.cancels.lock().unwrap().push(Box::new(cancel));
    }

    /// A party in straight-line code, on whatever calls this.
    fn pass(&self, me: usize) -> Tally {
        let mut tally = Tally::default();
        self.start.wait().expect("nobody cancels this");
        loop {
            let taken = if tally.wants_cancel() {
                let token = CancelToken::new();
                let canceller = token.clone();
                self.ask_to_be_cancelled(move || canceller.cancel());
                token.run(|| self.baton.take())
            } else {
                self.baton.take()
            };
            match taken.map(|baton| self.next(baton, me)) {
                Err(_cancelled) => tally.cancel(),
                Ok((baton, next)) => {
                    self.baton.put(baton).expect("nobody cancels this");
                    match next {
                        Next::End => return tally,
                        Next::Yield => yield_now().expect("nobody cancels this"),
                        Next::Add => {
                            *self.sum.lock().expect("nobody cancels this") += 1;
                            tally.pass();
                        }
                    }
                }
            }
        }
    }

    /// A party as a task.
    async fn pass_as_task(&self, me: usize) -> Tally {
        let mut tally = Tally::default();
        self.start.wait_source().await;
        loop {
            let taken = if tally.wants_cancel() {
                let (canceller, cancelled) = promise();
                // It comes too late for a task that has the baton.
                self.ask_to_be_cancelled(move || _ = canceller.fill(()));
                tokio::select! {
                    taken = self.baton.take_source().into_future() => Some(taken),
                    _ = cancelled.wait_source().into_future() => None,
                }
            } else {
                Some(self.baton.take_source().await)
            };
            match taken.map(|baton| self.next(baton, me)) {
                None => tally.cancel(),
                Some((baton, next)) => {
                    self.baton.put_source(baton).await;
                    match next {
                        Next::End => return tally,
                        Next::Yield => tokio::task::yield_now().await,
                        Next::Add => {
                            *self.sum.lock_source().await += 1;
                            tally.pass();
                        }
                    }
                }
            }
        }
    }

    /// What `me`, who has the baton, makes of it, and does after putting it back.
    fn next(&self, baton: Baton, me: usize) -> (Baton, Next) {
        // They are in line, or will be.
        let cancels = std::mem::take(&mut *self.cancels.lock().unwrap());
        cancels.into_iter().for_each(|cancel| cancel());
        match baton {
            Baton { passed, .. } if passed == self.goal => (baton, Next::End),
            Baton { by, .. } if by == me => (baton, Next::Yield),
            Baton { passed, .. } => (Baton { passed: passed + 1, by: me }, Next::Add),
        }
    }
}

/// What a party does after it has put the baton back.
enum Next {
    /// It was passed often enough.
    End,
    /// Nobody else has had it, so nothing was passed: lets others come.
    Yield,
    /// Adds one to the sum.
    Add,
}

/// Runs all parties until the baton was passed `goal` times, and returns the baton, the sum, and
/// what each did.
pub fn round(goal: u64) -> (u64, u64, Vec<(&'static str, Tally)>) {
    let ring = Arc::new(Ring {
        goal,
        start: Barrier::new(PARTIES),
        baton: MVar::new(Baton { passed: 0, by: PARTIES }),
        sum: Mutex::new(0),
        cancels: Default::default(),
    });
    let fifo = runtime().workers(1).pool_with(segue::sched::Fifo::default).unwrap();
    let stealing = runtime().workers(2).pool().unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    let party = || Arc::clone(&ring);

    let task = party();
    let task = tokio.spawn(async move { task.pass_as_task(0).await });
    let fiber = party();
    let on_fifo = fifo.spawn(move || fiber.pass(1));
    let fiber = party();
    let on_stealing = stealing.spawn(move || fiber.pass(2));
    let fiber = party();
    // Opened, so that what comes from elsewhere counts.
    let simulated = thread::spawn(move || Sim::new(42).open().run(|| fiber.pass(3)).unwrap());
    let (send, received) = std::sync::mpsc::channel();
    let job = party();
    rayon::spawn(move || send.send(job.pass(4)).unwrap());
    let thread = party();
    let thread = thread::spawn(move || thread.pass(5));

    let parties = vec![
        ("task of tokio", tokio.block_on(task).unwrap()),
        ("fiber of fifo", on_fifo.join().unwrap()),
        ("fiber of stealing", on_stealing.join().unwrap()),
        ("fiber of sim", simulated.join().unwrap()),
        ("job of rayon", received.recv().unwrap()),
        ("plain thread", thread.join().unwrap()),
    ];
    let baton = ring.baton.take().expect("nobody cancels this").passed;
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
