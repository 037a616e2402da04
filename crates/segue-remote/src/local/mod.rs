//! The engine of this process: a queue, leases and records in memory.
//!
//! Used by local pools. Time is that of the calling fiber, so that a simulation's holds.
//!
//! A job is in the table from its submission to its end, and in one of three places: ready, in the
//! line of its kind; leased, with an end; or put back, until its delay is over. The heap has one
//! entry for each job of the latter two. As its time comes, an entry looks at its job: a lease
//! that was extended meanwhile gets a new entry, any other job is ready again. So an extension
//! costs nothing but a store. A lease that is held has no end.
//!
//! **Memory.** A record without a key is forgotten when its submitter has read it, one with a key
//! is kept for its time. Lines, heap and ages have entries of jobs and records that are no more;
//! each is swept when these are more than half.

use crate::engine::{DeadLetter, Engine, EngineError, Envelope, Kind, Lease, Leases, Record, Signals, id};
use crate::options::Options;
use segue::select;
use segue::sync::Notify;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many dead letters are kept.
const LETTERS: usize = 1000;

/// The engine of this process.
#[derive(Clone)]
pub(crate) struct Local(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// A job is ready, or the engine is closed.
    ready: Notify,
    signals: Signals,
    prefix: String,
    max_jobs: u64,
    ack_wait: Duration,
    keep_results: Duration,
}

#[derive(Default)]
struct State {
    jobs: HashMap<String, Entry>,
    lines: HashMap<Kind, VecDeque<String>>,
    due: BinaryHeap<Reverse<(Instant, String, u64)>>,
    records: HashMap<String, Record>,
    ages: VecDeque<(Instant, String)>,
    letters: VecDeque<DeadLetter>,
    known: HashSet<Kind>,
    tickets: u64,
    is_closed: bool,
}

struct Entry {
    job: Envelope,
    since: Instant,
    attempts: u64,
    /// The end of a lease or of a delay; none in a line.
    away_until: Option<Instant>,
    /// Whether the lease has no end.
    is_held: bool,
    ticket: u64,
}

/// Whether so many entries are too many for so many jobs.
fn is_stale(entries: usize, jobs: usize) -> bool {
    entries > 64 + 2 * jobs
}

impl State {
    /// Puts a job into the line of its kind.
    fn line_up(&mut self, kind: &Kind, id: String) {
        let line = self.lines.entry(kind.clone()).or_default();
        line.push_back(id);
        if is_stale(line.len(), self.jobs.len()) {
            line.retain(|id| self.jobs.contains_key(id));
        }
    }

    /// Looks at this job then.
    fn look_at(&mut self, at: Instant, id: String, ticket: u64) {
        self.due.push(Reverse((at, id, ticket)));
        if is_stale(self.due.len(), self.jobs.len()) {
            let jobs = &self.jobs;
            let is_of = |entry: &Entry, ticket| entry.ticket == ticket && !entry.is_held;
            self.due.retain(|Reverse((_, id, ticket))| jobs.get(id).is_some_and(|entry| is_of(entry, *ticket)));
        }
    }

