//! Something that can be waited for, written once and waited for in every way.
//!
//! Implemented by the wait queue, by timers and by the handles of fibers. From the steps of a [`Source`] follow the wait in a fiber or a
//! thread ([`wait`]), the wait with a deadline ([`wait_until`]), the `.await` of a [`Waitable`] (`future.rs`), and the choice
//! between several, which is a source again (`either.rs`).
//!
//! # The protocol
//!
//! Whoever acts is registered nowhere; whoever is registered does not act.
//!
//! 1. **Start**: attempt without being registered, and join the queue if that gives nothing. If it gives the value, it is over.
//! 2. **Register** further arms with the same trigger; each looks under its structure's lock, and does not act. If one turns out to
//!    be ready, cancel the trigger (if that fails, somebody has just taken it: go to 3), withdraw from all, and start again.
//! 3. **Wait** on the trigger; if it was taken meanwhile, the wait is short, since the resume is under way.
//! 4. If it was taken through an arm, withdraw from the others and **commit** that one: the value is in its slot, or, for a structure that
//!    only tells, start again. If it was cancelled, **withdraw** from all: nothing was handed over, nothing is lost.
//! 5. Whoever was taken and does not want it any more (a future that is dropped) **gives back** instead of committing.
//!
//! The commit point of the whole is the claim of the trigger, or the attempt that succeeded.
//!
//! After Go's `select` and the sources of Gears; what is new is that two waiters never claim each other crosswise, so that there is no order of locks.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::budget::admit;
use crate::cancel::Cancelled;
use crate::context::astray;
use crate::either::{Either, Or};
use crate::fiber::{self, Fiber, WaitsFor};
use crate::map::Map;
use crate::time::Deadline;
use crate::trigger::{Outcome, Trigger};
use std::time::Instant;

/// Something that can be waited for.
///
/// # Safety
/// After [`start`](Source::start) or [`register`](Source::register) the implementation may reach the slot and the trigger until
/// [`withdraw`](Source::withdraw) has returned; or, once it has claimed the trigger through one of its arms, until it has sent the resume that
/// it owes for that, and not later. What it hands over is in the slot before the claim. None of the steps unwinds while something is registered; `slot` and `attempt`
/// may. Foreign code that a step may run once something is registered, and to resume others may, is run inside of [`registered`]. A source that is `Send` may go to another thread between two steps, together with its slot.
pub unsafe trait Source {
    /// What the wait yields.
    type Output;

    /// What a registration keeps in the waiter's frame.
    type Slot;

    /// What reports say of a fiber that waits for this.
    fn waits_for(&self) -> WaitsFor;

    /// A slot that is not registered.
    fn slot(&self) -> Self::Slot;

    /// How many arms it takes. The same at every call.
    fn arms(&self) -> usize {
        1
    }

    /// Takes the value if it is there. Never waits.
    fn attempt(&mut self) -> Option<Self::Output>;

    /// Attempts, and joins the queue if that gives nothing: the beginning of a wait of which nothing is registered yet.
    ///
    /// # Safety
    /// `slot` and `trigger` stay in place until `withdraw`, `commit` or `give_back`, one of which follows if this gives nothing.
    /// The slot is not registered, and nobody else knows the trigger. Arms are numbered from `arm`.
    unsafe fn start(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Option<Self::Output> {
        loop {
            if let Some(output) = self.attempt() {
                return Some(output);
            }
            // SAFETY: as the caller promises.
            if unsafe { self.register(slot, trigger, arm) } {
                return None;
            }
        }
    }

    /// Joins the queue unless the value is there by now, without taking it. Answers whether it joined; one with several
    /// arms that answers `false` may have joined with some of them.
    ///
    /// # Safety
    /// As for `start`, but others may know the trigger.
    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> bool;

    /// Leaves the queue, in O(1) or close to it. Nothing is in the slot then. No effect on a slot that is not registered.
    ///
    /// # Safety
    /// The trigger was not taken through an arm of this source.
    unsafe fn withdraw(&mut self, slot: &mut Self::Slot);

    /// Takes what was handed over; `None` means that it was only told to attempt again, which its caller does before anything else.
    ///
    /// # Safety
    /// The slot was registered, and the trigger was taken through the `arm`-th arm of this source.
    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<Self::Output>;

    /// Gives what was handed over to whoever is next, since its waiter has gone: as if it had been withdrawn in time.
    ///
    /// # Safety
    /// As for `commit`.
    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize);
}

/// Runs `f`, in which the calling fiber can't wait: its waits are refused, as if they were cancelled, with a reason.
///
/// For the steps of a [`Source`] that may run foreign code, a closure of the user's or a waker, while an arm is registered: whoever claims that arm resumes the fiber,
/// and would end whatever wait the fiber is in. On a plain thread each wait has a header of its own, and so its own resume.
pub fn registered<R>(waits_for: WaitsFor, f: impl FnOnce() -> R) -> R {
    struct Restore<'a>(&'a Fiber, Option<WaitsFor>);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            // Foreign code may have been captured by an effect, and go on in another fiber: that one must not go on with this one's wait.
            if !std::ptr::eq(fiber::current(), self.0) {
                astray();
            }
            self.0.register_for(self.1);
        }
    }
    // SAFETY: the current header is in place.
    let running = unsafe { fiber::current().as_ref() };
    let _restore = running.map(|fiber| Restore(fiber, fiber.register_for(Some(waits_for))));
    f()
}

