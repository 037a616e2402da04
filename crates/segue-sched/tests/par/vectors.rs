//! Elements that are moved: each is dropped once, whatever happens on the way.

use crate::common::{everywhere_and_on_threads, scaled};
use segue_sched::par::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

const N: usize = scaled(2_000, 100);

/// Counts how often it is dropped, and may panic then.
struct Tracked<'a> {
    n: usize,
    drops: &'a [AtomicUsize],
    panics: bool,
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.drops[self.n].fetch_add(1, SeqCst);
        if self.panics && !std::thread::panicking() {
            panic_any("in a drop");
        }
    }
}

fn counts() -> Vec<AtomicUsize> {
    (0..N).map(|_| AtomicUsize::new(0)).collect()
}

fn tracked<'a>(drops: &'a [AtomicUsize], panics: impl Fn(usize) -> bool) -> Vec<Tracked<'a>> {
    (0..N).map(|n| Tracked { n, drops, panics: panics(n) }).collect()
}

#[track_caller]
fn assert_each_once(drops: &[AtomicUsize]) {
    let wrong: Vec<_> = drops.iter().enumerate().filter(|(_, n)| n.load(SeqCst) != 1).collect();
    assert!(wrong.is_empty(), "dropped not once: {wrong:?}");
}

#[test]
fn a_vector_goes_in_and_comes_out() {
    everywhere_and_on_threads(|| {
        let drops = counts();
        let kept: Vec<Tracked> = tracked(&drops, |_| false).into_par_iter().map(|it| it).collect();
        assert!(kept.iter().enumerate().all(|(at, it)| it.n == at));
        assert!(drops.iter().all(|n| n.load(SeqCst) == 0));
        drop(kept);
        assert_each_once(&drops);
    });
}

#[test]
fn one_that_is_never_consumed_drops_its_elements() {
    let drops = counts();
    drop(tracked(&drops, |_| false).into_par_iter().map(|it| it.n).enumerate());
    assert_each_once(&drops);
}

#[test]
fn elements_without_partners_and_after_the_end_are_dropped() {
    everywhere_and_on_threads(|| {
        let drops = counts();
        assert_eq!(tracked(&drops, |_| false).into_par_iter().zip(0..N / 2).count(), N / 2);
        assert_each_once(&drops);
        let drops = counts();
        assert!(tracked(&drops, |_| false).into_par_iter().any(|it| it.n == N / 2));
        assert_each_once(&drops);
        let drops = counts();
        let result: Result<Vec<Tracked>, usize> = tracked(&drops, |_| false)
            .into_par_iter()
            .map(|it| if it.n == N / 3 { Err(it.n) } else { Ok(it) })
            .collect();
        assert_eq!(result.err(), Some(N / 3));
        assert_each_once(&drops);
        let drops = counts();
        let chunks: Vec<Vec<Tracked>> =
            tracked(&drops, |_| false).into_par_iter().chunks(7).filter(|c| c[0].n % 2 == 0).collect();
        drop(chunks);
        assert_each_once(&drops);
    });
}

#[test]
fn a_closure_that_panics_loses_and_doubles_nothing() {
    everywhere_and_on_threads(|| {
        for at in [0, 1, N / 2, N - 1] {
            let drops = counts();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                tracked(&drops, |_| false)
                    .into_par_iter()
                    .map(|it| if it.n == at { panic_any(at) } else { it })
                    .collect::<Vec<_>>()
            }));
            assert!(panicked.is_err());
            assert_each_once(&drops);
            let drops = counts();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                tracked(&drops, |_| false)
                    .into_par_iter()
                    .filter(|it| if it.n == at { panic_any(at) } else { true })
                    .collect::<Vec<_>>()
            }));
            assert!(panicked.is_err());
            assert_each_once(&drops);
        }
    });
}

#[test]
fn drops_that_panic_lose_and_double_nothing() {
    everywhere_and_on_threads(|| {
        // By the closure, one by one.
        let drops = counts();
        let panicked =
            catch_unwind(AssertUnwindSafe(|| tracked(&drops, |n| n == N / 2).into_par_iter().for_each(drop)));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "in a drop");
        assert_each_once(&drops);
        // By an iterator that ends early.
        let drops = counts();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            tracked(&drops, |n| n == N - 2)
                .into_par_iter()
                .map(std::mem::ManuallyDrop::new)
                .find_any(|it| it.n == 0)
                .map(|it| drops[it.n].fetch_add(1, SeqCst))
        }));
        drop(panicked);
        // What a closure has got as `ManuallyDrop` is its own: others were dropped at most once.
        assert!(drops.iter().all(|n| n.load(SeqCst) <= 1));
        // Without partners.
        let drops = counts();
        let panicked =
            catch_unwind(AssertUnwindSafe(|| tracked(&drops, |n| n == N - 2).into_par_iter().zip(0..3).count()));
        assert!(panicked.is_err());
        assert_each_once(&drops);
    });
}

#[test]
fn collecting_into_a_vector_uses_its_memory_again() {
    everywhere_and_on_threads(|| {
        let mut into: Vec<usize> = Vec::with_capacity(2 * N);
        let at = into.as_ptr();
        for _ in 0..2 {
            (0..N).into_par_iter().map(|n| n * 3).collect_into_vec(&mut into);
            assert_eq!(into, (0..N).map(|n| n * 3).collect::<Vec<_>>());
            assert_eq!(into.as_ptr(), at);
        }
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            (0..N).into_par_iter().map(|n| if n == N / 2 { panic_any(n) } else { n }).collect_into_vec(&mut into);
        }));
        assert!(panicked.is_err() && into.is_empty());
        let none: Vec<()> = (0..N).into_par_iter().map(|_| ()).collect();
        assert_eq!(none.len(), N);
    });
}
