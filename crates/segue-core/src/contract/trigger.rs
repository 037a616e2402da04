//! The single-use token that joins one wait with one signal.
//!
//! Used by the wait queue, by timers, drivers and scopes: by everything that suspends.
//!
//! # The idea
//!
//! A wait and its end meet in one atomic word. The side that moves the word to one of its two final
//! states decides the outcome; every other side learns from its failed exchange of being too late.
//! This is the resumer that answers `bool` of "Effectively Composing Concurrency Libraries"
//! (section 3.2), with the answer and the waiter's view tied to the same exchange.
//!
//! # States
//!
//! ```text
//!            claim(arm)                       claim(arm)
//!   INITIAL ------------> TAKEN(arm)   <----------------- WAITING(fiber)  <--- born so, if the waiter makes it
//!      |  \-----------------|--------------------------------^   |
//!      |          bind: the waiter writes its own address        |
//!      |                    | refuse: the claimer                |
//!      |                    v                                    |
//!      +-------> CANCELLED <-------------------------------------+
//!        withdraw, by the waiter's own thread; or cancel
//!
//!   INITIAL --link--> LINKED --unlink--> INITIAL
//!                      |  \---claim----> TAKEN; then the second trigger is claimed; then `passed` is stored
//!                      \------link-----> LINKED, by another link; or --cancel--> CANCELLED
//!
//!   WAITING --stand_down--> INITIAL;  any but WAITING --rearm--> WAITING or INITIAL
//! ```
//!
//! | transition | made by |
//! | --- | --- |
//! | INITIAL to WAITING | the waiter, about to suspend; for a trigger that was made before its waiter was known |
//! | INITIAL or WAITING to TAKEN | any thread that may reach the trigger |
//! | INITIAL or WAITING to CANCELLED | the thread that the waiter runs on; any thread that may reach the trigger, which then resumes the waiter |
//! | TAKEN to CANCELLED | the claimer that found WAITING, if the waiter's context is cancelled (`refusal.rs`); it then resumes the waiter. TAKEN is final but for this and `rearm` |
//! | WAITING to INITIAL | the thread that the waiter runs on, in place of CANCELLED, where the trigger is to be waited for again (`wait/trigger.rs`) |
//! | any but WAITING to WAITING or INITIAL, by `rearm` | the waiter, when nobody else knows the trigger: for one, when it has withdrawn in the middle of its registration (`wait/retreat.rs`) |
//! | LINKED to and fro | a waiter that waits by a second trigger; its [`Link`] lies in its frame, and the word has the link's address in place of a fiber's (`wait/link.rs` has the waiter's side) |
//! | LINKED to CANCELLED | the owner of the trigger, by `cancel`: the link is that of a future that was forgotten in its wait |
//!
//! `wait/trigger.rs` has the waits of users, which give plain threads a header and join the context
//! that can cancel them; `wait/bell.rs` the *bell* behind a waker: its word has other transitions.
//!
//! **Commit point**: the exchange to TAKEN, if the claimer then finds the waiter's context open.
//! **Idle**: INITIAL, and only the owner knows the trigger. **Cancellation**: the canceller of a
//! context never touches a trigger. The canceller marks the context and asks the scheduler to
//! *interrupt* the fiber; the fiber's own thread then tries the exchange to CANCELLED. So a trigger
//! may live in its waiter's frame, and no canceller reaches a frame that is gone.
//!
//! **The race to fear**: a signaller that touches the trigger after the waiter has left. It cannot:
//! a waiter that was found WAITING leaves only after its resume, which is the signaller's last
//! step, by the fiber's address and not by the trigger. Nor does an interrupted waiter look at the
//! trigger again, which the other side may have freed since the cancellation. A waiter that is
//! taken before it has suspended suspends all the same, and consumes the resume that is owed. A
//! trigger without a waiter, claimed while INITIAL, is not looked at again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `claim`'s exchange | the waiter's load after its resume, or its failed exchange in `bind` | the value that was handed over before the claim |
//! | `bind`'s exchange to WAITING, or the publication of a trigger that is born so | `claim`'s exchange | the fiber's header, which the claimer and the resume read |
//! | the canceller's store of the flag | the claimer's load of the flag | the reason |
//! | the claimer's resume | the waiter's return from `suspend` | the refusal |
//! | the exchange to TAKEN or CANCELLED | the side that finds that it has lost | the other side's last use of the object around the trigger, which the loser may free |
//! | the exchange to LINKED | the claim | the link's fields |
//! | the claimer's store of `passed` | the load by the waiter that leaves | the claimer's last use of the link |
#![allow(unsafe_code)] // The word holds the address of a fiber.

