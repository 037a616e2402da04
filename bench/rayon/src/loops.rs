//! Programs of one loop each, by rayon's `par_iter`. Used by `main`.

use crate::Program;
use rayon::prelude::*;
use std::hint::black_box;

const LEN: u64 = 1_000_000;

/// Elements of a short loop.
const SHORT: usize = 1000;

/// The program of this name, with the number of elements that it goes through.
pub fn program(name: &str) -> Option<(u64, Program)> {
    let numbers: Vec<u64> = (0..LEN).collect();
    let shuffled: Vec<u64> = numbers.iter().map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let program: Program = match name {
        "sum" => {
            let expected = numbers.iter().map(|n| mixed(*n)).fold(0, u64::wrapping_add);
            Box::new(move || assert_eq!(sum(&numbers), expected))
        }
        "short" => {
            let expected = numbers.iter().map(|n| mixed(*n)).fold(0, u64::wrapping_add);
            Box::new(move || {
                let sums = black_box(&numbers).chunks(SHORT).map(sum);
                assert_eq!(sums.fold(0, u64::wrapping_add), expected);
            })
        }
        "nested" => {
            let expected = numbers.iter().map(|n| mixed(*n)).fold(0, u64::wrapping_add);
            Box::new(move || {
                let sums = black_box(&numbers).par_chunks(SHORT).map(sum);
                assert_eq!(sums.reduce(|| 0, u64::wrapping_add), expected);
            })
        }
        "filter" => {
            let expected: Vec<u64> = shuffled.iter().copied().filter(|n| n % 3 == 0).collect();
            Box::new(move || {
                let kept: Vec<u64> = black_box(&shuffled).par_iter().copied().filter(|n| n % 3 == 0).collect();
                assert_eq!((kept.len(), kept.last()), (expected.len(), expected.last()));
                black_box(kept);
            })
        }
        "sort" => {
            let mut expected = shuffled.clone();
            expected.sort_unstable();
            Box::new(move || {
                let mut sorted = black_box(&shuffled).clone();
                sorted.par_sort_unstable();
                let at = [0, LEN as usize / 2, LEN as usize - 1];
                assert_eq!(at.map(|at| sorted[at]), at.map(|at| expected[at]));
                black_box(sorted);
            })
        }
        _ => return None,
    };
    Some((LEN, program))
}

fn mixed(n: u64) -> u64 {
    (n ^ (n >> 7)).wrapping_mul(0x5851_f42d_4c95_7f2d) >> 32
}

fn sum(numbers: &[u64]) -> u64 {
    black_box(numbers).par_iter().map(|n| mixed(*n)).sum()
}
