//! The future of a source: `.await` on a [`Waitable`] runs this.
//!
//! Used by tasks of any async runtime, which thereby wait in the same queues as fibers and threads,
//! by the same steps.
//!
//! # The idea
//!
//! To the structures a task that waits is a fiber like any other: with a header and the scheduler
//! of this file, by which a resume calls the waker of the task. Header, trigger and slot lie in the
//! future, which is pinned; so nothing is allocated.
//!
//! # States
//!
//! ```text
//!   new --poll: a look gives the value-----------------------------> done
//!   new --poll: retreats twice, has itself woken-------------------> new
//!   new --poll: registers--> waiting
//!   waiting --claimed, then resumed, then polled: commit-----------> done, or new again if it was only told
//!   waiting --dropped before the claim: withdraw-------------------> gone
//!   waiting --dropped after the claim: awaits the resume, gives back> gone
//! ```
//!
//! **Commit point**: the claim, as everywhere. A task that is polled between claim and resume stays
//! pending; the resume, under way by then, calls the waker that this poll has left. Once the
//! resumer has taken the waker for that, a poll waits the few instructions until the resumer is
//! done with the future. A drop waits for the resume, and others that were served by the same
//! change may be resumed earlier; wakers are called after the last of them (`deferred_wakers.rs`),
//! since one may drop such a future.
//!
//! **Cancellation** of a task is to drop its future. The tree of contexts is not asked: that tree
//! belongs to fibers and threads.
//!
//! **The race to fear**: the resume, on another thread, against the drop. The resumer takes the
//! waker under the lock, and then stores `resumed` (release), which is its last touch. The owner of
//! the future touches and frees the future only after seeing that (acquire).
//!
//! Resumed does not mean that nobody has the address of the trigger any more: the other arms of a
//! choice stand in their queues until the commit has withdrawn them, and the trigger refuses a
//! server that comes to them. So the host is not moved before that.
//!
//! Foreign code, that is cloning, calling and dropping wakers, runs outside of the lock.
#![allow(unsafe_code)] // The future is reached by address while it waits.

use crate::chain::barrier;
use crate::chain::deferred_wakers;
use crate::contract::current;
use crate::contract::fiber::{Fiber, Wake};
use crate::contract::trigger::{Outcome, Trigger};
use crate::primitives::atomic::{self, AtomicBool, Ordering};
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::lock::Lock;
use crate::wait::admission::spend_of_thread;
use crate::wait::source::{Source, Waitable, retreated};
use crate::wait::stand_in::{StandIn, StandIns};
use std::marker::PhantomPinned;
use std::mem;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Waker};

/// The scheduler of tasks that wait: a resume by a waker.
static TASKS: StandIns<Tasks> = StandIns::new();

struct Tasks;

/// The part that resumers of the task reach.
struct Host {
    fiber: Fiber,
    trigger: Trigger,
    mail: Lock<Mail>,
    resumed: AtomicBool,
}

struct Mail {
    waker: Option<Waker>,
    /// By the resumer: a poll is too late to leave another one.
    taken: bool,
}

impl Host {
    /// Waits until the resumer is done with the future.
    fn await_resume(&self) {
        while !self.resumed.load(Ordering::Acquire) {
            atomic::yield_now();
        }
    }
}

/// The future of a [`Waitable`], made by `.await`.
///
/// This future may be dropped at any instant: a value that was handed over by then goes to the next
/// waiter.
///
/// A task that never has to wait does not starve its neighbours, on whatever executor: when the
/// calling thread, or the fiber that polls, has begun 128 waits in futures, the next one wakes its
/// task and is pending, once. With [`Waker::noop`], which nobody hears, or any other waker of null
/// data, the wait is not pending.
#[must_use = "futures do nothing unless they are polled"]
pub struct SourceFuture<S: Source> {
    /// `None` after the output: an arm of a choice may still have a share in the value that others
    /// wait for.
    source: Option<S>,
    slot: S::Slot,
    /// `None` if nothing is registered.
    host: Option<Host>,
    /// Whether the only reason to be pending was the end of the turn.
    stood_back: bool,
    /// Others reach host and slot while the task has a `&mut` to the future.
    _shared: PhantomPinned,
}

