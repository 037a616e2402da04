//! A fiber that is a future: a foreign executor's thread runs the fiber, one poll from suspension
//! to suspension.
//!
//! Used by bridges, for fibers that live among the tasks of an executor that stays on one thread.
//!
//! # The idea
//!
//! To the fiber, the executor is its scheduler: a fiber suspends by returning `Pending` from the
//! poll, and becomes ready when the task's waker is called. There is no worker, no policy and no
//! inbox: wakes from other threads meet one word in the fiber's header, with the waker beside.
//!
//! `wake_word.rs` has the states of the two. The poll leaves its waker there *before* the fiber
//! runs, so that a resume that comes while the fiber still runs finds the waker.
//!
//! A fiber that waits for a `Future` has no need of that: the fiber polls the future with the
//! task's own waker and *pends*, and the next poll of the task, for any reason, is the next of the
//! future. The waker stays armed meanwhile, for interrupts alone. A fiber that gives up its turn
//! does the same, and its poll also wakes its own task.
//!
//! **Commit point**: the trigger's, as everywhere. **Idle**: ARMED, and the fiber suspended.
//! **Cancellation** comes by the fiber's own context, which dropping the future cancels, or by
//! contexts that the fiber has entered: an interrupt has the task polled, and the poll asks
//! [`Fiber::interrupted`].
//!
//! # The end
//!
//! A stack that was started is not freed before its function has returned. So a drop of the future
//! of a suspended fiber cancels the fiber and runs that to its end before the drop returns: each of
//! its waits fails. A wait under a shield blocks the dropper meanwhile.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

mod wake_word;

use crate::hosted::wake_word::{INTERRUPT, RESUME, Summons};
use crate::run::default::default_pool;
use crate::worker::common::set_worker;
use segue_core::build::{Builder, DefaultRuntime, Detached};
use segue_core::chain::barrier;
use segue_core::scheduling::{AsTask, Clock, Executor, Job, Scheduler, Spawn, Wake};
use segue_core::switch::Switch;
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{CancelToken, Fiber, JoinError, WaitsFor};
use segue_fiber::{Coroutine, Stack, Step, thread_stacks};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// The block at the top of a hosted fiber's stack. The fiber's host pointer leads here.
struct Header {
    fiber: Fiber,
    summons: Summons,
    /// The scheduler of the fiber.
    token: CancelToken,
    /// The waker of the poll that is under way.
    task: Cell<*const Waker>,
    /// A clone of the waker that outlives the poll, for futures that the fiber polls.
    kept: RefCell<Option<Rc<Waker>>>,
    /// Knows the kept waker, if that is known to be of the present poll.
    as_task: AsTask,
    /// The act of the next poll without a request to the fiber.
    waits: Cell<Waits>,
    /// Where the result goes: set for the length of a poll.
    result: Cell<*mut ()>,
}

/// How a fiber is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Until its resume.
    Resume,
    /// Until the task is woken and polled.
    Poll,
    /// Not really: the fiber has given up its turn.
    Turn,
}

/// The result of a fiber that has ended.
type Ended<T> = Option<Result<T, JoinError>>;

/// A fiber that an executor hosts: a future that runs the fiber. Made by [`hosted`].
///
/// This future is not `Send`: the fiber stays on the creator's thread.
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>(_: T) {}
/// moves_to_another_thread(segue_sched::hosted(|| ()));
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Hosted<T> {
    /// Until its end.
    fiber: Option<Coroutine<Header>>,
    /// Whether the fiber has run.
    has_run: bool,
    result: PhantomData<T>,
}

