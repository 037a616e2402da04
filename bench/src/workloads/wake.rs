//! `wake`: a thread outside of a scheduler resumes a fiber or task in it, which answers. A fiber
//! waits at an `MVar`, a task or thread at a channel of capacity 1; "notify on tokio" waits at
//! tokio's `Notify`, which carries no value. The scheduler has one thread; each of the two threads
//! is bound to a CPU of its own.
//!
//! Round trips, an operation each, from before the wake-up until the answer is there:
//!
//! * *both awake*: the scheduler has another fiber, which yields all the time, and the thread spins
//!   on an atomic number for the answer. What is measured is the way into a scheduler that is busy.
//! * *both wait*: the scheduler has nothing else to do, and the thread waits at an `MVar` or
//!   channel for the answer. Whether they sleep is up to them.
//! * *the other asleep*: before each wake-up the thread lets 200 us pass, which is not timed, so
//!   that the scheduler sleeps; then it spins for the answer.
//!
//! The sender alone, an operation a wake-up, in CPU time of the thread that wakes:
//!
//! * *awake*: 64 fibers wait in a scheduler that is busy with another one; the thread wakes one
//!   after the other. The clock stops before it waits for their answers.
//! * *asleep*: one fiber, after 200 us. Reading the clock is a system call, of some 0.3 us here,
//!   which is in the figure.
//!
//! Not timed: starting scheduler, threads and fibers, and ending them. "threads" have no scheduler:
//! the fiber is a thread, and there is nothing to keep busy. So they take no part where the other
//! side is awake. Go takes part where both wait: all its goroutines are in its scheduler, and one
//! that spins keeps those that it wakes from running.

use super::channels::{
    AsyncChannel, Calls, Crossbeam, CrossfireCalls, CrossfireMany, Kanal, KanalCalls, MVar, Std, Tasks, Tokio,
};
use super::pair::bind_to_cpu;
use super::tokio_runtime;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use rustix::time::{ClockId, clock_gettime};
use smol::LocalExecutor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "wake",
    timed: "a thread resumes a fiber of a scheduler: there and back, and the waking alone",
    variants,
};

/// How long the other side has to fall asleep.
const PAUSE: Duration = Duration::from_micros(200);
/// Ends a fiber.
const END: u64 = u64::MAX;

fn variants() -> Vec<Variant> {
    let with = |name, op, workers, mode: Mode| {
        Variant::new(name, op, workers)
            .add(SEGUE, move |n| segue(mode, n))
            .add("tokio", move |n| tasks::<Tokio>(OnTokio, mode, n))
            .add("kanal on tokio", move |n| tasks::<Kanal>(OnTokio, mode, n))
            .add("kanal on smol", move |n| tasks::<Kanal>(OnSmol, mode, n))
            .add("crossfire on tokio", move |n| tasks::<CrossfireMany>(OnTokio, mode, n))
            .add("crossfire on smol", move |n| tasks::<CrossfireMany>(OnSmol, mode, n))
            .add("smol", move |n| tasks::<AsyncChannel>(OnSmol, mode, n))
    };
    let threads = |variant: Variant, mode: Mode| {
        variant
            .add("kanal, threads", move |n| threads::<KanalCalls>(mode, n))
            .add("crossfire, threads", move |n| threads::<CrossfireCalls>(mode, n))
            .add("crossbeam, threads", move |n| threads::<Crossbeam>(mode, n))
            .add("std, threads", move |n| threads::<Std>(mode, n))
    };
    let notify = |variant: Variant, mode| variant.add("notify on tokio", move |n| tasks::<Notify>(OnTokio, mode, n));
    let trip = "round trip";
    vec![
        notify(with("both awake", trip, 2, AWAKE), AWAKE),
        threads(with("both wait", trip, 2, WAIT), WAIT).add_go(&[]),
        threads(notify(with("the other asleep", trip, 2, ASLEEP), ASLEEP), ASLEEP),
        notify(with("the sender alone, the other awake", "wake-up", 1, SEND_AWAKE), SEND_AWAKE),
        threads(
            notify(with("the sender alone, the other asleep", "wake-up", 1, SEND_ASLEEP), SEND_ASLEEP),
            SEND_ASLEEP,
        ),
    ]
}

/// What distinguishes the variants.
#[derive(Clone, Copy)]
struct Mode {
    /// Another fiber keeps the scheduler busy.
    busy: bool,
    /// The other side gets time to fall asleep.
    pause: bool,
    /// The answer comes by a channel, and not by an atomic number.
    back: bool,
    /// Only the waking is timed.
    send: bool,
    fibers: u64,
}

