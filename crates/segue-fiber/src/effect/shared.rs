//! Handlers that forks and scopes inherit.
//!
//! Used by applications for effects that only ask: for a configuration, a log, a counter.

#![allow(unsafe_code)] // Frames are linked into the chain by address.

use std::marker::PhantomData;

use super::Effect;
use super::clauses::{AnsweringAll, Clauses, Cons, Nil};
use segue_core::chain::{self, Frame, Restore};

/// A handler that only answers, on any thread that performs.
///
/// Performs see a shared handler like any other; besides, the halves of a `join` inside see the
/// handler, and so do the fibers of a scope that is opened inside, on any worker. These it
/// outlives, so that the handler may borrow. Inherited handlers come after those that such a fiber
/// or half installs itself.
///
/// Not seen by: a fiber that is spawned without a scope, or into a scope around the handler; a
/// blocking call on another thread; and fibers that start inside of a generator, or of a handler
/// that wants continuations, which stand between: they may be resumed without this handler.
///
/// ```
/// use segue_fiber::effect::{Effect, SharedHandler, perform};
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// struct Count(u64);
/// impl Effect for Count {
///     type Output = ();
/// }
///
/// let total = AtomicU64::new(0);
/// let count = |Count(n)| {
///     total.fetch_add(n, Relaxed);
/// };
/// SharedHandler::new().answer(count).handle(|| {
///     segue_core::scope(|s| {
///         for n in 1..=4 {
///             s.spawn(move || perform(Count(n)));
///         }
///     });
/// });
/// assert_eq!(total.into_inner(), 10);
/// ```
pub struct SharedHandler<L = Nil>(L);

impl SharedHandler {
    /// A handler of nothing.
    #[inline]
    pub fn new() -> Self {
        Self(Nil)
    }
}

impl Default for SharedHandler {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Sync> SharedHandler<L> {
    /// Answers an effect at once: the perform is a call of `clause`, on the performer's stack and
    /// thread.
    ///
    /// The clause added last is asked first.
    #[inline]
    pub fn answer<E: Effect, C: Fn(E) -> E::Output + Sync>(
        self,
        clause: C,
    ) -> SharedHandler<Cons<AnsweringAll<E, C>, L>> {
        SharedHandler(Cons { head: AnsweringAll(clause, PhantomData), tail: self.0 })
    }

    /// Runs `body` under this handler.
    ///
    /// # Panics
    ///
    /// With a panic of the body.
    pub fn handle<T>(self, body: impl FnOnce() -> T) -> T
    where
        L: Clauses<(), ()>,
    {
        let list = self.0;
        let frame = Frame::new(L::ENTRIES.address(), (&raw const list).cast());
        // SAFETY: the frame around is in place until this returns.
        let _restore = unsafe { Restore::new() };
        // SAFETY: the frame is in place until `_restore` sets the top again. Its clauses answer,
        // and are `Sync`, as `answer` demands.
        unsafe {
            chain::set_top(&frame);
            chain::share(&frame, body)
        }
    }
}

segue_core::impl_debug!([L] SharedHandler<L>);
