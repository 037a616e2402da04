//! What a scheduler calls on its workers' threads when they start, stop and idle.
//!
//! Used by applications, through [`Builder`]: to set up threads for a library, to count, to keep a
//! cache warm.
//!
//! # What a hook may do
//!
//! It is foreign code on a worker's thread outside of its fibers, at places where the worker has
//! said that it sleeps. A fiber that it made ready in the ordinary way would go straight to the
//! policy, and the worker would sleep with the fiber in its queue. So no worker runs on the thread
//! while a hook does: what it wakes is woken by mail, as from any other thread, and the mail ends
//! the sleep.

use crate::run::Builder;
use crate::run::processors::{Bound, Processors};
use crate::worker::common::without_worker;
use segue_core::WaitsFor;
use segue_core::chain::barrier;
use segue_core::scheduling::{Park, Unpark};
use segue_core::unwind::NoUnwind;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

type Hook = Option<Arc<dyn Fn(usize) + Send + Sync>>;

/// What is called when.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    start: Hook,
    stop: Hook,
    park: Hook,
    unpark: Hook,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Ends the process if a hook unwinds.
pub(crate) fn no_unwind() -> NoUnwind {
    NoUnwind::new("a hook of a scheduler panicked; the scheduler can't go on")
}

#[inline]
fn call(hook: &Hook, worker: usize) {
    if let Some(hook) = hook {
        let no_unwind = no_unwind();
        // Nor does it leave the rest of this to an effect: the worker before may end.
        barrier(WaitsFor::new("a hook of a scheduler"), || without_worker(|| hook(worker)));
        no_unwind.disarm();
    }
}

impl<F> Builder<F> {
    /// Is called on each worker's thread, with the worker's number, when that becomes a worker:
    /// also on the thread that calls [`run`](Builder::run).
    ///
    /// Of hooks in general: they must not wait. They may wake fibers. If one panics, the process
    /// ends. A scheduler that its caller [drives](Builder::driven) calls none: its thread and its
    /// sleeps are the caller's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// static THREADS: AtomicUsize = AtomicUsize::new(0);
    /// let builder = segue_sched::Builder::new().workers(2);
    /// let builder = builder.on_thread_start(|_| _ = THREADS.fetch_add(1, SeqCst));
    /// builder.on_thread_stop(|_| _ = THREADS.fetch_sub(1, SeqCst)).run(|| assert_eq!(THREADS.load(SeqCst), 2))?;
    /// assert_eq!(THREADS.load(SeqCst), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Arc::new(hook));
        self
    }

    /// Is called when a worker has ended, on its thread. Every [start](Builder::on_thread_start) is
    /// followed by one. See there for what hooks may do.
    pub fn on_thread_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(Arc::new(hook));
        self
    }

    /// Is called by a worker that has nothing to run, just before it sleeps. See
    /// [`on_thread_start`](Builder::on_thread_start) for what hooks may do.
    pub fn on_park(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.park = Some(Arc::new(hook));
        self
    }

    /// Is called by a worker that has slept. Every [park](Builder::on_park) is followed by one. See
    /// [`on_thread_start`](Builder::on_thread_start) for what hooks may do.
    pub fn on_unpark(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.unpark = Some(Arc::new(hook));
        self
    }

    /// Binds each worker's thread to a processor of its own, of those that the process may use:
    /// worker 0 to the first, and so on.
    ///
    /// The thread that calls [`run`](Builder::run) is bound until that returns. For programs that
    /// have their processors to themselves: others do not make way, and the kernel can't move a
    /// worker to a processor that is free.
    ///
    /// On Linux only. Elsewhere, and if there are more workers than processors, the scheduler does
    /// not start, with an error that says so; nor does one that its caller
    /// [drives](Builder::driven), as that thread is the caller's to bind.
    pub fn pin(mut self) -> Self {
        self.pin = true;
        self
    }
}

/// A thread's time as a worker.
pub(crate) struct Service<'a> {
    hooks: &'a Hooks,
    worker: usize,
    _bound: Option<Bound>,
}

impl<'a> Service<'a> {
    /// Binds the thread, if it is to be bound, and calls the first hook. The last is called when
    /// this is dropped.
    pub(crate) fn begin(hooks: &'a Hooks, worker: usize, processors: Option<&Processors>) -> io::Result<Self> {
        let bound = processors.map(|processors| processors.bind(worker)).transpose()?;
        call(&hooks.start, worker);
        Ok(Self { hooks, worker, _bound: bound })
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        call(&self.hooks.stop, self.worker);
    }
}

/// A park around which hooks are called.
pub(crate) struct Hooked<K> {
    pub(crate) park: K,
    pub(crate) hooks: Hooks,
    pub(crate) worker: usize,
}

impl<K: Park> Park for Hooked<K> {
    fn unparker(&self) -> Arc<dyn Unpark> {
        self.park.unparker()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        call(&self.hooks.park, self.worker);
        self.park.park(timeout);
        call(&self.hooks.unpark, self.worker);
    }

    fn is_closed(&self) -> bool {
        self.park.is_closed()
    }

    #[inline]
    fn poll(&mut self) {
        self.park.poll();
    }

    fn enter(&mut self) {
        self.park.enter();
    }

    fn leave(&mut self) {
        self.park.leave();
    }
}
