//! A scheduler that its caller drives: its fibers run when a loop that is not ours polls.
//!
//! Used by programs with a foreign loop on their thread: of a user interface, of a game, of an
//! event library.
//!
//! # The idea
//!
//! A worker's loop is a sequence of turns, and of sleeps in between. Here the caller makes the
//! turns, by [`Driven::poll`], and the sleeps are the caller's, too: a poll that finds nothing to
//! run announces the sleep, as every worker does, and returns. A waker that makes a fiber ready
//! finds the announcement, as always, and calls the caller's `wake` instead of unparking a thread;
//! that tells the loop to poll again.
//!
//! # States
//!
//! ```text
//!   ASLEEP --somebody posts mail or injects a closure: calls `wake`--> CALLED
//!   ASLEEP, CALLED, BUSY --poll--> ASLEEP    (nothing is ready any more: Polled::Idle)
//!                             \--> BUSY      (the turns are used up: Polled::Again)
//! ```
//!
//! A driven scheduler is born ASLEEP, or CALLED after a policy's request for a turn. While it is
//! BUSY nobody calls `wake`, since the caller has been told to poll again.
//!
//! **The race to fear**: a letter that comes after the last look of a poll and before the caller
//! sleeps. This is the race of `inbox.rs`: the letter either prevents the announcement or meets it.
//! In the second case the sender calls `wake`, and the caller's loop has to remember that, as any
//! loop does that other threads wake.
#![allow(unsafe_code)] // A worker beside the state that it refers to.

use crate::run::attendants::Attendants;
use crate::run::handle::Handle;
use crate::run::lead::{end_now, end_soon};
use crate::worker::local::Local;
use crate::worker::policy::{Idle, Policy};
use crate::worker::residents;
use crate::worker::run_loop::{Turn, Worker};
use crate::worker::stack_job::StackJob;
use segue_core::scheduling::{Family, Job, Park, Place, Unpark};
use segue_core::{JoinHandle, WaitsFor};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// The outcome of [`Driven::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Polled {
    /// There may be more to run. Nobody will call `wake`: poll again soon.
    Again,
    /// There is nothing to run. Poll again after a call of `wake`, and no later than in this time,
    /// when a timer is due.
    Idle(Option<Duration>),
}

/// A scheduler that its caller drives. Made by [`Runtime::driven`](crate::Runtime::driven).
///
/// There is one worker, the thread of the making: a driven scheduler can't be sent to another. Its
/// fibers run inside of [`poll`](Driven::poll), and so between two polls everything on the thread
/// is as after the caller's loop. They may hold values that are not `Send`, and use objects of that
/// loop's thread.
///
/// `wake` is called when there is something to poll for, once until the next poll; from any thread,
/// also from the caller's own. The closure must not wait and must not poll, but tell the loop to:
/// by an event of a user interface, for instance. If `wake` panics, the process ends.
///
/// Nothing sleeps in its park; each poll begins with a question to the park for events: if its
/// fibers do I/O, the loop polls in short intervals.
///
/// Its drop cancels its fibers and runs them to their end; after a grace, in which they run, if
/// there is [one](crate::Runtime::shutdown). The drop waits for fibers that wait under a
/// [`shield`](segue_core::shield), and for fibers that have [moved](crate::move_to) to other
/// schedulers. A moved fiber must not drop the scheduler: that fiber would wait for itself for
/// ever. While the thread panics, its fibers can't go on, so the drop leaks them. So does the drop
/// at the end of a thread, if the scheduler is in a thread-local variable that was first used
/// before the thread had its first scheduler.
///
/// # Examples
///
/// ```
/// use segue_core::Trigger;
/// use segue_sched::{Polled, Runtime};
/// use std::sync::mpsc;
/// use std::thread;
///
/// // The loop of somebody else, with its queue of events.
/// let (events, queue) = mpsc::channel();
/// let mut fibers = Runtime::new().driven(move || drop(events.send("poll")))?;
///
/// let answer = thread::spawn(|| 42);
/// let fiber = fibers.spawn(move || segue_core::spawn(move || answer.join().unwrap()).join().unwrap());
/// while !fiber.is_finished() {
///     assert_eq!(queue.recv(), Ok("poll"));
///     while fibers.poll() == Polled::Again {}
/// }
/// assert_eq!(fiber.join().unwrap(), 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Driven {
    worker: ManuallyDrop<Box<dyn Drive>>,
    family: ManuallyDrop<Box<Family>>,
    handle: Handle,
    /// End last.
    _attendants: Attendants,
    /// A driven scheduler stays on its thread.
    _thread: PhantomData<*const ()>,
}

