//! [`Pool`]: a scheduler on threads of its own.
//!
//! Made by [`Runtime`](crate::Runtime). Used by applications, and behind plain threads as the
//! default runtime.
#![allow(unsafe_code)] // Closures of waiting frames are handed to the pool's workers.

use crate::run::attendants::Attendants;
use crate::run::handle::Handle;
use crate::run::lead::end_now;
use crate::run::shutdown;
use crate::worker::common::around_of;
use crate::worker::group::Group;
use crate::worker::stack_job::StackJob;
use segue_core::build::Host;
use segue_core::scheduling::{Family, Job, Place, Spawn};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Builder, Cancelled, JoinHandle, WaitsFor};
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;

/// A worker of a [`pool_on`](crate::Runtime::pool_on) threads of the caller's, to be run by one of
/// them.
pub struct WorkerThread {
    pub(super) index: usize,
    pub(super) run: Box<dyn FnOnce() + Send>,
}

impl WorkerThread {
    /// The number of the worker, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Makes the calling thread the worker's, until the pool has ended.
    ///
    /// # Panics
    /// If the worker can't start: its park can't be made, or a hook fails.
    pub fn run(self) {
        (self.run)();
    }
}

segue_core::impl_debug!([] WorkerThread, |it| index: it.index);

/// A scheduler on threads of its own.
///
/// The drop of a pool cancels its fibers, after a grace if there is
/// [one](crate::Runtime::shutdown), and waits for the fibers and the threads. A drop by one of the
/// pool's own fibers does not wait: a thread that is started for the pool waits.
pub struct Pool(pub(super) Option<Parts>);

/// The parts of a pool until the drop.
pub(super) struct Parts {
    pub(super) group: Arc<Group>,
    /// In place until the last worker has ended, also one that nobody waits for.
    pub(super) family: Arc<Family>,
    pub(super) threads: Vec<thread::JoinHandle<()>>,
    /// End last.
    pub(super) _attendants: Attendants,
}

impl Parts {
    fn end(self) {
        // Its threads may be at work: no simulation is to take the wait for a deadlock.
        let _outside = segue_core::outside_work();
        self.group.disown();
        // SAFETY: the pool owned its family, and ends once. `disown` has taken it out of the reach
        // of spawns from outside; members that its members spawn are counted before these end.
        unsafe { self.family.complete() };
        end_now(&self.group);
        for thread in self.threads {
            // A worker does not unwind.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Runs `f` in a fiber of the pool and returns the result of `f`. From a fiber this suspends
    /// only that fiber; from a thread this parks the thread.
    ///
    /// `f` may borrow, since the call does not return before the end of `f`. Called by one of the
    /// pool's own fibers, `f` runs in place.
    ///
    /// # Cancellation
    /// `f` runs in the caller's context. Cancelled before `f` started: *no effect*, `f` is dropped.
    /// After: `f` sees the cancellation at its waits, and the result of `f` is returned.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled before `f` started.
    ///
    /// # Panics
    /// If `f` does, with its payload.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Runtime::new().workers(1).pool().unwrap();
    /// let words = vec!["a", "b"];
    /// assert_eq!(pool.run(|| words.len()), Ok(2));
    /// ```
    #[track_caller]
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
        segue_core::check()?;
        self.call(|| segue_core::check().map(|()| __rust_begin_short_backtrace(f)))
    }

    /// As [`run`](Pool::run), but runs `f` even if the caller was cancelled: `f` sees that at its
    /// waits.
    ///
    /// # Cancellation
    /// *No effect* on the call; `f` runs in the caller's context.
    ///
    /// # Panics
    /// If `f` does, with its payload.
    #[track_caller]
    pub fn call<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let (mut f, mut result) = (Some(f), None);
        self.call_erased(&mut || result = f.take().map(|f| f()));
        result.expect("the closure was called")
    }

    /// As [`call`](Pool::call), for a closure without a type.
    #[track_caller]
    fn call_erased(&self, f: &mut (dyn FnMut() + Send)) {
        if self.is_mine() {
            return f();
        }
        let _outside = segue_core::outside_work();
        let job = StackJob::new(f);
        // SAFETY: the frame waits below, inside of its contexts; the family lives as long as the
        // pool; closure and result are `Send`.
        self.parts().group.inject(unsafe { StackJob::job(NonNull::from(&job), Place::here(), Some(self.family())) });
        // SAFETY: a job was made of this frame, above.
        unsafe { job.wait(WaitsFor::new("a pool")) }.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// Starts a detached fiber in the pool. Never waits. With settings, a name for instance:
    /// [`Builder::on`].
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Runtime::new().workers(1).pool().unwrap();
    /// assert_eq!(pool.spawn(|| 42).join().unwrap(), 42);
    /// let named = segue_core::Builder::new().name("answer").on(&pool);
    /// assert_eq!(named.spawn(|| 42).join().unwrap(), 42);
    /// ```
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        Builder::new().on(self).spawn(f)
    }

    /// Starts a detached async task in the pool. Never waits. See [`segue_core::spawn_task`].
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Runtime::new().workers(1).pool().unwrap();
    /// assert_eq!(pool.spawn_task(async { 42 }).join().unwrap(), 42);
    /// ```
    #[track_caller]
    pub fn spawn_task<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Builder::new().on(self).spawn_task(future)
    }

    /// The family of the fibers that are detached in the pool.
    pub fn family(&self) -> &Family {
        &self.parts().family
    }

    /// A handle of the pool, to [move to](crate::move_to).
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { group: Arc::clone(&self.parts().group) }
    }

    /// The number of the pool's workers.
    pub fn workers(&self) -> usize {
        self.parts().group.len()
    }

    fn parts(&self) -> &Parts {
        self.0.as_ref().expect("a pool has its parts until it is dropped")
    }

    /// Whether the caller is one of the pool's own fibers, or inside of a scheduler that runs in
    /// one.
    fn is_mine(&self) -> bool {
        around_of(&self.parts().group).is_some()
    }
}

impl Spawn for Pool {
    fn spawn(&self, job: Job) {
        self.parts().group.inject(job);
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::<Group>::clone(&self.parts().group)
    }
}

// SAFETY: the pool completes its family in its drop, and so waits for the members; nobody drops the
// pool during the call, which borrows it.
unsafe impl Host for Pool {
    fn with_family(&self, f: &mut dyn FnMut(&Family)) {
        f(self.family());
    }
}

segue_core::impl_debug!([] Pool, |it| workers: it.workers(), family: *it.family());

impl Drop for Pool {
    fn drop(&mut self) {
        let is_mine = self.is_mine();
        let Some(parts) = self.0.take() else { return };
        shutdown::begin(&parts.group, &parts.family.token(), None);
        if is_mine {
            // This fiber would wait for itself.
            thread::Builder::new().name("segue-pool-end".to_owned()).spawn(|| parts.end()).unwrap_or_else(|error| {
                segue_core::unwind::abort(format_args!("no thread to end a pool that its own fiber dropped: {error}"))
            });
        } else {
            parts.end();
        }
    }
}
