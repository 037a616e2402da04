//! Urgent requests beside ten thousand computations, under three policies: how long until a request
//! starts.
//!
//! A pool of one worker has all the computations queued. Every 10 milliseconds a thread outside of
//! it hands in a request, and the time until that starts is taken. With priorities it waits for the
//! computation that is under way. Under the other two it waits for all that came before, as what
//! comes from outside is started in the order in which it came. At the end the program checks that
//! it was so.

use segue::Builder;
use segue::sched::{self, ByPriority, Fifo, Policy, Priority, Stealing};
use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{io, thread};

const COMPUTATIONS: usize = 10_000;
const REQUESTS: u32 = 50;
const EVERY: Duration = Duration::from_millis(10);
/// Steps of a computation; without optimisations a step takes ten times as long.
const STEPS: u64 = if cfg!(debug_assertions) { 6_000 } else { 60_000 };

/// Some tens of microseconds of work.
fn compute() -> u64 {
    (0..black_box(STEPS)).fold(1, |sum: u64, n| black_box(sum.wrapping_mul(31).wrapping_add(n)))
}

/// How long requests wait under a policy, from the shortest to the longest.
fn delays<P: Policy>(policy: impl Fn() -> P + Send + Sync + 'static) -> io::Result<Vec<Duration>> {
    let pool = sched::Runtime::new().workers(1).pool_with(policy)?;
    let computations: Vec<_> = (0..COMPUTATIONS).map(|_| pool.spawn(compute)).collect();
    let start = Instant::now();
    let requests: Vec<_> = (1..=REQUESTS)
        .map(|n| {
            thread::sleep((start + EVERY * n).saturating_duration_since(Instant::now()));
            let handed_in = Instant::now();
            Builder::new().attribute(Priority(1)).on(&pool).spawn(move || handed_in.elapsed())
        })
        .collect();
    let mut delays: Vec<_> = requests.into_iter().map(|request| request.join().expect("it ends well")).collect();
    computations.into_iter().for_each(|computation| drop(black_box(computation.join())));
    delays.sort();
    Ok(delays)
}

fn main() -> io::Result<()> {
    let table = [
        ("priority", delays(ByPriority::strict)?),
        ("fifo", delays(Fifo::default)?),
        ("stealing", delays(Stealing::default)?),
    ];
    let percentile = |delays: &[Duration], p: usize| delays[(delays.len() * p / 100).min(delays.len() - 1)];
    println!("{:<10} {:>12} {:>12} {:>12}", "policy", "p50", "p99", "longest");
    for (name, delays) in &table {
        let [p50, p99, longest] = [50, 99, 100].map(|p| format!("{:.1?}", percentile(delays, p)));
        println!("{name:<10} {p50:>12} {p99:>12} {longest:>12}");
    }
    let [urgent, others @ ..] = table.map(|(_, delays)| percentile(&delays, 99));
    assert!(
        others.iter().all(|other| urgent * 5 < *other),
        "urgent requests were to wait less than a fifth of the time"
    );
    Ok(())
}
