//! Reports that a debug build makes: of a fiber that blocks its worker, unless there is to be no
//! monitor, and of a scope that waits for long behind its body.

#![cfg(all(feature = "sched", debug_assertions, not(miri), not(feature = "threads")))]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

const CHILD: &str = "SEGUE_MONITORED";

/// In the child: blocks the worker until the parent closes the standard input. In the parent: the
/// lines of the report.
fn report_of(test: &str, run: impl FnOnce(&dyn Fn())) -> Option<Vec<String>> {
    if std::env::var_os(CHILD).is_some() {
        run(&|| drop(std::io::stdin().read_to_end(&mut Vec::new())));
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut report: Vec<String> = lines.by_ref().take(1).collect();
    // It has said something: the fiber may go on, and the child ends.
    drop(child.stdin.take());
    report.extend(lines);
    assert!(child.wait().unwrap().success(), "{report:?}");
    Some(report)
}

#[test]
fn a_debug_build_reports_a_fiber_that_blocks_its_worker() {
    let run = |block: &dyn Fn()| segue::run(|| segue::scope(|_| block()));
    let Some(report) = report_of("a_debug_build_reports_a_fiber_that_blocks_its_worker", run) else { return };
    let (_, held) = report[0].split_once("has been in fiber 0 for ").unwrap_or_else(|| panic!("{report:#?}"));
    let seconds = held.split('s').next().unwrap().parse::<f64>();
    assert!(seconds.is_ok_and(|seconds| seconds >= 1.0), "{report:#?}");
    assert!(report.iter().any(|line| line.contains("monitored::report_of")), "{report:#?}");
    assert!(report.len() < 60, "{report:#?}");
}

#[test]
fn a_runtime_may_be_without_one() {
    // The first fiber of an outer runtime that is watched blocks as long, and is reported by it
    // alone.
    let run = |block: &dyn Fn()| {
        let quiet = segue::runtime().no_monitor().name("quiet").pool().unwrap();
        segue::runtime()
            .workers(1)
            .name("watched")
            .run(|| {
                let (told, tell) = std::sync::mpsc::channel::<()>();
                let blocked = quiet.spawn(move || tell.recv().is_err());
                block();
                drop(told);
                assert!(blocked.join().unwrap());
            })
            .unwrap();
    };
    let Some(report) = report_of("a_runtime_may_be_without_one", run) else { return };
    let workers: Vec<_> = report.iter().filter(|line| line.starts_with("segue: worker ")).collect();
    assert!(matches!(workers[..], [line] if line.contains("worker watched-0")), "{report:#?}");
}

/// In the child: runs, with a wait that ends when the parent has read a report. In the parent: what
/// the child has said, with such a limit for its scopes.
fn said_of_scopes(test: &str, ms: &str, run: impl FnOnce(fn())) -> Option<String> {
    if std::env::var_os(CHILD).is_some() {
        run(|| drop(segue::blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))));
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").env("SEGUE_SCOPE_REPORT_MS", ms);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("ts body ") && stderr.read_line(&mut said).unwrap() > 0 {}
    drop(child.stdin.take());
    stderr.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    Some(said)
}

const MOMENT: Duration = Duration::from_millis(60);

/// What a child says whose run is not what the test is about.
const LATE: &str = "another time";

#[test]
fn a_scope_that_waits_for_long_behind_a_result_says_so_once_with_what_its_fibers_wait_for() {
    let run = |until_read: fn()| {
        segue::run(|| {
            for round in 0..2 {
                let ended = segue::scope(|s| {
                    let wait = move || if round == 0 { until_read() } else { segue::sleep(MOMENT).unwrap() };
                    segue::Builder::new().name("deaf").within(s).spawn(move || segue::timeout(Duration::MAX, wait));
                    "two".parse::<u32>()?;
                    Ok::<_, std::num::ParseIntError>(())
                });
                assert!(ended.is_err());
            }
        });
    };
    let test = "a_scope_that_waits_for_long_behind_a_result_says_so_once_with_what_its_fibers_wait_for";
    let Some(said) = said_of_scopes(test, "20", run) else { return };
    let here = "at crates/segue/tests/monitored.rs:";
    assert_eq!(said.matches("behind its body").count(), 1, "{said}");
    assert!(said.starts_with(&format!("segue: the scope {here}")), "{said}");
    assert!(
        said.contains(" has waited for 20ms behind its body for fibers that do not end:\n  fiber `deaf` waits for ")
    );
    assert!(said.lines().nth(1).unwrap().contains(here), "{said}");
    assert!(said.lines().nth(2).unwrap().contains("`try_scope` cancels the rest"), "{said}");
}

#[test]
fn a_scope_is_not_reported_whose_body_joins_whose_fibers_end_or_whose_time_is_virtual() {
    let run = |until_read: fn()| {
        segue::scope(|s| s.spawn(|| segue::sleep(MOMENT)).join().unwrap().unwrap());
        // Unless the machine has much else to do: its fiber does not end in time then.
        let began = std::time::Instant::now();
        segue::scope(|s| drop(s.spawn(segue::yield_now)));
        if began.elapsed() >= Duration::from_millis(20) {
            eprintln!("{LATE}");
        }
        let holds_up = || {
            // The clock of the simulation stands meanwhile.
            std::thread::sleep(MOMENT);
        };
        segue::testing::Sim::new(1).run(|| segue::scope(|s| drop(s.spawn(holds_up)))).unwrap();
        // A plain thread waits for fibers of the default runtime, of which one is further in.
        segue::scope(|s| {
            s.spawn_daemon(|| segue::scope(|s| s.spawn(|| segue::sleep(Duration::MAX)).join().unwrap()));
            drop(s.spawn(move || segue::shield(until_read)));
            segue::yield_now().unwrap();
        });
    };
    let test = "a_scope_is_not_reported_whose_body_joins_whose_fibers_end_or_whose_time_is_virtual";
    let mut late = 0;
    let said = loop {
        let Some(said) = said_of_scopes(test, "20", run) else { return };
        if !said.contains(LATE) {
            break said;
        }
        late += 1;
        assert!(late < 5, "a scope whose only fiber yields takes 20 ms each time");
    };
    assert_eq!(said.matches("behind its body").count(), 1, "{said}");
    assert!(said.contains("waits for a point in time at crates/segue/tests/monitored.rs:"), "{said}");
    assert!(said.contains("\nA scope whose body joins its fibers is not reported.\n"), "{said}");
}
