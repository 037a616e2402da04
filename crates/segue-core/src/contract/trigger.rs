//! The single-use token that joins one wait with one signal.
//!
//! Used by the wait queue, by timers, drivers and scopes: by everything that suspends.
//!
//! # The idea
//!
//! A wait and its end meet in one atomic word. The side that moves the word to one of its two final
//! states decides the outcome; every other side learns from its failed exchange that it came too
//! late. This is the thesis' resumer that answers `bool` (section 3.2), with the answer and the
//! waiter's view tied to the same exchange.
//!
//! # States
//!
//! ```text
//!            claim(arm)                       claim(arm)
//!   INITIAL ------------> TAKEN(arm)   <----------------- WAITING(fiber)  <--- born so, if the waiter makes it
//!      |  \-----------------|--------------------------------^   |
//!      |          wait: the waiter writes its own address        |
//!      |                    | refuse: the claimer                |
//!      |                    v                                    |
//!      +-------> CANCELLED <-------------------------------------+
//!        withdraw, by the waiter's own thread; or cancel
//! ```
//!
//! In files of their own: a claim that finds its waiter cancelled (`refusal.rs`), a word that has a
//! link to another trigger in place of a fiber (`forward.rs`), and a waiter that withdraws while it
//! registers (`retreat.rs`). In the room `wait` above: the waits of users (`wait/trigger.rs`), which
//! also look for cancellation and serve plain threads; and the *bell* behind a waker, which takes
//! other transitions (`wait/bell.rs`).
//!
//! | transition | made by |
//! | --- | --- |
//! | INITIAL to WAITING | the waiter, when it is about to suspend; for a trigger that was made before its waiter was known |
//! | INITIAL or WAITING to TAKEN | any thread that may reach the trigger |
//! | INITIAL or WAITING to CANCELLED | the thread that the waiter runs on; any thread that may reach the trigger, which then resumes the waiter |
//! | TAKEN to CANCELLED | the claimer that found WAITING, if the waiter's context is cancelled; it then resumes the waiter |
//!
//! **Commit point**: the exchange to TAKEN, if the claimer then finds the waiter's context open.
//! **Idle**: INITIAL, and only the owner knows the trigger. **Cancellation**: a canceller never
//! touches a trigger. It marks the context and asks the scheduler to *interrupt* the fiber; the
//! fiber's own thread then tries the exchange to CANCELLED. So a trigger lives in its waiter's
//! frame, and no canceller can reach a frame that is gone.
//!
//! **The race to fear**: a signaller that touches the trigger after the waiter has left. It cannot:
//! a waiter that was seen WAITING leaves only after it has been resumed, which is the last thing
//! that the signaller does, and it does so through the fiber's address and not through the trigger.
//! A waiter that was interrupted does not look at the trigger again either, since the other side
//! may have freed it between the cancellation and the waiter's next step. A waiter that finds
//! itself taken before it has suspended suspends all the same, and consumes the resume that is owed
//! to it. A trigger without a waiter, claimed while INITIAL, is not looked at again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `claim`'s exchange | the waiter's load after it was resumed, or its failed exchange in `wait` | what was handed over before the claim |
//! | `wait`'s exchange to WAITING, or what makes a trigger known that is born so | `claim`'s exchange | the fiber's header, which the claimer and the resume read |
//! | the canceller's store of the flag | the claimer's load of it | the reason |
//! | the claimer's resume | the waiter's return from `suspend` | that it was refused |
//! | the exchange to TAKEN or CANCELLED | the side that finds that it has lost | the other side's last use of what the trigger is part of, which the loser may free |
#![allow(unsafe_code)] // The word holds the address of a fiber.

use crate::contract::fiber::{Fiber, WaitsFor};
use crate::contract::refusal::REFUSED;
use crate::contract::wakeup::Wakeup;
use crate::primitives::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};

/// Single-use token that joins one wait with one signal.
///
/// One side calls [`wait`](Trigger::wait), once; any number of threads may call
/// [`signal`](Trigger::signal), and at most one is told `true`. The two answers agree: `signal`
/// says `true` if and only if the wait ends in [`Outcome::Taken`].
///
/// # Examples
///
/// ```
/// use segue_core::{Outcome, Trigger, WaitsFor};
///
/// let trigger = Trigger::new();
/// std::thread::scope(|s| {
///     s.spawn(|| assert!(trigger.signal(0)));
///     assert_eq!(trigger.wait(WaitsFor::new("an example")), Outcome::Taken(0));
/// });
/// assert!(!trigger.signal(0), "a trigger is used once");
/// ```
pub struct Trigger {
    pub(crate) word: AtomicPtr<Fiber>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It was signalled, through this arm.
    Taken(usize),
    /// It was cancelled, and no signal will be accepted any more.
    Cancelled,
}

