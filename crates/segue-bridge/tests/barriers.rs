//! The table of callbacks, of the bridges: futures that they poll and drop, jobs that run on top of
//! a wait, and what runs on the other side. `segue-sched/tests/barriers` has the rest, and
//! `common/table.rs` there says what rows, columns and cells are.

#[path = "../../segue-sched/tests/common/table.rs"]
mod table;

use ::tokio::runtime::{Handle, Runtime};
use segue::sync::promise;
use segue_bridge::{direct, direct_as, direct_on, rayon as jobs, tokio, wait};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Poll, Waker};
use table::{ActsAtDrop, Must::*, RIGHT, Row, act, fiber, poll, thread, waker_with};

const TOKIO: &str = "a future in tokio's context";

fn acts() -> u64 {
    act();
    RIGHT
}

fn runtime() -> &'static Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let new = || ::tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    RUNTIME.get_or_init(new).handle()
}

/// Acts in its first poll, and is ready at its second.
fn polls_twice() -> impl Future<Output = u64> {
    let mut polled = false;
    poll_fn(move |task| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(RIGHT);
        }
        act();
        task.waker().wake_by_ref();
        Poll::Pending
    })
}

async fn acts_at_its_end() -> u64 {
    let _acts = ActsAtDrop;
    RIGHT
}

fn polled(future: impl Future<Output = u64>) -> u64 {
    let mut future = pin!(future);
    poll(future.as_mut(), Waker::noop()).or_else(|| poll(future.as_mut(), Waker::noop())).expect("it polls twice")
}

fn pool() -> segue_sched::Pool {
    segue_sched::Runtime::new().workers(1).pool().unwrap()
}

/// Polled by a task whose waker acts when it is cloned.
fn awaited() -> u64 {
    let (resolver, promise) = promise::<u64>();
    let mut result = pin!(direct(move || *promise.wait().unwrap()));
    assert!(poll(result.as_mut(), &waker_with(true)).is_none());
    table::disarm();
    resolver.fill(RIGHT).unwrap();
    wait(result).unwrap().unwrap()
}

static ROWS: &[Row] = &[
    fiber("direct", Apart, || wait(direct(acts)).unwrap().unwrap()),
    thread("direct, on a thread", Apart, || wait(direct(acts)).unwrap().unwrap()),
    fiber("direct_as", Apart, || wait(direct_as(segue_core::Builder::new(), acts)).unwrap().unwrap()),
    fiber("direct_on", Apart, || wait(direct_on(&pool(), acts)).unwrap().unwrap()),
    thread("direct_on, on a thread", Apart, || wait(direct_on(&pool(), acts)).unwrap().unwrap()),
    thread("a waker's clone, in a poll of Direct, on a thread", Refused(""), awaited),
    fiber("wait: a poll", Captured, || wait(polls_twice()).unwrap()),
    fiber("tokio::wait: a poll", Refused(TOKIO), || tokio::wait(runtime(), polls_twice()).unwrap()),
    thread("tokio::wait: a poll, on a thread", Refused(TOKIO), || tokio::wait(runtime(), polls_twice()).unwrap()),
    fiber("tokio::wait: the drop of the future", Refused(TOKIO), || tokio::wait(runtime(), acts_at_its_end()).unwrap()),
    fiber("tokio::with: a poll", Refused(TOKIO), || polled(tokio::with(runtime(), polls_twice()))),
    thread("tokio::with: a poll, on a thread", Refused(TOKIO), || polled(tokio::with(runtime(), polls_twice()))),
    thread("tokio::with: a future that is dropped unfinished, on a thread", Refused(TOKIO), || {
        let waits = async {
            let _acts = ActsAtDrop;
            std::future::pending::<()>().await;
        };
        let mut future = Box::pin(tokio::with(runtime(), waits));
        assert!(poll(future.as_mut(), Waker::noop()).is_none());
        drop(future);
        RIGHT
    }),
    fiber("rayon::run", Apart, || jobs::run(acts).unwrap()),
    thread("rayon::run, on a thread", Apart, || jobs::run(acts).unwrap()),
    fiber("rayon::run_on", Apart, || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        jobs::run_on(&pool, acts).unwrap()
    }),
    fiber("rayon::wait_yielding: a poll", Captured, || jobs::wait_yielding(polls_twice()).unwrap()),
];

#[test]
fn what_a_bridge_calls_is_a_body_or_is_not_captured() {
    table::check(ROWS, &[]);
}

/// With the thread as a worker of rayon's. On the host with a thread for each handled computation
/// that is not the thread which they run on.
#[cfg(not(feature = "threads"))]
static JOBS: &[Row] = &[
    // A job that unwinds has panicked, also one whose continuation is dropped.
    thread("rayon::run, in a job: in place", Captured, || jobs::run(acts).unwrap_or(RIGHT)),
    thread("rayon::wait_yielding: a poll, in a job", Captured, || jobs::wait_yielding(polls_twice()).unwrap()),
    thread("rayon::wait_yielding: another job, on top of the wait", Refused("a job of rayon's"), || {
        let (resolver, promise) = promise();
        rayon::spawn(move || resolver.fill(acts()).unwrap());
        *jobs::wait_yielding(promise.wait_source()).unwrap().unwrap()
    }),
];

#[cfg(not(feature = "threads"))]
#[test]
fn what_runs_in_a_job_is_captured_without_other_jobs() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build().unwrap();
    table::check(JOBS, &["rayon::wait_yielding: another job, on top of the wait"]);
    drop(pool);
}
