//! An async task: a future that a scheduler runs, next to its fibers and by the same workers.
//!
//! Used through `spawn_task`; schedulers see only [`Job`]s, and joiners a
//! [`JoinHandle`](crate::JoinHandle).
//!
//! # The idea
//!
//! A poll is a closure that has not started: so each poll is a job, which goes where such jobs go,
//! and which any worker may start. In a wait the task has no stack, and between two polls the task
//! may move to another thread, for which the compiler checks that the future is `Send`. An async
//! task differs from a fiber's task only in that its job may come back: a poll that yields nothing
//! leaves the same job to the waker.
//!
//! Wakers share a *ring*, which outlives the task: one word that tells a wake its action, and the
//! address of the job's header.
//!
//! # States of the ring
//!
//! ```text
//!   QUEUED --the job runs--> POLLING            a scheduler, which has the one job
//!   POLLING --pending--> IDLE                   the poll, as the last thing that it does
//!   POLLING --wake--> WOKEN                     any thread; the poll queues the job again when it has returned
//!   WOKEN --pending--> QUEUED                   the poll, which then makes the job
//!   IDLE --wake--> QUEUED                       any thread, which then makes the job
//!   POLLING, WOKEN --ready, panicked, cancelled--> OVER
//!   QUEUED --the job is dropped--> OVER
//! ```
//!
//! There is one job while QUEUED, which has the task to itself, none while IDLE, and the poll has
//! the task in between. So the header is in place in any state but OVER, and only the thread that
//! made the transition to QUEUED may touch it.
//!
//! **Commit point** of the task: the claim of `done`, as for fibers. **Cancellation**: at its first
//! `Pending` the task joins the context of its spawn, by a header that is never suspended; an
//! interrupt is a wake, and a poll that finds the context cancelled drops the future instead of
//! polling it. The task leaves that context before its end. **The race to fear**: a wake that comes
//! while the poll is about to return. Such a wake meets POLLING, and then the poll does not find
//! that; or IDLE, and then the wake queues the job itself. The poll touches nothing of the task
//! after IDLE, since another thread may have ended the task by then.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the poll's exchange to IDLE | the wake's exchange to QUEUED, and by the job the next poll | the future's state after the last poll |
//! | the wake's exchange, also one that changes nothing | the exchange to POLLING of the next poll | the work before the wake |
// The future is polled in place, in the allocation that its job and its handle share.
#![allow(unsafe_code)]

use crate::chain::deferred_wakers;
use crate::chain::unwind::{__rust_begin_short_backtrace, caught};
use crate::chain::{self, Heritage, barrier};
use crate::contract::fiber::{Fiber, Spawn, Wake};
use crate::contract::job::{Given, Job, JobHeader, Work};
use crate::contract::slots::ContextHead;
use crate::primitives::atomic::{AtomicU8, Ordering};
use crate::primitives::payload::Panic;
use crate::primitives::prefetch::prefetch_bytes;
use crate::primitives::waits_for::WaitsFor;
use crate::spawn::family::Family;
use crate::spawn::join_error::Failed;
use crate::spawn::task::{self, Head, Task};
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::tree::membership;
use crate::values::locals::{self, Locals};
use crate::wait::stand_in::{StandIn, StandIns};
use std::marker::PhantomPinned;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

const QUEUED: u8 = 0;
const POLLING: u8 = 1;
const WOKEN: u8 = 2;
const IDLE: u8 = 3;
const OVER: u8 = 4;

/// The bytes of a task that are fetched before its poll: most of a small one.
const FETCHED: usize = 640;

/// The part that wakers share.
struct Ring {
    state: AtomicU8,
    header: NonNull<JobHeader>,
    spawner: Arc<dyn Spawn + Send + Sync>,
}

// SAFETY: only the thread that has made the transition to QUEUED touches the header, one at a time.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// The job runs.
    fn begin(&self) {
        // An exchange, and not a store: this acquires the work before wakes that found QUEUED.
        self.state.swap(POLLING, Ordering::Acquire);
    }

    /// The poll has yielded nothing: answers whether the task waits now; if not, the caller queues
    /// the job.
    #[must_use]
    fn rest(&self) -> bool {
        let rests = self.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !rests {
            // An exchange, and not a store: the releases of wakes that found WOKEN since stay in
            // the word, for `begin`.
            self.state.swap(QUEUED, Ordering::Relaxed);
        }
        rests
    }

    /// # Safety
    /// The caller has made the transition to QUEUED.
    unsafe fn queue(&self) {
        // SAFETY: by the states the task is there, has no other job, and nobody else touches the
        // task; the header is the first field of its work.
        let job = unsafe { Job::from_raw(self.header) };
        // The next poll comes within a few turns, after perhaps a long wait.
        prefetch_bytes(self.header.as_ptr(), FETCHED);
        barrier(WaitsFor::new("the wake-up of a task"), || self.spawner.spawn(job));
    }
}

