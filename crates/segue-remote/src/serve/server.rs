//! Leases are taken, held, and extended.
//!
//! Used by workers and by local pools.
//!
//! **Extensions.** Jobs that compute fill all threads of their scheduler, so a thread of its own
//! extends the leases that the engine does not [hold](Engine::hold). The thread begins with the
//! first such lease. After a reconnect, and in each tenth round, the thread also reads whether a
//! held job has a record: the hint of a cancellation may be lost.

use super::attempt::{Counts, Work, attempt};
use super::handler::Handler;
use crate::engine::{Engine, EngineError, Lease};
use crate::options::{Log, Options};
use segue::sync::{Semaphore, WaitGroup};
use segue::{CancelToken, shield, sleep, timeout};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a worker that takes no more jobs waits for the engine to know.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// All that the fibers of one worker share.
pub(crate) struct Server {
    work: Arc<Work>,
    ack_wait: Duration,
    held: Mutex<HashMap<u64, Arc<Lease>>>,
    next: AtomicU64,
    /// Of leases that are held.
    under_way: WaitGroup,
    /// Ends the fibers that take leases.
    leasing: CancelToken,
    /// Ends the thread that extends them.
    extending: CancelToken,
    extends: Once,
}

/// A lease that is held, until this is dropped.
struct Held {
    server: Arc<Server>,
    number: u64,
    lease: Arc<Lease>,
    has_ended: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.has_ended {
            // Its fiber was cut off: the lease has an end again.
            let _comes_back_later = self.server.work.engine.extend(&self.lease);
        }
        self.server.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        self.server.under_way.done();
    }
}

impl Server {
    pub(crate) fn new(engine: Arc<dyn Engine>, options: &Options, at_most: usize) -> Self {
        Self::with(engine, options.log.clone(), options.retry_after, options.ack_wait, at_most)
    }

    pub(crate) fn with(
        engine: Arc<dyn Engine>,
        log: Log,
        retry_after: Duration,
        ack_wait: Duration,
        at_most: usize,
    ) -> Self {
        Self {
            work: Arc::new(Work {
                engine,
                log,
                retry_after,
                slots: Semaphore::new(at_most.max(1)),
                abort: CancelToken::new(),
                counts: Counts::default(),
            }),
            ack_wait,
            held: Mutex::default(),
            next: AtomicU64::new(0),
            under_way: WaitGroup::new(),
            leasing: CancelToken::new(),
            extending: CancelToken::new(),
            extends: Once::new(),
        }
    }

    /// Takes leases of this kind and runs their jobs, until told to stop.
    pub(crate) fn serve(self: &Arc<Self>, handler: Handler) {
        let leasing = self.leasing.clone();
        let end = leasing.run(|| self.take_leases(&handler));
        if !matches!(end, EngineError::Cancelled(_) | EngineError::Closed) {
            self.work.log.say(&format!("{}: takes no more jobs: {end}", handler.kind));
        }
    }

    fn take_leases(self: &Arc<Self>, handler: &Handler) -> EngineError {
        let mut leases = loop {
            match self.work.engine.lease(&handler.kind) {
                Ok(leases) => break leases,
                Err(error) if error.is_passing() => self.work.log.say(&format!("{}: {error}", handler.kind)),
                Err(error) => return error,
            }
            if let Err(cancelled) = sleep(Duration::from_millis(250)) {
                return cancelled.into();
            }
        };
        let end = loop {
            // Wait for a slot, and leave it to the job that comes.
            match self.work.slots.acquire() {
                Ok(permit) => drop(permit),
                Err(_) => break EngineError::Closed,
            }
            match leases.next(self.work.slots.available_permits().max(1)) {
                Ok(lease) => self.start(handler, lease),
                Err(error) if error.is_passing() => {
                    self.work.log.say(&format!("{}: {error}", handler.kind));
                    if let Err(cancelled) = sleep(Duration::from_millis(100)) {
                        break cancelled.into();
                    }
                }
                Err(error) => break error,
            }
        };
        shield(|| timeout(ENDS_WITHIN, || leases.end()));
        end
    }

    fn start(self: &Arc<Self>, handler: &Handler, lease: Lease) {
        let (number, lease) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(lease));
        self.under_way.add(1);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&lease));
        if !self.work.engine.hold(&lease) {
            self.extends.call_once(|| self.begin_extending());
        }
        let held = Held { server: Arc::clone(self), number, lease, has_ended: false };
        let handler = handler.clone();
        segue::spawn(move || {
            let mut held = held;
            attempt(&held.server.work, &handler, &held.lease);
            held.has_ended = true;
        });
    }

    fn begin_extending(self: &Arc<Self>) {
        let server = Arc::clone(self);
        let thread = thread::Builder::new().name("segue-remote-leases".to_owned());
        if let Err(error) = thread.spawn(move || server.extending.run(|| server.extend_leases())) {
            self.work.log.say(&format!("no thread to extend leases: {error}"));
            let server = Arc::clone(self);
            segue::spawn(move || server.extending.run(|| server.extend_leases()));
        }
    }

    /// Extends all leases that are held, three times in each ack wait, until told to stop.
    fn extend_leases(&self) {
        let (engine, mut losses) = (&self.work.engine, 0);
        for round in 1_u64.. {
            if sleep(self.ack_wait / 3).is_err() {
                return;
            }
            let held: Vec<Arc<Lease>> =
                self.held.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            // The next one may arrive in time; if none does, another worker has the job.
            let has_extended = held.iter().all(|lease| engine.extend(lease).is_ok());
            let lost = engine.signals().losses();
            let is_time = has_extended && (lost != losses || round % 10 == 0);
            if is_time && held.iter().all(|lease| self.catch_up(&lease.job.id)) {
                losses = lost;
            }
        }
    }

    /// Cancels a job that has a record. Answers whether the engine has said so: if not, extensions
    /// are more urgent.
    fn catch_up(&self, id: &str) -> bool {
        let engine = &self.work.engine;
        let read = engine.read(id);
        if let Ok(Some(_)) = read {
            engine.signals().cancelled(id);
        }
        !matches!(read, Err(error) if error.is_passing())
    }

    pub(crate) fn stop_leasing(&self) {
        self.leasing.cancel();
    }

    pub(crate) fn stop_extending(&self) {
        self.extending.cancel();
    }

    /// Cancels all jobs; they go back into the queue.
    pub(crate) fn abort(&self) {
        self.work.abort.cancel();
    }

    /// Waits until no lease is held.
    pub(crate) fn idle(&self) -> Result<(), segue::Cancelled> {
        self.under_way.wait()
    }

    /// How leases have ended.
    pub(crate) fn counts(&self) -> &Counts {
        &self.work.counts
    }

    /// How many leases are held.
    pub(crate) fn held(&self) -> usize {
        self.under_way.count()
    }
}
