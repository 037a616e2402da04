//! What the tests of this crate share: every kind of host that something can run on, and futures to
//! wait for.
//!
//! A *side* of a test is given twice: as a closure in straight-line code, which waits, and as a
//! future, which awaits. [`Host::spawn`] runs the form that is native to the host. Sides meet
//! through what they capture, usually an `Arc` of a structure.
#![allow(dead_code)] // Each test file uses its part.

use segue::sync::Notify;
use segue_sched::{Fifo, Pool, Runtime, Sim};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};

/// Something that a side can run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Fibers of one worker, first in, first out.
    Fifo,
    /// Fibers of two workers that steal.
    Stealing,
    /// Fibers of two simulators that other threads take part in, in turn.
    Sim,
    /// Plain threads.
    Threads,
    /// Tasks of tokio's current-thread runtime.
    TokioCurrent,
    /// Tasks of tokio's multi-threaded runtime, with two workers.
    TokioMulti,
    /// Tasks of smol's global executor.
    Smol,
    /// Jobs of a rayon pool. It has eight workers, since a job that waits parks one.
    Rayon,
}

/// One side of a test, in both forms.
pub struct Side {
    pub direct: Box<dyn FnOnce() + Send>,
    pub task: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Side {
    pub fn new(direct: impl FnOnce() + Send + 'static, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { direct: Box::new(direct), task: Box::pin(task) }
    }
}

/// A side that runs. [`join`](Running::join) it: a panic of the side is raised there.
#[must_use = "a side that nobody joins may fail unseen"]
pub struct Running {
    host: Host,
    ended: mpsc::Receiver<std::thread::Result<()>>,
}

impl Running {
    /// Blocks the calling thread until the side has ended.
    #[track_caller]
    pub fn join(self) {
        match self.ended.recv() {
            Ok(Ok(())) => {}
            Ok(Err(payload)) => std::panic::resume_unwind(payload),
            Err(_) => panic!("{} dropped a side unrun", self.host),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Host {
    pub const ALL: [Self; 8] = [
        Self::Fifo,
        Self::Stealing,
        Self::Sim,
        Self::Threads,
        Self::TokioCurrent,
        Self::TokioMulti,
        Self::Smol,
        Self::Rayon,
    ];

    /// All ordered pairs.
    pub fn pairs() -> impl Iterator<Item = (Self, Self)> {
        Self::ALL.into_iter().flat_map(|one| Self::ALL.into_iter().map(move |other| (one, other)))
    }

    /// Whether the host runs futures, and so a side's task.
    pub fn is_async(self) -> bool {
        matches!(self, Self::TokioCurrent | Self::TokioMulti | Self::Smol)
    }

    /// Runs one form of a side on this host, whichever is native to it.
    pub fn spawn(self, side: Side) -> Running {
        if self.is_async() { self.run_async(side.task) } else { self.run_direct(side.direct) }
    }

    /// Runs a closure on this host.
    ///
    /// # Panics
    /// If the host runs futures.
    pub fn run_direct(self, body: impl FnOnce() + Send + 'static) -> Running {
        let (report, ended) = mpsc::channel();
        let body = move || {
            // Whoever joins may have given up.
            let _ = report.send(std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)));
        };
        match self {
            Self::Fifo => drop(fifo().spawn(body)),
            Self::Stealing => drop(stealing().spawn(body)),
            Self::Sim => simulator().spawn(body),
            Self::Threads => drop(std::thread::spawn(body)),
            Self::Rayon => rayon_pool().spawn(body),
            _ => panic!("{self} runs futures"),
        }
        Running { host: self, ended }
    }

    /// Runs a future on this host.
    ///
    /// # Panics
    /// If the host runs closures.
    pub fn run_async(self, task: impl Future<Output = ()> + Send + 'static) -> Running {
        let (report, ended) = mpsc::channel();
        let task = async move {
            let mut task = std::pin::pin!(task);
            let outcome = poll_fn(|cx| {
                let poll = || task.as_mut().poll(cx);
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)) {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                    Err(payload) => Poll::Ready(Err(payload)),
                }
            });
            let _ = report.send(outcome.await);
        };
        match self {
            Self::TokioCurrent => drop(tokio_current().spawn(task)),
            Self::TokioMulti => drop(tokio_multi().spawn(task)),
            Self::Smol => smol::spawn(task).detach(),
            _ => panic!("{self} runs closures"),
        }
        Running { host: self, ended }
    }
}

/// A simulator that other threads take part in, on a thread of its own for as long as the process
/// lives.
#[derive(Default)]
struct Simulator {
    jobs: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    more: Notify,
}

impl Simulator {
    fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.lock().unwrap().push(Box::new(job));
        self.more.notify_one();
    }

    fn run(&self) {
        loop {
            let jobs = std::mem::take(&mut *self.jobs.lock().unwrap());
            jobs.into_iter().for_each(|job| drop(segue_core::spawn(job)));
            self.more.wait().unwrap();
        }
    }
}

/// Two simulators, in turn, so that two sides that follow each other are in different ones.
fn simulator() -> &'static Simulator {
    static SIMULATORS: OnceLock<[Simulator; 2]> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    static RUN: Once = Once::new();
    let simulators = SIMULATORS.get_or_init(Default::default);
    RUN.call_once(|| {
        for (seed, simulator) in (0..).zip(simulators) {
            std::thread::spawn(move || Sim::new(seed).open().run(|| simulator.run()));
        }
    });
    &simulators[NEXT.fetch_add(1, SeqCst) % 2]
}

pub fn fifo() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Runtime::new().workers(1).name("fifo").pool_with(Fifo::default).unwrap())
}

pub fn stealing() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Runtime::new().workers(2).name("stealing").pool().unwrap())
}

pub fn tokio_multi() -> &'static tokio::runtime::Handle {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    RUNTIME.get_or_init(build).handle()
}

/// A current-thread runtime, driven by a thread of its own for as long as the process lives.
pub fn tokio_current() -> &'static tokio::runtime::Handle {
    static HANDLE: OnceLock<tokio::runtime::Handle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        handle
    })
}

pub fn rayon_pool() -> &'static rayon::ThreadPool {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap())
}

/// A flag that is set once, and a future of it that keeps a waker as libraries do: in a mutex,
/// replaced at each poll.
#[derive(Clone, Debug, Default)]
pub struct Flag(Arc<Mutex<(bool, Option<Waker>)>>);

impl Flag {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets it and wakes whoever polled last.
    pub fn set(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether somebody has left a waker.
    pub fn is_awaited(&self) -> bool {
        self.0.lock().unwrap().1.is_some()
    }
}

impl Future for Flag {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        let before = state.1.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }
}

/// A waker that counts.
#[derive(Debug, Default)]
pub struct CountingWaker(pub std::sync::atomic::AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Is counted when it is dropped.
#[derive(Debug)]
pub struct Counted(pub Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}
