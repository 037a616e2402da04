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
//! Wakers share a *ring* (`ring.rs`): one word that tells a wake its action, and the address of the
//! job's header. The ring lies in the task's one allocation. Wakers may outlive the task, and the
//! memory stays as long.
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
// The future is polled in place, in the allocation that its job and its handle share.
#![allow(unsafe_code)]

use crate::chain::deferred_wakers;
use crate::chain::unwind::{__rust_begin_short_backtrace, caught};
use crate::chain::{self, Heritage};
use crate::contract::fiber::{Fiber, Spawn, Wake};
use crate::contract::job::{Given, Job, JobHeader, Work};
use crate::primitives::payload::Panic;
use crate::spawn::family::Family;
use crate::spawn::join_error::Failed;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::ring::Ring;
use crate::spawn::spare;
use crate::spawn::task::{self, Edges, Ended, Handle, Head};
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::tree::membership;
use crate::tree::reports::forget_job;
use crate::values::locals::{self, Locals};
use crate::wait::stand_in::{StandIn, StandIns};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::{self, ManuallyDrop, offset_of};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The part of an async task that its polls have: the future, in place of a closure.
struct Polls<F> {
    /// The settings of the fibers of later polls, if any were given.
    given: Option<Box<Given>>,
    /// The fiber-local values between two polls.
    locals: *mut Locals,
    /// Whether the future was polled.
    began: bool,
    /// Stands for the task in the context of its spawn.
    member: Fiber,
    future: F,
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
#[repr(C)] // The part that the handle knows comes first, and in it the job's header.
struct AsyncTask<F, T> {
    ended: Ended<T>,
    ring: Ring,
    /// Dropped at the end of the task.
    polls: UnsafeCell<ManuallyDrop<Polls<F>>>,
}

impl<F: Future<Output: Ending<T>>, T> AsyncTask<F, T> {
    // The edge that drops a closure is that of a task which never began. Here `over` does that.
    const EDGES: &'static Edges = &Edges { drop_closure: |_| (), fail: task::fail::<T>, free: free::<F, T> };

