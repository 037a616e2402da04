//! Where the fibers of a builder start, which family they join, and how long they may
//! borrow.
//!
//! Used by `builder.rs`: each setting of a place gives the builder another type, and only the types
//! that make sense have a `spawn`.
#![allow(unsafe_code)] // Fibers belong to families, which have to outlive them.

use crate::chain::unwind::caught;
use crate::contract::fiber::Spawn;
use crate::contract::job::{Given, Job};
use crate::spawn::async_task::Ending;
use crate::spawn::default_runtime::{DefaultRuntime, Origin};
use crate::spawn::family::Family;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::scope::Scope;
use crate::spawn::task;
use crate::spawn::try_scope::TryScope;
use crate::tree::cancelled::Cancelled;
use crate::values::locals::{self, Locals};
use std::marker::PhantomData;
use std::mem;

/// The place of a builder of fibers that are `Send`, and may borrow data that outlives `'a`.
///
/// Implemented for the places of this module alone.
pub trait Place<'a>: Sized + Sealed {
    /// Starts a fiber in this place.
    #[doc(hidden)]
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a;

    /// Starts a task in this place.
    #[doc(hidden)]
    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'a,
        T: Send + 'a;
}

/// Keeps the traits of builders to this crate.
pub trait Sealed {}

/// Beside the caller's fiber, or in the runtime `R` from a plain thread; in no scope.
pub struct Detached<R>(PhantomData<fn() -> R>);

impl<R> Detached<R> {
    pub(super) const HERE: Self = Self(PhantomData);
}

impl<R> Sealed for Detached<R> {}

impl<R: DefaultRuntime> Place<'static> for Detached<R> {
    #[inline]
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the origin is used here alone; a runtime calls `complete` before its end, and the
        // closure borrows nothing.
        unsafe { Origin::of_caller(R::start).spawn_detached(given, f) }
    }

    #[inline]
    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: as in `start`, for the future.
        unsafe {
            let origin = Origin::of_caller(R::start);
            origin.spawn_task(origin.family, given, future)
        }
    }
}

/// A scheduler that has detached fibers of its own: a pool, for instance.
///
/// # Safety
/// The family that `with_family` shows is completed by its owner, and so after the end of the
/// members that are made in that call.
pub unsafe trait Host: Spawn {
    /// Calls `f` with the family of the scheduler's detached fibers; not if the scheduler has
    /// ended, or is about to.
    fn with_family(&self, f: &mut dyn FnMut(&Family));
}

/// Under the scheduler that the builder was given, as a detached fiber of that.
pub struct On<'h>(pub(super) &'h dyn Host);

impl Sealed for On<'_> {}

impl Place<'static> for On<'_> {
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the host completes the family, as `Host` says, and the closure borrows nothing.
        let make = |family: &Family, (given, f), inherited| unsafe { family.job_given(given, f, inherited) };
        self.start_member((given, f), make)
    }

    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'static,
        T: Send + 'static,
    {
        let spawner = self.0.share();
        // SAFETY: as in `start`.
        let make = |family: &Family, (given, future), inherited| unsafe {
            family.async_job_given(given, future, spawner, inherited)
        };
        self.start_member((given, future), make)
    }
}

impl On<'_> {
    /// Makes a job of these parts in the host's family, and hands the job over. If there is no
    /// family any more, the parts are dropped, and the handle says so.
    fn start_member<V, T>(
        &self,
        parts: V,
        make: impl FnOnce(&Family, V, *mut Locals) -> (Job, JoinHandle<T>),
    ) -> JoinHandle<T> {
        // The host may hold a lock around its family, and a value's clone is foreign code.
        let inherited = locals::inherited();
        let (mut left, mut made) = (Some((parts, make)), None);
        self.0.with_family(&mut |family| {
            if let Some((parts, make)) = left.take() {
                made = Some(make(family, parts, inherited));
            }
        });
        if let Some((job, handle)) = made {
            self.0.spawn(job);
            return handle;
        }
        // SAFETY: no job was made, which would have the table.
        unsafe { locals::discard(inherited, mem::forget) };
        task::never(caught(|| drop(left)), Cancelled::new())
    }
}

/// In a scope: the fiber may borrow as the scope may, and the scope waits for the fiber. Of a
/// [`TryScope`] if `K` is [`Fallible`].
pub struct Within<'scope, 'env: 'scope, K = Infallible> {
    pub(super) scope: &'scope Scope<'scope, 'env>,
    kind: PhantomData<fn() -> K>,
}

/// The scope of a [`Within`] has fibers that don't fail by an error.
#[derive(Debug)]
pub struct Infallible;

/// The scope of a [`Within`] is a [`TryScope`].
#[derive(Debug)]
pub struct Fallible;

/// A scope, as [`within`](crate::build::Builder::within) takes one: a [`Scope`] or a [`TryScope`].
pub trait Owner<'scope, 'env>: Sealed {
    /// [`Fallible`] for a [`TryScope`].
    type Kind;

    /// The fibers' place.
    #[doc(hidden)]
    fn place(&'scope self) -> Within<'scope, 'env, Self::Kind>;
}

impl Sealed for Scope<'_, '_> {}
impl Sealed for TryScope<'_, '_> {}

impl<'scope, 'env> Owner<'scope, 'env> for Scope<'scope, 'env> {
    type Kind = Infallible;

    fn place(&'scope self) -> Within<'scope, 'env> {
        Within { scope: self, kind: PhantomData }
    }
}

impl<'scope, 'env> Owner<'scope, 'env> for TryScope<'scope, 'env> {
    type Kind = Fallible;

    fn place(&'scope self) -> Within<'scope, 'env, Fallible> {
        Within { scope: self, kind: PhantomData }
    }
}

impl<K> Sealed for Within<'_, '_, K> {}

impl<'scope, K> Place<'scope> for Within<'scope, '_, K> {
    #[inline]
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.scope.spawn_given(given, f)
    }

    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.scope.spawn_future(&self.scope.family, given, future)
    }
}

/// In a scope that does not wait for the fiber to end by itself: a daemon.
pub struct Daemon<'scope, 'env: 'scope>(pub(super) &'scope Scope<'scope, 'env>);

impl Sealed for Daemon<'_, '_> {}

impl<'scope> Place<'scope> for Daemon<'scope, '_> {
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.0.spawn_daemon_given(given, f)
    }

    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.0.spawn_future(self.0.daemons(), given, future)
    }
}

/// In a scope, under another scheduler than the caller's.
pub struct WithinOn<'h, 'scope, 'env: 'scope> {
    pub(super) scope: &'scope Scope<'scope, 'env>,
    pub(super) on: &'h dyn Spawn,
}

impl Sealed for WithinOn<'_, '_, '_> {}

impl<'scope> Place<'scope> for WithinOn<'_, 'scope, '_> {
    fn start<F, T>(self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.scope.spawn_given_on(self.on, given, f)
    }

    fn start_task<F, T>(self, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send + 'scope,
        T: Send + 'scope,
    {
        self.scope.spawn_future_on(Some(self.on), &self.scope.family, given, future)
    }
}

/// In a scope, on a stack of the caller's worker from the start: for closures that are not `Send`.
pub struct Local<'scope, 'env: 'scope>(pub(super) &'scope Scope<'scope, 'env>);
