//! std's condition.

use super::mutex::MutexGuard;
use crate::cancelled::wait;
use crate::time::Instant;
use segue::{Rejected, sync};
use std::panic::{Location, resume_unwind};
use std::sync::{LockResult, PoisonError};
use std::time::Duration;

/// [`std::sync::Condvar`]: waits, with a mutex unlocked meanwhile, until somebody notifies.
///
/// It wakes nobody without a reason. Guards of several mutexes may wait at one.
///
/// # Cancellation
/// A wait locks the mutex again, unlocks it, and unwinds; see [the module](crate).
///
/// # Examples
///
/// ```
/// use segue_std::sync::{Condvar, Mutex};
/// use segue_std::thread;
///
/// let (open, changed) = (Mutex::new(false), Condvar::new());
/// thread::scope(|s| {
///     s.spawn(|| assert!(*changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap()));
///     *open.lock().unwrap() = true;
///     changed.notify_one();
/// });
/// ```
#[derive(Default)]
pub struct Condvar(sync::Condvar);

/// Whether a wait has ended by its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it has.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

type Timed<G> = LockResult<(G, WaitTimeoutResult)>;

impl Condvar {
    /// A condition that nobody waits for.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Unlocks the mutex, waits to be notified, and locks it again.
    ///
    /// # Errors
    /// If the mutex is poisoned: with the guard.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (watch, inner) = guard.into_parts();
        match wait!(self.0.wait(inner)) {
            Ok(inner) => MutexGuard::from_parts(watch, inner),
            Err(Rejected { value, error }) => {
                // Before the unwinding, which would poison it.
                drop((watch, value));
                resume_unwind(Box::new(error))
            }
        }
    }

    /// Waits as long as `condition` says so of the value.
    ///
    /// # Errors
    /// If the mutex is poisoned: with the guard.
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// As [`wait`](Condvar::wait), for `limit` at most.
    ///
    /// # Errors
    /// If the mutex is poisoned: with the guard.
    #[track_caller]
    pub fn wait_timeout<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> Timed<MutexGuard<'a, T>> {
        let (watch, inner) = guard.into_parts();
        let here = Location::caller();
        let wait =
            || segue::timeout(limit, || self.0.wait_at(inner, here)).map_err(|error| (error, segue::is_cancelled()));
        let (inner, timed_out) = match wait!(wait()) {
            Ok(inner) => (inner, false),
            // By this limit alone, and with the mutex locked again.
            Err((Rejected { value, .. }, false)) => (value, true),
            Err((Rejected { value, error }, true)) => {
                drop((watch, value));
                resume_unwind(Box::new(error))
            }
        };
        let result = WaitTimeoutResult(timed_out);
        match MutexGuard::from_parts(watch, inner) {
            Ok(guard) => Ok((guard, result)),
            Err(poisoned) => Err(PoisonError::new((poisoned.into_inner(), result))),
        }
    }

    /// As [`wait_while`](Condvar::wait_while), for `limit` at most. It has timed out if the
    /// condition still says to wait.
    ///
    /// # Errors
    /// If the mutex is poisoned: with the guard.
    #[track_caller]
    pub fn wait_timeout_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Timed<MutexGuard<'a, T>> {
        let begun = Instant::now();
        loop {
            if !condition(&mut guard) {
                return Ok((guard, WaitTimeoutResult(false)));
            }
            let Some(rest) = limit.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) else {
                return Ok((guard, WaitTimeoutResult(true)));
            };
            guard = self.wait_timeout(guard, rest)?.0;
        }
    }

    /// Wakes the one that has waited longest, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

segue::core::impl_debug!([] Condvar);
