//! A handle of a scheduler, and how a part of a fiber runs under another one.
//!
//! Used by applications that have several schedulers.
//!
//! # How a fiber moves
//!
//! A started fiber stays on its thread. So there are two ways:
//!
//! * *On another thread* a closure is started, which may borrow from the fiber, since that waits until it is over.
//! * *On the same thread*, where one scheduler runs inside of a fiber of another, the fiber itself goes over, on its own stack: the worker that has it strikes it from its list and counts it as
//!   away, the other one enrols it, and the fiber suspends. Now the first worker, which finds it in its own mail, sends it on to the other one. It comes back in the same way.
//!
//! Before it goes it leaves its contexts, so that no canceller can reach it, and waits until no interrupt is under way; it is running, so
//! nobody resumes it. Between that and its first wait under the other scheduler nobody else has its address. It joins its contexts again at that wait.
//!
//! **Commit point**: the strike. **When idle**: each fiber is in the list of the one worker that its header names, which is also its scheduler. A worker does not end while a fiber of its is away. **Cancellation** has no
//! effect on the way. **The race to fear**: a canceller that has read the old scheduler from the header and calls it after the fiber has gone. It holds the lock of a context that the fiber has to
//! leave first, and a letter that it has posted is waited for. **Another**: to post to a worker that sleeps is to wake it, which is foreign code (the `wake` of a driven scheduler) that may run that worker's fibers, there
//! and then. So the fiber is posted there when it has suspended: by the loop that it has left.
#![allow(unsafe_code)] // Workers and fibers are reached by their addresses.

use crate::common::{Common, set_worker};
use crate::frame::FrameJob;
use crate::group::Group;
use crate::local::{header_of, of_caller};
use segue_core::{Cancelled, Fiber, Job, Place};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

thread_local! {
    /// The workers that live on this thread.
    static RESIDENTS: RefCell<Vec<*const Common>> = const { RefCell::new(Vec::new()) };
}

/// A worker takes up residence on this thread. There is no list any more in the destructors of a thread's local variables.
pub(crate) fn reside(worker: *const Common) {
    let _ = RESIDENTS.try_with(|residents| residents.borrow_mut().push(worker));
}

/// The worker has ended.
pub(crate) fn depart(worker: *const Common) {
    let _ = RESIDENTS.try_with(|residents| residents.borrow_mut().retain(|resident| *resident != worker));
}

/// Whether fibers can still run on this thread: not in the destructors of its local variables.
pub(crate) fn can_reside() -> bool {
    RESIDENTS.try_with(|_| ()).is_ok()
}

/// A scheduler, for [`move_to`]. It does not keep the scheduler going.
#[derive(Clone)]
pub struct Handle {
    group: Arc<Group>,
}

impl Handle {
    pub(crate) fn new(group: Arc<Group>) -> Self {
        Self { group }
    }

    /// Accepts a closure, or drops it if the scheduler has ended.
    pub(crate) fn inject(&self, job: Job) {
        self.group.inject(job);
    }

    /// The scheduler of the calling fiber; `None` if that is none of this crate's, and on a plain thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        of_caller().map(|(worker, _)| Self { group: Arc::clone(&worker.group) })
    }

    /// How many workers it has.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.group.len()
    }

    /// The worker of this scheduler that lives on the calling thread, if one does.
    fn resident<'a>(&self) -> Option<&'a Common> {
        let mine = |worker: &&'a Common| Arc::ptr_eq(&worker.group, &self.group);
        let find = |residents: &RefCell<Vec<*const Common>>| {
            // SAFETY: residents are in place. The caller uses the one that is found on the spot, or sees to it that it stays.
            residents.borrow().iter().filter_map(|worker| unsafe { worker.as_ref() }).find(mine)
        };
        crate::common::around().find(mine).or_else(|| RESIDENTS.try_with(find).ok().flatten())
    }
}

impl PartialEq for Handle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.group, &other.group)
    }
}

