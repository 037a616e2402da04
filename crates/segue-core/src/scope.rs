//! Who owns what was spawned: scopes that borrow, and the family of a runtime that detached fibers belong to.
//!
//! Used by applications through `scope` and `spawn`, and by runtimes, whose end cancels and joins their family.
//!
//! # The idea
//!
//! A family counts its members: tasks from spawn to end, and one for its owner. The owner gives up its one at the end and waits for
//! the count to reach zero, shielded, since the members may borrow from the owner's frame. Whoever brings it to zero signals. As the owner cannot
//! leave before, the signal is the last touch of the family by a member. A worker may keep the membership of a runtime's fiber that has ended for the next
//! one that it makes: see `spare.rs`.
//!
//! Ordering: each `leave` releases and the last one acquires, so what all members did happens before the owner goes on.
#![allow(unsafe_code)] // Scoped closures are queued beyond what the borrow checker can follow.

use crate::async_task::Accept;
use crate::atomic::{AtomicUsize, Ordering};
use crate::attributes::{self, Attribute, Attributes};
use crate::cancel::{CancelToken, Reason};
use crate::context::Context;
use crate::fiber::{self, WaitsFor};
use crate::job::{Job, Name};
use crate::lock::Lock;
use crate::preempt::preemption_point;
use crate::scheduler::Scheduler;
use crate::spare;
use crate::task::{self, JoinHandle, Payload};
use crate::thread;
use crate::trigger::Trigger;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, OnceLock};

/// The fibers that one owner has to wait for.
pub struct Family {
    context: Arc<Context>,
    live: AtomicUsize,
    done: Trigger,
    /// The first panic of a member; kept for the owner if it is one that re-raises.
    panic: Lock<Option<Payload>>,
    reraises: bool,
}

impl Family {
    /// The family of a runtime. Its members are detached: a panic stays with the one who panicked.
    #[must_use]
    pub fn detached() -> Self {
        Self::new(Context::root(), false)
    }

    /// The family of a runtime that its caller waits for: cancelled with the caller.
    ///
    /// # Safety
    /// It is completed, or dropped without members, inside of the contexts that the caller is in now, on the same thread.
    #[must_use]
    pub unsafe fn of_caller() -> Self {
        Self::new(Context::nested(), false)
    }

    fn new(context: Arc<Context>, reraises: bool) -> Self {
        Self { context, live: AtomicUsize::new(1), done: Trigger::new(), panic: Lock::new(None), reraises }
    }

    /// Runs `f` as the owner: inside of the family's context.
    pub fn enter_context<R>(&self, f: impl FnOnce() -> R) -> R {
        self.context.enter(f)
    }

