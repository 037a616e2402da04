//! What the tests of this crate share: every scheduler there is, a box to meet at, and programs
//! that are expected to die.
#![allow(dead_code)] // Each test file uses its part.

#[path = "../../../../examples/gangs.rs"]
pub mod gangs;

use gangs::Gangs;
use segue_conformance::this_program;
use segue_core::{Cancelled, WaitQueue, WaitsFor};
use segue_sched::{ByDeadline, ByPriority, Fair, Fifo, Hierarchical, Policy, Pool, RoundRobin, Runtime, Sim, Stealing};
use std::fmt;
use std::io::Read;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Whether fibers are OS threads, of which there can be fewer and which are slower.
pub const STAND_IN: bool = matches!(segue_sched::host(), segue_sched::Host::Threads);

/// `full`, or less where fibers are threads, every step is interpreted, or the tests are built with
/// `SEGUE_SMALL` in the environment, as for an emulator.
pub const fn scaled(full: usize, stand_in: usize) -> usize {
    if STAND_IN || cfg!(miri) || option_env!("SEGUE_SMALL").is_some() { stand_in } else { full }
}

/// Runs `body` as the first fiber of every scheduler. What is printed names the one that it failed
/// on.
#[track_caller]
pub fn everywhere(body: impl Fn() + Send + Sync) {
    simulated(&body);
    on_real_schedulers(body);
}

/// Compiled once, whatever the closures of a test program.
#[track_caller]
fn simulated(body: &(dyn Fn() + Send + Sync)) {
    for seed in 0..scaled(20, 4) as u64 {
        println!("on the simulator with seed {seed}");
        Sim::new(seed).run(body).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

/// As [`everywhere`], without the simulator: for bodies that wait for other threads or for the real
/// clock.
#[track_caller]
pub fn on_real_schedulers(body: impl Fn() + Send + Sync) {
    really(&body);
}

/// Compiled once, whatever the closures of a test program.
#[track_caller]
fn really(body: &(dyn Fn() + Send + Sync)) {
    for workers in [1, 2] {
        println!("on {workers} workers, first in first out");
        Runtime::new().workers(workers).run_with(Fifo::default, body).unwrap();
        println!("on {workers} workers that steal");
        Runtime::new().workers(workers).run(body).unwrap();
        println!("in a pool of {workers}");
        pool(workers).run(body).unwrap();
    }
    for (name, make) in other_policies() {
        println!("on 2 workers, {name}");
        Runtime::new().workers(2).run_with(make, body).unwrap();
    }
}

/// Makes the policy of one worker.
type MakePolicy = Box<dyn Fn() -> Box<dyn Policy> + Send + Sync>;

/// The policies that ship, but for first in first out and stealing; and for last in first out,
/// under which, as it says, who becomes ready over and over keeps others waiting.
fn other_policies() -> [(&'static str, MakePolicy); 6] {
    fn make<P: Policy>(policy: impl Fn() -> P + Send + Sync + 'static) -> MakePolicy {
        Box::new(move || Box::new(policy()))
    }
    let gangs = Gangs::new();
    let both = || Hierarchical::new().child(1, Stealing::default()).child(1, Fair::default());
    [
        ("round robin", make(RoundRobin::default)),
        ("by priority", make(ByPriority::strict)),
        ("by deadline", make(ByDeadline::default)),
        ("fair shares", make(Fair::default)),
        ("a hierarchy", make(both)),
        ("gangs", make(move || gangs.policy())),
    ]
}

/// As [`everywhere`], and on a plain thread, where a spawn starts another.
#[track_caller]
pub fn everywhere_and_on_threads(body: impl Fn() + Send + Sync) {
    println!("on plain threads");
    body();
    everywhere(body);
}

/// A pool whose workers steal.
pub fn pool(workers: usize) -> Pool {
    Runtime::new().workers(workers).pool().unwrap()
}

/// Room for one value, which one side puts and any number of others wait for.
pub struct Meet<T>(WaitQueue<Option<T>, T>);

impl<T: Clone> Meet<T> {
    pub fn new() -> Self {
        Self(WaitQueue::new(None))
    }

    pub fn put(&self, value: T) {
        let mut guard = self.0.lock();
        *guard.state() = Some(value);
        guard.notify_all(0);
    }

    #[track_caller]
    pub fn wait(&self) -> Result<T, Cancelled> {
        let take = |state: &mut Option<T>| state.clone().expect("it is there");
        self.0.wait(WaitsFor::new("a meeting"), Option::is_some, take)
    }
}

impl<T> fmt::Debug for Meet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meet")
    }
}

/// Turns that one gives and another takes.
pub struct Turns(WaitQueue<usize>);

impl Turns {
    pub fn new() -> Self {
        Self(WaitQueue::new(0))
    }

    pub fn put(&self) {
        let mut guard = self.0.lock();
        *guard.state() += 1;
        guard.notify_all(0);
    }

    pub fn take(&self) -> Result<(), Cancelled> {
        self.0.wait(WaitsFor::new("a turn"), |turns| *turns > 0, |turns| *turns -= 1)
    }

    pub async fn taken(&self) {
        let turn = self.0.source(WaitsFor::new("a turn"), |turns| *turns > 0, |turns| *turns -= 1);
        segue_core::Waitable::new(turn).await;
    }

    pub fn is_awaited(&self) -> bool {
        self.0.lock().has_waiters()
    }
}

/// What is counted when it is dropped.
pub struct Counted<'a>(pub &'a std::sync::atomic::AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// How a child process ended.
#[derive(Debug)]
pub struct End {
    /// `None` if it hung and was killed.
    pub status: Option<ExitStatus>,
    pub stderr: String,
}

impl End {
    /// Whether it ended by `abort`, and said `message`.
    #[track_caller]
    pub fn assert_aborted(&self, message: &str) {
        #[cfg(unix)]
        let aborted = self.status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status)) == Some(6);
        #[cfg(not(unix))]
        let aborted = self.status.is_some_and(|status| !status.success());
        assert!(aborted, "the process was to abort: {self:#?}");
        assert!(self.stderr.contains(message), "the message was to contain {message:?}: {self:#?}");
    }

    /// Whether the test in it passed.
    #[track_caller]
    pub fn assert_passed(&self) {
        assert!(self.status.is_some_and(|status| status.success()), "{self:#?}");
    }
}

const CHILD: &str = "SEGUE_TEST_CHILD";

/// Runs the calling test, whose function is `test`, once more in a process of its own, where `body`
/// is all that it does.
pub fn in_child(test: &str, body: impl FnOnce()) -> End {
    if std::env::var_os(CHILD).is_some() {
        body();
        std::process::exit(0);
    }
    // Test threads are named by the whole path.
    let thread = std::thread::current();
    let test = thread.name().filter(|path| path.ends_with(test)).unwrap_or(test);
    let mut command = this_program();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").env("RUST_BACKTRACE", "0");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stderr.take().unwrap();
    let (send, receive) = mpsc::channel();
    // The pipe is at its end when the child is.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = send.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    });
    // Only what hangs takes so long, also on a machine that has other things to do.
    let ended = receive.recv_timeout(Duration::from_secs(300)).is_ok();
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    End { status: ended.then_some(status), stderr: reader.join().unwrap() }
}

/// How many threads this process has.
pub fn threads() -> usize {
    // But for the one that watches the scopes of a debug build, which stays.
    let watches = |path: &std::path::Path| std::fs::read(path.join("comm")).is_ok_and(|name| name == b"segue-scopes\n");
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    tasks.filter(|task| !watches(task)).count()
}

/// How many descriptors this process has open.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
