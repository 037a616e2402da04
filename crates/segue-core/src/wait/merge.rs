//! Several sources that are waited for over and over, and stay registered between the waits.
//!
//! Used by loops over receivers of their own, where a choice ([`any_of`](crate::any_of)) would
//! register and withdraw all of its arms for each message.
//!
//! # The idea
//!
//! Each arm is a waiter of its own: a header with the scheduler of this file, a trigger and a slot,
//! in a box. To the structures an arm is a task that awaits the source. A resume puts the arm's
//! index into a list, in which the owner of the merge waits as in any queue. So an arm costs
//! something only at its service: the owner commits the arm, and registers the arm again at the
//! next call. The others stand in their queues all the while.
//!
//! # States of an arm
//!
//! ```text
//!   due --look: the value is there--------------> due, behind the others (yields)
//!   due --look: registers-----------------------> waiting
//!   due --look: retreats twice------------------> due, and so does the owner's wait
//!   waiting --claimed, then resumed: listed-----> served
//!   served --look: commit-----------------------> due, behind the others (yields); or a look, if it was only told
//!   waiting --the arm goes before the claim-----> withdraw
//!   waiting --the arm goes after it-------------> awaits the resume, gives back
//! ```
//!
//! `due` and `served` arms stand in one row, which belongs to the owner alone; each look puts the
//! arms that were listed since behind them. So each arm that is ready has its turn before any has a
//! second one.
//!
//! An arm that is removed leaves its place in the row, since a search would take a step for each
//! due arm, and arms that end together are all due. Places and arms have numbers that are never
//! used again, so such a place is *stale*, with any arm at the index then, and is passed over at
//! its turn. When more are stale than there are arms, the row is swept: so that takes a few steps
//! for each arm that was removed.
//!
//! **Commit point**: the claim of the arm's trigger: a value is handed to the arm whether or not
//! anybody waits for the merge. **Idle**: each arm is due, or registered, or listed.
//! **Cancellation** of a wait concerns the list alone; the value of an arm stays there.
//!
//! **The race to fear**: the resume of an arm, on another thread, against the end of the merge. The
//! resumer lists the arm and sets `resumed` under the lock of the list, and the release of that
//! lock is its last touch of arm and list. The owner goes on only after seeing that under the same
//! lock, or after seeing the place, which left the list under that lock.
//!
//! **Orderings**: the lock's. The hint that the list is not empty carries nothing: the hint is
//! written under the lock, and a caller that is about to wait looks under that lock.
#![allow(unsafe_code)] // Arms are reached by address while they wait.

use crate::chain::barrier;
use crate::contract::fiber::{Fiber, Wake};
use crate::contract::trigger::{Outcome, Trigger};
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{self, AtomicBool, Ordering};
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::waits_for::WaitsFor;
use crate::sim::preemption::preemption_point;
use crate::tree::cancelled::Cancelled;
use crate::wait::holders::{slot_of, steps_of};
use crate::wait::queue::{Guard, Node, Operation, Unlocked, WaitQueue, Waiting};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable, retreated};
use crate::wait::stand_in::{StandIn, StandIns};
use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomPinned;
use std::mem;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The scheduler of arms: a resume puts them into their list.
static ARMS: StandIns<Arms> = StandIns::new();

struct Arms;

/// Where the owner of a merge waits for its arms.
struct Served {
    /// The places of the arms that were resumed, each once. There is room for all of them.
    list: WaitQueue<Vec<Place>>,
    /// Whether there may be some.
    any: AtomicBool,
}

/// A place in the row: the arm with this index, if its number is still the same.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    number: u64,
}

/// The part that resumers of an arm reach.
struct Host {
    fiber: Fiber,
    trigger: Trigger,
    place: Place,
    served: Arc<Served>,
    /// Under the lock of the list.
    resumed: Cell<bool>,
}

struct Arm<S: Source> {
    /// `None` after the removal.
    source: Option<S>,
    slot: S::Slot,
    host: Host,
    /// Whether the trigger waits, or was taken and not committed.
    is_registered: bool,
    /// Others reach host and slot while the owner has a `&mut` to the arm.
    _shared: PhantomPinned,
}

