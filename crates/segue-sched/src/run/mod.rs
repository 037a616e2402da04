//! Starting and ending schedulers: a run on the caller's thread, and a pool of threads.
//!
//! Used by applications through `segue`, and directly by those with a policy or a park of their
//! own.
#![allow(unsafe_code)] // Families and frames are handed to workers that this file waits for.

mod attendants;
pub(crate) mod default;
pub(crate) mod driven;
mod hooks;
mod monitor;
mod processors;

use crate::policies::{Fifo, Stealing};
use crate::run::attendants::Attendants;
use crate::run::driven::Driven;
use crate::run::hooks::Service;
use crate::run::monitor::Watch;
use crate::run::processors::Processors;
use crate::worker::group::Group;
use crate::worker::handle::Handle;
use crate::worker::hooks::Hooks;
use crate::worker::local::Local;
use crate::worker::policy::Policy;
use crate::worker::run_loop::{OnDeadlock, Worker};
use crate::worker::shutdown::{self, Shutdown};
use crate::worker::stack_job::StackJob;
use segue_core::chain::barrier;
use segue_core::scheduling::{Family, Job, Park, Place, Spawn, Timers, WaitPark};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Cancelled, JoinHandle, WaitQueue, WaitsFor};
use segue_fiber::{StackArena, StackConfig, StackPool};
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::thread;

/// What a scheduler is to be like.
///
/// Not to be confused with [`segue_core::Builder`], which `segue::Builder` is, too: that one says
/// what a *fiber* is to be like. In `segue` this one is `segue::sched::Builder`, and
/// `segue::runtime()` makes it with a driver.
///
/// `K` makes each worker's park, on the worker's thread. The default one waits without a driver.
///
/// # Examples
///
/// ```
/// let answer = segue_sched::Builder::new().workers(2).run(|| 6 * 7);
/// assert_eq!(answer.unwrap(), 42);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder<K = fn() -> io::Result<WaitPark>> {
    workers: Option<usize>,
    stacks: StackConfig,
    name: String,
    park: K,
    pub(crate) monitor: monitor::Config,
    pub(crate) shutdown: Shutdown,
    pub(crate) hooks: Hooks,
    pub(crate) pin: bool,
}

impl Builder {
    /// One worker for each processor that this process may use, stacks of the default size.
    ///
    /// That is [`std::thread::available_parallelism`]: on Linux it respects the caller's affinity
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
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> Builder<F> {
    /// How many workers; at least one. More than 65,536 are an error when the scheduler starts.
    ///
    /// # Panics
    /// For zero.
    pub fn workers(mut self, workers: usize) -> Self {
        assert!(workers > 0, "a scheduler has at least one worker");
        self.workers = Some(workers);
        self
    }

    /// What the fibers' stacks are like.
    pub fn stacks(mut self, stacks: StackConfig) -> Self {
        self.stacks = stacks;
        self
    }

    /// What the worker threads' names begin with.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What makes each worker's park: a driver, for instance.
    pub fn park<G>(self, park: G) -> Builder<G> {
        let Self { workers, stacks, name, monitor, shutdown, hooks, pin, .. } = self;
        Builder { workers, stacks, name, park, monitor, shutdown, hooks, pin }
    }
}

/// A closure that makes parks.
pub trait MakePark: Fn() -> io::Result<Self::Park> {
    /// What it makes.
    type Park: Park;
}

impl<K: Park, F: Fn() -> io::Result<K>> MakePark for F {
    type Park = K;
}

impl<F: MakePark + Send + Sync> Builder<F> {
    /// Runs `f` as the first fiber of a work-stealing scheduler, and returns what it returned.
    ///
    /// The calling thread is the first worker, so `f` need not be `Send`. When `f` has returned,
    /// the call cancels the fibers that are left of those it spawned, and waits for them; after a
    /// grace, if it was given one ([`shutdown`](Builder::shutdown)).
    ///
    /// It can be called in a fiber of another scheduler. While the inner scheduler's first worker
    /// has nothing to run, that fiber is suspended; while it is busy, it gives the outer worker a
    /// turn now and then, so that neither's fibers, timers and sockets starve.
    ///
    /// # Cancellation
    /// If the caller is cancelled, so is everything inside; the call returns when all of it has
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

