//! The header of a fiber: its scheduler, and its present wait.
//!
//! `identity.rs` has number and name, `membership.rs` the contexts, `permission.rs` the right to
//! wait now. Used by every scheduler, which embeds a [`Fiber`] in its own structure, and by
//! triggers. The header knows nothing of stacks: a plain thread that waits gets one for the length
//! of the wait.
//!
//! The fields fall in two groups. `id` and `name` are fixed before the fiber runs; `host` and
//! `scheduler` are, too, with one exception: a fiber that moves to another scheduler of its thread
//! changes them. The fiber does so while running and in no context, so that no other thread looks.
//! The cells are touched only by the thread that the fiber runs on, except `links`, which belong to
//! the lock of the context in `member_of`.
#![allow(unsafe_code)] // Headers are reached by address, also from other threads.

mod identity;
mod membership;
mod permission;
mod waits_for;

pub(crate) use permission::{NO_SUSPEND, OPERATIONS};
pub use waits_for::WaitsFor;

use crate::contract::attributes::Attributes;
use crate::contract::deferred_wakers;
use crate::contract::executor::AsTask;
use crate::contract::job::{Identity, Job, Name};
use crate::contract::locals::Locals;
use crate::contract::scheduler::{Scheduler, Wake};
use crate::contract::tree::context::Context;
use crate::contract::tree::family::Family;
use crate::contract::trigger::{REFUSED, Trigger};
use crate::primitives::atomic::{AtomicPtr, Ordering};
use crate::primitives::list::{Linked, Links};
use std::cell::{Cell, OnceCell};
use std::ptr::{self, NonNull};

/// The header of something that runs and can wait.
///
/// The fields that a waker on another thread reads come first: they are hardly ever written, so
/// that the waker finds them in its own cache. Then the fields that each turn of the fiber writes;
/// last the ones that are seldom touched.
#[repr(C)]
pub struct Fiber {
    scheduler: Cell<NonNull<dyn Scheduler>>,
    /// The context that its wait can be cancelled by, null if none can; or [`REFUSED`]. See
    /// `trigger/refusal.rs`.
    pub(super) waits_in: AtomicPtr<Context>,
    context: Cell<*const Context>,
    member_of: Cell<*const Context>,
    host: Cell<*const ()>,
    family: *const Family,

    /// See [`draws`](Fiber::draws).
    draws: Cell<u32>,
    /// The number of operations that the fiber may still begin in this turn.
    budget: Cell<u8>,
    /// Whether its trigger is waited for again if this wait is cancelled.
    retreats: Cell<bool>,
    /// The number of held [`KernelWait`](crate::drivers::KernelWait)s, in a simulation.
    kernel_waits: Cell<u8>,
    unblocked: Cell<bool>, // See `wait/unblocked.rs`.
    waits_for: waits_for::Told,
    trigger: Cell<*const Trigger>,
    /// Null, except for a task.
    pub(super) task: Cell<*const AsTask>,

    id: u64,
    /// See [`mark`](Fiber::mark).
    mark: Cell<u64>,
    name: Option<Box<Name>>,
    // Apart from the name: else both are copied as one, which waits for the spawner's writes.
    links: Links<Fiber>,
    attributes: OnceCell<Attributes>,
    /// See `locals.rs`; before the run, its job.
    locals: Cell<*mut Locals>,
}

// With one word of a scheduler's in front, a line for wakers, and one for the fiber's turns.
#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(std::mem::offset_of!(Fiber, draws) == 56 && std::mem::offset_of!(Fiber, id) <= 120);

/// How a wait ended in which a fiber was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The claimer of the trigger has resumed the fiber.
    Resumed,
    /// The claimer has resumed the fiber as well, but found the wait cancelled.
    Refused,
    /// An interrupt has cancelled the wait. The trigger may be gone.
    Withdrawn,
}

impl Linked for Fiber {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Fiber {
    /// The header for a fiber that will run `job` under `scheduler`.
    ///
    /// `id` is the scheduler's choice; reports print the number for fibers without a name.
    ///
    /// # Safety
    /// `scheduler` outlives the header.
    #[inline]
    pub unsafe fn for_job(scheduler: NonNull<dyn Scheduler>, id: u64, job: &mut Job) -> Self {
        let identity = job.identity();
        // SAFETY: as the caller promises.
        unsafe { Self::new(scheduler, id, identity) }
    }

