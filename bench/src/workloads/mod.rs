//! The workloads, and what several of them share.
//!
//! To add a contestant to a workload, write a function `fn name(.., n: u64) -> Span` in its file
//! that does about `n` operations between `Stopwatch::start()` and `stop(operations)`, and name it
//! in `variants` at the top of that file. Segue's entries are `.add(SEGUE, ..)`, first in each
//! list: every table then ends with the ratio to the best rival. Where Segue has several entries,
//! the others' names begin with `segue,`; each gets its ratio.
//!
//! To add a policy under which Segue takes part, add a line to the table in `policies.rs`.

mod beside;
mod bridge;
mod cancellation;
mod chameneos;
mod channel;
mod channels;
mod connections;
mod crew;
mod crowd;
mod echo;
mod effect_suite;
mod effects;
mod exceptions;
mod files;
mod forced;
mod fork_join;
mod generators;
mod handler_overhead;
mod http;
mod http_loop;
mod k_nucleotide;
mod mandelbrot;
mod mutex;
mod mvar;
mod pair;
mod par_enter;
mod par_reduce;
mod par_sort;
mod parse;
mod ping_pong;
mod policies;
mod policy_overhead;
mod primes_sieve;
mod push_crates;
mod race;
mod rayon_patched;
mod scope_spawn;
mod select;
mod skynet;
mod spawn_join;
mod spawn_process;
mod spectral_norm;
mod spread;
mod stm;
mod switch;
mod timers;
mod unblock;
mod wake;
mod r#yield;

pub use policies::is_policy;

use crate::measure::Workload;
use async_executor::{LocalExecutor, StaticLocalExecutor};

/// All of them, in the order of `list`.
pub const ALL: &[Workload] = &[
    switch::WORKLOAD,
    spawn_join::WORKLOAD,
    scope_spawn::WORKLOAD,
    r#yield::WORKLOAD,
    r#yield::COLD,
    ping_pong::WORKLOAD,
    mvar::WORKLOAD,
    channel::WORKLOAD,
    select::WORKLOAD,
    race::WORKLOAD,
    stm::WORKLOAD,
    mutex::WORKLOAD,
    connections::WORKLOAD,
    forced::WORKLOAD,
    cancellation::WORKLOAD,
    bridge::WORKLOAD,
    fork_join::WORKLOAD,
    par_enter::WORKLOAD,
    par_reduce::WORKLOAD,
    par_sort::WORKLOAD,
    rayon_patched::WORKLOAD,
    skynet::WORKLOAD,
    k_nucleotide::WORKLOAD,
    mandelbrot::WORKLOAD,
    spectral_norm::WORKLOAD,
    chameneos::WORKLOAD,
    primes_sieve::WORKLOAD,
    wake::WORKLOAD,
    spread::WORKLOAD,
    timers::WORKLOAD,
    policy_overhead::WORKLOAD,
    effects::WORKLOAD,
    effect_suite::WORKLOAD,
    generators::WORKLOAD,
    push_crates::WORKLOAD,
    parse::HTTP,
    parse::JSON,
    parse::CSV,
    parse::RESP,
    handler_overhead::WORKLOAD,
    exceptions::WORKLOAD,
    http::WORKLOAD,
    http_loop::WORKLOAD,
    echo::WORKLOAD,
    beside::WORKLOAD,
    spawn_process::WORKLOAD,
    files::WORKLOAD,
    unblock::WORKLOAD,
];

/// Runs `main` as the first fiber of a runtime with this many workers, of which the caller is one.
fn segue_run<T>(workers: usize, main: impl FnOnce() -> T) -> T {
    segue::runtime().workers(workers).run(main).expect("segue starts")
}

/// This thread's executor of smol's. The leaked kind is the faster one, since it keeps no list of
/// its tasks.
fn smol_executor() -> &'static StaticLocalExecutor {
    thread_local! {
        static EXECUTOR: &'static StaticLocalExecutor = LocalExecutor::new().leak();
    }
    EXECUTOR.with(|executor| *executor)
}

/// Calls `main` while this many threads run smol's executor.
fn smol_threads<T>(workers: usize, executor: &smol::Executor<'_>, main: impl FnOnce() -> T) -> T {
    let (end, ended) = smol::channel::bounded::<()>(1);
    std::thread::scope(|threads| {
        for _ in 0..workers {
            threads.spawn(|| smol::future::block_on(executor.run(ended.recv())));
        }
        let result = main();
        drop(end);
        result
    })
}

/// A tokio runtime with one worker, which is the thread that calls `block_on`, or with several
/// threads.
fn tokio_runtime(workers: usize) -> tokio::runtime::Runtime {
    let built = match workers {
        1 => tokio::runtime::Builder::new_current_thread().build(),
        n => tokio::runtime::Builder::new_multi_thread().worker_threads(n).build(),
    };
    built.expect("tokio starts")
}

/// Runs `main` as a coroutine of may with this many workers, and waits for it. May's workers are
/// set up once per process and never end, so all its contestants run apart.
fn may_run<T: Send + 'static>(workers: usize, main: impl FnOnce() -> T + Send + 'static) -> T {
    may::config().set_workers(workers);
    may::go!(main).join().expect("a contestant does not panic")
}
