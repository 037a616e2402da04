//! An exploration as a test: it panics with a report that says how to replay, and the environment
//! has a say.
//!
//! Used by the attribute `segue::test`, and by tests that are written without it.

use super::lab::{Closure, Program};
use super::trace::Told;
use super::{Explore, Explored, Schedule, Search, Verdict};
use std::env::{self, VarError};
use std::fmt::Display;
use std::str::FromStr;

/// A schedule to replay, or the seed of the first.
const SEED: &str = "SEGUE_SEED";

/// Whether a replay tells its turns.
const TRACE: &str = "SEGUE_TRACE";

/// How many schedules to try.
const SCHEDULES: &str = "SEGUE_SCHEDULES";

impl Explore {
    /// What reports say a failure is replayed by, after the environment variable. If nothing is
    /// said, it is `cargo test` with the name of the calling thread, which is the name of the test.
    pub fn command(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    /// As [`run`](Explore::run), for tests: panics if a schedule fails, with a command that replays
    /// it.
    ///
    /// The environment can change what is tried: `SEGUE_SEED=random-7`, or whatever schedule a
    /// report has named, tries that one alone; `SEGUE_SEED=7` tries seed 7 of `random` or `pct`;
    /// `SEGUE_SCHEDULES=100000` tries so many, from whatever seed. `SEGUE_TRACE=1` beside a
    /// schedule prints each turn of it: which fiber stops where, and which one goes on.
    ///
    /// # Panics
    /// If a schedule fails; if not all schedules were tried within the limit of an
    /// [exhaustive](Explore::exhaustive) exploration; if the variables can't be understood.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::Explore;
    ///
    /// let explored = Explore::exhaustive(100).check(|| {
    ///     let fiber = segue_core::spawn(|| 42);
    ///     assert_eq!(fiber.join().unwrap(), 42);
    /// });
    /// assert!(explored.complete);
    /// ```
    pub fn check<T: Verdict>(&self, f: impl Fn() -> T) -> Explored {
        self.check_with(variable(SEED), variable(SCHEDULES), &Closure::new(f))
    }

    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    fn check_with(&self, seed: Option<String>, schedules: Option<u64>, program: &dyn Program) -> Explored {
        let mut explore = self.clone();
        explore.schedules = schedules.unwrap_or(explore.schedules);
        let found = match seed.map(|seed| (seed.parse::<u64>(), seed)) {
            None => explore.explore(program),
            Some((Ok(seed), _)) if matches!(self.search, Search::Random | Search::Pct { .. }) => {
                explore.seed = seed;
                explore.schedules = schedules.unwrap_or(1);
                explore.explore(program)
            }
            Some((_, text)) => {
                let schedule: Schedule = text.parse().unwrap_or_else(|error| panic!("{SEED}: {error}"));
                let told = match env::var_os(TRACE) {
                    Some(value) if value != "0" => Told::Aloud,
                    _ => Told::OutOfOrder,
                };
                let replayed = explore.replay_told(&schedule, Some(told), program);
                replayed.map(|()| Explored { schedules: 1, ..Explored::default() })
            }
        };
        match found {
            Ok(found)
                if self.search == Search::Exhaustive && found.schedules >= explore.schedules && !found.complete =>
            {
                panic!(
                    "{} schedules have passed, and there are others: allow more, or try some with `random` or `pct`",
                    found.schedules
                )
            }
            Ok(found) => found,
            Err(failure) => {
                let schedule = failure.plainest();
                let command = explore.replay_command();
                panic!("{failure}\n  to replay it: {SEED}={schedule} {command}\n  {TRACE}=1 beside it prints each turn")
            }
        }
    }

    fn replay_command(&self) -> String {
        let thread = std::thread::current();
        match (&self.command, thread.name()) {
            (Some(command), _) => command.clone(),
            (None, Some(name)) if name != "main" => format!("cargo test {name} -- --exact"),
            (None, _) => "cargo test".to_owned(),
        }
    }
}

fn variable<T: FromStr<Err: Display>>(name: &str) -> Option<T> {
    match env::var(name) {
        Ok(text) => Some(text.parse().unwrap_or_else(|error| panic!("{name}={text} can't be understood: {error}"))),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => panic!("{name} is not text"),
    }
}