const CANCELLED: usize = 1;
pub(crate) const TAKEN: usize = 3;

/// The largest arm that a trigger can carry.
pub const MAX_ARM: usize = 1 << 16;

#[inline]
pub(crate) fn word(value: usize) -> *mut Fiber {
    ptr::without_provenance_mut(value)
}

/// Whether a word is the address of a fiber, or null: final ones are odd.
#[inline]
fn is_open(word: *mut Fiber) -> bool {
    word.addr() & 1 == 0 && !is_link(word)
}

/// What a final word means; `None` for INITIAL and WAITING.
#[inline]
pub(crate) fn decode(word: *mut Fiber) -> Option<Outcome> {
    match word.addr() {
        CANCELLED => Some(Outcome::Cancelled),
        taken if taken & 1 == 1 => Some(Outcome::Taken((taken - TAKEN) / 2)),
        _ => None,
    }
}

/// What a word means that was not INITIAL when its waiter came.
#[inline]
fn outcome_of_another(word: *mut Fiber) -> Outcome {
    decode(word).expect("a Trigger has one waiter, and this one has another already")
}

impl Trigger {
    /// A trigger that nobody has signalled and nobody waits on.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { word: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A trigger that waits with `fiber`, the running one, from now on: [`sleep`](Trigger::sleep)
    /// must follow, unless it is cancelled. It saves the exchange that binds a trigger to its
    /// waiter. The fiber must be one that may suspend: a claim owes it a resume. It is
    /// [exposed](Trigger::expose) before anybody else knows the trigger.
    #[inline]
    pub(crate) fn waiting(fiber: &Fiber) -> Self {
        Self { word: AtomicPtr::new(ptr::from_ref(fiber).cast_mut()) }
    }

