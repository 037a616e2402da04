//! The cancellation of a token, and the request to finish, as something that can be waited for.
//!
//! Used as an arm of a choice, and by tasks, to which the tree of contexts does not reach.
//!
//! # The idea
//!
//! A context knows fibers. So a waiter joins the context by a header of its own, which lies in its
//! slot and never runs: its scheduler is the one in this file, to which an interrupt is the claim
//! of the waiter's trigger. The canceller makes that claim under the context's lock, after setting
//! the flag; wakers of that claim are called after the release of the lock (`context.rs` has them
//! wait).
//!
//! **Commit point**: the claim, or the look that finds the flag. **The race to fear**: a waiter
//! that looks before the flag is set, and joins after the canceller has passed. The waiter looks
//! under the lock of its joining, and the flag is set under that lock.
#![allow(unsafe_code)] // The slot is registered by address.

use crate::cancel::token::CancelToken;
use crate::contract::current;
use crate::contract::fiber::{Fiber, Wake};
use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::sim::preemption::preemption_point;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::{Context, innermost};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};
use crate::wait::stand_in::{StandIn, StandIns};
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};
use std::sync::Arc;

impl CancelToken {
    /// Waits until the token is cancelled, and yields the error of waits under that token: a
    /// source, for a task to await, or for a choice of code that does not run under the token.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{CancelToken, Either, after};
    /// use std::time::Duration;
    ///
    /// let stop = CancelToken::new();
    /// let tick = || after(Duration::from_millis(1)).or(stop.cancelled_source()).wait();
    /// assert_eq!(tick(), Ok(Either::Left(())));
    /// stop.cancel_with("enough");
    /// assert!(matches!(stop.cancelled_source().wait(), Ok(why) if why.to_string() == "cancelled: enough"));
    /// ```
    #[track_caller]
    pub fn cancelled_source(&self) -> Waitable<Cancellation> {
        Waitable::new(Cancellation {
            context: Some(Arc::clone(&self.0)),
            is_soft: false,
            look: |context| context.is_cancelled().then(|| context.error()),
            waits_for: WaitsFor::new("a cancellation"),
        })
    }
}

/// Waits until the caller is asked to finish, or cancelled: the first stage of
/// [`Scope::cancel_soft`](crate::Scope::cancel_soft). A source; as an arm beside the next request
/// it ends a loop that serves.
///
/// The request is for the caller's surroundings at this call: its scope, or its runtime if that
/// ends with a grace. On a plain thread, in no scope, the source never is ready; nor under a
/// shield.
///
/// # Cancellation
/// *No effect*.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after, finishing_source, scope};
/// use std::time::Duration;
///
/// let served = scope(|s| {
///     let server = s.spawn(|| {
///         let mut served = 0;
///         while let Ok(Either::Left(())) = after(Duration::from_millis(1)).or(finishing_source()).wait() {
///             served += 1;
///         }
///         served
///     });
///     s.cancel_soft(Duration::from_secs(5));
///     server.join().unwrap()
/// });
/// assert!(served < 1_000);
/// ```
#[track_caller]
pub fn finishing_source() -> Waitable<Finishing> {
    // SAFETY: the running fiber is inside of its context, which is alive.
    let context = unsafe { Context::from_raw(Context::of_head(current::context())) };
    Waitable::new(Finishing {
        context,
        is_soft: true,
        look: |context| context.is_finishing().then_some(()),
        waits_for: WaitsFor::new("a request to finish"),
    })
}

/// Whether the caller was asked to finish, or cancelled. Never waits. See [`finishing_source`].
///
/// # Examples
///
/// ```
/// use segue_core::{is_finishing, scope};
/// use std::time::Duration;
///
/// scope(|s| {
///     assert!(!is_finishing());
///     s.cancel_soft(Duration::MAX);
///     assert!(is_finishing() && segue_core::check().is_ok());
/// });
/// ```
#[must_use]
pub fn is_finishing() -> bool {
    preemption_point();
    innermost(Context::is_finishing).unwrap_or(false)
}

/// The source of [`CancelToken::cancelled_source`].
pub type Cancellation = Told<Cancelled>;

/// The source of [`finishing_source`].
pub type Finishing = Told<()>;

