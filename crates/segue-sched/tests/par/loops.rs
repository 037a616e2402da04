//! What loops compute, on every scheduler and on plain threads: the same as std's iterators.

use crate::common::{everywhere_and_on_threads, on_real_schedulers, pool, scaled};
use segue_core::{CancelToken, check};
use segue_sched::par::prelude::*;
use segue_sched::{Plain, blocking_here, join_context};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::current;

/// How many elements.
const N: usize = scaled(5_000, 200);

#[test]
fn ranges_of_all_kinds() {
    everywhere_and_on_threads(|| {
        let n = N as u64;
        assert_eq!((0..n).into_par_iter().sum::<u64>(), (0..n).sum());
        assert_eq!((1..=n).into_par_iter().map(u128::from).sum::<u128>(), (1..=u128::from(n)).sum());
        assert_eq!((i8::MIN..=i8::MAX).into_par_iter().map(i64::from).sum::<i64>(), -128);
        assert_eq!((u8::MIN..=u8::MAX).into_par_iter().count(), 256);
        assert_eq!((-100..100_i32).into_par_iter().min(), Some(-100));
        assert_eq!((i64::MIN..i64::MIN + 3).into_par_iter().max(), Some(i64::MIN + 2));
        assert_eq!((u64::MAX - 3..=u64::MAX).into_par_iter().collect::<Vec<_>>().len(), 4);
        let (less, none) = (5, 3);
        assert_eq!((less..none).into_par_iter().count(), 0);
        assert_eq!((less..=none).into_par_iter().count(), 0);
    });
}

#[test]
fn a_range_with_more_elements_than_can_be_counted_is_refused() {
    for counted in [
        catch_unwind(|| (0..=u64::MAX).into_par_iter()).is_err(),
        catch_unwind(|| (0..u128::MAX).into_par_iter()).is_err(),
        catch_unwind(|| (i128::MIN..=i128::MAX).into_par_iter()).is_err(),
    ] {
        assert!(counted);
    }
    // One that just fits is ended by the first element.
    assert!((0..u64::MAX).into_par_iter().any(|_| true));
    assert!((i64::MIN..i64::MAX).into_par_iter().any(|_| true));
}

#[test]
fn slices_by_reference_and_by_chunks() {
    everywhere_and_on_threads(|| {
        let mut numbers: Vec<usize> = (0..N).collect();
        numbers.par_iter_mut().enumerate().for_each(|(at, n)| *n += at);
        assert!(numbers.iter().enumerate().all(|(at, n)| *n == 2 * at));
        let sums: Vec<usize> = numbers.par_chunks(7).map(|chunk| chunk.iter().sum()).collect();
        assert_eq!(sums, numbers.chunks(7).map(|chunk| chunk.iter().sum()).collect::<Vec<usize>>());
        numbers.par_chunks_mut(7).enumerate().for_each(|(at, chunk)| chunk.fill(at));
        assert!(numbers.iter().enumerate().all(|(at, n)| *n == at / 7));
        assert_eq!(numbers.par_chunks(usize::MAX).count(), 1);
        assert_eq!([0_u8; 0].par_chunks(1).count(), 0);
    });
}

#[test]
fn adapters_do_as_those_of_std() {
    everywhere_and_on_threads(|| {
        let numbers: Vec<u32> = (0..N as u32).collect();
        let par: Vec<(usize, (u32, u32))> =
            numbers.par_iter().copied().zip(numbers.par_iter().map(|n| n * 2)).enumerate().collect();
        let std: Vec<_> = numbers.iter().copied().zip(numbers.iter().map(|n| n * 2)).enumerate().collect();
        assert_eq!(par, std);
        let chunks: Vec<Vec<u32>> = numbers.clone().into_par_iter().chunks(9).collect();
        assert_eq!(chunks, numbers.chunks(9).map(<[u32]>::to_vec).collect::<Vec<_>>());
        let odd: Vec<u32> = numbers.par_iter().cloned().filter(|n| n % 2 == 1).collect();
        assert_eq!(odd, numbers.iter().copied().filter(|n| n % 2 == 1).collect::<Vec<_>>());
        let halves: Vec<u32> = numbers.par_iter().filter_map(|n| n.is_multiple_of(2).then_some(n / 2)).collect();
        assert_eq!(halves, (0..(N as u32).div_ceil(2)).collect::<Vec<_>>());
        assert_eq!((0..3).into_par_iter().zip(&[1, 2, 3, 4, 5]).count(), 3);
    });
}

