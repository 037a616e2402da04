//! `spectral_norm`: the largest singular value of the infinite matrix
//! A(i, j) = 1 / ((i + j)(i + j + 1) / 2 + i + 1), cut to 1,000 rows, by the power method of the
//! benchmarks game: ten rounds of two products with the matrix and its transpose; an operation is
//! one element of a product. One of the five programs with which the paper "Composable Scheduler
//! Activations for Haskell" measures.
//!
//! Timed: forty products one after the other, each with 16 jobs of consecutive rows, all waited for
//! before the next, and collecting the rows. Not timed: starting the runtime. So there is a barrier
//! about each millisecond. The kernel is scalar and the same for everybody, and Go's is its
//! translation. The result is checked to nine digits.

use super::crew::{self, Crew, Program};
use crate::measure::{Variant, Workload};
use std::sync::Arc;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "spectral_norm",
    timed: "forty products of a matrix of 1,000 rows with a vector, 16 jobs each, per element",
    variants,
};

fn variants() -> Vec<Variant> {
    let with =
        |name, workers| crew::variant::<Norm<ROWS>>(name, workers, &[&ROWS.to_string(), NORM, &JOBS.to_string()]);
    vec![with("one worker", 1), with("two workers", 2)]
}

const ROWS: usize = 1_000;
const NORM: &str = "1.274224148";
const JOBS: usize = 16;
const ROUNDS: usize = 10;

struct Norm<const N: usize>;

impl<const N: usize> Program for Norm<N> {
    const OP: &'static str = "element";
    const OPS: u64 = (4 * ROUNDS * N * N) as u64;

    async fn run(crew: &impl Crew) {
        assert_eq!(norm::<N>(crew).await, NORM);
    }
}

async fn norm<const N: usize>(crew: &impl Crew) -> String {
    let mut u = vec![1.0; N].into();
    let mut v = Arc::clone(&u);
    for _ in 0..ROUNDS {
        v = squared::<N>(crew, &u).await;
        u = squared::<N>(crew, &v).await;
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    format!("{:.9}", (dot(&u, &v) / dot(&v, &v)).sqrt())
}

type Vector = Arc<[f64]>;

/// The product with the matrix, and of that with its transpose.
async fn squared<const N: usize>(crew: &impl Crew, vector: &Vector) -> Vector {
    let product = times::<N>(crew, vector, element).await;
    times::<N>(crew, &product, |i, j| element(j, i)).await
}

async fn times<const N: usize>(
    crew: &impl Crew,
    vector: &Vector,
    element: impl Fn(usize, usize) -> f64 + Send + Sync + 'static,
) -> Vector {
    let vector = vector.clone();
    let part = move |job| {
        let row = |i| vector.iter().enumerate().map(|(j, x)| element(i, j) * x).sum();
        (job * N / JOBS..(job + 1) * N / JOBS).map(row).collect::<Vec<f64>>()
    };
    crew.all(JOBS, part).await.concat().into()
}

fn element(i: usize, j: usize) -> f64 {
    1.0 / ((i + j) * (i + j + 1) / 2 + i + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published output for 100.
    #[test]
    fn the_norm_is_that_of_the_benchmarks_game() {
        assert_eq!(crew::now(norm::<100>(&crew::Threads(1))), "1.274219991");
    }
}