    /// # Safety
    /// `scheduler`, `context` and `family` outlive the header, or are null.
    #[inline]
    pub(crate) unsafe fn new(scheduler: NonNull<dyn Scheduler>, id: u64, identity: Identity) -> Self {
        let Identity { name, context, family, attributes } = identity;
        Self {
            scheduler: Cell::new(scheduler),
            host: Cell::new(ptr::null()),
            id,
            name,
            attributes,
            locals: Cell::new(ptr::null_mut()),
            family,
            context: Cell::new(context),
            member_of: Cell::new(ptr::null()),
            links: Links::new(),
            mark: Cell::new(0),
            trigger: Cell::new(ptr::null()),
            waits_in: AtomicPtr::new(ptr::null_mut()),
            waits_for: waits_for::Told::new(None),
            budget: Cell::new(OPERATIONS),
            draws: Cell::new(id as u32),
            kernel_waits: Cell::new(0),
            unblocked: Cell::new(false),
            retreats: Cell::new(false),
            task: Cell::new(ptr::null()),
        }
    }

    /// The pointer that its scheduler has [set](Fiber::set_host): null until then.
    #[inline]
    pub fn host(&self) -> *const () {
        self.host.get()
    }

    /// Keeps a pointer to whatever the scheduler has built around this header.
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs.
    #[inline]
    pub unsafe fn set_host(&self, host: *const ()) {
        self.host.set(host);
    }

    /// The scheduler of this fiber.
    #[inline]
    pub fn scheduler(&self) -> &dyn Scheduler {
        // SAFETY: `new`'s caller keeps the scheduler alive as long as the header.
        unsafe { self.scheduler.get().as_ref() }
    }

    /// Makes this a fiber of another scheduler on the same thread. The fiber leaves its contexts
    /// first, so that nobody wakes the fiber meanwhile, and joins them again at its next wait; an
    /// interrupt may still be under way to its old scheduler.
    ///
    /// # Safety
    /// For the two schedulers, by the running fiber. `scheduler` outlives the header, or the fiber
    /// moves on before its end.
    pub unsafe fn set_scheduler(&self, scheduler: NonNull<dyn Scheduler>) {
        self.leave_context(ptr::null());
        self.scheduler.set(scheduler);
    }

    /// Suspends the fiber, in this very frame if its scheduler leaves that to the caller.
    ///
    /// # Safety
    /// As for [`Scheduler::suspend`].
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self) {
        // SAFETY: as the caller promises.
        if let Some(switch) = unsafe { self.scheduler().suspend(self) } {
            // SAFETY: at once.
            unsafe { switch.make() };
        }
    }

    /// Wakes a fiber through its scheduler.
    ///
    /// # Safety
    /// As for [`Scheduler::wake`].
    #[inline]
    pub(crate) unsafe fn wake(fiber: NonNull<Self>, why: Wake) {
        // SAFETY: the header is in place until the wake is over (clause 4).
        let scheduler = unsafe { fiber.as_ref() }.scheduler.get();
        // SAFETY: the scheduler outlives the header, and the caller has the right that `wake` asks
        // for.
        unsafe { scheduler.as_ref().wake(fiber, why) };
    }

    /// To be called by the scheduler on the fiber's own thread after an interrupt.
    ///
    /// Answers whether the fiber was suspended and its wait is now cancelled: then the scheduler
    /// makes the fiber ready, as for a resume.
    #[must_use]
    #[inline]
    pub fn interrupted(&self) -> bool {
        // SAFETY: the trigger is set while its frame waits, by this thread.
        match unsafe { self.trigger.get().as_ref() } {
            Some(trigger) if self.is_cancelled() && self.leaves(trigger) => {
                // The other side that shares the trigger may free that from now on, before this
                // fiber has run again.
                self.trigger.set(ptr::null());
                true
            }
            _ => false,
        }
    }

    fn leaves(&self, trigger: &Trigger) -> bool {
        if self.retreats.get() { trigger.stand_down(self) } else { trigger.withdraw().is_some() }
    }

    /// Says whether the trigger of the wait that follows is waited for again if that is cancelled.
    #[inline]
    pub(crate) fn retreats(&self, yes: bool) {
        self.retreats.set(yes);
    }

    /// Answers whether the fiber is to suspend. If not, the fiber was cancelled in the last moment.
    #[inline]
    pub(crate) fn begin_wait(&self, trigger: &Trigger, waits_for: WaitsFor) -> bool {
        self.trigger.set(trigger);
        self.waits_for.set(Some(waits_for));
        // The fiber is registered by now: a waker that would wait is refused.
        !deferred_wakers::let_go() || self.join_context_again()
    }

    /// How the wait ended: by a resumer, or by the fiber's own thread, and then the trigger may be
    /// gone.
    #[inline]
    pub(crate) fn end_wait(&self) -> WaitEnd {
        self.refill();
        self.waits_for.set(None);
        if self.trigger.replace(ptr::null()).is_null() {
            WaitEnd::Withdrawn
        } else if self.waits_in.load(Ordering::Relaxed) == REFUSED {
            // The next wait may be for a bell, which nobody refuses.
            self.waits_in.store(ptr::null_mut(), Ordering::Relaxed);
            WaitEnd::Refused
        } else {
            WaitEnd::Resumed
        }
    }
}
