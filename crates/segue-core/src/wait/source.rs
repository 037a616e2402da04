//! Something that can be waited for, written once and waited for in every way.
//!
//! Implemented by the wait queue, by timers and by the handles of fibers. From the steps of a
//! [`Source`] follow the wait in a fiber or a thread ([`wait`]), the wait with a deadline
//! ([`wait_until`]), the `.await` of a [`Waitable`] (`future.rs`), and the choice between several,
//! which is a source again (`select.rs`).
//!
//! # The protocol
//!
//! An actor is registered nowhere; a registered waiter does not act.
//!
//! ```text
//!   looks --a value is there-------------------------------------------> done
//!   looks --nothing: prepares, registers arm by arm--> registered --+--> waits
//!     ^                                                             |
//!     |                                      an arm finds its value |
//!     |                                                             v
//!     +--leaves all, looks at all again---- retreats (its trigger is withdrawn)
//!
//!   waits, or an arm of it is claimed while others register --taken----> commits that arm, done
//!                                                           --told-----> attempts that arm, or looks
//!                                                           --cancelled> withdraws all
//!   taken, and not wanted any more (a future is dropped) --------------> gives back
//! ```
//!
//! 1. **Look** ([`attempt`](Source::attempt)): at all arms, without being registered. A value that
//!    is there is taken, without a slot, timer or box.
//! 2. **Register**, with one trigger for all arms: each looks once more, under its structure's
//!    lock, and joins. If its value is there now, the arm does not take that: the waiter
//!    [retreats](Trigger::retreat) under that same lock, leaves all queues and looks again. If the
//!    retreat fails, somebody has just claimed another arm: go to 3.
//! 3. **Wait** on the trigger; after a claim meanwhile the wait is short, since the resume is under
//!    way.
//! 4. After a claim through an arm, withdraw from the others and **commit** that one: the value is
//!    in its slot, or, for a structure that only tells, look again. After a cancellation,
//!    **withdraw** from all: nothing was handed over, nothing is lost.
//! 5. A waiter that was taken and does not want the value any more (a future that is dropped)
//!    **gives back** instead of committing.
//!
//! Only the waiter takes these steps, on its own thread. Others change one thing: they claim the
//! trigger of a registered waiter. The commit point of the whole is that claim, or the attempt that
//! succeeded.
//!
//! # Two that select meet
//!
//! A waiter counts as a *partner* when registered, with a trigger without an outcome, and other
//! than the one that looks ([`Guard::partners`](crate::Guard::partners)): a waiter that would send
//! and receive on the same channel does not meet itself. Two partners that both wait would wait for
//! ever, so the second one to register at a structure retreats, and acts.
//!
//! **Why some select commits.** X retreats since X has found Y at a structure c, and then looks in
//! vain: so Y has left c. Y was not served, else somebody has committed. So Y has retreated as
//! well, for something found while registered at c. From its first retreat on a waiter registers in
//! the order of the structures' addresses, so Y has found that at some d ≥ c. Of the structures at
//! which waiters retreat in vain for ever, let c be the one with the highest address; then d = c,
//! for all of them. A waiter withdraws its trigger under the lock of the structure of that partner,
//! and is no partner from then on. So these retreats come one after the other, and the last waiter
//! to retreat there before X looks has found a partner which is still there: X finds that one too.
//! (At a rendezvous all of them have found theirs among the same kind, the senders or the
//! receivers: two of both kinds are never registered at once.) Nobody retreats in vain for ever.
//!
//! Without the order two crosswise selects, of which each waits at the first structure of the
//! other, could retreat from each other again and again. A waiter that has retreated twice lets
//! others run each time before a look, and sees its cancellation there. `loom_select.rs` has a
//! model that fails without the order, and one that fails if a waiter retreats after the lock.
//!
//! After Go's `select` and the sources of Gears; new is that two waiters never claim each other
//! crosswise, so that there is no order of locks.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::chain::{self, barrier};
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::contract::trigger::{Outcome, Trigger};
use crate::primitives::at_end::at_end;
use crate::primitives::waits_for::{Object, WaitsFor, WaitsOn};
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::wait::admission::admit;
use crate::wait::deadline::Deadline;
use crate::wait::holders::{BoxSource, Erased, LocalBoxSource, Map};
use crate::wait::parts::Parts;
use crate::wait::retreat::Retreat;
use crate::wait::select::{Either, Or};
use std::ptr;
use std::time::Instant;