/// Waits until a context is told something, and yields `T`.
#[derive(Clone, Debug)]
pub struct Told<T> {
    /// `None` if nobody can tell.
    context: Option<Arc<Context>>,
    /// Whether this waits for the request to finish.
    is_soft: bool,
    /// The value, if the context was told.
    look: fn(&Context) -> Option<T>,
    waits_for: WaitsFor,
}

/// The part of a waiter that a context reaches.
#[derive(Default)]
pub struct Watch {
    /// `None` without a registration.
    member: Option<Fiber>,
    trigger: *const Trigger,
    arm: usize,
    context: *const Context,
    /// Whether this waits for the request to finish.
    is_soft: bool,
    /// The canceller reaches it while its waiter has a `&mut`.
    _shared: PhantomPinned,
}

// SAFETY: during a registration others read the member, under the lock of the context; its waiter
// changes it before joining and after leaving.
unsafe impl Send for Watch {}

impl Watch {
    /// # Safety
    /// As for [`Source::register`]. The waiter leaves this context before its end.
    unsafe fn join(&mut self, context: &Context, is_soft: bool, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        (self.trigger, self.arm, self.context, self.is_soft) = (trigger, arm, context, is_soft);
        // SAFETY: there is no context.
        self.member = Some(unsafe { WATCHES.header(ptr::null()) });
        let watch = ptr::from_ref(&*self);
        let joined = self.member.as_ref().is_some_and(|member| {
            // SAFETY: this is its scheduler. The header stays in place until it has left.
            unsafe {
                member.set_host(watch.cast());
                context.add_member_unless(is_soft, NonNull::from(member))
            }
        });
        if joined {
            return Ok(());
        }
        self.member = None;
        Err(trigger.retreat())
    }

    /// Leaves the context, after a joining.
    fn leave(&mut self) {
        if let Some(member) = &self.member {
            // SAFETY: the header is a member since `join`, in place, and its source keeps the
            // context.
            unsafe { (*self.context).remove_member(NonNull::from(member)) };
            self.member = None;
        }
    }
}

// SAFETY: the slot is reached under the lock of the context, and only before leaving that, which
// each step does that ends the registration; the canceller goes on from a member before the claim,
// and the claim's resume is its last use. The steps run no foreign code. Without a context there is
// no registration, and nobody claims.
unsafe impl<T> Source for Told<T> {
    type Output = T;
    type Slot = Watch;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn address(&self, least: usize) -> Option<usize> {
        let address = self.context.as_ref().map_or(usize::MAX, |context| Arc::as_ptr(context).addr());
        Some(address).filter(|address| *address >= least)
    }

    fn attempt(&mut self) -> Option<T> {
        preemption_point();
        (self.look)(self.context.as_ref()?)
    }

    unsafe fn register(&mut self, slot: &mut Watch, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        match &self.context {
            // SAFETY: as the caller promises; this has the context.
            Some(context) => unsafe { slot.join(context, self.is_soft, trigger, arm) },
            None => Ok(()),
        }
    }

    unsafe fn withdraw(&mut self, slot: &mut Watch) {
        slot.leave();
    }

    unsafe fn commit(&mut self, slot: &mut Watch, _arm: usize) -> Option<T> {
        slot.leave();
        // What was told stays so.
        (self.look)(self.context.as_ref()?)
    }

    unsafe fn give_back(&mut self, slot: &mut Watch, _arm: usize) {
        slot.leave();
    }
}

/// The scheduler of the headers that stand for waiters.
static WATCHES: StandIns<Watches> = StandIns::new();

struct Watches;

// SAFETY: the header is never current, and leaves the context before its slot ends.
unsafe impl StandIn for Watches {
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Interrupt, "what stands for a waiter does not wait itself");
        // SAFETY: the caller holds the lock of the context, which the waiter takes before slot and
        // trigger end.
        let claimed = unsafe {
            let watch = &*fiber.as_ref().host().cast::<Watch>();
            if !watch.is_soft && !(*watch.context).is_cancelled() {
                // The context is asked to finish, which this one does not wait for.
                return;
            }
            (*watch.trigger).claim(watch.arm)
        };
        // One that was cancelled itself goes on as well.
        drop(claimed.unwrap_or_else(|refused| refused));
    }
}
