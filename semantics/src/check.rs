//! The check: random programs on the machine and on the runtime, whose observations have to be the
//! same.
//!
//! Used by the tests and by the `semantics` program. A program on which they differ is made smaller
//! before it is reported.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::generate::generate;
use crate::machine::{self, Mode, Rule};
use crate::observe::{Event, Observed, Outcome};
use crate::runtime::{self, Options};
use crate::shrink::shrink;
use crate::syntax::{ALREADY_RESUMED, Expr, UNHANDLED};

/// How many steps a program is given on the machine.
pub const FUEL: u32 = 20_000;

/// How large programs are, if nobody says otherwise.
pub const SIZE: usize = 60;

/// A program on which machine and runtime differ.
#[derive(Clone, Debug)]
pub struct Disagreement {
    /// The seed from which it was made.
    pub seed: u64,
    /// As it was made.
    pub found: Rc<Expr>,
    /// The smallest one that was found from it.
    pub program: Rc<Expr>,
    /// What the machine says of that.
    pub machine: Observed,
    /// What the runtime does.
    pub runtime: Observed,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the runtime disagrees with the machine on the program of seed {}", self.seed)?;
        writeln!(f, "  program  {}", self.program)?;
        writeln!(f, "  machine  {}", self.machine)?;
        writeln!(f, "  runtime  {}", self.runtime)?;
        writeln!(f, "  made smaller from {} nodes to {}: {}", self.found.size(), self.program.size(), self.found)?;
        write!(f, "to replay: cargo run --release -p semantics -- --programs 1 --seed {}", self.seed)
    }
}

/// Runs one program on both. Nothing if they agree, or if the machine runs out of fuel.
///
/// The runtime gets more fuel than the machine needed, so that it also ends where it is wrong.
#[must_use]
pub fn differ(program: &Rc<Expr>, machine: &machine::Run, options: Options) -> Option<Observed> {
    if machine.observed.outcome == Outcome::OutOfFuel {
        return None;
    }
    let raises = machine.count(Rule::Raise) > 0;
    let runtime = runtime::run(program, machine.steps * 2 + 100, raises, options);
    (runtime != machine.observed).then_some(runtime)
}

/// Says of which program it is, if that panics.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the panic above is that of the program of seed {}", self.0);
        }
    }
}

/// Checks the programs of `count` seeds from `first` on. Each seed is shown to `before`, then its
/// program is run.
///
/// # Errors
///
/// The first program on which the two differ, made smaller.
pub fn check(
    first: u64,
    count: u64,
    size: usize,
    options: Options,
    mut before: impl FnMut(u64),
) -> Result<Statistics, Box<Disagreement>> {
    let mut statistics = Statistics::default();
    for seed in (0..count).map(|i| first.wrapping_add(i)) {
        before(seed);
        let _announce = Announce(seed);
        let found = generate(seed, size);
        let run = machine::run(&found, Mode::Segue, FUEL);
        if differ(&found, &run, options).is_some() {
            let run = |program: &Rc<Expr>| machine::run(program, Mode::Segue, FUEL);
            let program = shrink(found.clone(), |program| differ(program, &run(program), options).is_some());
            let machine = run(&program);
            let runtime = differ(&program, &machine, options).expect("it was kept since they differ");
            return Err(Box::new(Disagreement { seed, found, program, machine: machine.observed, runtime }));
        }
        statistics.add(&run);
    }
    Ok(statistics)
}

/// What the programs of a check did on the machine.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// How many programs there were.
    pub programs: u64,
    /// How many of them the machine did not end; they were not compared.
    pub left_out: u64,
    /// How many ended how.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// How often what happened.
    pub events: BTreeMap<&'static str, u64>,
    /// For each rule how often it was used, and by how many programs. In the order of
    /// [`Rule::ALL`].
    pub rules: [(u64, u64); Rule::ALL.len()],
    /// How many continuations were never resumed.
    pub abandoned: u64,
}

impl Statistics {
    /// Adds a run of the machine.
    pub fn add(&mut self, run: &machine::Run) {
        self.programs += 1;
        let outcome = match run.observed.outcome {
            Outcome::Value(_) => "value",
            Outcome::Exception(UNHANDLED, _) => "unhandled",
            Outcome::Exception(ALREADY_RESUMED, _) => "resumed twice",
            Outcome::Exception(..) => "exception",
            Outcome::Stuck => "stuck",
            Outcome::OutOfFuel => "out of fuel",
        };
        *self.outcomes.entry(outcome).or_default() += 1;
        if run.observed.outcome == Outcome::OutOfFuel {
            self.left_out += 1;
            return;
        }
        for event in &run.observed.trace {
            let event = match event {
                Event::Effect(..) => "effect handled",
                Event::Unhandled(..) => "effect unhandled",
                Event::Exception(..) => "exception caught",
                Event::Return(_) => "value returned",
                Event::Resume(_) => "resumed",
                Event::Refused => "refused to resume",
            };
            *self.events.entry(event).or_default() += 1;
        }
        for (sum, used) in self.rules.iter_mut().zip(run.used) {
            sum.0 += u64::from(used);
            sum.1 += u64::from(used > 0);
        }
        self.abandoned += run.observed.abandoned as u64;
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} programs agree; {} more did not end and were left out",
            self.programs - self.left_out,
            self.left_out
        )?;
        for (what, count) in self.outcomes.iter().chain(&self.events) {
            writeln!(f, "{what:>18} {count:>10}")?;
        }
        writeln!(f, "{:>18} {:>10}", "never resumed", self.abandoned)?;
        writeln!(f, "{:>18} {:>10} {:>10}", "rule", "used", "programs")?;
        for (rule, (used, programs)) in Rule::ALL.into_iter().zip(self.rules) {
            if rule.is_in(Mode::Segue) {
                writeln!(f, "{:>18} {used:>10} {programs:>10}", format!("{rule:?}"))?;
            }
        }
        Ok(())
    }
}
