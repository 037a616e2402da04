//! The wait of a transaction between two attempts: a source that tells, and has no value.
//!
//! Used by `attempts.rs`, which looks again afterwards.
//!
//! A wait for a change stands in the queue of each variable that was read, under one arm. To join a
//! queue the waiter sets WAITERS in the variable's word, under the lock of the queue, and then
//! compares the version; `commit.rs` has the other side. All waiters of a variable are told by the
//! commit that changes the variable, and each looks again: so a waiter that was told and does not
//! look need not pass that on.
//!
//! A claim through one queue says nothing of the others. So a waiter leaves all of them, the one
//! that has claimed included, by [`Waiting::leave`].
#![allow(unsafe_code)] // `Source` is an unsafe trait, and variables are reached by address.

use crate::log::{Log, Read};
use crate::snapshot::Snapshot;
use crate::turn::Free;
use crate::var::release;
use crate::version::{Head, LOCKED, Version, WAITERS};
use segue_core::{Guard, Node, Operation, Retreat, Source, Trigger, Waiting, WaitsFor};
use std::panic::Location;
use std::ptr::{self, NonNull};

/// A wait of the transaction that was called at this place.
pub(crate) struct Wait {
    pub(crate) to: To,
    pub(crate) at: &'static Location<'static>,
}

/// The object of a wait.
pub(crate) enum To {
    /// Nothing: the transaction has not looked, or was cancelled.
    No,
    /// See a change of one of these, in the order of their addresses.
    Change(Vec<Watched>),
    /// See that the turn is free.
    Turn(Waiting<'static, Free, bool, ()>),
}

/// A variable that was read, with a handle, and the number of the version.
pub(crate) struct Watched {
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
    /// The variables that an attempt has read, each once.
    ///
    /// # Safety
    /// The attempt of the log is under way.
    pub(crate) unsafe fn all(log: &mut Log) -> Vec<Self> {
        log.reads.sort_unstable_by_key(|read| read.head);
        log.reads.dedup_by_key(|read| read.head);
        let watched = |read: &Read| {
            // SAFETY: variables and versions of the log are in memory during the attempt.
            let (head, number) = unsafe { (read.head.as_ref(), Version::number(read.version)) };
            // Without a handle elsewhere nobody can write.
            head.try_share().then_some(Self { head: read.head, number })
        };
        log.reads.iter().filter_map(watched).collect()
    }

    fn head(&self) -> &Head {
        // SAFETY: the handle keeps the variable.
        unsafe { self.head.as_ref() }
    }

    /// The address of its queue.
    fn address(&self) -> usize {
        ptr::from_ref(&self.head().waiters).addr()
    }

    /// The index of the first queue that is not before this address.
    fn place(all: &[Self], least: usize) -> usize {
        all.partition_point(|watched| watched.address() < least)
    }

    fn waiting(&self, at: &'static Location<'static>) -> Waiting<'_, Changed<'_>, (), ()> {
        self.head().waiters.operation(WaitsFor { what: CHANGE, at }, Changed(self))
    }
}

const CHANGE: &str = "a change that a transaction waits for";

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

/// The nodes of a wait. They stay in place, since others reach them.
pub(crate) type Slots = Vec<Node<()>>;

/// Calls `$f` on the source and the slot of each part of a wait.
macro_rules! each {
    ($wait:ident, $slot:ident, |$source:ident, $node:ident| $f:expr) => {
        match &mut $wait.to {
            To::No => {}
            To::Change(watched) => {
                for (watched, $node) in watched.iter().zip(&mut *$slot) {
                    let mut $source = watched.waiting($wait.at);
                    $f;
                }
            }
            To::Turn($source) => {
                for $node in &mut *$slot {
                    $f;
                }
            }
        }
    };
}

/// Leaves the queues of all variables.
///
/// # Safety
/// The trigger was taken through one of the nodes, and the resume that is owed for that has come.
unsafe fn leave(watched: &[Watched], slot: &mut [Node<()>], at: &'static Location<'static>) {
    for (watched, node) in watched.iter().zip(slot) {
        // SAFETY: as the caller promises of this source and its slot.
        unsafe { watched.waiting(at).leave(node) };
    }
}

// SAFETY: others reach the nodes in the queues, from their registration until they have left, or
// until the resume that is owed for a claim; each step is that of a source that keeps the contract,
// on its own part of the slot. Those of a change have one arm for several queues: after a claim
// through one of these all leave, by `leave`, which allows for that. The nodes are in a box, and
// the variables have handles, from the look in vain to the next look, which makes another wait. The
// end of the snapshot of a registration may free values, and their drops are foreign code: behind
// `no_suspend`, and their panics go no further.
unsafe impl Source for Wait {
    type Output = ();
    type Slot = Slots;

