//! The cancellation tree: contexts that are cancelled from the outside, and what their members see of it.
//!
//! Used by scopes and runtimes, which own contexts, by `cancel.rs`, and by triggers, which ask before they wait.
//!
//! # The idea
//!
//! Cancellation is a value. A context is a flag with a list of who is inside: the fibers that have waited in it, and the contexts nested
//! in it. To cancel marks the flag of the context and of everything below it, and asks each member to look (an *interrupt*).
//! The rest is done by the member's own thread: a suspended fiber leaves its wait, a running one finds the flag at its next.
//!
//! # States
//!
//! A context is open, then cancelled, for ever: the flag is set under the context's lock and never cleared. A nested context
//! that is made under a cancelled one is born cancelled.
//!
//! # What else cancels
//!
//! **A deadline** is a canceller that stands among the timers of the caller's scheduler (`cancel.rs` puts it there and takes it out again). A timer fires only when its worker looks at
//! the clock, and a fiber that computes keeps it from that. So each context also knows the earliest deadline of its own and those around it, with the clock that this is told by, and whoever asks
//! whether it is cancelled also asks whether it [is overdue](Context::is_overdue): who finds that it is cancels it there and then, as the timer would have. Timer and asker may both
//! do so; the first one sets the flag, and both have the same reason. A context whose deadline is that of one further out is cancelled by this with what is below it; the one further out is when its own
//! timer fires or somebody asks in it.
//!
//! **A follower** is what runs under a token: a context that is nested in the caller's, as every other, and is cancelled with the token's too. Its entry in the token's list lies in the frame of
//! [`run_following`](Context::run_following) and is taken out, under the token's lock, before that frame ends. The canceller counts the context up under the same lock, so that it may outlive
//! the frame and is cancelled with nothing inside. As for a fiber, it joins the list first and looks at the flag second: so it is found by the walk, or sees the flag.
//!
//! **The race to fear**: a fiber that looks at the flag just before it is set, and suspends just after the walk has passed. It cannot:
//! a fiber joins the member list before it looks. If it joins before the walk, the walk interrupts it. If after, then the
//! lock that it took to join was released by the walk, which had set the flag.
//!
//! # Orderings
//!
//! The flag is stored under the lock (release by the unlock) and read after the lock was taken to join (acquire). Plain reads
//! elsewhere are hints whose truth is settled at the next wait; they acquire, so that what the canceller did before is seen after.
#![allow(unsafe_code)] // Members are reached by address: a fiber's header, a nested context.

use crate::atomic::{AtomicBool, Ordering};
use crate::cancel::{Cancelled, Reason};
use crate::deferred;
use crate::fiber::{self, Fiber};
use crate::list::{Linked, Links, List};
use crate::lock::Lock;
use crate::scheduler::Wake;
use crate::thread;
use crate::time::{TimedOut, Timers};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// One node of the tree.
pub(crate) struct Context {
    cancelled: AtomicBool,
    /// Set before the flag, if ever.
    reason: OnceLock<Arc<Reason>>,
    members: Lock<Members>,
    /// When it is to be cancelled, by whose clock: the earliest of its own deadline and those around it.
    deadline: Option<(Instant, Timers)>,
    /// Set at birth, cleared when the context ends; the parent outlives it.
    parent: Cell<*const Context>,
    /// Belongs to the parent's lock.
    links: Links<Context>,
}

struct Members {
    fibers: List<Fiber>,
    nested: List<Context>,
    followers: List<Follower>,
}

/// A context that is cancelled with another one in which it is not nested. It lies in the frame that runs inside of it.
struct Follower {
    context: Arc<Context>,
    /// Belongs to the lock of the one that is followed.
    links: Links<Follower>,
}

impl Linked for Follower {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Linked for Context {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: `parent` is read and written by the thread that makes and ends the context alone; `links` belongs to the parent's lock;
// the rest is atomic or locked.
unsafe impl Sync for Context {}
// SAFETY: as above; the last owner of an ended context only frees it.
unsafe impl Send for Context {}

impl Context {
    /// A context that nothing above can cancel.
    pub(crate) fn root() -> Arc<Self> {
        Self::new(None)
    }

    fn new(deadline: Option<(Instant, Timers)>) -> Arc<Self> {
        Arc::new(Self {
            cancelled: AtomicBool::new(false),
            reason: OnceLock::new(),
            deadline,
            members: Lock::new(Members { fibers: List::new(), nested: List::new(), followers: List::new() }),
            parent: Cell::new(ptr::null()),
            links: Links::new(),
        })
    }