#[test]
fn what_is_put_together_keeps_the_order_of_the_elements() {
    everywhere_and_on_threads(|| {
        let all = || (0..N).into_par_iter();
        let expected: Vec<usize> = (0..N).collect();
        let reduced = all().map(|n| vec![n]).reduce(Vec::new, |mut a, b| {
            a.extend(b);
            a
        });
        assert_eq!(reduced, expected);
        let with = all().map(|n| vec![n]).reduce_with(|mut a, b| {
            a.extend(b);
            a
        });
        assert_eq!(with, Some(expected.clone()));
        let push = |mut list: Vec<usize>, n| {
            list.push(n);
            list
        };
        let folded: Vec<Vec<usize>> = all().fold(Vec::new, push).collect();
        assert_eq!(folded.concat(), expected);
        assert_eq!((0..0).into_par_iter().reduce_with(|a: i32, b| a + b), None);
        assert_eq!((1..=10_u64).into_par_iter().product::<u64>(), 3_628_800);
    });
}

#[test]
fn extremes_are_the_same_as_those_of_std() {
    everywhere_and_on_threads(|| {
        let pairs: Vec<(usize, usize)> = (0..N).map(|n| (n % 10, n)).collect();
        let by = |a: &&(usize, usize), b: &&(usize, usize)| a.0.cmp(&b.0);
        assert_eq!(pairs.par_iter().min_by(by), pairs.iter().min_by(by));
        assert_eq!(pairs.par_iter().max_by(by), pairs.iter().max_by(by));
        assert_eq!(pairs.par_iter().min_by_key(|it| it.0), pairs.iter().min_by_key(|it| it.0));
        assert_eq!(pairs.par_iter().max_by_key(|it| it.0), pairs.iter().max_by_key(|it| it.0));
    });
}

#[test]
fn searches_end_early_and_find_what_is_there() {
    everywhere_and_on_threads(|| {
        let asked = AtomicUsize::new(0);
        let first = (0..usize::MAX).into_par_iter().find_any(|n| {
            asked.fetch_add(1, SeqCst);
            n % 64 == 63
        });
        assert_eq!(first.map(|n| n % 64), Some(63));
        assert!(!(0..N).into_par_iter().any(|n| n == N));
        assert!((0..N).into_par_iter().all(|n| n < N));
        assert!(!(0..N).into_par_iter().all(|n| n != N - 1));
        assert_eq!((0..N).into_par_iter().filter(|n| n % 2 == 0).find_any(|n| n % 2 == 1), None);
    });
}

#[test]
fn the_first_error_ends_a_loop() {
    everywhere_and_on_threads(|| {
        let all: Result<Vec<usize>, ()> = (0..N).into_par_iter().map(Ok).collect();
        assert_eq!(all, Ok((0..N).collect()));
        let called = AtomicUsize::new(0);
        let none: Result<Vec<usize>, usize> = (0..usize::MAX)
            .into_par_iter()
            .map(|n| {
                called.fetch_add(1, SeqCst);
                if n == 100 { Err(n) } else { Ok(n) }
            })
            .collect();
        assert_eq!(none, Err(100));
        let some: Option<Vec<usize>> = (0..N).into_par_iter().map(|n| (n != N / 2).then_some(n)).collect();
        assert_eq!(some, None);
        assert_eq!((0..N).into_par_iter().try_for_each(|n| if n < N { Ok(()) } else { Err(n) }), Ok(()));
    });
}

