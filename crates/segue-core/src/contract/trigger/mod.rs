//! The single-use token that joins one wait with one signal.
//!
//! Used by the wait queue, by timers, drivers and scopes: by everything that suspends.
//!
//! # The idea
//!
//! A wait and its end meet in one atomic word. The side that moves the word to one of its two final
//! states decides the outcome; every other side learns from its failed exchange of being too late.
//! This is the thesis' resumer that answers `bool` (section 3.2), with the answer and the waiter's
//! view tied to the same exchange.
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
//! link to another trigger in place of a fiber (`forward.rs`), a waiter that withdraws during its
//! registration (`retreat.rs`), a trigger that is waited for again (`again.rs`), and the *bell*
//! behind a waker, which takes other transitions (`bell.rs`).
//!
//! | transition | made by |
//! | --- | --- |
//! | INITIAL to WAITING | the waiter, about to suspend; for a trigger that was made before its waiter was known |
//! | INITIAL or WAITING to TAKEN | any thread that may reach the trigger |
//! | INITIAL or WAITING to CANCELLED | the thread that the waiter runs on; any thread that may reach the trigger, which then resumes the waiter |
//! | TAKEN to CANCELLED | the claimer that found WAITING, if the waiter's context is cancelled; which then resumes the waiter |
//!
//! **Commit point**: the exchange to TAKEN, if the claimer then finds the waiter's context open.
//! **Idle**: INITIAL, and only the owner knows the trigger. **Cancellation**: a canceller never
//! touches a trigger. The canceller marks the context and asks the scheduler to *interrupt* the
//! fiber; the fiber's own thread then tries the exchange to CANCELLED. So a trigger lives in its
//! waiter's frame, and no canceller can reach a frame that is gone.
//!
//! **The race to fear**: a signaller that touches the trigger after the waiter has left. This can't
//! happen: a waiter that was seen WAITING leaves only after its resume, which is the signaller's
//! last act, and goes through the fiber's address and not through the trigger. A waiter that was
//! interrupted does not look at the trigger again either, since the other side may have freed the
//! trigger between the cancellation and the waiter's next step. A waiter that finds itself taken
//! before its suspension suspends all the same, and consumes the owed resume. A trigger without a
//! waiter, claimed while INITIAL, is not looked at again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `claim`'s exchange | the waiter's load after its resume, or its failed exchange in `wait` | the value that was handed over before the claim |
//! | `wait`'s exchange to WAITING, or the publication of a trigger that is born so | `claim`'s exchange | the fiber's header, which the claimer and the resume read |
//! | the canceller's store of the flag | the claimer's load | the reason |
//! | the claimer's resume | the waiter's return from `suspend` | the refusal |
//! | the exchange to TAKEN or CANCELLED | the losing side | the other side's last use of the structure around the trigger, which the loser may free |
#![allow(unsafe_code)] // The word holds the address of a fiber.

mod again;
mod bell;
mod forward;
mod refusal;
mod retreat;
mod wakeup;

pub use forward::Link;
pub(super) use refusal::REFUSED;
pub use retreat::Retreat;
pub use wakeup::Wakeup;

use crate::contract::current;
use crate::contract::fiber::{Fiber, WaitEnd, WaitsFor};
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{AtomicPtr, Ordering};
use forward::is_link;
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
    word: AtomicPtr<Fiber>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Signalled, through this arm.
    Taken(usize),
    /// Cancelled, and no signal will be accepted any more.
    Cancelled,
}

const CANCELLED: usize = 1;
const TAKEN: usize = 3;

/// The largest arm that a trigger can carry.
pub const MAX_ARM: usize = 1 << 16;

#[inline]
fn word(value: usize) -> *mut Fiber {
    ptr::without_provenance_mut(value)
}

/// Whether a word is the address of a fiber, or null: final ones are odd.
#[inline]
fn is_open(word: *mut Fiber) -> bool {
    word.addr() & 1 == 0 && !is_link(word)
}

/// The meaning of a final word; `None` for INITIAL and WAITING.
#[inline]
fn decode(word: *mut Fiber) -> Option<Outcome> {
    match word.addr() {
        CANCELLED => Some(Outcome::Cancelled),
        taken if taken & 1 == 1 => Some(Outcome::Taken((taken - TAKEN) / 2)),
        _ => None,
    }
}

