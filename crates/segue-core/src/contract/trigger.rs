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
//! In place of a fiber a word may have a link, to another trigger to which the claim is passed on
//! (`forward.rs`).
//!
//! A waiter that has withdrawn, and has left every queue since, may use its trigger again
//! (`rearm`): nobody else knows it then.
//!
//! The trigger behind a waker is a *bell*, which takes other transitions (`bell.rs`).
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
//! # What cancel has marked is served no more
//!
//! The waiter's thread may be busy for long before it looks. Until then a claim would win, and hand
//! over to a waiter that its canceller believes gone. So the claimer looks in the waiter's place:
//! it exchanges WAITING for TAKEN, and *then* reads the flag of the waiter's context. If that is
//! set, the claim is refused: the claimer notes it in the header, moves the word to CANCELLED, and
//! owes the resume all the same, as the waiter has been taken out of its wait. The caller is told
//! no and keeps what it had; the resume is in the `Err`, to be sent when the caller holds no lock.
//!
//! * **Why after the exchange**: before it, the header may be gone, as any other thread may end the
//!   wait. After it, the waiter can't leave its wait before this claimer resumes it, and so neither
//!   the header nor any context that the fiber is inside of ends.
//! * **Which context**: the innermost one when the wait began, which the waiter writes into its
//!   header (`expose`) before it can be claimed, and nobody changes until it was resumed. Under a
//!   shield it is null, and nothing is refused. A canceller marks all contexts further in before it
//!   returns, so one flag is enough.
//! * **Why that is in time**: the flag was stored before `cancel` returned. A claim that begins
//!   after that reads it set. One that runs meanwhile may see either, and its answer is what the
//!   waiter sees.
//! * **How the waiter knows**: by its header, and not by the word, which may be gone (below).
//! * **Between the two steps** the word says TAKEN. The waiter's own thread may see that in an
//!   interrupt, and then leaves the end of the wait to the resume. Other claimers are refused,
//!   which is right either way.
//!
//! It costs a claim two loads, of the header that the resume is about to touch, and of a flag that
//! is hardly ever written.
//!
//! # Waited for again
//!
//! The end of a task is waited for through a trigger that outlives the wait. A wait of that kind
//! which is cancelled must not end the trigger, since its handle joins again:
//!
//! ```text
//!   WAITING --retreat: the waiter's thread, in place of withdraw--> INITIAL
//! ```
//!
//! If a claimer has refused, the word says CANCELLED although the task has ended: its handle takes
//! either final word for the end. The waiter is told by its header that it was refused.
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

use crate::contract::current;
use crate::contract::fiber::{Fiber, WaitEnd, WaitsFor};
use crate::contract::forward::Link;
use crate::contract::scheduler::Wake;
use crate::contract::tree::cancelled::Cancelled;
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{AtomicPtr, Ordering};
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
    pub(super) word: AtomicPtr<Fiber>,
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

/// The answer of a registration that has found its value there: its waiter has been withdrawn, so
/// that nobody serves it any more, unless somebody had claimed it just before. Made by
/// [`Trigger::retreat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the waiter does not wait any more, or was claimed"]
pub struct Retreat {
    withdrawn: bool,
}

impl Retreat {
    /// Whether the waiter has been withdrawn. If not, it was claimed.
    pub(crate) fn is_withdrawn(self) -> bool {
        self.withdrawn
    }
}

/// A claimed waiter that has still to be resumed. Dropping it resumes it.
///
/// It exists so that a structure can claim under its lock and resume after it: resuming runs a
/// scheduler's code.
#[must_use = "the claimed waiter stays suspended while this lives"]
#[derive(Debug)]
pub struct Wakeup(pub(super) Option<NonNull<Fiber>>);

const CANCELLED: usize = 1;
pub(super) const TAKEN: usize = 3;

/// In the address of a [`Link`], which stands where a fiber's would.
const LINKED: usize = 2;

fn link_of(word: *mut Fiber) -> NonNull<Link> {
    NonNull::new(word.map_addr(|address| address & !LINKED).cast()).expect("it is an address")
}

/// The largest arm that a trigger can carry.
pub const MAX_ARM: usize = 1 << 16;

#[inline]
pub(super) fn word(value: usize) -> *mut Fiber {
    ptr::without_provenance_mut(value)
}

