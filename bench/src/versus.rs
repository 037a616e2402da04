//! Two commits against each other: this program and one that was built from an older commit, both
//! as children, whose rounds alternate. Only entries of Segue's take part. Used by `bench versus`.
//!
//! Where functions and loops happen to lie in a program moves a figure by a tenth and more, and is
//! no difference between the commits (Mytkowicz et al., "Producing wrong data without doing
//! anything obviously wrong!", 2009). So both may be given in several layouts; `bench/layouts.sh`
//! builds them. A row then has a ratio for each layout, and the ratio of the commits is their
//! median.

use crate::child;
use crate::measure::{Run, Span, Variant, Workload, is_segue};
use crate::report::number;
use crate::results::Pair;
use crate::rounds::{MAX_ROUNDS, Plan, ROUND, min_median_max};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A program of either commit, built alike: the older and the newer one.
pub type Layout = [PathBuf; 2];

/// Measures the workloads, prints a line for each entry, and answers with what can be kept.
pub fn measure(layouts: &[Layout], workloads: &[&'static Workload], plan: Plan) -> Vec<Pair> {
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
            match pair(layouts, workload.name, variant, who, plan, budget) {
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
    layouts: &[Layout],
    workload: &str,
    variant: &Variant,
    who: &str,
    plan: Plan,
    budget: Duration,
) -> Result<Pair, String> {
    let (mut figures, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for layout in layouts {
        let rounds = in_layout(layout, [workload, &variant.name, who], plan, budget / layouts.len() as u32)?;
        let [before, after] =
            [0, 1].map(|side| rounds.iter().map(|round| variant.figure(&round[side])).collect::<Vec<_>>());
        ratios.push(after.iter().zip(&before).map(|(after, before)| after / before).collect::<Vec<_>>());
        figures[0].extend(before);
        figures[1].extend(after);
    }
    let by_layout: Vec<_> = ratios.iter().map(|ratios| quartiles(ratios.clone())[1]).collect();
    // Few layouts have no quartiles.
    let ratio = match &ratios[..] {
        [rounds] => quartiles(rounds.clone()),
        _ => min_median_max(by_layout.clone()),
    };
    let runs = figures[0].len();
    let [before, after] = figures.map(min_median_max);
    let (workload, who, unit) = (workload.to_owned(), who.to_owned(), variant.unit());
    Ok(Pair { workload, who, variant: variant.name.clone(), unit, before, after, ratio, by_layout, runs })
}

/// The rounds of two programs that are built alike.
fn in_layout(layout: &Layout, names: [&str; 3], plan: Plan, budget: Duration) -> Result<Vec<[Span; 2]>, String> {
    let start = |program: &PathBuf| {
        let mut command = Command::new(program);
        command.arg(child::SUBCOMMAND).args(names);
        child::start(command)
    };
    let mut sides = [start(&layout[0])?, start(&layout[1])?];
    let target = (budget / (2 * (plan.min_rounds + 3)) as u32).clamp(Duration::from_millis(2), ROUND);
    // As many operations on both sides, so that a round is the same work.
    let [before, after] = &mut sides;
    let ops = plan.operations(before, target)?.min(plan.operations(after, target)?);
    alternate(&mut sides, ops, plan, budget)
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
    let by_layout: Vec<_> = pair.by_layout.iter().map(|ratio| format!("{ratio:.2}")).collect();
    println!(
        "  {}, {}: {} -> {} {}; {ratio:.3} ({low:.3} to {high:.3}) in {} rounds; by layout {}",
        pair.variant,
        pair.who,
        number(pair.before[1]),
        number(pair.after[1]),
        pair.unit,
        pair.runs,
        by_layout.join(" ")
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
                Ok(Span {
                    ops,
                    wall: Duration::ZERO,
                    cpu: Duration::ZERO,
                    busiest: None,
                    migrations: None,
                    calls: None,
                })
            })
        };
        let plan = Plan { budget: Duration::ZERO, min_rounds: 3, operations: None };
        let rounds = alternate(&mut [side('b', 1), side('a', 2)], 9, plan, Duration::ZERO).expect("both run");
        assert_eq!(*order.borrow(), "baabba");
        assert!(rounds.iter().all(|[before, after]| (before.ops, after.ops) == (1, 2)));
    }
}
