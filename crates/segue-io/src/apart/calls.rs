//! Calls to another party, on threads that their callers can interrupt, and leave behind.
//!
//! Used by `fs` for files of servers and of the kernel's own file systems, and by `descriptor` for
//! calls that can't be told not to wait. `interrupt` has the signal, and the threads are here.
//!
//! # The idea
//!
//! The call owns all that is used: a duplicate of the descriptor, a buffer, a path. So the caller
//! can go while the kernel still has all of that. A cancelled caller first has the thread
//! interrupted, again and again, since a signal that comes just before the system call interrupts
//! nothing. Waits in pipes, terminals and counters end so, with no effect; so does a request to a
//! server that listens to interrupts. From a call that stays, the caller goes on when its patience
//! is over: the thread is *left*. The call may take effect later, or have taken effect.
//!
//! # States of a call
//!
//! ```text
//!   queued --begun--> running --the call has returned--> over
//!     |  |              | a cancelled caller interrupts, for its patience
//!     |  |              \------> left ----the call has returned--> over, result dropped
//!     |  \--taken by a thread that does not come to begin: left ---> over, no call: no effect
//!     \--cancelled: taken back out of the queue: no effect
//! ```
//!
//! | change | by |
//! | --- | --- |
//! | queued to running, running to over, left to over | the thread, under the call's lock |
//! | queued or running to left | the caller, under the same lock, if there is no answer |
//!
//! **Commit point**: the kernel's. **The race to fear**: a signal hits a thread that is in the next
//! call, or has ended. This cannot happen: the signal is sent under the call's lock, while the call
//! says that the thread runs.
//!
//! # The threads
//!
//! They are others than those for blocking calls, which must not wait behind a server that is
//! silent. At most [`LIMIT`] work at once; the rest is queued, in the order of coming. A thread
//! that was left does not count, up to [`MOST_LEFT`] of them: so a loop of attempts at a dead
//! server, each with a deadline, ends with attempts that wait in the queue, and not with a process
//! full of threads. A thread that had nothing to do for ten seconds ends.
//!
//! In the child of a fork there are none of the threads: the child makes a set of its own.
#![allow(unsafe_code)] // The set of threads is leaked, and reached by address.

use super::interrupt;
use crate::driver::workers::is_orphan;
use crate::system::fork::Birth;
use crate::system::sys::taken_at_once;
use rustix::io::Errno;
use segue_core::{Cancelled, Ended, WaitQueue, WaitsFor, now, shield};
use std::any::Any;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many calls are made at once, without those that were left.
const LIMIT: usize = 512;

/// How many threads that were left do not count.
const MOST_LEFT: usize = 512;

/// The time without a call after which a thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// The wait for an interrupted call, before the next interrupt: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(16)];

/// How long a cancelled caller interrupts its call, before leaving the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// A server answers an interrupt at once, or never.
    Server,
    /// Bytes that are taken out of a stream would be lost: the kernel can be interrupted here.
    Stream,
}

impl Patience {
    fn time(self) -> Duration {
        match self {
            Self::Server => Duration::from_millis(30),
            Self::Stream => Duration::from_secs(2),
        }
    }
}

/// Whether the caller of a call has asked for its end: for calls of several steps.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<AtomicBool>);

impl Asked {
    /// Orders nothing: the caller waits for the answer, or for none.
    pub(crate) fn to_end(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether the caller makes its calls in place: a plain thread that nothing cancels, and a fiber in
/// the child of a fork.
pub(crate) fn in_place() -> bool {
    if segue_core::in_fiber() { is_orphan() } else { !segue_core::drivers::can_be_cancelled() }
}

/// Whether the caller waits for a thread: nor does a fiber that must not be suspended.
pub(crate) fn is_called_for() -> bool {
    let must_stay = || segue_core::in_fiber() && segue_core::with_current(|fiber| fiber.must_not_suspend());
    !in_place() && !must_stay()
}

/// Makes a call on a thread, and suspends the calling fiber, or parks the calling thread, until the
/// call has returned or was left.
///
/// A call that a signal interrupts is made again, unless its caller was cancelled.
///
/// # Errors
/// That of the call; that of a cancellation that has interrupted the call, or left the thread; that
/// there is no thread.
#[track_caller]
pub(crate) fn run<T: Send + 'static>(
    waits_for: &'static str,
    patience: Patience,
    mut call: impl FnMut() -> rustix::io::Result<T> + Send + 'static,
) -> io::Result<T> {
    run_with(waits_for, patience, move |_| call())
}

/// The same for a call of several steps, which is told when its end is asked for.
#[track_caller]
pub(crate) fn run_with<T: Send + 'static>(
    waits_for: &'static str,
    patience: Patience,
    mut call: impl FnMut(&Asked) -> rustix::io::Result<T> + Send + 'static,
) -> io::Result<T> {
    segue_core::admit()?;
    let asked = Asked::default();
    if !is_called_for() {
        return Ok(until_done(&asked, || call(&asked))?);
    }
    let call = move |asked: &Asked| call(asked).map(|value| -> Value { Box::new(value) });
    let value = run_apart(waits_for, patience, asked, Box::new(call))?;
    Ok(*value.downcast().expect("the value is the call's"))
}

