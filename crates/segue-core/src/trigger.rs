//! The single-use token that joins one wait with one signal.
//!
//! Used by the wait queue, by timers, drivers and scopes: by everything that suspends.
//!
//! # The idea
//!
//! A wait and its end meet in one atomic word. Whoever moves the word to one of its two final states decides
//! the outcome, and everybody else learns from the failed exchange that it was decided without them. This is the
//! thesis' resumer that answers `bool` (section 3.2), with the answer and the waiter's view tied to the same exchange.
//!
//! # States
//!
//! ```text
//!            claim(arm)                       claim(arm)
//!   INITIAL ------------> TAKEN(arm)   <----------------- WAITING(fiber)  <--- born so, if the waiter makes it
//!      |  \--------------------------------------------------^   |
//!      |          wait: the waiter writes its own address        |
//!      +-------> CANCELLED <-------------------------------------+
//!        withdraw, by the waiter's own thread; or cancel
//! ```
//!
//! In place of a fiber a word may have a link, to another trigger to which the claim is passed on (`link.rs`).
//!
//! A waiter that has withdrawn, and has left every queue since, may use its trigger again (`rearm`): nobody else knows it then.
//!
//! # Used as a bell
//!
//! What stands behind a waker is rung by anybody, at any time and any number of times, and its one waiter listens again and again. For it the word goes
//! other ways, by functions of their own, and never by those above but `withdraw`:
//!
//! ```text
//!   quiet (INITIAL, TAKEN(0), CANCELLED) --listen: the waiter--> WAITING
//!   quiet or RUNG (= TAKEN(1)) --ring: anybody--> RUNG
//!   WAITING --ring--> TAKEN(0), and the ringer resumes the waiter
//!   WAITING --withdraw: the waiter's thread--> CANCELLED
//!   RUNG --hush: the waiter--> INITIAL
//! ```
//!
//! A ring is always a read-modify-write, also of a word that says RUNG already: so what each ringer did before is seen by the waiter, whose `hush` or `listen`
//! acquires the end of that chain. That a ring which resumes leaves TAKEN(0) and not RUNG saves the waiter the `hush`: the resume has told it. Both are
//! final states to `withdraw`, so that an interrupt that meets a resume changes nothing.
//!
//! | transition | who |
//! | --- | --- |
//! | INITIAL to WAITING | the waiter, when it is about to suspend; for a trigger that was made before its waiter was known |
//! | INITIAL or WAITING to TAKEN | any thread that may reach the trigger |
//! | INITIAL or WAITING to CANCELLED | the thread that the waiter runs on; any thread that may reach the trigger, which then resumes the waiter |
//!
//! **Commit point**: the exchange to TAKEN. **Idle**: INITIAL, and nobody else knows the trigger.
//! **Cancellation**: whoever cancels a context never touches a trigger. It marks the context and asks the scheduler to
//! *interrupt* the fiber; the fiber's own thread then tries the exchange to CANCELLED. So a trigger lives in its waiter's
//! frame, and no canceller can reach a frame that is gone.
//!
//! **The race to fear**: a signaller that touches the trigger after the waiter has left. It cannot: a waiter that was
//! seen WAITING leaves only after it has been resumed, which is the last thing that the signaller does, and it does
//! so through the fiber's address and not through the trigger. A waiter that was interrupted does not look at the trigger again either, since the other side
//! may have freed it (a task's, for instance) between the cancellation and the waiter's next step. A waiter that finds itself taken before it has suspended suspends
//! all the same, and consumes the resume that is owed to it. A trigger without a waiter, claimed while INITIAL, is not looked at again.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | `claim`'s exchange | the waiter's load after it was resumed, or its failed exchange in `wait` | what was handed over before the claim |
//! | `wait`'s exchange to WAITING | `claim`'s exchange | the fiber's header, which the resume reads |
//! | the exchange to TAKEN or CANCELLED | whoever finds that it has lost | the other side's last use of what the trigger is part of, which the loser may free |
#![allow(unsafe_code)] // The word holds the address of a fiber.

use crate::atomic::{AtomicPtr, Ordering};
use crate::fiber::{self, Fiber, WaitsFor};
use crate::link::Link;
use crate::scheduler::Wake;
use std::ptr::{self, NonNull};

/// Single-use token that joins one wait with one signal.
///
/// One side calls [`wait`](Trigger::wait), once; any number of threads may call [`signal`](Trigger::signal), of
/// which at most one is told `true`. The two answers agree: `signal` says `true` if and only if the wait ends in
/// [`Outcome::Taken`].
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
    /// It was signalled, through this arm.
    Taken(usize),
    /// It was cancelled, and no signal will be accepted any more.
    Cancelled,
}

/// A claimed waiter that has still to be resumed. Dropping it resumes it.
///
/// It exists so that a structure can claim under its lock and resume after it: resuming runs a scheduler's code.
#[must_use = "the claimed waiter stays suspended while this lives"]
pub struct Wakeup(Option<NonNull<Fiber>>);

