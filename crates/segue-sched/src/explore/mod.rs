//! The same program under many schedules: the search for one that fails.
//!
//! Used by tests, through [`Explore::check`] or the attribute `segue::test`, and by programs that
//! look at the findings.
//!
//! * `course.rs`: one simulation as a sequence of choices. Read this first.
//! * `strategies.rs`: how choices are made: at random, by priorities, one after the other.
//! * `schedule.rs`, `failure.rs`: the name of a schedule, and the report of one that fails.
//! * `shrink.rs`: a schedule that fails is made plainer. `trace.rs`: where its turns are out of
//!   order. `quiet.rs`: which panics are printed.
//! * `check.rs`: panics, and the environment's say.

mod check;
mod course;
mod failure;
mod lab;
mod quiet;
mod schedule;
mod shrink;
mod sim;
mod strategies;
mod trace;

pub(crate) use course::{Course, Steered};
pub use failure::{Cause, Explored, Failure, Shrunk, Verdict};
pub use schedule::{BadSchedule, Schedule};
pub use sim::{Deadlock, Sim, settle};
pub(crate) use strategies::Random;

use course::Choice;
use lab::{Closure, Lab, Program};
use quiet::{Mode, begin, printing};
use segue_fiber::StackConfig;
use sim::arena;
use trace::{Told, Trace};

/// After how many steps a schedule counts as endless, if nothing else is said.
const STEPS: u64 = 1_000_000;

/// The assumed number of a program's steps before its first run.
const GUESS: u64 = 64;

/// Runs a program under many schedules, and names one under which it fails: by a panic, a returned
/// error, a deadlock, a fiber that is left, or by not ending.
///
/// The program is a closure that is called once for each schedule, as the first fiber of a
/// [simulation](crate::Sim). The closure makes its objects itself, or leaves them unchanged. The
/// same exploration of the same program finds the same, and a schedule that is named in a report
/// leads there again, as long as the program depends on nothing else: the real clock, other
/// threads, the order of a `HashMap`.
///
/// Which schedules are tried:
///
/// * [`random`](Explore::random): each choice is drawn. Good where many orders fail.
/// * [`pct`](Explore::pct): random priorities, which change at a few steps. Good where few orders
///   fail, and the program is long: a bug that takes `depth` ordered events is found by each
///   schedule with a probability of at least `1 / (fibers * steps^(depth - 1))`.
/// * [`exhaustive`](Explore::exhaustive): all of them, for small programs.
///
/// # Examples
///
/// ```
/// use segue_core::{preemption_point, scope};
/// use segue_sched::Explore;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// // Two fibers add one each, and one addition may be lost.
/// let lossy = || {
///     let number = AtomicU32::new(0);
///     let add = || {
///         let seen = number.load(Relaxed);
///         preemption_point();
///         number.store(seen + 1, Relaxed);
///     };
///     scope(|s| drop((s.spawn(add), s.spawn(add))));
///     match number.into_inner() {
///         2 => Ok(()),
///         n => Err(format!("the sum is {n}")),
///     }
/// };
/// let failure = Explore::random(100).run(lossy).unwrap_err();
/// assert!(failure.to_string().contains("the sum is 1"));
/// // Its schedule leads to it again.
/// let again = Explore::random(1).replay(&failure.schedule, lossy).unwrap_err();
/// assert_eq!(again.cause, failure.cause);
/// ```
#[derive(Clone, Debug)]
#[must_use = "an exploration does nothing before it is run"]
pub struct Explore {
    search: Search,
    seed: u64,
    schedules: u64,
    preemptive: bool,
    leaks: Leaks,
    shrinks: bool,
    steps: u64,
    stacks: StackConfig,
    command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Random,
    Pct { depth: u32 },
    Exhaustive,
    Plain,
}

/// The judgement of fibers that are not over when the program returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaks {
    /// They are cancelled, as at the end of any runtime.
    Allow,
    /// The schedule fails.
    Forbid,
}

impl Explore {
    fn new(search: Search, schedules: u64) -> Self {
        Self {
            search,
            schedules,
            seed: 0,
            preemptive: true,
            leaks: Leaks::Allow,
            shrinks: true,
            steps: STEPS,
            stacks: StackConfig::new(),
            command: None,
        }
    }

    /// So many schedules in which each choice is drawn.
    pub fn random(schedules: u64) -> Self {
        Self::new(Search::Random, schedules)
    }

    /// So many schedules by priorities that change at `depth - 1` steps. The most steps of any
    /// schedule so far count as the number of steps of the program.
    ///
    /// # Panics
    /// If `depth` is zero.
    pub fn pct(depth: u32, schedules: u64) -> Self {
        assert!(depth > 0, "a bug has a depth of at least 1");
        Self::new(Search::Pct { depth }, schedules)
    }

    /// All schedules, each once, but no more than `limit`. [`Explored::complete`] says whether
    /// there are others.
    ///
    /// Points at which only one fiber can go on are not counted as choices. Two schedules that
    /// differ in the order of independent steps count as two.
    pub fn exhaustive(limit: u64) -> Self {
        Self::new(Search::Exhaustive, limit)
    }

    /// The plainest schedule alone: one worker, first in first out, nobody is preempted, and the
    /// clock is virtual.
    ///
    /// For a test that is to run in simulated time and in the same order always, and not to search.
    /// Its name is `plain`.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::scope;
    /// use segue_sched::Explore;
    /// use std::sync::Mutex;
    ///
    /// Explore::plain().check(|| {
    ///     let order = Mutex::new(Vec::new());
    ///     scope(|s| {
    ///         let order = &order;
    ///         for n in 0..3 {
    ///             s.spawn(move || order.lock().unwrap().push(n));
    ///         }
    ///     });
    ///     assert_eq!(order.into_inner().unwrap(), [0, 1, 2]);
    /// });
    /// ```
    pub fn plain() -> Self {
        Self::new(Search::Plain, 1).preemptive(false)
    }