/// Something that can be waited for.
///
/// # Safety
/// After [`start`](Source::start) or [`register`](Source::register) the implementation may reach
/// the slot and the trigger until [`withdraw`](Source::withdraw) has returned; or, after a claim of
/// the trigger through one of its arms, until the resume that is owed for that is sent, and not
/// later. A value that is handed over is in the slot before the claim. None of the steps unwinds
/// while something is registered; `attempt` and `prepare`, which are called when nothing is, may.
/// Once an arm is registered, a step runs foreign code only inside of [`registered`]; resuming
/// others counts as foreign code, since a resume may call wakers. A source that is `Send` may go to
/// another thread between two steps, together with its slot.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing that can be waited for",
    label = "not a source",
    note = "an operation `x` waits at once and yields its result; to choose or await it write `x_source`: \
            `recv_source()` instead of `recv()`, `lock_source()` instead of `lock()`"
)]
pub unsafe trait Source {
    /// The output of the wait.
    type Output;

    /// The part of a registration in the waiter's frame. The default is one that is not registered,
    /// and costs next to nothing to make.
    type Slot: Default;

    /// The words of reports about a fiber that waits for this.
    fn waits_for(&self) -> WaitsFor;

    /// The thing itself, by which dumps join waiters and owners. By default, and for a choice, it
    /// is not known. Asked where a wait is about to suspend; does not wait.
    #[inline]
    fn object(&self) -> Object {
        Object::NONE
    }

    /// The number of arms. The same at every call from a look in vain to the next look; before the
    /// first one a guess is allowed.
    fn arms(&self) -> usize {
        1
    }

    /// The address of the structure of its registration, if that is not under `least`; of several,
    /// the lowest that is not. The address stays the same while something is registered.
    fn address(&self, least: usize) -> Option<usize>;

    /// Takes the value if there is one. Never waits. Called while nothing is registered.
    fn attempt(&mut self) -> Option<Self::Output>;

    /// The parts for looks: a choice around this source draws among those parts of all its arms
    /// that may be ready, and looks at no others; but for one of more than 8, idle or not, at which
    /// the choice looks first. The number of parts is the same throughout a
    /// look. A wait goes on for ever if a part that is ready is not among those.
    ///
    /// By default one part, which may be ready.
    #[inline]
    fn parts(&self) -> Parts {
        Parts::one(true)
    }

    /// The number of [parts](Source::parts), for which nothing need be asked whether it may be
    /// ready.
    #[inline]
    fn part_count(&self) -> usize {
        self.parts().count()
    }

    /// As [`attempt`](Source::attempt), of one of its parts alone. A look in parts goes through all
    /// of them that may be ready, each once, until one yields.
    #[inline]
    fn attempt_part(&mut self, _part: usize) -> Option<Self::Output> {
        self.attempt()
    }

    /// Makes the parts of a registration: called after each look in vain that a registration
    /// follows. May allocate and unwind.
    ///
    /// # Safety
    /// The slot is new.
    unsafe fn prepare(&mut self, _slot: &mut Self::Slot) {}

