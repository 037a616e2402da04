//! A handle of a scheduler, and how a part of a fiber runs under another one.
//!
//! Used by applications that have several schedulers.
//!
//! # How a fiber moves
//!
//! A started fiber stays on its thread. So there are two ways:
//!
//! * *On another thread* a closure is started, which may borrow from the fiber, since the fiber
//!   waits for the end.
//! * *On the same thread*, where one scheduler runs inside of a fiber of another, the fiber itself
//!   goes over, on its own stack. Its worker strikes the fiber from the list and counts it as away,
//!   the other worker enrols it, and the fiber suspends. The first worker finds the fiber in its
//!   own mail and sends it on to the other one. The fiber comes back in the same way.
//!
//! Before going the fiber leaves its contexts, so that no canceller can reach it, and waits until
//! no interrupt is under way. Nobody resumes the fiber, as it is running. From then until its first
//! wait under the other scheduler no other thread has its address. At that wait the fiber joins its
//! contexts again.
//!
//! **Commit point**: the strike. **When idle**: each fiber is in the list of the one worker that
//! its header names, which is also its scheduler. A worker does not end while a fiber of its is
//! away. **Cancellation** has no effect on the way. **The race to fear**: a canceller that has read
//! the old scheduler from the header and calls that after the fiber has gone. This can't happen:
//! the canceller holds the lock of a context that the fiber has to leave first, and the fiber waits
//! for a letter that the canceller has posted. **Another**: posting to a worker that sleeps wakes
//! that worker. The wake may be foreign code (the `wake` of a driven scheduler), and that may run
//! the worker's fibers before its return. So the fiber is posted there after its suspension: by the
//! loop that it has left.
#![allow(unsafe_code)] // Workers and fibers are reached by their addresses.

use crate::worker::common::{Common, around_of, set_worker, with_caller};
use crate::worker::group::Group;
use crate::worker::local::header_of;
use crate::worker::shutdown;
use crate::worker::stack_job::StackJob;
use segue_core::chain::barrier;
use segue_core::scheduling::{Family, Job, Place};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Attribute, Cancelled, Fiber, JoinHandle, WaitsFor};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

thread_local! {
    /// The workers that live on this thread.
    static RESIDENTS: RefCell<Vec<*const Common>> = const { RefCell::new(Vec::new()) };
}

/// A worker takes up residence on this thread. There is no list any more in the destructors of a
/// thread's local variables.
///
/// # Safety
/// The worker stays in place until it [departs](depart).
pub(crate) unsafe fn reside(worker: *const Common) {
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

/// Whether a worker lives on this thread.
pub(crate) fn is_inhabited() -> bool {
    RESIDENTS.try_with(|residents| !residents.borrow().is_empty()).unwrap_or(false)
}

/// A scheduler, to spawn on and to [move to](move_to). A handle does not keep the scheduler going.
///
/// # Examples
///
/// ```
/// use segue_sched::{Builder, Handle};
///
/// // A thread that was told of a scheduler spawns there.
/// let answer = Builder::new().workers(1).run(|| {
///     let here = Handle::current().expect("this is a fiber");
///     let thread = std::thread::spawn(move || here.spawn(|| 42));
///     segue_core::blocking(|| thread.join().unwrap()).unwrap().join().unwrap()
/// });
/// assert_eq!(answer?, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    pub(crate) group: Arc<Group>,
}

