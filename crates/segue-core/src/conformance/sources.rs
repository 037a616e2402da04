//! The clauses of sources (R) as a test suite for any source: storms of looks, registrations,
//! retreats, withdrawals, commits and returns, in which what is served once is got once.
//!
//! Used by the tests of structures, in a line for each source.
#![allow(unsafe_code)] // A source of its own, that has others retreat.

use super::report::Violation;
use crate::{BoxSource, Ended, Retreat, Source, Trigger, Waitable, WaitsFor, now, scope};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// A source under test, in a world that is made anew for each round.
///
/// There are eight storms, of 400 rounds each, for the clauses of docs/contract.md that a source is
/// checked against:
///
/// | clause | what is to hold |
/// | --- | --- |
/// | R3 | a look takes nothing that is not there, leaves nothing, and takes what is there |
/// | R5 | a wait that was withdrawn, or has retreated, has left nothing |
/// | R6 | a wait that was served commits once, in a choice too |
/// | R10 | what was served to a wait that is dropped goes on; left out if it [stays done](Self::stays_done) |
/// | R12 | it goes to a wait that stands behind; left out if it [stays done](Self::stays_done) |
/// | R4 | a wait that registers while it is served gets it |
/// | R4 | so does one that was served between its look and its registration |
/// | R2 | cancelled or dropped while it is served, a wait gets it or leaves it |
///
/// All of them count what is served, so a source that has an output maps it to `()`:
/// `source.map(drop).boxed()`. What the output is, and what an operation has taken back, they do
/// not see.
///
/// # Examples
///
/// ```
/// use segue_core::conformance::Sources;
/// use segue_core::{WaitQueue, WaitsFor, Waitable};
///
/// Sources::new(
///     "a flag",
///     || WaitQueue::<bool>::new(false),
///     |queue| Waitable::new(queue.source(WaitsFor::new("a flag"), |set| *set, |_| ())).boxed(),
///     |queue| {
///         let mut queue = queue.lock();
///         *queue.state() = true;
///         queue.notify_all(0);
///     },
/// )
/// .lasting()
/// .check();
/// ```
#[must_use = "nothing is checked before `check`"]
pub struct Sources<W, S, F> {
    name: &'static str,
    world: fn() -> W,
    source: S,
    serve: F,
    lasts: bool,
    stays_done: bool,
    rounds: usize,
    patience: Duration,
}

/// The clause that it checks, what is to hold, and whether it does in a round.
type Storm<T> = (&'static str, &'static str, fn(&T, usize) -> bool);

/// Finds its value only when it registers, so that all retreat.
struct Late(bool);

// SAFETY: it registers nothing.
unsafe impl Source for Late {
    type Output = ();
    type Slot = ();

    fn waits_for(&self) -> WaitsFor {
        WaitsFor::new("a retreat")
    }

    fn address(&self, _least: usize) -> Option<usize> {
        Some(usize::MAX)
    }

    fn attempt(&mut self) -> Option<()> {
        self.0.then_some(())
    }

    unsafe fn register(&mut self, (): &mut (), trigger: &Trigger, _arm: usize) -> Result<(), Retreat> {
        self.0 = true;
        Err(trigger.retreat())
    }

    unsafe fn withdraw(&mut self, (): &mut ()) {}

    unsafe fn commit(&mut self, (): &mut (), _arm: usize) -> Option<()> {
        None
    }

    unsafe fn give_back(&mut self, (): &mut (), _arm: usize) {}
}

/// Registers before all others, and does something then.
struct Meanwhile<F>(F);

// SAFETY: it registers nothing.
unsafe impl<F: Fn()> Source for Meanwhile<F> {
    type Output = ();
    type Slot = ();

    fn waits_for(&self) -> WaitsFor {
        WaitsFor::new("nothing")
    }

    fn address(&self, least: usize) -> Option<usize> {
        (least == 0).then_some(0)
    }

    fn attempt(&mut self) -> Option<()> {
        None
    }