/// Makes a fiber of `f` that runs inside of the polls of a future: on the executor's thread, among
/// the executor's tasks.
///
/// `f` may hold values that are not `Send`, and may call functions that need the executor's thread.
/// When the fiber waits, its task is pending, and the executor runs others. The fiber starts at the
/// first poll. Its panic is an error of the result.
///
/// Its spawned fibers run elsewhere: on the default runtime, or on threads if there is none. Its
/// clock and timers are those of plain threads. A fiber that [yields](segue_core::yield_now) is
/// polled again after the other tasks that are ready.
///
/// # Cancellation
/// A drop of the future of a fiber that has started cancels the fiber and runs that to its end
/// before the drop returns, since the stack holds borrows. Each of its waits fails from then on. A
/// wait under a [`shield`](segue_core::shield) blocks the caller of the drop until its end (a fiber
/// is suspended, a thread parked): for ever, if the fiber waits for another task of the same
/// thread. A future that was never polled only drops `f`. A future that is leaked (`mem::forget`)
/// leaks the fiber's stack; so does one that a thread-local variable drops at the end of its
/// thread.
///
/// # Panics
/// If no stack can be had.
///
/// # Examples
///
/// ```
/// use std::{rc::Rc, time::Duration};
///
/// let shared = Rc::new(42);
/// let fiber = segue_sched::hosted({
///     let shared = Rc::clone(&shared);
///     move || {
///         segue_core::sleep(Duration::from_millis(1)).unwrap();
///         *shared
///     }
/// });
/// // Any executor will do that stays on this thread.
/// assert_eq!(segue_core::wait_future(fiber).unwrap().unwrap(), 42);
/// ```
pub fn hosted<F, T>(f: F) -> Hosted<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    hosted_as(segue_core::Builder::new(), f)
}

/// As [`hosted`], with a name, attributes or a stack size, as a builder of `segue` or of
/// `segue-core` says.
///
/// # Cancellation
/// As for [`hosted`].
///
/// # Panics
/// If no stack can be had.
pub fn hosted_as<R, F, T>(given: Builder<Detached<R>>, f: F) -> Hosted<T>
where
    R: DefaultRuntime,
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    let size = segue_core::scheduling::stack_size_of(&given);
    let stack = thread_stacks::take_of(size).unwrap_or_else(|error| panic!("no stack for a hosted fiber: {error}"));
    let token = CancelToken::new();
    // SAFETY: the scheduler is static, and the token lies beside the fiber.
    let fiber = unsafe { Fiber::under(NonNull::from(&HOSTS), number(), &token, given) };
    host(stack, fiber, token, f)
}

/// The number of the next fiber. Not its stack's: fibers that come one after the other have the
/// same stack, and the first random number of each would always be the same.
fn number() -> u64 {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    STARTED.fetch_add(1, Ordering::Relaxed)
}

/// Hosts a fiber of `HOSTS`, which has not run yet.
#[inline]
fn host<F, T>(stack: Stack, fiber: Fiber, token: CancelToken, f: F) -> Hosted<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    let id = fiber.id();
    let header = Header {
        fiber,
        summons: Summons::new(),
        token,
        task: Cell::new(ptr::null()),
        kept: RefCell::new(None),
        as_task: AsTask::new(&HOSTS),
        waits: Cell::new(Waits::Resume),
        result: Cell::new(ptr::null_mut()),
    };
    let fiber = Coroutine::new(stack, header, move |header: &Header| main(header, f));
    match fiber.header().fiber.name() {
        None => fiber.set_label(id, Some("hosted")),
        name => fiber.set_label(id, name),
    }
    // SAFETY: this is its scheduler and executor, and the fiber has not run yet.
    unsafe {
        fiber.header().fiber.set_host(fiber.header_ptr().as_ptr().cast());
        fiber.header().fiber.set_task(NonNull::from(&fiber.header().as_task));
    }
    Hosted { fiber: Some(fiber), has_run: false, result: PhantomData }
}

/// The beginning of a hosted fiber's stack.
fn main<F: FnOnce() -> T, T>(header: &Header, f: F) {
    // On the thread-backed host each fiber has thread-local variables of its own.
    // SAFETY: null is always allowed; the header is in place until the fiber has ended, and the
    // poll sets the former one.
    unsafe {
        set_worker(ptr::null());
        segue_core::scheduling::set_current(&raw const header.fiber);
    }
    let f = || __rust_begin_short_backtrace(f);
    // SAFETY: this is all that the fiber does.
    let result = unsafe { segue_core::scheduling::retire(|| catch_unwind(AssertUnwindSafe(f))) };
    let result = result.map_err(JoinError::panicked);
    // SAFETY: the poll that runs this has set the address of its own local variable, of this type,
    // and looks when this has returned.
    unsafe { *header.result.get().cast::<Ended<T>>() = Some(result) };
}

