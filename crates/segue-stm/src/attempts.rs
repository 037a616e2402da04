//! Transactions: attempts, one after the other, and the wait of a `retry`.
//!
//! Used by `atomically.rs`, which gives users the source that a transaction is.
//!
//! # The steps
//!
//! ```text
//!   look: an attempt --commits--------------------------------> done
//!           |  ^ \---a conflict, or it was in the past---.
//!           |  '-----------------------------------------'  16 conflicts: asks for the turn (`turn.rs`)
//!           |
//!           '--retry-----> waits for a change of what was read, looks again  (`waits.rs`)
//!           '--held------> waits until the turn is free, looks again
//!           '--no turn---> waits until the turn is free, looks again
//! ```
//!
//! The body runs inside of [`no_suspend_in_body`]: an attempt is not suspended, since others may
//! wait for its end (the turn), and memory is kept for it. A simulator may interrupt it all the
//! same.
//!
//! **Cancellation**: looked for before each attempt, and by each wait. After the commit nothing is
//! undone.
#![allow(unsafe_code)] // `Source` is an unsafe trait, and a log is retired.

use crate::commit::tell;
use crate::log::Taken;
use crate::open;
use crate::profile::Recovery;
use crate::stop::{Stop, Why, stopped};
use crate::turn::Turn;
use crate::tx::{Tx, must_not_suspend};
use crate::version::pause;
use crate::waits::{Slots, To, Wait, Watched};
use segue_core::atomic::yield_now;
use segue_core::scheduling::{is_simulated, no_suspend_in_body};
use segue_core::{Cancelled, Retreat, Source, Trigger, WaitsFor, check, is_cancelled, random};
use std::panic::Location;

/// How a transaction is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Call,
    Choice,
}

/// After so many conflicts a transaction asks for its turn.
const TURN: u32 = 16;

/// The source that a transaction is.
pub(crate) struct Attempts<F> {
    body: F,
    used_as: Use,
    conflicts: u32,
    /// Whether it has written in an attempt that was in the past.
    writes: bool,
    /// The last conflict, while somebody profiles.
    recovery: Option<Recovery>,
    wait: Wait,
}

/// The end of an attempt.
enum End<R> {
    Done(R),
    Again,
    /// A variable is held by the transaction in turn.
    Held,
    Wait(To),
    Failed(Cancelled),
}

impl<F> Attempts<F> {
    #[track_caller]
    pub(crate) fn new(body: F, used_as: Use) -> Self {
        let wait = Wait { to: To::No, at: Location::caller() };
        Self { body, used_as, conflicts: 0, writes: false, recovery: None, wait }
    }

    fn attempt_once<R>(&mut self, turn: Option<Turn>) -> End<R>
    where
        F: for<'t> Fn(&Tx<'t>) -> Result<R, Stop>,
    {
        let mut log = Taken::take();
        let mut tx = Tx::begin(log.get(), turn, self.writes);
        let run = || {
            let value = tx.ended(open::during(&tx, || (self.body)(&tx)))?;
            Ok((value, tx.commit()?))
        };
        let outcome = no_suspend_in_body(run);
        // The attempt after a conflict has ended.
        self.recovery = None;
        match outcome {
            Ok((value, told)) => {
                tx.let_go();
                // Before the drops of values, which may wait for one that is told.
                tell(told);
                End::Done(value)
            }
            Err(Why::Retry(_)) if tx.is_past() => {
                // Else others that commit all the time would keep the body from its wait.
                self.conflicts += 1;
                End::Again
            }
            Err(Why::Retry(event)) => {
                // SAFETY: the attempt, with its snapshot, is still under way.
                let watched = unsafe { Watched::all(&mut tx.log().borrow_mut()) };
                // The watched variables have handles now.
                drop(event);
                drop(tx);
                drop(log);
                self.conflicts = 0;
                if watched.is_empty() {
                    return End::Failed(Cancelled::with_reason(
                        "a transaction retries and has read no variable that anybody could change",
                    ));
                }
                End::Wait(To::Change(watched))
            }
            Err(Why::Conflict(blame)) => {
                // SAFETY: the attempt, with its snapshot, is still under way.
                self.recovery = unsafe { Recovery::begin(&blame) };
                self.writes |= tx.is_past();
                self.conflicts += 1;
                End::Again
            }
            // A stop of another transaction.
            Err(Why::Stopped) => End::Again,
            Err(Why::Held(blame)) => {
                // SAFETY: the attempt, with its snapshot, is still under way.
                self.recovery = unsafe { Recovery::begin(&blame) };
                self.conflicts += 1;
                End::Held
            }
            Err(Why::Cancelled(cancelled)) => End::Failed(cancelled),
        }
    }

    /// Lets others finish, after a conflict.
    fn stand_back(&self) {
        let mut spins = 0;
        for _ in 0..random() % (1 << self.conflicts.min(8)) {
            pause(&mut spins);
        }
    }

    /// The end by an error. A choice has no error: one of a cancelled caller ends by the
    /// cancellation, which its wait finds; so this waits for something that mostly is there.
    #[cold]
    fn failed<R>(&mut self, cancelled: Cancelled) -> Option<Result<R, Cancelled>> {
        if self.used_as == Use::Choice && is_cancelled() {
            self.wait.to = To::Turn(Turn::free(self.wait.at));
            return None;
        }
        Some(Err(cancelled))
    }

    /// Waits until the turn is free, or looks at it again where the caller can't wait.
    fn wait_for_turn(&mut self) -> Option<()> {
        self.wait.to = To::Turn(Turn::free(self.wait.at));
        if looks_again() { Some(()) } else { self.wait.attempt() }
    }
}