    /// The right to cancel the family.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.context)
    }

    /// A job that belongs to this family, with a handle for its result.
    ///
    /// # Safety
    /// The family stays in place until [`complete`](Family::complete) has returned, which the caller will call, and what
    /// the closure and its result borrow lives until then.
    #[inline]
    pub unsafe fn job<F, T>(&self, given: Builder, closure: F) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.task(given, closure, self) }
    }

    /// # Safety
    /// As for [`job`](Family::job); and `detached`, to which what the closure detaches belongs, outlives the job.
    #[inline]
    unsafe fn task<F, T>(&self, given: Builder, closure: F, detached: *const Family) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the family counts the task, and so it and its context outlive the job.
        let (job, task) = unsafe { task::new(closure, given, &*self.context, self, detached) };
        // SAFETY: this is the one handle of a new task.
        (job, unsafe { JoinHandle::new(task) })
    }

    /// As [`job`](Family::job), for a future.
    ///
    /// # Safety
    /// As for [`job`](Family::job).
    pub unsafe fn async_job<F>(
        &self,
        given: Builder,
        future: F,
        accept: Arc<dyn Accept>,
    ) -> (Job, JoinHandle<F::Output>)
    where
        F: Future + Send,
        F::Output: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.async_task(given, future, accept, self) }
    }

    /// # Safety
    /// As for `task`.
    unsafe fn async_task<F>(
        &self,
        given: Builder,
        future: F,
        accept: Arc<dyn Accept>,
        detached: *const Family,
    ) -> (Job, JoinHandle<F::Output>)
    where
        F: Future + Send,
        F::Output: Send,
    {
        // SAFETY: the family counts the task, and so it and its context outlive the job.
        let (job, task) = unsafe { task::new_async(future, given, accept, &*self.context, self, detached) };
        // SAFETY: this is the one handle of a new task.
        (job, unsafe { JoinHandle::new(task) })
    }

    #[inline]
    pub(crate) fn enter(&self) {
        if !spare::take(self) {
            self.live.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last thing that a member does with its family.
    ///
    /// # Safety
    /// The family counts the caller, once for this call. It may be gone when this returns, hence the pointer.
    #[inline]
    pub(crate) unsafe fn leave(this: *const Self) {
        // SAFETY: the caller's membership keeps it in place, until it is kept or given up.
        if unsafe { (*this).reraises } || !spare::keep(this) {
            // SAFETY: as the caller promises.
            unsafe { Self::depart(this) };
        }
    }

    /// Gives up a membership.
    ///
    /// # Safety
    /// As for [`leave`](Family::leave).
    #[inline]
    pub(crate) unsafe fn depart(this: *const Self) {
        // SAFETY: the count, or the owner's wait for `done`, keeps it in place until the last line here has had its effect.
        unsafe {
            if (*this).live.fetch_sub(1, Ordering::AcqRel) == 1 {
                (*this).done.signal(0);
            }
        }
    }

    /// Takes note of a member's panic, and gives back what its handle is to report.
    #[cold]
    pub(crate) fn keep_panic(&self, payload: Payload) -> Payload {
        if !self.reraises {
            return payload;
        }
        let message = task::message(payload.as_ref()).to_owned();
        self.context.cancel(Some(Reason::new(format!("a fiber of the scope panicked: {message}"))));
        let mut kept = self.panic.lock();
        let superfluous = if kept.is_none() { kept.replace(payload) } else { Some(payload) };
        drop(kept);
        task::discard(superfluous);
        Box::new(message)
    }

    /// The owner's end: accepts no more, waits for every member, and leaves the tree. Neither cancellation nor a panic under way
    /// cuts it short.
    ///
    /// # Safety
    /// For the owner; called once, after which no member is made.
    #[track_caller]
    pub unsafe fn complete(&self) {
        spare::settle();
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            self.done.wait_shielded(WaitsFor::new("the fibers of a scope"));
        }
        self.context.end();
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // In case that nobody has completed it: without members that is only to leave the tree.
        self.context.end();
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("live", &self.live.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

/// A block that owns the fibers spawned in it. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    family: Family,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope in which fibers can be spawned that borrow from the surroundings, and waits for all of them.
///
/// The fibers run under the caller's scheduler; from a plain thread, under the default one. The scope is cancelled when its body or one of
/// its fibers panics, when [`Scope::cancel`] is called, and with the caller's own cancellation. It always waits until the last fiber
/// has ended.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they may borrow.
///
/// # Panics
/// With the first panic of the body or of a fiber, after all have ended.
///
/// While the calling fiber is panicking (a scope opened in a `Drop`), each fiber runs in place, at its spawn.
///
/// # Examples
///
/// ```
/// let mut words = vec!["straight", "line"];
/// let (mut a, mut b) = (0, 0);
/// segue_core::scope(|s| {
///     s.spawn(|| a = words[0].len());
///     s.spawn(|| b = words[1].len());
/// });
/// words.push("code");
/// assert_eq!((a, b), (8, 4));
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { family: Family::new(Context::nested(), true), scope: PhantomData, env: PhantomData };
    let body = scope.family.enter_context(|| catch_unwind(AssertUnwindSafe(|| f(&scope))));
    if body.is_err() {
        scope.cancel();
    }
    // SAFETY: this is the owner, and the body, which made the members, has ended; members can't make others in this family
    // after they have ended themselves.
    unsafe { scope.family.complete() };
    let panic = scope.family.panic.lock().take();
    match (body, panic) {
        (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
        (Ok(value), None) => value,
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a fiber that may borrow from the surroundings of the scope.
    pub fn spawn<F, T>(&'scope self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_as(Builder::new(), f)
    }

    fn spawn_as<F, T>(&'scope self, given: Builder, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let (scheduler, detached) = place();
        // SAFETY: the family is in the frame of `scope`, which calls `complete` before it returns, however the body ends; what
        // lives for 'scope lives until then. The runtime's family outlives the caller, which is one of its members or its owner, and
        // so the scope and its jobs.
        let (job, handle) = unsafe { self.family.task(given, f, detached) };
        submit(&scheduler, job, &self.family);
        handle
    }

    /// Starts an async task that may borrow from the surroundings of the scope. See [`spawn_task`].
    pub fn spawn_task<F>(&'scope self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let (scheduler, detached) = place();
        // SAFETY: as in `spawn_as`.
        let (job, handle) = unsafe { self.family.async_task(Builder::new(), future, scheduler.accepts(), detached) };
        scheduler.spawn(job);
        handle
    }

    /// Requests that the fibers of this scope, and its body, stop. Never waits.
    pub fn cancel(&self) {
        preemption_point();
        self.family.context.cancel(None);
    }

    /// The right to cancel this scope from elsewhere.
    pub fn token(&self) -> CancelToken {
        self.family.token()
    }
}

impl std::fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Scope").field(&self.family).finish()
    }
}

/// Starts a detached fiber and returns a handle for its result.
///
/// It runs under the caller's scheduler (from a plain thread, under the default one) and belongs to its runtime: when that
/// ends, the fiber is cancelled and waited for.
///
/// # Examples
///
/// ```
/// let handle = segue_core::spawn(|| "done");
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f)
}