    /// A context inside of the caller's. It must [`end`](Context::end) before that does.
    pub(crate) fn nested() -> Arc<Self> {
        Self::nested_until(None)
    }

    /// As [`nested`](Context::nested), with a deadline, which is [noticed](Context::is_overdue) by those who ask; that it is cancelled then falls to the caller.
    pub(crate) fn nested_until(deadline: Option<(Instant, Timers)>) -> Arc<Self> {
        // SAFETY: the caller is inside of the parent, so it is alive.
        let parent = unsafe { thread::context().as_ref() };
        let around = parent.and_then(|parent| parent.deadline.clone());
        let sooner = match (deadline, around) {
            // By the clock of the one that is new, if there are two.
            (Some(new), Some(around)) => Some(if around.0 < new.0 { around } else { new }),
            (new, around) => new.or(around),
        };
        let context = Self::new(sooner);
        if let Some(parent) = parent {
            context.parent.set(parent);
            let mut members = parent.members.lock();
            if parent.is_cancelled() {
                context.mark(parent.reason.get().cloned());
            }
            // SAFETY: the context is kept alive and linked until `end`, which takes it out.
            // Its address comes from the `Arc` and not from a reference: `cancel` makes another `Arc` of it.
            unsafe { members.nested.push_back(NonNull::new_unchecked(Arc::as_ptr(&context).cast_mut())) };
        }
        context
    }

    /// Leaves the tree. Called by whoever made it, when nothing is inside any more; again has no effect.
    pub(crate) fn end(&self) {
        // SAFETY: the parent outlives what is nested in it.
        if let Some(parent) = unsafe { self.parent.replace(ptr::null()).as_ref() } {
            let mut members = parent.members.lock();
            // SAFETY: this context is in the parent's list since `nested`.
            unsafe { members.nested.remove(NonNull::from(self)) };
        }
    }

    /// Runs `f` inside of this context.
    pub(crate) fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        enter(self, f)
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Whether its deadline has passed. It is cancelled then, if its timer has not fired yet: a fiber that computes keeps its own worker from it.
    #[inline]
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline.as_ref().is_some_and(|(at, timers)| self.cancel_if_past(*at, timers))
    }

    #[cold]
    fn cancel_if_past(&self, at: Instant, timers: &Timers) -> bool {
        let past = at <= timers.now();
        if past {
            self.cancel(Some(Reason::new(TimedOut::new())));
        }
        past
    }

    /// What a wait in this context fails with.
    pub(crate) fn error(&self) -> Cancelled {
        Cancelled::because(self.reason.get().cloned())
    }

    /// Sets the flag, and the reason before it. Answers whether it was set already.
    fn mark(&self, reason: Option<Arc<Reason>>) -> bool {
        if self.is_cancelled() {
            return true;
        }
        if let Some(reason) = reason {
            // Who marks holds the lock, or is alone: it is the first.
            let _ = self.reason.set(reason);
        }
        self.cancelled.store(true, Ordering::Release);
        false
    }

    /// Cancels this context and all below it, for `reason`. Again has no effect. Never waits.
    pub(crate) fn cancel(&self, reason: Option<Arc<Reason>>) {
        // Walked with a list of our own and not by recursion: nesting has no bound.
        let mut todo = Vec::new();
        self.cancel_members(reason.clone(), &mut todo);
        while let Some(context) = todo.pop() {
            context.cancel_members(reason.clone(), &mut todo);
        }
    }

    /// Sets the flag, interrupts the fibers inside, and notes what else is to be cancelled.
    fn cancel_members(&self, reason: Option<Arc<Reason>>, todo: &mut Vec<Arc<Self>>) {
        let members = self.members.lock();
        if self.mark(reason) {
            return;
        }
        members.fibers.for_each(|fiber| {
            // SAFETY: the fiber is a member, and this is its context's lock.
            unsafe { Fiber::wake(fiber, Wake::Interrupt) };
        });
        members.nested.for_each(|nested| {
            // SAFETY: every context was made by `new` inside an `Arc`, and one that is linked is alive.
            unsafe {
                Arc::increment_strong_count(nested.as_ptr());
                todo.push(Arc::from_raw(nested.as_ptr()));
            }
        });
        members.followers.for_each(|follower| {
            // SAFETY: a follower that is linked is in place.
            todo.push(Arc::clone(&unsafe { follower.as_ref() }.context));
        });
        drop(members);
        deferred::call_deferred();
    }

