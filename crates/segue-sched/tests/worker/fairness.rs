//! Nobody starves: fibers that never have to wait give up their turn, and drivers and timers are
//! looked after however busy the worker is. Bounds are counted in operations and turns, not in
//! time.

use crate::common::{everywhere, scaled};
use segue_core::scheduling::{Park, Unpark, WaitPark};
use segue_core::{WaitQueue, WaitsFor, admit, scope, sleep, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Sim};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How many operations of one kind a fiber can do before another has run. `operation` never has to
/// wait.
#[track_caller]
fn operations_in_a_turn(operation: impl Fn()) -> usize {
    let ran = Arc::new(AtomicBool::new(false));
    let other = spawn({
        let ran = Arc::clone(&ran);
        move || ran.store(true, SeqCst)
    });
    let mut count = 0;
    while !ran.load(SeqCst) {
        operation();
        count += 1;
        assert!(count < 1_000_000, "the other fiber starves");
    }
    other.join().unwrap();
    count
}

/// A policy that steals takes a started fiber at every other turn, so the same one may have two
/// turns in a row.
const BOUND: usize = 2 * 128 + 1;

/// On one worker, where nobody else could run the other fiber.
fn on_one_worker(body: impl Fn() + Send + Sync) {
    Runtime::new().workers(1).run(&body).unwrap();
    Runtime::new().workers(1).run_with(Fifo::default, &body).unwrap();
}

#[test]
fn waits_that_need_not_wait_end_the_turn() {
    on_one_worker(|| {
        let queue = WaitQueue::<u32, u32>::new(1);
        let wait = || queue.wait(WaitsFor::new("what is there"), |_| true, |n| *n).map(drop).unwrap();
        assert!(operations_in_a_turn(wait) <= BOUND);
        assert!(operations_in_a_turn(|| admit().unwrap()) <= BOUND);
        assert!(operations_in_a_turn(|| segue_core::wait_future(std::future::ready(())).unwrap()) <= BOUND);
    });
}

#[test]
fn a_turn_has_as_many_operations_as_it_says() {
    let first_in_first_out = Runtime::new().workers(1).run_with(Fifo::default, || {
        yield_now().unwrap();
        assert_eq!(operations_in_a_turn(|| admit().unwrap()), 129);
        // A wait begins a new count, and so does a yield.
        for new_turn in [|| sleep(Duration::from_millis(2)).unwrap(), || yield_now().unwrap()] {
            (0..100).for_each(|_| admit().unwrap());
            new_turn();
            assert_eq!(operations_in_a_turn(|| admit().unwrap()), 129);
        }
    });
    first_in_first_out.unwrap();
}

#[test]
fn a_fiber_that_must_not_suspend_is_not_made_to_yield() {
    on_one_worker(|| {
        let ran = Arc::new(AtomicBool::new(false));
        let queue = WaitQueue::<u32, u32>::new(1);
        struct Busy<'a>(&'a WaitQueue<u32, u32>, &'a AtomicBool);
        impl Drop for Busy<'_> {
            fn drop(&mut self) {
                for _ in 0..1000 {
                    self.0.wait(WaitsFor::new("what is there"), |_| true, |n| *n).unwrap();
                }
                assert!(!self.1.load(SeqCst), "a panicking fiber was suspended");
            }
        }
        let other = spawn({
            let ran = Arc::clone(&ran);
            move || ran.store(true, SeqCst)
        });
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _busy = Busy(&queue, &ran);
            std::panic::panic_any(1_u8);
        }));
        assert!(panicked.is_err());
        other.join().unwrap();
    });
}

#[test]
fn one_that_is_cancelled_while_it_was_made_to_yield_does_not_begin() {
    let first_in_first_out = Runtime::new().workers(1).run_with(Fifo::default, || {
        let token = segue_core::CancelToken::new();
        yield_now().unwrap();
        let canceller = spawn({
            let token = token.clone();
            move || token.cancel()
        });
        let done = token.run(|| (0..1000).take_while(|_| admit().is_ok()).count());
        assert_eq!(done, 128);
        canceller.join().unwrap();
    });
    first_in_first_out.unwrap();
}

