//! The clauses of sources (R) as a test suite for any source: storms of looks, registrations,
//! retreats, withdrawals, commits and returns, in which a value that is served once is got once.
//!
//! Used by the tests of structures, in a line for each source.
#![allow(unsafe_code)] // A source of its own, that has others retreat.

use crate::probe::{Violation, stagger};

use segue_core::scheduling::begin_turn;
use segue_core::{BoxSource, Ended, Retreat, Source, Trigger, Waitable, WaitsFor, now, scope};
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
/// | clause | rule |
/// | --- | --- |
/// | R3 | a look takes no more than is there, leaves nothing, and takes a value that is there |
/// | R5 | a wait that was withdrawn, or has retreated, has left nothing |
/// | R6 | a wait that was served commits once, in a choice too |
/// | R10 | a value that was served to a dropped wait goes on; left out if the value [stays done](Self::stays_done) |
/// | R12 | the value goes to a wait that stands behind; left out if it [stays done](Self::stays_done) |
/// | R4 | a wait that registers during its service gets the value |
/// | R4 | so does one that was served between its look and its registration |
/// | R2 | cancelled or dropped during its service, a wait gets the value or leaves it |
///
/// All of them count services, so a source with an output maps that to `()`:
/// `source.map(drop).boxed()`. The output, and the value that an operation has taken back, they do
/// not see.
///
/// # Examples
///
/// ```
/// use segue_conformance::Sources;
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

/// The clause that this checks, its rule, and whether that holds in a round, in a new world.
type Storm<T, W> = (&'static str, &'static str, fn(&T, &W, usize) -> bool);

/// An arm that nobody serves. At its registration this arm acts, and may find itself ready then, so
/// that all retreat.
struct Planted<F> {
    register: F,
    /// Its place in the order of the addresses (R9).
    address: usize,
    is_ready: bool,
}

impl<F: FnMut() -> bool> Planted<F> {
    fn at(address: usize, register: F) -> Waitable<Self> {
        Waitable::new(Self { register, address, is_ready: false })
    }
}

// SAFETY: nothing is registered.
unsafe impl<F: FnMut() -> bool> Source for Planted<F> {
    type Output = ();
    type Slot = ();

    fn waits_for(&self) -> WaitsFor {
        WaitsFor::new("nothing")
    }

    fn address(&self, least: usize) -> Option<usize> {
        (least <= self.address).then_some(self.address)
    }

    fn attempt(&mut self) -> Option<()> {
        self.is_ready.then_some(())
    }

