//! A scheduler for tests: each fiber is the thread that starts it, the clock is simulated, and what
//! happens is counted.
// It implements the contract; each test file uses a part of it.
#![allow(unsafe_code, unused_unsafe, dead_code)]

use segue_core::scheduling::{Clock, Family, Job, Scheduler, Spawn, Timers, Wake};
use segue_core::switch::Switch;
use segue_core::{CancelToken, Fiber};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};

const RESUME: u8 = 1;
const INTERRUPT: u8 = 2;

/// What becomes of the jobs that are spawned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    Keep,
    Drop,
}

/// The scheduler. It outlives its fibers, since [`Host::run`] borrows it.
pub struct Host {
    timers: Timers,
    jobs: Jobs,
    kept: Mutex<Vec<Job>>,
    suspended: AtomicUsize,
    resumed: Mutex<Vec<u64>>,
}

struct Header {
    fiber: Fiber,
    thread: Thread,
    mail: AtomicU8,
}

impl Host {
    pub fn new(jobs: Jobs) -> Self {
        Self {
            timers: Timers::simulated(),
            jobs,
            kept: Mutex::default(),
            suspended: AtomicUsize::new(0),
            resumed: Mutex::default(),
        }
    }

    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Runs `f` as fiber `id` on this thread, and gives it the token that cancels it.
    pub fn run<R: Send>(&self, id: u64, f: impl FnOnce(CancelToken) -> R + Send) -> R {
        let family = Family::detached();
        let token = family.token();
        // SAFETY: the family is completed below, in this frame.
        let (job, handle) = unsafe { family.job(segue_core::Builder::new(), move || f(token)) };
        self.start(id, job);
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
        match segue_core::shield(|| handle.join()) {
            Ok(result) => result,
            Err(error) => std::panic::resume_unwind(error.into_panic().expect("nothing cancels it before it starts")),
        }
    }

    /// Runs a job as fiber `id` on this thread.
    pub fn start(&self, id: u64, mut job: Job) {
        let scheduler = NonNull::from(self as &dyn Scheduler);
        // SAFETY: the host outlives this frame, and with it the header.
        let fiber = unsafe { Fiber::for_job(scheduler, id, &mut job) };
        let header = Header { fiber, thread: thread::current(), mail: AtomicU8::new(0) };
        // SAFETY: the header is the fiber's, and stays in place while it runs.
        unsafe { header.fiber.set_host((&raw const header).cast()) };
        // SAFETY: the header is in this frame, which makes what was before current again.
        let before = unsafe { segue_core::scheduling::set_current(&raw const header.fiber) };
        job.run();
        // SAFETY: it was current until now.
        unsafe { segue_core::scheduling::set_current(before) };
    }

    /// The jobs that were accepted and not started.
    pub fn take_jobs(&self) -> Vec<Job> {
        std::mem::take(&mut *self.kept.lock().unwrap())
    }

    /// How many fibers are suspended now.
    pub fn suspended(&self) -> usize {
        self.suspended.load(Ordering::SeqCst)
    }

    /// Returns once that many fibers are suspended.
    pub fn until_suspended(&self, count: usize) {
        while self.suspended() != count {
            thread::yield_now();
        }
    }

    /// The fibers that were resumed, in the order of their resumption.
    pub fn resumed(&self) -> Vec<u64> {
        self.resumed.lock().unwrap().clone()
    }
}

// SAFETY: 1: as for plain threads: `suspend` returns on RESUME, or after `interrupted` won. 2: a
// fiber is its thread. 3: `start` keeps the current fiber. 4: the header is in the frame of
// `start`, and a wake does not touch it after the store of its bit.
unsafe impl Scheduler for Host {
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: `start` set the host.
        let header = unsafe { &*fiber.host().cast::<Header>() };
        self.suspended.fetch_add(1, Ordering::SeqCst);
        loop {
            let mail = header.mail.swap(0, Ordering::Acquire);
            if mail & RESUME != 0 || (mail & INTERRUPT != 0 && fiber.interrupted()) {
                break;
            }
            thread::park();
        }
        self.suspended.fetch_sub(1, Ordering::SeqCst);
        None
    }

    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the header is in place until its bit is stored.
        let header = unsafe { &*fiber.as_ref().host().cast::<Header>() };
        let thread = header.thread.clone();
        let bit = match why {
            Wake::Resume => {
                self.resumed.lock().unwrap().push(header.fiber.id());
                RESUME
            }
            Wake::Interrupt => INTERRUPT,
        };
        header.mail.fetch_or(bit, Ordering::Release);
        thread.unpark();
    }

    unsafe fn yield_now(&self, _fiber: &Fiber) -> Option<Switch> {
        thread::yield_now();
        None
    }

    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &dyn Clock {
        &self.timers
    }
}

impl Spawn for Host {
    fn spawn(&self, job: Job) {
        match self.jobs {
            Jobs::Keep => self.kept.lock().unwrap().push(job),
            Jobs::Drop => drop(job),
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        segue_core::scheduling::thread_spawner().share()
    }
}

/// How often a race is run: less where each step is interpreted.
pub const fn rounds(native: usize) -> usize {
    if cfg!(miri) { native / 500 + 10 } else { native }
}

/// Returns once `done` says so.
pub fn until(done: impl Fn() -> bool) {
    while !done() {
        thread::yield_now();
    }
}

/// Wastes a little time, differently each round, so that races come out in all ways.
pub fn stagger(round: usize) {
    for _ in 0..(round.wrapping_mul(7919) % 5) * 40 {
        std::hint::spin_loop();
    }
    if cfg!(miri) || round.is_multiple_of(3) {
        for _ in 0..round % 4 {
            thread::yield_now();
        }
    }
}

/// A value that counts how often values of its kind were dropped.
#[derive(Debug)]
pub struct Counted(pub std::sync::Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A counter of drops, and what makes values that it counts.
pub fn counted() -> (std::sync::Arc<AtomicUsize>, impl Fn() -> Counted + Clone + Send + Sync) {
    let drops = std::sync::Arc::new(AtomicUsize::new(0));
    let make = std::sync::Arc::clone(&drops);
    (drops, move || Counted(std::sync::Arc::clone(&make)))
}
