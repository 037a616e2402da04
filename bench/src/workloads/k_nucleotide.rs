//! `k_nucleotide`: counts all sequences of 1, 2, 3, 4, 6, 12 and 18 nucleotides in a strand of DNA,
//! by hash tables; an operation is one nucleotide of the strand. One of the five programs with
//! which the paper "Composable Scheduler Activations for Haskell" measures.
//!
//! Timed: 13 jobs, each of which makes a table and looks up what the benchmarks game asks for. For
//! each length there is a job; for 12 and 18, whose tables are large, there are four, each for the
//! sequences that begin with one of the letters, so that no job is so long that the order of the
//! jobs decides. Not timed: starting the runtime, and making the strand: sequence THREE of the
//! game's `fasta` for 50,000, from its own random numbers.
//!
//! Rust's table is that of the standard library with a multiplication for a hash, Go's is its map:
//! so Go's figure tells about its map too.

use super::crew::{self, Crew, Program};
use crate::measure::{Variant, Workload};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "k_nucleotide",
    timed: "tables of the sequences in a strand of 250,000 nucleotides, 13 jobs, per nucleotide",
    variants,
};

fn variants() -> Vec<Variant> {
    let found = FOUND.map(|count| count.to_string());
    let mut go = vec![SIZE.to_string()];
    go.extend(found);
    let go: Vec<&str> = go.iter().map(String::as_str).collect();
    let with = |name, workers| crew::variant::<Counts>(name, workers, &go);
    vec![with("one worker", 1), with("two workers", 2)]
}

/// What `fasta` is asked for.
const SIZE: usize = 50_000;
/// What is counted by each job: sequences of this length; if a letter is given, only those that
/// begin with it.
const JOBS: [(usize, Option<u8>); 13] = [
    (18, Some(0)),
    (18, Some(1)),
    (18, Some(2)),
    (18, Some(3)),
    (12, Some(0)),
    (12, Some(1)),
    (12, Some(2)),
    (12, Some(3)),
    (6, None),
    (4, None),
    (3, None),
    (2, None),
    (1, None),
];
/// What the jobs find in the strand. What is sought begins with the letter 2.
const FOUND: [u64; 13] = [0, 0, 2, 0, 0, 0, 2, 0, 89, 889, 2_948, 2_119_404, 623_881];
/// Whose beginnings are counted.
const SOUGHT: &[u8] = b"GGTATTTTAATTTATAGT";

static STRAND: LazyLock<Vec<u8>> = LazyLock::new(|| strand(SIZE));

struct Counts;

impl Program for Counts {
    const OP: &'static str = "nucleotide";
    const OPS: u64 = 5 * SIZE as u64;

    fn prepare() {
        LazyLock::force(&STRAND);
    }

    async fn run(crew: &impl Crew) {
        assert_eq!(crew.all(JOBS.len(), |job| find(&STRAND, JOBS[job])).await, FOUND);
    }
}

type Table = HashMap<u64, u32, BuildHasherDefault<Mix>>;

/// One multiplication, by the golden ratio.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are numbers")
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(key) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// How often each sequence of this length, with this beginning, occurs. A key has two bits for each
/// nucleotide.
fn count(strand: &[u8], length: usize, first: Option<u8>) -> Table {
    let mask = (1 << (2 * length)) - 1;
    let mut table = Table::default();
    let mut key = 0;
    for (at, code) in strand.iter().enumerate() {
        key = (key << 2 | u64::from(*code)) & mask;
        if at + 1 >= length && first.is_none_or(|first| u64::from(first) == key >> (2 * length - 2)) {
            *table.entry(key).or_default() += 1;
        }
    }
    table
}

/// A job: for the lengths 1 and 2, where the game asks for the whole table, the sum of all counts,
/// each times its key and one; for the others how often the sequence that is sought occurs.
fn find(strand: &[u8], (length, first): (usize, Option<u8>)) -> u64 {
    let table = count(strand, length, first);
    if length <= 2 {
        return table.iter().map(|(key, count)| (key + 1) * u64::from(*count)).sum();
    }
    u64::from(table.get(&key(&SOUGHT[..length])).copied().unwrap_or(0))
}

fn key(sequence: &[u8]) -> u64 {
    sequence.iter().fold(0, |key, letter| key << 2 | u64::from(code(*letter)))
}

/// Two bits: the place in the alphabet of frequencies below.
fn code(letter: u8) -> u8 {
    b"ACGT".iter().position(|known| *known == letter).expect("a nucleotide") as u8
}

/// Sequence THREE of `fasta`: `5 * size` nucleotides as codes. Sequence TWO comes before it from
/// the same random numbers.
fn strand(size: usize) -> Vec<u8> {
    const FREQUENCIES: [f64; 4] = [0.302_954_942_668_0, 0.197_988_300_492_1, 0.197_547_306_639_1, 0.301_509_450_200_8];
    const MODULUS: u32 = 139_968;
    let mut seed: u32 = 42;
    let mut random = || {
        seed = (seed * 3_877 + 29_573) % MODULUS;
        f64::from(seed) / f64::from(MODULUS)
    };
    for _ in 0..3 * size {
        random();
    }
    let mut nucleotide = || {
        let mut rest = random();
        for (code, frequency) in FREQUENCIES.iter().enumerate() {
            if rest < *frequency {
                return code as u8;
            }
            rest -= frequency;
        }
        3
    };
    (0..5 * size).map(|_| nucleotide()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published output for 250,000.
    #[test]
    fn the_counts_are_those_of_the_benchmarks_game() {
        let strand = strand(250_000);
        let [a, c, g, t] =
            [0, 1, 2, 3].map(|code| f64::from(count(&strand, 1, None)[&code]) * 100.0 / strand.len() as f64);
        assert_eq!(format!("{a:.3} {t:.3} {c:.3} {g:.3}"), "30.298 30.157 19.793 19.752");
        let pairs = count(&strand, 2, None);
        let percent = |pair: &[u8]| f64::from(pairs[&key(pair)]) * 100.0 / (strand.len() - 1) as f64;
        assert_eq!([b"AA", b"TA", b"GG"].map(|pair| format!("{:.3}", percent(pair))), ["9.177", "9.137", "3.902"]);
        assert_eq!([3, 4, 6].map(|length| find(&strand, (length, None))), [14_717, 4_463, 472]);
        let quarters = |length| [0, 1, 2, 3].map(|first| find(&strand, (length, Some(first))));
        assert_eq!([12, 18].map(quarters), [[0, 0, 9, 0]; 2]);
    }
}
