//! A coroutine that lets another one go on in its place.
//!
//! Used by schedulers whose fibers need not come back to the loop between two turns.
//!
//! ```text
//!   resumer ---resume---> A ---pass on---> B ---suspend---> resumer
//!   rests at A's link     B's link := A's link                goes on at B's link
//! ```
//!
//! A coroutine that suspends itself can let another one go on instead of its resumer, which then
//! stays at rest where it is. The link goes along: whichever coroutine of such a row suspends
//! itself or returns, its link names that one resumer. So there is one resumer for all of a row,
//! and one of the row runs; the others rest with stale links, which the next `resume` or `pass_on`
//! writes anew.

#![allow(unsafe_code)] // What runs on a stack is the caller's promise.

use crate::coroutine::{Cell, raw_of};
use segue_core::chain;
use segue_core::switch::Switch;
use std::ptr::NonNull;

/// Suspends the coroutine `from` and lets `to` go on in its place: `from` passes its turn on.
///
/// As [`begin_suspend`](crate::begin_suspend) does, it leaves the switch to the caller. What has
/// resumed `from` rests on: it comes back when `to`, or another one that got the turn from `to`,
/// suspends itself or returns. Its `resume` then answers what became of the coroutine that it was
/// called for; [`has_returned`](crate::Coroutine::has_returned) tells of the others.
///
/// For schedulers: a turn without a detour through the loop. Where [`PASSES_ON`](crate::PASSES_ON)
/// says so.
///
/// # Safety
///
/// - As for [`suspend`](crate::suspend), for `from`; it is the caller of this that makes the
///   switch, at once.
/// - `to` came from [`header_ptr`](crate::Coroutine::header_ptr) or
///   [`into_header`](crate::Coroutine::into_header), of the same `H`. It is not running, and the
///   thread is the one which created it. No handle borrows it while it runs: until it is suspended
///   or has returned, nobody uses one, drops it or finishes it.
/// - No effect handler is in place. What has resumed `from` is ready for another one to come back.
///
/// # Panics
///
/// When `to` has returned.
///
/// # Examples
///
/// ```
/// use segue_fiber::{Coroutine, PASSES_ON, StackArena, StackConfig, StackPool, Step, pass_on};
/// use std::cell::Cell;
/// use std::ptr::NonNull;
///
/// /// The coroutine's own pointer.
/// #[derive(Default)]
/// struct Header(Cell<Option<NonNull<Header>>>);
///
/// let mut stacks = StackPool::new(StackArena::new(StackConfig::new())?);
/// let second = Coroutine::new(stacks.take()?, Header::default(), |_| ());
/// let to = second.header_ptr();
/// let mut first = Coroutine::new(stacks.take()?, Header::default(), move |header: &Header| {
///     if PASSES_ON {
///         // SAFETY: the first one runs this, and the second one has not started.
///         unsafe { pass_on(header.0.get().unwrap(), to).make() };
///     }
/// });
/// first.header().0.set(Some(first.header_ptr()));
/// // The second one runs to its end, and comes back here. The first one waits.
/// if first.resume() == Step::Suspended {
///     assert!(second.has_returned());
///     assert_eq!(first.resume(), Step::Returned);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline(always)]
pub unsafe fn pass_on<H: 'static>(from: NonNull<H>, to: NonNull<H>) -> Switch {
    debug_assert!(chain::top().is_null());
    // SAFETY: both are alive cells by the contract, and the rest is the caller's.
    unsafe { raw_of(from.cast::<Cell<H>>()).pass_on(raw_of(to.cast::<Cell<H>>())) }
}