/// Lets other threads run, if the caller is a fiber that must not be suspended, and so looks at the
/// turn again in place of a wait: in the drop of a value, for one. In a simulation the holder may
/// be interrupted on this very thread, and the wait is refused.
pub(crate) fn looks_again() -> bool {
    let looks_again = must_not_suspend() && !is_simulated();
    if looks_again {
        yield_now();
    }
    looks_again
}

// SAFETY: each step of a registration is that of the wait, which keeps the contract, and stays the
// same from a look in vain to the next look. The body is foreign code, and so are the drops of
// values: both run in `attempt`, where nothing is registered.
unsafe impl<R, F> Source for Attempts<F>
where
    F: for<'t> Fn(&Tx<'t>) -> Result<R, Stop>,
{
    type Output = Result<R, Cancelled>;
    type Slot = Slots;

    fn waits_for(&self) -> WaitsFor {
        self.wait.waits_for()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.wait.address(least)
    }

    fn attempt(&mut self) -> Option<Self::Output> {
        let nested = open::with_outer(|outer| {
            assert!(self.used_as == Use::Call, "a transaction is a source outside of transactions alone");
            outer.join()?;
            (self.body)(outer).map_err(|stop| {
                let _ = outer.stop(stop.0);
                stopped()
            })
        });
        if nested.is_some() {
            return nested;
        }
        self.wait.to = To::No;
        loop {
            let turn = (self.conflicts >= TURN).then(Turn::try_take);
            if let Some(None) = turn {
                self.wait_for_turn()?;
                continue;
            }
            match self.attempt_once(turn.flatten()) {
                End::Done(value) => return Some(Ok(value)),
                End::Again => self.stand_back(),
                End::Held => self.wait_for_turn()?,
                End::Wait(to) => {
                    self.wait.to = to;
                    self.wait.attempt()?;
                }
                End::Failed(cancelled) => return self.failed(cancelled),
            }
            if let Err(cancelled) = check() {
                return self.failed(cancelled);
            }
        }
    }

    unsafe fn prepare(&mut self, slot: &mut Slots) {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.prepare(slot) };
    }

    unsafe fn register(&mut self, slot: &mut Slots, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.register(slot, trigger, arm) }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Slots,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.register_at(address, slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Slots) {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.withdraw(slot) };
    }

    unsafe fn commit(&mut self, slot: &mut Slots, arm: usize) -> Option<Self::Output> {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.commit(slot, arm) };
        // Told to look, in another attempt.
        None
    }

    unsafe fn give_back(&mut self, slot: &mut Slots, arm: usize) {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { self.wait.give_back(slot, arm) };
    }
}