impl Handle {
    /// Starts a detached fiber there. Never waits.
    ///
    /// The fiber belongs to that scheduler, like a child of its fibers: the end of the scheduler
    /// cancels the fiber and waits. If the scheduler is ending, `f` is dropped, and the handle says
    /// so as for a fiber that was cancelled before its start.
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_as(segue_core::Builder::new(), f)
    }

    /// As [`spawn`](Handle::spawn), with the settings of a builder of fibers, the name for
    /// instance: that of `segue`, or of `segue-core`. Never waits.
    pub fn spawn_as<F, T>(&self, given: impl Into<segue_core::Builder>, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.start_detached(given.into(), f, |job| self.group.inject(job))
    }

    fn start_detached<F, T>(&self, given: segue_core::Builder, f: F, place: impl FnOnce(Job)) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let mut spawn = Some((given, f));
        let made = self.group.with_family(|family| {
            let (given, f) = spawn.take().expect("called once");
            // SAFETY: a scheduler's family is completed by its owner, which waits for the member
            // that this makes. The closure borrows nothing.
            unsafe { family.job(given, f) }
        });
        match (made, spawn) {
            (Some((job, handle)), _) => {
                place(job);
                handle
            }
            // A job that is dropped tells its handle.
            (None, Some((given, f))) => job_of_nobody(given, f).1,
            (None, None) => unreachable!("it was taken to be made"),
        }
    }

    /// As [`spawn`](Handle::spawn), on the worker with this number. Never waits.
    ///
    /// The closure starts there under a policy that keeps sent closures, as
    /// [`Stealing`](crate::Stealing) keeps this one; but elsewhere if that worker is away in
    /// [`blocking_here`](crate::blocking_here), or stuck, and a monitor has found it so.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Builder::new().workers(2).pool()?;
    /// for worker in 0..2 {
    ///     let fiber = pool.handle().spawn_at(worker, segue_sched::worker_index);
    ///     assert_eq!(fiber.join().unwrap(), Some(worker));
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawn_at<F, T>(&self, worker: usize, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        assert!(worker < self.workers(), "there is no worker {worker} among {}", self.workers());
        self.start_detached(segue_core::Builder::new().attribute(Kept), f, |job| {
            // A worker that has ended drops the closure, as a scheduler does.
            drop(self.group.send(worker, job));
        })
    }

    /// Begins the end of the scheduler: its fibers are asked to finish, the first one included, and
    /// cancelled after the [grace](crate::Shutdown::grace) of its
    /// [builder](crate::Builder::shutdown); at once without one. Never waits; again has no effect,
    /// nor after the beginning of the end.
    ///
    /// The call of [`run`](crate::Builder::run) returns when the first fiber has returned and all
    /// others have ended. A [`Pool`](crate::Pool) stays until its drop; fibers that are spawned
    /// there meanwhile are asked from the start, and cancelled before their start when the grace is
    /// over. The [default runtime](crate::default_pool) never ends: a closure that is spawned there
    /// after a shutdown does not run.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{finishing_source, spawn};
    /// use segue_sched::{Builder, Handle, Shutdown};
    /// use std::time::Duration;
    ///
    /// let shutdown = Shutdown::new().grace(Duration::from_secs(10));
    /// let goodbye = Builder::new().workers(1).shutdown(shutdown).run(|| {
    ///     let here = Handle::current().expect("this is a fiber");
    ///     // Because of a signal, or of an error.
    ///     spawn(move || here.shutdown());
    ///     finishing_source().wait().map(|()| "goodbye")
    /// });
    /// assert_eq!(goodbye?, Ok("goodbye"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn shutdown(&self) {
        // The token is used without the lock: wakers are called there.
        if let Some(token) = self.group.with_family(Family::token) {
            shutdown::begin(&self.group, &token, None);
        }
    }

    /// The scheduler of the calling fiber; `None` if that is none of this crate's, and on a plain
    /// thread.
    #[must_use]
    pub fn current() -> Option<Self> {
        with_caller(|caller| caller.map(|(worker, _)| Self { group: Arc::clone(&worker.group) }))
    }

    /// Whether the calling fiber belongs to this scheduler. The price is a few loads.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = segue_sched::Builder::new().workers(1).pool()?;
    /// let handle = pool.handle();
    /// assert!(!handle.is_current());
    /// assert!(pool.run(move || handle.is_current())?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn is_current(&self) -> bool {
        with_caller(|caller| caller.is_some_and(|(worker, _)| Arc::ptr_eq(&worker.group, &self.group)))
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.group.len()
    }

    /// The worker of this scheduler that lives on the calling thread, if one does.
    fn resident(&self) -> Option<NonNull<Common>> {
        // SAFETY: a worker leaves the list before its end.
        let mine = |worker: &&*const Common| Arc::ptr_eq(unsafe { &(***worker).group }, &self.group);
        let find = |residents: &RefCell<Vec<*const Common>>| {
            residents.borrow().iter().find(mine).and_then(|worker| NonNull::new(worker.cast_mut()))
        };
        around_of(&self.group).or_else(|| RESIDENTS.try_with(find).ok().flatten())
    }
}

/// Which worker of its scheduler the calling fiber runs on, from 0; `None` if that is none of this
/// crate's, and on a plain thread.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::worker_index(), None);
/// ```
// Not inlined: rayon's loops ask at each fork, and have no room for this (`rayon-patch`).
#[must_use]
pub fn worker_index() -> Option<usize> {
    with_caller(|caller| caller.map(|(worker, _)| worker.index))
}

/// Whether something seems to wait for its turn on the worker that the calling fiber runs on: a
/// closure that it could start, or mail. `None` where [`worker_index`] is.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::worker_has_more(), None);
/// ```
#[must_use]
pub fn worker_has_more() -> Option<bool> {
    with_caller(|caller| caller.map(|(worker, _)| worker.has_business()))
}

/// A job that is a member of no scheduler's family: nobody waits, and nobody cancels.
pub(crate) fn job_of_nobody<F, T>(given: segue_core::Builder, f: F) -> (Job, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    static NONE: OnceLock<Family> = OnceLock::new();
    // SAFETY: the family is never dropped, and the closure borrows nothing.
    unsafe { NONE.get_or_init(Family::detached).job(given, f) }
}

/// A closure that is to start on the worker of its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept;

