//! The surroundings of a case: the scheduler under test, a place to note observations, and a few
//! meeting points.
//!
//! Used by every case. The helpers are made of [`Trigger`] alone, so that a case does not test the
//! structures above it.
#![allow(unsafe_code)] // Waits by the two halves of a wait.

use segue_core::{Outcome, Panic, Trigger, WaitsFor};
use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The program for a scheduler under test: the first fiber.
pub type Main = Box<dyn FnOnce() + Send>;

/// A property of schedulers without which a case makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Work runs on fibers with a header, and not on plain threads.
    Fibers,
    /// Work runs on plain threads.
    Threads,
    /// The end of a run waits for detached fibers.
    Ends,
    /// Other threads can take part.
    Others,
    /// The clock is simulated.
    Simulated,
    /// A fiber that yields lets others run.
    Fairness,
    /// The number of threads is known.
    Workers,
    /// It runs inside of its own fibers.
    Nesting,
}

/// A clause that was seen broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in `docs/contract.md`; `None` if the program went wrong in a way that names none.
    pub clause: Option<&'static str>,
    /// The observation.
    pub seen: String,
}

/// Runs a first fiber on the scheduler under test.
pub(crate) type Runner = Arc<dyn Fn(Main) + Send + Sync>;

/// More is not told of one case: a scheduler that is wrong is wrong in every round.
const TOLD: usize = 8;

/// The facts about the scheduler under test.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) workers: Option<usize>,
    pub(crate) plain_threads: bool,
    pub(crate) hosted: bool,
    pub(crate) detaches: bool,
    pub(crate) simulated: bool,
    pub(crate) unfair: bool,
    pub(crate) nests: bool,
    pub(crate) rounds: Option<usize>,
    pub(crate) fibers: Option<usize>,
}

impl Setup {
    /// Why a case that needs this does not apply; `None` if one does.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        let (is_there, why) = match need {
            Need::Fibers => (!self.plain_threads, "it speaks of fibers, and this runs on plain threads"),
            Need::Threads => (self.plain_threads && !self.hosted, "it speaks of plain threads"),
            Need::Ends => (!self.plain_threads && !self.detaches, "what is detached outlives the run"),
            Need::Others => (!self.simulated, "other threads take part, and this world is closed"),
            Need::Simulated => (self.simulated, "it needs a simulated clock"),
            Need::Fairness => (!self.unfair, "a fiber that yields may starve the others"),
            Need::Workers => (self.workers.is_some() && !self.plain_threads, "the number of its threads is not known"),
            Need::Nesting => (self.nests, "it does not run inside of its own fibers"),
        };
        (!is_there).then_some(why)
    }
}

/// The scheduler under test, from a case's view.
#[derive(Clone)]
pub(crate) struct Probe(Arc<Shared>);

struct Shared {
    setup: Setup,
    runner: Runner,
    seen: Mutex<Vec<Violation>>,
    step: Mutex<&'static str>,
}

/// A lock that no panic spoils: the guarded value is whole at all times.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Probe {
    pub(crate) fn new(setup: Setup, runner: Runner) -> Self {
        Self(Arc::new(Shared { setup, runner, seen: Mutex::default(), step: Mutex::new("") }))
    }

    pub(crate) fn setup(&self) -> Setup {
        self.0.setup
    }

    /// How often to run a race.
    pub(crate) fn rounds(&self) -> usize {
        // Interpreted, everything takes longer.
        self.0.setup.rounds.unwrap_or(if cfg!(miri) { 20 } else { 10_000 })
    }

    /// The number of rounds for long work, or work without a race.
    pub(crate) fn few(&self) -> usize {
        (self.rounds() / 50).max(4)
    }

    /// How many fibers may be alive at once.
    pub(crate) fn fibers(&self) -> usize {
        let Setup { fibers, plain_threads, .. } = self.0.setup;
        fibers.unwrap_or(if cfg!(miri) {
            8
        } else if plain_threads {
            64
        } else {
            500
        })
    }

    /// Runs `main` as the first fiber of the scheduler under test. Its panics are noted.
    pub(crate) fn run(&self, main: impl FnOnce(&Probe) + Send + 'static) {
        let ended = Arc::new(AtomicBool::new(false));
        let (probe, at_end) = (self.clone(), Arc::clone(&ended));
        (self.0.runner)(Box::new(move || {
            probe.watched(|| main(&probe));
            at_end.store(true, Ordering::Release);
        }));
        if !ended.load(Ordering::Acquire) {
            self.note(None, "the run returned before its first fiber had ended".to_owned());
        }
    }

    /// Runs `f` and takes note of its panic.
    pub(crate) fn watched<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        catch_unwind(AssertUnwindSafe(f)).map_err(|payload| self.take_note_of(payload)).ok()
    }

    /// Names the next step, for the watchdog.
    pub(crate) fn next(&self, step: &'static str) {
        *lock(&self.0.step) = step;
    }

    /// The next step when the case was last heard of.
    pub(crate) fn step(&self) -> &'static str {
        *lock(&self.0.step)
    }

    /// Takes note that a clause is broken unless `held`; answers `held`.
    pub(crate) fn expect(&self, clause: &'static str, held: bool, seen: impl FnOnce() -> String) -> bool {
        if !held {
            self.note(Some(clause), seen());
        }
        held
    }

    /// As [`expect`](Probe::expect), of two values that are to be the same.
    pub(crate) fn equal<T: PartialEq + Debug>(&self, clause: &'static str, what: &str, seen: T, due: T) -> bool {
        self.expect(clause, seen == due, || format!("{what}: {seen:?} instead of {due:?}"))
    }

    /// The faults so far.
    pub(crate) fn seen(&self) -> Vec<Violation> {
        lock(&self.0.seen).clone()
    }

    pub(crate) fn take_note_of(&self, payload: Box<dyn Any + Send>) {
        let panic = Panic::new(payload);
        let message = panic.message().unwrap_or_default();
        // The message of a trigger when its wait ends without a cause.
        let clause = message.contains("nobody had resumed").then_some("1");
        self.note(clause, format!("it panicked: {message}"));
        // The drop of the payload may panic again.
        std::mem::forget(panic);
    }

    fn note(&self, clause: Option<&'static str>, seen: String) {
        let mut all = lock(&self.0.seen);
        let violation = Violation { clause, seen };
        if all.len() < TOLD && !all.contains(&violation) {
            all.push(violation);
        }
    }
}