impl std::task::Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let to = match state {
                IDLE => QUEUED,
                POLLING => WOKEN,
                // The next poll must see the wake, so the earlier work is released all the same.
                other => other,
            };
            match self.state.compare_exchange_weak(state, to, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: this was the transition to QUEUED.
                Ok(IDLE) => return unsafe { self.queue() },
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }
}

/// The future that an async task has in place of a closure.
pub(crate) struct Polls<F> {
    future: F,
    spawner: Arc<dyn Spawn + Send + Sync>,
    /// The settings of each poll's fiber.
    given: Given,
    /// Made by the first poll.
    ring: Option<Arc<Ring>>,
    /// The fiber-local values between two polls.
    locals: *mut Locals,
    /// Whether the future was polled.
    began: bool,
    /// Stands for the task in the context of its spawn.
    member: Fiber,
    /// Cancellers, and other members, reach the member while a poll has all of this for itself.
    _shared: PhantomPinned,
}

/// The result of the task, a `T`, from the output of the future.
pub trait Ending<T> {
    /// Whether the task has begun with the first poll. If not, a cancelled one never ran; and its
    /// code in the last poll inherits as a fiber of its family does.
    const BEGINS_AT_ONCE: bool;

    fn into_result(self) -> Result<T, Failed>;
}

impl<T> Ending<T> for T {
    const BEGINS_AT_ONCE: bool = true;

    #[inline(always)]
    fn into_result(self) -> Result<T, Failed> {
        Ok(self)
    }
}

/// A task that is polled.
#[repr(transparent)]
pub(crate) struct AsyncTask<F, T>(Task<Polls<F>, T>);

impl<F: Future> Polls<F> {
    /// # Safety
    /// `context` stays until the task has finished, or is null.
    pub(crate) unsafe fn new(
        future: F,
        spawner: Arc<dyn Spawn + Send + Sync>,
        given: &Given,
        context: *const ContextHead,
    ) -> Self {
        // SAFETY: as the caller promises.
        let member = unsafe { ASYNC.header(context) };
        Self {
            future,
            spawner,
            given: given.clone(),
            ring: None,
            locals: ptr::null_mut(),
            began: false,
            member,
            _shared: PhantomPinned,
        }
    }

    /// Polls the future; `None` for a wait in a context that is not cancelled.
    ///
    /// # Safety
    /// The future stays in place until its drop there. The family is the task's, or null.
    unsafe fn poll<T>(&mut self, header: NonNull<JobHeader>, family: *const Family) -> Option<Result<T, Failed>>
    where
        F::Output: Ending<T>,
    {
        let spawner = &self.spawner;
        let make = || Ring { state: AtomicU8::new(QUEUED), header, spawner: Arc::clone(spawner) };
        let ring = self.ring.get_or_insert_with(|| Arc::new(make()));
        ring.begin();
        if !self.locals.is_null() {
            // SAFETY: the last poll has taken the table out of its fiber, and this poll's fiber
            // begins.
            unsafe { locals::put(mem::replace(&mut self.locals, ptr::null_mut())) };
        }
        if let Err(cancelled) = crate::wait::admission::check() {
            return Some(Err(Failed::Cancelled(cancelled)));
        }
        self.began = F::Output::BEGINS_AT_ONCE;
        let waker = Waker::from(Arc::clone(ring));
        // SAFETY: as the caller promises.
        let future = unsafe { Pin::new_unchecked(&mut self.future) };
        let poll = || __rust_begin_short_backtrace(|| future.poll(&mut Context::from_waker(&waker)));
        let inherits = || match F::Output::BEGINS_AT_ONCE {
            true => poll(),
            // SAFETY: as the caller promises; the family counts the task, and the values that it
            // hands down outlive the task.
            false => unsafe { chain::inherit(family.as_ref().map_or(Heritage::NONE, |family| family.heritage), poll) },
        };
        match catch_unwind(AssertUnwindSafe(inherits)) {
            Ok(Poll::Ready(value)) => return Some(value.into_result()),
            Err(payload) => return Some(Err(Failed::Panicked(Panic::new(payload)))),
            Ok(Poll::Pending) => {}
        }
        // The fiber of this poll ends, and the task is a member in its stead, from the first time
        // on: of the context of its spawn, for a poll anywhere.
        if self.member.host().is_null() {
            // SAFETY: `ASYNC` is its scheduler; the ring is dropped after the member has left its
            // context.
            unsafe { self.member.set_host(Arc::as_ptr(ring).cast()) };
            self.member.join_context();
        }
        membership::leave_contexts();
        if self.member.is_cancelled() {
            return Some(Err(Failed::Cancelled(self.member.cancelled())));
        }
        self.locals = locals::take();
        None
    }
}

