//! The cancellation tree: contexts that are cancelled from the outside, and what their members see of it.
//!
//! Used by scopes and runtimes, which own contexts, by tokens and deadlines, and by triggers, which ask before they wait.
//!
//! # The idea
//!
//! Cancellation is a value. A context is a flag with a list of who is inside: the fibers that have waited in it, and the contexts nested
//! in it. To cancel marks the flag of the context and of everything below it, and asks each member to look (an *interrupt*).
//! The rest is done by the member's own thread: a suspended fiber leaves its wait, a running one finds the flag at its next.
//!
//! # States
//!
//! A context is open, then cancelled, for ever: the flag is set under the context's lock and never cleared. A nested context
//! that is made under a cancelled one is born cancelled.
//!
//! **The race to fear**: a fiber that looks at the flag just before it is set, and suspends just after the walk has passed. It cannot:
//! a fiber joins the member list before it looks. If it joins before the walk, the walk interrupts it. If after, then the
//! lock that it took to join was released by the walk, which had set the flag.
//!
//! # Orderings
//!
//! The flag is stored under the lock (release by the unlock) and read after the lock was taken to join (acquire). Plain reads
//! elsewhere are hints whose truth is settled at the next wait; they acquire, so that what the canceller did before is seen after.
#![allow(unsafe_code)] // Members are reached by address: a fiber's header, a nested context.

use crate::atomic::{AtomicBool, Ordering, local};
use crate::fiber::{self, Fiber};
use crate::list::{Linked, Links, List};
use crate::lock::Lock;
use crate::scheduler::Wake;
use crate::thread;
use crate::time::{Key, TimedOut, Timers};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// The error of a wait that was cancelled: the operation did not take place.
///
/// Carried outwards by `?`; converts into [`io::Error`], of kind `Other` and never `Interrupted`, since std's loops retry that. It may
/// carry a [reason](Cancelled::reason), which is any error; two cancellations are equal whatever their reasons.
///
/// # Examples
///
/// ```
/// use segue_core::{CancelToken, check};
///
/// let token = CancelToken::new();
/// token.cancel_with(std::io::Error::other("the disk is full"));
/// let cancelled = token.run(check).unwrap_err();
/// assert_eq!(cancelled.to_string(), "cancelled: the disk is full");
/// assert!(cancelled.reason().unwrap().is::<std::io::Error>());
/// ```
#[derive(Clone)]
pub struct Cancelled {
    reason: Option<Arc<Reason>>,
}

/// Why something was cancelled. Behind a thin pointer, so that an error is one word.
pub(crate) struct Reason(Box<dyn Error + Send + Sync>);

impl Reason {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Arc<Self> {
        Arc::new(Self(error.into()))
    }
}

impl PartialEq for Cancelled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cancelled {}

impl Cancelled {
    /// A cancellation without a reason: what those report whose work was dropped before it could start.
    #[inline]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "an error is made on purpose")]
    pub fn new() -> Self {
        Self { reason: None }
    }

    /// The error of a wait that would suspend a fiber in the middle of a panic.
    #[cold]
    pub(crate) fn while_panicking() -> Self {
        Self { reason: Some(Reason::new("a fiber that is panicking can't wait")) }
    }

    /// The error of a wait inside of a closure that is called while its fiber registers itself for another wait.
    #[cold]
    pub(crate) fn while_registering() -> Self {
        Self { reason: Some(Reason::new("a closure that a queue calls under its lock can't wait")) }
    }

    /// The error that the canceller gave, if any.
    #[must_use]
    pub fn reason(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.reason.as_deref().map(|reason| &*reason.0)
    }

