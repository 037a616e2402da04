//! Dumps: every fiber of every scheduler, its wait, the owner of the thing, and its calls; and the
//! cycles among them.
//!
//! Used by programs, through [`dump`], and by the simulator's reports of deadlocks.
//!
//! # The idea
//!
//! All that a dump says is written by the program anyway, or costs a store or two: the record of a
//! wait in the waiter's frame, the owner's word in a lock (`primitives/waits_for.rs` of
//! `segue-core`), a fiber's number, count of waits, and time of its suspension (its header). So
//! nothing need be wrapped or switched on. A dump **changes nothing**: workers copy words into room
//! that was made before (`worker/snapshot.rs`), in a signal handler or between two turns; nobody is
//! woken, nothing runs again, no fiber gets or loses a turn. The rest is done by the caller, from
//! the copies: the unwinding, the names, the search for cycles.
//!
//! # The reader of each part
//!
//! | part | place | reader |
//! | --- | --- | --- |
//! | the schedulers | `worker/roster.rs` | the caller, under a lock that only begins and ends of schedulers take |
//! | a worker's fibers | its roll, and their headers | the worker's thread, for the caller (`worker/seat.rs`) |
//! | closures that have not started | the shelves | the caller, under their locks |
//! | plain threads that wait | `thread/waiting.rs` of `segue-core` | the caller, under the list's lock |
//!
//! # One picture of several instants
//!
//! Workers answer one after the other. So a dump is no picture of one instant: a fiber that was
//! seen to wait for a lock may have it by the time its owner is seen. [`deadlocks`] has the second
//! look that a verdict needs.
//!
//! # Where a dump may be taken
//!
//! By any thread, in a fiber, a policy, a hook; several dumps take turns. Not in a signal handler.
//! In the child of a fork the threads of its parent are not there: the dump says so, or has the
//! schedulers that the child has begun itself.

mod deadlocks;
mod json;
pub(crate) mod parts;
mod take;
mod text;

use crate::worker::group::Group;
use crate::worker::roster;
use parts::{Cycle, Dump};
use segue_core::scheduling::PerProcess;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// One dump at a time: each has room for thousands of fibers.
static TURN: PerProcess<()> = PerProcess::new(|| ());

/// Between the two looks. A locker that the system has stopped between its lock and the note of
/// that is back by then, unless the system is very busy.
const APART: Duration = Duration::from_millis(5);

/// Lists every fiber of every scheduler: its wait, the thing and its owner, for how long, where it
/// was spawned, and its calls; the plain threads that wait; the closures that have not started; and
/// those that wait for each other in a circle.
///
/// A dump changes nothing: the results of the program and, in a simulation, its schedule are the
/// same with and without. No fiber, thread or scheduler is woken; but on a system without signals
/// between threads an idle worker is. From any thread, also in a fiber, a policy, a hook; not from
/// a signal handler.
///
/// Blocks the calling thread for some microseconds a fiber, for some ten milliseconds for each
/// worker that is in a long turn, for five if some seem to wait in a circle, and for a second for a
/// worker on a thread that blocks the signal (`SIGURG`). Each worker in turn stands still while its
/// fibers are copied, at most 4,096 or 8 MiB of stacks at a time, and of one fiber at most 64 KiB:
/// for some milliseconds at a time, if stacks are deep.
///
/// Not in a dump are async tasks between two polls, fibers [hosted](crate::hosted) by foreign
/// executors, and closures that a policy keeps to itself, or that are offered by the one worker of
/// a scheduler.
///
/// # Panics
/// Does not panic.
///
/// # Examples
///
/// ```
/// use segue_core::{Builder, after};
/// use segue_sched::{Runtime, dump};
/// use std::time::Duration;
///
/// let dump = Runtime::new().workers(1).run(|| {
///     let patient = Builder::new().name("patient").cancellable().spawn(|| after(Duration::MAX).wait());
///     segue_core::yield_now().unwrap();
///     let dump = dump();
///     patient.cancel();
///     dump
/// })?;
/// let patient = dump.fibers().find(|fiber| fiber.name.as_deref() == Some("patient")).unwrap();
/// assert_eq!(patient.waits_for.unwrap().what, "a point in time");
/// assert!(dump.deadlocks.is_empty());
/// println!("{dump}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn dump() -> Dump {
    let began = Instant::now();
    if roster::is_child() {
        let note = Some("this process was forked from the one with the schedulers, whose threads are not here");
        return Dump {
            schedulers: Vec::new(),
            threads: Vec::new(),
            deadlocks: Vec::new(),
            took: began.elapsed(),
            note,
        };
    }
    let turn = TURN.lock();
    let mut dump = take::all(true, |_| true);
    let cycles = deadlocks::cycles(&dump);
    if !cycles.is_empty() {
        thread::sleep(APART);
        let again = take::all(false, |_| true);
        dump.deadlocks = deadlocks::confirmed(cycles, &dump, &again);
    }
    drop(turn);
    dump.took = began.elapsed();
    dump
}

/// The cycles among the fibers of one scheduler in which nothing can run: one look is enough.
pub(crate) fn cycles_of(group: &Arc<Group>) -> Vec<Cycle> {
    let dump = take::all(false, |other| Arc::ptr_eq(group, other));
    deadlocks::confirmed(deadlocks::cycles(&dump), &dump, &dump)
}
