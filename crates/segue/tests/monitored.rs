//! The monitor that a debug build has: it reports a fiber that blocks its worker, unless that was
//! said not to be.

#![cfg(all(feature = "sched", debug_assertions, not(miri), not(feature = "threads")))]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

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
    assert!(report[0].contains("has been in fiber 0 for 1."), "{report:#?}");
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
