//! Dynamic extents: whether the caller is inside of a certain call, on whichever thread.
//!
//! Used by the cells of `segue`: an initialiser can't wait for its own value.
//!
//! # The idea
//!
//! A computation waits for itself if it waits for a call that can't return before the computation
//! has ended. To notice that, it asks what it is inside of, and the tree of contexts knows. The
//! fibers of a scope and of a run, the other half of a join, and calls that block or move to
//! another scheduler run in the contexts of their caller, and the caller leaves none of these
//! before they have ended. So a call that wants to be known enters a context of its own with a
//! number, and contexts that are made inside carry the number, too.
//!
//! The search looks up no other fiber, so none can be gone meanwhile. The numbers never come again.
//! A fiber that is detached, and joined, is not inside: that join can be cancelled.
//!
//! A shield hides the cancellation and not the extents: see [`shield`](crate::shield).

use crate::primitives::at_end::at_end;
use crate::tree::context::{Context, innermost};
use std::iter::successors;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A call that those inside of it can recognise.
///
/// # Examples
///
/// ```
/// use segue_core::{Extent, scope, spawn};
///
/// let call = Extent::new();
/// call.run(|| {
///     assert!(call.is_around());
///     // The call waits for what is spawned into a scope, and not for what is detached.
///     scope(|s| drop(s.spawn(|| assert!(call.is_around()))));
///     assert_eq!(spawn(move || call.is_around()).join().ok(), Some(false));
/// });
/// assert!(!call.is_around());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent(u64);

/// Extents that a context is inside of, the innermost first.
#[derive(Debug)]
pub(crate) struct Extents {
    pub(crate) innermost: Extent,
    pub(crate) around: Option<Arc<Extents>>,
}

impl Extent {
    /// One that nothing is inside of yet. No other is equal to it.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Self {
        // Not loom's: the numbers order nothing.
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs `f` inside. What it spawns into scopes is inside as well, and so is the other half of a
    /// join, and what it waits for by `blocking` or on another scheduler.
    ///
    /// # Cancellation
    /// `f` sees the caller's.
    pub fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let context = Context::nest(None, Some(self));
        let _end = at_end(|| context.end());
        context.enter(f)
    }

    /// Whether the caller is inside.
    #[must_use]
    pub fn is_around(self) -> bool {
        innermost(|context| context.is_inside(self)).unwrap_or(false)
    }
}

impl Extents {
    pub(crate) fn contain(&self, extent: Extent) -> bool {
        successors(Some(self), |extents| extents.around.as_deref()).any(|extents| extents.innermost == extent)
    }
}
