//! A scheduler to read first: one thread, first ready, first run.
//!
//! Used as the worked example of `docs/contract.md`; the numbers are its clauses. All that becomes
//! ready goes into a queue, from whatever thread. The scheduler's thread takes one after the other:
//! a job starts on a stack of its own, a fiber goes on until it suspends or ends. So a resume that
//! comes while its fiber still runs is not lost (5).
#![allow(unsafe_code)] // It implements the contract.

use crate::run::lead::{cancel, first_fiber, prepare_thread, with_family};
use segue_core::scheduling::{Clock, Job, Scheduler, Spawn, Timers, Wake, afresh, set_current};
use segue_core::{Fiber, in_fiber, switch::Switch, unwind::NoUnwind};
use segue_fiber::{Coroutine, Step, thread_stacks};
use std::sync::{Arc, Mutex, Weak, atomic::AtomicUsize, atomic::Ordering::Relaxed};
use std::{collections::VecDeque, ptr::NonNull, thread};

/// The plain scheduler: its fibers take turns on one thread, as they became ready.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::Plain::run(|| segue_core::spawn(|| 6 * 7).join().unwrap()), 42);
/// ```
pub struct Plain {
    ready: Mutex<VecDeque<Ready>>,
    thread: thread::Thread,
    timers: Timers,
    /// How many fibers have not ended. The first one ends last.
    living: AtomicUsize,
    me: Weak<Self>,
}

enum Ready {
    Start(Job),
    Woken(NonNull<Fiber>, Wake),
}

// SAFETY: jobs are `Send` (J6); the scheduler's thread alone follows the pointers.
unsafe impl Send for Ready {}

impl Plain {
    /// Runs `f` as the first fiber, and all its descendants, on this thread. When `f` has returned,
    /// its detached fibers are cancelled, and `run` waits for its end.
    ///
    /// # Panics
    /// If `f` does, with its payload; without a stack; if the caller is a fiber.
    pub fn run<T>(f: impl FnOnce() -> T) -> T {
        assert!(!in_fiber(), "the plain scheduler blocks its thread: it can't run in a fiber");
        prepare_thread().expect("a handler for stack overflow");
        let (thread, timers, living) = (thread::current(), Timers::real(), AtomicUsize::new(0));
        let plain = Arc::new_cyclic(|me| Self { ready: Mutex::default(), thread, timers, living, me: me.clone() });
        // SAFETY: the family is this call's, and `work` starts the job on this thread.
        with_family(|family| unsafe { first_fiber(family, f, cancel, || (), |first| afresh(|| plain.work(first))) })
    }

    fn work(&self, first: Job) {
        let no_unwind = NoUnwind::new("the plain scheduler panicked; its fibers can't go on");
        self.start(first);
        while self.living.load(Relaxed) != 0 {
            self.timers.fire(); // 18
            let next = self.ready.lock().unwrap().pop_front();
            match next {
                Some(Ready::Start(job)) => self.start(job),
                // SAFETY: the fiber is in place: `switch_to` removes the ways to others.
                Some(Ready::Woken(at, Wake::Interrupt)) if !unsafe { at.as_ref() }.interrupted() => {}
                // SAFETY: it is new, or suspended and goes on once for a resume, yield, `true` (1).
                Some(Ready::Woken(at, _)) => self.switch_to(unsafe { Coroutine::from_header(header(at.as_ref())) }),
                None => self.timers.until_next().map_or_else(thread::park, thread::park_timeout),
            }
        }
        self.timers.close();
        no_unwind.disarm();
    }

    /// Starts a fiber for a job, or drops that if there is no stack (16).
    fn start(&self, job: Job) {
        self.fiber_for(job).map_or_else(drop, |fiber| self.switch_to(fiber));
    }

    fn fiber_for(&self, mut job: Job) -> Result<Coroutine<Fiber>, Job> {
        let Ok(stack) = thread_stacks::take_of(job.stack_size()) else { return Err(job) };
        self.living.fetch_add(1, Relaxed);
        // SAFETY: this scheduler outlives its fibers: `work` ends after them. This one runs `job`.
        let fiber = unsafe { Fiber::for_job(NonNull::from(self as &dyn Scheduler), stack.number() as u64, &mut job) };
        let fiber = Coroutine::new(stack, fiber, |fiber: &Fiber| {
            // SAFETY: as in `switch_to`, again for hosts on which a fiber is a thread.
            unsafe { set_current(fiber) };
            job.run();
        });
        // SAFETY: this is its scheduler, and the fiber has not run yet.
        unsafe { fiber.header().set_host(fiber.header_ptr().as_ptr().cast()) };
        Ok(fiber)
    }

    /// Runs a fiber to its suspension or end.
    fn switch_to(&self, mut fiber: Coroutine<Fiber>) {
        // SAFETY: the header goes after the former one is current again (3).
        let before = unsafe { set_current(fiber.header()) };
        let step = fiber.resume();
        // SAFETY: the former header was current until now.
        unsafe { set_current(before) };
        let Step::Returned = step else { return std::mem::forget(fiber) };
        // The fiber has left its contexts: no further interrupt comes (4, 12), and none may stay.
        self.ready.lock().unwrap().retain(|ready| !matches!(ready, Ready::Woken(at, _) if *at == fiber.header_ptr()));
        thread_stacks::put(fiber.into_stack());
        self.living.fetch_sub(1, Relaxed);
    }

    fn put(&self, ready: Ready) {
        self.ready.lock().unwrap().push_back(ready);
        self.thread.unpark();
    }
}

impl Spawn for Plain {
    fn spawn(&self, job: Job) {
        self.put(Ready::Start(job));
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        self.me.upgrade().expect("it lies in an `Arc`")
    }
}

/// The address of a fiber's header for its coroutine, kept there by `start`.
fn header(fiber: &Fiber) -> NonNull<Fiber> {
    NonNull::new(fiber.host().cast_mut().cast()).expect("it has started")
}

// SAFETY: 1: `work`. 2: `work` alone starts fibers and switches to them. 3: `switch_to`. 4: no wake
// touches the header, and `switch_to` removes the interrupts of a fiber that has ended.
unsafe impl Scheduler for Plain {
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: the fiber is the running one, so this is on its stack.
        unsafe { segue_fiber::begin_suspend(header(fiber)) }
    }

    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // A fiber that was resumed may end before `put` has returned, and so may the run.
        self.me.upgrade().expect("it has fibers").put(Ready::Woken(fiber, why));
    }

    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch> {
        self.put(Ready::Woken(header(fiber), Wake::Resume));
        // SAFETY: the fiber is the running one, and goes on once for this entry.
        unsafe { self.suspend(fiber) }
    }

    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &dyn Clock {
        &self.timers
    }

    fn start_here(&self, job: Job) -> Result<(), Job> {
        self.fiber_for(job).map(|fiber| self.put(Ready::Woken(fiber.into_header(), Wake::Resume))) // 25
    }
}
