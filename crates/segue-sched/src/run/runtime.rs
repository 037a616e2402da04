//! [`Runtime`]: the settings of a scheduler, and the entry points: a run on the caller's thread,
//! a pool of threads, a scheduler that its caller drives.
//!
//! Used by applications through `segue`, and directly by those with a policy or a park of their
//! own. `options.rs` has the settings that few programs need.

use crate::policies::{Fifo, Stealing};
use crate::recorder::{self, next_scheduler};
use crate::run::attendants::Attendants;
use crate::run::driven::Driven;
use crate::run::lead::{lead, prepare_thread};
use crate::run::monitor;
use crate::run::plan::{MakePark, Plan, starts};
use crate::run::pool::{Parts, Pool, WorkerThread};
use crate::run::processors::Processors;
use crate::run::shutdown::Shutdown;
use crate::worker::group::Group;
use crate::worker::hooks::Hooks;
use crate::worker::policy::Policy;
use crate::worker::roster;
use segue_core::chain::barrier;
use segue_core::scheduling::{Family, Timers, WaitPark};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{WaitQueue, WaitsFor};
use segue_fiber::{StackArena, StackConfig};
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

/// The settings of a scheduler.
///
/// [`runtime`](crate::runtime()) makes one for an application, with a driver where there is one.
///
/// `K` makes each worker's park, on the worker's thread. The default one waits without a driver.
///
/// # Examples
///
/// ```
/// let answer = segue_sched::Runtime::new().workers(2).run(|| 6 * 7);
/// assert_eq!(answer.unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Runtime<K = fn() -> io::Result<WaitPark>> {
    workers: Option<usize>,
    stacks: StackConfig,
    name: String,
    park: K,
    pub(crate) monitor: monitor::Config,
    pub(crate) shutdown: Shutdown,
    pub(crate) hooks: Hooks,
    pub(crate) pin: bool,
    pub(crate) recorder: usize,
}

impl Runtime {
    /// One worker for each processor that this process may use, stacks of the default size.
    ///
    /// That is [`std::thread::available_parallelism`]: on Linux this respects the caller's affinity
    /// (`taskset`) and the limits of control groups, as they are when the scheduler starts.
    pub fn new() -> Self {
        Self {
            workers: None,
            stacks: StackConfig::new(),
            name: "segue".to_owned(),
            park: || Ok(WaitPark::new()),
            monitor: monitor::Config::default(),
            shutdown: Shutdown::new(),
            hooks: Hooks::default(),
            pin: false,
            recorder: recorder::SIZE,
        }
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> Runtime<F> {
    /// How many workers; at least one. More than 65,536 are an error when the scheduler starts.
    ///
    /// # Panics
    /// For zero.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a scheduler has at least one worker");
        self.workers = Some(workers);
        self
    }

    /// Sets the kind of the fibers' stacks.
    pub fn stacks(self, stacks: StackConfig) -> Self {
        Self { stacks, ..self }
    }

    /// Sets the beginning of the worker threads' names.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets the closure that makes each worker's park: a driver, for instance.
    pub fn park<G>(self, park: G) -> Runtime<G> {
        let Self { workers, stacks, name, monitor, shutdown, hooks, pin, recorder, .. } = self;
        Runtime { workers, stacks, name, park, monitor, shutdown, hooks, pin, recorder }
    }
}

impl<F: MakePark + Send + Sync> Runtime<F> {
    /// Runs `f` as the first fiber of a work-stealing scheduler, and returns the result of `f`.
    ///
    /// The calling thread is the first worker, so `f` need not be `Send`. When `f` has returned,
    /// the call cancels the fibers that are left of those it spawned, and waits for them; after a
    /// grace, if there is one ([`shutdown`](Runtime::shutdown)).
    ///
    /// A fiber of another scheduler can call this. While the inner scheduler's first worker has
    /// nothing to run, that fiber is suspended; while the inner worker is busy, it gives the outer
    /// worker a turn now and then, so that neither's fibers, timers and sockets starve.
    ///
    /// # Cancellation
    /// If the caller is cancelled, so is everything inside; the call returns when everything has
    /// ended.
    ///
    /// # Errors
    /// If threads, stacks or a park could not be made.
    ///
    /// # Panics
    /// If `f` panics, after everything has ended.
    pub fn run<T>(self, f: impl FnOnce() -> T) -> io::Result<T> {
        self.run_with(Stealing::default, f)
    }