// SAFETY: a source that is `Send` may go to another thread together with its slot, as `Source`
// says; the value is made on the thread that polls. The header and the mail are made for being
// reached from any thread, and its other fields are not used by this file.
unsafe impl<S: Source + Send> Send for SourceFuture<S> where S::Output: Send {}

impl<S: Source> IntoFuture for Waitable<S> {
    type Output = S::Output;
    type IntoFuture = SourceFuture<S>;

    fn into_future(self) -> SourceFuture<S> {
        let source = Some(self.into_source());
        SourceFuture { source, slot: S::Slot::default(), host: None, stood_back: false, _shared: PhantomPinned }
    }
}

impl<S: Source> Future for SourceFuture<S> {
    type Output = S::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<S::Output> {
        // SAFETY: nothing is moved out of the future.
        let this = unsafe { self.get_unchecked_mut() };
        let Some(source) = &this.source else { panic!("a future was polled after it had yielded its value") };
        barrier(source.waits_for(), || this.look(task.waker()))
    }
}

impl<S: Source> SourceFuture<S> {
    /// The value, or a wait for a wake-up of `waker`.
    fn look(&mut self, waker: &Waker) -> Poll<S::Output> {
        let may_look = if self.host.is_some() { self.resumed_or_told_whom(waker) } else { self.may_begin(waker) };
        if !may_look {
            return Poll::Pending;
        }
        match self.commit_if_resumed().or_else(|| self.start(waker)) {
            Some(output) => {
                self.source = None;
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    }

    /// Whether whatever polls, fiber or thread, may begin one more operation in this turn. If not,
    /// the task is woken, to be polled in another turn; unless nobody could hear of that.
    fn may_begin(&mut self, waker: &Waker) -> bool {
        let stood_back = mem::take(&mut self.stood_back);
        self.stood_back = current::with_running(|fiber| match fiber {
            // Whatever polls again has had another turn, or has none to give up.
            Some(fiber) if fiber.is_spent() && (stood_back || fiber.must_not_suspend()) => {
                fiber.refill();
                false
            }
            Some(fiber) => !stood_back && !fiber.spend(),
            None => !spend_of_thread() && !stood_back,
        });
        // Without data a waker tells nobody, or the only task there is. (`will_wake` does not know
        // the `noop` of another crate, which may have its own copy of the table.)
        self.stood_back &= !waker.data().is_null();
        if self.stood_back {
            waker.wake_by_ref();
        }
        !self.stood_back
    }

    /// Whether the waiting task was resumed; if not, `waker` is the one to call.
    fn resumed_or_told_whom(&mut self, waker: &Waker) -> bool {
        let host = self.host.as_ref().expect("the task waits");
        let mail = host.mail.lock();
        if !mail.taken && mail.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return false;
        }
        drop(mail);
        let mut waker = Some(waker.clone());
        let mut mail = host.mail.lock();
        let taken = mail.taken;
        if !taken {
            mem::swap(&mut mail.waker, &mut waker);
        }
        drop(mail);
        if taken {
            host.await_resume();
        }
        taken
    }

    /// Takes the value with which the task was resumed.
    fn commit_if_resumed(&mut self) -> Option<S::Output> {
        let outcome = self.host.as_ref()?.trigger.outcome();
        let Some(Outcome::Taken(arm)) = outcome else { unreachable!("a task is resumed by a claim") };
        // The host stays in place until the commit has withdrawn the other arms of a choice: until
        // then their queues have the trigger's address.
        let _ends = Ends(&raw mut self.host);
        // SAFETY: the source was registered, and taken through that arm; the claimer is done with
        // host and slot since the resume.
        unsafe { self.source.as_mut()?.commit(&mut self.slot, arm) }
    }

    /// Begins a wait: `None` if the task waits now.
    fn start(&mut self, waker: &Waker) -> Option<S::Output> {
        let source = self.source.as_mut()?;
        // A look first: if the value is there, nothing need be made.
        if let Some(output) = source.attempt() {
            return Some(output);
        }
        self.slot = S::Slot::default();
        // SAFETY: the trigger was just made.
        unsafe { source.prepare(&mut self.slot) };
        // SAFETY: there is no context.
        let fiber = unsafe { TASKS.header(ptr::null()) };
        let mail = Mail { waker: Some(waker.clone()), taken: false };
        let resumed = AtomicBool::new(false);
        self.host = Some(Host { fiber, trigger: Trigger::new(), mail: Lock::new(mail), resumed });
        // Unless the source is registered in the end: a look may yield, or unwind.
        let ends = Ends(&raw mut self.host);
        // Shared from here on, as long as somebody may resume the task.
        let host = self.host.as_ref().expect("just made");
        let waiter = ptr::from_ref(&host.fiber).cast_mut();
        // SAFETY: nobody knows the trigger yet, and the host stays in place, as below.
        unsafe { host.trigger.rearm(waiter) };
        // SAFETY: this is its scheduler, and the header has not waited yet. The host stays in
        // place, since the future is pinned, until the resume or the withdrawal.
        unsafe { host.fiber.set_host(ptr::from_ref(host).cast()) };
        // Others go first where the task is polled next.
        let pause = || {
            waker.wake_by_ref();
            Err(())
        };
        // SAFETY: slot and trigger are pinned; `commit` follows the resume, or `withdraw` or
        // `give_back` the drop. Nobody knows the trigger yet.
        let begun = unsafe {
            match source.register(&mut self.slot, &host.trigger, 0) {
                Ok(()) => Ok(None),
                Err(retreat) => retreated(source, &mut self.slot, &host.trigger, waiter, retreat, pause),
            }
        };
        if matches!(begun, Ok(None)) {
            mem::forget(ends);
        }
        begun.unwrap_or_default()
    }
}

/// Ends a wait of which nothing is registered, also while a step unwinds.
struct Ends(*mut Option<Host>);

impl Drop for Ends {
    fn drop(&mut self) {
        // SAFETY: made of the field of a future that is borrowed meanwhile; nobody else reaches
        // that field any more.
        unsafe { *self.0 = None };
    }
}

impl<S: Source> Drop for SourceFuture<S> {
    fn drop(&mut self) {
        let (Some(host), Some(source)) = (&self.host, &mut self.source) else { return };
        barrier(source.waits_for(), || {
            if host.trigger.withdraw().is_some() {
                // SAFETY: the source is registered, and was not taken.
                unsafe { source.withdraw(&mut self.slot) };
                return;
            }
            host.await_resume();
            let Some(Outcome::Taken(arm)) = host.trigger.outcome() else { unreachable!("nobody else withdraws") };
            // SAFETY: the source was registered, and taken through that arm.
            unsafe { source.give_back(&mut self.slot, arm) };
        });
    }
}

impl_debug!([S: Source] SourceFuture<S>, |it| waits: it.host.is_some());

// SAFETY: a task that waits returns from its poll, so the header is never current. The future stays
// until the resume's store is seen, which is the last touch.
unsafe impl StandIn for Tasks {
    #[inline]
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Resume, "tasks are in no context");
        // SAFETY: `start` has set the host, and the host is in place until the resume is seen.
        let host = unsafe { &*fiber.as_ref().host().cast::<Host>() };
        let mut mail = host.mail.lock();
        let waker = mail.waker.take();
        mail.taken = true;
        drop(mail);
        host.resumed.store(true, Ordering::Release);
        // A waker is foreign code, and a wake does not unwind (clause 9).
        waker.into_iter().for_each(deferred_wakers::wake_task);
    }
}
