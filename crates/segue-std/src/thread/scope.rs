//! Fibers that borrow, in the shape of std's scoped threads.
//!
//! Our own scopes cancel all others when one fiber panics, and raise the first panic. std's wait,
//! and panic with a message if a panicked thread was not joined. So each fiber here catches its own
//! panic, and its result says by its drop that nobody has taken it.
#![allow(unsafe_code)] // What a scope shares gets the lifetime of the scope that it is made for.

use super::handle::ended;
use super::{Builder, Thread};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// [`std::thread::Scope`]: spawns what may borrow.
#[repr(transparent)]
pub struct Scope<'scope, 'env: 'scope> {
    shared: Shared,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

struct Shared {
    /// The scope of ours. Set before a `Scope` is lent, and good for its lifetime.
    inner: AtomicPtr<()>,
    /// Whether a panic was left for the scope to tell.
    panicked: AtomicBool,
}

/// [`std::thread::scope`]: waits for all fibers that were spawned in it.
///
/// # Cancellation
/// The fibers are cancelled with the caller. The wait for them is not cut short.
///
/// # Panics
/// If `f` does, after all have ended; or if a fiber has panicked and was not joined.
///
/// # Examples
///
/// ```
/// use segue_std::thread;
///
/// let words = ["straight", "line"];
/// let length: usize = thread::scope(|s| {
///     let lengths = words.map(|word| s.spawn(move || word.len()));
///     lengths.map(|length| length.join().unwrap()).iter().sum()
/// });
/// assert_eq!(length, 12);
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let shared = Shared { inner: AtomicPtr::new(ptr::null_mut()), panicked: AtomicBool::new(false) };
    let body = segue::scope(|inner| {
        shared.inner.store(ptr::from_ref(inner).cast_mut().cast(), Ordering::Relaxed);
        // SAFETY: a `Scope` is laid out as what it shares, which lies outside of our scope's frame
        // and so outlives it, as `'scope` may not. Its pointer is of `inner`, whose lifetimes are
        // those that the reference gets here.
        let scope = unsafe { &*(&raw const shared).cast() };
        catch_unwind(AssertUnwindSafe(|| f(lent(inner, scope))))
    });
    match body {
        Err(payload) => resume_unwind(payload),
        Ok(_) if shared.panicked.load(Ordering::Relaxed) => panic!("a scoped fiber panicked"),
        Ok(value) => value,
    }
}

/// Gives a reference the lifetimes of a scope of ours.
fn lent<'scope, 'env>(
    _of: &'scope segue::Scope<'scope, 'env>,
    scope: &'scope Scope<'scope, 'env>,
) -> &'scope Scope<'scope, 'env> {
    scope
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a fiber that may borrow from the surroundings of the scope.
    ///
    /// # Panics
    /// If a fiber can't be made.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).expect("a builder without a name or a size does not fail")
    }

    pub(super) fn spawn_as<F, T>(
        &'scope self,
        builder: segue::Builder,
        name: Option<Box<str>>,
        f: F,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let inner: *mut segue::Scope<'scope, 'env> = self.shared.inner.load(Ordering::Relaxed).cast();
        // SAFETY: `scope` has stored it, for a reference of these lifetimes, before it lent `self`.
        let inner: &'scope segue::Scope<'scope, 'env> = unsafe { &*inner };
        let (shared, thread) = (&self.shared, Thread::new(name));
        let handle = builder.within(inner).spawn({
            let thread = thread.clone();
            move || Outcome { result: Some(catch_unwind(AssertUnwindSafe(|| thread.run(f)))), shared }
        });
        ScopedJoinHandle { handle, thread }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

/// What a fiber leaves.
struct Outcome<'scope, T> {
    /// None when it was taken.
    result: Option<std::thread::Result<T>>,
    shared: &'scope Shared,
}

impl<T> Drop for Outcome<'_, T> {
    fn drop(&mut self) {
        if matches!(self.result, Some(Err(_))) {
            // The end of the scope orders it.
            self.shared.panicked.store(true, Ordering::Relaxed);
        }
    }
}

/// [`std::thread::ScopedJoinHandle`]. If it is dropped, the scope waits for the fiber.
pub struct ScopedJoinHandle<'scope, T> {
    handle: segue::JoinHandle<Outcome<'scope, T>>,
    thread: Thread,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the end of the fiber, and takes its result.
    ///
    /// # Cancellation
    /// Unwinds; see [the module](crate).
    ///
    /// # Errors
    /// What the fiber panicked with; a [`Cancelled`](segue::Cancelled), if it was cancelled in a
    /// wait that unwinds, or before it began.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        ended(self.handle.join().map(|mut outcome| outcome.result.take().expect("it is taken once")))
    }

    /// The fiber.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// Whether the fiber has ended. Never waits.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("thread", &self.thread).finish_non_exhaustive()
    }
}
