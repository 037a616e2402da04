//! The contract as a test suite: runs programs on a scheduler and says which clauses of
//! `docs/contract.md` it breaks.
//!
//! Used by the tests of schedulers, in a few lines; nothing here runs, or costs anything, unless it
//! is called.
//!
//! # What a scheduler gives
//!
//! A [`Suite`] is given a closure that runs a [`Main`] as a fiber of the scheduler (or thread, or
//! task) and returns when that has ended, together with all that it has detached; and then what is
//! to be known of the scheduler: whether its spawned work runs on [plain
//! threads](Suite::plain_threads), whether its [world is simulated](Suite::simulated), whether it
//! [can run inside of one of its own fibers](Suite::nests). What does not apply is skipped, and the
//! report says so.
//!
//! # Examples
//!
//! ```
//! use segue_core::conformance::Suite;
//!
//! // The scheduler of plain threads, on which to spawn is to start another. No stress here: this is an example.
//! Suite::new("plain threads", |main| main()).plain_threads().rounds(20).fibers(8).check();
//! ```
//!
//! A harness that shows each case by itself goes through [`cases`]:
//!
//! ```
//! use segue_core::conformance::{Suite, Verdict, cases};
//!
//! let suite = Suite::new("plain threads", |main| main()).plain_threads().rounds(20).fibers(8);
//! for case in cases().filter(|case| case.clauses.contains(&"T8")) {
//!     println!("{}: {}", case.name, case.about);
//!     assert_eq!(suite.run_case(case), Verdict::Passed);
//! }
//! ```
//!
//! # What hangs
//!
//! The fault to fear most is a lost wake-up, and it shows as a program that never ends. So a
//! watchdog looks at the suite: a case that has not ended after [a while](Suite::timeout) is named
//! on the standard error, with its clauses, with what it was doing and what it had seen, and the
//! process is aborted: a fiber that nobody wakes can't be taken down.
//!
//! # What it cannot see
//!
//! A case sees what a program sees. It finds a clause broken if a program can tell, and a race only
//! with luck, hence the number of [rounds](Suite::rounds). A header that is freed too early (clause
//! 4) is not seen here but by Miri or a sanitizer that runs the suite.

mod cancelling;
mod jobs;
mod places;
mod probe;
mod queues;
mod races;
mod report;
mod sources;
mod timers;
mod turns;
mod unwinding;
mod waits;
mod watchdog;

pub use report::{Case, Report, Verdict, Violation};
pub use sources::Sources;

use probe::{Probe, Runner, Setup};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use watchdog::Watchdog;

/// What a scheduler under test is to run: the first fiber.
pub type Main = Box<dyn FnOnce() + Send>;

/// Every case, in the order in which they run: what the others need comes first.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [
        jobs::FIRST,
        waits::CASES,
        timers::FIRST,
        places::CASES,
        cancelling::CASES,
        races::CASES,
        jobs::CASES,
        turns::CASES,
        timers::CASES,
        queues::CASES,
        unwinding::CASES,
    ]
    .into_iter()
    .flatten()
}

/// A scheduler under test, and what is known of it.
#[must_use = "a suite does nothing until it is checked"]
pub struct Suite {
    name: String,
    runner: Runner,
    setup: Setup,
    timeout: Duration,
}

impl Suite {
    /// A suite for the scheduler that `run` runs a fiber on. `run` is called several times in each
    /// case, from a plain thread, and returns when the fiber, and what it has detached, has ended.
    /// `name` stands in the report.
    pub fn new(name: impl Into<String>, run: impl Fn(Main) + Send + Sync + 'static) -> Self {
        // Interpreted, everything takes longer.
        let timeout = Duration::from_secs(if cfg!(miri) { 600 } else { 60 });
        Self { name: name.into(), runner: Arc::new(run), setup: Setup::default(), timeout }
    }