/// The caller's way to be told.
type Wake = Box<dyn Fn() + Send + Sync>;

/// After how many turns a poll ends; later by a window of the loop's if fibers pass their turns on.
const TURNS: usize = 256;

impl Driven {
    pub(crate) fn new<P: Policy, K: Park + 'static>(
        local: Local<P>,
        park: K,
        wake: Wake,
        attendants: Attendants,
    ) -> Self {
        let handle = Handle { group: Arc::clone(&local.common.group) };
        let unparker = Arc::new(Both { wake, park: park.unparker() });
        let local = NonNull::from(Box::leak(Box::new(local)));
        // SAFETY: the box is freed in `Drop for Seated`, after the worker.
        let worker = Worker::new(unsafe { local.as_ref() }, park, unparker, None);
        // SAFETY: the worker is in its box until its departure, in `Drop for Seated`, or for ever.
        unsafe { residents::reside(worker.local.common.at()) };
        let mut seated = Seated { worker, local, asleep: false };
        seated.asleep = seated.worker.lie_down(None).is_some();
        if !seated.asleep {
            // Nobody has its handle yet, but its policy has its seat.
            handle.group.remote(0).waker()();
        }
        let family: Box<Family> = Family::detached().into();
        handle.group.own(&family, true);
        Self {
            worker: ManuallyDrop::new(Box::new(seated)),
            family: ManuallyDrop::new(family),
            handle,
            _attendants: attendants,
            _thread: PhantomData,
        }
    }

    /// Runs ready fibers: until there is none, or for some hundred turns. Never waits.
    ///
    /// A call from a fiber of another scheduler is allowed, too.
    ///
    /// # Panics
    /// If the thread is panicking.
    pub fn poll(&mut self) -> Polled {
        assert!(!std::thread::panicking(), "a thread that is panicking can't run fibers");
        self.worker.poll(None)
    }

    /// Starts a detached fiber. The fiber runs in later polls. Never waits.
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the family is boxed, and completed by the drop or leaked; the closure borrows
        // nothing.
        let (job, handle) = unsafe { self.family.job(segue_core::Builder::new(), f) };
        self.handle.group.inject(job);
        handle
    }

    /// Starts a detached fiber at once, as a part of a [`poll`](Driven::poll), and runs that to its
    /// first wait. So its closure need not be `Send`.
    ///
    /// # Errors
    /// Without a stack; then `f` is dropped.
    ///
    /// # Panics
    /// If the thread is panicking.
    pub fn start<F, T>(&mut self, f: F) -> std::io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + 'static,
        T: Send + 'static,
    {
        struct Stays<F>(F);
        // SAFETY: the job around it is started by this thread, in this call, and goes nowhere else.
        unsafe impl<F> Send for Stays<F> {}
        impl<F: FnOnce() -> T, T> Stays<F> {
            fn call(self) -> T {
                (self.0)()
            }
        }
        assert!(!std::thread::panicking(), "a thread that is panicking can't run fibers");
        self.worker.reserve_stack()?;
        let stays = Stays(f);
        // SAFETY: as in `spawn`.
        let (job, handle) = unsafe { self.family.job(segue_core::Builder::new(), move || stays.call()) };
        if self.worker.poll(Some(job)) == Polled::Again {
            self.handle.group.remote(0).waker()();
        }
        Ok(handle)
    }

    /// A handle, to [move to](crate::move_to).
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.handle.group.disown();
        if std::thread::panicking() || !residents::can_reside() {
            self.family.token().cancel();
            // Worker, fibers and family stay where they are.
            return self.worker.abandon();
        }
        // SAFETY: both are taken here, once, at the end.
        let (worker, family) = unsafe { (ManuallyDrop::take(&mut self.worker), ManuallyDrop::take(&mut self.family)) };
        worker.finish(&family);
    }
}

