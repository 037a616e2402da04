//! Scopes that own what is spawned in them and lend to it, and what is spawned without one.
//!
//! Used by applications, through `scope`, `spawn` and `Builder`. Who waits for whom is the [`Family`]'s business.
#![allow(unsafe_code)] // Scoped closures are queued beyond what the borrow checker can follow.

use crate::attributes::{self, Attribute, Attributes};
use crate::cancel::CancelToken;
use crate::family::Family;
use crate::job::Name;
use crate::preempt::preemption_point;
use crate::target::{place, submit};
use crate::task::{self, JoinHandle};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

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
    let scope = Scope { family: Family::of_scope(), scope: PhantomData, env: PhantomData };
    let body = scope.family.enter_context(|| catch_unwind(AssertUnwindSafe(|| f(&scope))));
    if body.is_err() {
        scope.cancel();
    }
    // SAFETY: this is the owner, and the body, which made the members, has ended; members can't make others in this family
    // after they have ended themselves.
    unsafe { scope.family.complete() };
    let panic = scope.family.take_panic();
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
        self.family.cancel();
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
            let context = family.as_ref().map_or(ptr::null(), |family| family.context());
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
