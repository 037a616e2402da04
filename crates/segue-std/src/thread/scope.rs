//! Fibers that borrow, in the shape of std's scoped threads.
//!
//! Our own scopes cancel all others when one fiber panics, and raise the first panic. std's wait,
//! and panic with a message if a panicked thread was not joined. So each fiber here catches its own
//! panic, and the result says by its drop that nobody has taken the result. A fiber that was
//! cancelled has left its work undone: then the scope unwinds as the fiber did, or would have at
//! the start.
#![allow(unsafe_code)] // A shared part gets the lifetime of the scope around.

use super::handle::ended;
use super::{Builder, Thread};
use crate::cancelled::wait;
use segue::Cancelled;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::{mem, ptr};

/// [`std::thread::Scope`]: spawns fibers that may borrow.
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
    /// The cancellation of a fiber, before its start or in a wait that unwound.
    cancelled: OnceLock<Cancelled>,
}

/// [`std::thread::scope`]: waits for all fibers that were spawned in it.
///
/// # Cancellation
/// The fibers are cancelled with the caller. The wait for them is not cut short. If a fiber was
/// cancelled before it began, or unwound with a cancellation and was not joined, the scope unwinds
/// with that, too.
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
    wait!(scope_of_fibers(f))
}

#[track_caller]
fn scope_of_fibers<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let shared =
        Shared { inner: AtomicPtr::new(ptr::null_mut()), panicked: AtomicBool::new(false), cancelled: OnceLock::new() };
    let body = segue::scope(|inner| {
        shared.inner.store(ptr::from_ref(inner).cast_mut().cast(), Ordering::Relaxed);
        // SAFETY: a `Scope` is laid out as its `Shared`, which lies outside of our scope's frame
        // and so outlives it, as `'scope` may not. Its pointer is of `inner`, with the lifetimes
        // that the reference gets here.
        let scope = unsafe { &*(&raw const shared).cast() };
        catch_unwind(AssertUnwindSafe(|| f(lent(inner, scope))))
    });
    match body {
        Err(payload) => resume_unwind(payload),
        Ok(_) if shared.panicked.load(Ordering::Relaxed) => panic!("a scoped fiber panicked"),
        Ok(value) => match shared.cancelled.into_inner() {
            Some(cancelled) => resume_unwind(Box::new(cancelled)),
            None => value,
        },
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
        // SAFETY: `scope` has stored this pointer, for a reference of these lifetimes, before
        // lending `self`.
        let inner: &'scope segue::Scope<'scope, 'env> = unsafe { &*inner };
        let (shared, thread) = (&self.shared, Thread::new(name));
        let handle = builder.within(inner).spawn({
            let (thread, unstarted) = (thread.clone(), Unstarted(shared));
            move || {
                mem::forget(unstarted);
                Outcome { result: Some(catch_unwind(AssertUnwindSafe(|| thread.run(f)))), shared }
            }
        });
        ScopedJoinHandle { handle, thread }
    }
}

segue::core::impl_debug!([] Scope<'_, '_>);

/// Says by its drop that the closure was dropped, and never ran.
struct Unstarted<'scope>(&'scope Shared);

impl Drop for Unstarted<'_> {
    fn drop(&mut self) {
        // In the scope's context, or in that of the caller if the spawn was refused.
        _ = self.0.cancelled.set(segue::check().err().unwrap_or_else(Cancelled::new));
    }
}

/// The remains of a fiber.
struct Outcome<'scope, T> {
    /// None when taken.
    result: Option<std::thread::Result<T>>,
    shared: &'scope Shared,
}

impl<T> Drop for Outcome<'_, T> {
    fn drop(&mut self) {
        let Some(Err(payload)) = &self.result else { return };
        match payload.downcast_ref::<Cancelled>() {
            Some(cancelled) => _ = self.shared.cancelled.set(cancelled.clone()),
            // The end of the scope orders this store.
            None => self.shared.panicked.store(true, Ordering::Relaxed),
        }
    }
}

/// [`std::thread::ScopedJoinHandle`]. The scope waits for the fiber of a dropped handle.
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
    /// The payload of the fiber's panic; a [`Cancelled`], if the fiber was cancelled in a wait that
    /// unwinds, or before the closure began.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        ended(wait!(self.handle.join()).map(|mut outcome| outcome.result.take().expect("it is taken once")))
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

segue::core::impl_debug!([T] ScopedJoinHandle<'_, T>, |it| thread: it.thread);
