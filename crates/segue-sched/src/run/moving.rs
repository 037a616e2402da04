//! [`move_to`]: how a part of a fiber runs under another scheduler.
//!
//! Used by applications that have several schedulers.
//!
//! # How a fiber moves
//!
//! A started fiber stays on its thread. So there are two ways:
//!
//! * *On another thread* a closure is started, which may borrow from the fiber, since the fiber
//!   waits for the end of the closure.
//! * *On the same thread*, where one scheduler runs inside of a fiber of another, the fiber itself
//!   goes over, on its own stack. The worker strikes the fiber from the list and counts one as
//!   away, the other worker enrols the fiber, and the fiber suspends. The first worker finds the
//!   fiber in its own mail and sends the fiber on to the other worker. The way back is the same.
//!
//! Before the fiber goes, the fiber leaves its contexts, so that no canceller can reach the fiber,
//! and waits until no interrupt is under way. Nobody resumes a running fiber. From then until the
//! first wait under the other scheduler no other thread has the address of the fiber. At that wait
//! the fiber joins its contexts again.
//!
//! **Commit point**: the strike. **When idle**: each fiber is in the list of the one worker that
//! the header names, which is also the scheduler of the fiber. A worker does not end while one of
//! its fibers is away. **Cancellation** has no effect on the way. **The race to fear**: a canceller
//! reads the old scheduler from the header and calls that scheduler after the fiber has gone. This
//! cannot happen: the canceller holds the lock of a context that the fiber has to leave first, and
//! the fiber waits for a letter that the canceller has posted. **Another**: a letter to a worker
//! that sleeps wakes this worker. The wake may be foreign code (the `wake` of a driven scheduler),
//! and may run fibers of the worker before the wake returns. So the fiber is posted there when the
//! fiber has suspended: by the loop that the fiber has left.
#![allow(unsafe_code)] // Workers and fibers are reached by their addresses.

use crate::recorder::Leaves;
use crate::run::handle::Handle;
use crate::worker::common::{Common, set_worker, with_caller};
use crate::worker::header::header_of;
use crate::worker::residents::resident_of;
use crate::worker::stack_job::StackJob;
use segue_core::chain::barrier;
use segue_core::scheduling::Place;
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Cancelled, Fiber, WaitsFor};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs `f` under another scheduler, and comes back with the result of `f`.
///
/// Where the other scheduler has a worker on the calling thread, because one of the two runs in a
/// fiber of the other, the calling fiber itself goes over for the length of `f`, with its stack.
/// Elsewhere `f` is started as a fiber there, in the caller's context, while the caller waits. From
/// a fiber of the same scheduler this is a plain call.
///
/// A plain thread that moves to the [`Driven`](crate::Driven) scheduler which the same thread
/// drives waits for ever, since nobody polls that scheduler meanwhile:
/// [`start`](crate::Driven::start) a fiber there.
///
/// Fibers that `f` spawns run under the other scheduler. Effect handlers around the call are not in
/// place in `f`, as they would not be on another thread.
///
/// # Cancellation
/// Cancelled before `f` started: *no effect*, `f` is dropped. After: `f` sees the cancellation at
/// its waits, and the result of `f` is returned.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before `f` started. With a reason that says so: if the
/// other scheduler has ended; or if the fiber itself would go over during a panic, or in the
/// middle of beginning to wait (in a waker that is called there).
///
/// # Panics
/// If `f` does, with its payload.
///
/// # Examples
///
/// ```
/// use segue_sched::{Fifo, Handle, Runtime, move_to};
///
/// let pool = Runtime::new().workers(1).name("computes").pool()?;
/// let words = vec!["borrowed", "words"];
/// let thread = Runtime::new().run_with(Fifo::default, || {
///     move_to(&pool.handle(), || {
///         assert_eq!(words.len(), 2);
///         std::thread::current().name().map(str::to_owned)
///     })
/// })?;
/// assert_eq!(thread.unwrap().as_deref(), Some("computes-0"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn move_to<T: Send>(to: &Handle, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    segue_core::check()?;
    let at = Location::caller();
    if with_caller(|caller| caller.is_some_and(|(worker, _)| Arc::ptr_eq(&worker.group, &to.group))) {
        return Ok(f());
    }
    with_caller(|caller| {
        let Some((worker, fiber)) = caller else { return start(to, at, f) };
        match resident_of(&to.group) {
            // A panic must not be taken into another fiber, nor may the resume of a wait that has
            // begun be used up: `check` has not looked, since that would also fail in `start`.
            Some(_) if fiber.must_not_suspend() => {
                Err(Cancelled::with_reason("a fiber that is panicking, or begins to wait, can't change its scheduler"))
            }
            // SAFETY: the worker is around this fiber, or lives on this thread, where nobody ends
            // the worker before this fiber suspends; and then the worker stays, since the fiber is
            // in its list. The fiber runs here, under the other worker.
            Some(there) => Ok(unsafe { visit(worker, there.as_ref(), fiber, at, f) }),
            None => start(to, at, f),
        }
    })
}