    /// Whether it was a deadline that cancelled.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.reason().is_some_and(|reason| reason.is::<TimedOut>())
    }

    /// Whether an I/O error is a cancellation that passed through it.
    ///
    /// # Examples
    ///
    /// ```
    /// let error = std::io::Error::from(std::io::ErrorKind::NotFound);
    /// assert!(!segue_core::Cancelled::caused(&error));
    /// ```
    #[must_use]
    pub fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "cancelled: {reason}"),
            None => f.write_str("cancelled"),
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancelled").field(&self.reason()).finish()
    }
}

impl Error for Cancelled {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason().map(|reason| reason as &(dyn Error + 'static))
    }
}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        io::Error::other(cancelled)
    }
}

/// One node of the tree.
pub(crate) struct Context {
    cancelled: AtomicBool,
    /// Set before the flag, if ever.
    reason: OnceLock<Arc<Reason>>,
    members: Lock<Members>,
    /// Set at birth, cleared when the context ends; the parent outlives it.
    parent: Cell<*const Context>,
    /// Belongs to the parent's lock.
    links: Links<Context>,
}

struct Members {
    fibers: List<Fiber>,
    nested: List<Context>,
    followers: List<Follower>,
}

/// A context that is cancelled with another one in which it is not nested. It lies in the frame that runs inside of it.
struct Follower {
    context: Arc<Context>,
    /// Belongs to the lock of the one that is followed.
    links: Links<Follower>,
}

impl Linked for Follower {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Linked for Context {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: `parent` is read and written by the thread that makes and ends the context alone; `links` belongs to the parent's lock;
// the rest is atomic or locked.
unsafe impl Sync for Context {}
// SAFETY: as above; the last owner of an ended context only frees it.
unsafe impl Send for Context {}

impl Context {
    /// A context that nothing above can cancel.
    pub(crate) fn root() -> Arc<Self> {
        Arc::new(Self {
            cancelled: AtomicBool::new(false),
            reason: OnceLock::new(),
            members: Lock::new(Members { fibers: List::new(), nested: List::new(), followers: List::new() }),
            parent: Cell::new(ptr::null()),
            links: Links::new(),
        })
    }

    /// A context inside of the caller's. It must [`end`](Context::end) before that does.
    pub(crate) fn nested() -> Arc<Self> {
        let context = Self::root();
        // SAFETY: the caller is inside of the parent, so it is alive.
        if let Some(parent) = unsafe { thread::context().as_ref() } {
            context.parent.set(parent);
            let mut members = parent.members.lock();
            if parent.is_cancelled() {
                context.mark(parent.reason.get().cloned());
            }
            // SAFETY: the context is kept alive and linked until `end`, which takes it out.
            // Its address comes from the `Arc` and not from a reference: `cancel` makes another `Arc` of it.
            unsafe { members.nested.push_back(NonNull::new_unchecked(Arc::as_ptr(&context).cast_mut())) };
        }
        context
    }

    /// Leaves the tree. Called by whoever made it, when nothing is inside any more; again has no effect.
    pub(crate) fn end(&self) {
        // SAFETY: the parent outlives what is nested in it.
        if let Some(parent) = unsafe { self.parent.replace(ptr::null()).as_ref() } {
            let mut members = parent.members.lock();
            // SAFETY: this context is in the parent's list since `nested`.
            unsafe { members.nested.remove(NonNull::from(self)) };
        }
    }

    /// Runs `f` inside of this context.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        enter(self, f)
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// What a wait in this context fails with.
    pub(crate) fn error(&self) -> Cancelled {
        Cancelled { reason: self.reason.get().cloned() }
    }

    /// Sets the flag, and the reason before it. Answers whether it was set already.
    fn mark(&self, reason: Option<Arc<Reason>>) -> bool {
        if self.is_cancelled() {
            return true;
        }
        if let Some(reason) = reason {
            // Who marks holds the lock, or is alone: it is the first.
            let _ = self.reason.set(reason);
        }
        self.cancelled.store(true, Ordering::Release);
        false
    }

