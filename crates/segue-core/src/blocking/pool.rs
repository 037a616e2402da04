//! The threads on which blocking calls run: as many as are needed, up to a limit, and none after a
//! while.
//!
//! Used by `blocking/mod.rs`, which submits calls, and by `thread/plain.rs`, which says when one of
//! these threads waits.
//!
//! # The idea
//!
//! One queue, first in first out, under one lock with everything else. Its entries lie in the
//! frames of the callers, linked to each other: a cancelled call leaves from the middle in O(1),
//! and to submit one allocates nothing. Beside the queue: how many threads there are, how many are
//! *idle* (in the condition's wait, or just woken from it) and how many are *waiting* (suspended
//! inside of a call, at one of our structures). Calls take microseconds at least, so a lock is
//! little.
//!
//! **Invariant whenever the lock is free**: there is an idle thread for each call in the queue, or
//! as many threads are at work as the limit allows, or one is on its way to being started. The
//! caller that pushes a call wakes an idle thread if there are enough of them for the whole queue,
//! and else starts one; an idle thread looks at the queue before ending or sleeping again; a thread
//! that has finished a call takes the next.
//!
//! **The race to fear**: a call is left behind with a thread that has just given up. This can't
//! happen: a thread that gives up has found the queue empty under the lock, and leaves the count of
//! threads in the same hold of the lock.
//!
//! **Threads that wait** at a structure may wait for a call that is still in the queue. So they do
//! not count against the limit, and another is started if calls are queued. When they go on, more
//! threads may be at work than the limit says: then a thread that finishes a call ends. There is no
//! limit to the number of threads that wait.
//!
//! **Fork**: the child has none of the threads. The pool belongs to a process, and each call
//! compares the process number; another process makes a new pool and leaks the old one, since a
//! thread that is not there may have held its lock. A call is taken back from the pool of its
//! submission, in that process.
// The pool is leaked, and reached by address; its queue links calls in the frames of their callers.
#![allow(unsafe_code)]

use crate::contract::job::{Job, JobHeader};
use crate::primitives::list::{Linked, Links, List};
use crate::thread::here;
use crate::thread::plain::{self, Watch, watch_thread};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());
static LIMIT: AtomicUsize = AtomicUsize::new(512);
/// In milliseconds.
static IDLE: AtomicU64 = AtomicU64::new(10_000);

/// How many threads may run blocking calls at the same time; 512 if this was not called. For the
/// whole process, from now on.
///
/// # Panics
/// For zero.
pub fn set_blocking_limit(threads: usize) {
    assert!(threads > 0, "blocking calls need at least one thread");
    LIMIT.store(threads, Ordering::Relaxed);
}

/// The time without a call after which a thread for blocking calls ends; by default ten seconds.
/// For the whole process, from the next time that a thread has nothing to do.
pub fn set_blocking_idle(time: Duration) {
    IDLE.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// The threads of one process.
pub(crate) struct Pool {
    process: u32,
    state: Mutex<State>,
    work: Condvar,
}

/// The head of a call: its header as a job, and its place in the queue.
#[repr(C)] // The header comes first.
pub(crate) struct Entry {
    pub(crate) header: JobHeader,
    /// Touched under the pool's lock alone.
    pub(crate) links: Links<Self>,
}

impl Entry {
    /// The job of an entry that has just left the queue, or is not to join.
    ///
    /// # Safety
    /// There is no other job for the entry, which stays in place until this one was run or dropped.
    unsafe fn job(entry: NonNull<Self>) -> Job {
        // SAFETY: the header comes first, so that its address is the entry's; the rest is by the
        // contract.
        unsafe { Job::from_raw(entry.cast()) }
    }
}

impl Linked for Entry {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

struct State {
    queue: List<Entry>,
    /// The number of entries.
    queued: usize,
    threads: usize,
    idle: usize,
    waiting: usize,
}

impl State {
    /// Whether a thread is needed for the queue, and allowed.
    fn lacks_one(&self) -> bool {
        self.queued > self.idle && self.threads - self.waiting < LIMIT.load(Ordering::Relaxed)
    }

    /// Takes an entry out, and answers whether the entry was in.
    ///
    /// # Safety
    /// The entry is in place, and in no other pool's queue.
    unsafe fn remove(&mut self, entry: NonNull<Entry>) -> bool {
        // SAFETY: by the contract; to have the state is to hold the lock.
        let was_in = unsafe { self.queue.remove(entry) };
        self.queued -= usize::from(was_in);
        was_in
    }

    /// Takes out the one that came first.
    fn next(&mut self) -> Option<Job> {
        let entry = self.queue.front()?;
        // SAFETY: an entry of this queue is in place, as its submitter has promised; and after it
        // has left, this is its one job.
        unsafe {
            self.remove(entry);
            Some(Entry::job(entry))
        }
    }
}

/// The pool of this process.
pub(crate) fn get() -> &'static Pool {
    let process = std::process::id();
    let mut seen = POOL.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or a pool that was leaked.
        match unsafe { seen.as_ref() } {
            Some(pool) if pool.process == process => return pool,
            _ => {}
        }
        let state = State { queue: List::new(), queued: 0, threads: 0, idle: 0, waiting: 0 };
        let made = Box::into_raw(Box::new(Pool { process, state: Mutex::new(state), work: Condvar::new() }));
        match POOL.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => seen = made,
            Err(now) => {
                // SAFETY: the pool was made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                seen = now;
            }
        }
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a call. Without a thread, and with none to be had, the call is run here and now.
    ///
    /// # Safety
    /// The entry is at the head of a call, is submitted once, and stays in place until the call was
    /// run or [taken back](Pool::take_back).
    pub(crate) unsafe fn submit(&'static self, entry: NonNull<Entry>) {
        let mut state = self.state();
        // SAFETY: the entry is in no queue, and stays in place while in this one, by the contract;
        // links are touched under the lock.
        unsafe { state.queue.push_back(entry) };
        state.queued += 1;
        if !state.lacks_one() {
            drop(state);
            return self.work.notify_one();
        }
        if self.start_one(state) {
            return;
        }
        let mut state = self.state();
        let nobody = state.threads == state.waiting;
        // SAFETY: in place even if run meanwhile, since its caller is still in here.
        if nobody && unsafe { state.remove(entry) } {
            drop(state);
            // SAFETY: the entry has just left the queue.
            here::run_as_thread(|| plain::run_job(unsafe { Entry::job(entry) }));
        }
    }

    /// Takes a call back that nobody has begun, and answers whether that was so. In O(1).
    ///
    /// # Safety
    /// The entry was submitted to this pool, and is in place.
    pub(crate) unsafe fn take_back(&self, entry: NonNull<Entry>) -> bool {
        // In the child of a fork the lock may be held by a thread that is not there.
        // SAFETY: in place and of this pool, by the contract.
        self.process == std::process::id() && unsafe { self.state().remove(entry) }
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

    /// The work of each thread.
    fn work(&'static self) {
        watch_thread(self);
        let mut state = self.state();
        loop {
            if let Some(job) = state.next() {
                drop(state);
                plain::run_job(job);
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

impl Watch for Pool {
    #[cold]
    fn waits(&'static self) {
        let mut state = self.state();
        state.waiting += 1;
        if state.lacks_one() {
            // If none can be had, calls stay queued until somebody goes on.
            self.start_one(state);
        }
    }

    fn goes_on(&self) {
        self.state().waiting -= 1;
    }
}