/// The result of a look at an arm.
enum Look<T> {
    Yields(T),
    Waits,
    /// The arm retreats again and again, or gives up each time.
    GaveUp,
}

impl<S: Source> Arm<S> {
    fn new(source: S, place: Place, served: &Arc<Served>) -> Pin<Box<Self>> {
        // SAFETY: there is no context.
        let fiber = unsafe { ARMS.header(ptr::null()) };
        let (trigger, served, resumed) = (Trigger::new(), Arc::clone(served), Cell::new(false));
        let host = Host { fiber, trigger, place, served, resumed };
        let slot = S::Slot::default();
        let arm = Self { source: Some(source), slot, host, is_registered: false, _shared: PhantomPinned };
        let arm = Box::pin(arm);
        // SAFETY: this is its scheduler, and the header has not waited yet. The host stays in
        // place.
        unsafe { arm.host.fiber.set_host(ptr::from_ref(&arm.host).cast()) };
        arm
    }

    /// Takes the arm's value, by its service or a look; else registers. The arm is due, or was
    /// listed.
    fn look(self: Pin<&mut Self>) -> Look<S::Output> {
        // SAFETY: nothing is moved out of the arm.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(source) = &mut this.source else { unreachable!("it was not taken out") };
        if this.is_registered {
            let Some(Outcome::Taken(arm)) = this.host.trigger.outcome() else { unreachable!("a claim resumes it") };
            // Not before that: an arm that is registered must not end without leaving.
            this.is_registered = false;
            // SAFETY: the source was registered, and taken through that arm; the claimer is done
            // with host and slot since listing the arm.
            if let Some(output) = unsafe { source.commit(&mut this.slot, arm) } {
                return Look::Yields(output);
            }
        }
        this.slot = S::Slot::default();
        let host = &this.host;
        host.resumed.set(false);
        let waiter = ptr::from_ref(&host.fiber).cast_mut();
        // SAFETY: nothing is registered, so nobody knows the trigger. The host stays in place until
        // the resume, or the withdrawal at the end of the arm.
        unsafe { host.trigger.rearm(waiter) };
        // SAFETY: slot and trigger are pinned, the slot is new. `commit` follows the resume, or
        // `withdraw` or `give_back` the end of the arm.
        let begun = unsafe {
            match source.start(&mut this.slot, &host.trigger, 0) {
                Ok(begun) => Ok(begun),
                Err(retreat) => retreated(source, &mut this.slot, &host.trigger, waiter, retreat, || Err(())),
            }
        };
        match begun {
            Ok(Some(output)) => Look::Yields(output),
            Ok(None) => {
                this.is_registered = true;
                Look::Waits
            }
            Err(()) => Look::GaveUp,
        }
    }

    /// Ends the registration, if there is one. If that was in time, the arm is listed nowhere: then
    /// `has_place` is false, also if this unwinds.
    fn leave(&mut self, has_place: &Cell<bool>) {
        let (true, Some(source)) = (mem::take(&mut self.is_registered), &mut self.source) else { return };
        barrier(source.waits_for(), || {
            if self.host.trigger.withdraw().is_some() {
                has_place.set(false);
                // SAFETY: the source is registered, and was not taken.
                unsafe { source.withdraw(&mut self.slot) };
                return;
            }
            self.host.await_resume();
            let Some(Outcome::Taken(arm)) = self.host.trigger.outcome() else { unreachable!("nobody else withdraws") };
            // SAFETY: the source was registered, and taken through that arm.
            unsafe { source.give_back(&mut self.slot, arm) };
        });
    }

    /// The source, which is registered no more. As [`leave`](Arm::leave).
    fn into_source(mut self: Pin<Box<Self>>, has_place: &Cell<bool>) -> Option<S> {
        // SAFETY: only the source is moved, which is not pinned.
        let this = unsafe { self.as_mut().get_unchecked_mut() };
        this.leave(has_place);
        this.source.take()
    }
}

impl Host {
    /// Waits until the resumer is done with the arm.
    fn await_resume(&self) {
        loop {
            let list = self.served.list.lock();
            if self.resumed.get() {
                return;
            }
            drop(list);
            atomic::yield_now();
        }
    }
}

