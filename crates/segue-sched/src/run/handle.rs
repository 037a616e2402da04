//! The user's handle of a scheduler: to spawn there, to end the scheduler, to move there.
//!
//! Used by applications that have several schedulers, or threads beside one.
#![allow(unsafe_code)] // Families wait for the jobs that are made here.

use crate::policies::Kept;
use crate::run::shutdown;
use crate::worker::common::with_caller;
use crate::worker::group::Group;
use segue_core::build::Host;
use segue_core::scheduling::{Family, Job, Spawn};
use segue_core::{Builder, JoinHandle};
use std::sync::Arc;

/// A scheduler, to spawn on and to [move to](crate::move_to). A handle does not keep the scheduler
/// going.
///
/// # Examples
///
/// ```
/// use segue_sched::{Handle, Runtime};
///
/// // A thread that was told of a scheduler spawns there.
/// let answer = Runtime::new().workers(1).run(|| {
///     let here = Handle::current().expect("this is a fiber");
///     let thread = std::thread::spawn(move || here.spawn(|| 42));
///     segue_core::blocking(|| thread.join().unwrap()).unwrap().join().unwrap()
/// });
/// assert_eq!(answer?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) group: Arc<Group>,
}

impl Handle {
    /// Starts a detached fiber there. Never waits.
    ///
    /// The fiber belongs to that scheduler, as if another fiber there had spawned this one: the end
    /// of the scheduler cancels the fiber and waits for its end. If the scheduler is ending, `f` is
    /// dropped, and the handle says so as for a fiber that was cancelled before its start. With
    /// settings, a name for instance: [`Builder::on`].
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().on(self).spawn(f)
    }

    /// As [`spawn`](Handle::spawn), on the worker with this number. Never waits.
    ///
    /// The fiber starts there under a policy that keeps closures that were sent, as
    /// [`Stealing`](crate::Stealing) keeps this one; but elsewhere if that worker is away in
    /// [`blocking_here`](crate::blocking_here), or stuck, and a monitor has noticed that.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Runtime::new().workers(2).pool()?;
    /// for worker in 0..2 {
    ///     let fiber = pool.handle().spawn_at(worker, segue_sched::worker_index);
    ///     assert_eq!(fiber.join().unwrap(), Some(worker));
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_at<F, T>(&self, worker: usize, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        assert!(worker < self.workers(), "there is no worker {worker} among {}", self.workers());
        Builder::new().attribute(Kept).on(&There { handle: self, worker }).spawn(f)
    }

    /// Begins the end of the scheduler: its fibers are asked to finish, the first fiber included,
    /// and cancelled after the [grace](crate::Shutdown::grace) that its
    /// [settings](crate::Runtime::shutdown) say; at once if there is none. Never waits; again
    /// has no effect, nor once the scheduler is ending.
    ///
    /// The call of [`run`](crate::Runtime::run) returns when the first fiber has returned and all
    /// others have ended. A [`Pool`](crate::Pool) stays until the drop; a fiber that is spawned
    /// there meanwhile is asked from the start, and cancelled before the start when the grace is
    /// over. The [default runtime](crate::default_pool) never ends: a fiber that is spawned there
    /// after a shutdown does not run.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{finishing_source, spawn};
    /// use segue_sched::{Handle, Runtime, Shutdown};
    /// use std::time::Duration;
    ///
    /// let shutdown = Shutdown::new().grace(Duration::from_secs(10));
    /// let goodbye = Runtime::new().workers(1).shutdown(shutdown).run(|| {
    ///     let here = Handle::current().expect("this is a fiber");
    ///     // Because of a signal, or of an error.
    ///     spawn(move || here.shutdown());
    ///     finishing_source().wait().map(|()| "goodbye")
    /// });
    /// assert_eq!(goodbye?, Ok("goodbye"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self) {
        // The token is used without the lock: wakers are called there.
        if let Some(token) = self.group.with_family(Family::token) {
            shutdown::begin(&self.group, &token, None);
        }
    }

    /// The scheduler of the calling fiber; `None` if that is none of this crate's, and on a plain
    /// thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        with_caller(|caller| caller.map(|(worker, _)| Self { group: Arc::clone(&worker.group) }))
    }

    /// Whether the calling fiber belongs to this scheduler. The answer takes a few loads.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Runtime::new().workers(1).pool()?;
    /// let handle = pool.handle();
    /// assert!(!handle.is_current());
    /// assert!(pool.run(move || handle.is_current())?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        with_caller(|caller| caller.is_some_and(|(worker, _)| Arc::ptr_eq(&worker.group, &self.group)))
    }

    /// The number of the scheduler's workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.group.len()
    }
}

impl Spawn for Handle {
    fn spawn(&self, job: Job) {
        self.group.inject(job);
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::<Group>::clone(&self.group)
    }
}

// SAFETY: the group shows the family that the scheduler's owner completes, under the lock that the
// owner takes to end that: so the owner waits for the members.
unsafe impl Host for Handle {
    fn with_family(&self, f: &mut dyn FnMut(&Family)) {
        self.group.with_family(f);
    }
}

/// One worker of a scheduler.
struct There<'h> {
    handle: &'h Handle,
    worker: usize,
}

impl Spawn for There<'_> {
    fn spawn(&self, job: Job) {
        // A worker that has ended drops the job, as a scheduler does.
        drop(self.handle.group.send(self.worker, job));
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        self.handle.share()
    }
}

// SAFETY: as for the handle.
unsafe impl Host for There<'_> {
    fn with_family(&self, f: &mut dyn FnMut(&Family)) {
        self.handle.with_family(f);
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group)
    }
}

impl Eq for Handle {}

segue_core::impl_debug!([] Handle, |it| workers: it.workers());
