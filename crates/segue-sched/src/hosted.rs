//! A fiber that is a future: a foreign executor's thread runs it, one poll from suspension to suspension.
//!
//! Used by bridges, for fibers that live among the tasks of an executor that stays on one thread.
//!
//! # The idea
//!
//! To the fiber, the executor is its scheduler: to suspend is to return `Pending` from the poll, to be made ready is to have the task's waker called. There is no worker,
//! no policy and no inbox; what wakes from other threads meet is one word in the fiber's header and the waker beside it.
//!
//! # States of the word
//!
//! ```text
//!   0 --first poll: puts the waker, stores--> ARMED
//!   ARMED --wake: takes the waker under LOCKED, then stores--> RESUME or INTERRUPT, and calls the waker
//!   RESUME, INTERRUPT --wake--> both               (the task is on its way already)
//!   RESUME and/or INTERRUPT --poll: puts a waker, swaps--> ARMED, and the fiber runs if it was resumed or its wait is cancelled now
//! ```
//!
//! The waker is put *before* the fiber runs. So a resume that comes while it still runs, or just after, finds it and calls it, and the poll need not touch the word
//! again but to look: a wait costs two read-modify-writes, one by whoever wakes and one by the poll that follows.
//!
//! A fiber that waits for a `Future` has no need of that: it polls the future with the task's own waker and *pends*, and the next poll of the task, whoever asked for it, is the next of the
//! future. The waker stays armed meanwhile, for interrupts alone. The same goes for a fiber that gives up its turn, whose poll also wakes its own task.
//!
//! The cell of the waker belongs to the polling thread while ARMED is not set, and to whoever has LOCKED otherwise. LOCKED is held for a move.
//!
//! **Commit point**: the trigger's, as everywhere. **Idle**: ARMED, and the fiber suspended. **Cancellation** comes by the fiber's own context, which dropping the future cancels, or by
//! contexts that the fiber has entered: an interrupt has the task polled, and the poll asks [`Fiber::interrupted`].
//!
//! **The race to fear**: a waker thread that touches the header after the fiber has ended. For a resume the store that ends LOCKED (or the exchange, if there is no waker) is the last touch; the
//! fiber runs on only after the poll has seen it. For an interrupt the canceller holds a lock of a context that the fiber must leave before it ends. The waker itself is called
//! after that, from the caller's own stack; and for an interrupt, after the canceller's lock.
//!
//! # Orderings
//!
//! The store or exchange that sets RESUME releases, the poll's swap acquires: what the resumer did is seen by the fiber. The swap that sets ARMED releases the waker, the exchange
//! to LOCKED acquires it.
//!
//! # The end
//!
//! A stack that was started is not freed before its function has returned. So to drop a future whose fiber is suspended is to cancel the fiber and to run it to its end, there and
//! then: each of its waits fails. What it waits for under a shield blocks the dropper meanwhile.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::local::set_worker;
use segue_core::atomic::{AtomicU8, Ordering, spin_loop, yield_now};
use segue_core::{CancelToken, Executor, Fiber, Job, JoinError, Scheduler, Timers, Wake};
use segue_fiber::{Coroutine, Step, thread_stacks};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::task::{Context, Poll, RawWakerVTable, Waker};

/// What was asked of the fiber since it was last looked at.
const RESUME: u8 = 1;
const INTERRUPT: u8 = 2;
/// The task's waker is in its cell.
const ARMED: u8 = 4;
/// Somebody moves the waker.
const LOCKED: u8 = 8;

/// What lies at the top of a hosted fiber's stack. The fiber's host pointer leads here.
struct Header {
    fiber: Fiber,
    word: AtomicU8,
    waker: UnsafeCell<Option<Waker>>,
    /// What the fiber runs under.
    token: CancelToken,
    /// Which waker is in the cell, to be compared without the lock. Only its address and table are used.
    armed: Cell<(*const (), *const RawWakerVTable)>,
    /// The waker of the poll that is under way.
    task: Cell<*const Waker>,
    /// A clone of it that outlives the poll, for futures that the fiber polls.
    kept: RefCell<Option<Rc<Waker>>>,
    /// What the next poll is to do if nothing was asked of the fiber.
    waits: Cell<Waits>,
    /// Where the result goes: set for the length of a poll.
    result: Cell<*mut ()>,
}

/// How a fiber is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Until it is resumed.
    Resume,
    /// Until the task is polled, by whoever wakes it.
    Poll,
    /// Not really: it has given up its turn.
    Turn,
}

fn identity(waker: &Waker) -> (*const (), *const RawWakerVTable) {
    (waker.data(), waker.vtable())
}