#[test]
fn chatty_fibers_take_turns_everywhere() {
    everywhere(|| {
        let queue = WaitQueue::<usize, usize>::new(0);
        let (fibers, each) = (scaled(20, 4), 1000);
        scope(|s| {
            for _ in 0..fibers {
                s.spawn(|| {
                    for _ in 0..each {
                        let add = |n: &mut usize| {
                            *n += 1;
                            *n
                        };
                        queue.wait(WaitsFor::new("nothing"), |_| true, add).unwrap();
                    }
                });
            }
        });
        assert_eq!(*queue.lock().state(), fibers * each);
    });
}

/// A park that counts its polls.
struct Counting {
    inner: WaitPark,
    polls: Arc<AtomicUsize>,
}

impl Park for Counting {
    fn unparker(&self) -> Arc<dyn Unpark> {
        self.inner.unparker()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        self.inner.park(timeout);
    }

    fn poll(&mut self) {
        self.polls.fetch_add(1, SeqCst);
    }
}

/// Runs `body` on one worker whose park counts its polls, with a look at their number.
fn counting(body: impl FnOnce(&dyn Fn() -> usize)) {
    let polls = Arc::new(AtomicUsize::new(0));
    let park = || Ok(Counting { inner: WaitPark::new(), polls: Arc::clone(&polls) });
    Runtime::new().workers(1).park(park).run_with(Fifo::default, || body(&|| polls.load(SeqCst))).unwrap();
}

/// Computes for a while. Not a sleep: nothing is decided by how long it takes, except what is
/// measured.
fn compute(time: Duration) {
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn the_driver_is_polled_within_a_number_of_turns_however_short_they_are() {
    counting(|polls| {
        for _ in 0..20 {
            let before = polls();
            let turns = (1..=10_000).find(|_| {
                yield_now().unwrap();
                polls() > before
            });
            assert!(turns.expect("the driver is polled") <= 512);
        }
    });
}

#[test]
fn the_longer_the_turns_the_fewer_between_polls() {
    counting(|polls| {
        let turn = || {
            compute(Duration::from_millis(1));
            yield_now().unwrap();
        };
        // It learns how long turns are now: two windows may still be wider, the first one as wide
        // as short turns have made it.
        let before = polls();
        while polls() < before + 3 {
            turn();
        }
        let before = polls();
        (0..20).for_each(|_| turn());
        assert!(polls() - before >= 19, "a poll at each turn of a millisecond, but {} of 20", polls() - before);
    });
}

#[test]
fn a_timer_is_served_while_a_thousand_fibers_chat() {
    let turns = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            scope(|s| {
                for _ in 0..scaled(1000, 50) {
                    s.spawn(|| {
                        while !stop.load(SeqCst) {
                            admit().unwrap();
                            turns.fetch_add(1, SeqCst);
                        }
                    });
                }
                // Without looks at the timers in between this would never return.
                sleep(Duration::from_millis(5)).unwrap();
                stop.store(true, SeqCst);
            });
        })
        .unwrap();
    assert!(turns.load(SeqCst) > 0);
}

#[test]
fn mail_that_keeps_coming_does_not_keep_timers_from_firing() {
    // The worker finds mail whenever it looks for some before it sleeps; a thread sees to that.
    let numbers = Arc::new(WaitQueue::<u32, u32>::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let (queue, stop) = (Arc::clone(&numbers), Arc::clone(&stop));
        move || {
            while !stop.load(SeqCst) {
                let mut queue = queue.lock();
                *queue.state() += 1;
                queue.notify_all(0);
            }
        }
    });
    Runtime::new()
        .workers(1)
        .run(|| {
            let reader = spawn({
                let queue = Arc::clone(&numbers);
                move || while queue.wait(WaitsFor::new("a number"), |n| *n > 0, std::mem::take).is_ok() {}
            });
            sleep(Duration::from_millis(5)).unwrap();
            stop.store(true, SeqCst);
            drop(reader);
        })
        .unwrap();
    sender.join().unwrap();
}

#[test]
fn on_the_simulator_turns_don_t_depend_on_the_clock() {
    let trace = |seed| {
        let order = std::sync::Mutex::new(Vec::new());
        Sim::new(seed)
            .run(|| {
                scope(|s| {
                    for n in 0..5_usize {
                        let order = &order;
                        s.spawn(move || {
                            for _ in 0..400 {
                                admit().unwrap();
                            }
                            order.lock().unwrap().push(n);
                        });
                    }
                });
            })
            .unwrap();
        order.into_inner().unwrap()
    };
    assert_eq!(trace(7), trace(7));
}