/// Starts a detached async task next to the fibers, and returns a handle for its result.
///
/// The caller's scheduler polls it, with its workers and its policy, to which each poll is a closure that has not started: so it may run on another thread each time, and
/// has no stack while it waits. Code that it calls may also wait as fibers do; then that poll keeps its stack and its thread.
///
/// # Cancellation
/// A task that is cancelled is dropped where it waits, and its handle yields [`Cancelled`](crate::Cancelled).
///
/// # Examples
///
/// ```
/// let task = segue_core::spawn_task(async { segue_core::spawn(|| 6).await.unwrap() * 7 });
/// assert_eq!(task.join().unwrap(), 42);
/// ```
pub fn spawn_task<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Builder::new().spawn_task(future)
}

/// A spawn with a name or with attributes, in the shape of [`std::thread::Builder`].
///
/// # Examples
///
/// ```
/// let handle = segue_core::Builder::new().name("answer").spawn(|| 42);
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Builder {
    pub(crate) name: Option<Name>,
    pub(crate) attributes: Option<Attributes>,
}

impl Builder {
    /// A spawn without a name, with a copy of the caller's attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name that reports give to the fiber.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The attributes that the fiber is to carry, in place of a copy of the caller's. They are not copied: whoever keeps a clone of the handle can change them
    /// while the fiber lives.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.attributes = Some(attributes);
        self
    }

    /// The fiber's attribute of this type; of the other types it carries what the caller does.
    pub fn attribute<A: Attribute>(mut self, value: A) -> Self {
        let attributes = self.attributes.take().or_else(attributes::inherited).unwrap_or_default();
        self.attributes = Some(attributes.with(value));
        self
    }

    /// As [`spawn`].
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (scheduler, family) = place();
        // SAFETY: a runtime's family outlives its members, of which the caller is one, or is static.
        match unsafe { family.as_ref() } {
            Some(family) => {
                // SAFETY: the runtime calls `complete` before it ends, and the closure borrows nothing.
                let (job, handle) = unsafe { family.job(self, f) };
                submit(&scheduler, job, family);
                handle
            }
            None => {
                // SAFETY: there is no context and no family, and the closure borrows nothing.
                let (job, task) = unsafe { task::new(f, self, ptr::null(), ptr::null(), ptr::null()) };
                // SAFETY: this is the one handle of a new task.
                let handle = unsafe { JoinHandle::new(task) };
                scheduler.spawn(job);
                handle
            }
        }
    }

    /// As [`spawn_task`].
    pub fn spawn_task<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (scheduler, family) = place();
        let accept = scheduler.accepts();
        // SAFETY: a runtime's family outlives its members, of which the caller is one, or is static. The runtime calls `complete` before it ends, and the future
        // borrows nothing.
        let (job, task) = unsafe {
            let context = family.as_ref().map_or(ptr::null(), |family| &raw const *family.context);
            task::new_async(future, self, accept, context, family, family)
        };
        scheduler.spawn(job);
        // SAFETY: this is the one handle of a new task.
        unsafe { JoinHandle::new(task) }
    }

    /// What is given, and what the caller hands down.
    pub(crate) fn or_inherited(mut self) -> Self {
        self.attributes = self.attributes.or_else(attributes::inherited);
        self
    }

    /// The same name, and the same attributes.
    pub(crate) fn copy(&self) -> Self {
        Self { name: self.name.clone(), attributes: self.attributes.clone() }
    }

    /// As [`Scope::spawn`].
    pub fn spawn_in<'scope, F, T>(self, scope: &'scope Scope<'scope, '_>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.spawn_as(self, f)
    }
}