    /// After the end of its lease or delay a job is ready. Answers whether there were any.
    fn bring_back(&mut self, now: Instant) -> bool {
        let mut any = false;
        while self.due.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, id, ticket))) = self.due.pop() else { break };
            let Some(entry) = self.jobs.get_mut(&id).filter(|entry| entry.ticket == ticket) else { continue };
            match entry.away_until {
                Some(_) if entry.is_held => {}
                Some(until) if until > now => self.due.push(Reverse((until, id, ticket))),
                Some(_) => {
                    entry.away_until = None;
                    let kind = entry.job.kind.clone();
                    self.line_up(&kind, id);
                    any = true;
                }
                None => {}
            }
        }
        any
    }

    fn forget_old(&mut self, now: Instant) {
        while self.ages.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, id)) = self.ages.pop_front() {
                self.records.remove(&id);
            }
        }
    }

    /// The next job of this kind.
    fn take(&mut self, kind: &Kind, now: Instant, ack_wait: Duration) -> Option<Lease> {
        let line = self.lines.get_mut(kind)?;
        loop {
            let id = line.pop_front()?;
            // A job that was finished stays in its line.
            let Some(entry) = self.jobs.get_mut(&id).filter(|entry| entry.away_until.is_none()) else { continue };
            self.tickets += 1;
            entry.attempts += 1;
            entry.ticket = self.tickets;
            entry.away_until = Some(now + ack_wait);
            entry.is_held = false;
            let lease = Lease {
                job: entry.job.clone(),
                attempt: entry.attempts,
                age: now.saturating_duration_since(entry.since),
                ticket: self.tickets.to_string(),
            };
            self.look_at(now + ack_wait, id, self.tickets);
            return Some(lease);
        }
    }

    fn leased(&mut self, lease: &Lease) -> Option<&mut Entry> {
        self.jobs.get_mut(&lease.job.id).filter(|entry| entry.ticket.to_string() == lease.ticket)
    }

    /// Stores a record, unless there is or was one, and takes the job out. Answers whether this
    /// record is the first, and whether a worker had the job.
    fn finish(&mut self, id: &str, record: &Record, until: Instant, by_worker: bool) -> (bool, bool) {
        let entry = self.jobs.remove(id);
        let was_leased = entry.as_ref().is_some_and(|entry| entry.away_until.is_some());
        // The record of a job that has left the table may be forgotten.
        let is_first = !self.records.contains_key(id) && (entry.is_some() || !by_worker);
        if is_first {
            self.records.insert(id.to_owned(), record.clone());
            self.ages.push_back((until, id.to_owned()));
            if is_stale(self.ages.len(), self.records.len()) {
                self.ages.retain(|(_, id)| self.records.contains_key(id));
            }
        }
        (is_first, was_leased)
    }

    /// Has a lease's job ready again after this time.
    fn put_back(&mut self, lease: &Lease, until: Instant, counts: bool) {
        self.tickets += 1;
        let ticket = self.tickets;
        if let Some(entry) = self.leased(lease) {
            (entry.ticket, entry.away_until, entry.is_held) = (ticket, Some(until), false);
            entry.attempts -= u64::from(!counts);
            self.look_at(until, lease.job.id.clone(), ticket);
        }
    }
}

impl Local {
    pub(crate) fn new(options: &Options) -> Self {
        let &Options { max_jobs, ack_wait, keep_results, .. } = options;
        let (ready, signals, prefix) = (Notify::new(), Signals::new(), id::prefix());
        Self(Arc::new(Shared { state: Mutex::default(), ready, signals, prefix, max_jobs, ack_wait, keep_results }))
    }

