//! `mandelbrot`: the picture of the benchmarks game with 256 rows of 256 points, at most 50
//! iterations a point; an operation is one point. One of the five programs with which the paper
//! "Composable Scheduler Activations for Haskell" measures.
//!
//! Timed: making the jobs, of which each is a row, computing, and collecting the rows. Not timed:
//! starting the runtime. The kernel is scalar and the same for everybody, and Go's is its
//! translation: what differs is how the rows come to the workers. The picture is checked by its
//! hash.

use super::crew::{self, Crew, Program};
use crate::measure::{Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "mandelbrot", timed: "a picture of 256 x 256 points, a job a row, per point", variants };

fn variants() -> Vec<Variant> {
    let with = |name, workers| crew::variant::<Picture>(name, workers, &[&SIDE.to_string(), &HASH.to_string()]);
    vec![with("one worker", 1), with("two workers", 2)]
}

const SIDE: usize = 256;
/// Of the picture.
const HASH: u64 = 5_169_014_157_375_908_241;
const ITERATIONS: usize = 50;

struct Picture;

impl Program for Picture {
    const OP: &'static str = "point";
    const OPS: u64 = (SIDE * SIDE) as u64;

    async fn run(crew: &impl Crew) {
        let rows = crew.all(SIDE, |y| row(SIDE, y)).await;
        assert_eq!(hash(&rows), HASH);
    }
}

/// One row: a bit a point, set if the point is in the set.
fn row(side: usize, y: usize) -> Vec<u8> {
    let ci = 2.0 * y as f64 / side as f64 - 1.0;
    let mut bits = vec![0; side.div_ceil(8)];
    for x in 0..side {
        let cr = 2.0 * x as f64 / side as f64 - 1.5;
        let (mut zr, mut zi, mut tr, mut ti) = (0.0, 0.0, 0.0, 0.0);
        let mut left = ITERATIONS;
        while left > 0 && tr + ti <= 4.0 {
            zi = 2.0 * zr * zi + ci;
            zr = tr - ti + cr;
            (tr, ti) = (zr * zr, zi * zi);
            left -= 1;
        }
        if tr + ti <= 4.0 {
            bits[x / 8] |= 0x80 >> (x % 8);
        }
    }
    bits
}

/// FNV-1a, which is a line in Go's program too.
fn hash(rows: &[Vec<u8>]) -> u64 {
    rows.iter()
        .flatten()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_the_known_one() {
        crew::now(Picture::run(&crew::Threads(1)));
        // The point 0 is in the set, and the corners are not.
        assert_eq!(row(64, 32)[48 / 8] >> 7, 1);
        let edge = row(64, 0);
        assert_eq!((edge[0], edge[7]), (0, 0));
    }
}