#[test]
fn a_panic_comes_out_when_no_closure_runs_any_more() {
    everywhere_and_on_threads(|| {
        let running = AtomicUsize::new(0);
        for at in [0, 1, N / 2, N - 1] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                (0..N).into_par_iter().for_each(|n| {
                    running.fetch_add(1, SeqCst);
                    let _ends = Ends(&running);
                    if n == at {
                        panic_any(at);
                    }
                });
            }));
            assert_eq!(*panicked.unwrap_err().downcast::<usize>().unwrap(), at);
            assert_eq!(running.load(SeqCst), 0);
        }
    });
}

/// Counts one less.
struct Ends<'a>(&'a AtomicUsize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_cancelled_caller_runs_its_loop_and_closures_see_it() {
    everywhere_and_on_threads(|| {
        let token = CancelToken::new();
        token.cancel();
        let (seen, ends_early) = token.run(|| {
            let seen = (0..N).into_par_iter().filter(|_| check().is_err()).count();
            (seen, (0..N).into_par_iter().try_for_each(|_| check()))
        });
        assert_eq!(seen, N);
        assert!(ends_early.is_err());
    });
}

#[test]
fn loops_nest() {
    everywhere_and_on_threads(|| {
        let rows = scaled(50, 10);
        let sum: usize =
            (0..rows).into_par_iter().map(|row| (0..row).into_par_iter().map(|n| n * row).sum::<usize>()).sum();
        assert_eq!(sum, (0..rows).map(|row| (0..row).map(|n| n * row).sum::<usize>()).sum());
    });
}

#[test]
fn two_elements_are_run_by_two_workers_at_once() {
    let pool = pool(2);
    for _ in 0..scaled(50, 5) {
        let begun = AtomicUsize::new(0);
        pool.run(|| {
            // The others, which are many, are split off before the first block that takes long.
            (0..100).into_par_iter().for_each(|_| {
                begun.fetch_add(1, SeqCst);
                // A fork in a closure is a place where the loop's rest is given, too.
                while begun.load(SeqCst) < 2 {
                    segue_sched::join(|| (), || ());
                    std::thread::yield_now();
                }
            });
        })
        .unwrap();
        assert_eq!(begun.load(SeqCst), 100);
    }
}

#[test]
fn on_other_schedulers_and_on_threads_that_are_taken_a_loop_runs_too() {
    assert_eq!(Plain::run(|| (0..N).into_par_iter().sum::<usize>()), (0..N).sum());
    on_real_schedulers(|| {
        assert_eq!(blocking_here(|| (0..N).into_par_iter().sum::<usize>()), (0..N).sum());
    });
}

#[test]
fn halves_are_told_whether_they_were_taken() {
    everywhere_and_on_threads(|| {
        let here = current().id();
        for _ in 0..scaled(100, 10) {
            let (a, (taken, there)) = join_context(|a| a.migrated(), |b| (b.migrated(), current().id()));
            assert!(!a);
            // Where fibers are threads, the thread says nothing.
            assert!(crate::common::STAND_IN || taken == (there != here));
        }
    });
    let pool = pool(2);
    let taken = pool.run(|| {
        let begun = AtomicUsize::new(0);
        let (_, taken) = join_context(
            |_| {
                while begun.load(SeqCst) == 0 {
                    segue_sched::join(|| (), || ());
                    std::thread::yield_now();
                }
            },
            |b| {
                begun.store(1, SeqCst);
                b.migrated()
            },
        );
        taken
    });
    assert_eq!(taken, Ok(true));
}

#[test]
fn chunks_of_nothing_are_refused() {
    assert!(catch_unwind(|| [1].par_chunks(0).count()).is_err());
    assert!(catch_unwind(|| [1].par_chunks_mut(0).count()).is_err());
    assert!(catch_unwind(|| (0..1).into_par_iter().chunks(0).count()).is_err());
}
