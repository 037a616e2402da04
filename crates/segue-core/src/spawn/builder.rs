//! [`Builder`]: the settings of a fiber to be, and the one way to start a fiber with settings; and
//! the functions for fibers without.
//!
//! Used by applications and by schedulers. `place.rs` has the places, `begin.rs` the beginnings:
//! they are the two parts of a builder's type, so that a combination without a sense does not
//! compile.
//!
//! | setting | the fiber | after which other settings |
//! | --- | --- | --- |
//! | none | runs beside the caller, detached | |
//! | `on(&pool)` | runs on a pool, or where a handle of a scheduler points | none of the place, or `within` |
//! | `within(&scope)` | borrows, and its scope waits | none of the place, or `on` |
//! | `within(&scope).daemon()` | borrows, and its scope cancels the fiber when the others have ended | `within` alone |
//! | `within(&scope).local()` | need not be `Send` | `within` alone, and before the next three |
//! | `cancellable()`, `token(&token)` | is cancelled by its handle, or by this token | any place |
//! | `after(delay)` | begins later, and can be taken back until then | any place but `local` |
#![allow(unsafe_code)] // A header is made for a scheduler and a token that have to outlive it.

use crate::cancel::token::CancelToken;
use crate::contract::fiber::{Fiber, Scheduler, Spawn};
use crate::contract::job::{Given, Identity};
use crate::spawn::begin::{Begin, Delayed};
use crate::spawn::default_runtime::{DefaultRuntime, Threads};
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::place::{Daemon, Detached, Fallible, Host, Local, On, Owner, Place, Within, WithinOn};
use crate::tree::cancelled::Cancelled;
use crate::tree::context::Context;
use crate::values::attributes::{Attribute, Attributes};
use std::cell::OnceCell;
use std::error::Error;
use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

/// A spawn with settings: a name, a place, a delay, a token and others, in the shape of
/// [`std::thread::Builder`].
///
/// `P` is the place: [`Detached`] from `new`, [`On`] a pool, [`Within`] a scope, there a [`Daemon`]
/// or [`Local`]. `B` says when the fiber begins and whether its handle cancels the fiber: `()`, a
/// [`CancelToken`], or [`Delayed`]. Programs rarely name these types: `segue::Builder` and
/// `segue_core::Builder` are the builders to begin with, which differ in the runtime behind plain
/// threads.
///
/// # Examples
///
/// ```
/// use segue_core::{Builder, after, scope};
/// use std::time::Duration;
///
/// let handle = Builder::new().name("answer").spawn(|| 42);
/// assert_eq!(handle.join().unwrap(), 42);
///
/// let words = ["straight", "line"];
/// scope(|s| {
///     let patient = Builder::new().within(s).cancellable().spawn(|| after(Duration::MAX).wait());
///     let length = Builder::new().name("counts").within(s).spawn(|| words[0].len());
///     assert_eq!(length.join().unwrap(), 8);
///     patient.cancel();
/// });
/// ```
#[must_use]
pub struct Builder<P, B = ()> {
    pub(crate) given: Given,
    place: P,
    begin: B,
}

/// A [`Builder`](crate::build::Builder) of detached fibers, which are threads where a plain thread
/// starts them.
///
/// # Examples
///
/// ```
/// let handle = segue_core::Builder::new().name("answer").spawn(|| 42);
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
pub type OfThreads = Builder<Detached<Threads>>;

impl<R: DefaultRuntime> Builder<Detached<R>> {
    /// A detached fiber without a name, with a copy of the caller's attributes.
    pub fn new() -> Self {
        Self { given: Given::default(), place: Detached::HERE, begin: () }
    }
}

impl<R: DefaultRuntime> Default for Builder<Detached<R>> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P, B> Builder<P, B> {
    /// The name that reports and failures give to the fiber. Where no scheduler is, and each fiber
    /// is a thread, the thread has that name, too.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.given.name = Some(Box::new(name.into()));
        self
    }

    /// The attributes that the fiber is to carry, in place of a copy of the caller's. They are not
    /// copied: a clone of the handle can change them while the fiber lives.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.given.attributes = Some(attributes.0);
        self
    }

    /// The fiber's attribute of this type; of the other types the fiber has the caller's.
    pub fn attribute<A: Attribute>(mut self, value: A) -> Self {
        self.given = self.given.or_inherited();
        let attributes = Attributes(self.given.attributes.take().unwrap_or_default());
        self.given.attributes = Some(attributes.with(value).0);
        self
    }

    /// How many bytes of its stack the fiber can use, at least, in place of its scheduler's size
    /// for all fibers: rounded up to a power of two. Memory is taken for the used part.
    ///
    /// Its children have stacks of the usual size. Async tasks have none.
    ///
    /// # Panics
    /// For more than half a gibibyte.
    ///
    /// # Examples
    ///
    /// ```
    /// fn deep(n: u64) -> u64 {
    ///     let frame = std::hint::black_box([n; 64]);
    ///     if n == 0 { 0 } else { deep(n - 1) + frame[0] / frame[1] }
    /// }
    /// let fiber = segue_core::Builder::new().stack_size(64 << 20).spawn(|| deep(10_000));
    /// assert_eq!(fiber.join().unwrap(), 10_000);
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        assert!(bytes <= 1 << 29, "a fiber can't use a stack of {bytes} bytes: at most half a gibibyte");
        self.given.stack = bytes.next_power_of_two().ilog2() as u8;
        self
    }

    fn placed<Q>(self, place: impl FnOnce(P) -> Q) -> Builder<Q, B> {
        Builder { given: self.given, place: place(self.place), begin: self.begin }
    }

    fn begun<C>(self, begin: impl FnOnce(B) -> C) -> Builder<P, C> {
        Builder { given: self.given, place: self.place, begin: begin(self.begin) }
    }
}