    /// Cancels this context and all below it, for `reason`. Again has no effect. Never waits.
    pub(crate) fn cancel(self: &Arc<Self>, reason: Option<Arc<Reason>>) {
        // Walked with a list of our own and not by recursion: nesting has no bound.
        let mut todo = vec![Arc::clone(self)];
        while let Some(context) = todo.pop() {
            let members = context.members.lock();
            if context.mark(reason.clone()) {
                continue;
            }
            members.fibers.for_each(|fiber| {
                // SAFETY: the fiber is a member, and this is its context's lock.
                unsafe { Fiber::wake(fiber, Wake::Interrupt) };
            });
            members.nested.for_each(|nested| {
                // SAFETY: every context was made by `root` inside an `Arc`, and one that is linked is alive.
                unsafe {
                    Arc::increment_strong_count(nested.as_ptr());
                    todo.push(Arc::from_raw(nested.as_ptr()));
                }
            });
            members.followers.for_each(|follower| {
                // SAFETY: a follower that is linked is in place.
                todo.push(Arc::clone(&unsafe { follower.as_ref() }.context));
            });
            drop(members);
            call_deferred();
        }
    }

    /// Runs `f` in a context of its own, inside of the caller's, that is cancelled with this one too.
    fn run_following<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Unfollow<'a>(&'a Context, &'a Follower);
        impl Drop for Unfollow<'_> {
            fn drop(&mut self) {
                let mut members = self.0.members.lock();
                // SAFETY: it is in this list since it was made.
                unsafe { members.followers.remove(NonNull::from(self.1)) };
                drop(members);
                self.1.context.end();
            }
        }
        let follower = Follower { context: Self::nested(), links: Links::new() };
        let unfollow = Unfollow(self, &follower);
        let mut members = self.members.lock();
        // SAFETY: it lies in this frame, and is taken out before that ends.
        unsafe { members.followers.push_back(NonNull::from(unfollow.1)) };
        let late = self.is_cancelled();
        drop(members);
        if late {
            follower.context.cancel(self.reason.get().cloned());
        }
        follower.context.enter(f)
    }

    /// # Safety
    /// The fiber is in no list, stays in place until it is removed, and calls this itself.
    pub(crate) unsafe fn add_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.push_back(fiber) };
    }

    /// # Safety
    /// The fiber is a member of this context.
    pub(crate) unsafe fn remove_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.remove(fiber) };
    }
}

local!(static DEFERRED: RefCell<VecDeque<Waker>> = RefCell::new(VecDeque::new()));
local!(static BATCHES: Cell<usize> = Cell::new(0));

/// Whoever has several waiters to resume, and calls [`wake_task`] for some, has this until all of them are resumed: until then the wakers wait.
///
/// A waker is foreign code, and may drop the task that it wakes (an executor's that was shut down does). If that task has a second waiter among those that are to be
/// resumed, its drop would wait for a resume that this very thread owes it.
pub(crate) struct Batch(());

impl Batch {
    pub(crate) fn new() -> Self {
        BATCHES.with(|batches| batches.set(batches.get() + 1));
        Self(())
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        BATCHES.with(|batches| batches.set(batches.get() - 1));
        call_deferred();
    }
}

/// Calls `waker` when the canceller on this thread has released its lock.
///
/// For the [`wake`](crate::Scheduler::wake) of schedulers that are hosted by foreign executors, and for [`Wake::Interrupt`] only: a waker is foreign code, and
/// an interrupt comes under the lock of a context.
pub fn wake_after_interrupt(waker: Waker) {
    let mut waker = Some(waker);
    // In the destructors of a thread's local variables there is nowhere to keep it.
    let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().extend(waker.take()));
    waker.into_iter().for_each(call);
}

/// Calls `waker`, now or as soon as this thread has resumed all that it is about to resume. What it panics with stays inside.
///
/// For the [`wake`](crate::Scheduler::wake) of schedulers that are hosted by foreign executors, and for [`Wake::Resume`].
#[inline]
pub fn wake_task(waker: Waker) {
    if BATCHES.with(Cell::get) == 0 { call(waker) } else { wake_after_interrupt(waker) }
}

