//! Sorts and scans, against std's, and with comparisons that panic or are no order.

#![allow(clippy::vec_box, clippy::borrowed_box, clippy::type_complexity)] // Boxes show what is lost or doubled.

use crate::common::{everywhere_and_on_threads, pool, scaled};
use segue_sched::par::prelude::*;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Enough for several pieces on two workers.
const N: usize = scaled(50_000, 10_000);

fn shuffled(n: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..n).map(|_| random.u64(..n as u64 / 3 + 1)).collect()
}

#[test]
fn sorts_are_those_of_std() {
    let pool = pool(2);
    let check = || {
        for numbers in [
            vec![],
            vec![1],
            vec![2, 1],
            shuffled(100),
            shuffled(N),
            (0..N as u64).collect(),
            (0..N as u64).rev().collect(),
            shuffled(N).into_iter().map(|n| n % 5).collect(),
            shuffled(N).into_iter().map(|n| n.max(N as u64 / 4)).collect(),
            vec![7; N],
        ] {
            let mut expected = numbers.clone();
            expected.sort();
            let mut sorted = numbers.clone();
            sorted.par_sort();
            assert_eq!(sorted, expected);
            let mut sorted = numbers.clone();
            sorted.par_sort_unstable();
            assert_eq!(sorted, expected);
            let mut sorted = numbers;
            sorted.par_sort_unstable_by_key(|n| std::cmp::Reverse(*n));
            expected.reverse();
            assert_eq!(sorted, expected);
        }
    };
    pool.run(check).unwrap();
    check();
}

#[test]
fn equal_elements_keep_their_order_in_a_stable_sort() {
    pool(3)
        .run(|| {
            let mut pairs: Vec<(u64, usize)> = shuffled(N).into_iter().map(|n| n % 50).zip(0..).collect();
            let mut expected = pairs.clone();
            expected.sort_by_key(|pair| pair.0);
            pairs.par_sort_by_key(|pair| pair.0);
            assert_eq!(pairs, expected);
            pairs.par_sort_by(|a, b| b.0.cmp(&a.0));
            expected.sort_by_key(|pair| std::cmp::Reverse(pair.0));
            assert_eq!(pairs, expected);
        })
        .unwrap();
}

/// Elements with memory of their own: one that was lost or doubled shows when they are dropped.
fn boxes() -> Vec<Box<u64>> {
    shuffled(N).into_iter().map(Box::new).collect()
}

fn assert_same_elements(sorted: &[Box<u64>]) {
    let (mut found, mut expected) = (sorted.to_vec(), boxes());
    found.sort();
    expected.sort();
    assert!(found == expected);
}

#[test]
fn a_comparison_that_panics_loses_and_doubles_nothing() {
    let pool = pool(2);
    for at in [1, 100, N, 4 * N, 10 * N, 14 * N] {
        for stable in [true, false] {
            let (asked, mut numbers) = (AtomicUsize::new(0), boxes());
            let compare = |a: &Box<u64>, b: &Box<u64>| {
                if asked.fetch_add(1, SeqCst) == at { panic_any(at) } else { a.cmp(b) }
            };
            let sort = || if stable { numbers.par_sort_by(compare) } else { numbers.par_sort_unstable_by(compare) };
            let result = catch_unwind(AssertUnwindSafe(|| pool.run(sort)));
            assert!(result.is_err() || asked.load(SeqCst) <= at);
            assert_same_elements(&numbers);
        }
    }
}

#[test]
fn a_comparison_that_is_no_order_loses_and_doubles_nothing() {
    let pool = pool(2);
    let asked = AtomicUsize::new(0);
    let drawn = || match asked.fetch_add(1, SeqCst).wrapping_mul(0x9e37_79b9) >> 16 & 3 {
        0 => Ordering::Less,
        1 => Ordering::Equal,
        _ => Ordering::Greater,
    };
    let orders: [&(dyn Fn(&Box<u64>, &Box<u64>) -> Ordering + Sync); 4] =
        [&|_, _| Ordering::Less, &|_, _| Ordering::Greater, &|_, _| drawn(), &|a, b| (**a % 3 + 1).cmp(&(**b % 5))];
    for order in orders {
        for stable in [true, false] {
            let mut numbers = boxes();
            // std's sorts may panic then.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|| if stable { numbers.par_sort_by(order) } else { numbers.par_sort_unstable_by(order) })
            }));
            assert_same_elements(&numbers);
        }
    }
}

#[test]
fn elements_without_bytes_are_sorted() {
    pool(2)
        .run(|| {
            let mut nothing = [(); N];
            nothing.par_sort();
            nothing.par_sort_unstable();
            assert_eq!(nothing.len(), N);
        })
        .unwrap();
}

#[test]
fn scans_are_prefix_sums() {
    everywhere_and_on_threads(|| {
        for n in [0, 1, 2, 3, 5, scaled(20_000, 300)] {
            let numbers = shuffled(n);
            let mut sums = numbers.clone();
            sums.par_scan(|before, n| before + n);
            let expected = numbers.iter().scan(0, |sum, n| {
                *sum += n;
                Some(*sum)
            });
            assert!(sums.iter().copied().eq(expected));
        }
        // Associative, and not commutative.
        let mut texts: Vec<String> = (0..scaled(300, 40)).map(|n| (n % 10).to_string()).collect();
        let all = texts.concat();
        texts.par_scan(|before, text| format!("{before}{text}"));
        assert!(texts.iter().enumerate().all(|(at, text)| *text == all[..=at]));
    });
}

#[test]
fn a_scan_that_is_helped_is_the_same() {
    let pool = pool(2);
    for _ in 0..scaled(30, 3) {
        let mut sums = vec![1_u64; scaled(200_000, 20_000)];
        pool.run(|| sums.par_scan(|before, n| before + n)).unwrap();
        assert!(sums.iter().zip(1..).all(|(sum, at)| *sum == at));
    }
}

#[test]
fn a_scan_that_panics_leaves_whole_elements() {
    everywhere_and_on_threads(|| {
        let mut texts: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            texts.par_scan(|_, text| if text == "50" { panic_any(50) } else { text.clone() });
        }));
        assert!(panicked.is_err());
        assert!(texts.iter().enumerate().all(|(at, text)| *text == at.to_string()));
    });
}
