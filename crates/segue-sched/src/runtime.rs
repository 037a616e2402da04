//! Starting and ending schedulers: a run on the caller's thread, and a pool of threads.
//!
//! Used by applications through `segue`, and directly by those who bring a policy or a park of their own.
#![allow(unsafe_code)] // Families and frames are handed to workers that this file waits for.

use crate::driven::Driven;
use crate::frame::FrameJob;
use crate::group::Group;
use crate::handle::Handle;
use crate::hooks::{Hooked, Hooks, Processors, Service};
use crate::local::Local;
use crate::monitor::{self, Monitor, Watch};
use crate::policies::{Fifo, Stealing};
use crate::policy::Policy;
use crate::worker::{OnDeadlock, Worker};
use segue_core::{Cancelled, Family, Job, JoinHandle, Park, Place, Timers, WaitPark};
use segue_fiber::{StackArena, StackConfig, StackPool};
use std::io;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::thread;

/// What a scheduler is to be like.
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
    pub(crate) hooks: Hooks,
    pub(crate) pin: bool,
}

impl Builder {
    /// One worker for each processor that this process may use, stacks of the default size.
    ///
    /// That is [`std::thread::available_parallelism`]: on Linux it respects the caller's affinity (`taskset`) and the limits of control groups, as they are when the scheduler starts.
    pub fn new() -> Self {
        Self {
            workers: None,
            stacks: StackConfig::new(),
            name: "segue".to_owned(),
            park: || Ok(WaitPark::new()),
            monitor: monitor::Config::default(),
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
    /// How many workers; at least one.
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
        let Self { workers, stacks, name, monitor, hooks, pin, .. } = self;
        Builder { workers, stacks, name, park, monitor, hooks, pin }
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
    /// Runs `f` as the first fiber of a scheduler whose workers steal, and returns what it returned.
    ///
    /// The calling thread is the first worker, so `f` need not be `Send`. When `f` has returned, what is left of the fibers that it
    /// spawned is cancelled and waited for.
    ///
    /// # Cancellation
    /// If the caller is cancelled, so is everything inside; the call returns when all of it has ended.
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
        let (plan, _monitor) = self.plan()?;
        let group = &plan.group;
        let first = policy();
        thread::scope(|threads| {
            // However this ends, the other workers end too; else the scope would wait for them.
            let _stop = StopAtEnd(group);
            let (report, started) = mpsc::channel();
            for index in 1..group.len() {
                let (plan, policy, report) = (&plan, &policy, report.clone());
                let worker = move || plan.work(index, policy, report);
                thread::Builder::new().name(plan.name(index)).spawn_scoped(threads, worker)?;
            }
            drop(report);
            all_started(&started, group.len() - 1)?;
            let local = plan.local(0, first, Timers::real());
            // The first fiber is started on this thread or nowhere.
            local.reserve_stack()?;
            let (park, _service) = plan.start(0)?;
            Ok(lead(local, park, None, f))
        })
    }

    /// Starts a scheduler whose workers steal on threads of its own. Never waits.
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
        let (plan, monitor) = self.plan()?;
        let plan = Arc::new(plan);
        let group = Arc::clone(&plan.group);
        let parts = Parts { group, family: Family::detached().into(), threads: Vec::new(), _monitor: monitor };
        let mut pool = Pool(Some(parts));
        let (report, started) = mpsc::channel();
        let policy = Arc::new(policy);
        for index in 0..pool.workers() {
            let (plan, policy, report) = (Arc::clone(&plan), Arc::clone(&policy), report.clone());
            let name = plan.name(index);
            let worker = move || plan.work(index, &*policy, report);
            let thread = thread::Builder::new().name(name).spawn(worker)?;
            pool.0.as_mut().expect("a pool that lives").threads.push(thread);
        }
        drop(report);
        all_started(&started, pool.workers())?;
        Ok(pool)
    }

