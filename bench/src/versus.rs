//! Two commits against each other: this program and one that was built from an older commit, both
//! as children, whose rounds alternate. Only entries of Segue's take part. Used by `bench versus`.

use crate::child;
use crate::measure::{Run, Span, Variant, Workload, is_segue};
use crate::report::number;
use crate::results::Pair;
use crate::rounds::{MAX_ROUNDS, Plan, ROUND, calibrate, min_median_max};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Measures the workloads, prints a line for each entry, and answers with what can be kept.
pub fn measure(older: &Path, workloads: &[&'static Workload], plan: Plan) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for workload in workloads {
        println!("\n{}: {}", workload.name, workload.timed);
        let variants = (workload.variants)();
        let entries = variants.iter().flat_map(|variant| {
            let ours = variant.contestants.iter().filter(|contestant| is_segue(contestant.who));
            ours.map(move |contestant| (variant, contestant.who))
        });
        let entries: Vec<_> = entries.collect();
        let budget = plan.budget / entries.len().max(1) as u32;
        for (variant, who) in entries {
            match pair(older, workload.name, variant, who, plan, budget) {
                Ok(pair) => {
                    print(&pair);
                    pairs.push(pair);
                }
                Err(why) => println!("  {}, {who}: left out: {why}", variant.name),
            }
        }
    }
    pairs
}

fn pair(
    older: &Path,
    workload: &str,
    variant: &Variant,
    who: &str,
    plan: Plan,
    budget: Duration,
) -> Result<Pair, String> {
    let mut command = Command::new(older);
    command.args([child::SUBCOMMAND, workload, &variant.name, who]);
    let mut sides = [child::start(command)?, child::this_program(workload, &variant.name, who)?];
    let target = (budget / (2 * (plan.min_rounds + 3)) as u32).clamp(Duration::from_millis(2), ROUND);
    // As many operations on both sides, so that a round is the same work.
    let [before, after] = &mut sides;
    let ops = calibrate(before, target)?.min(calibrate(after, target)?);
    let rounds = alternate(&mut sides, ops, plan, budget)?;
    let figures = |side: usize| rounds.iter().map(move |round| variant.figure(&round[side]));
    Ok(Pair {
        workload: workload.to_owned(),
        who: who.to_owned(),
        variant: variant.name.clone(),
        unit: variant.unit(),
        before: min_median_max(figures(0).collect()),
        after: min_median_max(figures(1).collect()),
        ratio: quartiles(figures(1).zip(figures(0)).map(|(after, before)| after / before).collect()),
        runs: rounds.len(),
    })
}

/// Round after round; the side that began comes second in the next.
fn alternate(sides: &mut [Run; 2], ops: u64, plan: Plan, budget: Duration) -> Result<Vec<[Span; 2]>, String> {
    let began = Instant::now();
    let mut rounds = Vec::new();
    while rounds.len() < plan.min_rounds || (began.elapsed() < budget && rounds.len() < MAX_ROUNDS) {
        let first = rounds.len() % 2;
        let one = sides[first](ops)?;
        let other = sides[1 - first](ops)?;
        rounds.push(if first == 0 { [one, other] } else { [other, one] });
    }
    Ok(rounds)
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(mut figures: Vec<f64>) -> [f64; 3] {
    figures.sort_by(f64::total_cmp);
    let last = figures.len() - 1;
    [figures[last / 4], min_median_max(figures.clone())[1], figures[last - last / 4]]
}

fn print(pair: &Pair) {
    let [low, ratio, high] = pair.ratio;
    println!(
        "  {}, {}: {} -> {} {}; {ratio:.3} ({low:.3} to {high:.3}) in {} rounds",
        pair.variant,
        pair.who,
        number(pair.before[1]),
        number(pair.after[1]),
        pair.unit,
        pair.runs
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_a_quarter_from_both_ends() {
        assert_eq!(quartiles(vec![5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(vec![7.0]), [7.0; 3]);
    }

    #[test]
    fn the_sides_take_turns_at_beginning_and_keep_their_places() {
        let order = std::rc::Rc::new(std::cell::RefCell::new(String::new()));
        let side = |name: char, ops: u64| -> Run {
            let order = order.clone();
            Box::new(move |_| {
                order.borrow_mut().push(name);
                Ok(Span { ops, wall: Duration::ZERO, cpu: Duration::ZERO, busiest: None })
            })
        };
        let plan = Plan { budget: Duration::ZERO, min_rounds: 3 };
        let rounds = alternate(&mut [side('b', 1), side('a', 2)], 9, plan, Duration::ZERO).expect("both run");
        assert_eq!(*order.borrow(), "baabba");
        assert!(rounds.iter().all(|[before, after]| (before.ops, after.ops) == (1, 2)));
    }
}
