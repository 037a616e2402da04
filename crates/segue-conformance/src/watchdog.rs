//! The watchdog: says which case hangs, and ends the process.
//!
//! Used by the suite around each case. A thread sleeps as long as a case may take; the end of the
//! case wakes it first.

use crate::probe::Probe;
use crate::report::{Case, Report};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// Looks at a case until it is dropped.
pub(crate) struct Watchdog {
    /// Its end wakes the thread.
    _alive: Sender<()>,
}

impl Watchdog {
    /// `before` is what the cases before it have shown.
    ///
    /// # Panics
    /// If no thread can be started: an unwatched case could hang without a word.
    pub(crate) fn start(before: &Report, case: &'static Case, probe: &Probe, timeout: Duration) -> Self {
        let (alive, ended) = mpsc::channel();
        let mut told = String::new();
        for (earlier, violation) in before.violations() {
            // Writing to a string does not fail.
            let _ = writeln!(told, "  seen by {}: {violation}", earlier.name);
        }
        let (scheduler, probe) = (before.scheduler.clone(), probe.clone());
        let watch = move || {
            if ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
                bark(&scheduler, case, &probe, timeout, &told);
            }
        };
        thread::Builder::new().name("segue-watchdog".to_owned()).spawn(watch).expect("a thread for the watchdog");
        Self { _alive: alive }
    }
}

fn bark(scheduler: &str, case: &Case, probe: &Probe, timeout: Duration, told_before: &str) -> ! {
    let mut message = format!(
        "segue conformance: `{scheduler}` hangs in the case {} (clauses {}): {}\n",
        case.name,
        case.clauses.join(", "),
        case.about,
    );
    let _ = writeln!(message, "  it has not ended within {timeout:?}; a wake-up was lost, most likely");
    let at = probe.step();
    if !at.is_empty() {
        let _ = writeln!(message, "  it waits for: {at}");
    }
    for violation in probe.seen() {
        let _ = writeln!(message, "  seen by it: {violation}");
    }
    message.push_str(told_before);
    // Straight to the descriptor: what test harnesses capture is lost with the process.
    let _ = std::io::stderr().write_all(message.as_bytes());
    std::process::abort()
}