impl<R, B> Builder<Detached<R>, B> {
    /// A fiber of this scope, as of [`Scope::spawn`](crate::Scope::spawn): the fiber may borrow
    /// what the scope may. Within a [`TryScope`](crate::TryScope) the builder has
    /// [`spawn_try`](Builder::spawn_try), too.
    pub fn within<'scope, 'env, O: Owner<'scope, 'env>>(
        self,
        scope: &'scope O,
    ) -> Builder<Within<'scope, 'env, O::Kind>, B> {
        self.placed(|_| scope.place())
    }

    /// A detached fiber of this scheduler, a pool for instance. Its spawn never waits.
    ///
    /// The fiber belongs to that scheduler, as if another fiber there had spawned this one. If the
    /// scheduler is ending, the closure is dropped, and the handle says so as for a fiber that was
    /// cancelled before its start.
    pub fn on(self, host: &dyn Host) -> Builder<On<'_>, B> {
        self.placed(|_| On(host))
    }
}

impl<'h, B> Builder<On<'h>, B> {
    /// A fiber of this scope, [under the scheduler](Self::on) that was given.
    pub fn within<'scope, 'env, O: Owner<'scope, 'env>>(
        self,
        scope: &'scope O,
    ) -> Builder<WithinOn<'h, 'scope, 'env>, B> {
        self.placed(|On(on)| WithinOn { scope: scope.place().scope, on })
    }
}

impl<'scope, 'env, K, B> Builder<Within<'scope, 'env, K>, B> {
    /// A fiber of the scope, under another scheduler.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::Builder;
    /// use segue_core::scheduling::thread_spawner;
    ///
    /// let words = ["straight", "line"];
    /// let lengths = segue_core::scope(|s| {
    ///     let elsewhere = || Builder::new().within(s).on(thread_spawner());
    ///     words.each_ref().map(|word| elsewhere().spawn(|| word.len())).map(|length| length.join().unwrap())
    /// });
    /// assert_eq!(lengths, [8, 4]);
    /// ```
    pub fn on(self, spawner: &dyn Spawn) -> Builder<WithinOn<'_, 'scope, 'env>, B> {
        self.placed(|within| WithinOn { scope: within.scope, on: spawner })
    }

    /// A daemon, as of [`Scope::spawn_daemon`](crate::Scope::spawn_daemon): the scope does not wait
    /// for its end, and cancels the daemon when all other fibers have ended.
    pub fn daemon(self) -> Builder<Daemon<'scope, 'env>, B> {
        self.placed(|within| Daemon(within.scope))
    }
}

impl<'scope, 'env, K> Builder<Within<'scope, 'env, K>> {
    /// A fiber of the caller's worker, as of [`Scope::spawn_local`](crate::Scope::spawn_local): the
    /// closure need not be `Send`.
    pub fn local(self) -> Builder<Local<'scope, 'env>> {
        self.placed(|within| Local(within.scope))
    }
}

impl<P> Builder<P> {
    /// A fiber that can be cancelled by its handle.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, after};
    /// use std::time::Duration;
    ///
    /// let fiber = Builder::new().name("patient").cancellable().spawn(|| after(Duration::MAX).wait());
    /// fiber.cancel_with("no longer wanted");
    /// assert_eq!(fiber.join().unwrap().unwrap_err().to_string(), "cancelled: no longer wanted");
    /// ```
    pub fn cancellable(self) -> Builder<P, CancelToken> {
        self.begun(|()| CancelToken::new())
    }

    /// A fiber that this token cancels, too. If the token is cancelled before the fiber starts, the
    /// fiber does start, and is cancelled from the beginning.
    pub fn token(self, token: &CancelToken) -> Builder<P, CancelToken> {
        self.begun(|()| token.clone())
    }
}

