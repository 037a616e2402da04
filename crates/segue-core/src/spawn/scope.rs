//! Scopes that own what is spawned in them and lend to it, and what is spawned without one.
//!
//! Used by applications, through `scope`, `spawn` and `Builder`. The [`Family`] knows which owner
//! waits for which members.
#![allow(unsafe_code)] // Scoped closures are queued beyond what the borrow checker can follow.

use crate::cancel::token::CancelToken;
use crate::contract::chain;
use crate::contract::current;
use crate::contract::job::Given;
use crate::contract::tree::cancelled::{Cancelled, Reason};
use crate::contract::tree::context::is_shielded;
use crate::contract::tree::family::Family;
use crate::contract::unwind::contain;
use crate::primitives::atomic::{AtomicBool, Ordering};
use crate::primitives::payload::Payload;
use crate::sim::preemption::preemption_point;
use crate::spawn::builder::Builder;
use crate::spawn::default_runtime::with_origin;
use crate::spawn::join_handle::JoinHandle;
use std::error::Error;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, OnceLock};

/// A block that owns the fibers spawned in it. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pub(super) family: Family,
    /// The first error that has cancelled it.
    failure: OnceLock<Arc<Reason>>,
    /// Whether [`Scope::failure`] has returned that.
    seen: AtomicBool,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f` with a scope in which fibers can be spawned that borrow from the surroundings, and
/// waits for all of them.
///
/// The fibers run under the caller's scheduler; from a plain thread, under the default one. The
/// scope is cancelled when its body or one of its fibers panics, when one that may
/// [fail](Scope::spawn_or_cancel) does, when [`Scope::cancel`] is called, and with the caller's own
/// cancellation. It always waits until the last fiber has ended.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they
/// may borrow.
///
/// # Panics
/// With the first panic of the body, of a fiber, or of the drop of what a fiber leaves and nobody
/// takes, after all have ended. If fibers never started because of it, a line on the standard error
/// says how many.
///
/// With a message that has the error of a fiber that [failed](Scope::spawn_or_cancel), if nobody
/// has asked for it. It goes before panics, as these came second.
///
/// While the calling fiber is panicking (a scope opened in a `Drop`), each fiber runs in place, at
/// its spawn.
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
    let at = Location::caller();
    if chain::top().is_null() {
        return scope_here(f, at);
    }
    // SAFETY: a runtime's family outlives its members, of which the caller is one, or is static.
    match unsafe { current::family().as_ref() } {
        // The body may be captured and forgotten. Then nobody but the runtime can tell its fibers,
        // which are the runtime's, to end.
        Some(runtime) if !is_shielded() => runtime.token().run(|| scope_here(f, at)),
        _ => scope_here(f, at),
    }
}

fn scope_here<'env, F, T>(f: F, at: &'static Location<'static>) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope {
        family: Family::of_scope(),
        failure: OnceLock::new(),
        seen: AtomicBool::new(false),
        scope: PhantomData,
        env: PhantomData,
    };
    scope.family.context.set_owner();
    let body = scope.family.enter_context(|| {
        // Kept like a fiber's: the first one counts.
        catch_unwind(AssertUnwindSafe(|| f(&scope))).map_err(|payload| scope.family.keep_panic("the body", payload))
    });
    // SAFETY: this is the owner, and the body, which made the members, has ended; members can't
    // make others in this family after they have ended themselves.
    unsafe { scope.family.complete_at(at) };
    if let Some(error) = scope.failure.get()
        && !scope.seen.load(Ordering::Relaxed)
    {
        raise_error(body, &scope.family, error, at);
    }
    // A statement of its own: what is matched on would keep the lock.
    let panic = scope.family.panic.lock().take();
    match (body, panic) {
        (body, Some(payload)) => raise(body, payload, &scope.family, at),
        (Ok(value), None) => value,
        (Err(_), None) => unreachable!("a panic is kept"),
    }
}

/// Raises the error that nobody has asked for, as a panic of its own.
#[cold]
fn raise_error<T>(body: T, family: &Family, error: &Reason, at: &Location<'_>) -> ! {
    let superfluous = family.panic.lock().take();
    contain(|| drop(superfluous));
    let message = format!("a fiber of the scope at {at} failed: {}", error.0);
    // The panic hook is told, which has not heard of it yet.
    match catch_unwind(|| -> () { panic!("{message}") }) {
        Err(payload) => raise(body, payload, family, at),
        Ok(()) => unreachable!("it panics"),
    }
}

/// Raises the panic of a scope, and says what became of fibers that can't say it themselves.
#[cold]
fn raise<T>(body: T, payload: Payload, family: &Family, at: &Location<'_>) -> ! {
    contain(|| drop(body));
    let unstarted = family.unstarted.load(Ordering::Relaxed);
    if unstarted != 0 {
        // Not by `eprintln`, which panics if nobody can read it.
        let were = if unstarted == 1 { "fiber was" } else { "fibers were" };
        let _ = writeln!(io::stderr(), "segue: {unstarted} {were} never started in the scope at {at}, which panicked");
    }
    resume_unwind(payload)
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a fiber that may borrow from the surroundings of the scope.
    pub fn spawn<F, T>(&'scope self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_in(self, f)
    }

    /// Starts a fiber that cancels the scope by an error, as by a panic.
    ///
    /// The first error counts. It is the [reason](Cancelled::reason) of the cancellation: the
    /// siblings and the scope's body find it there, and [`failure`](Scope::failure) returns it. If
    /// nobody has called that when the scope ends, `scope` panics with the error's text: a lost
    /// error would look like success. Joining the fiber does not count as asking.
    ///
    /// The handle yields what `f` returns, with the error as the reason of a [`Cancelled`]. An
    /// error that comes when the scope is cancelled already, by [`cancel`](Scope::cancel), by a
    /// panic or with its caller, is no failure, and only the handle has it: mostly it says just
    /// that the fiber was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{after, scope};
    /// use std::time::Duration;
    ///
    /// let failed = scope(|s| {
    ///     let _patient = s.spawn(|| after(Duration::MAX).wait());
    ///     let number = s.spawn_or_cancel(|| "many".parse::<u32>());
    ///     assert!(number.join().unwrap().is_err());
    ///     s.failure()
    /// });
    /// let error = failed.unwrap();
    /// assert_eq!(error.reason().unwrap().to_string(), "invalid digit found in string");
    /// ```
    pub fn spawn_or_cancel<F, T, E>(&'scope self, f: F) -> JoinHandle<Result<T, Cancelled>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.spawn(move || f().map_err(|error| self.fail(Reason::new(error))))
    }

    #[cold]
    fn fail(&self, error: Arc<Reason>) -> Cancelled {
        // A member that has found itself cancelled from outside finds it here, too: a context is
        // marked before those inside of it. The fibers that are cancelled find the error.
        if !self.family.context.is_cancelled() && self.failure.set(Arc::clone(&error)).is_ok() {
            self.family.context.cancel(Some(Arc::clone(&error)));
        }
        Cancelled::because(Some(error))
    }

    /// The error that has cancelled the scope, as the reason of a [`Cancelled`]; `None` if no fiber
    /// has [failed](Scope::spawn_or_cancel) so far. Never waits: join the fibers first.
    ///
    /// Once this has returned an error, `scope` does not panic with it.
    pub fn failure(&self) -> Option<Cancelled> {
        preemption_point();
        let error = self.failure.get()?;
        self.seen.store(true, Ordering::Relaxed);
        Some(Cancelled::because(Some(Arc::clone(error))))
    }

    /// Starts an async task that may borrow from the surroundings of the scope. See [`spawn_task`].
    pub fn spawn_task<F>(&'scope self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        // SAFETY: as in `Builder::spawn_in`.
        with_origin(|origin| unsafe { origin.spawn_task(Some(&self.family), Given::default(), future) })
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
/// It runs under the caller's scheduler (from a plain thread, under the default one) and belongs to
/// its runtime: when that ends, the fiber is cancelled and waited for.
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
/// The caller's scheduler polls it, with its workers and its policy, to which each poll is a
/// closure that has not started: so it may run on another thread each time, and has no stack while
/// it waits. Code that it calls may also wait as fibers do; then that poll keeps its stack and its
/// thread.
///
/// # Cancellation
/// A task that is cancelled is dropped where it waits, and its handle yields
/// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
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
