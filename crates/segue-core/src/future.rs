//! The future of a source: what `.await` on a [`Waitable`] runs.
//!
//! Used by tasks of any async runtime, which thereby wait in the same queues as fibers and threads, by the same steps.
//!
//! # The idea
//!
//! To the structures a task that waits is a fiber like any other: it has a header, whose scheduler is the one in this file, and resuming it through
//! that scheduler calls the waker of the task. Header, trigger and slot lie in the future, which is pinned; so nothing is allocated.
//!
//! # States
//!
//! ```text
//!   new --poll: start gives the value------------------------------> done
//!   new --poll: joins the queue--> waiting
//!   waiting --claimed, then resumed, then polled: commit-----------> done, or new again if it was only told
//!   waiting --dropped before the claim: withdraw-------------------> gone
//!   waiting --dropped after the claim: awaits the resume, gives back> gone
//! ```
//!
//! **Commit point**: the claim, as everywhere. A task that is polled between claim and resume stays pending; the resume, under way by then, calls the waker that
//! this poll has left. Once the waker was taken for that, a poll waits the few instructions out until whoever resumes is done with the future. A drop waits for the resume, and others
//! that were served by the same change may be resumed before it; wakers are called after the last of them (`deferred.rs`), since one may drop such a future.
//!
//! **Cancellation** of a task is to drop its future. The tree of contexts is not asked: it belongs to fibers and threads.
//!
//! **The race to fear**: the resume, on another thread, against the drop. Whoever resumes takes the waker under the lock, and then stores `resumed`
//! (release), which is its last touch. The owner of the future touches and frees it only when it has seen that (acquire).
//!
//! Resumed does not mean that nobody has the address of the trigger any more: the other arms of a choice stand in their queues until the commit has withdrawn
//! them, and whoever would serve them is refused by the trigger. So the host is not moved before that.
//!
//! Foreign code, that is cloning, calling and dropping wakers, runs outside of the lock.
#![allow(unsafe_code)] // The future is reached by address while it waits.

use crate::atomic::{self, AtomicBool, Ordering};
use crate::deferred;
use crate::fiber::Fiber;
use crate::job::Identity;
use crate::job::Job;
use crate::lock::Lock;
use crate::scheduler::{Scheduler, Wake};
use crate::source::{Source, Waitable};
use crate::thread;
use crate::time::Timers;
use crate::trigger::{Outcome, Trigger};
use std::marker::PhantomPinned;
use std::mem;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Waker};

/// The scheduler of tasks that wait: it resumes them by their wakers. It has a size so that its address is its own.
struct Tasks {
    _address: u8,
}

static TASKS: Tasks = Tasks { _address: 0 };

/// What those who resume the task reach.
struct Host {
    fiber: Fiber,
    trigger: Trigger,
    mail: Lock<Mail>,
    resumed: AtomicBool,
}

struct Mail {
    waker: Option<Waker>,
    /// By whoever resumes: who polls is too late to leave another one.
    taken: bool,
}

impl Host {
    /// Waits until whoever resumes is done with the future.
    fn await_resume(&self) {
        while !self.resumed.load(Ordering::Acquire) {
            atomic::yield_now();
        }
    }
}

/// The future of a [`Waitable`], made by `.await` on it.
///
/// It may be dropped at any instant: what it had been handed by then goes to the next waiter.
#[must_use = "futures do nothing unless they are polled"]
pub struct SourceFuture<S: Source> {
    /// `None` once it has yielded: an arm of a choice may still have a share in what others wait for.
    source: Option<S>,
    slot: S::Slot,
    /// `None` if nothing is registered.
    host: Option<Host>,
    /// Others reach host and slot while the task has a `&mut` to the future.
    _shared: PhantomPinned,
}

// SAFETY: a source that is `Send` may go to another thread together with its slot, as `Source` says; the value is made on the thread that polls.
// The header and the mail are made for being reached from any thread, and its other fields are not used by this file.
unsafe impl<S: Source + Send> Send for SourceFuture<S> where S::Output: Send {}

impl<S: Source> IntoFuture for Waitable<S> {
    type Output = S::Output;
    type IntoFuture = SourceFuture<S>;

    fn into_future(self) -> SourceFuture<S> {
        let source = self.into_source();
        let slot = source.slot();
        SourceFuture { source: Some(source), slot, host: None, _shared: PhantomPinned }
    }
}

