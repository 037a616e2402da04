//! A scheduler of fibers that are threads of their own, right in every respect but, where one is
//! planted, one.
//!
//! Used by the tests of the conformance suite, which has to find the fault and to pass the
//! scheduler without one.
#![allow(unsafe_code, dead_code)] // It implements the contract.

use segue_core::Fiber;
use segue_core::scheduling::{Clock, Family, Job, Scheduler, Spawn, Timers, Wake, set_current};
use segue_core::switch::Switch;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, Thread};
use std::time::Duration;

const RESUME: u8 = 1;
const INTERRUPT: u8 = 2;

/// What is wrong with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// One wake in a hundred is lost.
    LosesWakes,
    /// What comes before `suspend` is lost.
    LosesEarlyWakes,
    /// Interrupts are not looked at.
    IgnoresInterrupts,
    /// A wait of the suite ends by itself. To be planted in single cases only: memory safety rests
    /// on this clause.
    ReturnsSpuriously,
    /// A resume ends two waits of the suite. As above.
    ResumesTwice,
    /// A job runs where it is spawned.
    RunsInSpawn,
    /// One job in twenty is forgotten.
    LosesJobs,
    /// No timer is fired.
    FiresNoTimers,
    /// Fibers but the first run without being current.
    SetsNoCurrent,
    /// Timers change with each question. As above.
    ChangesTimers,
    /// A run does not wait for what was detached. As above.
    LeavesDetached,
}

/// The scheduler. It stays for ever, since its fibers' threads may end after the run, and wakers be
/// at work in it.
pub struct Planted {
    fault: Fault,
    family: Family,
    timers: [Timers; 2],
    fibers: AtomicUsize,
    wakes: AtomicUsize,
    asked: AtomicUsize,
    ended: AtomicBool,
}

struct Header {
    fiber: Fiber,
    thread: Thread,
    mail: AtomicU8,
}

/// All that were ever made.
static KEPT: Mutex<Vec<&'static Planted>> = Mutex::new(Vec::new());

/// Runs `main` as the first fiber of a scheduler with a fault.
pub fn run(fault: Fault, main: Box<dyn FnOnce() + Send>) {
    let scheduler: &'static Planted = Box::leak(Box::new(Planted {
        fault,
        family: Family::detached(),
        timers: [Timers::real(), Timers::real()],
        fibers: AtomicUsize::new(0),
        wakes: AtomicUsize::new(0),
        asked: AtomicUsize::new(0),
        ended: AtomicBool::new(false),
    }));
    KEPT.lock().unwrap().push(scheduler);
    let clock = thread::spawn(|| scheduler.fire_until_ended());
    // SAFETY: the family stays for ever, and is completed below unless that is the fault; the
    // closure borrows nothing.
    let (job, handle) = unsafe { scheduler.family.job(segue_core::Builder::new(), main) };
    scheduler.start(job);
    if fault != Fault::LeavesDetached {
        scheduler.family.token().cancel();
        // SAFETY: the owner's one call.
        unsafe { scheduler.family.complete() };
    }
    assert!(handle.join().is_ok(), "the suite catches what its first fiber panics with");
    scheduler.ended.store(true, Ordering::Release);
    clock.join().unwrap();
}

impl Planted {
    fn fire_until_ended(&self) {
        while !self.ended.load(Ordering::Acquire) {
            if self.fault != Fault::FiresNoTimers {
                self.timers.iter().for_each(|timers| {
                    timers.fire();
                });
            }
            // A clock that is looked at every so often: nobody is told when a timer is due, so
            // there is no event to wait for.
            thread::sleep(Duration::from_micros(100));
        }
    }

    /// Runs a job as a fiber on this thread.
    fn start(&'static self, mut job: Job) {
        let scheduler = NonNull::from(self as &dyn Scheduler);
        let id = self.fibers.fetch_add(1, Ordering::Relaxed) as u64;
        // SAFETY: the scheduler stays for ever.
        let fiber = unsafe { Fiber::for_job(scheduler, id, &mut job) };
        let header = Header { fiber, thread: thread::current(), mail: AtomicU8::new(0) };
        let runs_as =
            if self.fault == Fault::SetsNoCurrent && id > 0 { std::ptr::null() } else { &raw const header.fiber };
        // SAFETY: the header is the fiber's, stays in place while it runs, and makes way below.
        let before = unsafe {
            header.fiber.set_host((&raw const header).cast());
            set_current(runs_as)
        };
        job.run();
        // SAFETY: it was current until now.
        unsafe { set_current(before) };
    }

    /// Whether this is the wait of the suite, of a fiber but the first: a fault that memory safety
    /// rests on is planted there alone.
    fn is_a_case(fiber: &Fiber) -> bool {
        fiber.id() > 0 && fiber.waits_for().is_some_and(|waits_for| waits_for.what == "a conformance case")
    }
}

// SAFETY: without a fault: 1: `suspend` returns on RESUME, or after `interrupted` won. 2: a fiber
// is its thread. 3: `start` keeps the current fiber. 4: the header is in the frame of `start`, and
// a wake does not touch it after the store of its bit. With a fault the clause that is broken is
// the point, and the case that meets it touches nothing that it endangers.
unsafe impl Scheduler for Planted {
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: `start` set the host.
        let header = unsafe { &*fiber.host().cast::<Header>() };
        if self.fault == Fault::LosesEarlyWakes {
            header.mail.store(0, Ordering::Release);
        }
        if self.fault == Fault::ReturnsSpuriously && Self::is_a_case(fiber) {
            return None;
        }
        loop {
            let mail = header.mail.swap(0, Ordering::Acquire);
            if mail & RESUME != 0 {
                if self.fault == Fault::ResumesTwice && Self::is_a_case(fiber) {
                    header.mail.store(RESUME, Ordering::Release);
                }
                return None;
            }
            if self.fault != Fault::IgnoresInterrupts && mail & INTERRUPT != 0 && fiber.interrupted() {
                return None;
            }
            thread::park();
        }
    }

    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the header is in place until its bit is stored.
        let header = unsafe { &*fiber.as_ref().host().cast::<Header>() };
        let thread = header.thread.clone();
        let bit = if why == Wake::Resume { RESUME } else { INTERRUPT };
        if self.fault == Fault::LosesWakes && self.wakes.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
            return;
        }
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
        let asked = if self.fault == Fault::ChangesTimers { self.asked.fetch_add(1, Ordering::Relaxed) } else { 0 };
        &self.timers[asked % 2]
    }
}

impl Spawn for Planted {
    fn spawn(&self, job: Job) {
        // SAFETY: every scheduler of this kind stays for ever.
        let me: &'static Self = unsafe { &*std::ptr::from_ref(self) };
        match self.fault {
            Fault::RunsInSpawn => me.start(job),
            Fault::LosesJobs if self.asked.fetch_add(1, Ordering::Relaxed) % 20 == 19 => std::mem::forget(job),
            _ => drop(thread::Builder::new().spawn(move || me.start(job))),
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        segue_core::scheduling::thread_spawner().share()
    }
}
