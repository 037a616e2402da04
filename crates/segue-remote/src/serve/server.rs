//! Leases are taken, held, and extended.
//!
//! Used by workers and by local pools.

use super::attempt::{Counts, Work, attempt};
use super::handler::Handler;
use crate::engine::{Engine, EngineError, Lease};
use crate::options::{Log, Options};
use segue::sync::{Semaphore, WaitGroup};
use segue::{CancelToken, sleep};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    /// Ends the fiber that extends them.
    extending: CancelToken,
}

/// A lease that is held, until this is dropped.
struct Held {
    server: Arc<Server>,
    number: u64,
    lease: Arc<Lease>,
}

impl Drop for Held {
    fn drop(&mut self) {
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
        loop {
            // Wait for a slot, and leave it to the job that comes.
            match self.work.slots.acquire() {
                Ok(permit) => drop(permit),
                Err(_) => return EngineError::Closed,
            }
            match leases.next(self.work.slots.available_permits().max(1)) {
                Ok(lease) => self.start(handler, lease),
                Err(error) if error.is_passing() => {
                    self.work.log.say(&format!("{}: {error}", handler.kind));
                    if let Err(cancelled) = sleep(Duration::from_millis(100)) {
                        return cancelled.into();
                    }
                }
                Err(error) => return error,
            }
        }
    }

    fn start(self: &Arc<Self>, handler: &Handler, lease: Lease) {
        let (number, lease) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::new(lease));
        self.under_way.add(1);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&lease));
        let held = Held { server: Arc::clone(self), number, lease };
        let handler = handler.clone();
        segue::spawn(move || attempt(&held.server.work, &handler, &held.lease));
    }

    /// Extends all leases that are held, three times in each ack wait, until told to stop.
    pub(crate) fn extend_leases(&self) {
        self.extending.run(|| {
            while sleep(self.ack_wait / 3).is_ok() {
                let held: Vec<Arc<Lease>> =
                    self.held.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
                for lease in held {
                    if self.work.engine.extend(&lease).is_err() {
                        // The next one may arrive in time; if none does, another worker has the
                        // job.
                        break;
                    }
                }
            }
        });
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