impl<'a, P: Place<'a>> Builder<P> {
    /// A fiber that begins after `delay`, and can be taken back by its handle until then.
    ///
    /// The delay counts from the spawn, by the clock of the caller's scheduler: in a simulation the
    /// virtual one. Until the delay is over the closure has no stack. Without a delay the closure
    /// begins as soon as any other; a delay beyond the end of the clock is never over.
    ///
    /// A closure that is cancelled before its begin, by its handle, its token, its scope or its
    /// runtime, is dropped and not run: joining the fiber yields
    /// [`JoinError::NeverRan`](crate::JoinError::NeverRan) with the reason. A later cancellation
    /// shows at the waits. A scope waits for the fiber, and so for the delay, unless cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, JoinError};
    /// use std::time::Duration;
    ///
    /// let soon = Builder::new().after(Duration::from_millis(1)).spawn(|| "now");
    /// assert_eq!(soon.join().unwrap(), "now");
    ///
    /// let late = Builder::new().after(Duration::from_secs(3600)).spawn(|| "too late");
    /// late.cancel_with("no longer wanted");
    /// assert!(matches!(late.join(), Err(JoinError::NeverRan(_))));
    /// ```
    pub fn after(self, delay: Duration) -> Builder<P, Delayed> {
        self.cancellable().after(delay)
    }

    /// Starts an async task in the place of the builder, as [`spawn_task`](crate::spawn_task) does
    /// beside the caller.
    #[track_caller]
    pub fn spawn_task<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'a,
        F::Output: Send + 'a,
    {
        self.place.start_task(self.given.called_here(), future)
    }
}

impl<'a, P: Place<'a>> Builder<P, CancelToken> {
    /// The same, for a fiber that begins after `delay`: see [`after`](Builder::after).
    pub fn after(self, delay: Duration) -> Builder<P, Delayed> {
        self.begun(|token| Delayed { token, delay })
    }
}

impl<'a, P: Place<'a>, B: Begin> Builder<P, B> {
    /// Starts the fiber.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(segue_core::Builder::new().name("answer").spawn(|| 42).join().unwrap(), 42);
    /// ```
    #[track_caller]
    #[inline]
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T, B::Token>
    where
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a,
    {
        self.begin.start(self.place, self.given.called_here(), f)
    }
}

impl<'scope, B: Begin> Builder<Within<'scope, '_, Fallible>, B> {
    /// Starts a fiber that fails its scope by an error, as
    /// [`TryScope::spawn_try`](crate::TryScope::spawn_try) does.
    #[track_caller]
    pub fn spawn_try<F, T, E>(self, f: F) -> JoinHandle<Result<T, Cancelled>, B::Token>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let scope = self.place.scope;
        self.spawn(move || f().map_err(|error| scope.fail("a fiber", error)))
    }
}

impl<'scope> Builder<Local<'scope, '_>> {
    /// Starts the fiber on the caller's worker.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        self.place.0.spawn_local_given(self.given.called_here(), f)
    }
}

impl<'scope> Builder<Local<'scope, '_>, CancelToken> {
    /// Starts the fiber on the caller's worker, under the token.
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T, CancelToken>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        let (token, under) = (self.begin.clone(), self.begin);
        let handle = self.place.0.spawn_local_given(self.given.called_here(), move || under.run(f));
        JoinHandle { handle: handle.handle, token }
    }
}

impl<P, B> fmt::Debug for Builder<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.given).finish()
    }
}

/// Starts a detached fiber and returns a handle for its result.
///
/// The fiber runs under the caller's scheduler (from a plain thread, under the default one) and
/// belongs to its runtime: when that ends, the fiber is cancelled and waited for. A fiber of a
/// scope that was opened elsewhere may outlive the runtime of its spawner; then its detached fibers
/// belong to none.
///
/// # Examples
///
/// ```
/// let handle = segue_core::spawn(|| "done");
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Detached::<Threads>::HERE.start(Given::here(), f)
}

/// Starts a detached async task next to the fibers, and returns a handle for its result.
///
/// The caller's scheduler polls the task, with its workers and its policy, to which each poll is a
/// closure that has not started: so the task may run on another thread each time, and has no stack
/// in a wait. Code that the task calls may also wait as fibers do; then that poll keeps its stack
/// and its thread.
///
/// # Cancellation
/// A cancelled task is dropped in its wait, and its handle yields
/// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
///
/// # Examples
///
/// ```
/// let task = segue_core::spawn_task(async { segue_core::spawn(|| 6).await.unwrap() * 7 });
/// assert_eq!(task.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn_task<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Detached::<Threads>::HERE.start_task(Given::here(), future)
}

/// How many bytes of its stack a fiber can use that is made without a job, if that was
/// [said](Builder::stack_size).
#[must_use]
pub fn stack_size_of<P>(given: &Builder<P>) -> Option<usize> {
    given.given.stack_size()
}

impl Fiber {
    /// The header for a fiber that runs without a job: under `token`, in no family, with the name
    /// and the attributes that are given.
    ///
    /// # Safety
    /// `scheduler` outlives the header, and some clone of `token` does.
    #[inline]
    pub unsafe fn under<P>(scheduler: NonNull<dyn Scheduler>, id: u64, token: &CancelToken, given: Builder<P>) -> Self {
        let Given { name, attributes, .. } = given.given;
        let attributes = attributes.map_or_else(OnceCell::new, OnceCell::from);
        let identity = Identity { name, attributes, ..Identity::in_context(Context::head_of(&token.0)) };
        // SAFETY: as the caller promises.
        unsafe { Self::new(scheduler, id, identity) }
    }
}
