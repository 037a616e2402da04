//! Scopes that own the fibers spawned inside and lend to them.
//!
//! Used by applications, through `scope` and `Builder`. The [`Family`] knows which owner
//! waits for which members; `try_scope.rs` has scopes of fibers that may fail.
//!
//! # The end of a scope
//!
//! 1. The body ends.
//! 2. The last of its fibers ends, and of those that these have spawned.
//! 3. Its daemons are cancelled, and end. From here on the scope accepts no fibers.
//! 4. Its hooks run, the last one first.
//!
//! A failure at any of these steps cancels the rest, and skips none of them.
#![allow(unsafe_code)] // Scoped closures are queued beyond what the borrow checker can follow.

use crate::cancel::shield_at;
use crate::cancel::token::CancelToken;
use crate::chain::top;
use crate::chain::unwind::{caught, text};
use crate::contract::current;
use crate::contract::fiber::Spawn;
use crate::contract::job::Given;
use crate::primitives::atomic::Ordering;
use crate::primitives::lock::Lock;
use crate::primitives::payload::{Payload, message};
use crate::primitives::waits_for::WaitsFor;
use crate::sim::preemption::preemption_point;
use crate::spawn::async_task::Ending;
use crate::spawn::default_runtime::{DefaultRuntime, Origin, StartDefault, Threads};
use crate::spawn::failure::ScopeError;
use crate::spawn::family::{DROPPED_ERROR, Family, Held};
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::overdue;
use crate::spawn::task;
use crate::tree::cancelled::{Cancelled, Reason};
use crate::tree::context::is_shielded;
use std::any::type_name;
use std::error::Error;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::time::Duration;

/// A block that owns the fibers spawned inside. See [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    pub(super) family: Family,
    /// Made for the first daemon or hook.
    late: OnceLock<Box<Late>>,
    /// Where a plain thread starts fibers of this scope.
    start: StartDefault,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The scope has no fibers any more.
pub(super) struct Over;

/// The work after the scope's fibers have ended.
struct Late {
    daemons: Family,
    hooks: Lock<Vec<Hook>>,
}

/// A part of a scope that fails: the part that is not returned.
pub(super) const DROPPED_VALUE: &str = "the drop of the body's value";

/// A closure that runs at the end of a scope. It may borrow from the same data as the scope.
type Hook = Box<dyn FnOnce() + Send>;

/// Runs `f` with a scope in which fibers can be spawned that borrow from the surroundings, and
/// waits for all of them.
///
/// The fibers run under the caller's scheduler; from a plain thread, under the default one. The
/// scope is cancelled when its body or one of its fibers panics, when [`Scope::cancel`] is called,
/// and with the caller's own cancellation. The scope always waits until the last fiber has ended.
///
/// **An `Err` cancels nothing here.** If the body leaves by `?`, the scope waits for its fibers, as
/// after any other end of the body, and for ever if they serve for ever. Where the body uses `?`,
/// or fibers return errors, [`try_scope`](crate::try_scope) has the first error cancel the rest. A
/// debug build reports a scope that has waited for 5 s behind its body: once for each line, on the
/// standard error, with the waits of its fibers. A body that joins its fibers is not reported. The
/// variable `SEGUE_SCOPE_REPORT_MS` of the environment sets another limit; 0 is no report.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they
/// may borrow.
///
/// # Panics
/// With the first panic of the body, of a fiber, of a hook, or of a drop of a value that nobody
/// takes (a fiber's result, a refused closure, the body's value), after all have ended. If there
/// were more, and the first has a text, with a text that says all of them; without one, with its
/// payload, and the others go to the standard error. If fibers never started because of that, a
/// line on the standard error says how many.
///
/// While the calling fiber is panicking (a scope opened in a `Drop`), and in
/// [`no_suspend`](crate::no_suspend), each fiber runs in place, at its spawn; a task, and a closure
/// with a delay, is dropped and never runs, for a reason that says so.
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
    scope_over(Threads::start, f)
}