impl Header {
    /// Leaves the task's waker with the header, and says what was asked before. For the poll.
    #[inline]
    fn arm(&self, task: &Waker) -> u8 {
        let bits = self.word.load(Ordering::Acquire);
        if bits == ARMED && self.armed.get() == identity(task) {
            // If it is being taken just now, it is called, and this poll is not the last.
            return 0;
        }
        if bits & (ARMED | LOCKED) == 0 {
            let waker = task.clone();
            // SAFETY: while ARMED is not set the cell is the polling thread's, which is this one; a clone that polls this future again, or drops it, is
            // impossible, since that one is borrowed.
            let before = unsafe { (*self.waker.get()).replace(waker) };
            debug_assert!(before.is_none());
            self.armed.set(identity(task));
            return self.word.swap(ARMED, Ordering::AcqRel);
        }
        self.rearm(task)
    }

    /// As `arm`, for a header that has a waker already, or had one a moment ago.
    #[cold]
    fn rearm(&self, task: &Waker) -> u8 {
        let bits = self.lock();
        // SAFETY: LOCKED is ours.
        let known = unsafe { &*self.waker.get() };
        if known.as_ref().is_some_and(|known| known.will_wake(task)) {
            self.word.store(ARMED, Ordering::Release);
            return bits;
        }
        self.word.store(bits, Ordering::Release);
        // Outside of the lock: it is foreign code, and so is the drop of the other.
        let mut waker = Some(task.clone());
        let bits = self.lock();
        // SAFETY: LOCKED is ours.
        std::mem::swap(unsafe { &mut *self.waker.get() }, &mut waker);
        self.armed.set(identity(task));
        self.word.store(ARMED, Ordering::Release);
        contain(|| drop(waker));
        bits
    }

    /// Takes LOCKED, and says what else was in the word, which stays there. For the poll, which may have it whether or not there is a waker.
    fn lock(&self) -> u8 {
        let mut bits = self.word.load(Ordering::Relaxed);
        let mut looks = 0;
        loop {
            if bits & LOCKED != 0 {
                pause(&mut looks);
                bits = self.word.load(Ordering::Relaxed);
                continue;
            }
            match self.word.compare_exchange_weak(bits, bits | LOCKED, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return bits,
                Err(now) => bits = now,
            }
        }
    }

    /// Takes note of a wake; what it returns is to be called, and the header not touched any more. It may be gone before this has returned, hence
    /// the pointer.
    ///
    /// # Safety
    /// The fiber has not ended, and does not before this has taken note.
    unsafe fn wake(this: NonNull<Self>, bit: u8) -> Option<Waker> {
        // SAFETY: as the caller promises.
        let header = unsafe { this.as_ref() };
        let mut bits = header.word.load(Ordering::Relaxed);
        let mut looks = 0;
        loop {
            let armed = bits & ARMED != 0;
            if bits & LOCKED != 0 {
                pause(&mut looks);
                bits = header.word.load(Ordering::Relaxed);
                continue;
            }
            // Without a waker the cell is the poll's, which may be about to fill it: then it finds the bit.
            let to = bits | if armed { LOCKED } else { bit };
            match header.word.compare_exchange_weak(bits, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if armed => break,
                Ok(_) => return None,
                Err(now) => bits = now,
            }
        }
        // SAFETY: LOCKED is ours.
        let waker = unsafe { (*header.waker.get()).take() };
        header.word.store((bits & !ARMED) | bit, Ordering::Release);
        waker
    }
}

/// Waits for somebody who has LOCKED.
#[cold]
fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks < 64 { spin_loop() } else { yield_now() }
}

/// Calls foreign code where nothing may unwind. The panic hook has reported it if it does, and its payload, whose drop may panic again, is leaked.
fn contain(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        std::mem::forget(payload);
    }
}

type Switch = Coroutine<Header>;

/// The result of a fiber that has ended.
type Ended<T> = Option<Result<T, JoinError>>;

/// A fiber that an executor hosts: a future that runs it. Made by [`hosted`].
///
/// It is not `Send`: the fiber stays on the thread on which it was made.
///
/// ```compile_fail,E0277
/// fn moves_to_another_thread<T: Send>(_: T) {}
/// moves_to_another_thread(segue_sched::hosted(|| ()));
/// ```
#[must_use = "futures do nothing unless they are polled"]
pub struct Hosted<T> {
    /// Until it has ended.
    fiber: Option<Switch>,
    state: State,
    result: PhantomData<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Suspended,
    Ended,
}

