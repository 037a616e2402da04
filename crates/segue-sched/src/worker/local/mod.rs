//! [`Local`]: a worker's own state, which its thread alone touches.
//!
//! Used by the worker loop, which owns the state, and through the contract by every fiber of the
//! worker: [`contract`] has the functions that fibers call, [`ready`] how they become ready,
//! [`turn`] how they run, and [`passing`] how a fiber passes its turn on.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

mod contract;
mod passing;
mod ready;
mod turn;

use crate::worker::common::{Common, with_caller, worker};
use crate::worker::group::Group;
use crate::worker::header::Header;
use crate::worker::hooks::Hooks;
use crate::worker::policy::{Idle, Policy, Seat};
use segue_core::scheduling::{Job, Timers};
use segue_fiber::StackPool;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A worker's own state.
#[repr(C)] // The common part comes first, so that its address is the worker's.
pub(crate) struct Local<P> {
    pub(crate) common: Common,
    policy: RefCell<P>,
    /// Whether closures from outside go to the policy.
    pub(crate) takes_arrivals: bool,
    /// How many started fibers the policy has.
    held: Cell<usize>,
    /// Whether the policy may have a closure to spare: not from when the policy gave none until one
    /// is pushed, or the worker looks around.
    pub(crate) may_spare: Cell<bool>,
    pub(crate) timers: Timers,
    stacks: RefCell<StackPool>,
    /// Whether a closure found no stack: then this worker starts no other closure before it got a
    /// stack back, or has slept.
    starved: Cell<bool>,
    /// The number of the next fiber: the worker's own, and a count in the lower bits.
    started: Cell<u64>,
    /// The fiber that runs, from the loop's switch to a fiber until the switch back.
    runs: Cell<NonNull<Header>>,
    /// A closure that the policy has given out to a fiber that passes its turn on: the loop starts
    /// that.
    next: Cell<Option<Job>>,
    /// Whether fibers may pass their turns on: not in a guest, where the policy is called in the
    /// outer fiber, and not while a closure waits in `next`.
    passes_on: Cell<bool>,
    /// The hooks that are called around its sleeps.
    pub(crate) hooks: Hooks,
}

impl<P: Policy> Local<P> {
    pub(crate) fn new(group: Arc<Group>, index: usize, mut policy: P, timers: Timers, stacks: StackPool) -> Self {
        policy.seated(Seat::new(index, Arc::clone(&group)));
        if P::simulates() {
            segue_core::scheduling::set_preemption(preempt);
        }
        Self {
            takes_arrivals: policy.takes_arrivals(),
            held: Cell::new(0),
            may_spare: Cell::new(false),
            common: Common::new(group, index),
            policy: RefCell::new(policy),
            timers,
            stacks: RefCell::new(stacks),
            starved: Cell::new(false),
            started: Cell::new(first_number()),
            runs: Cell::new(NonNull::dangling()),
            next: Cell::new(None),
            passes_on: Cell::new(false),
            hooks: Hooks::default(),
        }
    }

    /// Whether the caller runs on this worker's thread, under this worker.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        ptr::eq(worker(), &self.common)
    }

    /// Whether a started fiber is ready.
    pub(crate) fn holds_any(&self) -> bool {
        self.held.get() != 0
    }

    /// Asks the policy how the worker is to idle while there is nothing to run.
    #[cold]
    pub(crate) fn policy_idles(&self) -> Idle {
        let idle = self.policy.borrow_mut().idle();
        let held = self.held.get();
        assert!(
            idle != Idle::Sleep || held == 0,
            "the policy {} has {held} fibers that are ready, gives none out and would sleep: it forgot them, or should answer `Idle::Hold`",
            std::any::type_name::<P>(),
        );
        idle
    }

    /// So many turns take as long as [`Policy::paced`] says.
    pub(crate) fn policy_paced(&self, turns: u32) {
        self.policy.borrow_mut().paced(turns);
    }
}

/// How many bits of a fiber's number are a count.
const COUNT: u32 = 40;

/// The number of a new worker's first fiber, which no other fiber of the process has: not before
/// eight million workers have begun.
fn first_number() -> u64 {
    static WORKERS: AtomicU64 = AtomicU64::new(0);
    const MOST: u64 = (1 << (63 - COUNT)) - 1;
    (WORKERS.fetch_add(1, Relaxed) % MOST + 1) << COUNT
}

/// Called at each [preemption point](segue_core::preemption_point) of a simulation: the policy may
/// take the turn away from the running fiber.
fn preempt() {
    with_caller(|caller| {
        if let Some((common, fiber)) = caller
            && common.whole().preempts()
        {
            // SAFETY: this is the calling fiber, and the scheduler its own (14).
            if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
                // SAFETY: at once.
                unsafe { switch.make() };
            }
        }
    });
}