/// Waits for a source: suspends the calling fiber, or parks the calling thread, until it is ready.
///
/// # Cancellation
/// *Loses its place in the queue* and has no other effect. A fiber that is panicking is not suspended: if the value is not there, its
/// wait ends as if it were cancelled.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled, before the call or during it.
///
/// # Examples
///
/// ```
/// use segue_core::{WaitQueue, WaitsFor, wait};
///
/// let queue: WaitQueue<u32, u32> = WaitQueue::new(7);
/// let mut positive = queue.source(WaitsFor::new("a positive number"), |n| *n > 0, |n| std::mem::take(n));
/// assert_eq!(wait(&mut positive), Ok(7));
/// ```
#[inline]
pub fn wait<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    admit()?;
    fiber::with_current(|fiber| {
        if fiber.must_not_suspend() {
            return source.attempt().ok_or_else(|| fiber.refused());
        }
        loop {
            let trigger = Trigger::waiting(fiber);
            let mut slot = source.slot();
            // SAFETY: slot and trigger are in this frame, which does not end before one of `withdraw` and `commit`
            // was called, as the outcome says, or nothing was registered. Nothing unwinds between.
            unsafe {
                if let Some(output) = source.start(&mut slot, &trigger, 0) {
                    return Ok(output);
                }
                match trigger.finish(fiber, source.waits_for()) {
                    Outcome::Cancelled => {
                        source.withdraw(&mut slot);
                        return Err(fiber.cancelled());
                    }
                    Outcome::Taken(arm) => {
                        if let Some(output) = source.commit(&mut slot, arm) {
                            return Ok(output);
                        }
                    }
                }
            }
        }
    })
}

/// Why a wait with a deadline ended without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The caller was cancelled.
    Cancelled(Cancelled),
    /// The deadline came first.
    TimedOut,
}

/// As [`wait`], but gives up at `deadline`; `None` is never.
///
/// A value that is there is taken, also after the deadline.
///
/// # Cancellation
/// As for [`wait`].
///
/// # Errors
/// [`Ended::TimedOut`] or [`Ended::Cancelled`].
pub fn wait_until<S: Source>(mut source: S, deadline: Option<Instant>) -> Result<S::Output, Ended> {
    let either = match deadline {
        None => wait(&mut source).map(Either::Left),
        Some(_) => wait(&mut Or::new(source, Deadline::at(deadline))),
    };
    match either {
        Ok(Either::Left(output)) => Ok(output),
        Ok(Either::Right(())) => Err(Ended::TimedOut),
        Err(cancelled) => Err(Ended::Cancelled(cancelled)),
    }
}

/// A source in the hands of a user, who waits for it in any of the ways.
///
/// * [`wait`](Waitable::wait) in a fiber or a thread;
/// * `.await` in a task of any async runtime: the future is `Send` where the values are, allocates nothing of its own, and may be dropped at any
///   instant: what it had been handed goes to the next waiter;
/// * [`or`](Waitable::or) another one, whichever is ready first.
///
/// Nothing happens before one of them: a waitable that is dropped was never called.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after};
/// use std::time::Duration;
///
/// let first = after(Duration::from_millis(1)).or(after(Duration::MAX)).wait();
/// assert_eq!(first, Ok(Either::Left(())));
/// ```
#[must_use = "nothing happens before it is waited for"]
#[derive(Clone, Copy, Debug)]
pub struct Waitable<S>(S);

impl<S: Source> Waitable<S> {
    /// What `source` says, in the hands of a user.
    #[inline]
    pub fn new(source: S) -> Self {
        Self(source)
    }

    /// Takes the value if it is there. Never waits; the closure of a [`map`](Waitable::map), or the initialiser of a cell, which it then runs, may.
    #[inline]
    pub fn attempt(&mut self) -> Option<S::Output> {
        self.0.attempt()
    }

    /// Suspends the calling fiber, or parks the calling thread, until the source is ready.
    ///
    /// # Cancellation
    /// As for [`wait`].
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline]
    pub fn wait(mut self) -> Result<S::Output, Cancelled> {
        wait(&mut self.0)
    }

    /// As [`wait_until`].
    ///
    /// # Cancellation
    /// As for [`wait`].
    ///
    /// # Errors
    /// [`Ended::TimedOut`] or [`Ended::Cancelled`].
    pub fn wait_until(self, deadline: Option<Instant>) -> Result<S::Output, Ended> {
        wait_until(self.0, deadline)
    }

    /// This one or `other`, whichever is ready first; this one if both are. The one that is not chosen has no effect, but what it was made of goes with
    /// it: the value of a `put_source`, the guard that a condition was given, the handle of a `join_source`.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, in both; nothing was handed to it.
    pub fn or<O: Source>(self, other: Waitable<O>) -> Waitable<Or<S, O>> {
        Waitable(Or::new(self.0, other.0))
    }

    /// Yields what `then` makes of the output. It runs after the operation has taken effect, outside of every lock.
    ///
    /// # Cancellation
    /// That of the operation itself; `then` was not called.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// assert_eq!(segue_core::after(Duration::ZERO).map(|()| "now").wait(), Ok("now"));
    /// ```
    pub fn map<R, F: FnMut(S::Output) -> R>(self, then: F) -> Waitable<Map<S, F>> {
        Waitable(Map::new(self.0, then))
    }

    /// The source itself.
    #[inline]
    pub fn into_source(self) -> S {
        self.0
    }
}
