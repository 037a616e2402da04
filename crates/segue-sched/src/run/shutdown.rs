//! How a scheduler ends: its fibers are asked to finish, then cancelled, and fibers that are there
//! after that are reported.
//!
//! Used by the entry points and by the simulator, which begin and end a shutdown, by handles, which
//! begin one, and by workers, which say by [`End`] which fibers are left.
//!
//! # The idea
//!
//! Without a grace and a deadline a scheduler's owner cancels its family and waits for that. With
//! one of them the family's context goes through the two stages of cancellation, as a scope's does
//! by
//! `Scope::cancel_soft`, and somebody looks at the clock after the second. A *driver* takes the
//! steps. The driver is a thread of its own, made with the scheduler: the worker with the timers
//! may be in a fiber that computes for ever, and so may the thread that called `run`. In a
//! simulation, where time is virtual and nothing goes on beside a fiber, the driver is a fiber,
//! made when a shutdown begins.
//!
//! The driver has no pointer to the family, but the token of its context, which outlives the
//! family.
//!
//! # States
//!
//! ```text
//!   OPEN --begin: the owner, when the first fiber or the pool ends; or a handle--> ASKED
//!   ASKED --timers: the grace is over; anybody: cancels the family's token--> CANCELLED
//!   CANCELLED --driver: the deadline is over--> REPORTED, and the process may end
//!   any of these --end: the owner, when the workers have ended--> ENDED
//! ```
//!
//! Workers may have fibers that are no members: those of somebody's scope that were spawned on a
//! pool, and visitors. They keep the scheduler from ending as members do, and are reported with
//! them. In a simulation there are none, and the driver is a fiber for which its worker waits:
//! there the driver ends with the last member.
//!
//! Without a grace `begin` itself cancels. Without a deadline the driver is done then. OPEN and
//! ENDED stand in [`State`], under its lock; ASKED and CANCELLED are the context's own; REPORTED is
//! a place in the driver's code. Only the first `begin` counts, and only an `end` before that
//! prevents a shutdown.
//!
//! # Late fibers
//!
//! A fiber that a member spawns is a member, and asked from its birth: a request that was accepted
//! may spawn. A fiber that is spawned after the cancellation of the context is cancelled before its
//! start. A spawn by a handle is refused from the end of the first fiber on, as without a shutdown.
//!
//! # Survivors
//!
//! A fiber's stack is not freed before its function has returned, and all that is on the stack, or
//! borrowed from there, is in use until then: by a fiber that is suspended under a shield, and by a
//! fiber that runs on another worker's thread, which can't be stopped. The running fiber may be on
//! the thread that has called `run`. So a scheduler can't return from its end while one of its
//! fibers lives. The scheduler can say which, and end the process, which frees nothing that anybody
//! uses.
//!
//! Only a worker's own thread may look at its fibers. So the driver asks, by a flag that workers
//! look at when they look around and when they get up, and wakes those that sleep. A worker that is
//! in a fiber does not answer in time: such a worker is looked at as the monitor does. A worker
//! that is away, in [`blocking_here`](crate::blocking_here), does not answer either, and nobody
//! waits for that: the worker has said before by which fiber, and takes that back on its return.
//!
//! **The race to fear**: a worker looks at the flag just before the driver sets the flag, and then
//! sleeps without an answer. This cannot happen: the worker is woken by [`Group::wake`], which
//! leaves a mark that a worker finds before its sleep, under the lock of its shelf, and then the
//! worker looks at the flag again. **Another**: the scheduler ends while the driver waits for
//! answers. `end` calls that off, under the lock of the answers.

use crate::run::nobody::job_of_nobody;
use crate::run::report::{StuckWorker, Survivors, say};
use crate::worker::common::{Common, suspended, with_caller};
use crate::worker::group::{End, Group};
use crate::worker::hooks::no_unwind;

use crate::worker::stuck::Stuck;
use segue_core::chain::barrier;
use segue_core::{Builder, CancelToken, Either, Source, WaitQueue, Waitable, WaitsFor, now};
use std::fmt;
use std::num::NonZero;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long workers have to say which fibers are left.
const ANSWER: Duration = Duration::from_secs(1);

/// How many fibers are named of those that nobody answers for.
const MOST_NAMES: usize = 64;