impl Eq for Handle {}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// Runs `f` under another scheduler, and comes back with what it returned.
///
/// Where the other scheduler has a worker on the calling thread, because one of the two runs in a fiber of the other, the calling fiber itself goes over for the length
/// of `f`, with its stack. Elsewhere `f` is started as a fiber there, in the caller's context, while the caller waits. From a fiber of the same scheduler it is a plain call.
///
/// A plain thread that moves to the [`Driven`](crate::Driven) scheduler which it drives itself waits for ever, since nobody polls that meanwhile: [`start`](crate::Driven::start) a fiber there.
///
/// What `f` spawns runs under the other scheduler. Effect handlers around the call are not in place in `f`, as they would not be on another thread.
///
/// # Cancellation
/// Cancelled before `f` started: *no effect*, `f` is dropped. After: `f` sees it at its waits, and what it returns is returned.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before `f` started, or, with a reason that says so, if the other scheduler has ended, or if the fiber itself would go over while it is panicking, or in the middle of
/// beginning to wait (in a waker that is called there).
///
/// # Panics
/// If `f` does, with its payload.
///
/// # Examples
///
/// ```
/// use segue_sched::{Builder, Fifo, Handle, move_to};
///
/// let pool = Builder::new().workers(1).name("computes").pool()?;
/// let words = vec!["borrowed", "words"];
/// let thread = Builder::new().run_with(Fifo::default, || {
///     move_to(&pool.handle(), || {
///         assert_eq!(words.len(), 2);
///         std::thread::current().name().map(str::to_owned)
///     })
/// })?;
/// assert_eq!(thread.unwrap().as_deref(), Some("computes-0"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn move_to<T: Send>(to: &Handle, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    segue_core::check()?;
    let Some((worker, fiber)) = of_caller() else { return start(to, f) };
    if Arc::ptr_eq(&worker.group, &to.group) {
        return Ok(f());
    }
    match to.resident() {
        // A panic must not be taken into another fiber, nor may the resume of a wait that has begun be used up: `check` has not looked, since it would also fail in `start`.
        Some(_) if fiber.must_not_suspend() => {
            Err(Cancelled::with_reason("a fiber that is panicking, or begins to wait, can't change its scheduler"))
        }
        Some(there) => Ok(visit(worker, there, fiber, f)),
        None => start(to, f),
    }
}

/// On another thread: as a closure.
fn start<T: Send>(to: &Handle, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    let _outside = segue_core::outside_work();
    // Written by the job; who has waited for the frame sees it, as what the job has done comes before the frame's signal.
    let began = AtomicBool::new(false);
    let frame = FrameJob::new(|| {
        began.store(true, Relaxed);
        segue_core::check().map(|()| f())
    });
    let family = segue_core::with_current(|fiber| fiber.detaches_to().map(NonNull::from));
    // SAFETY: the frame waits below, inside of the contexts that it is in; the family is the caller's and outlives it;
    // closure and result are `Send`.
    let job =
        unsafe { FrameJob::job(NonNull::from(&frame), Place::here(), family.as_ref().map(|family| family.as_ref())) };
    // Refused, or accepted and dropped later, it tells the frame.
    to.group.inject(job);
    // SAFETY: a job was made of it, above.
    match unsafe { frame.wait("another scheduler") } {
        Ok(result) => result,
        Err(_) if !began.load(Relaxed) => Err(Cancelled::with_reason("the scheduler that it was to move to has ended")),
        Err(payload) => resume_unwind(payload),
    }
}

/// On the same thread: on the fiber's own stack.
fn visit<T>(here: &Common, there: &Common, fiber: &Fiber, f: impl FnOnce() -> T) -> T {
    let _outside = segue_core::outside_work();
    here.away.set(here.away.get() + 1);
    go_over(here, there, fiber);
    // Else an effect in `f` could be captured up to a handler around the move: the fiber would stay, and `f` come back elsewhere, or never.
    let result = catch_unwind(AssertUnwindSafe(|| segue_fiber::effect::outside(f)));
    // What `f` has left behind in the middle of a wait's registration may be resumed at any time, which would be a second resume beside that of the way back.
    fiber.assert_whole();
    go_over(there, here, fiber);
    here.away.set(here.away.get() - 1);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Hands the running fiber from one worker of this thread to another.
fn go_over(from: &Common, to: &Common, fiber: &Fiber) {
    let at = header_of(fiber);
    if !from.forks.is_empty() {
        from.expose_forks();
    }
    // SAFETY: the header is the running fiber's.
    let header = unsafe { at.as_ref() };
    // SAFETY: the worker `to` is the fiber's home, or one on its thread that it leaves again before that ends, since it has it in its list.
    unsafe { fiber.set_scheduler(to.scheduler.get().expect("a resident has settled down")) };
    from.await_letter(header);
    from.strike(header);
    header.worker.set(to.at());
    to.enrol(header, at);
    // SAFETY: it suspends right here. The worker that it leaves, in whose mail it is, is awake and finds it at its next turn.
    unsafe {
        from.resume_by_mail(at);
        segue_fiber::suspend(at);
    }
    // On the thread-backed host each fiber has thread-local variables of its own.
    set_worker(to.at());
}