    /// # Safety
    /// There is memory for a task, made from the address of all of it.
    unsafe fn ring(this: NonNull<Self>) -> NonNull<Ring> {
        // SAFETY: a field of the task, as the caller promises.
        unsafe { NonNull::new_unchecked(&raw mut (*this.as_ptr()).ring) }
    }
}

/// As `task::new`, for a future.
///
/// # Safety
/// As for `task::new`.
#[inline(always)] // As `place` of tasks.
pub(crate) unsafe fn new<F, T>(
    future: F,
    given: Given,
    spawner: Arc<dyn Spawn + Send + Sync>,
    family: *const Family,
    detached: *const Family,
    locals: *mut Locals,
) -> (Job, JoinHandle<T>)
where
    F: Future<Output: Ending<T>> + Send,
    T: Send,
{
    let given = given.or_inherited();
    // The size of the stack stays in the header.
    let again = (given.name.is_some() || given.attributes.is_some()).then(|| Box::new(given.clone()));
    // SAFETY: a task has a header, and so a size.
    let task = unsafe { spare::allocate(Layout::new::<AsyncTask<F, T>>()) }.cast::<AsyncTask<F, T>>();
    let place = task.as_ptr();
    // Field by field, as a task of a closure.
    // SAFETY: each field of the new allocation is written, once; the caller keeps the family alive,
    // which keeps its context. The header is the first field of the task, which stays until job and
    // handle are done.
    unsafe {
        let context = task::context_of(family);
        let header = JobHeader::within::<AsyncTask<F, T>>(
            context,
            Family::id_of(family),
            Family::id_of(detached),
            given,
            locals.cast(),
        );
        Head::begin(task.cast(), header, AsyncTask::<F, T>::EDGES, family);
        (&raw mut (*place).ended.result).write(UnsafeCell::new(None));
        (&raw mut (*place).ring).write(Ring::new(task.cast(), free_memory::<F, T>, spawner));
        let polls = (&raw mut (*place).polls).cast::<Polls<F>>();
        (&raw mut (*polls).given).write(again);
        (&raw mut (*polls).locals).write(ptr::null_mut());
        (&raw mut (*polls).began).write(false);
        (&raw mut (*polls).member).write(ASYNC.header(context));
        (&raw mut (*polls).future).write(future);
        let job = Job::from_raw(task.cast());
        (job, JoinHandle::new(Handle::of(task.cast())))
    }
}

/// Ends a task of which the polls have gone: drops the result, if that is there, and lets go of the
/// memory.
///
/// # Safety
/// As for `task::free`, of an `AsyncTask<F, T>`.
unsafe fn free<F: Future<Output: Ending<T>>, T>(head: NonNull<Head>) {
    struct LetGo(NonNull<Ring>);
    impl Drop for LetGo {
        fn drop(&mut self) {
            // SAFETY: the task's half, which goes with this one end of the task.
            unsafe { Ring::let_go(self.0) };
        }
    }
    // SAFETY: the task is the caller's, with the one right to free it; the ring is in the
    // task. Also if a drop panics the memory is let go of, as the last.
    unsafe {
        let _memory = LetGo(AsyncTask::<F, T>::ring(head.cast()));
        head.cast::<Ended<T>>().drop_in_place();
    }
}

/// Gives back the memory around a ring.
///
/// # Safety
/// The ring is that of an `AsyncTask<F, T>`, made from the address of all of it, and nobody uses
/// the memory any more.
unsafe fn free_memory<F: Future<Output: Ending<T>>, T>(ring: NonNull<Ring>) {
    // SAFETY: the memory was allocated by `new` for this type. Nothing is left there but the words
    // of the ring.
    unsafe {
        let task = ring.byte_sub(offset_of!(AsyncTask<F, T>, ring));
        ring.drop_in_place();
        drop(spare::Memory::of(task.cast(), Layout::new::<AsyncTask<F, T>>()));
    }
}

impl<F: Future> Polls<F> {
    /// Polls the future; `None` for a wait in a context that is not cancelled.
    ///
    /// # Safety
    /// The future stays in place until its drop there. Ring and family are the task's, or there is
    /// no family. The caller is the job's side.
    unsafe fn poll<T>(&mut self, ring: NonNull<Ring>, family: *const Family) -> Option<Result<T, Failed>>
    where
        F::Output: Ending<T>,
    {
        // SAFETY: the job runs, for this poll, and so its side is a user of the ring.
        unsafe { Ring::begin(ring) };
        if !self.locals.is_null() {
            // SAFETY: the last poll has taken the table out of its fiber, and this poll's fiber
            // begins.
            unsafe { locals::put(mem::replace(&mut self.locals, ptr::null_mut())) };
        }
        if let Err(cancelled) = crate::wait::admission::check() {
            return Some(Err(Failed::Cancelled(cancelled)));
        }
        self.began = F::Output::BEGINS_AT_ONCE;
        // SAFETY: the job's side is a user until the end of the task, which comes after the poll.
        let waker = unsafe { Ring::borrowed(ring) };
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
            // SAFETY: `ASYNC` is its scheduler; the job's side is a user of the ring until the
            // member has left its context.
            unsafe { self.member.set_host(ring.as_ptr().cast()) };
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

// SAFETY: `repr(C)` of the task, of its part for the handle and of the head: the header comes
// first. The future and its output are `Send` (see `new`).
unsafe impl<F: Future<Output: Ending<T>>, T> Work for AsyncTask<F, T> {
    #[inline(always)] // As that of a closure.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the job has the task to itself. The future is in the task's allocation until
        // `over` drops that.
        unsafe {
            let ring = Self::ring(this);
            let polls = &mut **(*this.as_ptr()).polls.get();
            match polls.poll(ring, this.cast::<Head>().as_ref().family()) {
                // The poll has ended the task, and nobody else has the task.
                Some(result) => over(this, result, true),
                None => {
                    if let Some(given) = &polls.given {
                        this.cast::<JobHeader>().as_ref().give((**given).clone());
                    }
                    // From IDLE on the task may be polled, and end, elsewhere.
                    forget_job();
                    if !Ring::rest(ring) {
                        Ring::queue_again(ring);
                    }
                }
            }
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: the job has the task to itself, and is gone.
        unsafe { over(this, Err(Failed::Cancelled(Cancelled::new())), false) };
    }
}

/// The end of a task: the future is dropped, and the handle told. The fiber of a poll `retires`; a
/// thread that drops the job does not.
///
/// # Safety
/// Called once, by the side that has the task to itself.
unsafe fn over<F: Future<Output: Ending<T>>, T>(
    task: NonNull<AsyncTask<F, T>>,
    result: Result<T, Failed>,
    retires: bool,
) {
    let head = task.cast::<Head>();
    // SAFETY: as the caller promises. The job's side is a user of the ring until its `leave`; the
    // polls are dropped once, in place, since the future is pinned.
    unsafe {
        let ring = AsyncTask::ring(task);
        let polls = (*task.as_ptr()).polls.get();
        Ring::end(ring);
        let held: &Polls<F> = &*polls;
        held.member.leave_context(ptr::null());
        // No values if this is the fiber of a poll, which has them.
        let (began, kept) = (held.began, held.locals);
        let end = || {
            // Foreign code, as is the drop of the spawner.
            let dropped = caught(|| ManuallyDrop::drop(&mut *polls));
            let left = caught(|| Ring::leave(ring));
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
            if let Err(payload) = left {
                task::note_panic(head, payload);
            }
            let note = |payload| task::note_panic(head, payload);
            if retires {
                locals::end(note);
                forget_job();
            } else {
                // The future to begin with, or to go on with.
                task::discard_inherited(head);
                locals::discard(kept, note);
            }
            // A value that nobody takes is dropped inside of the context.
            task::settle(head, free::<F, T>)
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
        // the job's side ceases to be a user; and the pointer is that of the ring.
        let waker = unsafe { Ring::waker(NonNull::new_unchecked(fiber.as_ref().host().cast_mut().cast())) };
        deferred_wakers::wake_after_interrupt(waker);
    }
}
