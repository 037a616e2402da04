//! Settings of a [`Runtime`] that few programs need: hooks of the workers' threads, processors, the
//! monitor, the end.
//!
//! Used by applications: to set up threads for a library, to count, to keep a cache warm, to hear
//! of workers that are stuck.

use crate::run::report::StuckWorker;
use crate::run::runtime::Runtime;
use crate::run::shutdown::Shutdown;
use std::sync::Arc;
use std::time::Duration;

impl<F> Runtime<F> {
    /// Is called on each worker's thread, with the worker's number, when that becomes a worker:
    /// also on the thread that calls [`run`](Runtime::run).
    ///
    /// Of hooks in general: they must not wait. They may wake fibers. If one panics, the process
    /// ends. A scheduler that its caller [drives](Runtime::driven) calls none: its thread and its
    /// sleeps are the caller's.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    ///
    /// static THREADS: AtomicUsize = AtomicUsize::new(0);
    /// let builder = segue_sched::Runtime::new().workers(2);
    /// let builder = builder.on_thread_start(|_| _ = THREADS.fetch_add(1, SeqCst));
    /// builder.on_thread_stop(|_| _ = THREADS.fetch_sub(1, SeqCst)).run(|| assert_eq!(THREADS.load(SeqCst), 2))?;
    /// assert_eq!(THREADS.load(SeqCst), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.start = Some(Arc::new(hook));
        self
    }

    /// Is called when a worker has ended, on its thread. Every [start](Runtime::on_thread_start) is
    /// followed by one. See there for the limits of hooks.
    pub fn on_thread_stop(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.stop = Some(Arc::new(hook));
        self
    }

    /// Is called by a worker that has nothing to run, just before its sleep. See
    /// [`on_thread_start`](Runtime::on_thread_start) for the limits of hooks.
    pub fn on_park(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.park = Some(Arc::new(hook));
        self
    }

    /// Is called by a worker that has slept. Every [park](Runtime::on_park) is followed by one. See
    /// [`on_thread_start`](Runtime::on_thread_start) for the limits of hooks.
    pub fn on_unpark(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hooks.unpark = Some(Arc::new(hook));
        self
    }

    /// Binds each worker's thread to a processor of its own, of those that the process may use:
    /// worker 0 to the first, and so on.
    ///
    /// The thread that calls [`run`](Runtime::run) is bound until that returns. For programs that
    /// have their processors to themselves: others do not make way, and the kernel can't move a
    /// worker to a processor that is free.
    ///
    /// On Linux only. Elsewhere, and if there are more workers than processors, the scheduler does
    /// not start, with an error that says so; nor does one that its caller
    /// [drives](Runtime::driven), as that thread is the caller's to bind.
    pub fn pin(mut self) -> Self {
        self.pin = true;
        self
    }

    /// Has a thread watch for workers that stay in one fiber for `patience` without switching.
    ///
    /// Such a fiber computes without waits and [checkpoints](crate::checkpoint), or blocks its
    /// thread by a call that is not Segue's. Other fibers that are ready on its worker wait
    /// meanwhile. Each incident is reported once, see [`on_stuck`](Runtime::on_stuck), within a
    /// quarter more than `patience`; an incident that ends during the look is not. As long as an
    /// incident lasts, other workers get the closures that were sent to that worker, and its next
    /// fork or checkpoint gives them the closures that its policy can spare. Fibers that have
    /// started stay.
    ///
    /// The monitor is off by default, but for the runtimes of the crate `segue` in debug builds: a
    /// monitor takes a thread, makes the process handle SIGURG (see
    /// [`Watched`](segue_fiber::Watched)), and a program may have its reasons to block a worker. A
    /// second is a good start. While all workers sleep the thread does, too. A worker's turn costs
    /// the same with a monitor as without.
    ///
    /// A scheduler that its caller [drives](Runtime::driven) is watched during its polls.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::{Runtime, checkpoint};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let builder = Runtime::new().workers(1).monitor(Duration::from_millis(20));
    /// let builder = builder.on_stuck(move |stuck| tell.send(stuck.worker).unwrap());
    /// builder.run(|| {
    ///     // This blocks the worker.
    ///     assert_eq!(told.recv(), Ok(0));
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn monitor(mut self, patience: Duration) -> Self {
        self.monitor.patience = Some(patience);
        self
    }

    /// Has no [monitor](Runtime::monitor), also where there would be one.
    pub fn no_monitor(mut self) -> Self {
        self.monitor.patience = None;
        self
    }

    /// Sets the hook that the [monitor](Runtime::monitor) calls for each incident, on its thread.
    /// By default the report is printed to standard error.
    ///
    /// No worker is watched while the hook runs, and the end of the scheduler waits for the hook:
    /// so the hook must not wait for that end. If the hook panics, the process ends.
    pub fn on_stuck(mut self, hook: impl Fn(&StuckWorker) + Send + Sync + 'static) -> Self {
        self.monitor.on_stuck = Arc::new(hook);
        self
    }

    /// How many bytes each worker has for its last events, for the [recorder](crate::recorder): a
    /// power of two, or the next one; at least 4 KiB, and at most 1 GiB. Zero switches the recorder
    /// off. Default: 1 MiB.
    ///
    /// The memory is address space until events come. A megabyte has some thirty thousand turns.
    pub fn recorder(mut self, bytes: usize) -> Self {
        self.recorder = bytes;
        self
    }

    /// How the scheduler ends: see [`Shutdown`]. Default: the fibers that are left are cancelled,
    /// and waited for.
    ///
    /// A grace or a deadline takes a thread, which sleeps until the shutdown begins.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{JoinHandle, sleep, spawn};
    /// use segue_sched::{Runtime, Shutdown};
    /// use std::time::Duration;
    ///
    /// // Requests that were begun have a second.
    /// let shutdown = Shutdown::new().grace(Duration::from_secs(1));
    /// let request: JoinHandle<_> = Runtime::new().workers(1).shutdown(shutdown).run(|| {
    ///     spawn(|| sleep(Duration::from_millis(1)))
    /// })?;
    /// assert_eq!(request.join().unwrap(), Ok(()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(mut self, shutdown: Shutdown) -> Self {
        self.shutdown = shutdown;
        self
    }
}