const AWAKE: Mode = Mode { busy: true, pause: false, back: false, send: false, fibers: 1 };
const WAIT: Mode = Mode { busy: false, back: true, ..AWAKE };
const ASLEEP: Mode = Mode { busy: false, pause: true, ..AWAKE };
const SEND_AWAKE: Mode = Mode { send: true, fibers: 64, ..AWAKE };
const SEND_ASLEEP: Mode = Mode { send: true, ..ASLEEP };

impl Mode {
    /// The thread's side: wakes all, waits for all, and again. `back` takes the answer of the only
    /// fiber.
    fn drive(
        self,
        n: u64,
        answers: &AtomicU64,
        mut wake: impl FnMut(usize, u64),
        mut back: impl FnMut() -> u64,
    ) -> Span {
        bind_to_cpu(0);
        let began = Instant::now();
        let clock = || if self.send { thread_cpu_time() } else { began.elapsed() };
        let in_parts = self.send || self.pause;
        let rounds = n.div_ceil(self.fibers);
        let mut timed = Duration::ZERO;
        let mut watch = Stopwatch::start();
        // The first one shows that the other side has started.
        for round in 0..=rounds {
            if round == 1 {
                (timed, watch) = (Duration::ZERO, Stopwatch::start());
            }
            if self.pause {
                let paused = Instant::now();
                while paused.elapsed() < PAUSE {
                    std::hint::spin_loop();
                }
            }
            let started = in_parts.then(clock);
            for fiber in 0..self.fibers {
                wake(fiber as usize, round);
            }
            let sent = self.send.then(clock);
            if self.back {
                assert_eq!(back(), round);
            } else {
                while answers.load(Acquire) < (round + 1) * self.fibers {
                    std::hint::spin_loop();
                }
            }
            if let Some(started) = started {
                timed += sent.unwrap_or_else(clock) - started;
            }
        }
        let all = watch.stop(rounds * self.fibers);
        for fiber in 0..self.fibers {
            wake(fiber as usize, END);
        }
        if self.send {
            Span { cpu: timed, ..all }
        } else if self.pause {
            // As busy as in all of the time.
            Span { wall: timed, cpu: timed.mul_f64(all.cpus_busy()), ..all }
        } else {
            all
        }
    }
}

fn thread_cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Fibers or threads, which `spawn` starts, against a thread of their own.
fn calls<C: Calls>(mode: Mode, n: u64, mut spawn: impl FnMut(Box<dyn FnOnce() + Send>)) -> Span {
    let answers = Arc::new(AtomicU64::new(0));
    let (to_thread, mut back) = C::new();
    let mut to_thread = Some(to_thread).filter(|_| mode.back);
    let mut senders = Vec::new();
    for _ in 0..mode.fibers {
        let (sender, mut receiver) = C::new();
        let (answers, to_thread) = (answers.clone(), to_thread.take());
        senders.push(sender);
        spawn(Box::new(move || {
            bind_to_cpu(1);
            while let Some(number) = C::recv(&mut receiver).filter(|number| *number != END) {
                match &to_thread {
                    Some(to_thread) => assert!(C::send(to_thread, number), "it waits"),
                    None => _ = answers.fetch_add(1, Release),
                }
            }
        }));
    }
    let wake = move |fiber: usize, number| assert!(C::send(&senders[fiber], number), "it waits");
    let drive = move || mode.drive(n, &answers, wake, || C::recv(&mut back).expect("it answers"));
    thread::scope(|threads| threads.spawn(drive).join().expect("no panic"))
}

fn segue(mode: Mode, n: u64) -> Span {
    let pool = segue::runtime().workers(1).pool().expect("segue starts");
    if mode.busy {
        // It is cancelled when the pool is dropped.
        pool.spawn(|| while segue::yield_now().is_ok() {});
    }
    calls::<MVar>(mode, n, |fiber| drop(pool.spawn(fiber)))
}

fn threads<C: Calls>(mode: Mode, n: u64) -> Span {
    thread::scope(|threads| calls::<C>(mode, n, |fiber| drop(threads.spawn(fiber))))
}

/// A channel with tasks at one end and a thread at the other.
trait Mixed: Tasks<Sender: Clone> {
    /// The thread's end sends. There is room.
    fn wake(to: &mut Self::Sender, number: u64);
    /// The thread's end waits.
    fn wait(from: &mut Self::Receiver) -> u64;
}

impl Mixed for Tokio {
    fn wake(to: &mut Self::Sender, number: u64) {
        to.try_send(number).expect("there is room");
    }

    fn wait(from: &mut Self::Receiver) -> u64 {
        from.blocking_recv().expect("it answers")
    }
}

impl Mixed for Kanal {
    fn wake(to: &mut Self::Sender, number: u64) {
        to.as_sync().send(number).expect("it waits");
    }

