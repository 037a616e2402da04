//! A spawner's settings for the fiber to be: its name, attributes and stack.
//!
//! Used by applications and by schedulers.
#![allow(unsafe_code)] // Fibers belong to families, which have to outlive them.

use crate::cancel::token::CancelToken;
use crate::contract::fiber::{Fiber, Scheduler};
use crate::contract::job::{Given, Identity};
use crate::spawn::default_runtime::with_origin;
use crate::spawn::delayed::Delayed;
use crate::spawn::join_handle::{Cancellable, JoinHandle};
use crate::spawn::scope::Scope;
use crate::spawn::try_scope::TryScope;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::Context;
use crate::values::attributes::{Attribute, Attributes};
use std::cell::OnceCell;
use std::error::Error;
use std::ptr::NonNull;
use std::time::Duration;

/// A spawn with a name, attributes or a stack of its own size, in the shape of
/// [`std::thread::Builder`].
///
/// # Examples
///
/// ```
/// let handle = segue_core::Builder::new().name("answer").spawn(|| 42);
/// assert_eq!(handle.join().unwrap(), 42);
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Builder(pub(crate) Given);

impl Builder {
    /// A spawn without a name, with a copy of the caller's attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// The name that reports and failures give to the fiber. Where no scheduler is, and each fiber
    /// is a thread, the thread has that name, too.
    pub fn name(mut self, name: impl Into<Box<str>>) -> Self {
        self.0.name = Some(Box::new(name.into()));
        self
    }

    /// The attributes that the fiber is to carry, in place of a copy of the caller's. They are not
    /// copied: a clone of the handle can change them while the fiber lives.
    pub fn attributes(mut self, attributes: Attributes) -> Self {
        self.0.attributes = Some(attributes.0);
        self
    }

    /// The fiber's attribute of this type; of the other types the fiber has the caller's.
    pub fn attribute<A: Attribute>(mut self, value: A) -> Self {
        self.0 = self.0.or_inherited();
        let attributes = Attributes(self.0.attributes.take().unwrap_or_default());
        self.0.attributes = Some(attributes.with(value).0);
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
        self.0.stack = bytes.next_power_of_two().ilog2() as u8;
        self
    }

    /// Fibers that can be cancelled one by one, by their handles.
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
    pub fn cancellable(self) -> Cancellable {
        self.token(&CancelToken::new())
    }

    /// Fibers that this token cancels, too.
    pub fn token(self, token: &CancelToken) -> Cancellable {
        Cancellable { builder: self, token: token.clone() }
    }

    /// Fibers that begin after `delay`, and can be taken back by their handles until then. See
    /// [`Delayed`].
    pub fn after(self, delay: Duration) -> Delayed {
        self.cancellable().after(delay)
    }

    /// As [`spawn`](crate::spawn()).
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: a runtime calls `complete` before its end, and the closure borrows nothing.
        with_origin(|origin| unsafe { origin.spawn(origin.family, self.0, f) })
    }

    /// As [`spawn_task`](crate::spawn_task).
    pub fn spawn_task<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        // SAFETY: as in `spawn`.
        with_origin(|origin| unsafe { origin.spawn_task(origin.family, self.0, future) })
    }

    /// As [`Scope::spawn`].
    pub fn spawn_in<'scope, F, T>(self, scope: &'scope Scope<'scope, '_>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        if scope.is_late() {
            return scope.spawn_late(self.0, f);
        }
        // SAFETY: the family is in the frame of `scope`, which completes the family before its
        // return, after any end of the body; values that live for 'scope live until then.
        with_origin(|origin| unsafe { origin.spawn(Some(&scope.family), self.0, f) })
    }

    /// As [`Scope::spawn_local`].
    pub fn spawn_local_in<'scope, F, T>(self, scope: &'scope Scope<'scope, '_>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + 'scope,
        T: 'scope,
    {
        scope.spawn_local_given(self.0, f)
    }

    /// As [`Scope::spawn_daemon`].
    pub fn spawn_daemon_in<'scope, F, T>(self, scope: &'scope Scope<'scope, '_>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.spawn_daemon_given(self.0, f)
    }

    /// As [`TryScope::spawn_try`].
    pub fn spawn_try_in<'scope, F, T, E>(
        self,
        scope: &'scope TryScope<'scope, '_>,
        f: F,
    ) -> JoinHandle<Result<T, Cancelled>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.spawn_in(scope, move || f().map_err(|error| scope.fail("a fiber", error)))
    }
}

/// How many bytes of its stack a fiber can use that is made without a job, if that was
/// [said](Builder::stack_size).
#[must_use]
pub fn stack_size_of(given: &Builder) -> Option<usize> {
    given.0.stack_size()
}

impl Fiber {
    /// The header for a fiber that runs without a job: under `token`, in no family, with the name
    /// and the attributes that are given.
    ///
    /// # Safety
    /// `scheduler` outlives the header, and some clone of `token` does.
    #[inline]
    pub unsafe fn under(scheduler: NonNull<dyn Scheduler>, id: u64, token: &CancelToken, given: Builder) -> Self {
        let attributes = given.0.attributes.map_or_else(OnceCell::new, OnceCell::from);
        let identity = Identity { name: given.0.name, attributes, ..Identity::in_context(Context::head_of(&token.0)) };
        // SAFETY: as the caller promises.
        unsafe { Self::new(scheduler, id, identity) }
    }
}