impl<S: Source> Drop for Arm<S> {
    fn drop(&mut self) {
        self.leave(&Cell::new(true));
    }
}

// SAFETY: an arm does not run, so the header is never current. The arm stays until its owner has
// seen the resume's entry, under the lock of the list; the release of that lock is the last touch
// of arm and list. Waiters that this serves are resumed afterwards, and do not unwind.
unsafe impl StandIn for Arms {
    #[inline]
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Resume, "arms are in no context");
        // SAFETY: `Arm::new` has set the host, and the host is in place until the resume is seen.
        let host = unsafe { &*fiber.as_ref().host().cast::<Host>() };
        let mut list = host.served.list.lock();
        list.state().push(host.place);
        host.served.any.store(true, Ordering::Relaxed);
        host.resumed.set(true);
        // All, though one at most waits: a forgotten future may stand in front. In one hold of the
        // lock: afterwards the list may be gone.
        while list.notify_one(0) {}
    }
}

/// A merge that has no arm any more keeps memory for so many at most.
const KEPT: usize = 64;

/// Sources that are waited for over and over, and stay registered between the waits. Made by
/// [`merge`].
///
/// A wait costs as much as one for a single source, however many arms there are: only the arm that
/// has yielded registers again, at the next call. A choice by [`any_of`](crate::any_of) registers
/// and withdraws all of them each time.
///
/// The price is that a value is handed to an arm *before anybody asks*, as soon as the arm has been
/// looked at once, and waits there for its turn. So a merge is right for receivers of one's own, of
/// a channel, a broadcast, a watched value. Where others take from the same structure, they would
/// rather have had that value; and a lock or a permit would be held by an arm. Choose there. At a
/// rendezvous the arm meets the sender.
///
/// A source has to be one that can be waited for again after an output: `recv_source()` and
/// `changed_source()` are. [`guard`](crate::guard) makes such a source of a closure, which is
/// called for each round. A source that yields once alone, the end of a fiber for instance, is to
/// be [removed](Merge::remove) then. So is a receiver of a closed channel, which yields that again
/// and again.
///
/// # Order
/// Each arm's outputs come in its source's order. Of the arms that are ready each has its turn
/// before any has a second one.
///
/// # Cancellation
/// A cancelled wait, or a dropped future of one, has *no effect*: the value of an arm stays there
/// and comes with the next call. A merge that is dropped gives back the values of its arms, each to
/// its structure, as dropped futures do.
///
/// # Examples
///
/// ```
/// use segue_core::{WaitQueue, WaitsFor, merge};
///
/// let queues: [WaitQueue<Vec<u32>, u32>; 3] = Default::default();
/// let mut numbers = merge(queues.iter().map(|queue| {
///     queue.source(WaitsFor::new("a number"), |all| !all.is_empty(), |all| all.remove(0))
/// }));
/// assert!(numbers.try_next().is_none());
/// for (index, queue) in queues.iter().enumerate() {
///     let mut queue = queue.lock();
///     queue.state().push(index as u32 * 10);
///     queue.notify_one(0);
/// }
/// for _ in 0..3 {
///     let (index, number) = numbers.next()?;
///     assert_eq!(number, index as u32 * 10);
/// }
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
pub struct Merge<S: Source> {
    arms: Vec<Option<Pin<Box<Arm<S>>>>>,
    /// The indices of those that were removed.
    free: Vec<usize>,
    /// How many arms there have been.
    numbers: u64,
    /// Those that are due, and those that were listed, in the order of their turns.
    row: VecDeque<Place>,
    /// How many of these have no arm.
    stale: usize,
    served: Arc<Served>,
}

// SAFETY: a source that is `Send` may go to another thread together with its slot, as `Source`
// says; the value is made on the thread that looks. The part of an arm that others reach is made
// for any thread.
unsafe impl<S: Source + Send> Send for Merge<S> where S::Output: Send {}

