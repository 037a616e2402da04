//! Parallel loops, sorts and scans over elements that own memory, with panics on the way: small,
//! for Miri and the sanitizers, with the feature `threads`. Panics here do not say so: a backtrace
//! takes Miri ten seconds.

#![allow(clippy::vec_box, clippy::borrowed_box)] // Boxes show what is lost or doubled.

use segue_core::yield_now;
use segue_sched::Runtime;
use segue_sched::par::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A few blocks, and under Miri several pieces of a sort on each worker.
const N: usize = 40;

fn boxes() -> Vec<Box<usize>> {
    (0..N).map(|n| Box::new(n * 17 % N)).collect()
}

/// As idle workers want the elements, some wait now and then, and so expose the rest.
fn waits_now_and_then(n: usize) {
    if n % 13 == 5 {
        yield_now().unwrap();
    }
}

/// One worker is enough where closures wait: what comes after the block goes on in another fiber.
fn on_workers<T: Send>(workers: usize, f: impl FnOnce() -> T + Send) {
    Runtime::new().workers(workers).run(f).unwrap();
}

#[test]
fn elements_are_moved_through_loops() {
    on_workers(1, || {
        let same: Vec<Box<usize>> = boxes()
            .into_par_iter()
            .map(|it| {
                waits_now_and_then(*it);
                it
            })
            .collect();
        assert_eq!(same, boxes());
        let mut into = vec![Box::new(7)];
        boxes().into_par_iter().zip(boxes()).map(|(a, b)| Box::new(*a + *b)).collect_into_vec(&mut into);
        assert!(into.iter().zip(boxes()).all(|(sum, n)| **sum == 2 * *n));
        let even: Vec<Box<usize>> = boxes().into_par_iter().filter(|it| **it % 2 == 0).collect();
        assert_eq!(even.len(), N / 2);
        let chunks: Vec<Vec<Box<usize>>> = boxes().into_par_iter().chunks(7).collect();
        assert_eq!(chunks.concat(), boxes());
        // Without partners, and after the end.
        assert_eq!(boxes().into_par_iter().zip(0..N / 3).count(), N / 3);
        assert!(boxes().into_par_iter().any(|it| *it == N / 2));
        let failed: Result<Vec<_>, Box<usize>> =
            boxes().into_par_iter().map(|it| if *it == N / 2 { Err(it) } else { Ok(it) }).collect();
        assert_eq!(failed, Err(Box::new(N / 2)));
    });
}

#[test]
fn elements_are_dropped_once_where_a_closure_panics() {
    on_workers(1, || {
        let map = |it: Box<usize>| {
            waits_now_and_then(*it);
            if *it == N / 2 { resume_unwind(Box::new("halfway")) } else { it }
        };
        let collected = catch_unwind(|| boxes().into_par_iter().map(map).collect::<Vec<_>>());
        assert_eq!(*collected.unwrap_err().downcast::<&str>().unwrap(), "halfway");
        let filtered = catch_unwind(|| boxes().into_par_iter().map(map).filter(|_| true).collect::<Vec<_>>());
        assert_eq!(*filtered.unwrap_err().downcast::<&str>().unwrap(), "halfway");
    });
}

#[test]
fn slices_are_written_in_pieces() {
    on_workers(2, || {
        let mut numbers = boxes();
        numbers.par_iter_mut().enumerate().for_each(|(at, it)| {
            waits_now_and_then(at);
            **it = at;
        });
        numbers.par_chunks_mut(7).for_each(|chunk| chunk.reverse());
        assert_eq!(numbers.par_iter().map(|it| **it).sum::<usize>(), N * (N - 1) / 2);
        let mut texts: Vec<String> = (0..N / 3).map(|n| (n % 10).to_string()).collect();
        let all = texts.concat();
        texts.par_scan(|before, text| {
            waits_now_and_then(before.len());
            format!("{before}{text}")
        });
        assert!(texts.iter().enumerate().all(|(at, text)| *text == all[..=at]));
    });
}

/// Sorts with comparisons, the one of this number of which panics.
fn sort_boxes(stable: bool, panics_at: usize) {
    let (asked, mut sorted) = (AtomicUsize::new(0), boxes());
    let compare = |a: &Box<usize>, b: &Box<usize>| {
        if asked.fetch_add(1, SeqCst) == panics_at { resume_unwind(Box::new(panics_at)) } else { a.cmp(b) }
    };
    let done = catch_unwind(AssertUnwindSafe(|| {
        if stable { sorted.par_sort_by(compare) } else { sorted.par_sort_unstable_by(compare) }
    }));
    assert_eq!(done.is_ok(), asked.into_inner() <= panics_at);
    assert!(done.is_err() || sorted.is_sorted());
    sorted.sort();
    assert!(sorted.iter().enumerate().all(|(at, it)| **it == at));
}

#[test]
fn a_stable_sort_loses_and_doubles_nothing_where_a_comparison_panics() {
    on_workers(2, || [5 * N, usize::MAX].map(|at| sort_boxes(true, at)));
}

#[test]
fn an_unstable_sort_loses_and_doubles_nothing_where_a_comparison_panics() {
    on_workers(2, || [5 * N, usize::MAX].map(|at| sort_boxes(false, at)));
}
