//! The conformance suite passes what keeps the contract, and finds the clause that a planted fault
//! breaks.
#![cfg(not(loom))]

#[path = "common/planted.rs"]
mod planted;

use planted::Fault;
use segue_conformance::{Suite, Verdict, cases, this_program};
use std::collections::HashSet;
use std::process::Output;
use std::time::Duration;

fn threads() -> Suite {
    // Emulated, a thread takes milliseconds.
    let rounds = if option_env!("SEGUE_SMALL").is_some() { 500 } else { 10_000 };
    Suite::new("plain threads", |main| main()).plain_threads().rounds(rounds)
}

fn planted(fault: Fault) -> Suite {
    let suite = Suite::new(format!("{fault:?}"), move |main| planted::run(fault, main));
    // Each of its fibers is a thread.
    let rounds = if cfg!(miri) { 5 } else { 500 };
    suite.rounds(rounds).fibers(if cfg!(miri) { 4 } else { 32 })
}

#[test]
fn plain_threads_keep_the_contract() {
    threads().check();
}

#[test]
fn a_scheduler_without_a_fault_passes() {
    planted(Fault::None).check();
}

#[test]
fn cases_have_names_of_their_own_and_run_by_them() {
    let mut names = HashSet::new();
    for case in cases() {
        assert!(names.insert(case.name), "two cases are called {}", case.name);
        assert!(!case.clauses.is_empty() && !case.about.is_empty(), "{case:?} says nothing");
    }
    assert!(names.len() > 40, "{}", names.len());
    threads().check_case("signalled_before_the_wait");
    let nobody = std::panic::catch_unwind(|| threads().check_case("no_such_case"));
    assert!(nobody.is_err());
}

#[test]
fn what_does_not_apply_is_skipped_with_a_reason() {
    let report = threads().rounds(10).fibers(4).run();
    assert!(report.passed(), "{report}");
    let skipped = report.results().find(|(case, _)| case.name == "current_is_the_running_fiber").unwrap();
    assert!(matches!(skipped.1, Verdict::Skipped(why) if why.contains("plain threads")), "{report}");
    assert!(report.to_string().contains("0 failed"), "{report}");
}

#[test]
fn every_clause_that_a_program_can_see_has_a_case() {
    let checked: HashSet<_> = cases().flat_map(|case| case.clauses).copied().collect();
    // 6, 7, 16, 19 and 20 promise nothing that a program could miss.
    let visible = ["1", "2", "3", "4", "5", "8", "9", "10", "11", "12", "13", "14", "15", "17", "18"];
    let visible = visible.iter().chain(&["J1", "J2", "J3", "J4", "J5", "J7", "C1", "C2", "T2", "T3", "T6", "T7", "T8"]);
    for clause in visible {
        assert!(checked.contains(clause), "no case for clause {clause}");
    }
}

const CHILD: &str = "SEGUE_CONFORMANCE_CHILD";

/// Runs the suite, or one case of it, on a scheduler with a fault, in a process of its own: the
/// test of that name.
fn in_child(test: &str, fault: Fault, case: Option<&str>) -> Output {
    if std::env::var_os(CHILD).is_some() {
        let suite = planted(fault).timeout(Duration::from_secs(4));
        match case {
            Some(case) => suite.check_case(case),
            None => suite.check(),
        }
        std::process::exit(0);
    }
    let mut command = this_program();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").env("RUST_BACKTRACE", "0");
    command.output().unwrap()
}

/// A fault, the case to run if not all, and what the suite is to say of it.
macro_rules! finds {
    ($(#[$attribute:meta] $name:ident: $fault:ident, $case:expr, $says:expr;)*) => {$(
        #[test]
        #[$attribute]
        fn $name() {
            // Memory safety rests on what is broken here, so the process may be gone before it has
            // said so: some tries.
            let mut said = String::new();
            for _ in 0..8 {
                let output = in_child(stringify!($name), Fault::$fault, $case);
                assert!(!output.status.success(), "the suite has passed {:?}", Fault::$fault);
                said = String::from_utf8_lossy(&output.stderr).into_owned();
                if $says.iter().all(|says| said.contains(says)) {
                    break;
                }
            }
            for says in $says {
                assert!(said.contains(says), "the suite was to say {says:?} of {:?}, and said:\n{said}", Fault::$fault);
            }
        }
    )*};
}

finds! {
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_lost_wakes: LosesWakes, None, ["hangs in the case", "(clauses 1"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_lost_early_wakes: LosesEarlyWakes, None, ["hangs in the case resumed_before_it_suspends (clauses 1, 5)"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_ignored_interrupts: IgnoresInterrupts, None, ["hangs in the case a_cancellation_wakes_the_suspended (clauses 13"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_spurious_returns: ReturnsSpuriously, Some("no_return_without_a_resume"), ["clause 1: "];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_resumes_that_end_two_waits: ResumesTwice, Some("one_resume_ends_one_wait"), ["clause 1: "];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_jobs_that_run_inside_of_their_spawn: RunsInSpawn, None, ["clause 15: the job ran inside of the call of `spawn`"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_forgotten_jobs: LosesJobs, Some("many_jobs_run_once_each"), ["hangs in the case many_jobs_run_once_each (clauses 15, J1)"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_timers_that_nobody_fires: FiresNoTimers, None, ["hangs in the case a_sleep_lasts_as_long_as_it_says (clauses 17, 18)"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_fibers_that_are_not_current: SetsNoCurrent, None, ["clause 3: at its start `current` is 0x0"];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_timers_that_change: ChangesTimers, Some("a_fiber_keeps_its_timers"), ["clause 17: "];
    #[cfg_attr(miri, ignore = "it starts a process")]
    finds_detached_fibers_that_are_left: LeavesDetached, Some("detached_fibers_end_with_the_run"), ["clause J5: "];
}