/// What a final word means; `None` for INITIAL and WAITING.
#[inline]
pub(super) fn decode(word: *mut Fiber) -> Option<Outcome> {
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

    /// A trigger that waits with `fiber`, the running one, from now on: [`finish`](Trigger::finish)
    /// must follow, unless it is cancelled. It saves the exchange that binds a trigger to its
    /// waiter. The fiber must be one that may suspend: a claim owes it a resume.
    #[inline]
    pub(crate) fn waiting(fiber: &Fiber) -> Self {
        fiber.expose();
        Self { word: AtomicPtr::new(ptr::from_ref(fiber).cast_mut()) }
    }

    /// The second half of a wait that began with [`waiting`](Trigger::waiting).
    #[inline]
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
    /// Returns at once if it was signalled before. `waits_for` is what a dump or a deadlock report
    /// says of this fiber.
    ///
    /// # Cancellation
    /// *No effect*: the trigger can no longer be signalled and says so to each signaller, from the
    /// moment at which `cancel` has returned. A signal that came before the wait wins, also over a
    /// cancellation that was requested before it. A fiber that is panicking is not suspended: its
    /// wait ends as if it were cancelled.
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

    /// As [`wait`](Trigger::wait), but a wait that is cancelled leaves the trigger as it was: it
    /// can still be signalled, and waited for again.
    #[inline]
    pub(crate) fn wait_once_more(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        if self.outcome().is_some() {
            return Ok(());
        }
        current::on_current(|fiber| {
            fiber.join_context();
            if fiber.is_cancelled() {
                return Err(fiber.cancelled());
            }
            if fiber.must_not_suspend() {
                return Err(fiber.refused());
            }
            fiber.retreats(true);
            let outcome = self.suspend(fiber, waits_for);
            fiber.retreats(false);
            if outcome == Outcome::Cancelled { Err(fiber.cancelled()) } else { Ok(()) }
        })
    }

    /// As [`wait`](Trigger::wait), but neither cancellation nor a panic under way ends it.
    ///
    /// For the few waits that guard memory: the end of a scope, a borrowed buffer in the kernel's
    /// hands. A panicking fiber blocks its thread here, since it must not be suspended.
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
    #[inline]
    fn sleep(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        fiber.begin_wait(self, waits_for);
        // SAFETY: the trigger was WAITING with this fiber and was not cancelled by it, so exactly
        // one resume follows, or is under way: by its claimer, or by this thread when an interrupt
        // cancels it.
        unsafe { fiber.scheduler().suspend(fiber) };
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
        if seen.addr() & LINKED != 0 {
            // SAFETY: the waiter that linked it put the link's address there.
            return Ok(unsafe { Link::pass_on(link_of(seen)) });
        }
        // SAFETY: a fiber that was seen WAITING stays in its wait until the resume, which this call
        // owes it now.
        match unsafe { seen.as_ref() } {
            // SAFETY: as above, and whatever waits has exposed itself before.
            Some(fiber) if unsafe { fiber.is_wait_cancelled() } => Err(self.refuse(fiber)),
            _ => Ok(Wakeup(NonNull::new(seen))),
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
        decode(seen).is_some() || (seen.addr() & LINKED == 0 && is_cancelled(seen))
    }

    /// Passes the signal on, instead of waiting. Answers whether there was no outcome yet. Panics
    /// if there is a waiter already.
    ///
    /// # Safety
    /// The link is in place until it was unlinked, or until somebody has ended the wait through it.
    pub(crate) unsafe fn link(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        match self.word.compare_exchange(ptr::null_mut(), linked, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(word) => {
                let _ = outcome_of_another(word);
                false
            }
        }
    }

    /// The opposite of [`link`](Trigger::link). Answers whether it came before any outcome.
    pub(crate) fn unlink(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        self.word.compare_exchange(linked, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the wait as cancelled, and resumes the waiter. Answers whether nobody had signalled
    /// before. Never waits.
    #[must_use]
    pub fn cancel(&self) -> bool {
        match self.move_to_cancelled() {
            Some(waiter) => {
                // A link is that of a future which was forgotten while it waited.
                let is_fiber = waiter.addr() & LINKED == 0;
                drop(Wakeup(NonNull::new(waiter).filter(|_| is_fiber)));
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

    /// Ends the wait of `fiber` for a trigger that is waited for [again](Trigger::wait_once_more).
    /// Answers whether nobody had signalled before.
    #[must_use]
    pub(crate) fn stand_down(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        self.word.compare_exchange(me, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Withdraws the waiter that is being registered, unless somebody has just claimed it. For the
    /// [`register`](crate::Source::register) of a source, by the waiter itself: a waiter that
    /// somebody else withdraws so is not resumed by that, and sleeps on.
    #[inline]
    pub fn retreat(&self) -> Retreat {
        Retreat { withdrawn: self.withdraw().is_some() }
    }

    /// Makes a withdrawn trigger wait again.
    ///
    /// # Safety
    /// The waiter has left all queues, so that nobody else knows the trigger. It is the calling
    /// fiber, or whatever else the trigger's owner has suspended by it, and stays in place until it
    /// was resumed or has withdrawn; or it is null, for no waiter.
    pub(crate) unsafe fn rearm(&self, waiter: *mut Fiber) {
        self.word.store(waiter, Ordering::Release);
    }

    /// Ends the wait before it has begun, unless a signal has come by now.
    fn cancel_unless_awaited(&self) -> Outcome {
        match self.word.compare_exchange(ptr::null_mut(), word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Cancelled,
            Err(word) => outcome_of_another(word),
        }
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

// SAFETY: a wakeup is the right to resume a fiber, which the scheduler contract allows on any
// thread.
unsafe impl Send for Wakeup {}

impl Wakeup {
    /// Resumes the waiter. Never waits.
    #[inline]
    pub fn wake(self) {}

    /// The fiber that is owed a resume, for code that keeps it elsewhere.
    #[inline]
    pub(crate) fn into_fiber(self) -> Option<NonNull<Fiber>> {
        let fiber = self.0;
        std::mem::forget(self);
        fiber
    }

    /// The opposite of [`into_fiber`](Wakeup::into_fiber).
    ///
    /// # Safety
    /// It is what `into_fiber` has given, and this is the one use of it.
    #[inline]
    pub(crate) unsafe fn from_fiber(fiber: Option<NonNull<Fiber>>) -> Self {
        Self(fiber)
    }
}

impl Drop for Wakeup {
    #[inline]
    fn drop(&mut self) {
        if let Some(fiber) = self.0 {
            // SAFETY: the claim found the fiber WAITING, so it is suspended or about to be, and it
            // stays until it is resumed; a wakeup is made once per claim and not copied, so this is
            // the one resume.
            unsafe { Fiber::wake(fiber, Wake::Resume) };
        }
    }
}
