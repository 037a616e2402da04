//! Loops whose closures wait: others go on.

use crate::common::{Meet, Turns, everywhere, pool, scaled};
use segue_core::{CancelToken, scope, sleep, yield_now};
use segue_sched::Sim;
use segue_sched::par::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

#[test]
fn closures_that_wait_suspend_their_fibers_alone() {
    everywhere(|| {
        // A fiber beside the loop lets its elements go on, one by one.
        let (turns, done) = (Turns::new(), AtomicUsize::new(0));
        let n = scaled(200, 20);
        scope(|s| {
            s.spawn(|| {
                for _ in 0..n {
                    turns.put();
                    yield_now().unwrap();
                }
            });
            (0..n).into_par_iter().for_each(|_| {
                turns.take().unwrap();
                done.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(done.load(SeqCst), n);
    });
}

#[test]
fn elements_sleep_side_by_side() {
    // In simulated time: one after the other they would take a hundred hours.
    for seed in 0..scaled(20, 2) as u64 {
        let hour = Duration::from_secs(3600);
        Sim::new(seed)
            .run(|| {
                let began = segue_core::now();
                let slept = (0..100).into_par_iter().at_most(100).filter(|_| sleep(hour).is_ok()).count();
                assert_eq!(slept, 100);
                assert_eq!(segue_core::now() - began, hour);
            })
            .unwrap();
    }
}

#[test]
fn what_is_collected_is_in_order_though_closures_wait() {
    everywhere(|| {
        let n = scaled(300, 30);
        let numbers: Vec<usize> = (0..n)
            .into_par_iter()
            .map(|n| {
                if n % 3 == 0 {
                    yield_now().unwrap();
                }
                n
            })
            .collect();
        assert_eq!(numbers, (0..n).collect::<Vec<_>>());
    });
}

#[test]
fn an_element_may_wait_for_a_fiber_that_runs_a_loop() {
    everywhere(|| {
        let meet = Meet::new();
        scope(|s| {
            s.spawn(|| meet.put((0..10_u32).into_par_iter().sum::<u32>()));
            let got: Vec<u32> = (0..4).into_par_iter().map(|_| meet.wait().unwrap()).collect();
            assert_eq!(got, [45; 4]);
        });
    });
}

#[test]
fn a_cancellation_ends_the_waits_of_all_pieces() {
    everywhere(|| {
        let (token, waiting) = (CancelToken::new(), AtomicUsize::new(0));
        let n = scaled(50, 10);
        scope(|s| {
            s.spawn(|| {
                while waiting.load(SeqCst) < n {
                    yield_now().unwrap();
                }
                token.cancel();
            });
            let never = Meet::<()>::new();
            let cancelled = token.run(|| {
                (0..n)
                    .into_par_iter()
                    .at_most(n)
                    .filter(|_| {
                        waiting.fetch_add(1, SeqCst);
                        never.wait().is_err()
                    })
                    .count()
            });
            assert_eq!(cancelled, n);
        });
    });
}

/// How many closures have been called and have not returned, and the most of them at once.
#[derive(Default)]
struct UnderWay {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl UnderWay {
    /// An element that gives up its turn this often, and more often the more others there are.
    fn element(&self, yields: usize) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        for _ in 0..yields {
            yield_now().unwrap();
        }
        self.now.fetch_sub(1, SeqCst);
    }

    fn most(&self) -> usize {
        assert_eq!(self.now.load(SeqCst), 0);
        self.most.load(SeqCst)
    }
}

#[test]
fn no_more_elements_are_under_way_than_the_loop_says_and_all_have_their_turn() {
    everywhere(|| {
        let n = scaled(400, 40);
        for bound in [1, 2, 7, n, usize::MAX] {
            let (under_way, done) = (UnderWay::default(), AtomicUsize::new(0));
            // They come back in an order of their own.
            let element = |n: usize| {
                under_way.element(n * 7 % 5);
                done.fetch_add(1, SeqCst);
                n
            };
            let numbers: Vec<usize> = (0..n).into_par_iter().at_most(bound).map(element).collect();
            assert!(numbers.into_iter().eq(0..n));
            assert_eq!(done.into_inner(), n);
            assert!(under_way.most() <= bound, "{} of {bound}", under_way.most());
        }
    });
}

#[test]
fn sixteen_elements_for_each_worker_are_under_way_unless_the_loop_says_it() {
    for workers in [1, 2] {
        let under_way = UnderWay::default();
        let loops = || (0..200).into_par_iter().for_each(|_| under_way.element(100));
        segue_sched::Runtime::new().workers(workers).run(loops).unwrap();
        let most = under_way.most();
        assert!(most <= 16 * workers && (workers > 1 || most == 16), "{most} with {workers} workers");
    }
}

#[test]
fn the_bound_is_the_loops_wherever_it_stands() {
    let one = segue_sched::Runtime::new().workers(1);
    let check = |name: &str, run: &dyn Fn(&UnderWay)| {
        let under_way = UnderWay::default();
        run(&under_way);
        assert_eq!(under_way.most(), 3, "{name}");
    };
    let all = || (0..50).into_par_iter();
    one.run(|| {
        check("before", &|u| all().at_most(3).map(|_| u.element(9)).for_each(drop));
        check("behind", &|u| all().map(|_| u.element(9)).at_most(3).for_each(drop));
        check("the least counts", &|u| all().at_most(3).map(|_| u.element(9)).at_most(5).for_each(drop));
        check("enumerate", &|u| all().at_most(3).enumerate().for_each(|_| u.element(9)));
        check("zip", &|u| all().zip(all().at_most(3)).for_each(|_| u.element(9)));
        check("chunks", &|u| all().at_most(3).chunks(2).enumerate().for_each(|_| u.element(9)));
        check("filter", &|u| {
            let none = all().at_most(3).filter(|_| {
                u.element(9);
                false
            });
            assert_eq!(none.count(), 0);
        });
        check("filter_map", &|u| {
            let some = all().at_most(3).filter_map(|n| {
                u.element(9);
                Some(n)
            });
            assert_eq!(some.count(), 50);
        });
        check("fold", &|u| _ = all().at_most(3).fold(|| (), |(), _| u.element(9)).count());
        check("copied", &|u| [1; 50].par_iter().at_most(3).copied().enumerate().for_each(|_| u.element(9)));
        check("a result", &|u| {
            let elements = all().at_most(3).map(|n| {
                u.element(9);
                Ok(n)
            });
            let ok: Result<Vec<i32>, ()> = elements.collect();
            assert_eq!(ok.unwrap().len(), 50);
        });
    })
    .unwrap();
}

#[test]
fn loops_and_joins_inside_of_bounded_loops_end() {
    everywhere(|| {
        let done = AtomicUsize::new(0);
        let n = scaled(20, 5);
        (0..n).into_par_iter().at_most(2).for_each(|_| {
            yield_now().unwrap();
            (0..n).into_par_iter().at_most(2).for_each(|_| {
                segue_sched::join(|| yield_now().unwrap(), || yield_now().unwrap());
                done.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(done.into_inner(), n * n);
    });
}

#[test]
fn a_panic_or_a_first_find_leaves_no_loop_waiting_for_a_seat() {
    everywhere(|| {
        for at in [0, 3, 17] {
            let looped = std::panic::catch_unwind(|| {
                (0..scaled(60, 20)).into_par_iter().at_most(2).for_each(|n| {
                    yield_now().unwrap();
                    assert_ne!(n, at, "planted");
                });
            });
            assert!(looped.is_err());
            let found = (0..scaled(60, 20)).into_par_iter().at_most(2).find_any(|n| {
                yield_now().unwrap();
                *n == at
            });
            assert_eq!(found, Some(at));
        }
    });
}

#[test]
fn a_loop_with_one_seat_keeps_few_stacks() {
    let config = segue_sched::StackConfig::new().max_slots(4);
    let under_way = UnderWay::default();
    let loops = || (0..scaled(300, 30)).into_par_iter().at_most(1).for_each(|_| under_way.element(2));
    segue_sched::Runtime::new().workers(1).stacks(config).run(loops).unwrap();
    assert_eq!(under_way.most(), 1);
}

/// For so long at most the tests compute.
const LIMIT: Duration = Duration::from_secs(20);

/// Computes until `done`, by elements of some microseconds.
fn compute_until(done: &AtomicBool) {
    let began = Instant::now();
    let computes = |n: u64| {
        let product = (0..1_000_u64).fold(n, |product, n| std::hint::black_box(product.wrapping_mul(n | 1)));
        (product, done.load(SeqCst) || began.elapsed() > LIMIT)
    };
    let found = (0..u64::MAX / 2).into_par_iter().map(computes).find_any(|(_, is_over)| *is_over);
    assert!(found.is_some() && done.load(SeqCst), "a loop kept the worker from a fiber");
}

#[test]
fn a_loop_that_computes_lets_in_what_has_started_on_its_worker() {
    for workers in [1, 2] {
        // A fiber that is ready.
        pool(workers)
            .run(|| {
                let done = AtomicBool::new(false);
                scope(|s| {
                    let ready = s.spawn_local(|| {
                        yield_now().unwrap();
                        done.store(true, SeqCst);
                    });
                    yield_now().unwrap();
                    compute_until(&done);
                    ready.join().unwrap();
                });
            })
            .unwrap();
        // A fiber whose timer comes up meanwhile.
        pool(workers)
            .run(|| {
                let done = AtomicBool::new(false);
                scope(|s| {
                    let sleeps = s.spawn_local(|| {
                        sleep(Duration::from_millis(2)).unwrap();
                        done.store(true, SeqCst);
                    });
                    yield_now().unwrap();
                    compute_until(&done);
                    sleeps.join().unwrap();
                });
            })
            .unwrap();
        // The same, of a caller that was cancelled.
        pool(workers)
            .run(|| {
                let (done, token) = (AtomicBool::new(false), CancelToken::new());
                scope(|s| {
                    let sleeps = s.spawn_local(|| {
                        sleep(Duration::from_millis(2)).unwrap();
                        done.store(true, SeqCst);
                    });
                    yield_now().unwrap();
                    token.cancel();
                    token.run(|| compute_until(&done));
                    sleeps.join().unwrap();
                });
            })
            .unwrap();
    }
}

#[test]
fn a_scan_that_computes_lets_in_what_has_started_on_its_worker() {
    pool(1)
        .run(|| {
            let done = AtomicBool::new(false);
            scope(|s| {
                let sleeps = s.spawn_local(|| {
                    sleep(Duration::from_millis(1)).unwrap();
                    done.store(true, SeqCst);
                });
                yield_now().unwrap();
                let began = Instant::now();
                while !done.load(SeqCst) {
                    assert!(began.elapsed() < LIMIT, "scans kept the worker from a fiber");
                    let mut numbers = vec![1_u64; 1 << 20];
                    numbers.par_scan(|a, b| std::hint::black_box(a.wrapping_add(*b)));
                }
                sleeps.join().unwrap();
            });
        })
        .unwrap();
}