/// As [`scope`], with another runtime behind plain threads: for crates that have one.
///
/// # Cancellation
/// As for [`scope`].
///
/// # Panics
/// As for [`scope`].
///
/// # Examples
///
/// ```
/// use segue_core::build::{DefaultRuntime, Threads};
/// use segue_core::scheduling::scope_over;
///
/// assert_eq!(scope_over(Threads::start, |s| s.spawn(|| 42).join().unwrap()), 42);
/// ```
#[track_caller]
pub fn scope_over<'env, F, T>(start: StartDefault, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let at = Location::caller();
    let (mut f, mut value) = (Some(f), None);
    where_it_may_be_captured(&mut || {
        let scope = Scope::new(start);
        let mut body = None;
        scope.run(at, is_result::<T>, &mut || body = f.take().map(|f| f(&scope)));
        match (body, scope.take_error()) {
            (body, Some(error)) => scope.raise(body, error, at),
            (body, None) => value = body,
        }
    });
    value.expect("a panic is kept")
}

/// Whether this is the type of a `Result`, as far as its name tells.
fn is_result<T>() -> bool {
    type_name::<T>().starts_with("core::result::Result<")
}

/// Calls the function that opens a scope.
pub(super) fn where_it_may_be_captured(open: &mut dyn FnMut()) {
    if top().is_null() {
        return open();
    }
    // SAFETY: a runtime's family outlives its members, of which the running fiber is one, or is
    // static.
    match unsafe { Family::of_id(current::family()).as_ref() } {
        // The body may be captured and forgotten. Then nobody but the runtime can tell its fibers,
        // which are the runtime's, to end.
        Some(runtime) if !is_shielded() => runtime.token().run(open),
        _ => open(),
    }
}

impl Scope<'_, '_> {
    /// A scope that the caller is to [run](Self::run), in its place.
    pub(super) fn new(start: StartDefault) -> Self {
        Self { family: Family::of_scope(), late: OnceLock::new(), start, scope: PhantomData, env: PhantomData }
    }

