//! Scopes that wait for long behind their bodies: a debug build says so, once for each.
//!
//! Used by scopes, while they wait for fibers and daemons. A release build has `unwatched.rs` in
//! place of this.
//!
//! # The idea
//!
//! A scope can't see the value that its body returns. So an `Err` that leaves the body by `?`
//! cancels nobody, and a program that was to end hangs without a word. This file reports that: with
//! the line of the scope, and with the waits of its fibers.
//!
//! A scope that begins to wait enters itself into a list, in the order of time, as all have the
//! same limit; and takes its entry out at the end of the wait. A thread, the *watcher*, which
//! starts with the first entry, looks at the front of the list when that is overdue. So an entry
//! costs a lock and hardly ever a system call: a watcher that has found the list empty sleeps until
//! an entry wakes the thread, and any other sleeps until the time of the entry that was the first.
//!
//! # States of an entry
//!
//! ```text
//!   listed --the scope: the wait is over--> gone
//!   listed --watcher: overdue--> reported, if nobody has reported a scope of that line; gone
//! ```
//!
//! **The race to fear**: the scope ends while the watcher looks at its fibers. The watcher looks
//! under the lock of the list, which the scope takes before its end; fibers are looked at under the
//! lock of their context, which they take before their end. Nothing is printed under a lock: a
//! standard error that nobody reads holds up the watcher alone.
//!
//! Scopes of a simulation are not watched: its clock is virtual, and the simulator reports
//! deadlocks itself.

use crate::contract::current::with_running;
use crate::contract::fiber::Fiber;
use crate::primitives::at_end::at_end;
use crate::tree::context::Context;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a scope may wait unnoticed.
const LIMIT: Duration = Duration::from_secs(5);

/// In the environment: the limit in milliseconds; 0 for no reports.
const VARIABLE: &str = "SEGUE_SCOPE_REPORT_MS";

/// How many fibers a report lists.
const MOST_FIBERS: usize = 16;

/// A scope that waits.
struct Waiting {
    context: Arc<Context>,
    at: &'static Location<'static>,
    is_lost: fn() -> bool,
    since: Instant,
}

#[derive(Default)]
struct Watch {
    waiting: BTreeMap<u64, Waiting>,
    /// How many have been entered.
    entered: u64,
    /// The lines that were reported.
    reported: HashSet<&'static Location<'static>>,
    watcher: Option<Thread>,
    /// Whether the watcher looks at the list by itself.
    is_awake: bool,
}

static WATCH: LazyLock<Mutex<Watch>> = LazyLock::new(Mutex::default);

fn lock() -> MutexGuard<'static, Watch> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches the scope at `at`, with this context, until the answer is dropped. If `is_lost` says so,
/// its body returns a `Result`.
pub(super) fn watch(
    context: &Arc<Context>,
    at: &'static Location<'static>,
    is_lost: fn() -> bool,
) -> Option<impl Drop + use<>> {
    // A model has no time, and Miri no thread that outlives the main one.
    let limit = limit().filter(|_| cfg!(not(any(miri, loom))))?;
    let is_simulated = |fiber: &Fiber| !fiber.scheduler().timers().is_real();
    if with_running(|fiber| fiber.is_some_and(is_simulated)) {
        return None;
    }
    let waiting = Waiting { context: Arc::clone(context), at, is_lost, since: Instant::now() };
    let mut watch = lock();
    let number = watch.entered;
    watch.entered += 1;
    watch.waiting.insert(number, waiting);
    if !watch.is_awake {
        match &watch.watcher {
            Some(watcher) => watcher.unpark(),
            None => {
                let watcher =
                    thread::Builder::new().name("segue-scopes".to_owned()).spawn(move || look_for_ever(limit));
                watch.watcher = watcher.ok().map(|watcher| watcher.thread().clone());
            }
        }
        // If there is no thread to be had, the next scope tries again.
        watch.is_awake = watch.watcher.is_some();
    }
    drop(watch);
    Some(at_end(move || {
        let over = lock().waiting.remove(&number);
        drop(over);
    }))
}

/// `None` for no reports.
fn limit() -> Option<Duration> {
    static SET: OnceLock<Option<Duration>> = OnceLock::new();
    *SET.get_or_init(|| {
        let set = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        let limit = set.map_or(LIMIT, Duration::from_millis);
        (!limit.is_zero()).then_some(limit)
    })
}

fn look_for_ever(limit: Duration) {
    loop {
        let (reports, pause) = lock().look(limit);
        for report in reports {
            // Not by `eprintln`, which panics at a closed stream.
            let _ = io::stderr().write_all(report.as_bytes());
        }
        match pause {
            Some(pause) => thread::park_timeout(pause),
            None => thread::park(),
        }
    }
}

impl Watch {
    /// Takes the overdue ones out. Answers with their report, and the time until the next one may
    /// be overdue; `None` if there is none.
    fn look(&mut self, limit: Duration) -> (Vec<String>, Option<Duration>) {
        let mut reports = Vec::new();
        while let Some(first) = self.waiting.first_entry() {
            let left = limit.saturating_sub(first.get().since.elapsed());
            if !left.is_zero() {
                return (reports, Some(left));
            }
            // Not the last owner of the context: its scope waits still.
            let overdue = first.remove();
            if self.reported.insert(overdue.at) {
                reports.push(overdue.report(limit));
            }
        }
        self.is_awake = false;
        (reports, None)
    }
}

impl Waiting {
    fn report(&self, limit: Duration) -> String {
        let cancelled = if self.context.is_cancelled() { ", although it is cancelled" } else { "" };
        let mut text = format!(
            "segue: the scope at {} has waited for {limit:?} behind its body for fibers that do not end{cancelled}:\n",
            self.at
        );
        let waits = self.context.waits(MOST_FIBERS + 1);
        for line in waits.iter().take(MOST_FIBERS) {
            let _ = writeln!(text, "  {line}");
        }
        text += match waits.len() {
            0 => "  none is suspended outside of a shield: they are tasks, compute, block, or have not begun\n",
            len if len > MOST_FIBERS => "  and others\n",
            _ => "",
        };
        if (self.is_lost)() {
            text += "Its body has returned a `Result`. If that is an `Err`, the fibers do not know: a `scope` cancels \
                     nothing for it. `try_scope` cancels the rest, and returns the error.\n";
        } else {
            text += "A scope whose body joins its fibers is not reported.\n";
        }
        text
    }
}