    fn wait(from: &mut Self::Receiver) -> u64 {
        from.as_sync().recv().expect("it answers")
    }
}

impl Mixed for CrossfireMany {
    fn wake(to: &mut Self::Sender, number: u64) {
        to.try_send(number).expect("there is room");
    }

    fn wait(from: &mut Self::Receiver) -> u64 {
        // There is no lending it as a receiver for threads.
        smol::future::block_on(from.recv()).expect("it answers")
    }
}

impl Mixed for AsyncChannel {
    fn wake(to: &mut Self::Sender, number: u64) {
        to.try_send(number).expect("there is room");
    }

    fn wait(from: &mut Self::Receiver) -> u64 {
        from.recv_blocking().expect("it answers")
    }
}

/// Tokio's `Notify` with a number beside it.
struct Notify;

impl Tasks for Notify {
    type Sender = Arc<(tokio::sync::Notify, AtomicU64)>;
    type Receiver = Self::Sender;

    fn with_room(_: usize) -> (Self::Sender, Self::Receiver) {
        let both = Self::Sender::default();
        (both.clone(), both)
    }

    async fn send(to: &mut Self::Sender, number: u64) -> bool {
        Self::wake(to, number);
        true
    }

    async fn recv(from: &mut Self::Receiver) -> Option<u64> {
        from.0.notified().await;
        Some(from.1.load(Relaxed))
    }
}

impl Mixed for Notify {
    fn wake(to: &mut Self::Sender, number: u64) {
        to.1.store(number, Relaxed);
        to.0.notify_one();
    }

    fn wait(_: &mut Self::Receiver) -> u64 {
        unreachable!("a thread does not wait for it")
    }
}

/// A runtime for tasks that runs on the calling thread until they have ended; all the while another
/// yields, if it is given.
trait Host: Send + 'static {
    fn run(self, tasks: Vec<impl Future<Output = ()> + Send + 'static>, busy: Option<Arc<AtomicBool>>);
}

struct OnTokio;

impl Host for OnTokio {
    fn run(self, tasks: Vec<impl Future<Output = ()> + Send + 'static>, busy: Option<Arc<AtomicBool>>) {
        tokio_runtime(1).block_on(async {
            let tasks: Vec<_> = tasks.into_iter().map(tokio::spawn).collect();
            if let Some(busy) = busy {
                tokio::spawn(async move { give_way(&busy, tokio::task::yield_now).await });
            }
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    }
}

struct OnSmol;

impl Host for OnSmol {
    fn run(self, tasks: Vec<impl Future<Output = ()> + Send + 'static>, busy: Option<Arc<AtomicBool>>) {
        let executor = LocalExecutor::new();
        let tasks: Vec<_> = tasks.into_iter().map(|task| executor.spawn(task)).collect();
        if let Some(busy) = busy {
            executor.spawn(async move { give_way(&busy, smol::future::yield_now).await }).detach();
        }
        smol::future::block_on(executor.run(async {
            for task in tasks {
                task.await;
            }
        }));
    }
}

/// Yields as long as it is to be busy.
async fn give_way<F: Future<Output = ()>>(busy: &AtomicBool, yield_now: impl Fn() -> F) {
    while busy.load(Relaxed) {
        yield_now().await;
    }
}

/// Tasks against a thread.
fn tasks<C: Mixed>(host: impl Host, mode: Mode, n: u64) -> Span {
    let answers = Arc::new(AtomicU64::new(0));
    let (to_thread, mut back) = C::new();
    let task = |mut receiver: C::Receiver| {
        let (answers, mut to_thread) = (answers.clone(), to_thread.clone());
        async move {
            while let Some(number) = C::recv(&mut receiver).await.filter(|number| *number != END) {
                if mode.back {
                    assert!(C::send(&mut to_thread, number).await, "it waits");
                } else {
                    answers.fetch_add(1, Release);
                }
            }
        }
    };
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..mode.fibers).map(|_| C::new()).unzip();
    let tasks: Vec<_> = receivers.into_iter().map(task).collect();
    let busy = mode.busy.then(|| Arc::new(AtomicBool::new(true)));
    thread::scope(|threads| {
        let shared = busy.clone();
        threads.spawn(move || {
            bind_to_cpu(1);
            host.run(tasks, shared);
        });
        let wake = |fiber: usize, number| C::wake(&mut senders[fiber], number);
        let drive = || mode.drive(n, &answers, wake, || C::wait(&mut back));
        let span = threads.spawn(drive).join().expect("no panic");
        if let Some(busy) = busy {
            busy.store(false, Relaxed);
        }
        span
    })
}