impl Header {
    /// Whether the suspended fiber can go on, by the requests so far.
    fn is_ready(&self, bits: u8) -> bool {
        bits & RESUME != 0 || (bits & INTERRUPT != 0 && self.fiber.interrupted())
    }
}

impl<T> Future for Hosted<T> {
    type Output = Result<T, JoinError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        barrier(WaitsFor::new("the poll of a hosted fiber"), || self.go_on(task.waker()))
    }
}

impl<T> Hosted<T> {
    /// Runs the fiber, if it can go on, to its next wait, yield, or end with a result.
    #[inline(always)]
    fn go_on(&mut self, task: &Waker) -> Poll<Result<T, JoinError>> {
        let fiber = self.fiber.as_mut().expect("a future was polled after it had yielded its value");
        let header = fiber.header();
        let bits = if header.summons.is_armed_with(task) {
            0
        } else {
            // SAFETY: this is its executor.
            unsafe { header.as_task.has_waker(None) };
            header.summons.arm(task)
        };
        let is_first = !mem::replace(&mut self.has_run, true);
        let mut runs = is_first || header.waits.replace(Waits::Resume) != Waits::Resume || header.is_ready(bits);
        let mut result: Ended<T> = None;
        header.result.set((&raw mut result).cast());
        header.task.set(task);
        while runs {
            // The fiber is none of the worker's that this thread may belong to.
            // SAFETY: null is always allowed. The header stays in place while current, and ends
            // after the former one is set again.
            let (worker, before) = unsafe {
                (set_worker(ptr::null()), segue_core::scheduling::set_current(&raw const fiber.header().fiber))
            };
            let step = fiber.resume();
            // SAFETY: both were so until now.
            unsafe {
                segue_core::scheduling::set_current(before);
                set_worker(worker);
            }
            if step == Step::Returned {
                thread_stacks::put(self.fiber.take().expect("it has just run").into_stack());
                return Poll::Ready(result.expect("a fiber that has ended has left its result"));
            }
            let header = fiber.header();
            match header.waits.get() {
                Waits::Resume => {}
                Waits::Poll => return Poll::Pending,
                Waits::Turn => {
                    task.wake_by_ref();
                    return Poll::Pending;
                }
            }
            // A resume may have come meanwhile. If not, the waker is armed.
            runs = header.summons.is_asked() && header.is_ready(header.summons.arm(task));
        }
        Poll::Pending
    }
}

// The coroutine is behind a pointer, and nothing else is pinned.
impl<T> Unpin for Hosted<T> {}

impl<T> Drop for Hosted<T> {
    fn drop(&mut self) {
        // One that has not run drops its closure with itself, and its stack goes back to its arena.
        // While the thread's local variables are being dropped the fiber may be in the middle of a
        // use of one of them: then that fiber can't ever go on. Its stack is leaked, and counted.
        let goes_on = self.has_run && !thread_stacks::are_gone();
        if let Some(fiber) = self.fiber.as_ref().filter(|_| goes_on) {
            fiber.header().token.cancel();
            // A panic of its own has been reported by the hook; a result that is dropped may panic,
            // which is the dropper's then.
            drop(segue_core::wait_future_shielded(&mut *self));
        }
    }
}

segue_core::impl_debug!([T] Hosted<T>, |it| has_run: it.has_run, has_ended: it.fiber.is_none());

/// The scheduler of all hosted fibers. The type has a size so that its address is its own.
struct Hosts {
    _address: u8,
}

static HOSTS: Hosts = Hosts { _address: 0 };

/// # Safety
/// `fiber` is a hosted one, and its job has not returned.
#[inline]
unsafe fn header_of<'a>(fiber: NonNull<Fiber>) -> &'a Header {
    // SAFETY: `hosted` has set the host to the header's address, before the fiber ran.
    unsafe { &*fiber.as_ref().host().cast::<Header>() }
}