    /// Makes a scheduler of one worker that runs when the caller's own loop polls it, with the policy [`Fifo`](crate::Fifo).
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
        let (plan, monitor) = self.workers(1).plan()?;
        let local = plan.local(0, policy, Timers::real());
        let park = (plan.park)()?;
        if let Some(watch) = &plan.watch {
            watch.admit(0)?;
        }
        Ok(Driven::new(local, park, Box::new(wake), monitor))
    }

    fn plan(self) -> io::Result<(Plan<F>, Option<Monitor>)> {
        prepare_thread()?;
        let processors = || thread::available_parallelism().map_or(1, NonZero::get);
        let group = Group::new(self.workers.unwrap_or_else(processors));
        let processors = self.pin.then(|| Processors::allowed(group.len())).transpose()?;
        let arena = StackArena::new(self.stacks)?;
        let monitor = Monitor::start(&self.monitor, &group, &self.name)?;
        let watch = monitor.as_ref().map(Monitor::watch);
        let plan = Plan { group, arena, name: self.name, park: self.park, hooks: self.hooks, processors, watch };
        Ok((plan, monitor))
    }
}

/// Waits until every worker has said that it could start.
fn all_started(started: &mpsc::Receiver<io::Result<()>>, workers: usize) -> io::Result<()> {
    let mut running = 0;
    for outcome in started {
        outcome?;
        running += 1;
    }
    if running == workers { Ok(()) } else { Err(io::Error::other("a worker's policy panicked")) }
}

