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
//!           '--retry-----> waits for a change of what was read, looks again
//!           '--held------> waits for the end of the turn, looks again
//!           '--no turn---> waits for the turn, looks again
//! ```
//!
//! A transaction is a source of one arm. To register is to join, for each variable that was read, its
//! queue: under the lock of the queue the waiter sets WAITERS in the variable's word, and then
//! compares the version (`commit.rs` has the argument). A committer tells those alone that wait for
//! a variable that it has written. All waiters of a variable are told, and begin again; so a waiter
//! that was told and does not look need not pass that on.
//!
//! The body runs inside of [`no_suspend`]: an attempt is not suspended, since others may wait for
//! its end (the turn), and memory is kept for it. A simulator may interrupt it all the same.
//!
//! **Cancellation**: looked for before each attempt, and by each wait. After the commit nothing is
//! undone.
#![allow(unsafe_code)] // `Source` is an unsafe trait, and variables are reached by address.

use crate::commit::tell;
use crate::log::{Log, Read};
use crate::open;
use crate::snapshot::Snapshot;
use crate::stop::{Stop, Why};
use crate::turn::{At, Turn};
use crate::tx::Tx;
use crate::var::release;
use crate::version::{Head, LOCKED, Version, WAITERS, pause};
use segue_core::{
    Cancelled, Guard, Node, Operation, Retreat, Source, Trigger, Waiting, WaitsFor, check, is_cancelled, no_suspend,
    random,
};
use std::cell::Cell;
use std::panic::Location;
use std::ptr::{self, NonNull};

/// The error of a transaction inside of a body that is to stop.
#[cold]
pub(crate) fn stopped() -> Cancelled {
    Cancelled::with_reason("the transaction around this one begins again")
}

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
    turn: Option<Turn>,
    waits: Waits,
    at: &'static Location<'static>,
}

/// The object of a wait.
enum Waits {
    /// Nothing: it has not looked, or was cancelled.
    No,
    /// A change of one of these, in the order of their addresses.
    Change(Vec<Watched>),
    Line(At),
}

/// A variable that was read, with a handle, and the number of the version.
struct Watched {
    head: NonNull<Head>,
    number: u64,
}

// SAFETY: a variable is shared by all threads, and its values are `Send` and `Sync`.
unsafe impl Send for Watched {}

impl Drop for Watched {
    fn drop(&mut self) {
        release(self.head);
    }
}

impl Watched {
    fn head(&self) -> &Head {
        // SAFETY: the handle keeps the variable.
        unsafe { self.head.as_ref() }
    }

    fn waiting(&self, at: &'static Location<'static>) -> Waiting<'_, Changed<'_>, (), ()> {
        let changed = Changed(self);
        self.head().waiters.operation(WaitsFor { what: "a change that a transaction waits for", at }, changed)
    }
}

/// Waits for a version after the one that was read.
struct Changed<'a>(&'a Watched);

impl Operation<(), ()> for Changed<'_> {
    type Output = ();

    fn attempt(&mut self, _queue: &mut Guard<'_, (), ()>) -> Option<()> {
        // A transaction looks at all that it has read, in another attempt.
        None
    }

    /// Called within a snapshot, that of `register`.
    fn is_ready(&mut self, _queue: &mut Guard<'_, (), ()>) -> bool {
        let head = self.0.head();
        // The flag first, then the comparison: see `commit.rs`.
        let mut word = head.set(WAITERS);
        if word.has(LOCKED) {
            word = head.load_unlocked();
        }
        // SAFETY: the snapshot has begun before, and the word was not locked.
        unsafe { Version::number(word.version()) != self.0.number }
    }

    fn commit(&mut self, _slot: Option<()>) -> Option<()> {
        None
    }

    fn give_back(&mut self, _slot: Option<()>, _queue: &mut Guard<'_, (), ()>) -> Option<()> {
        // All that wait for this variable were told.
        None
    }
}

/// The end of an attempt.
enum End<R> {
    Done(R),
    Again,
    Wait(Waits),
    Failed(Cancelled),
}

thread_local! {
    /// The log of the last attempt.
    static LOG: Cell<Option<Box<Log>>> = const { Cell::new(None) };
}

/// How many entries a log keeps room for between attempts.
const KEPT: usize = 4096;

/// An attempt, whose drop leaves nothing behind but the commit.
struct Attempt {
    /// `None` in the drop.
    tx: Option<Tx<'static>>,
    number: Option<u64>,
}