    unsafe fn register(&mut self, (): &mut (), _trigger: &Trigger, _arm: usize) -> Result<(), Retreat> {
        (self.0)();
        Ok(())
    }

    unsafe fn withdraw(&mut self, (): &mut ()) {}

    unsafe fn commit(&mut self, (): &mut (), _arm: usize) -> Option<()> {
        None
    }

    unsafe fn give_back(&mut self, (): &mut (), _arm: usize) {}
}

fn poll(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    future.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

/// Passes some time, another amount in each round.
fn stagger(round: usize) {
    (0..round % 7 * 40).for_each(|_| std::hint::spin_loop());
    if round.is_multiple_of(11) {
        thread::yield_now();
    }
}

impl<W, S, F> Sources<W, S, F>
where
    W: Sync,
    S: for<'w> Fn(&'w W) -> Waitable<BoxSource<'w, ()>> + Sync,
    F: Fn(&W) + Sync,
{
    /// The source that `source` makes in a `world` in which it is not ready. `serve` makes it ready
    /// for one wait, from any thread, and returns: also where nobody waits yet, in which case it
    /// stays ready for the next one.
    ///
    /// Where waiters make each other ready, as at a rendezvous, `serve` is a partner that has come:
    /// the future of its operation, polled once and kept in the world (`examples/exchange.rs`).
    pub fn new(name: &'static str, world: fn() -> W, source: S, serve: F) -> Self {
        let rounds = if cfg!(miri) { 8 } else { 400 };
        Self { name, world, source, serve, lasts: false, stays_done: false, rounds, patience: Duration::from_secs(20) }
    }

    /// Once it was made ready, it is ready for all waits.
    pub fn lasting(mut self) -> Self {
        self.lasts = true;
        self
    }

    /// What a wait was served with stays done when the wait is dropped, as R10 allows: a value that
    /// was put.
    pub fn stays_done(mut self) -> Self {
        self.stays_done = true;
        self
    }

    /// How long a wait that was served may take, before it counts as lost: 20 seconds.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Runs every storm.
    ///
    /// # Panics
    /// With the clauses of docs/contract.md that the source breaks.
    #[track_caller]
    pub fn check(&self) {
        let seen = self.run();
        let seen: Vec<_> = seen.iter().map(|violation| format!("  {violation}")).collect();
        assert!(seen.is_empty(), "`{}` breaks the contract (docs/contract.md)\n{}", self.name, seen.join("\n"));
    }

    /// Runs every storm and says what was seen broken: nothing, if the source keeps the clauses.
    pub fn run(&self) -> Vec<Violation> {
        let storms: [Storm<Self>; 8] = [
            ("R3", "a look takes nothing that is not there, leaves nothing, and takes what is there", Self::look),
            ("R5", "a withdrawn wait, or one that has retreated, has left nothing", Self::withdraw),
            ("R6", "a wait that was served commits once, in a choice too", Self::commit),
            ("R10", "what was served to a wait that is dropped goes on", Self::give_back),
            ("R12", "it goes to a wait that stands behind", Self::pass_on),
            ("R4", "a wait that registers while it is served gets it", Self::race),
            ("R4", "so does one that is served between its look and its registration", Self::look_and_register),
            ("R2", "cancelled or dropped while it is served, it gets it or leaves it", Self::race_with_end),
        ];
        let mut seen = Vec::new();
        for (clause, about, storm) in storms {
            if self.stays_done && matches!(clause, "R10" | "R12") {
                continue;
            }
            let broken = |round: &usize| {
                // What a panic has seen is the storm's.
                !catch_unwind(AssertUnwindSafe(|| storm(self, *round))).unwrap_or(false)
            };
            if let Some(round) = (0..self.rounds).find(broken) {
                seen.push(Violation { clause: Some(clause), seen: format!("not so in round {round}: {about}") });
            }
        }
        seen
    }

    /// Whether so much is left, which this takes.
    fn has_left(&self, world: &W, one: bool) -> bool {
        let looks = || (self.source)(world).attempt().is_some();
        looks() == one && looks() == (one && self.lasts)
    }

    fn look(&self, _: usize) -> bool {
        let world = (self.world)();
        let nothing = (self.source)(&world).attempt().is_none();
        (self.serve)(&world);
        nothing && self.has_left(&world, true)
    }

    fn withdraw(&self, round: usize) -> bool {
        let world = (self.world)();
        if round.is_multiple_of(2) {
            let mut future = pin!((self.source)(&world).into_future());
            if poll(future.as_mut()) {
                return false;
            }
            // It is dropped at the end of this block.
        } else if (self.source)(&world).or(Late(false)).wait().is_err() {
            return false;
        }
        (self.serve)(&world);
        self.has_left(&world, true)
    }

    fn commit(&self, round: usize) -> bool {
        let world = (self.world)();
        let both = || (self.source)(&world).or((self.source)(&world)).map(drop);
        let once = |source: Waitable<BoxSource<'_, ()>>| {
            let mut future = pin!(source.into_future());
            let early = poll(future.as_mut());
            (self.serve)(&world);
            !early && poll(future.as_mut())
        };
        let got = once(if round.is_multiple_of(2) { (self.source)(&world) } else { both().boxed() });
        got && (self.lasts || self.has_left(&world, false))
    }

    fn give_back(&self, _: usize) -> bool {
        let world = (self.world)();
        {
            let mut future = pin!((self.source)(&world).into_future());
            if poll(future.as_mut()) {
                return false;
            }
            (self.serve)(&world);
        }
        self.has_left(&world, true)
    }

    fn pass_on(&self, _: usize) -> bool {
        let world = (self.world)();
        let mut second = pin!((self.source)(&world).into_future());
        {
            let mut first = pin!((self.source)(&world).into_future());
            if poll(first.as_mut()) | poll(second.as_mut()) {
                return false;
            }
            (self.serve)(&world);
        }
        poll(second.as_mut()) && (self.lasts || self.has_left(&world, false))
    }

    fn look_and_register(&self, _: usize) -> bool {
        let world = (self.world)();
        let served = Cell::new(false);
        let meanwhile = Waitable::new(Meanwhile(|| {
            if !served.replace(true) {
                (self.serve)(&world);
            }
        }));
        let got = poll(pin!(meanwhile.or((self.source)(&world)).map(drop).into_future()));
        got && served.get() && (self.lasts || self.has_left(&world, false))
    }

    /// Runs `f` while another thread serves one wait.
    fn while_served<R>(&self, world: &W, round: usize, f: impl for<'t> FnOnce(&'t thread::Scope<'t, '_>) -> R) -> R {
        thread::scope(|t| {
            t.spawn(|| {
                stagger(round);
                (self.serve)(world);
            });
            f(t)
        })
    }

    fn race(&self, round: usize) -> bool {
        let world = (self.world)();
        let deadline = now().checked_add(self.patience);
        let got = self.while_served(&world, round, |_| {
            stagger(round / 7);
            (self.source)(&world).wait_until(deadline)
        });
        got == Ok(()) && (self.lasts || self.has_left(&world, false))
    }

    fn race_with_end(&self, round: usize) -> bool {
        let world = (self.world)();
        let deadline = now().checked_add(self.patience);
        let got = self.while_served(&world, round, |t| {
            if round.is_multiple_of(2) && !self.stays_done {
                let mut future = pin!((self.source)(&world).into_future());
                stagger(round / 7);
                return Ok(poll(future.as_mut()));
            }
            scope(|s| {
                let token = s.token();
                t.spawn(move || {
                    stagger(round / 7);
                    token.cancel();
                });
                match (self.source)(&world).wait_until(deadline) {
                    Ok(()) => Ok(true),
                    Err(Ended::Cancelled(_)) => Ok(false),
                    Err(ended) => Err(ended),
                }
            })
        });
        got.is_ok_and(|got| self.has_left(&world, !got || self.lasts))
    }
}