    /// As [`run`](Runtime::run), with another policy: each worker calls `policy` for its own.
    ///
    /// # Cancellation
    /// As for [`run`](Runtime::run).
    ///
    /// # Errors
    /// As for [`run`](Runtime::run).
    ///
    /// # Panics
    /// As for [`run`](Runtime::run).
    pub fn run_with<P: Policy, T>(self, policy: impl Fn() -> P + Send + Sync, f: impl FnOnce() -> T) -> io::Result<T> {
        let (mut f, mut result) = (Some(f), None);
        self.run_first(policy, &mut || result = f.take().map(__rust_begin_short_backtrace))?;
        Ok(result.expect("the first fiber was there"))
    }

    /// As [`run_with`](Runtime::run_with), for a closure without a type.
    fn run_first<P: Policy>(self, policy: impl Fn() -> P + Send + Sync, f: &mut dyn FnMut()) -> io::Result<()> {
        let (plan, _attendants) = self.plan()?;
        let group = &plan.group;
        let first = policy();
        let others = WaitQueue::new(group.len() - 1);
        thread::scope(|threads| {
            // However this ends, the other workers end too; else the scope would wait for them.
            let _stop = StopAtEnd(group);
            let (report, started) = starts(group.len() - 1);
            for index in 1..group.len() {
                let (plan, policy, report) = (&plan, &policy, Arc::clone(&report));
                let end = CountDown(&others);
                let worker = move || {
                    let _end = end;
                    plan.work(index, policy, report);
                };
                thread::Builder::new().name(plan.name(index)).spawn_scoped(threads, worker)?;
            }
            drop(report);
            started()?;
            let mut local = plan.local(0, first, Timers::real());
            // The first fiber is started on this thread or nowhere.
            local.reserve_stack()?;
            let (park, _service) = plan.start(&mut local)?;
            let result = catch_unwind(AssertUnwindSafe(|| lead(local, park, None, f)));
            if segue_core::in_fiber() {
                // The join of the threads would block this one, and those may have visitors that
                // wait for its other fibers.
                let _outside = segue_core::outside_work();
                let all_ended = WaitsFor::new("the other workers of a scheduler");
                let _ = segue_core::shield(|| others.wait(all_ended, |left| *left == 0, |_| ()));
            }
            result.map_err(|payload| resume_unwind(payload))
        })
    }

    /// Starts a work-stealing scheduler on threads of its own. Never waits.
    ///
    /// # Errors
    /// If threads, stacks or a park could not be made.
    pub fn pool(self) -> io::Result<Pool>
    where
        F: 'static,
    {
        self.pool_with(Stealing::default)
    }