    /// Runs the body, and waits for everything that the scope owns. `None` if the body panicked:
    /// then that is kept, like a fiber's.
    ///
    /// An `Err` that the body returns would be lost on the fibers if `is_lost` says so.
    pub(super) fn run(&self, at: &'static Location<'static>, is_lost: fn() -> bool, body: &mut dyn FnMut()) {
        let family = &self.family;
        family.context.set_owner();
        family.enter_context(|| {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
                drop(family.keep_panic("the body", payload));
            }
        });
        let watch = || overdue::watch(&family.context, at, is_lost);
        // SAFETY: this is the owner, and the body, which made the members, has ended; members can't
        // make others in this family after their own end, and daemons and hooks ask first.
        unsafe { family.complete_members(WaitsFor { what: "the fibers of a scope", at }, watch) };
        if let Some(late) = self.late.get() {
            self.end_late(late, at);
        }
        family.context.end();
    }

    #[cold]
    fn end_late(&self, late: &Late, at: &'static Location<'static>) {
        self.family.context.cancel(Some(Reason::new("the scope is over")));
        let watch = || overdue::watch(&self.family.context, at, || false);
        // SAFETY: this is the owner; from now on the scope's family can't be held, and a daemon is
        // made under a hold alone.
        unsafe { late.daemons.complete_members(WaitsFor { what: "the daemons of a scope", at }, watch) };
        // A statement of its own: a `match` on the call would keep the lock.
        let next = || late.hooks.lock().pop();
        while let Some(hook) = next() {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(hook)) {
                drop(self.family.keep_panic("a hook", payload));
            }
        }
    }

    /// The scope's failures, apart from mere cancellations.
    pub(super) fn take_error(&self) -> Option<ScopeError> {
        let mut failures = self.family.failures.lock();
        let error = failures.take()?;
        let echo = failures.take_echo();
        drop(failures);
        Some(error.in_place_of(DROPPED_ERROR, echo))
    }

    /// The first error that only tells of the cancellation.
    pub(super) fn take_echo(&self) -> Option<ScopeError> {
        self.family.failures.lock().take_echo()
    }

    /// Raises the failures, of which the first was a panic, and reports the end of fibers that
    /// can't do so themselves.
    #[cold]
    pub(super) fn raise<T>(&self, body: T, error: ScopeError, at: &Location<'_>) -> ! {
        let error = error.in_place_of(DROPPED_VALUE, body);
        let unstarted = self.family.unstarted.load(Ordering::Relaxed);
        // Not by `eprintln`, which panics at a closed stream.
        let mut stderr = io::stderr();
        if unstarted != 0 {
            let were = if unstarted == 1 { "fiber was" } else { "fibers were" };
            let _ = writeln!(stderr, "segue: {unstarted} {were} never started in the scope at {at}, which panicked");
        }
        let mut failures = error.into_failures();
        let first = failures.next().and_then(|first| first.into_panic()).expect("there is one, a panic");
        let mut later = String::new();
        failures.for_each(|failure| {
            later += &format!("; then {failure}");
            if let Err(payload) = caught(|| drop(failure)) {
                later += &format!("; then {DROPPED_ERROR} panicked: {}", text(payload.as_ref()));
                mem::forget(payload);
            }
        });
        if later.is_empty() {
            resume_unwind(first);
        }
        if first.is::<&str>() || first.is::<String>() {
            resume_unwind(Box::new(message(first.as_ref()).unwrap_or_default() + &later));
        }
        let _ = writeln!(stderr, "segue: in the scope at {at}, which panicked{later}");
        resume_unwind(first)
    }

    pub(super) fn daemons(&self) -> &Family {
        &self.late().daemons
    }

    fn late(&self) -> &Late {
        self.late.get_or_init(|| {
            // SAFETY: both are parts of the scope, which completes the daemons before its end.
            let daemons = unsafe { self.family.daemons() };
            Box::new(Late { daemons, hooks: Lock::new(Vec::new()) })
        })
    }

    /// Whether there are daemons or hooks, which are no members of the scope's family, and spawn
    /// under a [hold](Self::hold) of that family.
    #[inline(always)]
    pub(super) fn is_late(&self) -> bool {
        self.late.get().is_some()
    }

    /// Keeps the family open for members until the drop of the answer. An error if there are none
    /// any more: then the spawn is [refused](Self::refuse).
    fn hold(&self) -> Result<Held<'_>, Over> {
        self.family.hold().ok_or(Over)
    }

    /// The handle of a spawn that comes too late, and is dropped. A panic of that is the scope's,
    /// too, which looks for failures when the last daemon and the last hook have ended.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse<V, T>(&self, what: V) -> JoinHandle<T> {
        self.refuse_with(what, self.family.context.error())
    }

    /// Fails the scope by an error of `part`.
    #[cold]
    pub(super) fn fail(&self, part: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> Cancelled {
        match error.into().downcast() {
            // Those of a scope further in are this one's.
            Ok(inner) => self.family.keep_all(*inner),
            Err(error) => self.family.keep_error(part, Reason::new(error)),
        }
    }

    #[cold]
    fn refuse_with<V, T>(&self, what: V, cancelled: Cancelled) -> JoinHandle<T> {
        let mut what = Some(what);
        task::never(self.drop_refused(&mut || what = None), cancelled)
    }

    fn drop_refused(&self, drop_it: &mut dyn FnMut()) -> Result<(), Payload> {
        let keep = |payload| self.family.keep_panic("the drop of what was refused", payload);
        caught(drop_it).map_err(keep)
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Starts a fiber that may borrow from the surroundings of the scope.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // Not by `spawn_given`: its settings would be written out for the cold function.
        if self.is_late() {
            return self.spawn_late(Given::here(), f);
        }
        // SAFETY: as in `spawn_given`.
        unsafe { Origin::of_caller(self.start).spawn(&self.family, Given::here(), f) }
    }

    pub(super) fn spawn_given<F, T>(&'scope self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        if self.is_late() {
            return self.spawn_late(given, f);
        }
        // SAFETY: the family is in the frame of `scope`, which completes the family before its
        // return, after any end of the body; values that live for 'scope live until then. The
        // origin is used here alone.
        unsafe { Origin::of_caller(self.start).spawn(&self.family, given, f) }
    }

    pub(super) fn spawn_given_on<F, T>(&'scope self, on: &dyn Spawn, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Ok(_held) = self.hold() else { return self.refuse(f) };
        // SAFETY: as in `spawn_given`.
        unsafe { Origin::of_caller(self.start).on(on).spawn(&self.family, given, f) }
    }

    /// As [`spawn`](Self::spawn), for a closure that is not `Send`: the fiber has a stack of this
    /// worker from the start, and so is never taken by another one. This fiber begins when the
    /// caller waits or yields.
    ///
    /// In a fiber that a foreign executor polls, the new fiber runs to its end in the call. Where
    /// there are no such stacks the closure does, as a part of the caller: on a plain thread, or
    /// while the caller is panicking; and where no stack is left.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::scope;
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    ///
    /// let words = Rc::new(RefCell::new(Vec::new()));
    /// scope(|s| {
    ///     for word in ["straight", "line"] {
    ///         let words = Rc::clone(&words);
    ///         s.spawn_local(move || words.borrow_mut().push(word));
    ///     }
    /// });
    /// assert_eq!(*words.borrow(), ["straight", "line"]);
    /// ```
    #[track_caller]
    pub fn spawn_local<F, T>(&'scope self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        self.spawn_local_given(Given::here(), f)
    }

    pub(super) fn spawn_local_given<F, T>(&'scope self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        let Ok(_held) = self.hold() else { return self.refuse(f) };
        // SAFETY: as in `spawn_given`.
        unsafe { Origin::of_caller(self.start).spawn_here(&self.family, given, f) }
    }

    /// As [`spawn_given`](Self::spawn_given), where there [may be late ones](Self::is_late). A
    /// function of its own, so that the other way is inlined.
    #[cold]
    #[inline(never)]
    pub(super) fn spawn_late<F, T>(&'scope self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Ok(_held) = self.hold() else { return self.refuse(f) };
        // SAFETY: as in `spawn_given`.
        unsafe { Origin::of_caller(self.start).spawn(&self.family, given, f) }
    }

    /// Starts a *daemon*: a fiber that does not keep the scope open.
    ///
    /// When the body and all other fibers have ended, the daemons are cancelled and waited for. A
    /// daemon may spawn into the scope as long as that has other fibers; later ones are refused, as
    /// if they had been cancelled before they started. A daemon that panics fails the scope, like
    /// any other fiber.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{after, scope};
    /// use std::time::Duration;
    ///
    /// scope(|s| {
    ///     s.spawn_daemon(|| {
    ///         while after(Duration::from_secs(60)).wait().is_ok() {
    ///             println!("still at work");
    ///         }
    ///     });
    ///     // The work. The scope ends with it.
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_daemon<F, T>(&'scope self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_daemon_given(Given::here(), f)
    }

    pub(super) fn spawn_daemon_given<F, T>(&'scope self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let daemons = self.daemons();
        let Ok(_held) = self.hold() else { return self.refuse(f) };
        // SAFETY: as in `spawn_given`; and they are completed when the family, which is held, is.
        unsafe { Origin::of_caller(self.start).spawn(daemons, given, f) }
    }

    /// Has `hook` run at the end of the scope, when its fibers and daemons have ended, however they
    /// have. The hook that was added last runs first. The hook is shielded, and may wait, until
    /// `budget` is used up: see [`shield_for`](crate::shield_for). A further hook that this one
    /// adds runs next.
    ///
    /// A spawn of the hook into this scope is refused: the closure is dropped, and a panic of that
    /// is a failure of the scope. A scope of its own is allowed. A panic of the hook is a failure
    /// of the scope, and the other hooks run.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{scope, sleep};
    /// use std::sync::Mutex;
    /// use std::time::Duration;
    ///
    /// let log = Mutex::new(Vec::new());
    /// scope(|s| {
    ///     s.on_exit(Duration::from_secs(5), || log.lock().unwrap().push("closed"));
    ///     s.on_exit(Duration::from_secs(5), || {
    ///         sleep(Duration::from_millis(1)).expect("it is shielded");
    ///         log.lock().unwrap().push("said goodbye");
    ///     });
    ///     s.cancel();
    /// });
    /// assert_eq!(log.into_inner().unwrap(), ["said goodbye", "closed"]);
    /// ```
    #[track_caller]
    pub fn on_exit(&'scope self, budget: Duration, hook: impl FnOnce() + Send + 'scope) {
        let at = Location::caller();
        let hook: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || shield_at(budget, at, hook));
        // SAFETY: the scope takes it out and calls it before it ends, and with it 'scope.
        let hook = unsafe { mem::transmute::<Box<dyn FnOnce() + Send + 'scope>, Hook>(hook) };
        self.late().hooks.lock().push(hook);
    }

    /// Starts an async task that may borrow from the surroundings of the scope. See
    /// [`spawn_task`](crate::spawn_task).
    #[track_caller]
    pub fn spawn_task<F>(&'scope self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.spawn_future(&self.family, Given::here(), future)
    }

    pub(super) fn spawn_future<F, T>(&'scope self, family: &Family, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_future_on(None, family, given, future)
    }

    /// Starts a task in the scope's family, or in that of its daemons; on another scheduler, if
    /// there is one.
    pub(super) fn spawn_future_on<F, T>(
        &'scope self,
        on: Option<&dyn Spawn>,
        family: &Family,
        given: Given,
        future: F,
    ) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'scope,
        T: Send + 'scope,
    {
        let Ok(_held) = self.hold() else { return self.refuse(future) };
        // SAFETY: the origin is used here alone.
        let origin = unsafe { Origin::of_caller(self.start) };
        // A poll in place may yield nothing, and the caller keeps its worker until the end.
        if let Some(refused) = origin.must_not_suspend() {
            let context = &self.family.context;
            return self.refuse_with(future, if context.is_cancelled() { context.error() } else { refused });
        }
        let origin = match on {
            Some(on) => origin.on(on),
            None => origin,
        };
        // SAFETY: as in `spawn_given`; daemons are completed when the family, which is held, is.
        unsafe { origin.spawn_task(Some(family), given, future) }
    }

    /// Requests that the fibers of this scope, and its body, stop. Never waits.
    pub fn cancel(&self) {
        preemption_point();
        self.family.context.cancel(None);
    }

    /// As [`cancel`](Self::cancel), with a reason that they find in their
    /// [`Cancelled`](crate::Cancelled). This does not fail the scope.
    ///
    /// # Examples
    ///
    /// ```
    /// let waited = segue_core::scope(|s| {
    ///     s.cancel_with("the tea is ready");
    ///     segue_core::check()
    /// });
    /// assert_eq!(waited.unwrap_err().to_string(), "cancelled: the tea is ready");
    /// ```
    pub fn cancel_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        preemption_point();
        self.family.context.cancel(Some(Reason::new(reason)));
    }

    /// Asks the fibers of this scope, and its body, to [finish](crate::is_finishing), and cancels
    /// those that are still there when `grace` is over. Never waits.
    ///
    /// Waits go on meanwhile: a fiber that serves others learns of the request by
    /// [`finishing_source`](crate::finishing_source) and accepts no more; a fiber that never asks
    /// is cancelled after the grace. Then the reason names the fibers that were not over, if they
    /// have names. A grace of zero is none; one beyond the end of the clock does not end. Asked
    /// again, the grace that ends first counts. The grace is measured by a thread of its own, and
    /// so ends also while all workers compute; in a simulation the grace is virtual.
    ///
    /// [`CancelToken::cancel_soft`] does the same to the fibers under a token.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, scope, sleep};
    /// use std::time::Duration;
    ///
    /// let ended = scope(|s| {
    ///     let deaf = Builder::new().name("deaf").within(s).spawn(|| sleep(Duration::MAX));
    ///     s.cancel_soft(Duration::from_millis(20));
    ///     deaf.join().unwrap()
    /// });
    /// assert!(ended.unwrap_err().to_string().starts_with("cancelled: asked to finish, and not over after 20ms"));
    /// ```
    pub fn cancel_soft(&self, grace: Duration) {
        preemption_point();
        self.family.context.cancel_soft(grace);
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
