//! The threads on which blocking calls run: as many as are needed, up to a limit, and none after a while.
//!
//! Used by `blocking.rs`, which submits calls, and by `thread.rs`, which says when one of these threads waits.
//!
//! # The idea
//!
//! One queue, first in first out, under one lock with everything else: how many threads there are, how many are *idle* (in the condition's wait, or just woken from it) and how many are
//! *waiting* (suspended inside of a call, at one of our structures). Calls take microseconds at least, so a lock is little.
//!
//! **What holds whenever the lock is free**: there is an idle thread for each call in the queue, or as many threads are at work as the limit allows, or one is on its way to being started. For whoever pushes a call wakes an idle
//! thread if there are enough of them for all that is queued, and else starts one; an idle thread looks at the queue before it ends or sleeps again; one that has finished a call takes the next.
//!
//! **The race to fear**: a call is left behind with a thread that has just given up. It is not: to give up is to find the queue empty under the lock, and to leave the count of threads in the
//! same hold of it.
//!
//! **Threads that wait** at a structure are waiting for somebody, perhaps for a call that is in the queue. So they do not count against the limit, and another is started if
//! calls are queued. When they go on there may be more at work than the limit says: then those that finish a call end. There is no limit to the number of threads that wait.
//!
//! **Fork**: the child has none of the threads. The crew belongs to a process, whose number is compared at each call; another process makes a new one and leaks the old one, whose lock may
//! have been held by a thread that is not there.
#![allow(unsafe_code)] // The crew is leaked, and reached by address.

use crate::job::{Job, JobHeader};
use crate::thread;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static CREW: AtomicPtr<Crew> = AtomicPtr::new(ptr::null_mut());
static LIMIT: AtomicUsize = AtomicUsize::new(512);
/// In milliseconds.
static IDLE: AtomicU64 = AtomicU64::new(10_000);

thread_local! {
    /// The crew that this thread is of.
    static MINE: Cell<Option<&'static Crew>> = const { Cell::new(None) };
}

pub(crate) fn set_limit(threads: usize) {
    LIMIT.store(threads, Ordering::Relaxed);
}

pub(crate) fn set_idle(time: Duration) {
    IDLE.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The threads of one process.
pub(crate) struct Crew {
    process: u32,
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    waiting: usize,
}

impl State {
    /// Whether somebody is needed for what is queued, and allowed.
    fn lacks_one(&self) -> bool {
        self.queue.len() > self.idle && self.threads - self.waiting < LIMIT.load(Ordering::Relaxed)
    }
}

/// The crew of this process.
pub(crate) fn get() -> &'static Crew {
    let process = std::process::id();
    let mut seen = CREW.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or a crew that was leaked.
        match unsafe { seen.as_ref() } {
            Some(crew) if crew.process == process => return crew,
            _ => {}
        }
        let state = State { queue: VecDeque::new(), threads: 0, idle: 0, waiting: 0 };
        let made = Box::into_raw(Box::new(Crew { process, state: Mutex::new(state), work: Condvar::new() }));
        match CREW.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => seen = made,
            Err(now) => {
                // SAFETY: it was made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                seen = now;
            }
        }
    }
}

/// Runs a call on the calling thread.
pub(crate) fn run(job: Job) {
    thread::run_job(job);
}

impl Crew {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a call; gives it back if there is no thread to run it, and none can be had.
    pub(crate) fn submit(&'static self, job: Job) -> Result<(), Job> {
        let header = job.as_raw();
        let mut state = self.state();
        state.queue.push_back(job);
        if !state.lacks_one() {
            drop(state);
            self.work.notify_one();
            return Ok(());
        }
        if self.start_one(state) {
            return Ok(());
        }
        let mut state = self.state();
        let nobody = state.threads == state.waiting;
        let left = if nobody { take_out(&mut state.queue, header) } else { None };
        left.map_or(Ok(()), Err)
    }

    /// Takes a call back that nobody has begun.
    pub(crate) fn take_back(&self, header: NonNull<JobHeader>) -> Option<Job> {
        take_out(&mut self.state().queue, header)
    }

    /// Starts a thread, and answers whether there is one more.
    fn start_one(&'static self, mut state: MutexGuard<'_, State>) -> bool {
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("segue-blocking".to_owned());
        let started = thread.spawn(|| self.work()).is_ok();
        if !started {
            self.state().threads -= 1;
        }
        started
    }

    /// What each thread does.
    fn work(&'static self) {
        MINE.set(Some(self));
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                run(job);
                state = self.state();
                if state.threads - state.waiting > LIMIT.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            }
            state.idle += 1;
            let time = Duration::from_millis(IDLE.load(Ordering::Relaxed));
            let (woken, timeout) = self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

fn take_out(queue: &mut VecDeque<Job>, header: NonNull<JobHeader>) -> Option<Job> {
    let at = queue.iter().position(|job| job.as_raw() == header)?;
    queue.remove(at)
}

/// While a thread of the crew waits at a structure.
pub(crate) struct Waits(&'static Crew);

/// To be held while the calling thread waits. `None` on other threads than the crew's.
#[inline]
pub(crate) fn waits() -> Option<Waits> {
    // In the destructors of a thread's local variables it is of no crew any more.
    MINE.try_with(Cell::get).ok().flatten().map(Waits::begin)
}

impl Waits {
    #[cold]
    fn begin(crew: &'static Crew) -> Self {
        let mut state = crew.state();
        state.waiting += 1;
        if state.lacks_one() {
            // If none can be had, calls stay queued until somebody goes on.
            crew.start_one(state);
        }
        Self(crew)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}