/// The meaning of a word that was not INITIAL at its waiter's arrival.
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

    /// A trigger that waits with `fiber`, the running one, from now on: [`finish`](Trigger::finish)
    /// must follow, except after a cancellation. This saves the exchange that binds a trigger to
    /// its waiter. The fiber must be one that may suspend: a claim owes a resume. The fiber is
    /// [exposed](Trigger::expose) before anybody else knows the trigger.
    #[inline]
    pub(crate) fn waiting(fiber: &Fiber) -> Self {
        Self { word: AtomicPtr::new(ptr::from_ref(fiber).cast_mut()) }
    }

    /// The second half of a wait that began with [`waiting`](Trigger::waiting).
    #[inline(always)] // As `sleep`.
    pub(crate) fn finish(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        fiber.join_context();
        if fiber.is_cancelled() && self.withdraw().is_some() {
            return Outcome::Cancelled;
        }
        self.sleep(fiber, waits_for)
    }

    /// Suspends the calling fiber, or parks the calling thread, until the trigger is signalled or
    /// the wait is cancelled.
    ///
    /// Returns at once after a signal. Reports say `waits_for` of this fiber.
    ///
    /// # Cancellation
    /// *No effect*: the trigger can no longer be signalled and says so to each signaller, from the
    /// moment at which `cancel` has returned. A signal that came before the wait wins, also over an
    /// earlier request of cancellation. A fiber that is panicking is not suspended: its wait ends
    /// like a cancelled one.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    pub fn wait(&self, waits_for: WaitsFor) -> Outcome {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        current::on_current(|fiber| {
            fiber.join_context();
            if fiber.is_cancelled() || fiber.must_not_suspend() {
                return self.cancel_unless_awaited();
            }
            self.suspend(fiber, waits_for)
        })
    }

    /// As [`wait`](Trigger::wait), but neither cancellation nor a panic under way ends this wait.
    ///
    /// For the few waits that guard memory: the end of a scope, a borrowed buffer in the kernel's
    /// hands. A panicking fiber blocks its thread here, since a suspension is forbidden.
    pub fn wait_shielded(&self, waits_for: WaitsFor) {
        if self.outcome().is_some() {
            return;
        }
        let wait = |fiber: &Fiber| {
            // SAFETY: none, and then the one that the caller is inside of.
            let context = unsafe { fiber.enter_context(ptr::null()) };
            // SAFETY: as above.
            let _restore = at_end(|| _ = unsafe { fiber.enter_context(context) });
            let outcome = self.suspend(fiber, waits_for);
            debug_assert!(matches!(outcome, Outcome::Taken(_)));
        };
        if current::on_current(Fiber::must_not_suspend) {
            current::as_plain_thread(|| current::on_current(wait));
        } else {
            current::on_current(wait);
        }
    }

    #[inline]
    fn suspend(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        let me = ptr::from_ref(fiber).cast_mut();
        fiber.expose();
        match self.word.compare_exchange(ptr::null_mut(), me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => self.sleep(fiber, waits_for),
            Err(word) => outcome_of_another(word),
        }
    }

    /// Suspends a fiber that the trigger waits with.
    #[inline(always)] // A fiber that goes on returns from one call less, which is predicted wrongly.
    fn sleep(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        if fiber.begin_wait(self, waits_for) {
            // SAFETY: the trigger was WAITING with this fiber and was not cancelled by that fiber,
            // so exactly one resume follows, or is under way: by its claimer, or by this thread
            // when an interrupt cancels it.
            unsafe { fiber.suspend() };
        }
        match fiber.end_wait() {
            WaitEnd::Resumed => self.outcome().expect("a scheduler resumed a fiber that nobody had resumed"),
            WaitEnd::Refused | WaitEnd::Withdrawn => Outcome::Cancelled,
        }
    }

    /// Ends the wait through `arm` and resumes the waiter. Answers whether this call ended the
    /// wait.
    ///
    /// `false` means that the waiter did not take the signal and never will: signalled before, or
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
    /// The value for the waiter must be in place before the claim.
    ///
    /// # Errors
    /// If the waiter does not take the claim and never will: signalled before, or cancelled. A
    /// waiter that was cancelled while its own thread was busy goes on because of this call: so
    /// there is something to be dropped in that case as well, when the caller holds no lock.
    #[inline]
    pub fn claim(&self, arm: usize) -> Result<Wakeup, Wakeup> {
        assert!(arm <= MAX_ARM, "a select has at most {MAX_ARM} arms");
        let taken = word(TAKEN + 2 * arm);
        // Acquire also for the loser, which may be the side that frees the structure around the
        // trigger.
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
            // SAFETY: the trigger was claimed here.
            return Ok(unsafe { Link::pass_on(seen) });
        }
        // SAFETY: a fiber that was seen WAITING stays in its wait until the resume, which this call
        // owes now.
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
                // A link is that of a future which was forgotten in its wait.
                drop(Wakeup(NonNull::new(waiter).filter(|_| !is_link(waiter))));
                true
            }
            None => false,
        }
    }

    /// As [`cancel`](Trigger::cancel), by the waiter itself, which goes on by itself. Gives back
    /// the trigger's waiter, if this call ended the wait.
    #[must_use]
    pub(crate) fn withdraw(&self) -> Option<*mut Fiber> {
        self.move_to_cancelled()
    }

    /// Ends the wait before its beginning, unless a signal has come by now.
    fn cancel_unless_awaited(&self) -> Outcome {
        match self.word.compare_exchange(ptr::null_mut(), word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Cancelled,
            Err(word) => outcome_of_another(word),
        }
    }

    /// Gives back the waiter, or null, if this call ended the wait.
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

    /// The outcome, if there is one already.
    ///
    /// If the waiter was cancelled and somebody signals at this moment, the answer may be that the
    /// signal was taken until that signaller has seen the cancellation.
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