    /// Runs `f` in a context of its own, inside of the caller's, that is cancelled with this one too.
    pub(crate) fn run_following<T>(&self, f: impl FnOnce() -> T) -> T {
        struct Unfollow<'a>(&'a Context, &'a Follower);
        impl Drop for Unfollow<'_> {
            fn drop(&mut self) {
                let mut members = self.0.members.lock();
                // SAFETY: it is in this list since it was made.
                unsafe { members.followers.remove(NonNull::from(self.1)) };
                drop(members);
                self.1.context.end();
            }
        }
        let follower = Follower { context: Self::nested(), links: Links::new() };
        let unfollow = Unfollow(self, &follower);
        let mut members = self.members.lock();
        // SAFETY: it lies in this frame, and is taken out before that ends.
        unsafe { members.followers.push_back(NonNull::from(unfollow.1)) };
        let late = self.is_cancelled();
        drop(members);
        if late {
            follower.context.cancel(self.reason.get().cloned());
        }
        follower.context.enter(f)
    }

    /// # Safety
    /// The fiber is in no list, stays in place until it is removed, and calls this itself.
    pub(crate) unsafe fn add_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.push_back(fiber) };
    }

    /// # Safety
    /// The fiber is a member of this context.
    pub(crate) unsafe fn remove_member(&self, fiber: NonNull<Fiber>) {
        // SAFETY: as the caller promises.
        unsafe { self.members.lock().fibers.remove(fiber) };
    }
}

/// Calls `f` with the context that the caller is in, if any.
#[inline]
pub(crate) fn innermost<R>(f: impl FnOnce(&Context) -> R) -> Option<R> {
    // SAFETY: the caller is inside of the context, so it is alive.
    unsafe { thread::context().as_ref() }.map(f)
}

/// Who runs, and where in the tree. Each context that is entered is left with the same.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Here {
    fiber: *const Fiber,
    /// The fiber's mark, since another one may have come to its address; of a plain thread, how many waits it is in.
    number: u64,
    context: *const Context,
}

impl Here {
    #[inline]
    fn now() -> Here {
        let fiber = fiber::current();
        // SAFETY: the current header is in place.
        match unsafe { fiber.as_ref() } {
            Some(here) => Here { fiber, number: here.mark(), context: here.context() },
            None => Here { fiber, number: thread::waits(), context: thread::context() },
        }
    }
}

/// Runs `f` inside of `context`, and outside of it again whichever way `f` ends.
///
/// Contexts are left in the order opposite to that in which they were entered, by the fiber that entered them: what they nest in outlives them because of that, and is gone otherwise. Frames mostly see to it. But
/// computations can be captured in the middle (effects, generators) and go on elsewhere. If that leaves a context at the wrong time or place the process ends, there and then.
pub(crate) fn enter<R>(context: *const Context, f: impl FnOnce() -> R) -> R {
    struct Restore {
        inside: Here,
        before: *const Context,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            if Here::now() != self.inside {
                astray();
            }
            // SAFETY: the current header is in place.
            if let Some(fiber) = unsafe { fiber::current().as_ref() }
                && !self.inside.context.is_null()
            {
                fiber.leave_context(self.inside.context);
            }
            thread::enter_context(self.before);
        }
    }
    let before = thread::enter_context(context);
    let _restore = Restore { inside: Here::now(), before };
    f()
}

/// Runs `f`, which is all that a fiber does. If it leaves a computation behind that is captured inside of a context, of a wait's registration or of what runs as a plain thread, the process ends, as in [`enter`]: what
/// is on the captured stack refers to the fiber, and to the contexts around, all of which are about to go. And who runs on as a plain thread would not leave the fiber's contexts.
#[inline]
pub(crate) fn whole<R>(f: impl FnOnce() -> R) -> R {
    #[inline]
    fn now() -> (*const Fiber, *const Context, bool) {
        let fiber = fiber::current();
        // SAFETY: the current header is in place.
        let registers = unsafe { fiber.as_ref() }.is_some_and(Fiber::registers);
        (fiber, thread::context(), registers)
    }
    let before = now();
    let result = f();
    if now() != before {
        astray();
    }
    result
}

#[cold]
#[inline(never)]
pub(crate) fn astray() -> ! {
    eprintln!(
        "segue: a computation that was suspended by an effect or as a generator, inside of a scope, timeout, shield, wait or the like, was not resumed before its surroundings were left, or \
         elsewhere; resume it where it was suspended, or perform and give outside of these; aborting"
    );
    std::process::abort();
}