/// The reports' words for the waits of the suite.
#[track_caller]
pub(crate) fn a_case() -> WaitsFor {
    WaitsFor::new("a conformance case")
}

/// Waits with a trigger that is WAITING before anybody else knows that trigger, so that the claimer
/// owes a resume, be that before the scheduler has been asked to suspend. `publish` does not panic.
#[track_caller]
pub(crate) fn wait_bound(publish: impl FnOnce(&Arc<Trigger>)) -> Outcome {
    // SAFETY: no case panics, waits or performs there. Each puts the trigger into a mailbox, hands
    // the trigger to a thread, or claims the trigger.
    unsafe { Trigger::wait_published(a_case(), publish) }
}

/// [`wait_bound`], with a claim by the reader of the mailbox.
#[track_caller]
pub(crate) fn wait_posted(triggers: &Mailbox<Arc<Trigger>>) -> Outcome {
    wait_bound(|trigger| triggers.put(Arc::clone(trigger)))
}

/// A queue of values, for any number of writers and one reader, on fibers and threads.
pub(crate) struct Mailbox<T>(Mutex<(VecDeque<T>, Option<Arc<Trigger>>)>);

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new((VecDeque::new(), None)))
    }

    /// For several owners.
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self::new())
    }

    pub(crate) fn put(&self, value: T) {
        let mut mail = lock(&self.0);
        let (letters, reader) = &mut *mail;
        letters.push_back(value);
        let reader = reader.take();
        drop(mail);
        if let Some(reader) = reader {
            // One that was cancelled finds the letter at its next visit.
            reader.signal(0);
        }
    }

    /// The next value, after a wait. `None` if the caller was cancelled.
    #[track_caller]
    pub(crate) fn take(&self) -> Option<T> {
        loop {
            let trigger = Arc::new(Trigger::new());
            let mut mail = lock(&self.0);
            let (letters, reader) = &mut *mail;
            if let Some(value) = letters.pop_front() {
                return Some(value);
            }
            *reader = Some(Arc::clone(&trigger));
            drop(mail);
            if trigger.wait(a_case()) == Outcome::Cancelled {
                return None;
            }
        }
    }

    /// As [`take`](Mailbox::take), where nothing cancels.
    #[track_caller]
    pub(crate) fn get(&self) -> T {
        self.take().expect("a wait was cancelled, and nobody had cancelled it")
    }
}

/// Closed, until opened for all. The waiters; `None` after the opening.
pub(crate) struct Gate(Mutex<Option<Vec<Arc<Trigger>>>>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    pub(crate) fn open(&self) {
        let waiting = lock(&self.0).take();
        for trigger in waiting.into_iter().flatten() {
            // One that was cancelled does not care.
            trigger.signal(0);
        }
    }

    /// Waits until the gate is open. Answers `false` if the caller was cancelled.
    #[track_caller]
    pub(crate) fn pass(&self) -> bool {
        let trigger = Arc::new(Trigger::new());
        match &mut *lock(&self.0) {
            Some(waiting) => waiting.push(Arc::clone(&trigger)),
            None => return true,
        }
        trigger.wait(a_case()) != Outcome::Cancelled
    }

    /// As [`pass`](Gate::pass), after an announcement.
    #[track_caller]
    pub(crate) fn arrive<T>(&self, arrivals: &Mailbox<T>, who: T) -> bool {
        arrivals.put(who);
        self.pass()
    }
}

/// Wastes a little time, differently each round, so that races come out in all ways.
pub(crate) fn stagger(round: usize) {
    for _ in 0..(round.wrapping_mul(7919) % 7) * 40 {
        std::hint::spin_loop();
    }
    if cfg!(miri) || round.is_multiple_of(11) {
        thread::yield_now();
    }
}

/// A plain thread, which has no part in the scheduler under test, and acts on messages.
pub(crate) struct Other<T> {
    sender: Sender<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Other<T> {
    /// `act` is told the number of earlier messages.
    pub(crate) fn start(mut act: impl FnMut(usize, T) + Send + 'static) -> Self {
        let (sender, sent) = mpsc::channel();
        let thread = thread::Builder::new().name("segue-other".to_owned());
        let thread = thread.spawn(move || sent.iter().enumerate().for_each(|(before, value)| act(before, value)));
        Self { sender, thread: thread.expect("a plain thread") }
    }

    /// Sends a message. The thread is there, unless it has panicked, which [`end`](Other::end)
    /// notes.
    pub(crate) fn send(&self, value: T) {
        let _ = self.sender.send(value);
    }

    /// Waits until the thread has acted on all messages.
    pub(crate) fn end(self, probe: &Probe) {
        drop(self.sender);
        probe.expect("9", self.thread.join().is_ok(), || "a plain thread that met fibers panicked".to_owned());
    }
}

/// Starts a plain thread that calls `f`.
pub(crate) fn other(f: impl FnOnce() + Send + 'static) -> Other<()> {
    let mut f = Some(f);
    let other = Other::start(move |_, ()| f.take().expect("it is told once")());
    other.send(());
    other
}