/// On another thread: as a closure.
fn start<T: Send>(to: &Handle, at: &'static Location<'static>, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    let _outside = segue_core::outside_work();
    // Written by the job; the frame's waiter sees this, as the job's work comes before the frame's
    // signal.
    let began = AtomicBool::new(false);
    let frame = StackJob::new(|| {
        began.store(true, Relaxed);
        segue_core::check().map(|()| __rust_begin_short_backtrace(f))
    });
    let family = segue_core::with_current(|fiber| fiber.detaches_to().map(NonNull::from));
    // SAFETY: the frame waits below, inside of its contexts; the family is the calling fiber's and
    // outlives the frame; closure and result are `Send`.
    let job =
        unsafe { StackJob::job(NonNull::from(&frame), Place::here(), family.as_ref().map(|family| family.as_ref())) };
    // A job that is refused, or accepted and dropped later, tells the frame.
    to.group.inject(job);
    // SAFETY: a job was made of the frame, above.
    match unsafe { frame.wait(WaitsFor { what: "another scheduler", at }) } {
        Ok(result) => result,
        Err(_) if !began.load(Relaxed) => Err(Cancelled::with_reason("the scheduler that it was to move to has ended")),
        Err(payload) => resume_unwind(payload),
    }
}

/// On the same thread: on the fiber's own stack.
///
/// # Safety
/// `fiber` runs, under the worker `here`. The worker `there` lives on this thread, and stays while
/// the fiber is in its list.
unsafe fn visit<T>(
    here: &Common,
    there: &Common,
    fiber: &Fiber,
    at: &'static Location<'static>,
    f: impl FnOnce() -> T,
) -> T {
    let _outside = segue_core::outside_work();
    here.away.set(here.away.get() + 1);
    // SAFETY: by the contract, which is the same.
    fiber.carried_over(|| unsafe { go_over(here, there, fiber) });
    // Else an effect in `f` could be captured up to a handler around the move: the fiber would
    // stay, and `f` come back elsewhere, or never.
    let visit = WaitsFor { what: "a visit to another scheduler", at };
    let result = catch_unwind(AssertUnwindSafe(|| barrier(visit, f)));
    // SAFETY: the fiber runs under `there` now. The worker `here` counts the fiber as one that is
    // away, and so has not ended.
    fiber.carried_over(|| unsafe { go_over(there, here, fiber) });
    here.away.set(here.away.get() - 1);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Hands the running fiber from one worker of this thread to another.
///
/// # Safety
/// As for [`visit`].
unsafe fn go_over(from: &Common, to: &Common, fiber: &Fiber) {
    // SAFETY: the fiber runs, under a worker of this crate's.
    let at = unsafe { header_of(fiber) };
    if !from.forks.is_empty() {
        from.expose_forks();
    }
    // SAFETY: the header is the running fiber's.
    let header = unsafe { at.as_ref() };
    if from.pen.is_on() {
        from.pen.left(fiber, Leaves::Yields);
    }
    // SAFETY: the worker `to` is on this thread, and stays while the fiber is in its list.
    unsafe { fiber.set_scheduler(to.scheduler()) };
    from.await_letter(header);
    from.strike(header);
    header.worker.set(to.at().cast());
    // SAFETY: the header is the running fiber's, which is struck off before its end.
    unsafe { to.enrol(at) };
    // SAFETY: the fiber suspends right here, and is in the mail of the worker that it leaves; this
    // worker is awake and finds the letter at its next turn.
    unsafe {
        from.resume_by_mail(at);
        segue_fiber::suspend(at);
    }
    // On the thread-backed host each fiber has thread-local variables of its own.
    // SAFETY: `to` is the worker that runs this fiber.
    unsafe { set_worker(to.at()) };
}