    /// As [`run`](Builder::run), with another policy: each worker calls `policy` for its own.
    ///
    /// # Cancellation
    /// As for [`run`](Builder::run).
    ///
    /// # Errors
    /// As for [`run`](Builder::run).
    ///
    /// # Panics
    /// As for [`run`](Builder::run).
    pub fn run_with<P: Policy, T>(self, policy: impl Fn() -> P + Send + Sync, f: impl FnOnce() -> T) -> io::Result<T> {
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
            Ok(result.unwrap_or_else(|payload| resume_unwind(payload)))
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

    /// As [`pool`](Builder::pool), with another policy. Never waits.
    ///
    /// # Errors
    /// As for [`pool`](Builder::pool).
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

    /// As [`pool`](Builder::pool), on threads that the caller makes: `start` is called once for
    /// each worker, in order, and has a thread call its [`run`](WorkerThread::run). Never waits: a
    /// worker takes part from when its thread runs it.
    ///
    /// The end of the pool does not wait for these threads, which return from `run` soon after.
    ///
    /// # Errors
    /// If stacks can't be made, and those of `start`.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::Builder;
    ///
    /// std::thread::scope(|threads| {
    ///     let pool = Builder::new().workers(2).pool_on(|worker| {
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

    /// Makes a scheduler of one worker that runs when the caller's own loop polls it, with the
    /// policy [`Fifo`](crate::Fifo).
    ///
    /// See [`Driven`], also for what `wake` is. Never waits.
    ///
    /// # Errors
    /// If stacks or a park could not be made, or if another number of workers was asked for.
    pub fn driven(self, wake: impl Fn() + Send + Sync + 'static) -> io::Result<Driven>
    where
        F::Park: 'static,
    {
        self.driven_with(Fifo::default(), wake)
    }

    /// As [`driven`](Builder::driven), with another policy. Never waits.
    ///
    /// # Errors
    /// As for [`driven`](Builder::driven).
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
        let processors = self.pin.then(|| Processors::allowed(group.len())).transpose()?;
        let arena = StackArena::new(self.stacks)?;
        let attendants = Attendants::start(&self.shutdown, &self.monitor, &group, &self.name)?;
        let watch = attendants.watch.clone();
        let plan = Plan { group, arena, name: self.name, park: self.park, hooks: self.hooks, processors, watch };
        Ok((plan, attendants))
    }
}

/// A fiber's number has 16 bits for that of its worker.
const MOST_WORKERS: usize = 1 << 16;

/// How a worker says whether it could start.
type Report = Arc<dyn Fn(io::Result<()>) + Send + Sync>;

/// Collects the workers' reports, and waits until each of them has said that it could start, or has
/// dropped its report.
///
/// Behind pointers, so that the channel is compiled here and not in each program that starts a
/// scheduler.
fn starts(workers: usize) -> (Report, Box<dyn FnOnce() -> io::Result<()>>) {
    let (report, started) = mpsc::channel();
    let all_started = move || {
        let mut running = 0;
        for outcome in started {
            outcome?;
            running += 1;
        }
        if running == workers { Ok(()) } else { Err(io::Error::other("a worker's policy panicked")) }
    };
    // Nobody listens any more if another one could not start.
    (Arc::new(move |outcome| drop(report.send(outcome))), Box::new(all_started))
}

/// Sees to it that stack overflows on this thread are reported.
pub(crate) fn prepare_thread() -> io::Result<()> {
    segue_fiber::install_overflow_handler()?;
    segue_fiber::ensure_alternate_stack()
}

/// Counts one less when it is dropped.
struct CountDown<'a>(&'a WaitQueue<usize>);

impl Drop for CountDown<'_> {
    fn drop(&mut self) {
        let mut left = self.0.lock();
        *left.state() -= 1;
        left.notify_all(0);
    }
}

/// Stops a group when it is dropped.
struct StopAtEnd<'g>(&'g Group);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What the workers of one scheduler are made from.
struct Plan<F> {
    group: Arc<Group>,
    arena: Arc<StackArena>,
    name: String,
    park: F,
    hooks: Hooks,
    processors: Option<Processors>,
    watch: Option<Arc<Watch>>,
}

impl<F> Plan<F> {
    fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    fn local<P: Policy>(&self, index: usize, policy: P, timers: Timers) -> Local<P> {
        Local::new(Arc::clone(&self.group), index, policy, timers, StackPool::new(Arc::clone(&self.arena)))
    }
}

impl<F: MakePark> Plan<F> {
    /// Makes the calling thread that of this worker, until the service is dropped.
    fn start<P: Policy>(&self, local: &mut Local<P>) -> io::Result<(F::Park, Service<'_>)> {
        let park = self.park(local.common.index)?;
        local.hooks = self.hooks.clone();
        Ok((park, Service::begin(&self.hooks, local.common.index, self.processors.as_ref())?))
    }

    /// Makes the park of worker `index`, on its thread.
    fn park(&self, index: usize) -> io::Result<F::Park> {
        let park = (self.park)()?;
        if let Some(watch) = &self.watch {
            watch.admit(index)?;
        }
        Ok(park)
    }