impl<S: Source> Future for SourceFuture<S> {
    type Output = S::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<S::Output> {
        // SAFETY: nothing is moved out of the future.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(this.source.is_some(), "a future was polled after it had yielded its value");
        if this.host.is_some() && !this.resumed_or_told_whom(task.waker()) {
            return Poll::Pending;
        }
        let output = this.commit_if_resumed().or_else(|| this.start(task.waker()));
        match output {
            Some(output) => {
                this.source = None;
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    }
}

impl<S: Source> SourceFuture<S> {
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

    /// Takes what the task was resumed with.
    fn commit_if_resumed(&mut self) -> Option<S::Output> {
        /// Ends the wait, also if the commit unwinds.
        struct Clear(*mut Option<Host>);
        impl Drop for Clear {
            fn drop(&mut self) {
                // SAFETY: made of the field of a future that is borrowed meanwhile; nobody else reaches it any more.
                unsafe { *self.0 = None };
            }
        }
        let outcome = self.host.as_ref()?.trigger.outcome();
        let Some(Outcome::Taken(arm)) = outcome else { unreachable!("a task is resumed by a claim") };
        // The host stays where it is until the commit has withdrawn the other arms of a choice: until then their queues have the trigger's address.
        let _clear = Clear(&raw mut self.host);
        // SAFETY: it was registered, and taken through that arm; whoever did it is done with host and slot since the resume.
        unsafe { self.source.as_mut()?.commit(&mut self.slot, arm) }
    }

    /// Begins a wait: `None` if the task waits now.
    fn start(&mut self, waker: &Waker) -> Option<S::Output> {
        let source = self.source.as_mut()?;
        // A look first: if the value is there, nothing need be made.
        if let Some(output) = source.attempt() {
            return Some(output);
        }
        self.slot = source.slot();
        // SAFETY: the scheduler is static, and there are no context and no family.
        let fiber = unsafe { Fiber::new(NonNull::from(&TASKS), 0, Identity::in_context(ptr::null())) };
        let mail = Mail { waker: Some(waker.clone()), taken: false };
        let resumed = AtomicBool::new(false);
        self.host = Some(Host { fiber, trigger: Trigger::new(), mail: Lock::new(mail), resumed });
        // Shared from here on, as long as somebody may resume the task.
        let host = self.host.as_ref().expect("just made");
        host.trigger.rearm(ptr::from_ref(&host.fiber).cast_mut());
        // SAFETY: this is its scheduler, and it has not waited yet. The host stays in place, since the future is pinned, until it was
        // resumed or withdrawn.
        unsafe { host.fiber.set_host(ptr::from_ref(host).cast()) };
        // SAFETY: slot and trigger are pinned; `commit` follows the resume, or `withdraw` or `give_back` the drop. Nobody knows
        // the trigger yet.
        let output = unsafe { source.start(&mut self.slot, &host.trigger, 0) };
        if output.is_some() {
            self.host = None;
        }
        output
    }
}

impl<S: Source> Drop for SourceFuture<S> {
    fn drop(&mut self) {
        let (Some(host), Some(source)) = (&self.host, &mut self.source) else { return };
        if host.trigger.withdraw().is_some() {
            // SAFETY: it is registered, and was not taken.
            unsafe { source.withdraw(&mut self.slot) };
            return;
        }
        host.await_resume();
        let Some(Outcome::Taken(arm)) = host.trigger.outcome() else { unreachable!("nobody else withdraws") };
        // SAFETY: it was registered, and taken through that arm.
        unsafe { source.give_back(&mut self.slot, arm) };
    }
}

impl<S: Source> std::fmt::Debug for SourceFuture<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFuture").field("waits", &self.host.is_some()).finish_non_exhaustive()
    }
}

// SAFETY: clause 1 and 2: its fibers are never suspended: a task returns from its poll instead. 3: they are never current. 4: the future stays until the
// resume was seen, whose store is the last touch.
unsafe impl Scheduler for Tasks {
    unsafe fn suspend(&self, _fiber: &Fiber) {
        unreachable!("a task that waits returns from its poll");
    }

    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Resume, "tasks are in no context");
        // SAFETY: `start` has set the host, and it is in place until the resume is seen.
        let host = unsafe { &*fiber.as_ref().host().cast::<Host>() };
        let mut mail = host.mail.lock();
        let waker = mail.waker.take();
        mail.taken = true;
        drop(mail);
        host.resumed.store(true, Ordering::Release);
        // A waker is foreign code, and a wake does not unwind (clause 9).
        waker.into_iter().for_each(deferred::wake_task);
    }

    unsafe fn yield_now(&self, _fiber: &Fiber) {}

    fn spawn(&self, job: Job) {
        thread::scheduler().spawn(job);
    }

    fn timers(&self) -> &Timers {
        thread::scheduler().timers()
    }
}