/// Makes a fiber of `f` that runs inside of the polls of a future: on the executor's thread, among the executor's tasks.
///
/// `f` may hold what is not `Send`, and may call what needs the executor's thread. When it waits, its task is pending, and the executor runs others. It starts at the
/// first poll. Its panic is an error of the result.
///
/// What it spawns runs elsewhere: on the default runtime, or on threads if there is none. Its clock and timers are those of plain threads. To give up the turn
/// ([`yield_now`](segue_core::yield_now)) is to be polled again after the other tasks that are ready.
///
/// # Cancellation
/// Dropping the future of a fiber that has started cancels it and runs it to its end before the drop returns, since its stack holds what it has borrowed. Each of its waits fails
/// from then on; one under a [`shield`](segue_core::shield) blocks the caller of the drop until it has ended (a fiber is suspended, a thread parked), which is for ever if it waits for
/// another task of the same thread. A future that was never polled only drops `f`. A future that is leaked (`mem::forget`) leaks the fiber's stack; and so does one that a
/// thread-local variable drops at the end of its thread.
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
    let token = CancelToken::new();
    let scheduler: NonNull<dyn Scheduler> = NonNull::from(&HOSTS);
    let header = Header {
        // SAFETY: the scheduler is static, and the token lies beside the fiber.
        fiber: unsafe { Fiber::under(scheduler, 0, &token) },
        word: AtomicU8::new(0),
        waker: UnsafeCell::new(None),
        token,
        armed: Cell::new((ptr::null(), ptr::null())),
        task: Cell::new(ptr::null()),
        kept: RefCell::new(None),
        waits: Cell::new(Waits::Resume),
        result: Cell::new(ptr::null_mut()),
    };
    let stack = thread_stacks::take().unwrap_or_else(|error| panic!("no stack for a hosted fiber: {error}"));
    let fiber = Switch::new(stack, header, move |header: &Header| main(header, f));
    // SAFETY: this is its scheduler, and it has not run yet.
    unsafe { fiber.header().fiber.set_host(fiber.header_ptr().as_ptr().cast()) };
    Hosted { fiber: Some(fiber), state: State::New, result: PhantomData }
}

/// What a hosted fiber's stack begins with.
fn main<F: FnOnce() -> T, T>(header: &Header, f: F) {
    // On the thread-backed host each fiber has thread-local variables of its own.
    set_worker(ptr::null());
    // SAFETY: the header is in place until the fiber has ended, and the poll sets what was current before.
    unsafe { segue_core::set_current(&raw const header.fiber) };
    // SAFETY: as above.
    unsafe { segue_core::set_task(Some((&raw const header.fiber, &HOSTS))) };
    let result = catch_unwind(AssertUnwindSafe(f)).map_err(JoinError::Panicked);
    segue_core::retire();
    // SAFETY: the poll that runs this has set the address of its own local variable, of this type, and looks when this has returned.
    unsafe { *header.result.get().cast::<Ended<T>>() = Some(result) };
}

impl<T> Hosted<T> {
    /// Requests that the fiber stop. Never waits.
    fn cancel(&self) {
        if let Some(fiber) = &self.fiber {
            fiber.header().token.cancel();
        }
    }

    /// Whether the suspended fiber can go on, by what was asked of it.
    fn is_ready(header: &Header, bits: u8) -> bool {
        bits & RESUME != 0 || (bits & INTERRUPT != 0 && header.fiber.interrupted())
    }

    /// Runs the fiber until it waits, yields, or ends with a result.
    fn run(&mut self, context: &Context<'_>) -> Ended<T> {
        let mut result: Ended<T> = None;
        let fiber = self.fiber.as_mut().expect("it has not ended");
        loop {
            fiber.header().result.set((&raw mut result).cast());
            fiber.header().task.set(context.waker());
            self.state = State::Suspended;
            // The fiber is none of the worker's that this thread may belong to.
            let worker = set_worker(ptr::null());
            // SAFETY: the header stays in place while it is current: it ends after what was current before is set again.
            let before = unsafe { segue_core::set_current(&raw const fiber.header().fiber) };
            // SAFETY: as above.
            let task = unsafe { segue_core::set_task(Some((&raw const fiber.header().fiber, &HOSTS))) };
            let step = fiber.resume();
            // SAFETY: both were so until now.
            unsafe {
                segue_core::set_current(before);
                segue_core::set_task(task);
            }
            set_worker(worker);
            if step == Step::Returned {
                self.state = State::Ended;
                thread_stacks::put(self.fiber.take().expect("it has just run").into_stack());
                return result;
            }
            let header = fiber.header();
            match header.waits.get() {
                Waits::Resume => {}
                Waits::Poll => return None,
                Waits::Turn => {
                    context.waker().wake_by_ref();
                    return None;
                }
            }
            // It may have been resumed meanwhile. If not, the waker is armed.
            if header.word.load(Ordering::Acquire) & (RESUME | INTERRUPT) == 0 {
                return None;
            }
            let bits = header.arm(context.waker());
            if !Self::is_ready(header, bits) {
                return None;
            }
        }
    }
}

impl<T> Future for Hosted<T> {
    type Output = Result<T, JoinError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let fiber = this.fiber.as_ref().expect("a future was polled after it had yielded its value");
        let header = fiber.header();
        let bits = header.arm(task.waker());
        let runs = match this.state {
            State::New => true,
            _ => header.waits.replace(Waits::Resume) != Waits::Resume || Self::is_ready(header, bits),
        };
        if !runs {
            return Poll::Pending;
        }
        match this.run(task) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}