/// Hands a job to a scheduler, unless the caller is a fiber that panics: it could not wait for the job, so it runs it.
#[inline]
fn submit(scheduler: &Target<'_>, job: Job, family: &Family) {
    match fiber::running() {
        Some(fiber) if fiber.must_not_suspend() => family.enter_context(|| job.run()),
        _ => {
            scheduler.spawn(job);
            preemption_point();
        }
    }
}

/// Starts the default runtime, or finds it started: what accepts its jobs, and the family of what is detached there.
pub type StartDefault = fn() -> (fn(Job), &'static Family);

static DEFAULT: OnceLock<StartDefault> = OnceLock::new();

/// Says where plain threads spawn. The first call counts; `start` is called at each spawn, and is to start the runtime once.
pub fn set_default(start: StartDefault) {
    // Whoever came first keeps it.
    let _ = DEFAULT.set(start);
}

/// Hands a job to the default runtime, or to a thread of its own if there is none: for schedulers that start nothing themselves.
pub fn spawn_by_default(job: Job) {
    match DEFAULT.get() {
        Some(start) => start().0(job),
        None => thread::scheduler().spawn(job),
    }
}

/// Where the jobs of async tasks go that belong to no scheduler.
pub(crate) fn default_accepts() -> Arc<dyn Accept> {
    struct Default;
    impl Accept for Default {
        fn accept(&self, job: Job) {
            spawn_by_default(job);
        }
    }
    Arc::new(Default)
}

/// Whether [`set_default`] was called.
#[must_use]
pub fn has_default() -> bool {
    DEFAULT.get().is_some()
}

/// Where the caller's jobs go.
enum Target<'a> {
    Scheduler(&'a dyn Scheduler),
    Default(fn(Job)),
}

impl Target<'_> {
    #[inline]
    fn spawn(&self, job: Job) {
        match self {
            Self::Scheduler(scheduler) => scheduler.spawn(job),
            Self::Default(accept) => accept(job),
        }
    }

    fn accepts(&self) -> Arc<dyn Accept> {
        match self {
            Self::Scheduler(scheduler) => scheduler.accepts(),
            Self::Default(_) => default_accepts(),
        }
    }
}

/// Where the caller spawns, and the family of what it detaches.
#[inline]
fn place<'a>() -> (Target<'a>, *const Family) {
    // The scheduler outlives the running fiber, in which the result is used.
    match fiber::running() {
        Some(fiber) => (Target::Scheduler(fiber.scheduler()), fiber.family()),
        None => match DEFAULT.get() {
            Some(start) => {
                let (accept, family) = start();
                (Target::Default(accept), family)
            }
            None => (Target::Scheduler(thread::scheduler()), thread::family()),
        },
    }
}
