//! A part of the state of a worker's fibers, copied into room that was made before.
//!
//! Taken by the worker between two turns, or in a signal handler of its thread; read by dumps.
//!
//! # The parts that are read, and why they are in place
//!
//! * The [roll](Roll), which can be read at any instruction of its thread.
//! * Of each fiber the header, which is fixed but for the fields of its wait and of its job, and
//!   stays until the fiber was struck off. The job is forgotten before somebody may free that
//!   (`tree/reports.rs` of `segue-core`).
//! * Of a fiber that *rests*, its wait. The waiter writes the record of its wait before it switches
//!   away, and takes that back after it was switched to. So the record is whole, and in place,
//!   while the fiber rests; and so is the thing that the fiber waits for, which the waiter borrows.
//! * Its stacks, from its stack pointer on. They are copied, to be unwound later.
//!
//! Of a fiber that *runs* nothing of this is read: neither of the fiber at work when the thread was
//! interrupted, nor of those that have resumed that one (`Interrupted::runs_in`). The answer goes
//! by stack pointers, and not by a record of the worker's, which could be late: in the middle of a
//! switch the thread is on one of the two stacks, and the other side rests.
//!
//! # In the signal handler
//!
//! Nothing is allocated, since the thread may be in `malloc`; no lock is taken. The room has an
//! end; a dump asks again for the rest, from the `cursor` down. Fibers that end meanwhile move the
//! last of the roll into their places: so one may be met twice, and is told by its number, but none
//! is passed over. Fibers that begin meanwhile stand above the cursor, and are not met.
#![allow(unsafe_code)] // Fibers are reached by the addresses of their headers.

use crate::worker::header::Coroutine;
use crate::worker::roll::Roll;
use segue_core::WaitsOn;
use segue_fiber::{Copied, StackCopies};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::time::Instant;

/// How many fibers one snapshot has room for.
const MOST: usize = 4096;

/// Of its stacks so many bytes.
const BYTES: usize = 8 << 20;

/// Of a name so many bytes.
const NAME: usize = 96;

/// The part of a worker that snapshots are taken of.
pub(crate) struct Residence {
    pub(crate) living: Roll,
    /// The coarse time, in units of the worker's.
    pub(crate) time: Cell<u32>,
    /// When that began.
    pub(crate) began: Cell<Option<Instant>>,
}

/// The state of a fiber in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Is {
    /// On its thread, or beneath a fiber that is.
    Running,
    /// Suspended.
    Resting,
    /// Suspended, with a letter under way that resumes it.
    Called,
}

/// A line of code, if one is known.
pub(crate) type Site = Option<&'static Location<'static>>;

/// One fiber.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    pub(crate) id: u64,
    name: [u8; NAME],
    name_len: usize,
    pub(crate) is: Is,
    /// The address of its job, where that was spawned, and the address of its family.
    pub(crate) job: Option<(usize, Site, usize)>,
    pub(crate) waits_on: Option<WaitsOn>,
    pub(crate) owner: Option<(u64, Site)>,
    pub(crate) since: u32,
    pub(crate) waits: u32,
    pub(crate) network: bool,
    pub(crate) stack: Option<Copied>,
}

impl Seen {
    /// The name, and whether there is more of it.
    pub(crate) fn name(&self) -> Option<(String, bool)> {
        let name = self.name.get(..self.name_len.min(NAME))?;
        (!name.is_empty()).then(|| (String::from_utf8_lossy(name).into_owned(), self.name_len > NAME))
    }
}

/// Room for fibers, and those that are there.
pub(crate) struct Snapshot {
    pub(crate) fibers: Vec<Seen>,
    pub(crate) copies: StackCopies,
    with_stacks: bool,
    /// The next fibers stand below this place of the roll.
    cursor: usize,
    /// The worker's coarse time, and when that began.
    pub(crate) time: u32,
    pub(crate) began: Option<Instant>,
}

// SAFETY: the addresses in waits are compared and printed, and not followed any more.
unsafe impl Send for Snapshot {}

impl Snapshot {
    /// For all fibers, with their stacks or without.
    pub(crate) fn new(with_stacks: bool) -> Box<Self> {
        let (stacks, bytes) = if with_stacks { (2 * MOST, BYTES) } else { (0, 0) };
        Box::new(Self {
            fibers: Vec::with_capacity(MOST),
            copies: StackCopies::new(stacks, bytes),
            with_stacks,
            cursor: usize::MAX,
            time: 0,
            began: None,
        })
    }

    /// Makes room for those that are left.
    pub(crate) fn go_on(&mut self) {
        self.fibers.clear();
        self.copies.clear();
    }

    /// How far it has come.
    pub(crate) fn position(&self) -> (usize, usize) {
        (self.cursor, self.fibers.len())
    }

    /// Whether all have been seen.
    pub(crate) fn is_complete(&self) -> bool {
        self.cursor == 0
    }

    /// Copies fibers of the worker until there are no more, or no more room. Async-signal-safe, if
    /// `runs` is. `runs` says whether a fiber is on its thread; `None` if that is not known: then
    /// nothing is copied.
    ///
    /// For the worker's thread, outside of the worker's fibers, or in a signal handler.
    pub(crate) fn take(&mut self, residence: &Residence, runs: impl Fn(&Coroutine) -> Option<bool>) {
        (self.time, self.began) = (residence.time.get(), residence.began.get());
        let mut at = self.cursor.min(residence.living.len());
        while at > 0 && self.fibers.len() < self.fibers.capacity() {
            let Some(header) = residence.living.get(at - 1) else { break };
            // SAFETY: the living are in place, and a fiber's handle is a pointer to its header. The
            // handle is only looked at.
            let fiber = ManuallyDrop::new(unsafe { Coroutine::from_header(header) });
            let Some(is_running) = runs(&fiber) else { return };
            // One that has returned is about to be struck off.
            if !is_running && fiber.has_returned() {
                at -= 1;
                continue;
            }
            let stack = if is_running || !self.with_stacks { None } else { fiber.copy_stack(&mut self.copies) };
            // A stack for which an empty room is too small is passed over.
            if self.with_stacks && !is_running && stack.is_none() && !self.fibers.is_empty() {
                break;
            }
            self.fibers.push(look(&fiber, is_running, stack));
            at -= 1;
        }
        self.cursor = at;
    }
}

fn look(coroutine: &Coroutine, is_running: bool, stack: Option<Copied>) -> Seen {
    let header = coroutine.header();
    let fiber = &header.fiber;
    let mut name = [0; NAME];
    let full = fiber.name().unwrap_or_default().as_bytes();
    for (to, from) in name.iter_mut().zip(full) {
        *to = *from;
    }
    let waits_on = if is_running { None } else { fiber.glance_at_wait() };
    let (since, waits) = fiber.last_wait();
    let is = match is_running {
        true => Is::Running,
        false if header.letter.is_pending() => Is::Called,
        false => Is::Resting,
    };
    Seen {
        number: fiber.number(),
        id: fiber.id(),
        name,
        name_len: full.len(),
        is,
        // SAFETY: the fiber rests, as it does not run, and has its job, or has forgotten that.
        job: if is_running { None } else { unsafe { fiber.of_job() } },
        waits_on,
        // SAFETY: the fiber waits for the thing, and rests during this call.
        owner: waits_on.and_then(|waits_on| unsafe { waits_on.object.owner() }),
        since,
        waits,
        network: fiber.waits_for_kernel(),
        stack,
    }
}