    unsafe fn register(&mut self, (): &mut (), trigger: &Trigger, _arm: usize) -> Result<(), Retreat> {
        self.is_ready = (self.register)();
        if self.is_ready { Err(trigger.retreat()) } else { Ok(()) }
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

impl<W, S, F> Sources<W, S, F>
where
    W: Sync,
    S: for<'w> Fn(&'w W) -> Waitable<BoxSource<'w, ()>> + Sync,
    F: Fn(&W) + Sync,
{
    /// The source that `source` makes in a `world`, not ready yet. `serve` makes it ready for one
    /// wait, from any thread, and returns: also where nobody waits yet, in which case the source
    /// stays ready for the next one.
    ///
    /// Where waiters make each other ready, as at a rendezvous, `serve` is a partner that has come:
    /// the future of its operation, polled once and kept in the world (`examples/exchange.rs`).
    pub fn new(name: &'static str, world: fn() -> W, source: S, serve: F) -> Self {
        let rounds = if cfg!(miri) { 8 } else { 400 };
        Self { name, world, source, serve, lasts: false, stays_done: false, rounds, patience: Duration::from_secs(20) }
    }

    /// A ready source is ready for all waits.
    pub fn lasting(self) -> Self {
        Self { lasts: true, ..self }
    }

    /// The service of a wait stays done after a drop of the wait, as R10 allows: a value that was
    /// put.
    pub fn stays_done(self) -> Self {
        Self { stays_done: true, ..self }
    }

    /// The time that a served wait may take, before it counts as lost: 20 seconds.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
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

    /// Runs every storm and lists the faults: none, if the source keeps the clauses.
    pub fn run(&self) -> Vec<Violation> {
        let storms: [Storm<Self, W>; 8] = [
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
                // A source of a future has nothing at the end of a turn, and asks again.
                begin_turn();
                // A panic's observations are the storm's.
                !catch_unwind(AssertUnwindSafe(|| storm(self, &(self.world)(), *round))).unwrap_or(false)
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

    /// Whether all that was served was `got`.
    fn has_all(&self, world: &W, got: bool) -> bool {
        got && (self.lasts || self.has_left(world, false))
    }

    fn look(&self, world: &W, round: usize) -> bool {
        let finds = || {
            let mut source = (self.source)(world).into_source();
            let found = match round.is_multiple_of(2) {
                true => source.attempt(),
                false => {
                    let parts = source.parts();
                    let mut ready = (0..parts.count()).filter(|part| parts.may_be_ready(*part));
                    ready.find_map(|part| source.attempt_part(part))
                }
            };
            found.is_some()
        };
        let nothing = !finds();
        (self.serve)(world);
        nothing && finds() && finds() == self.lasts
    }

    fn withdraw(&self, world: &W, round: usize) -> bool {
        if round.is_multiple_of(2) {
            let mut future = pin!((self.source)(world).into_future());
            if poll(future.as_mut()) {
                return false;
            }
            // The value is dropped at the end of this block.
        } else if (self.source)(world).or(Planted::at(usize::MAX, || true)).wait().is_err() {
            return false;
        }
        (self.serve)(world);
        self.has_left(world, true)
    }

    fn commit(&self, world: &W, round: usize) -> bool {
        let both = || (self.source)(world).or((self.source)(world)).map(drop);
        let once = |source: Waitable<BoxSource<'_, ()>>| {
            let mut future = pin!(source.into_future());
            let early = poll(future.as_mut());
            (self.serve)(world);
            !early && poll(future.as_mut())
        };
        let got = once(if round.is_multiple_of(2) { (self.source)(world) } else { both().boxed() });
        self.has_all(world, got)
    }

    fn give_back(&self, world: &W, _: usize) -> bool {
        {
            let mut future = pin!((self.source)(world).into_future());
            if poll(future.as_mut()) {
                return false;
            }
            (self.serve)(world);
        }
        self.has_left(world, true)
    }

    fn pass_on(&self, world: &W, _: usize) -> bool {
        let mut second = pin!((self.source)(world).into_future());
        {
            let mut first = pin!((self.source)(world).into_future());
            if poll(first.as_mut()) | poll(second.as_mut()) {
                return false;
            }
            (self.serve)(world);
        }
        self.has_all(world, poll(second.as_mut()))
    }

    fn look_and_register(&self, world: &W, _: usize) -> bool {
        let served = Cell::new(false);
        let meanwhile = Planted::at(0, || {
            if !served.replace(true) {
                (self.serve)(world);
            }
            false
        });
        let got = poll(pin!(meanwhile.or((self.source)(world)).map(drop).into_future()));
        self.has_all(world, got && served.get())
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

    fn race(&self, world: &W, round: usize) -> bool {
        let deadline = now().checked_add(self.patience);
        let got = self.while_served(world, round, |_| {
            stagger(round / 7);
            (self.source)(world).wait_until(deadline)
        });
        self.has_all(world, got == Ok(()))
    }

    fn race_with_end(&self, world: &W, round: usize) -> bool {
        let deadline = now().checked_add(self.patience);
        let got = self.while_served(world, round, |t| {
            if round.is_multiple_of(2) && !self.stays_done {
                let mut future = pin!((self.source)(world).into_future());
                stagger(round / 7);
                return Ok(poll(future.as_mut()));
            }
            scope(|s| {
                let token = s.token();
                t.spawn(move || {
                    stagger(round / 7);
                    token.cancel();
                });
                match (self.source)(world).wait_until(deadline) {
                    Ok(()) => Ok(true),
                    Err(Ended::Cancelled(_)) => Ok(false),
                    Err(ended) => Err(ended),
                }
            })
        });
        got.is_ok_and(|got| self.has_left(world, !got || self.lasts))
    }
}