    /// As [`pool`](Runtime::pool), with another policy. Never waits.
    ///
    /// # Errors
    /// As for [`pool`](Runtime::pool).
    pub fn pool_with<P: Policy>(self, policy: impl Fn() -> P + Send + Sync + 'static) -> io::Result<Pool>
    where
        F: 'static,
    {
        let (plan, attendants) = self.plan()?;
        let plan = Arc::new(plan);
        let group = Arc::clone(&plan.group);
        let parts = Parts { group, family: Arc::new(Family::detached()), threads: Vec::new(), _attendants: attendants };
        parts.group.own(&parts.family, true);
        let mut pool = Pool(Some(parts));
        let (report, started) = starts(pool.workers());
        let policy = Arc::new(policy);
        for index in 0..pool.workers() {
            let (plan, policy, report) = (Arc::clone(&plan), Arc::clone(&policy), Arc::clone(&report));
            let name = plan.name(index);
            let worker = move || plan.work(index, &*policy, report);
            let thread = thread::Builder::new().name(name).spawn(worker)?;
            pool.0.as_mut().expect("a pool that lives").threads.push(thread);
        }
        drop(report);
        started()?;
        Ok(pool)
    }

    /// As [`pool`](Runtime::pool), on threads that the caller makes: `start` is called once for
    /// each worker, in order, and has a thread call its [`run`](WorkerThread::run). Never waits: a
    /// worker takes part from when a thread runs it.
    ///
    /// The end of the pool does not wait for these threads, which return from `run` soon after.
    ///
    /// # Errors
    /// If stacks can't be made, and those of `start`.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::Runtime;
    ///
    /// std::thread::scope(|threads| {
    ///     let pool = Runtime::new().workers(2).pool_on(|worker| {
    ///         threads.spawn(|| worker.run());
    ///         Ok(())
    ///     });
    ///     assert_eq!(pool.unwrap().run(|| 42), Ok(42));
    /// });
    /// ```
    pub fn pool_on(self, mut start: impl FnMut(WorkerThread) -> io::Result<()>) -> io::Result<Pool>
    where
        F: 'static,
    {
        let (plan, attendants) = self.plan()?;
        let plan = Arc::new(plan);
        let group = Arc::clone(&plan.group);
        let family = Arc::new(Family::detached());
        group.own(&family, true);
        let parts = Parts { group, family: Arc::clone(&family), threads: Vec::new(), _attendants: attendants };
        let pool = Pool(Some(parts));
        for index in 0..pool.workers() {
            let plan = Arc::clone(&plan);
            let outcome = |outcome: io::Result<()>| outcome.expect("a worker can start on this thread");
            let family = Arc::clone(&family);
            let run = Box::new(move || {
                plan.work(index, &Stealing::default, Arc::new(outcome));
                drop(family);
            });
            barrier(WaitsFor::new("the start of a pool"), || start(WorkerThread { index, run }))?;
        }
        Ok(pool)
    }

    /// Makes a scheduler of one worker that runs when the caller's own loop polls the scheduler,
    /// with the policy [`Fifo`](crate::Fifo).
    ///
    /// See [`Driven`], also for the use of `wake`. Never waits.
    ///
    /// # Errors
    /// If stacks or a park could not be made, or if another number of workers was asked for.
    pub fn driven(self, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Driven>
    where
        F::Park: 'static,
    {
        self.driven_with(Fifo::default(), wake)
    }

    /// As [`driven`](Runtime::driven), with another policy. Never waits.
    ///
    /// # Errors
    /// As for [`driven`](Runtime::driven).
    pub fn driven_with(self, policy: impl Policy, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Driven>
    where
        F::Park: 'static,
    {
        if self.workers.is_some_and(|workers| workers != 1) {
            let what = "a scheduler that its caller drives has one worker, which is the caller's thread";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }

        if self.pin {
            let what = "the thread of a scheduler that its caller drives is the caller's to bind to a processor";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let (plan, attendants) = self.workers(1).plan()?;
        let local = plan.local(0, policy, Timers::real());
        Ok(Driven::new(local, plan.park(0)?, Box::new(wake), attendants))
    }

    fn plan(self) -> io::Result<(Plan<F>, Attendants)> {
        prepare_thread()?;
        let processors = || thread::available_parallelism().map_or(1, NonZero::get);
        let workers = self.workers.unwrap_or_else(processors);
        if workers > MOST_WORKERS {
            let what = format!("a scheduler has at most {MOST_WORKERS} workers, and {workers} were asked for");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let group = Group::new(workers);
        roster::enlist(&group, &self.name, false);
        let processors = self.pin.then(|| Processors::allowed(group.len())).transpose()?;
        let arena = StackArena::new(self.stacks)?;
        let attendants = Attendants::start(&self.shutdown, &self.monitor, &group, &self.name)?;
        let watch = attendants.watch.clone();
        let recorder = (next_scheduler(), self.recorder);
        let (name, park, hooks) = (self.name, self.park, self.hooks);
        let plan = Plan { group, arena, name, park, hooks, processors, watch, recorder };
        Ok((plan, attendants))
    }
}

/// A fiber's number has 16 bits for that of its worker.
const MOST_WORKERS: usize = 1 << 16;

/// Counts one less in its drop.
struct CountDown<'a>(&'a WaitQueue<usize>);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        let mut left = self.0.lock();
        *left.state() -= 1;
        left.notify_all(0);
    }
}

/// Stops a group in its drop.
struct StopAtEnd<'g>(&'g Group);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}