    fn waits_for(&self) -> WaitsFor {
        match &self.to {
            To::Turn(source) => source.waits_for(),
            _ => WaitsFor { what: CHANGE, at: self.at },
        }
    }

    fn address(&self, least: usize) -> Option<usize> {
        match &self.to {
            To::No => None,
            To::Change(watched) => watched.get(Watched::place(watched, least)).map(Watched::address),
            To::Turn(source) => source.address(least),
        }
    }

    /// For a change the transaction looks itself, in an attempt.
    fn attempt(&mut self) -> Option<()> {
        match &mut self.to {
            To::No | To::Change(_) => None,
            To::Turn(source) => source.attempt(),
        }
    }

    unsafe fn prepare(&mut self, slot: &mut Slots) {
        let nodes = match &mut self.to {
            To::No => 0,
            To::Change(watched) => watched.len(),
            To::Turn(_) => 1,
        };
        slot.resize_with(nodes, Node::default);
    }

    unsafe fn register(&mut self, slot: &mut Slots, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        let _snapshot = matches!(self.to, To::Change(_)).then(Snapshot::begin);
        // SAFETY: as the caller promises of this source and its slot.
        each!(self, slot, |source, node| unsafe { source.register(node, trigger, arm)? });
        Ok(())
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Slots,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        if let To::Change(watched) = &self.to {
            let _snapshot = Snapshot::begin();
            let place = Watched::place(watched, address);
            let (Some(watched), Some(node)) = (watched.get(place), slot.get_mut(place)) else { return Ok(()) };
            // SAFETY: as the caller promises of this source and its slot.
            return unsafe { watched.waiting(self.at).register_at(address, node, trigger, arm) };
        }
        // SAFETY: as the caller promises of this source and its slot.
        each!(self, slot, |source, node| unsafe { source.register_at(address, node, trigger, arm)? });
        Ok(())
    }

    unsafe fn withdraw(&mut self, slot: &mut Slots) {
        // SAFETY: as the caller promises of this source and its slot.
        each!(self, slot, |source, node| unsafe { source.withdraw(node) });
    }

    unsafe fn commit(&mut self, slot: &mut Slots, arm: usize) -> Option<()> {
        match &mut self.to {
            To::No => None,
            // SAFETY: as the caller promises of this source and its slot.
            To::Change(watched) => unsafe {
                leave(watched, slot, self.at);
                Some(())
            },
            // SAFETY: as the caller promises: the wait has this one node.
            To::Turn(source) => unsafe { source.commit(&mut slot[0], arm) },
        }
    }

    unsafe fn give_back(&mut self, slot: &mut Slots, arm: usize) {
        match &mut self.to {
            To::No => {}
            // SAFETY: as the caller promises of this source and its slot. All waiters of a variable
            // are told, so nobody else has need of this notification.
            To::Change(watched) => unsafe { leave(watched, slot, self.at) },
            // SAFETY: as the caller promises: the wait has this one node.
            To::Turn(source) => unsafe { source.give_back(&mut slot[0], arm) },
        }
    }
}
