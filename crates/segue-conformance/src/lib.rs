//! The contract as a test suite: runs programs on a scheduler and names the broken clauses of
//! `docs/contract.md`.
//!
//! Used by the tests of schedulers, in a few lines; nothing here runs, or costs anything, without a
//! call.
//!
//! # Input of a suite
//!
//! A [`Suite`] is given a closure that runs a [`Main`] as a fiber of the scheduler (or thread, or
//! task) and returns when that has ended, together with all its detached fibers; and then the facts
//! about the scheduler: whether its spawned work runs on [plain threads](Suite::plain_threads),
//! whether its [world is simulated](Suite::simulated), whether it [can run inside of one of its own
//! fibers](Suite::nests). Cases that do not apply are skipped, and the report says so.
//!
//! # Examples
//!
//! ```
//! use segue_conformance::Suite;
//!
//! // The scheduler of plain threads, on which to spawn is to start another. No stress here: this is an example.
//! Suite::new("plain threads", |main| main()).plain_threads().rounds(20).fibers(8).check();
//! ```
//!
//! A harness that shows each case by itself goes through [`cases`]:
//!
//! ```
//! use segue_conformance::{Suite, Verdict, cases};
//!
//! let suite = Suite::new("plain threads", |main| main()).plain_threads().rounds(20).fibers(8);
//! for case in cases().filter(|case| case.clauses.contains(&"T8")) {
//!     println!("{}: {}", case.name, case.about);
//!     assert_eq!(suite.run_case(case), Verdict::Passed);
//! }
//! ```
//!
//! # Hangs
//!
//! The fault to fear most is a lost wake-up, which shows as a program that never ends. So a
//! watchdog looks at the suite: a case that has not ended after [a while](Suite::timeout) is named
//! on the standard error, with its clauses, with its last step and its observations, and the
//! process is aborted: a fiber that nobody wakes can't be taken down.
//!
//! # Limits
//!
//! A case sees no more than a program sees. A broken clause is found if a program can tell, and a
//! race only with luck, hence the number of [rounds](Suite::rounds). A header that is freed too
//! early (clause 4) is not seen here but by Miri or a sanitizer that runs the suite.

#![cfg(not(loom))]

mod again;
mod cancelling;
mod jobs;
mod places;
mod probe;
mod queues;
mod races;
mod report;
mod sources;
mod suite;
mod timers;
mod turns;
mod unwinding;
mod waits;
mod watchdog;

pub use again::this_program;
pub use probe::{Main, Violation};
pub use report::{Case, Report, Verdict};
pub use sources::Sources;
pub use suite::{Suite, cases};
