//! Stacks that can be seen: from inside of a fiber under nested effect handlers, of a continuation,
//! of fibers that are stuck, of a worker that is busy.
//!
//! `docs/debugging.md` goes through what it prints. With the argument `spin` it is something to
//! look at for `perf` and `gdb`: a fiber that computes under a handler, and one that waits.

use segue::sched::StuckWorker;
use segue::sync::promise;
use segue::testing::Sim;
use segue_fiber::effect::{Effect, Handler, perform};
use segue_fiber::leaked_stacks;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What is the price of this?
struct Price(&'static str);

impl Effect for Price {
    type Output = u64;
}

/// What is the exchange rate?
struct Rate;

impl Effect for Rate {
    type Output = u64;
}

#[inline(never)]
fn total(items: &[&'static str]) -> u64 {
    let sum = items.iter().map(|item| perform(Price(item))).sum::<u64>();
    black_box(sum)
}

/// The total under a handler of its own for rates, which has a stack of its own.
#[inline(never)]
fn converted(items: &'static [&'static str]) -> u64 {
    Handler::new().on(|_: Rate, k| k.resume(2)).handle(move || black_box(total(items)) * perform(Rate))
}

/// A backtrace from inside: through both handlers, and the fiber that they are in.
fn from_inside() {
    let sum = segue::run(|| {
        let answer = |Price(item)| {
            if item == "tea" {
                println!(
                    "# From inside, when asked for the price of {item}\n{}",
                    std::backtrace::Backtrace::force_capture()
                );
            }
            item.len() as u64
        };
        Handler::new().answer(answer).handle(|| converted(&["salt", "tea"]))
    });
    assert_eq!(sum, 14);
}

/// Of a continuation: where the computation is that has asked, and that nobody has answered yet.
fn of_a_continuation() {
    let clause = |Price(item), k: segue_fiber::effect::Continuation<_, _>| {
        let trace = k.backtrace();
        if item == "tea" {
            println!("# A continuation that waits for the price of {item}\n{trace}");
            // The handler of rates was captured with it.
            assert_eq!(trace.stacks().len(), 2);
            assert!(trace.to_string().contains("total"));
        }
        k.resume(item.len() as u64)
    };
    assert_eq!(Handler::new().on(clause).handle(|| converted(&["salt", "tea"])), 14);
}

/// Of fibers that are stuck: in the report of a deadlock.
fn of_fibers_that_are_stuck() {
    let report = Sim::new(1).backtraces(true).run(|| {
        let (keep, never) = promise::<u64>();
        let answer = move |Price(_)| never.wait().copied().unwrap_or(0);
        let fiber = segue::Builder::new()
            .name("buyer")
            .spawn(move || Handler::new().answer(answer).handle(|| converted(&["tea"])));
        let _ = fiber.join();
        drop(keep);
    });
    println!("# Fibers that are stuck\n{}", report.expect_err("nobody resolves the promise"));
}

static STOP: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn spin() -> u64 {
    while !STOP.load(SeqCst) {
        std::hint::spin_loop();
    }
    black_box(1)
}

/// Of a worker that does not come back: the monitor's report.
fn of_a_busy_worker() {
    let stuck = |stuck: &StuckWorker| {
        println!("# A worker that is busy\n{stuck}");
        assert!(stuck.to_string().contains("spin"));
        STOP.store(true, SeqCst);
    };
    let runtime = segue::runtime().workers(1).name("shop").monitor(Duration::from_millis(50)).on_stuck(stuck);
    let body = || Handler::new().answer(|Price(_)| spin()).handle(|| converted(&["tea"]));
    runtime.run(|| segue::Builder::new().name("buyer").spawn(body).join().expect("the buyer comes to an end")).unwrap();
}

/// For `perf` and `gdb`: ten seconds of work in a fiber named "buyer", and a fiber named "idle"
/// that waits for it.
fn something_to_look_at() {
    segue::run(|| {
        let (done, until_done) = promise::<()>();
        let idle = segue::Builder::new().name("idle").spawn(move || until_done.wait().is_ok());
        let buyer = segue::Builder::new().name("buyer").spawn(|| {
            let end = Instant::now() + Duration::from_secs(10);
            while Instant::now() < end {
                Handler::new()
                    .answer(|Price(item)| (0..100_000).fold(item.len() as u64, |a, b| black_box(a ^ b)))
                    .handle(|| converted(&["salt", "tea"]));
                let _ = segue::yield_now();
            }
        });
        buyer.join().expect("the buyer comes to an end");
        done.fill(()).unwrap();
        assert!(idle.join().expect("the other has waited"));
    });
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("spin") {
        return something_to_look_at();
    }
    from_inside();
    of_a_continuation();
    of_fibers_that_are_stuck();
    of_a_busy_worker();
    assert_eq!(leaked_stacks(), 0);
}