// SAFETY: `repr(transparent)`, `repr(C)` of the task: the header comes first. The future and its
// output are `Send` (see `task::new_async`).
unsafe impl<F: Future<Output: Ending<T>>, T> Work for AsyncTask<F, T> {
    #[inline(always)] // As that of a closure.
    unsafe fn run(this: NonNull<Self>) {
        let task = this.cast::<Task<Polls<F>, T>>();
        // SAFETY: the job has the task to itself. The future is in the task's allocation until
        // `over` drops that.
        let ended = unsafe {
            let polls = (*task.as_ref().closure.get()).as_mut().expect("it has not ended");
            let ended = polls.poll(this.cast(), task.cast::<Head>().as_ref().family());
            if ended.is_none() {
                let ring = Arc::clone(polls.ring.as_ref().expect("made by the poll"));
                this.cast::<JobHeader>().as_ref().give(polls.given.clone());
                // From IDLE on the task may be polled, and end, elsewhere.
                if !ring.rest() {
                    ring.queue();
                }
            }
            ended
        };
        if let Some(result) = ended {
            // SAFETY: the poll has ended the task, and nobody else has the task.
            unsafe { over(task, result, true) };
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: the job has the task to itself, and is gone.
        unsafe { over(this.cast::<Task<Polls<F>, T>>(), Err(Failed::Cancelled(Cancelled::new())), false) };
    }
}

/// The end of a task: the future is dropped, and the handle told. The fiber of a poll `retires`; a
/// thread that drops the job does not.
///
/// # Safety
/// Called once, by the side that has the task to itself.
unsafe fn over<F, T>(task: NonNull<Task<Polls<F>, T>>, result: Result<T, Failed>, retires: bool) {
    let head = task.cast::<Head>();
    // SAFETY: as the caller promises.
    unsafe {
        let closure = task.as_ref().closure.get();
        let began = (*closure).as_ref().is_some_and(|polls| polls.began);
        if let Some(polls) = &*closure {
            if let Some(ring) = &polls.ring {
                ring.state.store(OVER, Ordering::Relaxed);
            }
            polls.member.leave_context(std::ptr::null());
        }
        // None if this is the fiber of a poll, which has them.
        let kept = (*closure).as_ref().map_or(ptr::null_mut(), |polls| polls.locals);
        let end = || {
            // In place, since the future is pinned; foreign code.
            let dropped = caught(|| *closure = None);
            match result {
                Err(Failed::Cancelled(cancelled)) if !began => task::store_unstarted(head, dropped, cancelled),
                result => {
                    match result {
                        Err(Failed::Panicked(panic)) => task::store_panic(head, panic.into_payload()),
                        result => task::store(head, result),
                    }
                    if let Err(payload) = dropped {
                        task::note_panic(head, payload);
                    }
                }
            }
            let note = |payload| task::note_panic(head, payload);
            if retires {
                locals::end(note);
            } else {
                // The future to begin with, or to go on with.
                task::discard_inherited(head);
                locals::discard(kept, note);
            }
            // A value that nobody takes is dropped inside of the context.
            task::settle(head, task::free::<Polls<F>, T>)
        };
        let settled = if retires { here::retire_ended(end) } else { task::within_context(head, end) };
        settled.leave();
    }
}

/// The scheduler of the headers that stand for async tasks.
static ASYNC: StandIns<Async> = StandIns::new();

struct Async;

// SAFETY: the member is never current, and leaves its context before the task ends.
unsafe impl StandIn for Async {
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Interrupt, "what stands for a task does not wait");
        // SAFETY: the caller holds the lock of the context, which the member has to leave before
        // the ring is dropped; and the pointer is that of an `Arc`.
        let ring = unsafe {
            let ring = fiber.as_ref().host().cast::<Ring>();
            Arc::increment_strong_count(ring);
            Arc::from_raw(ring)
        };
        deferred_wakers::wake_after_interrupt(Waker::from(ring));
    }
}
