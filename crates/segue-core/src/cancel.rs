//! The cancellation tree: contexts that are cancelled from the outside, and what their members see of it.
//!
//! Used by scopes and runtimes, which own contexts, and by triggers, which ask before they wait.
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

use crate::atomic::{AtomicBool, Ordering};
use crate::fiber::Fiber;
use crate::list::{Linked, Links, List};
use crate::lock::Lock;
use crate::scheduler::Wake;
use crate::thread;
use std::cell::Cell;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The error of a wait that was cancelled: the operation did not take place.
///
/// Carried outwards by `?`; converts into [`io::Error`], of kind `Other` and never `Interrupted`, since std's loops retry that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled {
    _private: (),
}

impl Cancelled {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { _private: () }
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

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cancelled")
    }
}

impl std::error::Error for Cancelled {}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        io::Error::other(cancelled)
    }
}

/// One node of the tree.
pub(crate) struct Context {
    cancelled: AtomicBool,
    members: Lock<Members>,
    /// Set at birth, cleared when the context ends; the parent outlives it.
    parent: Cell<*const Context>,
    /// Belongs to the parent's lock.
    links: Links<Context>,
}

struct Members {
    fibers: List<Fiber>,
    nested: List<Context>,
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
            members: Lock::new(Members { fibers: List::new(), nested: List::new() }),
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
            context.cancelled.store(parent.is_cancelled(), Ordering::Relaxed);
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

    /// Cancels this context and all below it. Again has no effect. Never waits.
    pub(crate) fn cancel(self: &Arc<Self>) {
        // Walked with a list of our own and not by recursion: nesting has no bound.
        let mut todo = vec![Arc::clone(self)];
        while let Some(context) = todo.pop() {
            let members = context.members.lock();
            if context.cancelled.swap(true, Ordering::AcqRel) {
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
        }
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

/// Runs `f` inside of `context`, and outside of it again whichever way `f` ends.
fn enter<R>(context: *const Context, f: impl FnOnce() -> R) -> R {
    struct Restore {
        entered: *const Context,
        before: *const Context,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the current header is in place.
            if let Some(fiber) = unsafe { crate::fiber::current().as_ref() }
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

/// Fails if the caller was cancelled: for long computations that never wait.
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
    if is_cancelled() { Err(Cancelled::new()) } else { Ok(()) }
}

/// The right to cancel a scope, from anywhere and at any time.
///
/// It may outlive the scope, and then has no effect.
#[derive(Clone)]
pub struct CancelToken(Arc<Context>);

impl CancelToken {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self(Arc::clone(context))
    }

    /// Requests that everything in the scope stop. Never waits; again has no effect.
    pub fn cancel(&self) {
        self.0.cancel();
    }

    /// Whether it was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl std::fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