    /// The seed of the first schedule; each further one has the next. 0 if nothing is said. An
    /// exhaustive exploration has none. The program's [`random`](segue_core::random) numbers follow
    /// from the seed of its schedule, too.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Whether fibers can be preempted at the beginning of each operation and after each spawn, and
    /// not only where they wait or yield. They can if nothing is said.
    ///
    /// A preempted fiber keeps its locks. Where code under test holds a lock of std's across an
    /// operation, another fiber that wants that lock blocks the thread for ever: such a program is
    /// to be explored without.
    pub fn preemptive(self, preemptive: bool) -> Self {
        Self { preemptive, ..self }
    }

    /// The judgement of fibers that are not over when the program returns. They are allowed if
    /// nothing is said.
    pub fn leaks(self, leaks: Leaks) -> Self {
        Self { leaks, ..self }
    }

    /// Whether a schedule that fails is followed by attempts to find a plainer one that does, and
    /// by one more run that finds out at which places its [turns](Failure::turns) are out of order.
    /// This is the default, and takes up to 301 runs.
    pub fn shrink(self, shrinks: bool) -> Self {
        Self { shrinks, ..self }
    }

    /// After how many steps a schedule fails as endless: a million if nothing is said.
    pub fn steps(self, most: u64) -> Self {
        Self { steps: most, ..self }
    }

    /// The fibers' stacks.
    pub fn stacks(self, stacks: StackConfig) -> Self {
        Self { stacks, ..self }
    }

    /// Runs `f` under one schedule after the other, until one fails or all have passed.
    ///
    /// # Errors
    /// The first [`Failure`].
    ///
    /// # Panics
    /// If address space for stacks can't be had.
    pub fn run<T: Verdict>(&self, f: impl Fn() -> T) -> Result<Explored, Failure> {
        self.explore(&Closure::new(f))
    }

    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    fn explore(&self, program: &dyn Program) -> Result<Explored, Failure> {
        let lab = self.lab(program);
        begin();
        let mut found = Explored::default();
        let mut next = Some(self.first());
        while found.schedules < self.schedules
            && let Some(current) = next.take()
        {
            let tried = printing(Mode::OnceEach, || lab.try_one(&current, None));
            found.schedules += 1;
            found.most_steps = found.most_steps.max(tried.steps);
            found.most_fibers = found.most_fibers.max(tried.fibers);
            if let Some(cause) = tried.cause {
                let shrunk = self
                    .shrinks
                    .then(|| shrink::shrink(&lab, &cause, &current, &tried.choices))
                    .flatten()
                    .map(Box::new);
                let mut failure =
                    Failure { schedule: current, cause, tried: found.schedules, shrunk, turns: Vec::new() };
                if self.shrinks {
                    failure.turns = lab.turns_of(&failure);
                }
                return Err(failure);
            }
            next = self.next(&current, &tried.choices, found.most_steps);
        }
        found.complete = self.search == Search::Exhaustive && next.is_none();
        Ok(found)
    }

    /// Runs `f` under one schedule. The failure tells at which places which fiber went on out of
    /// order, unless [`shrink`](Explore::shrink) says no.
    ///
    /// # Errors
    /// The [`Failure`], of a failure.
    ///
    /// # Panics
    /// If address space for stacks can't be had; or if the schedule asks for a choice that the
    /// program does not have.
    pub fn replay<T: Verdict>(&self, schedule: &Schedule, f: impl Fn() -> T) -> Result<(), Failure> {
        self.replay_told(schedule, self.shrinks.then_some(Told::OutOfOrder), &Closure::new(f))
    }

    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    fn replay_told(&self, schedule: &Schedule, told: Option<Told>, program: &dyn Program) -> Result<(), Failure> {
        let lab = self.lab(program);
        let tried = lab.try_one(schedule, told.map(Trace::new));
        assert!(!tried.diverged, "the schedule {schedule} is of another program: it has choices that this one has not");
        match tried.cause {
            None => Ok(()),
            Some(cause) => {
                Err(Failure { schedule: schedule.clone(), cause, tried: 1, shrunk: None, turns: tried.turns })
            }
        }
    }

    fn first(&self) -> Schedule {
        match self.search {
            Search::Random => Schedule::Random { seed: self.seed },
            Search::Pct { depth } => Schedule::Pct { depth, steps: GUESS, seed: self.seed },
            Search::Exhaustive | Search::Plain => Schedule::of_choices(Vec::new(), 0),
        }
    }

    fn lab<'p>(&self, program: &'p dyn Program) -> Lab<'p> {
        let Self { preemptive, steps, leaks, stacks, .. } = self;
        let (arena, forbids_leaks) = (arena(stacks.clone()), *leaks == Leaks::Forbid);
        Lab { preemptive: *preemptive, steps: *steps, forbids_leaks, arena, program }
    }

    fn next(&self, last: &Schedule, choices: &[Choice], most_steps: u64) -> Option<Schedule> {
        match last {
            Schedule::Random { seed } => Some(Schedule::Random { seed: seed.wrapping_add(1) }),
            Schedule::Pct { depth, seed, .. } => {
                Some(Schedule::Pct { depth: *depth, steps: most_steps, seed: seed.wrapping_add(1) })
            }
            Schedule::Choices { .. } if self.search == Search::Plain => None,
            Schedule::Choices { seed, .. } => {
                strategies::successor(choices).map(|choices| Schedule::Choices { choices, seed: *seed })
            }
        }
    }
}