// SAFETY: 1: `suspend` switches to the poll, which switches back only after seeing RESUME, of which
// there is one for each suspension and which the swap in `arm` uses up, or after `interrupted` has
// won a cancellation, for which no RESUME follows, or, after `yield_now` and `pend`, which owe no
// resume, at the next poll. 2: `Hosted` is not `Send`. 3: `go_on`. 4: the header ends after the
// function has returned, in `go_on` or never; the last touch by a resume is the store of RESUME,
// without which the fiber does not run on, and interrupts hold the lock of a context that the fiber
// has left by then.
unsafe impl Scheduler for Hosts {
    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        let header = NonNull::new(fiber.host().cast_mut().cast::<Header>()).expect("a hosted fiber has its header");
        // SAFETY: the caller is the running fiber; the pointer was made by `header_ptr`.
        unsafe { segue_fiber::begin_suspend(header) }
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the fiber has not ended: the fiber waits for a resume, or is a member of a
        // context. `hosted` has set the host.
        let summons = unsafe { NonNull::from(&header_of(fiber).summons) };
        match why {
            Wake::Resume => {
                // SAFETY: the fiber ends only after its resume.
                if let Some(waker) = unsafe { Summons::wake(summons, RESUME) } {
                    segue_core::scheduling::wake_task(waker);
                }
            }
            Wake::Interrupt => {
                // SAFETY: the caller holds the lock of a context that the fiber has to leave before
                // its end.
                if let Some(waker) = unsafe { Summons::wake(summons, INTERRUPT) } {
                    segue_core::scheduling::wake_after_interrupt(waker);
                }
            }
        }
    }

    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: the fiber is the running one.
        unsafe { header_of(NonNull::from(fiber)) }.waits.set(Waits::Turn);
        // SAFETY: the caller is the running fiber; the next poll switches back.
        unsafe { self.suspend(fiber) }
    }

    fn spawner(&self) -> &dyn Spawn {
        default_pool()
    }

    fn timers(&self) -> &dyn Clock {
        segue_core::scheduling::thread_timers()
    }

    /// The executor has no tasks of ours but the caller, which runs the fiber to its end.
    fn start_here(&self, mut job: Job) -> Result<(), Job> {
        let Ok(stack) = thread_stacks::take_of(job.stack_size()) else { return Err(job) };
        // SAFETY: the scheduler is static, and the fiber runs the job.
        let fiber = unsafe { Fiber::for_job(NonNull::from(self as &dyn Scheduler), number(), &mut job) };
        // Its panics stay inside.
        let ended = segue_core::wait_future_shielded(host(stack, fiber, CancelToken::new(), || job.run()));
        debug_assert!(ended.is_ok());
        Ok(())
    }
}

// SAFETY: `pend` suspends the fiber with `Waits::Poll`, so the next poll switches back; the waker
// is the poll's.
unsafe impl Executor for Hosts {
    #[inline]
    unsafe fn task_waker(&self, fiber: &Fiber) -> Rc<Waker> {
        // SAFETY: the fiber is the running one.
        let header = unsafe { header_of(NonNull::from(fiber)) };
        // SAFETY: the fiber runs inside of the poll that brought this waker.
        let task = unsafe { &*header.task.get() };
        // Some wakers know none of their clones: they are cloned in each poll.
        let kept = header.kept.borrow().as_ref().filter(|kept| kept.will_wake(task)).cloned();
        let waker = kept.unwrap_or_else(|| Rc::new(task.clone()));
        let before = header.kept.replace(Some(Rc::clone(&waker)));
        // SAFETY: this is the executor, and keeps the waker.
        unsafe { header.as_task.has_waker(Some(&waker)) };
        // Foreign code, which may suspend the fiber; then this is the waker of an earlier poll.
        drop(before);
        waker
    }

    #[inline]
    unsafe fn pend(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: as the caller promises.
        unsafe {
            header_of(NonNull::from(fiber)).waits.set(Waits::Poll);
            self.suspend(fiber)
        }
    }
}
