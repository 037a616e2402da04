//! A program that uses rayon and knows nothing of Segue: it says how long its loops take.
//! `versus.sh` runs it with the patch and without it.

use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

/// How often each loop is timed; the median counts.
const ROUNDS: usize = 31;

/// Prints how many nanoseconds an element takes.
fn time(name: &str, elements: usize, mut f: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            f();
            began.elapsed().as_nanos() as f64 / elements as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name}: {:.2} ns per element, at least {:.2}", rounds[ROUNDS / 2], rounds[0]);
}

fn main() {
    let numbers: Vec<u64> = (0..1_000_000).collect();
    let shuffled: Vec<u64> = numbers.iter().map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    time("sum of a map", numbers.len(), || {
        black_box(black_box(&numbers).par_iter().map(|n| (n ^ (n >> 7)).wrapping_mul(0x5851_f42d)).sum::<u64>());
    });
    time("filter and collect", numbers.len(), || {
        black_box(black_box(&shuffled).par_iter().copied().filter(|n| n % 3 == 0).collect::<Vec<u64>>());
    });
    time("group by key", numbers.len(), || {
        let groups = black_box(&shuffled)
            .par_iter()
            .fold(
                || vec![0_u64; 1024],
                |mut groups, n| {
                    groups[(n >> 54) as usize] += n & 0xff;
                    groups
                },
            )
            .reduce(
                || vec![0; 1024],
                |mut groups, others| {
                    groups.iter_mut().zip(&others).for_each(|(group, other)| *group += other);
                    groups
                },
            );
        black_box(groups);
    });
    time("par_sort_unstable", shuffled.len(), || {
        let mut numbers = shuffled.clone();
        numbers.par_sort_unstable();
        black_box(numbers);
    });
}
