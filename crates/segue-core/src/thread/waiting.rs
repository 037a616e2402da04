//! The plain threads that sleep in a wait, for dumps.
//!
//! Written by the scheduler of plain threads, around its sleeps; read by dumps.
//!
//! # The idea
//!
//! A thread that is about to sleep puts a record on a list, and takes that back when awake, before
//! its wait can end. Both take a lock, which is nothing beside a sleep. A thread that finds its
//! mail by looking, without a sleep, writes no record; nor does a worker that idles. The child of a
//! fork has a list of its own ([`PerProcess`]): its parent's threads are not there, nor the things
//! that they wait for.
//!
//! **The race to fear**: a dump follows the address of the thing that a thread waits for, and that
//! thing is gone. It cannot: the thread keeps the thing in place as long as the wait lasts, the
//! record is on the list for less than that, and the dump looks under the list's lock.
#![allow(unsafe_code)] // Records have addresses, which another thread follows.

use crate::primitives::per_process::PerProcess;
use crate::primitives::waits_for::{WORK, WaitsOn};
use crate::thread::owners::thread_number;
use std::panic::Location;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A plain thread that sleeps in a wait.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingThread {
    /// A number that no other thread and no fiber of the process ever has.
    pub number: u64,
    /// The thread's name, if there is one.
    pub name: Option<String>,
    /// Its wait.
    pub waits_on: WaitsOn,
    /// The number of the owner of the thing, and where that one has locked, if known.
    pub owner: Option<(u64, Option<&'static Location<'static>>)>,
    /// When it began to sleep.
    pub since: Instant,
    /// No other sleep of a thread has this number.
    pub sleep: u64,
}

struct Record {
    number: u64,
    thread: Thread,
    waits_on: WaitsOn,
    since: Instant,
    sleep: u64,
}

// SAFETY: the addresses are followed under the lock of the list; see the head of this file.
unsafe impl Send for Record {}

struct Sleepers {
    records: Vec<Record>,
    sleeps: u64,
}

static SLEEPERS: PerProcess<Sleepers> = PerProcess::new(|| Sleepers { records: Vec::new(), sleeps: 0 });

/// The record of a sleep, which is taken back by its drop.
pub(super) struct Sleep(u64);

impl Sleep {
    /// The calling thread is about to sleep in this wait.
    #[cold]
    pub(super) fn begin(waits_on: Option<WaitsOn>) -> Option<Self> {
        let waits_on = waits_on.filter(|waits_on| waits_on.waits_for.what != WORK)?;
        let (number, thread, since) = (thread_number(), thread::current(), Instant::now());
        let mut sleepers = SLEEPERS.lock();
        sleepers.sleeps += 1;
        let sleep = sleepers.sleeps;
        sleepers.records.push(Record { number, thread, waits_on, since, sleep });
        Some(Self(sleep))
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let mut sleepers = SLEEPERS.lock();
        let at = sleepers.records.iter().rposition(|record| record.sleep == self.0);
        let record = at.map(|at| sleepers.records.swap_remove(at));
        drop(sleepers);
        drop(record);
    }
}

/// The plain threads that sleep in a wait; in the child of a fork, its own. `None` if the list is
/// locked for longer than `patience`.
///
/// # Examples
///
/// ```
/// use segue_core::scheduling::waiting_threads;
/// use segue_core::{Trigger, WaitsFor};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let trigger = Arc::new(Trigger::new());
/// let waiter = Arc::clone(&trigger);
/// let thread = std::thread::spawn(move || waiter.wait(WaitsFor::new("an example")));
/// let sees = || waiting_threads(Duration::from_secs(1)).unwrap().iter().any(|it| it.waits_on.waits_for.what == "an example");
/// while !sees() {
///     std::thread::yield_now();
/// }
/// assert!(trigger.signal(0));
/// let _ = thread.join().unwrap();
/// assert!(!sees());
/// ```
#[must_use]
pub fn waiting_threads(patience: Duration) -> Option<Vec<WaitingThread>> {
    let until = Instant::now().checked_add(patience);
    let sleepers = loop {
        match SLEEPERS.try_lock() {
            Some(sleepers) => break sleepers,
            None if until.is_some_and(|until| until <= Instant::now()) => return None,
            None => thread::yield_now(),
        }
    };
    let look = |record: &Record| WaitingThread {
        number: record.number,
        name: record.thread.name().map(str::to_owned),
        waits_on: record.waits_on,
        // SAFETY: the record is on the list, so the thread is in its wait, and can't leave that
        // before it has had the lock.
        owner: unsafe { record.waits_on.object.owner() },
        since: record.since,
        sleep: record.sleep,
    };
    Some(sleepers.records.iter().map(look).collect())
}