impl Attribute for Kept {
    const INHERITED: bool = false;

    fn to_bits(self) -> u64 {
        0
    }

    fn from_bits(_: u64) -> Self {
        Self
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

/// Runs `f` under another scheduler, and comes back with the result.
///
/// Where the other scheduler has a worker on the calling thread, because one of the two runs in a
/// fiber of the other, the calling fiber itself goes over for the length of `f`, with its stack.
/// Elsewhere `f` is started as a fiber there, in the caller's context, while the caller waits. From
/// a fiber of the same scheduler this is a plain call.
///
/// A plain thread that moves to the [`Driven`](crate::Driven) scheduler of its own driving waits
/// for ever, since nobody polls that meanwhile: [`start`](crate::Driven::start) a fiber there.
///
/// Fibers that `f` spawns run under the other scheduler. Effect handlers around the call are not in
/// place in `f`, as they would not be on another thread.
///
/// # Cancellation
/// Cancelled before `f` started: *no effect*, `f` is dropped. After: `f` sees the cancellation at
/// its waits, and its result is returned.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before `f` started. With a reason that says so: if the
/// other scheduler has ended; or if the fiber itself would go over while panicking, or in the
/// middle of beginning to wait (in a waker that is called there).
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
#[track_caller]
pub fn move_to<T: Send>(to: &Handle, f: impl FnOnce() -> T + Send) -> Result<T, Cancelled> {
    segue_core::check()?;
    let at = Location::caller();
    if with_caller(|caller| caller.is_some_and(|(worker, _)| Arc::ptr_eq(&worker.group, &to.group))) {
        return Ok(f());
    }
    with_caller(|caller| {
        let Some((worker, fiber)) = caller else { return start(to, at, f) };
        match to.resident() {
            // A panic must not be taken into another fiber, nor may the resume of a wait that has
            // begun be used up: `check` has not looked, since that would also fail in `start`.
            Some(_) if fiber.must_not_suspend() => {
                Err(Cancelled::with_reason("a fiber that is panicking, or begins to wait, can't change its scheduler"))
            }
            // SAFETY: the worker is around this fiber, or lives on this thread, where nobody ends
            // that before this fiber suspends; and then the worker stays, since the fiber is in its
            // list.
            Some(there) => Ok(visit(worker, unsafe { there.as_ref() }, fiber, at, f)),
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
    // SAFETY: the frame waits below, inside of its contexts; the family is the caller's and
    // outlives the frame; closure and result are `Send`.
    let job =
        unsafe { StackJob::job(NonNull::from(&frame), Place::here(), family.as_ref().map(|family| family.as_ref())) };
    // A job that is refused, or accepted and dropped later, tells the frame.
    to.group.inject(job);
    // SAFETY: a job was made of the closure, above.
    match unsafe { frame.wait(WaitsFor { what: "another scheduler", at }) } {
        Ok(result) => result,
        Err(_) if !began.load(Relaxed) => Err(Cancelled::with_reason("the scheduler that it was to move to has ended")),
        Err(payload) => resume_unwind(payload),
    }
}

/// On the same thread: on the fiber's own stack.
fn visit<T>(here: &Common, there: &Common, fiber: &Fiber, at: &'static Location<'static>, f: impl FnOnce() -> T) -> T {
    let _outside = segue_core::outside_work();
    here.away.set(here.away.get() + 1);
    go_over(here, there, fiber);
    // Else an effect in `f` could be captured up to a handler around the move: the fiber would
    // stay, and `f` come back elsewhere, or never.
    let visit = WaitsFor { what: "a visit to another scheduler", at };
    let result = catch_unwind(AssertUnwindSafe(|| barrier(visit, f)));
    go_over(there, here, fiber);
    here.away.set(here.away.get() - 1);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Hands the running fiber from one worker of this thread to another.
fn go_over(from: &Common, to: &Common, fiber: &Fiber) {
    // SAFETY: the fiber runs, under a worker of this crate's.
    let at = unsafe { header_of(fiber) };
    if !from.forks.is_empty() {
        from.expose_forks();
    }
    // SAFETY: the header is the running fiber's.
    let header = unsafe { at.as_ref() };
    // SAFETY: the worker `to` is the fiber's home, or one on its thread that the fiber leaves again
    // before that ends, since that worker has the fiber in its list.
    unsafe { fiber.set_scheduler(to.scheduler()) };
    from.await_letter(header);
    from.strike(header);
    header.worker.set(to.at());
    to.enrol(header, at);
    // SAFETY: the fiber suspends right here. The fiber is in the mail of the worker that it leaves;
    // that one is awake and finds the letter at its next turn.
    unsafe {
        from.resume_by_mail(at);
        segue_fiber::suspend(at);
    }
    // On the thread-backed host each fiber has thread-local variables of its own. SAFETY: the
    // worker runs this fiber.
    unsafe { set_worker(to.at()) };
}
