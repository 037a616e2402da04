//! Hints: of records, to submitters; of cancellations, to workers.
//!
//! Used by engines, which call them when they hear something, by the pool and by the workers.
//!
//! A hint may be lost, or come twice, or for nothing: a submitter reads at intervals besides, and a
//! job that was not told of its cancellation has a result that comes second. A cancellation that
//! arrives before its job does is remembered for [`REMEMBERED_FOR`], among the last
//! [`REMEMBERED`] ones: the job is on its way then. Each lock is held for a few lines that call
//! nothing of others; wake-ups and cancellations happen after that.

use segue::CancelToken;
use segue::sync::Notify;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many cancellations are remembered whose job was not there.
const REMEMBERED: usize = 1024;
/// For how long: a later job of the same key is another one.
const REMEMBERED_FOR: Duration = Duration::from_secs(3);

/// The hints of one engine. See [`Engine::signals`](super::Engine::signals).
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    expected: Mutex<HashMap<String, Vec<Arc<Notify>>>>,
    running: Mutex<Runs>,
    losses: AtomicU64,
}

#[derive(Debug, Default)]
struct Runs {
    tokens: HashMap<String, Vec<(u64, CancelToken)>>,
    next: u64,
    early: VecDeque<(Instant, String)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signals {
    /// Hints for a new engine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// There is a record of this job: the job's submitters read now. Never waits.
    pub fn finished(&self, id: &str) {
        let found = lock(&self.0.expected).get(id).cloned().unwrap_or_default();
        found.iter().for_each(|notify| notify.notify_one());
    }

    /// Hints may have been lost: all submitters read now. Never waits.
    pub fn lost(&self) {
        self.0.losses.fetch_add(1, Ordering::AcqRel);
        let all: Vec<Arc<Notify>> = lock(&self.0.expected).values().flatten().cloned().collect();
        all.iter().for_each(|notify| notify.notify_one());
    }

    /// Nobody wants the result of this job any more. Never waits.
    pub fn cancelled(&self, id: &str) {
        let now = segue::now();
        let found = {
            let mut running = lock(&self.0.running);
            let found = running.tokens.get(id).cloned().unwrap_or_default();
            if found.is_empty() {
                running.early.push_back((now, id.to_owned()));
                if running.early.len() > REMEMBERED {
                    running.early.pop_front();
                }
            }
            found
        };
        found.iter().for_each(|(_, token)| token.cancel());
    }

    /// How many submitters wait, and how many jobs run, for tests of what is left behind.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let expected = lock(&self.0.expected).values().map(Vec::len).sum();
        (expected, lock(&self.0.running).tokens.values().map(Vec::len).sum())
    }

    /// How often hints may have been lost.
    pub(crate) fn losses(&self) -> u64 {
        self.0.losses.load(Ordering::Acquire)
    }

    /// Registers a submitter of this job.
    pub(crate) fn expect(&self, id: &str) -> Expected {
        let notify = Arc::new(Notify::new());
        lock(&self.0.expected).entry(id.to_owned()).or_default().push(Arc::clone(&notify));
        Expected { signals: self.clone(), id: id.to_owned(), notify }
    }

    /// Registers a run of this job.
    pub(crate) fn run(&self, id: &str) -> Running {
        let (token, now) = (CancelToken::new(), segue::now());
        let (number, is_early) = {
            let mut running = lock(&self.0.running);
            running.next += 1;
            let number = running.next;
            running.tokens.entry(id.to_owned()).or_default().push((number, token.clone()));
            let is_recent = |at: Instant| now.saturating_duration_since(at) < REMEMBERED_FOR;
            (number, running.early.iter().any(|(at, early)| early == id && is_recent(*at)))
        };
        if is_early {
            token.cancel();
        }
        Running { signals: self.clone(), id: id.to_owned(), number, token }
    }
}

/// A submitter that waits for a record.
pub(crate) struct Expected {
    signals: Signals,
    id: String,
    pub(crate) notify: Arc<Notify>,
}

impl Drop for Expected {
    fn drop(&mut self) {
        let mut expected = lock(&self.signals.0.expected);
        if let Some(all) = expected.get_mut(&self.id) {
            all.retain(|notify| !Arc::ptr_eq(notify, &self.notify));
            if all.is_empty() {
                expected.remove(&self.id);
            }
        }
    }
}

/// A run of a job, which its token cancels.
pub(crate) struct Running {
    signals: Signals,
    id: String,
    number: u64,
    pub(crate) token: CancelToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut running = lock(&self.signals.0.running);
        if let Some(all) = running.tokens.get_mut(&self.id) {
            all.retain(|(number, _)| *number != self.number);
            if all.is_empty() {
                running.tokens.remove(&self.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_before_its_job_is_remembered_and_old_ones_are_not() {
        let signals = Signals::new();
        signals.cancelled("early");
        assert!(signals.run("early").token.is_cancelled());
        assert!(!signals.run("other").token.is_cancelled());
        (0..REMEMBERED).for_each(|n| signals.cancelled(&n.to_string()));
        assert!(!signals.run("early").token.is_cancelled());
        let ran = segue::testing::Sim::new(1).run(|| {
            signals.cancelled("key");
            segue::sleep(REMEMBERED_FOR).unwrap();
            assert!(!signals.run("key").token.is_cancelled());
        });
        ran.unwrap();
    }

    #[test]
    fn hints_reach_each_submitter_and_nothing_is_left() {
        let signals = Signals::new();
        let (one, other) = (signals.expect("a"), signals.expect("a"));
        signals.finished("b");
        assert!(!one.notify.try_wait());
        signals.finished("a");
        assert!(one.notify.try_wait() && other.notify.try_wait());
        signals.lost();
        assert!(one.notify.try_wait());
        let running = signals.run("a");
        assert_eq!(signals.counts(), (2, 1));
        signals.cancelled("a");
        assert!(running.token.is_cancelled());
        drop((one, other, running));
        assert_eq!(signals.counts(), (0, 0));
    }
}