    /// Attempts, and prepares and registers if that gives nothing: the beginning of a wait. Sources
    /// outside of this crate have no other way for that.
    ///
    /// # Errors
    /// As for [`register`](Source::register).
    ///
    /// # Safety
    /// `slot` and `trigger` stay in place until `withdraw`, `commit` or `give_back`, one of which
    /// follows if this gives no value. The slot is new, and nobody else knows the trigger. Arms are
    /// numbered from `arm`.
    #[inline]
    unsafe fn start(
        &mut self,
        slot: &mut Self::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<Option<Self::Output>, Retreat> {
        if let Some(output) = self.attempt() {
            return Ok(Some(output));
        }
        // SAFETY: as the caller promises.
        unsafe {
            self.prepare(slot);
            trigger.expose();
            self.register(slot, trigger, arm)?;
        }
        Ok(None)
    }

    /// Joins the queue unless the value is there by now, which stays there.
    ///
    /// # Errors
    /// If the value is there: the answer of [`Trigger::retreat`], which is to be called under the
    /// lock under which the value was seen. A source with several arms may have joined with some of
    /// them.
    ///
    /// # Safety
    /// As for `start`, but others may know the trigger; and the slot was prepared after the last
    /// look, which was in vain.
    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat>;

    /// As [`register`](Source::register), of the arms at one address alone.
    ///
    /// # Errors
    /// As for `register`.
    ///
    /// # Safety
    /// As for `register`.
    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Self::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        if self.address(address) != Some(address) {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe { self.register(slot, trigger, arm) }
    }

    /// Leaves: nothing is in the slot then. No effect on a slot that is not registered.
    ///
    /// # Safety
    /// The trigger was not taken through an arm of this source.
    unsafe fn withdraw(&mut self, slot: &mut Self::Slot);

    /// Takes the value that was handed over; `None` means a mere notification to attempt again,
    /// which its caller does before anything else.
    ///
    /// # Safety
    /// The slot was registered, and the trigger was taken through the `arm`-th arm of this source.
    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<Self::Output>;

    /// Gives the value to the next waiter, since its own has gone: as after a withdrawal in time.
    ///
    /// # Safety
    /// As for `commit`.
    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize);
}

/// The steps after a retreat: leaves all queues, looks again, and registers in the order of the
/// addresses, until there is a value, or everything is registered, or the waiter was claimed.
/// `pause` is called before each look but the first, while nothing is registered.
///
/// # Safety
/// As for [`Source::start`]; which, or a registration of the prepared slot, has answered `retreat`.
/// `waiter` is the fiber or task behind the trigger.
#[cold]
#[inline(never)]
pub(crate) unsafe fn retreated<S: Source, E>(
    source: &mut S,
    slot: &mut S::Slot,
    trigger: &Trigger,
    waiter: *mut Fiber,
    mut retreat: Retreat,
    mut pause: impl FnMut() -> Result<(), E>,
) -> Result<Option<S::Output>, E> {
    let mut is_first = true;
    while retreat.is_withdrawn() {
        // SAFETY: the trigger was withdrawn, so not taken; when all arms have left, nobody else
        // knows that trigger.
        unsafe { source.withdraw(slot) };
        // SAFETY: as above; the caller is the waiter, and goes on waiting or withdraws.
        unsafe { trigger.rearm(waiter) };
        if !std::mem::take(&mut is_first) {
            pause()?;
        }
        if let Some(output) = source.attempt() {
            return Ok(Some(output));
        }
        // This look may have found another source than the one before (a guard's).
        *slot = S::Slot::default();
        // SAFETY: the slot was just made; the waiter runs this, with its trigger.
        unsafe {
            source.prepare(slot);
            trigger.expose();
        }
        // SAFETY: as the caller promises; the slot is prepared.
        match unsafe { register_in_order(source, slot, trigger) } {
            Ok(()) => break,
            Err(again) => retreat = again,
        }
    }
    Ok(None)
}

/// Registers every arm, in the order of the addresses.
///
/// # Safety
/// As for [`Source::register`].
unsafe fn register_in_order<S: Source>(source: &mut S, slot: &mut S::Slot, trigger: &Trigger) -> Result<(), Retreat> {
    let mut least = Some(0);
    while let Some(address) = least.and_then(|least| source.address(least)) {
        // SAFETY: as the caller promises; each arm has one address.
        unsafe { source.register_at(address, slot, trigger, 0)? };
        least = address.checked_add(1);
    }
    Ok(())
}