/// A call's value, and a call, without their types: all calls are one piece of code.
type Value = Box<dyn Any + Send>;
type Call = Box<dyn FnMut(&Asked) -> rustix::io::Result<Value> + Send>;

#[track_caller]
fn run_apart(waits_for: &'static str, patience: Patience, asked: Asked, call: Call) -> io::Result<Value> {
    let outside = segue_core::outside_work();
    let apart = Arc::new(Apart::new(asked));
    let here = Arc::clone(&apart);
    let set = set();
    let number = set.submit(Box::new(move || here.make(set, call)))?;
    let cancelled = match apart.answer.wait(WaitsFor::new(waits_for), Option::is_some, Option::take) {
        Ok(answer) => return Ok(answer.expect("an answer is there")?),
        Err(cancelled) => cancelled,
    };
    if set.take_back(number) {
        return Err(cancelled.into());
    }
    // Nobody knows when the call ends: a simulation's clock goes on.
    drop(outside);
    apart.end(set, patience, cancelled)
}

/// Makes a call without waiting for it, and without a result: for a drop. The thread is
/// left from the start.
pub(crate) fn detach(call: impl FnOnce() + Send + 'static) {
    let set = set();
    let job = move || set.without_this_thread(call);
    // Without a thread the call was dropped, with all that the call owns.
    let _ = set.submit(Box::new(job));
}

/// How much room these buffers have, for one call that moves at most so much.
pub(crate) fn room(bufs: &[IoSliceMut<'_>], most: usize) -> usize {
    bufs[taken_at_once(bufs)].iter().fold(0, |room: usize, buf| room.saturating_add(buf.len())).min(most)
}

/// The bytes that a read brings into so much room.
pub(crate) fn fill(
    room: usize,
    read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| Errno::NOMEM)?;
    bytes.resize(room, 0);
    let count = read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Moves the bytes of a read to the buffers of the caller.
pub(crate) fn scatter(mut bytes: &[u8], bufs: &mut [IoSliceMut<'_>]) -> usize {
    let length = bytes.len();
    for buf in bufs {
        let (here, rest) = bytes.split_at(bytes.len().min(buf.len()));
        buf[..here.len()].copy_from_slice(here);
        bytes = rest;
    }
    length
}

/// The first bytes of a write, at most so many.
pub(crate) fn gather(bufs: &[IoSlice<'_>], most: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for buf in &bufs[taken_at_once(bufs)] {
        let left = most - bytes.len();
        bytes.extend_from_slice(&buf[..buf.len().min(left)]);
    }
    bytes
}

fn until_done<T>(asked: &Asked, mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) if !asked.to_end() => {}
            done => return done,
        }
    }
}

/// A call, between its caller and its thread.
struct Apart {
    answer: WaitQueue<Option<rustix::io::Result<Value>>, Option<rustix::io::Result<Value>>>,
    state: Mutex<State>,
    asked: Asked,
}

enum State {
    Queued,
    Running(interrupt::Thread),
    Left,
    Over,
}