impl Attempt {
    fn begin(turn: Option<&Turn>, writes: bool) -> Self {
        let log = LOG.try_with(Cell::take).ok().flatten().unwrap_or_default();
        Self { tx: Some(Tx::begin(log, turn, writes)), number: None }
    }

    fn tx(&self) -> &Tx<'static> {
        self.tx.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(tx) = self.tx.take() else { return };
        tx.let_go();
        // The snapshot ends here.
        let mut log = tx.into_log();
        // SAFETY: the attempt has ended, and the number is that of its commit.
        unsafe { log.retire(self.number) };
        if log.capacity() <= KEPT {
            let _ = LOG.try_with(|kept| kept.set(Some(log)));
        }
    }
}

impl<F> Attempts<F> {
    #[track_caller]
    pub(crate) fn new(body: F, used_as: Use) -> Self {
        let at = Location::caller();
        Self { body, used_as, conflicts: 0, writes: false, turn: None, waits: Waits::No, at }
    }

    fn attempt_once<R>(&mut self) -> End<R>
    where
        F: for<'t> Fn(&Tx<'t>) -> Result<R, Stop>,
    {
        let mut attempt = Attempt::begin(self.turn.as_ref(), self.writes);
        let tx = attempt.tx();
        let run = || {
            let value = tx.ended(open::during(tx, || (self.body)(tx)))?;
            Ok((value, tx.commit()?))
        };
        match no_suspend(run) {
            Ok((value, committed)) => {
                attempt.number = committed.number;
                drop(attempt);
                self.turn = None;
                tell(committed.told);
                End::Done(value)
            }
            Err(Why::Retry) if tx.is_past() => End::Again,
            Err(Why::Retry) => {
                let watched = watch(tx);
                drop(attempt);
                self.turn = None;
                self.conflicts = 0;
                if watched.is_empty() {
                    return End::Failed(Cancelled::with_reason(
                        "a transaction retries and has read no variable that anybody could change",
                    ));
                }
                End::Wait(Waits::Change(watched))
            }
            Err(Why::Conflict) => {
                self.writes |= tx.is_past();
                self.conflicts += 1;
                End::Again
            }
            Err(Why::Held) => End::Wait(Waits::Line(At::End)),
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

    /// The nodes of a registration, each with its wait.
    fn each_change(&self, slot: &mut Nodes, mut f: impl FnMut(&Watched, &mut Node<()>)) {
        if let Waits::Change(watched) = &self.waits {
            watched.iter().zip(slot.0.iter_mut()).for_each(|(watched, node)| f(watched, node));
        }
    }
}

/// The variables that an attempt has read, each once.
fn watch(tx: &Tx<'_>) -> Vec<Watched> {
    let mut log = tx.log().borrow_mut();
    log.reads.sort_unstable_by_key(|read| read.head);
    log.reads.dedup_by_key(|read| read.head);
    let watched = |read: &Read| {
        // SAFETY: variables and versions of the log are in memory.
        let (head, number) = unsafe { (read.head.as_ref(), Version::number(read.version)) };
        // Without a handle elsewhere nobody can write.
        head.try_share().then_some(Watched { head: read.head, number })
    };
    log.reads.iter().filter_map(watched).collect()
}

/// The nodes of a wait. They stay in place, since others reach them.
#[derive(Default)]
pub(crate) struct Nodes(Vec<Node<()>>);

// SAFETY: others reach the nodes in the queues, from their registration until they have left, or
// until the resume that is owed for a claim; each step is that of a `Waiting`, whose source keeps
// the contract. Several queues have nodes with the same arm: after a claim through one of these all
// leave, by `leave`, which allows for that. The nodes are in a box, and the variables have handles,
// both from the look in vain to the next look. The body and the drops of values are foreign code,
// and run in `attempt`, where nothing is registered, or behind `no_suspend`, which contains their
// panics where one is.
unsafe impl<R, F> Source for Attempts<F>
where
    F: for<'t> Fn(&Tx<'t>) -> Result<R, Stop>,
{
    type Output = Result<R, Cancelled>;
    type Slot = Nodes;

    fn waits_for(&self) -> WaitsFor {
        match self.waits {
            Waits::Line(_) => WaitsFor { what: "its turn among transactions", at: self.at },
            _ => WaitsFor { what: "a change that a transaction waits for", at: self.at },
        }
    }

    fn address(&self, least: usize) -> Option<usize> {
        match &self.waits {
            Waits::No => None,
            Waits::Change(watched) => {
                let addresses = watched.iter().map(|watched| ptr::from_ref(&watched.head().waiters).addr());
                addresses.filter(|address| *address >= least).min()
            }
            Waits::Line(at) => at.waiting(self.at).address(least),
        }
    }

    fn attempt(&mut self) -> Option<Self::Output> {
        if let Some(result) = open::with_outer(|outer| {
            (self.body)(outer).map_err(|stop| {
                let _ = outer.stop(stop.0);
                stopped()
            })
        }) {
            return Some(result);
        }
        self.waits = Waits::No;
        loop {
            if self.conflicts >= TURN && self.turn.is_none() {
                self.turn = Turn::try_take();
                if self.turn.is_none() {
                    self.waits = Waits::Line(At::Ask);
                    return None;
                }
            }
            match self.attempt_once() {
                End::Done(value) => return Some(Ok(value)),
                End::Again => {
                    self.stand_back();
                    if let Err(cancelled) = check() {
                        return self.failed(cancelled);
                    }
                }
                End::Wait(waits) => {
                    self.waits = waits;
                    return None;
                }
                End::Failed(cancelled) => return self.failed(cancelled),
            }
        }
    }

    unsafe fn prepare(&mut self, slot: &mut Nodes) {
        let count = match &self.waits {
            Waits::No => 0,
            Waits::Change(watched) => watched.len(),
            Waits::Line(_) => 1,
        };
        slot.0.resize_with(count, Node::default);
    }

    unsafe fn register(&mut self, slot: &mut Nodes, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        match &self.waits {
            Waits::No => Ok(()),
            Waits::Change(watched) => {
                let _snapshot = Snapshot::begin();
                for (watched, node) in watched.iter().zip(slot.0.iter_mut()) {
                    // SAFETY: as the caller promises.
                    unsafe { watched.waiting(self.at).register(node, trigger, arm)? };
                }
                Ok(())
            }
            // SAFETY: as the caller promises.
            Waits::Line(at) => unsafe { at.waiting(self.at).register(&mut slot.0[0], trigger, arm) },
        }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Nodes,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        match &self.waits {
            Waits::No => Ok(()),
            Waits::Change(watched) => {
                let _snapshot = Snapshot::begin();
                for (watched, node) in watched.iter().zip(slot.0.iter_mut()) {
                    // SAFETY: as the caller promises.
                    unsafe { watched.waiting(self.at).register_at(address, node, trigger, arm)? };
                }
                Ok(())
            }
            // SAFETY: as the caller promises.
            Waits::Line(at) => unsafe { at.waiting(self.at).register_at(address, &mut slot.0[0], trigger, arm) },
        }
    }

    unsafe fn withdraw(&mut self, slot: &mut Nodes) {
        self.each_change(slot, |watched, node| {
            // SAFETY: as the caller promises.
            unsafe { watched.waiting(self.at).withdraw(node) };
        });
        if let (Waits::Line(at), [node]) = (&self.waits, slot.0.as_mut_slice()) {
            // SAFETY: as the caller promises.
            unsafe { at.waiting(self.at).withdraw(node) };
        }
    }

    unsafe fn commit(&mut self, slot: &mut Nodes, arm: usize) -> Option<Self::Output> {
        self.each_change(slot, |watched, node| {
            // SAFETY: the resume has come, as the caller promises.
            unsafe { watched.waiting(self.at).leave(node) };
        });
        if let (Waits::Line(at), [node]) = (&self.waits, slot.0.as_mut_slice()) {
            // SAFETY: as the caller promises: the line has this one node.
            let _: Option<()> = unsafe { at.waiting(self.at).commit(node, arm) };
            self.turn = at.served();
        }
        None
    }

    unsafe fn give_back(&mut self, slot: &mut Nodes, arm: usize) {
        self.each_change(slot, |watched, node| {
            // SAFETY: the resume has come, as the caller promises. All waiters of a variable are
            // told, so the others have no need of this notification.
            unsafe { watched.waiting(self.at).leave(node) };
        });
        if let (Waits::Line(at), [node]) = (&self.waits, slot.0.as_mut_slice()) {
            // SAFETY: as the caller promises.
            unsafe { at.waiting(self.at).give_back(node, arm) };
        }
    }
}

impl<F> Attempts<F> {
    /// A choice whose caller was cancelled ends by that, and not by an output.
    #[cold]
    fn failed<R>(&mut self, cancelled: Cancelled) -> Option<Result<R, Cancelled>> {
        (self.used_as == Use::Call || !is_cancelled()).then_some(Err(cancelled))
    }
}