/// Runs `f`, in which the calling fiber can't wait: its waits are refused, as if they were
/// cancelled, with a reason.
///
/// For the steps of a [`Source`] that may run foreign code, a closure of the user's or a waker,
/// while an arm is registered: the claimer of that arm resumes the fiber, and would end whatever
/// wait the fiber is in. On a plain thread each wait has a header of its own, and so its own
/// resume.
///
/// The wait is an operation: no effect and no generator captures a computation across a wait.
pub fn registered<R>(waits_for: WaitsFor, f: impl FnOnce() -> R) -> R {
    barrier(waits_for, || {
        // SAFETY: the current header is in place, while nothing is captured across this.
        let running = unsafe { current::current().as_ref() };
        let waits_on = WaitsOn::from(waits_for);
        let before = running.map_or(ptr::null(), |fiber| fiber.waits_on.replace(&raw const waits_on));
        let _restore = at_end(|| _ = running.map(|fiber| fiber.waits_on.replace(before)));
        f()
    })
}

/// Waits for a source: suspends the calling fiber, or parks the calling thread, until the source is
/// ready.
///
/// # Cancellation
/// *Loses its place in the queue* and has no other effect. A fiber that is panicking is not
/// suspended: without a value its wait ends like a cancelled one.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled, before or during the call.
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
#[inline(always)] // The switch is to be in the frame of what waits: `primitives/switch`.
pub fn wait<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    admit()?;
    // Its steps may call foreign code, with the fiber borrowed and a slot registered. Mostly
    // nothing is around, and the wait is inlined.
    if chain::top().is_null() { wait_for(source) } else { wait_behind(source) }
}

#[cold]
#[inline(never)]
fn wait_behind<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    barrier(source.waits_for(), || wait_for(source))
}

#[inline(always)]
fn wait_for<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    // Not in a closure, which would be a function of its own.
    // SAFETY: null, or the header of the fiber that runs this (clauses 3 and 4).
    match unsafe { current::current().as_ref() } {
        Some(fiber) => wait_as(fiber, source),
        None => wait_on_thread(source),
    }
}

#[cold]
#[inline(never)]
fn wait_on_thread<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    here::on_current(|fiber| wait_as(fiber, source))
}

/// The parts of a wait that others reach lie together, in one line if the slot's value is a word:
/// the server of the wait, on this thread or another, touches little else of the frame (decision
/// 107).
#[repr(C, align(32))]
struct Registration<S> {
    trigger: Trigger,
    slot: S,
}

#[inline(always)]
fn wait_as<S: Source>(fiber: &Fiber, source: &mut S) -> Result<S::Output, Cancelled> {
    if fiber.must_not_suspend() {
        return source.attempt().ok_or_else(|| fiber.refused());
    }
    loop {
        // SAFETY: it may suspend, and either finishes this wait or withdraws, as the arms below do.
        let trigger = unsafe { Trigger::waiting(fiber) };
        let mut registration = Registration { trigger, slot: S::Slot::default() };
        let Registration { trigger, slot } = &mut registration;
        // SAFETY: slot and trigger are in this frame, which does not end before one of `withdraw`
        // and `commit` was called, as the outcome says, or nothing was registered. Nothing unwinds
        // between. The trigger waits with this fiber, the calling one.
        unsafe {
            let begun = match source.start(slot, trigger, 0) {
                Ok(begun) => begun,
                Err(retreat) => {
                    let waiter = ptr::from_ref(fiber).cast_mut();
                    retreated(source, slot, trigger, waiter, retreat, here::yield_now)?
                }
            };
            if let Some(output) = begun {
                return Ok(output);
            }
            let waits_on = WaitsOn { waits_for: source.waits_for(), object: source.object() };
            match trigger.finish(fiber, waits_on) {
                Outcome::Cancelled => {
                    source.withdraw(slot);
                    return Err(fiber.cancelled());
                }
                Outcome::Taken(arm) => {
                    if let Some(output) = source.commit(slot, arm) {
                        return Ok(output);
                    }
                }
            }
        }
    }
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
        Some(_) => wait(&mut Or::biased(source, Deadline::at(deadline))),
    };
    match either {
        Ok(Either::Left(output)) => Ok(output),
        Ok(Either::Right(())) => Err(Ended::TimedOut),
        Err(cancelled) => Err(Ended::Cancelled(cancelled)),
    }
}