/// How a scheduler ends: with a grace, then cancellation, then a deadline.
///
/// A shutdown begins when the first fiber of a [`run`](crate::Runtime::run) has ended, by its
/// return or a panic; when a [`Pool`](crate::Pool) or [`Driven`](crate::Driven) is dropped; or when
/// somebody calls [`Handle::shutdown`](crate::Handle::shutdown), because of a signal for instance.
///
/// 1. The fibers of the scheduler are [asked to finish](segue_core::finishing_source), and have as
///    long as the [grace](Self::grace) for that. Their waits go on, and they may spawn.
/// 2. Fibers that are left then are cancelled, with a reason that names those that have names.
/// 3. Fibers that are still left when the [deadline](Self::deadline) is over are reported: by name,
///    each with its wait and the place of that. Then the process ends, if an
///    [exit status](Self::exit_status) was given. Otherwise the scheduler goes on to wait, without
///    a limit.
///
/// A shutdown is over as soon as the last fiber has ended. The default is no grace and no deadline:
/// fibers that are left are cancelled at once, and waited for.
///
/// A fiber that shields its waits, swallows its cancellation, or computes without a
/// [`check`](segue_core::check) can't be ended from outside: its stack is in use. So `run` does not
/// return before the last of its fibers has; where that must not take longer than some time, the
/// way out is the exit status.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after, finishing_source, spawn};
/// use segue_sched::{Runtime, Shutdown};
/// use std::time::Duration;
///
/// let shutdown = Shutdown::new().grace(Duration::from_secs(10)).deadline(Duration::from_secs(5)).exit_status(1);
/// let server = Runtime::new().workers(1).shutdown(shutdown).run(|| {
///     spawn(|| {
///         let mut served = 0;
///         while let Ok(Either::Left(())) = after(Duration::from_millis(1)).or(finishing_source()).wait() {
///             served += 1;
///         }
///         // It has not been cancelled, and says goodbye.
///         after(Duration::from_millis(1)).wait().map(|()| served)
///     })
/// });
/// assert!(server?.join().unwrap().is_ok());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Shutdown {
    grace: Duration,
    deadline: Option<Duration>,
    status: Option<i32>,
    on_survivors: Arc<dyn Fn(&Survivors) + Send + Sync>,
}

impl Shutdown {
    /// No grace and no deadline.
    pub fn new() -> Self {
        let on_survivors = Arc::new(|survivors: &Survivors| say(&format!("segue: {survivors}")));
        Self { grace: Duration::ZERO, deadline: None, status: None, on_survivors }
    }

    /// How long fibers have to finish that were asked. Zero, the default, is no grace; a grace
    /// beyond the end of the clock does not end.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// How long after the cancellation the fibers that are left are reported. A deadline of zero
    /// gives no time to end at all, and a fiber that ends before the report is not in the report; a
    /// deadline beyond the end of the clock does not come. Default: none.
    ///
    /// A worker that does not answer, in a fiber that computes or blocks, is waited for a second:
    /// the report may come so much later.
    ///
    /// For reports of fibers that compute the process handles SIGURG, as for a
    /// [monitor](crate::Runtime::monitor).
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Has the process end with this status when the [deadline](Self::deadline) is over and has
    /// been reported, as by [`std::process::exit`]: no destructor runs, neither of the fibers that
    /// are left nor of anything else. Without a deadline this has no effect.
    pub fn exit_status(self, status: i32) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Sets the hook that is called with the report, before the process ends. By default the report
    /// is printed to the standard error.
    ///
    /// The hook is called once, on a thread of its own, in a simulation in a fiber. The end of the
    /// scheduler waits for the hook; so the hook must not wait for that end. If the hook panics,
    /// the process ends.
    pub fn on_survivors(mut self, hook: impl Fn(&Survivors) + Send + Sync + 'static) -> Self {
        self.on_survivors = Arc::new(hook);
        self
    }

    /// Whether the shutdown is no more than a cancellation and a wait.
    pub(crate) fn is_plain(&self) -> bool {
        self.grace.is_zero() && self.deadline.is_none()
    }

    /// Whether there may be a report.
    pub(crate) fn reports(&self) -> bool {
        self.deadline.is_some()
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grace, deadline, status, .. } = self;
        f.debug_struct("Shutdown")
            .field("grace", grace)
            .field("deadline", deadline)
            .field("exit_status", status)
            .finish_non_exhaustive()
    }
}

/// Looks at a worker that has been in this turn since then, if the worker is there still.
pub(crate) type Look = Box<dyn Fn(usize, NonZero<usize>, Instant) -> Option<StuckWorker> + Send + Sync>;

/// The shutdown of one scheduler.
pub(crate) struct Ending {
    plan: Shutdown,
    /// `None` in a simulation, which has no other threads.
    look: Option<Look>,
    state: WaitQueue<State>,
    asked: AtomicBool,
    answers: Mutex<Answers>,
    answered: Condvar,
}