impl Apart {
    fn new(asked: Asked) -> Self {
        Self { answer: WaitQueue::new(None), state: Mutex::new(State::Queued), asked }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// On the thread. Answers whether the call is to be made.
    fn begin(&self) -> bool {
        let mut state = self.state();
        let is_wanted = !matches!(*state, State::Left);
        if is_wanted {
            *state = State::Running(interrupt::this_thread());
        }
        is_wanted
    }

    /// On the thread.
    fn make(&self, set: &Set, mut call: Call) {
        let done = self.begin().then(|| until_done(&self.asked, || call(&self.asked)));
        drop(call);
        if let Some(done) = done {
            let mut answer = self.answer.lock();
            *answer.state() = Some(done);
            answer.notify_all(0);
        }
        if let State::Left = std::mem::replace(&mut *self.state(), State::Over) {
            set.lock().left -= 1;
        }
    }

    /// By a caller that was cancelled while the call runs.
    #[cold]
    #[track_caller]
    fn end(&self, set: &'static Set, patience: Patience, cancelled: Cancelled) -> io::Result<Value> {
        self.asked.0.store(true, Ordering::Relaxed);
        let [mut pause, longest] = PAUSES;
        let last = now().checked_add(patience.time());
        loop {
            if let State::Running(thread) = &*self.state() {
                // SAFETY: the thread says under this lock that the call runs, and no longer.
                unsafe { thread.interrupt() };
            }
            let until = now().checked_add(pause);
            let waits_for = WaitsFor::new("the end of a call that was cancelled");
            match shield(|| self.answer.wait_until(until, waits_for, Option::is_some, Option::take)) {
                Ok(answer) => return ended(answer.expect("an answer is there"), cancelled),
                Err(Ended::TimedOut) if last.is_none_or(|last| now() < last) => {}
                // The patience is over, or the budget of a cleanup is spent.
                Err(_) => break,
            }
            pause = longest.min(pause * 2);
        }
        let mut state = self.state();
        if let Some(answer) = self.answer.lock().state().take() {
            return ended(answer, cancelled);
        }
        *state = State::Left;
        set.lock().left += 1;
        // One that is queued may have its turn now.
        drop(state);
        set.call_for_one();
        Err(cancelled.into())
    }
}

/// The outcome of a call that was interrupted.
fn ended(answer: rustix::io::Result<Value>, cancelled: Cancelled) -> io::Result<Value> {
    match answer {
        Err(Errno::INTR) => Err(cancelled.into()),
        answer => Ok(answer?),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads of one process.
struct Set {
    process: u32,
    state: Mutex<Threads>,
    work: Condvar,
}

#[derive(Default)]
struct Threads {
    /// In the order of coming, each job with its number.
    queue: VecDeque<(u64, Job)>,
    /// The number of the next job.
    next: u64,
    threads: usize,
    idle: usize,
    left: usize,
}

impl Threads {
    fn lacks_one(&self) -> bool {
        self.queue.len() > self.idle && self.threads - self.left.min(MOST_LEFT) < LIMIT
    }

    /// Takes out the job of this number, if that is in the queue.
    fn remove(&mut self, number: u64) -> Option<Job> {
        let index = self.queue.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.queue.remove(index).map(|(_, job)| job)
    }
}

/// The set of this process.
fn set() -> &'static Set {
    static SET: AtomicPtr<Set> = AtomicPtr::new(ptr::null_mut());
    let process = Birth::now().number();
    let mut seen = SET.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or a set that was leaked.
        match unsafe { seen.as_ref() } {
            Some(set) if set.process == process => return set,
            _ => {}
        }
        let made = Set { process, state: Mutex::default(), work: Condvar::new() };
        let made = Box::into_raw(Box::new(made));
        match SET.compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => seen = made,
            Err(now) => {
                // SAFETY: this set was made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                seen = now;
            }
        }
    }
}

impl Set {
    fn lock(&self) -> MutexGuard<'_, Threads> {
        // Nothing panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job. Answers with its number.
    fn submit(&'static self, job: Job) -> io::Result<u64> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.queue.push_back((number, job));
        if !state.lacks_one() {
            drop(state);
            self.work.notify_one();
            return Ok(number);
        }
        let others = state.threads > state.left;
        match self.start_one(state) {
            // Others take the job.
            Err(_) if others => Ok(number),
            Err(error) if self.take_back(number) => Err(error),
            _ => Ok(number),
        }
    }

    /// Takes a job back that nobody has begun, and answers whether that was so.
    fn take_back(&self, number: u64) -> bool {
        // The job is dropped without the lock.
        let job = self.lock().remove(number);
        job.is_some()
    }

    /// Starts a thread for a queued job, if one is lacking.
    fn call_for_one(&'static self) {
        let state = self.lock();
        if state.lacks_one() {
            // If none can be had, queued jobs wait for the others.
            let _ = self.start_one(state);
        }
    }

    /// Makes a call on a thread that counts as left meanwhile.
    fn without_this_thread(&'static self, call: impl FnOnce()) {
        self.lock().left += 1;
        self.call_for_one();
        call();
        self.lock().left -= 1;
    }

    fn start_one(&'static self, mut state: MutexGuard<'_, Threads>) -> io::Result<()> {
        state.threads += 1;
        drop(state);
        let thread = std::thread::Builder::new().name("segue-apart".to_owned());
        let started = thread.spawn(|| self.work()).map(drop);
        if started.is_err() {
            self.lock().threads -= 1;
        }
        started
    }

    /// The loop of each thread.
    fn work(&'static self) {
        interrupt::listen();
        let mut state = self.lock();
        loop {
            if state.threads - state.left.min(MOST_LEFT) > LIMIT {
                // The thread was left, and others have taken its place.
                break;
            }
            if let Some((_, job)) = state.queue.pop_front() {
                drop(state);
                job();
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
#[path = "../../tests/units/calls.rs"]
mod tests;