// The coroutine is behind a pointer, and nothing else is pinned.
impl<T> Unpin for Hosted<T> {}

impl<T> Drop for Hosted<T> {
    fn drop(&mut self) {
        if self.state == State::Suspended && thread_stacks::are_gone() {
            // The thread's local variables are being dropped, and the fiber may be in the middle of a use of one of them: it can't ever go on. Its stack is
            // leaked, and counted.
            drop(self.fiber.take());
        } else if self.state == State::Suspended {
            self.cancel();
            // A panic of its own has been reported by the hook; a result that is dropped may panic, which is the dropper's then.
            drop(segue_core::wait_future_shielded(&mut *self));
        } else if let Some(fiber) = self.fiber.take() {
            // Never started: drops the closure. The stack goes back to its arena.
            drop(fiber);
        }
    }
}

impl<T> fmt::Debug for Hosted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosted").field("state", &self.state).finish_non_exhaustive()
    }
}

/// The scheduler of all hosted fibers. It has a size so that its address is its own.
struct Hosts {
    _address: u8,
}

static HOSTS: Hosts = Hosts { _address: 0 };

/// # Safety
/// `fiber` is a hosted one whose job has not returned.
#[inline]
unsafe fn header_of<'a>(fiber: NonNull<Fiber>) -> &'a Header {
    // SAFETY: `hosted` has set the host to the header's address, before the fiber ran.
    unsafe { &*fiber.as_ref().host().cast::<Header>() }
}

// SAFETY: 1: `suspend` switches to the poll, which switches back only after it has seen RESUME, of which there is one for each suspension and which the swap in `arm` uses up,
// or after `interrupted` has won a cancellation, for which no RESUME follows, or, after `yield_now` and `pend`, which owe no resume, at the next poll. 2: `Hosted` is not `Send`.
// 3: `run`. 4: the header ends after the function has returned, in `run` or never; the last touch by a resume is what sets RESUME, without which the fiber does not
// run on, and interrupts hold the lock of a context that the fiber has left by then.
unsafe impl Scheduler for Hosts {
    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber) {
        let header = NonNull::new(fiber.host().cast_mut().cast::<Header>()).expect("a hosted fiber has its header");
        // SAFETY: the caller is the running fiber; the pointer was made by `header_ptr`.
        unsafe { segue_fiber::suspend(header) };
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the fiber has not ended: it waits to be resumed, or is a member of a context. `hosted` has set the host.
        let header = unsafe { NonNull::new_unchecked(fiber.as_ref().host().cast_mut().cast::<Header>()) };
        match why {
            Wake::Resume => {
                // SAFETY: it ends only after it was resumed.
                if let Some(waker) = unsafe { Header::wake(header, RESUME) } {
                    segue_core::wake_task(waker);
                }
            }
            Wake::Interrupt => {
                // SAFETY: the caller holds the lock of a context that the fiber has to leave before it ends.
                if let Some(waker) = unsafe { Header::wake(header, INTERRUPT) } {
                    segue_core::wake_after_interrupt(waker);
                }
            }
        }
    }

    unsafe fn yield_now(&self, fiber: &Fiber) {
        // SAFETY: it is the running one.
        unsafe { header_of(NonNull::from(fiber)) }.waits.set(Waits::Turn);
        // SAFETY: the caller is the running fiber; the next poll switches back to it.
        unsafe { self.suspend(fiber) };
    }

    fn spawn(&self, job: Job) {
        segue_core::spawn_by_default(job);
    }

    fn timers(&self) -> &Timers {
        segue_core::thread_timers()
    }
}

// SAFETY: `pend` suspends the fiber with `Waits::Poll`, so the next poll switches back to it; the waker is the poll's.
unsafe impl Executor for Hosts {
    #[inline]
    fn task_waker(&self, fiber: &Fiber) -> Rc<Waker> {
        // SAFETY: it is the running one.
        let header = unsafe { header_of(NonNull::from(fiber)) };
        // SAFETY: the fiber runs inside of the poll whose waker this is.
        let task = unsafe { &*header.task.get() };
        if let Some(kept) = header.kept.borrow().as_ref().filter(|kept| kept.will_wake(task)) {
            return Rc::clone(kept);
        }
        let kept = Rc::new(task.clone());
        drop(header.kept.replace(Some(Rc::clone(&kept))));
        kept
    }

    #[inline]
    unsafe fn pend(&self, fiber: &Fiber) {
        // SAFETY: as the caller promises.
        unsafe {
            header_of(NonNull::from(fiber)).waits.set(Waits::Poll);
            self.suspend(fiber);
        }
    }
}