/// A source in the hands of a user: to be waited for in any of the ways.
///
/// * [`wait`](Waitable::wait) in a fiber or a thread;
/// * `.await` in a task of any async runtime: the future is `Send` where the values are, allocates
///   nothing of its own, and may be dropped at any instant: its value goes to the next waiter;
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
pub struct Waitable<S>(pub(super) S);

impl<S: Source> Waitable<S> {
    /// A `source` in the hands of a user.
    #[inline]
    pub fn new(source: S) -> Self {
        Self(source)
    }

    /// Takes the value if there is one. Never waits; the closure of a [`map`](Waitable::map), or
    /// the initialiser of a cell, which then runs, may.
    ///
    /// This call is no [preemption point](crate::preemption_point): the `try_x` of a structure has
    /// one in front.
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
    #[inline(always)] // As the function `wait`.
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

    /// This source or `other`: the first that is ready; of two ready ones a random one, so that
    /// none starves. The one that is not chosen has no effect. The losing source goes with its
    /// value, of a put for instance, or with its handle, of a join, unless the choice was [by
    /// reference](Self::by_ref).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, in both; nothing was handed over.
    pub fn or<O: Source>(self, other: O) -> Waitable<Or<S, O>> {
        Waitable(Or::new(self.0, other))
    }

    /// As [`or`](Waitable::or), but this one is taken if both are ready.
    ///
    /// # Cancellation
    /// As for [`or`](Waitable::or).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after};
    /// use std::time::Duration;
    ///
    /// let both_ready = after(Duration::ZERO).or_else(after(Duration::ZERO));
    /// assert_eq!(both_ready.wait(), Ok(Either::Left(())));
    /// ```
    pub fn or_else<O: Source>(self, other: O) -> Waitable<Or<S, O>> {
        Waitable(Or::biased(self.0, other))
    }

    /// The same source, lent: its value is still there when another arm was chosen, or the wait was
    /// cancelled or dropped, and the source may be waited for again.
    ///
    /// A source that has yielded and has nothing more to give, a join or a future, is not ready any
    /// more; a send that has sent is ready each time.
    ///
    /// # Cancellation
    /// That of the operation itself, which keeps its value.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after, spawn};
    /// use std::time::Duration;
    ///
    /// let mut end = spawn(|| 6 * 7).join_source();
    /// while let Either::Right(()) = end.by_ref().or(after(Duration::from_millis(1))).wait()? {
    ///     println!("still at work");
    /// }
    /// # Ok::<(), segue_core::Cancelled>(())
    /// ```
    pub fn by_ref(&mut self) -> Waitable<&mut S> {
        Waitable(&mut self.0)
    }

    /// The same source, in a box: of a type that tells nothing but its output, so that several
    /// different ones can be kept in one list. A wait allocates a second box, at its registration.
    ///
    /// # Cancellation
    /// That of the operation itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{BoxSource, Waitable, after, spawn};
    /// use std::time::Duration;
    ///
    /// let list: Vec<Waitable<BoxSource<'_, u32>>> = vec![
    ///     after(Duration::ZERO).map(|()| 1).boxed(),
    ///     spawn(|| 2).join_source().map(|joined| joined.unwrap()).boxed(),
    /// ];
    /// assert_eq!(list.into_iter().map(|source| source.wait().unwrap()).sum::<u32>(), 3);
    /// ```
    pub fn boxed<'a>(self) -> Waitable<BoxSource<'a, S::Output>>
    where
        S: Send + 'a,
    {
        Waitable(Box::new(Erased::new(self.0)))
    }

    /// As [`boxed`](Waitable::boxed), for a source that stays on its thread.
    ///
    /// # Cancellation
    /// That of the operation itself.
    pub fn boxed_local<'a>(self) -> Waitable<LocalBoxSource<'a, S::Output>>
    where
        S: 'a,
    {
        Waitable(Box::new(Erased::new(self.0)))
    }

    /// Yields the result of `then` on the output. The closure runs after the operation has taken
    /// effect, outside of every lock.
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