/// Sees to it that stack overflows on this thread are reported.
pub(crate) fn prepare_thread() -> io::Result<()> {
    segue_fiber::install_overflow_handler()?;
    segue_fiber::ensure_alternate_stack()
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
    /// Makes the calling thread that of worker `index`, until the service is dropped.
    fn start(&self, worker: usize) -> io::Result<(Hooked<F::Park>, Service<'_>)> {
        let park = Hooked { park: (self.park)()?, hooks: self.hooks.clone(), worker };
        if let Some(watch) = &self.watch {
            watch.admit(worker)?;
        }
        Ok((park, Service::begin(&self.hooks, worker, self.processors.as_ref())?))
    }

    /// A worker's thread: says whether it could start, and works until the group stops.
    fn work<P: Policy>(&self, index: usize, policy: &impl Fn() -> P, report: mpsc::Sender<io::Result<()>>) {
        // Before it says that it could start, since a policy may panic here.
        let local = self.local(index, policy(), Timers::real());
        let start = segue_fiber::ensure_alternate_stack().and_then(|()| self.start(index));
        let (started, outcome) = match start {
            Ok(started) => (Some(started), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Whoever starts the scheduler waits for this.
        let _ = report.send(outcome);
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
    with_family(|family| lead_family(family, local, park, on_deadlock, f))
}

/// Calls `f` with the family of a run that the caller waits for.
pub(crate) fn with_family<R>(f: impl FnOnce(&Family) -> R) -> R {
    // SAFETY: it is dropped here, inside of the contexts in which it was made; `lead_family`, which makes its members, completes it.
    let family = unsafe { Family::of_caller() };
    f(&family)
}

/// As [`lead`], in a family that the caller knows.
pub(crate) fn lead_family<P: Policy, K: Park, T>(
    family: &Family,
    local: Local<P>,
    park: K,
    on_deadlock: Option<OnDeadlock<'_>>,
    f: impl FnOnce() -> T,
) -> T {
    let group = Arc::clone(&local.common.group);
    let first = FrameJob::new(|| {
        let result = catch_unwind(AssertUnwindSafe(|| family.enter_context(f)));
        family.token().cancel();
        // SAFETY: `lead` owns the family and calls this here; what is detached later belongs to a fiber, of which none is left.
        unsafe { family.complete() };
        group.stop();
        result
    });
    // SAFETY: the loop below ends when every fiber has, so frame and family outlive the job; and it starts the job itself, on
    // this thread, so the closure is not sent anywhere.
    let job: Job = unsafe { FrameJob::job(NonNull::from(&first), Place::here(), Some(family)) };
    Worker::parked(&local, park, on_deadlock).run(Some(job));
    // SAFETY: a job was made of it, and has run.
    match unsafe { first.wait("the first fiber") } {
        Ok(Ok(value)) => value,
        Ok(Err(payload)) | Err(payload) => resume_unwind(payload),
    }
}

/// A scheduler on threads of its own.
///
/// Dropping it cancels its fibers and waits for them and for its threads. Dropped by one of its own fibers it does not wait: a thread that is
/// started for it does.
pub struct Pool(Option<Parts>);

/// What a pool consists of until it is dropped.
struct Parts {
    group: Arc<Group>,
    family: Box<Family>,
    threads: Vec<thread::JoinHandle<()>>,
    /// Ends last.
    _monitor: Option<Monitor>,
}

impl Parts {
    fn end(self) {
        // SAFETY: the pool owned its family, and nobody can spawn in it any more but its members.
        unsafe { self.family.complete() };
        self.group.stop();
        for thread in self.threads {
            // A worker does not unwind.
            let _ = thread.join();
        }
    }
}

impl Pool {
    /// Runs `f` in a fiber of the pool and returns what it returned. From a fiber this suspends only that fiber, from a thread it parks it.
    ///
    /// `f` may borrow, since the call does not return before it has ended. Called by one of the pool's own fibers, it runs in place.
    ///
    /// # Cancellation
    /// `f` runs in the caller's context. Cancelled before `f` started: *no effect*, `f` is dropped. After: `f` sees it at its waits, and
    /// what it returns is returned.
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
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
        segue_core::check()?;
        self.call(|| segue_core::check().map(|()| f()))
    }

    /// As [`run`](Pool::run), but runs `f` even if the caller was cancelled: `f` sees it at its waits.
    ///
    /// # Cancellation
    /// *No effect* on the call; `f` runs in the caller's context.
    ///
    /// # Panics
    /// If `f` does, with its payload.
    pub fn call<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        if self.is_mine() {
            return f();
        }
        let _outside = segue_core::outside_work();
        let job = FrameJob::new(f);
        // SAFETY: the frame waits below, inside of the contexts that it is in; the family lives as long as the pool; closure and result are `Send`.
        self.parts().group.inject(unsafe { FrameJob::job(NonNull::from(&job), Place::here(), Some(self.family())) });
        // SAFETY: a job was made of it, above.
        unsafe { job.wait("a pool") }.unwrap_or_else(|payload| resume_unwind(payload))
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

    /// As [`spawn`](Pool::spawn), with a name or attributes. Never waits.
    pub fn spawn_as<F, T>(&self, given: segue_core::Builder, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the family is boxed and completed by the pool's drop; the closure borrows nothing.
        let (job, handle) = unsafe { self.family().job(given, f) };
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
        let group = Arc::clone(&self.parts().group);
        // SAFETY: as in `spawn`.
        let (job, handle) = unsafe { self.family().async_job(segue_core::Builder::new(), future, group) };
        self.parts().group.inject(job);
        handle
    }

    /// Accepts a job, as the scheduler of plain threads for instance.
    pub fn inject(&self, job: Job) {
        self.parts().group.inject(job);
    }

    /// The family of what is detached in the pool.
    pub fn family(&self) -> &Family {
        &self.parts().family
    }

    /// A handle of it, to [move to](crate::move_to).
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.parts().group))
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.parts().group.len()
    }

    fn parts(&self) -> &Parts {
        self.0.as_ref().expect("a pool has its parts until it is dropped")
    }

    /// Whether the caller is one of the pool's own fibers, or inside of a scheduler that runs in one.
    fn is_mine(&self) -> bool {
        crate::common::around().any(|worker| Arc::ptr_eq(&worker.group, &self.parts().group))
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
        parts.family.token().cancel();
        if is_mine {
            // This fiber would wait for itself.
            thread::Builder::new()
                .name("segue-pool-end".to_owned())
                .spawn(|| parts.end())
                .unwrap_or_else(|error| abort(&format!("no thread to end a pool that its own fiber dropped: {error}")));
        } else {
            parts.end();
        }
    }
}

fn abort(why: &str) -> ! {
    eprintln!("segue: {why}");
    std::process::abort()
}