    /// Binds the trigger to its waiter, the calling fiber, which may suspend: a claim owes it a
    /// resume from now on, and [`sleep`](Trigger::sleep) must follow.
    ///
    /// # Errors
    /// The outcome, if there is one already.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    pub(crate) fn bind(&self, fiber: &Fiber) -> Result<(), Outcome> {
        let me = ptr::from_ref(fiber).cast_mut();
        fiber.expose();
        match self.word.compare_exchange(ptr::null_mut(), me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(word) => Err(outcome_of_another(word)),
        }
    }

    /// Suspends the calling fiber, which the trigger is bound to, until it is claimed or the fiber
    /// has withdrawn. `is_to_suspend` is asked when the fiber has said what it waits for; `false`
    /// means that the fiber has withdrawn meanwhile.
    #[inline(always)] // A fiber that goes on returns from one call less, which is predicted wrongly.
    pub(crate) fn sleep(&self, fiber: &Fiber, waits_for: WaitsFor, is_to_suspend: impl FnOnce() -> bool) -> Outcome {
        fiber.begin_wait(self, waits_for);
        if is_to_suspend() {
            // SAFETY: the trigger was WAITING with this fiber and was not cancelled by it, so
            // exactly one resume follows, or is under way: by its claimer, or by this thread when
            // an interrupt cancels it.
            unsafe { fiber.suspend() };
        }
        match fiber.end_wait() {
            WaitEnd::Resumed => self.outcome().expect("a scheduler resumed a fiber that nobody had resumed"),
            WaitEnd::Refused | WaitEnd::Withdrawn => Outcome::Cancelled,
        }
    }

    /// Ends the wait through `arm` and resumes the waiter. Answers whether it was this call that
    /// ended it.
    ///
    /// `false` means that the waiter did not take it and never will: it was signalled before, or
    /// cancelled. Never waits.
    ///
    /// # Panics
    /// If `arm` is over [`MAX_ARM`].
    #[inline]
    pub fn signal(&self, arm: usize) -> bool {
        self.claim(arm).is_ok()
    }

    /// The first half of [`signal`](Trigger::signal): decides, and leaves the resume to the caller.
    ///
    /// What the waiter is to find must be in place before the claim.
    ///
    /// # Errors
    /// If the waiter does not take it and never will: it was signalled before, or cancelled. A
    /// waiter that was cancelled while its own thread was busy goes on because of this call: so
    /// there is something to be dropped in that case as well, when the caller holds no lock.
    #[inline]
    pub fn claim(&self, arm: usize) -> Result<Wakeup, Wakeup> {
        assert!(arm <= MAX_ARM, "a select has at most {MAX_ARM} arms");
        let taken = word(TAKEN + 2 * arm);
        // Acquire also where it is lost: the loser may be the side that frees what the trigger is
        // part of.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            if decode(seen).is_some() {
                return Err(Wakeup(None));
            }
            match self.word.compare_exchange_weak(seen, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        if is_link(seen) {
            // SAFETY: it was claimed here.
            return Ok(unsafe { Link::pass_on(seen) });
        }
        // SAFETY: a fiber that was seen WAITING stays in its wait until the resume, which this call
        // owes it now.
        match unsafe { seen.as_ref() } {
            // SAFETY: as above, and whatever waits has exposed itself before.
            Some(fiber) if unsafe { fiber.is_wait_cancelled() } => Err(self.refuse(fiber)),
            _ => Ok(Wakeup(NonNull::new(seen))),
        }
    }

    /// Ends the wait as cancelled, and resumes the waiter. Answers whether nobody had signalled
    /// before. Never waits.
    #[must_use]
    pub fn cancel(&self) -> bool {
        match self.move_to_cancelled() {
            Some(waiter) => {
                // A link is that of a future which was forgotten while it waited.
                drop(Wakeup(NonNull::new(waiter).filter(|_| !is_link(waiter))));
                true
            }
            None => false,
        }
    }

    /// As [`cancel`](Trigger::cancel), by the waiter itself, which goes on by itself. Gives back
    /// what the trigger waited with, if it was this call that ended the wait.
    #[must_use]
    pub(crate) fn withdraw(&self) -> Option<*mut Fiber> {
        self.move_to_cancelled()
    }

    /// Ends the wait before it has begun, unless a signal has come by now.
    pub(crate) fn cancel_unless_awaited(&self) -> Outcome {
        match self.word.compare_exchange(ptr::null_mut(), word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Cancelled,
            Err(word) => outcome_of_another(word),
        }
    }

    /// Ends the wait of `fiber` for a trigger that is waited for
    /// [again](Trigger::wait_once_more): the word goes back to INITIAL. Answers whether nobody had
    /// signalled before.
    #[must_use]
    pub(crate) fn stand_down(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        self.word.compare_exchange(me, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives back the waiter, or null, if it was this call that ended the wait.
    fn move_to_cancelled(&self) -> Option<*mut Fiber> {
        // As in `claim`, a refusal acquires.
        let mut seen = self.word.load(Ordering::Acquire);
        while decode(seen).is_none() {
            match self.word.compare_exchange_weak(seen, word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(seen),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Says which context can cancel the wait of the waiter, which calls this, before any other
    /// thread can claim it. Does nothing if one has.
    #[inline]
    pub(crate) fn expose(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if is_open(seen) {
            // SAFETY: what it waits with is the caller, or stands for it.
            unsafe { seen.as_ref() }.inspect(|fiber| fiber.expose());
        }
    }

    /// The waiter, which the caller has claimed, was cancelled before.
    #[cold]
    fn refuse(&self, fiber: &Fiber) -> Wakeup {
        fiber.refuse();
        // For later looks of others. The waiter does not look any more.
        self.word.store(word(CANCELLED), Ordering::Release);
        Wakeup(Some(NonNull::from(fiber)))
    }

    /// Whether a claim would be refused.
    ///
    /// # Safety
    /// The waiter, if there is one, can't leave its wait before this returns.
    pub(crate) unsafe fn refuses(&self) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        // SAFETY: as the caller promises, if it is the address of a waiter.
        let is_cancelled = |fiber: *mut Fiber| unsafe { fiber.as_ref().is_some_and(|fiber| fiber.is_wait_cancelled()) };
        decode(seen).is_some() || (!is_link(seen) && is_cancelled(seen))
    }

    /// The outcome, if there is one already.
    ///
    /// If the waiter was cancelled and somebody signals at this moment, it may say that the signal
    /// was taken until that signaller has seen the cancellation.
    #[inline]
    pub fn outcome(&self) -> Option<Outcome> {
        decode(self.word.load(Ordering::Acquire))
    }
}

impl Default for Trigger {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Trigger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trigger").field("outcome", &self.outcome()).finish()
    }
}

/// In the address of a [`Link`], which stands where a fiber's would.
pub(crate) const LINKED: usize = 2;

/// Whether a word has a link in it.
#[inline]
pub(crate) fn is_link(word: *mut Fiber) -> bool {
    word.addr() & LINKED != 0
}

/// Where a trigger passes its signal on to.
pub struct Link {
    /// Null if it is not linked.
    pub(crate) to: Cell<*const Trigger>,
    pub(crate) arm: Cell<usize>,
    pub(crate) passed: AtomicBool,
    /// The claimer reaches a link while its waiter has a `&mut` to it.
    _shared: PhantomPinned,
}

impl Default for Link {
    fn default() -> Self {
        Self { to: Cell::new(ptr::null()), arm: Cell::new(0), passed: AtomicBool::new(false), _shared: PhantomPinned }
    }
}

impl Link {
    /// Claims the second trigger, after the first was. The wake-up is empty if somebody else has
    /// claimed it, and that of a waiter which goes on as cancelled if it was.
    ///
    /// # Safety
    /// `word`, which has a link in it, was that of a trigger that the caller has just claimed.
    unsafe fn pass_on(word: *mut Fiber) -> Wakeup {
        let link = word.map_addr(|address| address & !LINKED).cast::<Self>();
        let link = NonNull::new(link).expect("it is an address");
        // SAFETY: the waiter does not leave before `passed`, nor the second trigger's.
        unsafe {
            let wakeup = (*link.as_ref().to.get()).claim(link.as_ref().arm.get());
            link.as_ref().passed.store(true, Ordering::Release);
            // A waiter that was cancelled goes on as well.
            wakeup.unwrap_or_else(|refused| refused)
        }
    }
}

/// How a wait ended in which a fiber was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The claimer of the trigger has resumed it.
    Resumed,
    /// The claimer has resumed it as well, but found the wait cancelled.
    Refused,
    /// An interrupt has cancelled it. The trigger may be gone.
    Withdrawn,
}

impl Fiber {
    /// To be called by the scheduler on the fiber's own thread after an interrupt.
    ///
    /// Answers whether the fiber was suspended and its wait is now cancelled: then the scheduler
    /// makes it ready, as for a resume.
    #[must_use]
    #[inline]
    pub fn interrupted(&self) -> bool {
        // SAFETY: the trigger is set while its frame waits, by this thread.
        match unsafe { self.trigger.get().cast::<Trigger>().as_ref() } {
            Some(trigger) if self.is_cancelled() && self.leaves(trigger) => {
                // The other side that shares the trigger may free it from now on, before this fiber
                // has run again.
                self.trigger.set(ptr::null());
                true
            }
            _ => false,
        }
    }

    fn leaves(&self, trigger: &Trigger) -> bool {
        if self.retreats.get() { trigger.stand_down(self) } else { trigger.withdraw().is_some() }
    }

    /// Says whether the trigger of the wait that follows is waited for again if that is cancelled.
    #[inline]
    pub(crate) fn retreats(&self, yes: bool) {
        self.retreats.set(yes);
    }

    /// Says what the fiber, which is registered for it, is about to wait for.
    #[inline]
    pub(crate) fn begin_wait(&self, trigger: &Trigger, waits_for: WaitsFor) {
        self.trigger.set(ptr::from_ref(trigger).cast());
        self.waits_for.set(Some(waits_for));
    }

    /// How the wait ended: by a resumer, or by the fiber's own thread, and then the trigger may be
    /// gone.
    #[inline]
    pub(crate) fn end_wait(&self) -> WaitEnd {
        self.refill();
        self.waits_for.set(None);
        if self.trigger.replace(ptr::null()).is_null() {
            WaitEnd::Withdrawn
        } else if self.waits_in.load(Ordering::Relaxed) == REFUSED {
            // The next wait may be for a bell, which nobody refuses.
            self.waits_in.store(ptr::null_mut(), Ordering::Relaxed);
            WaitEnd::Refused
        } else {
            WaitEnd::Resumed
        }
    }
}