    /// A worker's thread: says whether it could start, and works until the group stops.
    fn work<P: Policy>(&self, index: usize, policy: &impl Fn() -> P, report: Report) {
        // Before it says that it could start, since a policy may panic here.
        let mut local = self.local(index, policy(), Timers::real());
        let start = segue_fiber::ensure_alternate_stack().and_then(|()| self.start(&mut local));
        let (started, outcome) = match start {
            Ok(started) => (Some(started), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The thread that starts the scheduler waits for this.
        report(outcome);
        drop(report);
        if let Some((park, _service)) = started {
            // Dropped before the last hook is called.
            let local = local;
            Worker::parked(&local, park, None).run(None);
        }
    }
}

/// Runs `f` as the first fiber on this thread, and the loop until all has ended.
pub(crate) fn lead<P: Policy, K: Park, T>(
    local: Local<P>,
    park: K,
    on_deadlock: Option<OnDeadlock<'_>>,
    f: impl FnOnce() -> T,
) -> T {
    // SAFETY: the family is this call's, which leads in it once.
    with_family(|family| unsafe { lead_family(family, local, park, on_deadlock, f) })
}

/// Calls `f` with the family of a run that the caller waits for.
pub(crate) fn with_family<R>(f: impl FnOnce(&Family) -> R) -> R {
    barrier(WaitsFor::new("the run of a scheduler"), || {
        // SAFETY: it is dropped here, inside of the contexts in which it was made, and across which
        // nothing is captured. It has no members by then: `Family::job` makes them, by whose
        // contract the family is completed.
        let family = unsafe { Family::of_caller() };
        f(&family)
    })
}

/// As [`lead`], in a family that the caller knows, and completes it.
///
/// # Safety
/// The caller owns the family, and neither completes it nor calls this again.
pub(crate) unsafe fn lead_family<P: Policy, K: Park, T>(
    family: &Family,
    local: Local<P>,
    park: K,
    on_deadlock: Option<OnDeadlock<'_>>,
    f: impl FnOnce() -> T,
) -> T {
    let group = Arc::clone(&local.common.group);
    // Other workers may go on when this one's loop has ended, and so this call.
    group.own(family, group.len() == 1);
    let work = |first| Worker::parked(&local, park, on_deadlock).run(Some(first));
    // SAFETY: the family is as asked for; the worker's loop starts the job on this thread.
    unsafe { first_fiber(family, f, |family| end_soon(&group, family), || end_now(&group), work) }
}

/// Has the members of a family end, with no more ado.
pub(crate) fn cancel(family: &Family) {
    family.token().cancel();
}

/// The owner of a scheduler's family is about to complete it.
pub(crate) fn end_soon(group: &Arc<Group>, family: &Family) {
    shutdown::begin_as_owner(group, &family.token());
    group.disown();
}

/// The family is complete.
pub(crate) fn end_now(group: &Group) {
    shutdown::complete(group);
    group.stop();
}

/// Runs `f` as the first fiber of a scheduler, and then completes its family: `ending` is called
/// before that, to have the members end, and `ended` after it. `run` is given the first job, and
/// returns when every fiber has ended.
///
/// # Safety
/// The caller owns the family, and neither completes it nor calls this again. `run` starts the job
/// on this thread, if at all.
pub(crate) unsafe fn first_fiber<T>(
    family: &Family,
    f: impl FnOnce() -> T,
    ending: impl FnOnce(&Family),
    ended: impl FnOnce(),
    run: impl FnOnce(Job),
) -> T {
    let first = StackJob::new(|| {
        let f = || __rust_begin_short_backtrace(f);
        let result = catch_unwind(AssertUnwindSafe(|| family.enter_context(f)));
        ending(family);
        // SAFETY: for the owner, as the caller promises; once, since a job runs once (J1).
        unsafe { family.complete() };
        ended();
        result
    });
    // SAFETY: this frame waits below, inside of the contexts that it is in; the family outlives it.
    // The closure is not sent anywhere, as the caller promises.
    run(unsafe { StackJob::job(NonNull::from(&first), Place::here(), Some(family)) });
    // SAFETY: a job was made of it, above.
    match unsafe { first.wait(WaitsFor::new("the first fiber")) } {
        Ok(Ok(value)) => value,
        Ok(Err(payload)) | Err(payload) => resume_unwind(payload),
    }
}

/// A worker of a [`pool_on`](Builder::pool_on) threads of the caller's, to be run by one of them.
pub struct WorkerThread {
    index: usize,
    run: Box<dyn FnOnce() + Send>,
}

impl WorkerThread {
    /// Which worker it is, from 0.
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

impl std::fmt::Debug for WorkerThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerThread").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A scheduler on threads of its own.
///
/// Dropping it cancels its fibers, after a grace if it was given [one](Builder::shutdown), and
/// waits for them and for its threads. Dropped by one of its own fibers it does not wait: a thread
/// that is started for it does.
pub struct Pool(Option<Parts>);

/// What a pool consists of until it is dropped.
struct Parts {
    group: Arc<Group>,
    /// In place until the last worker has ended, also one that nobody waits for.
    family: Arc<Family>,
    threads: Vec<thread::JoinHandle<()>>,
    /// End last.
    _attendants: Attendants,
}

impl Parts {
    fn end(self) {
        // Its threads may be at work: no simulation is to take the wait for a deadlock.
        let _outside = segue_core::outside_work();
        self.group.disown();
        // SAFETY: the pool owned its family, and ends once. `disown` has taken it out of the reach
        // of spawns from outside; what its members spawn is counted before they end.
        unsafe { self.family.complete() };
        end_now(&self.group);
        for thread in self.threads {
            // A worker does not unwind.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Runs `f` in a fiber of the pool and returns what it returned. From a fiber this suspends
    /// only that fiber, from a thread it parks it.
    ///
    /// `f` may borrow, since the call does not return before it has ended. Called by one of the
    /// pool's own fibers, it runs in place.
    ///
    /// # Cancellation
    /// `f` runs in the caller's context. Cancelled before `f` started: *no effect*, `f` is dropped.
    /// After: `f` sees it at its waits, and what it returns is returned.
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
    /// let pool = segue_sched::Builder::new().workers(1).pool().unwrap();
    /// let words = vec!["a", "b"];
    /// assert_eq!(pool.run(|| words.len()), Ok(2));
    /// ```
    #[track_caller]
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
        segue_core::check()?;
        self.call(|| segue_core::check().map(|()| __rust_begin_short_backtrace(f)))
    }

    /// As [`run`](Pool::run), but runs `f` even if the caller was cancelled: `f` sees it at its
    /// waits.
    ///
    /// # Cancellation
    /// *No effect* on the call; `f` runs in the caller's context.
    ///
    /// # Panics
    /// If `f` does, with its payload.
    #[track_caller]
    pub fn call<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        if self.is_mine() {
            return f();
        }
        let _outside = segue_core::outside_work();
        let job = StackJob::new(f);
        // SAFETY: the frame waits below, inside of the contexts that it is in; the family lives as
        // long as the pool; closure and result are `Send`.
        self.parts().group.inject(unsafe { StackJob::job(NonNull::from(&job), Place::here(), Some(self.family())) });
        // SAFETY: a job was made of it, above.
        unsafe { job.wait(WaitsFor::new("a pool")) }.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Starts a detached fiber in the pool. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Builder::new().workers(1).pool().unwrap();
    /// assert_eq!(pool.spawn(|| 42).join().unwrap(), 42);
    /// ```
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_as(segue_core::Builder::new(), f)
    }

    /// As [`spawn`](Pool::spawn), with what a builder of fibers says, of the name for instance:
    /// that of `segue`, or of `segue-core`. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Builder::new().workers(1).pool().unwrap();
    /// let given = segue_core::Builder::new().name("answer");
    /// assert_eq!(pool.spawn_as(given, || 42).join().unwrap(), 42);
    /// ```
    pub fn spawn_as<F, T>(&self, given: impl Into<segue_core::Builder>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the family is boxed and completed by the pool's drop; the closure borrows
        // nothing.
        let (job, handle) = unsafe { self.family().job(given.into(), f) };
        self.parts().group.inject(job);
        handle
    }

    /// Starts a detached async task in the pool. Never waits. See [`segue_core::spawn_task`].
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Builder::new().workers(1).pool().unwrap();
    /// assert_eq!(pool.spawn_task(async { 42 }).join().unwrap(), 42);
    /// ```
    pub fn spawn_task<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: as in `spawn`.
        let (job, handle) = unsafe { self.family().async_job(segue_core::Builder::new(), future, self.share()) };
        self.parts().group.inject(job);
        handle
    }

    /// The family of what is detached in the pool.
    pub fn family(&self) -> &Family {
        &self.parts().family
    }

    /// A handle of it, to [move to](crate::move_to).
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle { group: Arc::clone(&self.parts().group) }
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.parts().group.len()
    }

    fn parts(&self) -> &Parts {
        self.0.as_ref().expect("a pool has its parts until it is dropped")
    }

    /// Whether the caller is one of the pool's own fibers, or inside of a scheduler that runs in
    /// one.
    fn is_mine(&self) -> bool {
        crate::worker::common::around_of(&self.parts().group).is_some()
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

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers()).field("family", self.family()).finish_non_exhaustive()
    }
}

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