fn call_deferred() {
    if BATCHES.with(Cell::get) != 0 {
        return;
    }
    // One at a time: each may cancel something, and come here again.
    let next = || DEFERRED.try_with(|deferred| deferred.borrow_mut().pop_front()).ok().flatten();
    std::iter::from_fn(next).for_each(call);
}

/// Calls a waker, which is foreign code, where nothing may unwind. The panic hook has reported it if it does.
fn call(waker: Waker) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        std::mem::forget(payload);
    }
}

/// Runs `f` inside of `context`, and outside of it again whichever way `f` ends.
fn enter<R>(context: *const Context, f: impl FnOnce() -> R) -> R {
    struct Restore {
        entered: *const Context,
        before: *const Context,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the current header is in place.
            if let Some(fiber) = unsafe { fiber::current().as_ref() }
                && !self.entered.is_null()
            {
                fiber.leave_context(self.entered);
            }
            thread::enter_context(self.before);
        }
    }
    let before = thread::enter_context(context);
    let _restore = Restore { entered: context, before };
    f()
}

/// Runs `f` where the caller's cancellation does not show; it shows again afterwards.
///
/// For work that must be finished once it was begun: answer the request, write the record. Fibers that
/// `f` spawns into scopes of its own are shielded with it.
///
/// # Examples
///
/// ```
/// let answer = segue_core::shield(|| 42);
/// assert_eq!(answer, 42);
/// ```
pub fn shield<R>(f: impl FnOnce() -> R) -> R {
    enter(ptr::null(), f)
}

/// Whether the caller's cancellation was requested. Never waits.
#[must_use]
#[inline]
pub fn is_cancelled() -> bool {
    // SAFETY: the caller is inside of the context, so it is alive.
    unsafe { thread::context().as_ref() }.is_some_and(Context::is_cancelled)
}

/// Fails if the caller was cancelled: for long computations. It never waits itself.
///
/// # Errors
/// [`Cancelled`] if the caller's cancellation was requested.
///
/// # Examples
///
/// ```
/// segue_core::check()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
pub fn check() -> Result<(), Cancelled> {
    // SAFETY: the caller is inside of the context, so it is alive.
    match unsafe { thread::context().as_ref() } {
        Some(context) if context.is_cancelled() => Err(context.error()),
        _ => Ok(()),
    }
}

/// Runs `body`, and then `cleanup`, whichever way `body` ends. The cleanup is shielded, and it may wait, even after a panic of the body,
/// which goes on after it.
///
/// A `Drop` can do less: while a panic unwinds through it, a fiber can't wait.
///
/// # Cancellation
/// The body sees it; the cleanup does not.
///
/// # Panics
/// With the body's panic if it panicked, also if the cleanup panics as well; or with the cleanup's.
///
/// # Examples
///
/// ```
/// use segue_core::{finally, sleep};
/// use std::time::Duration;
///
/// let mut log = Vec::new();
/// let answer = finally(|| 42, || {
///     sleep(Duration::from_millis(1)).expect("it is shielded");
///     log.push("closed");
/// });
/// assert_eq!((answer, log), (42, vec!["closed"]));
/// ```
pub fn finally<T>(body: impl FnOnce() -> T, cleanup: impl FnOnce()) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let cleaned = catch_unwind(AssertUnwindSafe(|| shield(cleanup)));
    match (outcome, cleaned) {
        (Ok(value), Ok(())) => value,
        (Err(payload), cleaned) => {
            // Its own drop may panic, which is one too many.
            std::mem::forget(cleaned);
            resume_unwind(payload)
        }
        (Ok(_), Err(payload)) => resume_unwind(payload),
    }
}