const CANCELLED: usize = 1;
const TAKEN: usize = 3;
/// A bell that was rung while nobody listened: [`TAKEN`] through arm 1.
const RUNG: usize = TAKEN + 2;

/// In the address of a [`Link`], which stands where a fiber's would.
const LINKED: usize = 2;

fn link_of(word: *mut Fiber) -> NonNull<Link> {
    NonNull::new(word.map_addr(|address| address & !LINKED).cast()).expect("it is an address")
}

/// The largest arm that a trigger can carry.
pub const MAX_ARM: usize = 1 << 16;

#[inline]
fn word(value: usize) -> *mut Fiber {
    ptr::without_provenance_mut(value)
}

/// What a final word means; `None` for INITIAL and WAITING.
#[inline]
fn decode(word: *mut Fiber) -> Option<Outcome> {
    match word.addr() {
        CANCELLED => Some(Outcome::Cancelled),
        taken if taken & 1 == 1 => Some(Outcome::Taken((taken - TAKEN) / 2)),
        _ => None,
    }
}

impl Trigger {
    /// A trigger that nobody has signalled and nobody waits on.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self { word: AtomicPtr::new(ptr::null_mut()) }
    }

    /// A trigger that waits with `fiber`, the running one, from now on: [`finish`](Trigger::finish) must follow, unless it is
    /// cancelled. It saves the exchange that binds a trigger to its waiter. The fiber must be one that may suspend: a claim owes it a resume.
    #[inline]
    pub(crate) fn waiting(fiber: &Fiber) -> Self {
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

    /// Suspends the calling fiber, or parks the calling thread, until the trigger is signalled or the wait is cancelled.
    ///
    /// Returns at once if it was signalled before. `waits_for` is what a dump or a deadlock report says of this fiber.
    ///
    /// # Cancellation
    /// *No effect*: the trigger can no longer be signalled and says so to whoever tries. A signal that came first
    /// wins, also over a cancellation that was requested before it. A fiber that is panicking is not suspended: its wait ends
    /// as if it were cancelled.
    ///
    /// # Panics
    /// If somebody else waits on this trigger already.
    #[inline]
    pub fn wait(&self, waits_for: WaitsFor) -> Outcome {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        fiber::with_current(|fiber| {
            fiber.join_context();
            if (fiber.is_cancelled() || fiber.must_not_suspend()) && self.cancel_unless_awaited() {
                return Outcome::Cancelled;
            }
            self.suspend(fiber, waits_for)
        })
    }

    /// As [`wait`](Trigger::wait), but neither cancellation nor a panic under way ends it.
    ///
    /// For the few waits that guard memory: the end of a scope, a borrowed buffer in the kernel's hands. A panicking fiber
    /// blocks its thread here, since it must not be suspended.
    pub fn wait_shielded(&self, waits_for: WaitsFor) {
        if self.outcome().is_some() {
            return;
        }
        let wait = |fiber: &Fiber| {
            struct Restore<'a>(&'a Fiber, *const crate::context::Context);
            impl Drop for Restore<'_> {
                fn drop(&mut self) {
                    self.0.enter_context(self.1);
                }
            }
            let _restore = Restore(fiber, fiber.enter_context(ptr::null()));
            let outcome = self.suspend(fiber, waits_for);
            debug_assert!(matches!(outcome, Outcome::Taken(_)));
        };
        if fiber::with_current(Fiber::must_not_suspend) {
            fiber::as_plain_thread(|| fiber::with_current(wait));
        } else {
            fiber::with_current(wait);
        }
    }

    #[inline]
    fn suspend(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        let me = ptr::from_ref(fiber).cast_mut();
        match self.word.compare_exchange(ptr::null_mut(), me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(word) => {
                return decode(word).expect("a Trigger has one waiter, and this one has another already");
            }
        }
        self.sleep(fiber, waits_for)
    }

    /// Suspends a fiber that the trigger waits with.
    #[inline]
    fn sleep(&self, fiber: &Fiber, waits_for: WaitsFor) -> Outcome {
        fiber.begin_wait(self, waits_for);
        // SAFETY: the trigger was WAITING with this fiber and was not cancelled by it, so exactly one resume follows, or is under way: by
        // the one who claims it, or by this thread when an interrupt cancels it.
        unsafe { fiber.scheduler().suspend(fiber) };
        if !fiber.end_wait() {
            return Outcome::Cancelled;
        }
        self.outcome().expect("a scheduler resumed a fiber that nobody had resumed")
    }

    /// Ends the wait through `arm` and resumes the waiter. Answers whether it was this call that ended it.
    ///
    /// `false` means that the waiter did not take it and never will: it was signalled before, or cancelled. Never waits.
    ///
    /// # Panics
    /// If `arm` is over [`MAX_ARM`].
    #[inline]
    pub fn signal(&self, arm: usize) -> bool {
        match self.claim(arm) {
            Some(wakeup) => {
                wakeup.wake();
                true
            }
            None => false,
        }
    }

    /// The first half of [`signal`](Trigger::signal): decides, and leaves the resume to the caller.
    ///
    /// What the waiter is to find must be in place before the claim.
    #[inline]
    pub fn claim(&self, arm: usize) -> Option<Wakeup> {
        assert!(arm <= MAX_ARM, "a select has at most {MAX_ARM} arms");
        let taken = word(TAKEN + 2 * arm);
        // Acquire also where it is lost: the loser may be the one who frees what the trigger is part of.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            if decode(seen).is_some() {
                return None;
            }
            match self.word.compare_exchange_weak(seen, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if seen.addr() & LINKED == 0 => return Some(Wakeup(NonNull::new(seen))),
                // SAFETY: whoever linked it put the link's address there.
                Ok(_) => return Some(unsafe { Link::pass_on(link_of(seen)) }),
                Err(now) => seen = now,
            }
        }
    }

    /// Passes the signal on, instead of waiting. Answers whether there was no outcome yet. Who waits on it already is a panic.
    pub(crate) fn link(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        match self.word.compare_exchange(ptr::null_mut(), linked, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(word) => {
                let _ = decode(word).expect("a Trigger has one waiter, and this one has another already");
                false
            }
        }
    }

    /// The opposite of [`link`](Trigger::link). Answers whether it came before any outcome.
    pub(crate) fn unlink(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        self.word.compare_exchange(linked, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends the wait as cancelled, and resumes whoever waits. Answers whether nobody had signalled before. Never waits.
    #[must_use]
    pub fn cancel(&self) -> bool {
        match self.move_to_cancelled() {
            Some(fiber) => {
                drop(Wakeup(NonNull::new(fiber)));
                true
            }
            None => false,
        }
    }

    /// As [`cancel`](Trigger::cancel), by the waiter itself, which goes on by itself. Gives back what the trigger waited with, if it was
    /// this call that ended the wait.
    #[must_use]
    pub(crate) fn withdraw(&self) -> Option<*mut Fiber> {
        self.move_to_cancelled()
    }

    /// Makes a withdrawn trigger wait again: for a waiter that has left all queues, so that nobody else knows the trigger.
    pub(crate) fn rearm(&self, waiter: *mut Fiber) {
        self.word.store(waiter, Ordering::Release);
    }

    /// Rings the bell: the waiter's wait ends, or its next one is refused.
    #[inline]
    pub(crate) fn ring(&self) -> Wakeup {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let waits = !seen.is_null() && decode(seen).is_none();
            let rung = word(if waits { TAKEN } else { RUNG });
            match self.word.compare_exchange_weak(seen, rung, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Wakeup(NonNull::new(if waits { seen } else { ptr::null_mut() })),
                Err(now) => seen = now,
            }
        }
    }

    /// Begins a wait for the bell, unless it was rung since the waiter last looked. [`slumber`](Trigger::slumber) must follow, or a `withdraw` that succeeds.
    #[inline]
    pub(crate) fn listen(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen.addr() != RUNG {
            match self.word.compare_exchange_weak(seen, me, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Forgets earlier rings, and sees what was done before them. For the waiter, when it does not listen.
    #[inline]
    pub(crate) fn hush(&self) {
        self.word.swap(ptr::null_mut(), Ordering::AcqRel);
    }

    /// Suspends a fiber that listens. Answers whether the bell was rung; if not, the wait was cancelled.
    #[inline]
    pub(crate) fn slumber(&self, fiber: &Fiber, waits_for: WaitsFor) -> bool {
        fiber.begin_wait(self, waits_for);
        // SAFETY: the word was WAITING with this fiber and was not withdrawn, so exactly one resume follows, or is under way: by the one who
        // rings, or by this thread when an interrupt cancels it.
        unsafe { fiber.scheduler().suspend(fiber) };
        fiber.end_wait()
    }

    fn cancel_unless_awaited(&self) -> bool {
        self.word.compare_exchange(ptr::null_mut(), word(CANCELLED), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Gives back who waited, or null, if it was this call that ended the wait.
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

// SAFETY: a wakeup is the right to resume a fiber, which the scheduler contract allows on any thread.
unsafe impl Send for Wakeup {}

impl Wakeup {
    /// Resumes the waiter. Never waits.
    #[inline]
    pub fn wake(self) {}

    /// The fiber that is owed a resume, for those who keep it elsewhere.
    #[inline]
    pub(crate) fn into_fiber(self) -> Option<NonNull<Fiber>> {
        let fiber = self.0;
        std::mem::forget(self);
        fiber
    }

    /// The opposite of [`into_fiber`](Wakeup::into_fiber).
    #[inline]
    pub(crate) fn from_fiber(fiber: Option<NonNull<Fiber>>) -> Self {
        Self(fiber)
    }
}

impl Drop for Wakeup {
    #[inline]
    fn drop(&mut self) {
        if let Some(fiber) = self.0 {
            // SAFETY: the claim found the fiber WAITING, so it is suspended or about to be, and it stays until it is
            // resumed; a wakeup is made once per claim and not copied, so this is the one resume.
            unsafe { Fiber::wake(fiber, Wake::Resume) };
        }
    }
}