    /// Ends the streams of leases.
    pub(crate) fn close(&self) {
        self.0.state().is_closed = true;
        self.0.ready.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Local {
    fn enqueue(&self, job: &Envelope) -> Result<(), EngineError> {
        segue::check()?;
        let now = segue::now();
        {
            let mut state = self.0.state();
            if state.is_closed {
                return Err(EngineError::Closed);
            }
            if state.jobs.contains_key(&job.id) {
                return Ok(());
            }
            if state.jobs.len() as u64 >= self.0.max_jobs {
                return Err(EngineError::Full);
            }
            let entry =
                Entry { job: job.clone(), since: now, attempts: 0, away_until: None, is_held: false, ticket: 0 };
            state.jobs.insert(job.id.clone(), entry);
            state.line_up(&job.kind, job.id.clone());
        }
        self.0.ready.notify_all();
        Ok(())
    }

    fn lease(&self, kind: &Kind) -> Result<Box<dyn Leases>, EngineError> {
        self.0.state().known.insert(kind.clone());
        Ok(Box::new(LocalLeases { shared: Arc::clone(&self.0), kind: kind.clone() }))
    }

    fn extend(&self, lease: &Lease) -> Result<(), EngineError> {
        let until = segue::now() + self.0.ack_wait;
        let mut state = self.0.state();
        if let Some(entry) = state.leased(lease).filter(|entry| entry.away_until.is_some()) {
            entry.away_until = Some(until);
            if std::mem::take(&mut entry.is_held) {
                let ticket = entry.ticket;
                state.look_at(until, lease.job.id.clone(), ticket);
            }
        }
        Ok(())
    }

    fn hold(&self, lease: &Lease) -> bool {
        if let Some(entry) = self.0.state().leased(lease).filter(|entry| entry.away_until.is_some()) {
            entry.is_held = true;
        }
        true
    }

    fn finish(&self, id: &str, record: &Record, lease: Option<&Lease>) -> Result<bool, EngineError> {
        let until = segue::now() + self.0.keep_results;
        let (is_first, was_leased) = self.0.state().finish(id, record, until, lease.is_some());
        if lease.is_none() && is_first && was_leased {
            self.0.signals.cancelled(id);
        }
        self.0.signals.finished(id);
        Ok(is_first)
    }

    fn give_up(&self, lease: &Lease, record: &Record, reason: &str) -> Result<bool, EngineError> {
        let until = segue::now() + self.0.keep_results;
        let id = &lease.job.id;
        let is_first = {
            let mut state = self.0.state();
            let (is_first, _) = state.finish(id, record, until, true);
            if is_first {
                state.letters.push_back(DeadLetter::new(lease, reason));
                if state.letters.len() > LETTERS {
                    state.letters.pop_front();
                }
            }
            is_first
        };
        self.0.signals.finished(id);
        Ok(is_first)
    }

    fn put_back(&self, lease: &Lease, delay: Duration) -> Result<(), EngineError> {
        self.0.state().put_back(lease, segue::now() + delay, true);
        self.0.ready.notify_all();
        Ok(())
    }

    fn give_back(&self, lease: &Lease) -> Result<(), EngineError> {
        self.0.state().put_back(lease, segue::now(), false);
        self.0.ready.notify_all();
        Ok(())
    }

    fn forget(&self, id: &str) {
        self.0.state().records.remove(id);
    }

    fn read(&self, id: &str) -> Result<Option<Record>, EngineError> {
        let now = segue::now();
        let mut state = self.0.state();
        state.forget_old(now);
        Ok(state.records.get(id).cloned())
    }

    fn is_queued(&self, _: &Kind, id: &str) -> Result<bool, EngineError> {
        Ok(self.0.state().jobs.contains_key(id))
    }

    fn knows(&self, kind: &Kind) -> Result<bool, EngineError> {
        Ok(self.0.state().known.contains(kind))
    }

    fn dead_letters(&self, most: usize) -> Result<Vec<DeadLetter>, EngineError> {
        Ok(self.0.state().letters.iter().take(most).cloned().collect())
    }

    fn signals(&self) -> &Signals {
        &self.0.signals
    }

    fn prefix(&self) -> &str {
        &self.0.prefix
    }

    fn flush(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

struct LocalLeases {
    shared: Arc<Shared>,
    kind: Kind,
}

impl Leases for LocalLeases {
    fn next(&mut self, _: usize) -> Result<Lease, EngineError> {
        loop {
            segue::check()?;
            // Made before the look: a job that comes after that ends the wait.
            let ready = self.shared.ready.wait_source();
            let now = segue::now();
            let (due, came_back) = {
                let mut state = self.shared.state();
                if state.is_closed {
                    return Err(EngineError::Closed);
                }
                state.forget_old(now);
                let came_back = state.bring_back(now);
                if let Some(lease) = state.take(&self.kind, now, self.shared.ack_wait) {
                    drop(state);
                    if came_back {
                        self.shared.ready.notify_all();
                    }
                    return Ok(lease);
                }
                (state.due.peek().map(|Reverse((at, ..))| *at), came_back)
            };
            if came_back {
                // Of other kinds.
                self.shared.ready.notify_all();
                continue;
            }
            select! {
                () = ready => (),
                deadline(due) => (),
            }?;
        }
    }
}
