//! Runs the contestants of a variant (or of variants that are compared) against each other: first
//! each is calibrated so that a round takes some tens of milliseconds, then all take turns, round
//! after round, so that whatever disturbs the machine meets all alike. Whoever began a round comes
//! last in the next. Calibration is also the warm-up and is not counted.

use crate::child;
use crate::compiled::Rivals;
use crate::measure::{Place, Run, Span, Variant};
use std::time::{Duration, Instant};

/// How long and how often to measure.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Seconds for each workload; divided equally among its variants.
    pub budget: Duration,
    /// Rounds to take even if that exceeds the budget.
    pub min_rounds: usize,
    /// So many operations are asked for in a round, if they are not to be found by calibration.
    pub operations: Option<u64>,
}

/// No more rounds than this, however short they are.
pub const MAX_ROUNDS: usize = 201;
/// The length of a round that is aimed at, if the budget allows it.
pub const ROUND: Duration = Duration::from_millis(50);

impl Plan {
    /// The default.
    pub fn full(budget: Duration) -> Self {
        Self { budget, min_rounds: 7, operations: None }
    }

    /// Shows that everything runs, once; the figures mean nothing.
    pub fn smoke() -> Self {
        Self { budget: Duration::ZERO, min_rounds: 1, operations: Some(64) }
    }

    /// The operations of a round that takes about `target`.
    pub fn operations(&self, run: &mut Run, target: Duration) -> Result<u64, String> {
        self.operations.map_or_else(|| calibrate(run, target), Ok)
    }
}

/// All rounds of one contestant.
pub struct Outcome {
    /// Its name.
    pub who: &'static str,
    /// What it did, in order.
    pub spans: Vec<Span>,
}

struct Entry {
    variant: usize,
    outcome: Outcome,
    run: Run,
    ops: u64,
}

/// Measures variants that have the `budget` to themselves, in turns with each other. Answers with
/// the outcomes of each.
pub fn measure(
    workload: &str,
    variants: &mut [Variant],
    rivals: &Rivals,
    plan: Plan,
    budget: Duration,
) -> Vec<Vec<Outcome>> {
    let mut entries = Vec::new();
    let contestants: usize = variants.iter().map(|variant| variant.contestants.len()).sum();
    let target = (budget / (contestants * (plan.min_rounds + 3)).max(1) as u32).clamp(Duration::from_millis(2), ROUND);
    let began = Instant::now();
    for (number, variant) in variants.iter_mut().enumerate() {
        for contestant in std::mem::take(&mut variant.contestants) {
            let who = contestant.who;
            let ready = match contestant.place {
                Place::Here(run) => Ok(run),
                Place::Apart(_) => child::this_program(workload, &variant.name, who, None),
                Place::ApartFromGo(_) => {
                    rivals.go.file().and_then(|go| child::this_program(workload, &variant.name, who, Some(go)))
                }
                Place::Go(args) => rivals.go.contestant(workload, &args, variant.workers),
                Place::OCaml(args) => rivals.ocaml.contestant(workload, &args, variant.workers),
                Place::Ghc(args) => rivals.ghc.contestant(workload, &args, variant.workers),
            };
            match ready.and_then(|mut run| plan.operations(&mut run, target).map(|ops| (run, ops))) {
                Ok((run, ops)) => {
                    entries.push(Entry { variant: number, outcome: Outcome { who, spans: Vec::new() }, run, ops });
                }
                Err(why) => println!("  {}: {who} does not take part: {why}", variant.name),
            }
        }
    }
    // One contestant's entries in the group's variants follow each other, so that they are compared
    // within moments.
    if variants.len() > 1 {
        entries.sort_by_key(|entry| entry.outcome.who);
    }

    let mut round = 0;
    while !entries.is_empty() && (round < plan.min_rounds || began.elapsed() < budget) && round < MAX_ROUNDS {
        entries.rotate_left(1);
        entries.retain_mut(|entry| match (entry.run)(entry.ops) {
            Ok(span) => {
                entry.outcome.spans.push(span);
                true
            }
            Err(why) => {
                println!("  {}: {} is left out: {why}", variants[entry.variant].name, entry.outcome.who);
                false
            }
        });
        round += 1;
    }
    let mut outcomes: Vec<_> = variants.iter().map(|_| Vec::new()).collect();
    for entry in entries {
        outcomes[entry.variant].push(entry.outcome);
    }
    outcomes
}

/// Finds how many operations take about `target`. A contestant that does the same whatever it is
/// asked for, as those that count bytes do, is not asked for more and more.
fn calibrate(run: &mut Run, target: Duration) -> Result<u64, String> {
    let (mut ops, mut done) = (64, 0);
    loop {
        let span = run(ops)?;
        let part = span.wall.as_secs_f64() / target.as_secs_f64();
        if part >= 0.5 {
            return Ok((span.ops as f64 / part).ceil() as u64);
        }
        if span.ops == done {
            return Ok(done);
        }
        done = span.ops;
        let factor = (1.0 / part.max(1e-9)).clamp(1.5, 16.0);
        ops = (span.ops.max(ops) as f64 * factor).ceil() as u64;
    }
}

/// The least, the middle and the greatest of some figures.
pub fn min_median_max(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    let (n, mid) = (figures.len(), figures.len() / 2);
    let median = if n % 2 == 1 { figures[mid] } else { (figures[mid - 1] + figures[mid]) / 2.0 };
    [figures[0], median, figures[n - 1]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(min_median_max(vec![4.0, 1.0, 2.0, 10.0]), [1.0, 3.0, 10.0]);
        assert_eq!(min_median_max(vec![5.0, 7.0, 6.0]), [5.0, 6.0, 7.0]);
    }

    #[test]
    fn calibration_finds_the_operations_of_a_round() {
        let mut run: Run = Box::new(|ops| {
            let wall = Duration::from_nanos(100 * ops);
            Ok(Span { ops, wall, cpu: wall, busiest: None, migrations: None, calls: None })
        });
        let ops = calibrate(&mut run, Duration::from_millis(50)).expect("it runs");
        assert!((490_000..=510_000).contains(&ops), "{ops}");
    }

    #[test]
    fn calibration_ends_where_the_work_is_the_same_for_any_number_of_operations() {
        let mut run: Run = Box::new(|_| Ok(Span::of_bytes(1, 4096, Duration::from_micros(1))));
        assert_eq!(calibrate(&mut run, Duration::from_millis(50)), Ok(1));
    }
}