    /// Its fibers run on at most this many threads; one is strictly one. Unknown unless it is
    /// called.
    pub fn workers(mut self, workers: usize) -> Self {
        self.setup.workers = Some(workers);
        self
    }

    /// Work runs on plain threads: there is no lasting header, a wait blocks the thread, nothing is
    /// joined at the end of a run. Skips what speaks of fibers.
    pub fn plain_threads(mut self) -> Self {
        self.setup.plain_threads = true;
        self
    }

    /// What `run` is given runs on a fiber that somebody else's executor hosts; what that spawns
    /// runs on [plain threads](Suite::plain_threads).
    pub fn hosted(mut self) -> Self {
        self.setup.hosted = true;
        self.plain_threads()
    }

    /// What is detached outlives the run: it belongs to a runtime that goes on.
    pub fn detaches(mut self) -> Self {
        self.setup.detaches = true;
        self
    }

    /// Its world is closed and its clock simulated: what its fibers wait for from other threads
    /// counts as never coming. Skips the cases in which other threads or the real clock take part.
    pub fn simulated(mut self) -> Self {
        self.setup.simulated = true;
        self
    }

    /// A fiber that yields may keep all others from running, as clause 19 allows. Skips the cases
    /// that wait by yielding.
    pub fn unfair(mut self) -> Self {
        self.setup.unfair = true;
        self
    }

    /// The scheduler can be run inside of one of its own fibers, which then waits without blocking
    /// the others.
    pub fn nests(mut self) -> Self {
        self.setup.nests = true;
        self
    }

    /// How often each race is run: 10 000 times, unless this says otherwise (or Miri interprets
    /// it).
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.setup.rounds = Some(rounds);
        self
    }

    /// How many fibers are alive at once where many are: 500, or 64 plain threads.
    pub fn fibers(mut self, fibers: usize) -> Self {
        self.setup.fibers = Some(fibers);
        self
    }

    /// How long one case may take before it counts as hanging, and the process is aborted: a
    /// minute, unless this says otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs every case and reports on each.
    #[must_use]
    pub fn run(&self) -> Report {
        self.run_cases(cases())
    }

    /// Runs every case.
    ///
    /// # Panics
    /// With a report that names each broken clause and what was seen.
    #[track_caller]
    pub fn check(&self) {
        self.run().unwrap();
    }

    /// Runs the case of that name.
    ///
    /// # Panics
    /// If it fails, with a report; or if there is no such case.
    #[track_caller]
    pub fn check_case(&self, name: &str) {
        let case = cases().find(|case| case.name == name);
        let case = case.unwrap_or_else(|| panic!("no case is called `{name}`; `conformance::cases` lists them"));
        self.run_cases([case]).unwrap();
    }

    /// Runs one case.
    #[must_use]
    pub fn run_case(&self, case: &'static Case) -> Verdict {
        self.run_after(&self.report(), case)
    }

    fn report(&self) -> Report {
        Report { scheduler: self.name.clone(), results: Vec::new() }
    }

    /// Runs one case. If it hangs, `before` is printed too.
    fn run_after(&self, before: &Report, case: &'static Case) -> Verdict {
        if let Some(why) = case.needs.iter().find_map(|need| self.setup.lacks(*need)) {
            return Verdict::Skipped(why);
        }
        let probe = Probe::new(self.setup, Arc::clone(&self.runner));
        let _watched = Watchdog::start(before, case, &probe, self.timeout);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| case.run(&probe))) {
            probe.take_note_of(payload);
        }
        match probe.seen() {
            seen if seen.is_empty() => Verdict::Passed,
            seen => Verdict::Failed(seen),
        }
    }

    fn run_cases(&self, cases: impl IntoIterator<Item = &'static Case>) -> Report {
        let mut report = self.report();
        for case in cases {
            let verdict = self.run_after(&report, case);
            report.results.push((case, verdict));
        }
        report
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite").field("name", &self.name).field("setup", &self.setup).finish_non_exhaustive()
    }
}