/// Runs `f`, and cancels what is inside of it when `limit` has passed: waits in it then fail with a [`Cancelled`] that
/// [timed out](Cancelled::timed_out).
///
/// What `f` returns is returned, whether or not the time was over by then; so nothing that it has obtained is lost. A limit beyond what the clock can
/// show is none. The clock is that of the caller's scheduler.
///
/// A fiber's worker looks at the clock between its fibers. So a fiber that computes without being suspended or [yielding](crate::yield_now) is not told,
/// not even by [`check`]. On a plain thread the flag is set by another thread, and `check` sees it.
///
/// # Cancellation
/// The caller's cancellation shows inside as well, and the one that comes first gives the reason.
///
/// # Examples
///
/// ```
/// use segue_core::{after, timeout};
/// use std::time::Duration;
///
/// let never = after(Duration::MAX);
/// let ended = timeout(Duration::from_millis(1), || never.wait());
/// assert!(ended.is_err_and(|cancelled| cancelled.timed_out()));
/// ```
pub fn timeout<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    deadline(crate::time::now().checked_add(limit), f)
}

/// As [`timeout`], at a point in time; `None` is never.
///
/// # Cancellation
/// As for [`timeout`].
///
/// # Examples
///
/// ```
/// use segue_core::{check, deadline, now};
///
/// assert!(deadline(Some(now()), check).is_err());
/// assert!(deadline(None, check).is_ok());
/// ```
pub fn deadline<T>(at: Option<Instant>, f: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a Arc<Context>, Option<(Timers, Key)>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            if let Some((timers, key)) = self.1.take() {
                timers.cancel_no_more(key);
            }
            self.0.end();
        }
    }
    let Some(at) = at else { return f() };
    let timers = fiber::with_current(|fiber| fiber.scheduler().timers().clone());
    let context = Context::nested();
    let mut end = End(&context, None);
    if at <= timers.now() {
        context.cancel(Some(Reason::new(TimedOut::new())));
    } else {
        let key = timers.cancel_at(at, Arc::clone(&context));
        end.1 = Some((timers, key));
    }
    context.enter(f)
}

/// The right to cancel: whatever [runs](CancelToken::run) under it, or the scope that it is of. From anywhere and at any time.
///
/// Clones are the same token. It may outlive what it cancels, and then has no effect.
///
/// # Examples
///
/// To cancel a single fiber, with an error of your choice:
///
/// ```
/// use segue_core::{CancelToken, after, spawn};
/// use std::time::Duration;
///
/// let token = CancelToken::new();
/// let fiber = spawn({
///     let token = token.clone();
///     move || token.run(|| after(Duration::MAX).wait())
/// });
/// token.cancel_with(std::io::Error::other("no longer wanted"));
/// let cancelled = fiber.join().unwrap().unwrap_err();
/// assert_eq!(cancelled.reason().unwrap().to_string(), "no longer wanted");
/// ```
#[derive(Clone)]
pub struct CancelToken(Arc<Context>);

impl CancelToken {
    /// A token that nothing runs under yet.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a token that nobody else has is of no use")]
    pub fn new() -> Self {
        Self(Context::root())
    }

    pub(crate) fn context(&self) -> *const Context {
        Arc::as_ptr(&self.0)
    }

    pub(crate) fn of(context: &Arc<Context>) -> Self {
        Self(Arc::clone(context))
    }

    /// Runs `f` so that this token cancels it, as the caller's own cancellation does.
    ///
    /// # Cancellation
    /// It shows inside; what `f` returns is returned.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run_following(f)
    }

    /// Requests that everything under the token stop. Never waits; again has no effect.
    pub fn cancel(&self) {
        self.0.cancel(None);
    }

    /// As [`cancel`](CancelToken::cancel), with a reason that those who are cancelled find in their [`Cancelled`].
    pub fn cancel_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        self.0.cancel(Some(Reason::new(reason)));
    }

    /// Whether it was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