/// See the essay.
#[derive(Default)]
struct State {
    /// Of the family's context, once the shutdown has begun.
    token: Option<CancelToken>,
    /// The fiber that waits for all others, once there is one. This fiber is no survivor.
    owner: Option<u64>,
    /// The family has no members any more.
    complete: bool,
    ended: bool,
}

/// The answers of the workers.
#[derive(Default)]
struct Answers {
    by_worker: Vec<Option<Vec<Stuck>>>,
    /// The fibers that block their workers, with the numbers of these.
    away: Vec<(usize, Stuck)>,
    called_off: bool,
}

impl Answers {
    fn is_away(&self, worker: usize) -> bool {
        self.away.iter().any(|(index, _)| *index == worker)
    }
}

impl Ending {
    /// One that a thread drives, which can look at workers that do not answer.
    pub(crate) fn by_thread(plan: Shutdown, look: Look) -> Arc<Self> {
        // Its waits are to find them there.
        let _ = segue_core::scheduling::thread_timers();
        Arc::new(Self::new(plan, Some(look)))
    }

    /// One that a fiber drives, in a simulation.
    pub(crate) fn by_fiber(plan: Shutdown) -> Arc<Self> {
        Arc::new(Self::new(plan, None))
    }

    fn new(plan: Shutdown, look: Option<Look>) -> Self {
        Self {
            plan,
            look,
            state: WaitQueue::default(),
            asked: AtomicBool::new(false),
            answers: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    fn start_fiber(self: &Arc<Self>, group: &Arc<Group>) {
        let (ending, of) = (Arc::clone(self), Arc::clone(group));
        let (job, _) = job_of_nobody(Builder::new().name("shutdown"), move || ending.drive(&of));
        group.inject(job);
    }

    /// The workers have ended, or have nothing left but the driver.
    pub(crate) fn end(&self) {
        let mut guard = self.state.lock();
        guard.state().ended = true;
        guard.notify_all(0);
        self.answers().called_off = true;
        self.answered.notify_all();
    }

    fn ended(&self) -> Waitable<impl Source<Output = ()>> {
        Waitable::new(self.state.source(WaitsFor::new("the end of a scheduler"), |state| state.ended, |_| ()))
    }

    /// Takes all steps, each in its time, until the scheduler has ended.
    pub(crate) fn drive(&self, group: &Group) {
        let begins = WaitsFor::new("a shutdown");
        // Nobody cancels the driver.
        let _ = self.state.wait(begins, |state| state.token.is_some() || state.ended, |_| ());
        let Some(token) = self.state.lock().state().token.clone() else { return };
        if !self.plan.grace.is_zero() {
            token.cancel_soft(self.plan.grace);
            // By the grace, or by somebody else: the caller of `run` was cancelled, for instance.
            if let Ok(Either::Left(())) = self.ended().or(token.cancelled_source()).wait() {
                return;
            }
        }
        let Some(limit) = self.plan.deadline else { return };
        let (mut time, mut again) = (limit, false);
        while self.ended().wait_until(now().checked_add(time)).is_err() {
            let Some(survivors) = self.survivors(group, &token, limit) else { return };
            if !survivors.is_empty() || (again && !self.state.lock().state().complete) {
                return self.report(&survivors);
            }
            // The workers may be about to end, or a closure about to be dropped.
            (time, again) = (ANSWER, true);
        }
    }

    fn report(&self, survivors: &Survivors) {
        let no_unwind = no_unwind();
        barrier(WaitsFor::new("a hook of a scheduler"), || (self.plan.on_survivors)(survivors));
        no_unwind.disarm();
        let Some(status) = self.plan.status else { return };
        if self.look.is_none() {
            // The thread's destructors are not to run below those of its fibers.
            let exits = thread::Builder::new().spawn(move || process::exit(status));
            let _ = exits.map(thread::JoinHandle::join);
        }
        process::exit(status);
    }

    /// The fibers that are left. `None` if all has ended by now.
    fn survivors(&self, group: &Group, token: &CancelToken, limit: Duration) -> Option<Survivors> {
        let (mut fibers, mut workers, mut others) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(look) = &self.look {
            let asked = Instant::now();
            let turns: Vec<_> = (0..group.len()).map(|index| group.remote(index).beat.turn()).collect();
            let answers = self.ask(group)?;
            fibers.extend(self.answers().away.iter().map(|(_, fiber)| fiber.clone()));
            let is_complete = answers.iter().all(Option::is_some);
            for (index, (answer, turn)) in answers.into_iter().zip(turns).enumerate() {
                match (answer, turn) {
                    (Some(answer), _) => fibers.extend(answer),
                    (None, Some(turn)) => workers.extend(look(index, turn, asked)),
                    (None, None) => {}
                }
            }
            if !is_complete {
                let is_known = |name: &String| {
                    let label = format!("fiber `{name}`");
                    fibers.iter().any(|fiber| fiber.fiber == label)
                        || workers.iter().any(|worker: &StuckWorker| worker.fiber.as_ref() == Some(&label))
                };
                others = token.names(MOST_NAMES);
                others.retain(|name| !is_known(name));
            }
        } else {
            // The driver is a fiber of this worker's.
            fibers = suspended(self.owner());
        }
        Some(Survivors { deadline: limit, exit_status: self.plan.status, fibers, workers, others })
    }

    /// Asks each worker which fibers are left, and waits for the answers, but not for long.
    /// `None` if all has ended by now.
    fn ask(&self, group: &Group) -> Option<Vec<Option<Vec<Stuck>>>> {
        let none_left = |index| group.has_ended(index).then(Vec::new);
        self.answers().by_worker = (0..group.len()).map(none_left).collect();
        self.asked.store(true, Relaxed);
        (0..group.len()).for_each(|index| group.wake(index));
        let lacks = |answers: &mut Answers| {
            let lacks = |(index, answer): (_, &Option<_>)| answer.is_none() && !answers.is_away(index);
            !answers.called_off && answers.by_worker.iter().enumerate().any(lacks)
        };
        let waited = self.answered.wait_timeout_while(self.answers(), ANSWER, lacks);
        let (mut answers, _) = waited.unwrap_or_else(PoisonError::into_inner);
        self.asked.store(false, Relaxed);
        (!answers.called_off).then(|| std::mem::take(&mut answers.by_worker))
    }

    #[cold]
    fn answer_now(&self, worker: usize, report: &dyn Fn(Option<u64>) -> Vec<Stuck>) {
        let owner = self.owner();
        let mut answers = self.answers();
        // One that comes late is not kept.
        if let Some(answer @ None) = answers.by_worker.get_mut(worker) {
            *answer = Some(report(owner));
            drop(answers);
            self.answered.notify_all();
        }
    }

    fn owner(&self) -> Option<u64> {
        self.state.lock().state().owner
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl End for Ending {
    fn begin(self: Arc<Self>, group: &Arc<Group>, token: &CancelToken, owner: Option<u64>) {
        let mut guard = self.state.lock();
        let state = guard.state();
        state.owner = owner.or(state.owner);
        if state.token.is_some() {
            return;
        }
        state.token = Some(token.clone());
        guard.notify_all(0);
        if self.plan.grace.is_zero() {
            token.cancel();
        } else {
            token.ask_to_finish();
        }
        if self.look.is_none() {
            self.start_fiber(group);
        }
    }

    fn complete(&self) {
        self.state.lock().state().complete = true;
        if self.look.is_none() {
            self.end();
        }
    }

    fn answer(&self, worker: usize, report: &dyn Fn(Option<u64>) -> Vec<Stuck>) {
        if self.asked.load(Relaxed) {
            self.answer_now(worker, report);
        }
    }

    fn blocks(&self, worker: usize, fiber: Option<Stuck>) {
        if self.plan.reports() {
            let mut answers = self.answers();
            answers.away.retain(|(index, _)| *index != worker);
            answers.away.extend(fiber.map(|fiber| (worker, fiber)));
            drop(answers);
            self.answered.notify_all();
        }
    }
}

/// Begins the shutdown of a scheduler that has a family with this token: as the builder has set up,
/// or by a cancellation. `owner` is the fiber that is about to wait for all others.
pub(crate) fn begin(group: &Arc<Group>, token: &CancelToken, owner: Option<u64>) {
    match group.ending() {
        Some(ending) => Arc::clone(ending).begin(group, token, owner),
        None => token.cancel(),
    }
}

/// As [`begin`], by the owner, which waits for all others next. An owner that is a fiber of that
/// scheduler is no survivor.
pub(crate) fn begin_as_owner(group: &Arc<Group>, token: &CancelToken) {
    let is_here = |worker: &Common| Arc::ptr_eq(&worker.group, group);
    let owner = with_caller(|caller| caller.and_then(|(worker, fiber)| is_here(worker).then(|| fiber.id())));
    begin(group, token, owner);
}

/// The last member of a scheduler's family has ended, and its workers are about to.
pub(crate) fn complete(group: &Group) {
    if let Some(ending) = group.ending() {
        ending.complete();
    }
}