use crate::contract::fiber::Fiber;
use crate::contract::refusal::REFUSED;
use crate::contract::wakeup::Wakeup;
use crate::primitives::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::primitives::waits_for::WaitsOn;
use std::cell::Cell;
use std::marker::{PhantomData, PhantomPinned};
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
    /// A signal came, through this arm.
    Taken(usize),
    /// The wait was cancelled, and no signal will be accepted any more.
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

/// The meaning of a final word; `None` for INITIAL, WAITING and LINKED.
#[inline]
pub(crate) fn decode(word: *mut Fiber) -> Option<Outcome> {
    match word.addr() {
        CANCELLED => Some(Outcome::Cancelled),
        taken if taken & 1 == 1 => Some(Outcome::Taken((taken - TAKEN) / 2)),
        _ => None,
    }
}

/// The meaning of a word that was not INITIAL when its waiter came.
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

    /// A trigger that waits with `fiber` from the beginning, which saves the exchange of `bind`.
    ///
    /// # Safety
    /// `fiber` is the calling one, and may suspend: a claim owes a resume. The fiber is
    /// [exposed](Trigger::expose) before anybody else knows the trigger, and
    /// [sleeps](Trigger::sleep) or [withdraws](Trigger::withdraw) after that.
    #[inline]
    pub(crate) unsafe fn waiting(fiber: &Fiber) -> Self {
        Self { word: AtomicPtr::new(ptr::from_ref(fiber).cast_mut()) }
    }

    /// Binds the trigger to its waiter: a claim owes a resume from now on.
    ///
    /// # Safety
    /// `fiber` is the calling one, and may suspend. If bound, it [sleeps](Trigger::sleep) next.
    ///
    /// # Errors
    /// The outcome, if there is one already.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    pub(crate) unsafe fn bind(&self, fiber: &Fiber) -> Result<(), Outcome> {
        let me = ptr::from_ref(fiber).cast_mut();
        fiber.expose();
        match self.word.compare_exchange(ptr::null_mut(), me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(word) => Err(outcome_of_another(word)),
        }
    }

    /// Suspends the waiter until the trigger is claimed or the waiter has withdrawn. When the
    /// header names the wait, `is_to_suspend` (of `wait/trigger.rs`, it calls wakers) is asked.
    ///
    /// # Safety
    /// The trigger waits with `fiber`, the calling one, or was claimed since. `is_to_suspend` does
    /// not unwind, and answers `false` only if [`interrupted`](Fiber::interrupted) has withdrawn.
    #[inline(always)] // A return after a switch is predicted wrongly, and this saves one.
    pub(crate) unsafe fn sleep(
        &self,
        fiber: &Fiber,
        waits_on: WaitsOn,
        is_to_suspend: impl FnOnce() -> bool,
    ) -> Outcome {
        // SAFETY: the trigger is in place until the wait's end, below, or its withdrawal. Later
        // nobody here follows `self`, which may outlive the memory, as all of it is an atomic.
        let begun = unsafe { fiber.begin_wait(self, &waits_on) };
        if is_to_suspend() {
            // SAFETY: the trigger was WAITING with this fiber, which has not withdrawn: so one
            // resume, by the side that ends the wait, or one interrupt belongs to this call.
            unsafe { fiber.suspend() };
        }
        match fiber.end_wait(begun) {
            WaitEnd::Resumed => self.outcome().expect("a scheduler resumed a fiber that nobody had resumed"),
            WaitEnd::Refused | WaitEnd::Withdrawn => Outcome::Cancelled,
        }
    }

    /// Ends the wait through `arm` and resumes the waiter. Answers whether this call has done so.
    ///
    /// `false` means that the waiter does not take the signal and never will: another signal came
    /// before, or the wait was cancelled. Never waits.
    ///
    /// # Panics
    /// If `arm` is over [`MAX_ARM`].
    #[inline]
    pub fn signal(&self, arm: usize) -> bool {
        self.claim(arm).is_ok()
    }

    /// The first half of [`signal`](Trigger::signal): decides, and leaves the resume to the caller.
    /// The value that the waiter is to find is in place before the claim.
    ///
    /// # Errors
    /// If the waiter does not take the signal and never will. A waiter that was cancelled while its
    /// thread was busy goes on by this call, with a wake-up to be dropped when no lock is held.
    #[inline]
    pub fn claim(&self, arm: usize) -> Result<Wakeup, Wakeup> {
        assert!(arm <= MAX_ARM, "a select has at most {MAX_ARM} arms");
        let taken = word(TAKEN + 2 * arm);
        // Acquire also if the claim is lost: the loser may free the object around the trigger.
        let mut seen = self.word.load(Ordering::Acquire);
        let found = loop {
            if decode(seen).is_some() {
                return Err(Wakeup(None));
            }
            match self.word.compare_exchange_weak(seen, taken, Ordering::AcqRel, Ordering::Acquire) {
                // Not the load's word, which may be that of an earlier waiter at the same address.
                Ok(found) => break found,
                Err(now) => seen = now,
            }
        };
        if is_link(found) {
            // SAFETY: the word had this link in it when it was claimed, here.
            return Ok(unsafe { Link::pass_on(found) });
        }
        // SAFETY: a fiber that the exchange found WAITING stays until the resume, now owed here.
        match unsafe { found.as_ref() } {
            // SAFETY: as above, and every waiter has exposed itself before.
            Some(fiber) if unsafe { fiber.is_wait_cancelled() } => Err(self.refuse(fiber)),
            _ => Ok(Wakeup(NonNull::new(found))),
        }
    }

    /// Ends the wait as cancelled, and resumes the waiter. Answers whether nobody had signalled
    /// before. Never waits.
    #[must_use]
    pub fn cancel(&self) -> bool {
        match self.withdraw() {
            Some(waiter) => {
                // A link is that of a future which was forgotten in its wait.
                drop(Wakeup(NonNull::new(waiter).filter(|_| !is_link(waiter))));
                true
            }
            None => false,
        }
    }

    /// Ends the wait before its beginning, unless a signal has come by now.
    pub(crate) fn cancel_unless_awaited(&self) -> Outcome {
        match self.word.compare_exchange(ptr::null_mut(), word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Outcome::Cancelled,
            Err(word) => outcome_of_another(word),
        }
    }

    /// Ends the wait of `fiber` for a trigger to be waited for [again](Trigger::wait_once_more):
    /// the word goes back to INITIAL. Answers whether nobody had signalled before.
    #[must_use]
    pub(crate) fn stand_down(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        self.word.compare_exchange(me, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// As [`cancel`](Trigger::cancel), by the waiter itself, which goes on by itself. Gives back
    /// the waiter, or null, if this call has ended the wait.
    #[must_use]
    pub(crate) fn withdraw(&self) -> Option<*mut Fiber> {
        // As in `claim`, a refusal acquires.
        let mut seen = self.word.load(Ordering::Acquire);
        while decode(seen).is_none() {
            match self.word.compare_exchange_weak(seen, word(CANCELLED), Ordering::AcqRel, Ordering::Acquire) {
                Ok(found) => return Some(found),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// [Exposes](Fiber::expose) the waiter, which calls this, before any other thread can claim the
    /// trigger. A final word, or a link, is left alone.
    ///
    /// # Safety
    /// For the waiter of the trigger, on the thread of that waiter.
    #[inline]
    pub(crate) unsafe fn expose(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if is_open(seen) {
            // SAFETY: an open word names the waiter, which is in place during this call.
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
        // SAFETY: the waiter stays in its wait, as the caller promises; the open word leads there.
        let is_cancelled = |fiber: *mut Fiber| unsafe { fiber.as_ref().is_some_and(|fiber| fiber.is_wait_cancelled()) };
        decode(seen).is_some() || (!is_link(seen) && is_cancelled(seen))
    }

    /// The outcome, if there is one already.
    ///
    /// If the waiter was cancelled and somebody signals at this moment, the answer may be that the
    /// signal was taken, until that signaller has seen the cancellation.
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
// No address has the bits of a final word or of a link.
const _: () = assert!(align_of::<Fiber>() >= 4 && align_of::<Link>() >= 4);

/// Whether an open word has a link. For others see [`decode`] first: TAKEN(0) has this bit, too.
#[inline]
pub(crate) fn is_link(word: *mut Fiber) -> bool {
    word.addr() & LINKED != 0
}

/// Where a trigger passes its signal on to.
pub struct Link {
    /// Null if there is no link.
    pub(crate) to: Cell<*const Trigger>,
    pub(crate) arm: Cell<usize>,
    pub(crate) passed: AtomicBool,
    /// The claimer reaches a link while its waiter has a `&mut`.
    pub(crate) _shared: PhantomPinned,
}

impl Link {
    /// Claims the second trigger, after the first. The wake-up is empty if somebody else has
    /// claimed the second one, and that of a waiter which goes on as cancelled if that was.
    ///
    /// # Safety
    /// `word`, which has a link, was that of a trigger that the caller has just claimed.
    unsafe fn pass_on(word: *mut Fiber) -> Wakeup {
        let link = word.map_addr(|address| address & !LINKED).cast::<Self>();
        let link = NonNull::new(link).expect("the word has an address");
        // SAFETY: link and second trigger stay as long as their waiter: to `passed`, or a resume.
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
    /// The claimer of the trigger has resumed the fiber.
    Resumed,
    /// The claimer has resumed the fiber as well, but found the wait cancelled.
    Refused,
    /// An interrupt has cancelled the wait. The trigger may be gone.
    Withdrawn,
}

/// A wait that has begun, and ends while the record of the wait is in place still.
#[must_use = "the header names the wait until its end"]
pub(crate) struct Begun<'w>(PhantomData<&'w WaitsOn>);

impl Fiber {
    /// To be called by the scheduler on the fiber's own thread after an interrupt. Answers whether
    /// the fiber was in a wait, suspended or about to be, which is now cancelled: then the
    /// scheduler makes the fiber ready, as for a resume.
    #[must_use]
    #[inline]
    pub fn interrupted(&self) -> bool {
        // SAFETY: the slot has the trigger of a wait on this thread, which stays: see `begin_wait`.
        match unsafe { self.trigger.get().cast::<Trigger>().as_ref() } {
            Some(trigger) if self.is_cancelled() && self.leaves(trigger) => {
                // The other side may free the trigger, before this fiber has run again.
                self.trigger.set(ptr::null());
                true
            }
            _ => false,
        }
    }

    fn leaves(&self, trigger: &Trigger) -> bool {
        if self.retreats.get() { trigger.stand_down(self) } else { trigger.withdraw().is_some() }
    }

    /// Names the wait that the fiber, which is registered for it, is about to begin.
    ///
    /// # Safety
    /// The trigger stays until [`end_wait`](Fiber::end_wait), or an interrupt has ended the wait;
    /// `waits_on` stays until `end_wait`, which follows.
    #[inline]
    pub(crate) unsafe fn begin_wait<'w>(&self, trigger: &Trigger, waits_on: &'w WaitsOn) -> Begun<'w> {
        self.trigger.set(ptr::from_ref(trigger).cast());
        self.waits_on.set(waits_on);
        self.waits.set(self.waits.get().wrapping_add(1));
        Begun(PhantomData)
    }

    /// Ends the wait, and answers how. After a withdrawal the trigger may be gone.
    #[inline]
    pub(crate) fn end_wait(&self, _begun: Begun<'_>) -> WaitEnd {
        self.refill();
        self.waits_on.set(ptr::null());
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