/// Waits for any of these sources over and over: they stay registered between the waits. The index
/// of an arm is its place in the list.
///
/// # Cancellation
/// As for [`Merge`].
///
/// # Examples
///
/// ```
/// use segue_core::{after, merge};
/// use std::time::Duration;
///
/// let mut ends = merge([after(Duration::from_millis(1)), after(Duration::MAX)]);
/// assert_eq!(ends.next(), Ok((0, ())));
/// ends.remove(0);
/// assert_eq!(ends.try_next(), None);
/// ```
pub fn merge<S: Source>(list: impl IntoIterator<Item = S>) -> Merge<S> {
    let mut merge = Merge::new();
    list.into_iter().for_each(|source| _ = merge.push(source));
    merge
}

impl<S: Source> Merge<S> {
    /// One without arms: never ready.
    #[must_use]
    pub fn new() -> Self {
        let served = Served { list: WaitQueue::new(Vec::new()), any: AtomicBool::new(false) };
        let served = Arc::new(served);
        Self { arms: Vec::new(), free: Vec::new(), numbers: 0, row: VecDeque::new(), stale: 0, served }
    }

    /// Adds an arm. Answers its index, which is that of an arm that was removed, or a new one.
    /// The source is looked at by the next call that waits or tries.
    pub fn push(&mut self, source: S) -> usize {
        let index = self.free.pop().unwrap_or(self.arms.len());
        if index == self.arms.len() {
            self.arms.push(None);
            let mut list = self.served.list.lock();
            let room = self.arms.len() - list.state().len();
            list.state().reserve(room);
        }
        let place = Place { index, number: self.numbers };
        self.numbers += 1;
        self.arms[index] = Some(Arm::new(source, place, &self.served));
        self.row.push_back(place);
        index
    }

    /// Takes an arm out, and gives back its source; `None` if there is none of this index. A value
    /// that the arm was handed and has not yielded goes back to its structure. A removal takes a
    /// few steps, for any number of arms.
    pub fn remove(&mut self, index: usize) -> Option<S> {
        preemption_point();
        let arm = self.arms.get_mut(index)?.take()?;
        // One that is due or was served has a place, and all others register.
        let has_place = Cell::new(true);
        // Also if the way back unwinds, a value for instance that nobody takes and that panics in
        // its drop.
        let _leaves = at_end(|| {
            self.free.push(index);
            if has_place.get() {
                // The list has room for arms, and none for stale places.
                self.collect();
                self.stale += 1;
            }
            // Also without a place of its own: a look at no arms comes upon none.
            if self.stale > self.len() {
                self.sweep();
            }
            if self.is_empty() && self.arms.len() > KEPT {
                self.give_back();
            }
        });
        arm.into_source(&has_place)
    }

    /// The arm of this place, unless removed.
    fn arm_at(arms: &mut [Option<Pin<Box<Arm<S>>>>], place: Place) -> Option<Pin<&mut Arm<S>>> {
        arms.get_mut(place.index)?.as_mut().map(Pin::as_mut).filter(|arm| arm.host.place.number == place.number)
    }

    /// Takes stale places out.
    fn sweep(&mut self) {
        let arms = &mut self.arms;
        self.row.retain(|place| Self::arm_at(arms, *place).is_some());
        self.stale = 0;
    }

    /// Gives back the memory for the arms, all of which have gone.
    fn give_back(&mut self) {
        (self.arms, self.free, self.row) = (Vec::new(), Vec::new(), VecDeque::new());
        let list = mem::take(self.served.list.lock().state());
        // After the lock.
        drop(list);
    }