segue_core::impl_debug!([] Driven, |it| family: **it.family);

/// A worker of whatever policy and park.
trait Drive {
    /// Starts `first`, then makes turns.
    fn poll(&mut self, first: Option<Job>) -> Polled;
    fn reserve_stack(&self) -> std::io::Result<()>;
    /// Runs everything to its end.
    fn finish(self: Box<Self>, family: &Family);
    /// Will never run again.
    fn abandon(&self);
}

/// A worker with its state, and a flag for its announced sleep.
struct Seated<P: Policy, K: Park> {
    worker: Worker<'static, P, K>,
    local: NonNull<Local<P>>,
    asleep: bool,
}

/// Makes turns until nothing is ready, or they are used up.
fn work<P: Policy, K: Park>(worker: &mut Worker<'_, P, K>) -> Polled {
    worker.look_around();
    let turns = &worker.local.common.turns;
    let last = turns.get().wrapping_add(TURNS);
    while last.wrapping_sub(turns.get()).cast_signed() > 0 {
        match worker.turn() {
            Turn::Ran => continue,
            Turn::Idle => {}
            Turn::Ended => unreachable!("the group of a driven worker is not stopped before its end"),
        }
        let longest = match worker.local.policy_idles() {
            Idle::Sleep => None,
            Idle::Hold(longest) => longest,
            Idle::Spin => break,
        };
        if let Some(timeout) = worker.lie_down(longest) {
            return Polled::Idle(timeout);
        }
    }
    Polled::Again
}

impl<P: Policy, K: Park> Drive for Seated<P, K> {
    fn poll(&mut self, first: Option<Job>) -> Polled {
        if self.asleep {
            self.worker.get_up();
        }
        let polled = self.worker.on_thread(|worker| {
            if let Some(job) = first {
                worker.begin_with(job);
            }
            work(worker)
        });
        self.asleep = polled != Polled::Again;
        polled
    }

    fn reserve_stack(&self) -> std::io::Result<()> {
        self.worker.local.reserve_stack()
    }

    fn finish(self: Box<Self>, family: &Family) {
        let Self { mut worker, local, asleep } = *self;
        if asleep {
            worker.get_up();
        }
        let group = Arc::clone(&worker.local.common.group);
        let last = StackJob::new(|| {
            end_soon(&group, family);
            // SAFETY: the driven scheduler owned its family, and nobody but its members can spawn
            // there any more.
            unsafe { family.complete() };
            end_now(&group);
        });
        // SAFETY: the loop below ends when every fiber has, so the frame outlives the job; the loop
        // starts the job itself, on this thread.
        let job = unsafe { StackJob::job(NonNull::from(&last), Place::here(), Some(family)) };
        worker.run(Some(job));
        // SAFETY: a job was made of the closure, and has run.
        let _ = unsafe { last.wait(WaitsFor::new("the last fiber")) };
        // SAFETY: made of a box by `Driven::new`; worker and fibers have ended.
        drop(unsafe { Box::from_raw(local.as_ptr()) });
    }

    fn abandon(&self) {
        // SAFETY: the worker stays in its box, which nobody frees any more.
        unsafe { residents::depart(self.worker.local.common.at()) };
        self.worker.local.common.group.close();
    }
}

/// Tells the caller's loop. Unparks, too, for the end, when the worker sleeps in its park.
struct Both {
    wake: Wake,
    park: Arc<dyn Unpark>,
}

impl Unpark for Both {
    fn unpark(&self) {
        (self.wake)();
        self.park.unpark();
    }
}
