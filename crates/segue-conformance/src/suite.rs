//! The suite: a scheduler under test, the facts about that scheduler, and all cases in their order.
//!
//! Used by the tests of schedulers.

use crate::probe::{Main, Probe, Runner, Setup};
use crate::report::{Case, Report, Verdict};
use crate::watchdog::Watchdog;
use crate::{cancelling, jobs, places, queues, races, timers, turns, unwinding, waits};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Every case, in the order in which they run: the foundations of others come first.
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

/// A scheduler under test, and the facts about it.
#[must_use = "a suite does nothing until it is checked"]
pub struct Suite {
    name: String,
    runner: Runner,
    setup: Setup,
    timeout: Duration,
}

impl Suite {
    /// A suite for the scheduler that `run` runs a fiber on. `run` is called several times in each
    /// case, from a plain thread, and returns when the fiber, and all its detached ones, have
    /// ended. `name` stands in the report.
    pub fn new(name: impl Into<String>, run: impl Fn(Main) + Send + Sync + 'static) -> Self {
        // Interpreted, everything takes longer.
        let timeout = Duration::from_secs(if cfg!(miri) { 600 } else { 60 });
        Self { name: name.into(), runner: Arc::new(run), setup: Setup::default(), timeout }
    }

    /// Its fibers run on at most this many threads; one is strictly one. Unknown without this call.
    pub fn workers(mut self, workers: usize) -> Self {
        self.setup.workers = Some(workers);
        self
    }

    /// Work runs on plain threads: there is no lasting header, a wait blocks the thread, nothing is
    /// joined at the end of a run. Skips cases about fibers.
    pub fn plain_threads(mut self) -> Self {
        self.setup.plain_threads = true;
        self
    }

    /// The program runs on a fiber that somebody else's executor hosts; that fiber's children run
    /// on [plain threads](Suite::plain_threads).
    pub fn hosted(mut self) -> Self {
        self.setup.hosted = true;
        self.plain_threads()
    }

    /// Detached fibers outlive the run: they belong to a runtime that goes on.
    pub fn detaches(mut self) -> Self {
        self.setup.detaches = true;
        self
    }

    /// Its world is closed and its clock simulated: events from other threads count as never
    /// coming. Skips the cases in which other threads or the real clock take part.
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

    /// How often each race is run: 10 000 times, by default (fewer under Miri).
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
    /// minute, by default.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Runs every case and reports on each.
    #[must_use]
    pub fn run(&self) -> Report {
        self.run_cases(cases())
    }

    /// Runs every case.
    ///
    /// # Panics
    /// With a report that names each broken clause with the observation.
    #[track_caller]
    pub fn check(&self) {
        self.run().unwrap();
    }

    /// Runs the case of that name.
    ///
    /// # Panics
    /// On a failure, with a report; or if there is no such case.
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

    /// Runs one case. At a hang, `before` is printed too.
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

segue_core::impl_debug!([] Suite, |it| name: it.name, setup: it.setup);