    /// How many arms there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.arms.len() - self.free.len()
    }

    /// Whether there is no arm.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until an arm is ready, and yields its index and its output.
    ///
    /// # Cancellation
    /// *No effect*: the value of an arm comes with the next call.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[allow(clippy::should_implement_trait)] // It fails where an iterator would end.
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn next(&mut self) -> Result<(usize, S::Output), Cancelled> {
        self.next_source().wait()
    }

    /// The value of an arm that is ready. Never waits.
    #[track_caller]
    pub fn try_next(&mut self) -> Option<(usize, S::Output)> {
        preemption_point();
        self.next_source().attempt()
    }

    /// [`next`](Merge::next) as a source: to be awaited, or chosen among others. A lost choice has
    /// no effect.
    ///
    /// # Cancellation
    /// As for [`next`](Merge::next), also if the future is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{CancelToken, Either, after, merge};
    /// use std::time::Duration;
    ///
    /// let (end, mut never) = (CancelToken::new(), merge([after(Duration::MAX)]));
    /// end.cancel();
    /// assert!(matches!(end.cancelled_source().or(never.next_source()).wait(), Ok(Either::Left(_))));
    /// ```
    #[track_caller]
    #[inline]
    pub fn next_source(&mut self) -> Waitable<impl Source<Output = (usize, S::Output)>> {
        Waitable::new(Next { merge: self, waits_for: WaitsFor::new("one of several that were merged") })
    }

    /// Looks at each arm in turn, at most at as many as there are.
    fn look(&mut self) -> Option<(usize, S::Output)> {
        let mut turns = self.len();
        while turns > 0 {
            if self.served.any.load(Ordering::Relaxed) {
                self.collect();
            }
            let place = self.row.pop_front()?;
            let Some(arm) = Self::arm_at(&mut self.arms, place) else {
                self.stale -= 1;
                continue;
            };
            // Also if the look unwinds.
            self.row.push_back(place);
            turns -= 1;
            match arm.look() {
                Look::Yields(output) => return Some((place.index, output)),
                Look::Waits => _ = self.row.pop_back(),
                Look::GaveUp => {}
            }
        }
        None
    }

    /// Puts those that were listed behind the others.
    fn collect(&mut self) {
        let mut list = self.served.list.lock();
        self.served.any.store(false, Ordering::Relaxed);
        self.row.extend(list.state().drain(..));
    }
}

impl<S: Source> Default for Merge<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl_debug!([S: Source] Merge<S>, |it| arms: it.len());

/// Waits until an arm is listed. The look at the arms themselves comes afterwards, without the
/// lock.
struct Listed {
    /// Whether the row is not empty: an arm has given up.
    is_due: bool,
}

impl Operation<Vec<Place>, ()> for Listed {
    type Output = ();

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<()> {
        Unlocked::Done(())
    }

    fn attempt(&mut self, _: &mut Guard<'_, Vec<Place>, ()>) -> Option<()> {
        Some(())
    }

    #[inline]
    fn is_ready(&mut self, list: &mut Guard<'_, Vec<Place>, ()>) -> bool {
        self.is_due || !list.peek().is_empty()
    }

    #[inline]
    fn commit(&mut self, _: Option<()>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, slot: Option<()>, _: &mut Guard<'_, Vec<Place>, ()>) -> Option<()> {
        // All that wait were told.
        slot
    }
}

/// The source of [`Merge::next_source`].
struct Next<'a, S: Source> {
    merge: &'a mut Merge<S>,
    waits_for: WaitsFor,
}

impl<S: Source> Next<'_, S> {
    #[inline]
    fn listed(&self) -> Waiting<'_, Listed, Vec<Place>, ()> {
        let is_due = !self.merge.row.is_empty();
        self.merge.served.list.operation(self.waits_for, Listed { is_due })
    }

    #[inline]
    fn look(&mut self) -> Option<(usize, S::Output)> {
        barrier(self.waits_for, || self.merge.look())
    }
}

// SAFETY: every step is that of the source of the list, which has no state but the row's, and that
// only changes while nothing is registered (R1, R2, R5, R6, R10 to R12, R16). Arms are looked at by
// an attempt and by a commit, when this source is registered nowhere and no lock is held (R7, R8,
// R13); their code may wait and may unwind, since the arms' own registrations are not the caller's.
// An arm that was listed after the look in vain, or has given up in it, makes `register` retreat
// (R4). The source goes to another thread if the merge may.
unsafe impl<S: Source> Source for Next<'_, S> {
    type Output = (usize, S::Output);
    type Slot = Node<()>;

    steps_of!(self => self.listed(), slot => slot, |()| self.look());
    slot_of!(self => self.listed());
}

#[cfg(all(test, not(loom)))]
#[path = "../../tests/units/merge.rs"]
mod tests;
