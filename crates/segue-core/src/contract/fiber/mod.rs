//! The header of a fiber: its scheduler, the wait that it is in, and slots for the rooms above.
//!
//! Used by every scheduler, which embeds a [`Fiber`] in whatever it switches, and by triggers. The
//! header knows nothing of stacks: a plain thread that waits gets a header for the length of the
//! wait. `identity.rs` says which fiber it is, `waits_for.rs` what reports say of the wait;
//! `contract/slots.rs` has the slots.
//!
//! The fields fall in two groups. `id` and `name` are fixed before the fiber runs; `host` and
//! `scheduler` are, too, with one exception: a fiber that moves to another scheduler of its thread
//! changes them. The fiber does so while it runs and is a member of no context, so that no other
//! thread looks. The cells are touched only by the thread that the fiber runs on, except `links`,
//! which belong to the lock of the context in `member_of`.
#![allow(unsafe_code)] // Headers are reached by address, also from other threads.

mod identity;
mod waits_for;

pub use waits_for::WaitsFor;

use crate::contract::current;
use crate::contract::job::{Identity, Job, Name};
use crate::contract::scheduler::{Scheduler, Wake};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::contract::trigger::{REFUSED, Trigger};
use crate::primitives::atomic::{AtomicPtr, Ordering};
use crate::primitives::list::Links;
use crate::primitives::record::Record;
use std::cell::{Cell, OnceCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// How many operations that need not wait a fiber may begin in one turn.
pub(crate) const OPERATIONS: u8 = 128;

/// The header of something that runs and can wait.
///
/// What a waker on another thread reads comes first: it is hardly ever written, so that the waker
/// finds it in its own cache. Then what each turn of the fiber writes; last what is seldom touched.
#[repr(C)]
pub struct Fiber {
    scheduler: Cell<NonNull<dyn Scheduler>>,
    /// The context that its wait can be cancelled by, null if none can; or [`REFUSED`]. See
    /// `trigger/refusal.rs`.
    pub(super) waits_in: AtomicPtr<ContextHead>,
    context: Cell<*const ContextHead>,
    pub(crate) member_of: Cell<*const ContextHead>,
    host: Cell<*const ()>,
    family: FamilyId,

    pub(crate) draws: Cell<u32>,
    /// How many operations the fiber may still begin in this turn.
    pub(crate) budget: Cell<u8>,
    /// Whether the trigger is waited for again if this wait is cancelled.
    retreats: Cell<bool>,
    pub(crate) kernel_waits: Cell<u8>,
    pub(crate) unblocked: Cell<bool>,
    waits_for: waits_for::Told,
    trigger: Cell<*const Trigger>,
    pub(crate) task: Cell<*const ()>,

    id: u64,
    /// See [`mark`](Fiber::mark).
    mark: Cell<u64>,
    name: Option<Box<Name>>,
    // Apart from the name: else both are copied as one, which waits for the spawner's writes.
    pub(crate) links: Links<Fiber>,
    pub(crate) attributes: OnceCell<Arc<Record>>,
    /// Before the fiber runs, its job.
    pub(crate) locals: Cell<*mut ()>,
}

// With one word of a scheduler's before it, a line for wakers, and one for the fiber's turns.
#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(std::mem::offset_of!(Fiber, draws) == 56 && std::mem::offset_of!(Fiber, id) <= 120);

/// How a wait ended in which a fiber was suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The claimer of the trigger has resumed it.
    Resumed,
    /// The claimer has resumed it as well, but found the wait cancelled.
    Refused,
    /// An interrupt has cancelled it. The trigger may be gone.
    Withdrawn,
}

impl Fiber {
    /// The header for a fiber that will run `job` under `scheduler`.
    ///
    /// `id` is the scheduler's choice; reports print it for fibers without a name.
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

    /// What its scheduler [set](Fiber::set_host): null until then.
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

    /// The scheduler that it belongs to.
    #[inline]
    pub fn scheduler(&self) -> &dyn Scheduler {
        // SAFETY: `new`'s caller keeps the scheduler alive as long as the header.
        unsafe { self.scheduler.get().as_ref() }
    }

    /// Makes it a fiber of another scheduler on the same thread.
    ///
    /// # Safety
    /// For the two schedulers, by the running fiber, which is a member of no context. `scheduler`
    /// outlives the header, or the fiber moves on before that scheduler ends.
    pub(crate) unsafe fn move_to(&self, scheduler: NonNull<dyn Scheduler>) {
        self.scheduler.set(scheduler);
    }

    /// Suspends it, in this very frame if its scheduler leaves that to the caller.
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
    /// makes it ready, as for a resume.
    #[must_use]
    #[inline]
    pub fn interrupted(&self) -> bool {
        // SAFETY: the trigger is set while its frame waits, by this thread.
        match unsafe { self.trigger.get().as_ref() } {
            Some(trigger) if self.is_cancelled() && self.leaves(trigger) => {
                // The other side that shares the trigger may free it from now on, before this fiber
                // has run again.
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

    /// Says what the fiber, which is registered for it, is about to wait for.
    #[inline]
    pub(crate) fn begin_wait(&self, trigger: &Trigger, waits_for: WaitsFor) {
        self.trigger.set(trigger);
        self.waits_for.set(Some(waits_for));
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
    /// Its turn is over: a new one begins, with as many operations that need not wait.
    #[inline]
    pub(crate) fn refill(&self) {
        self.budget.set(OPERATIONS);
    }

    /// Whether to switch stacks now would carry this thread's panic count into another fiber, or
    /// would use up the resume of a wait that is being registered. For schedulers with ways to
    /// suspend of their own, about the running fiber.
    #[must_use]
    #[inline]
    pub fn must_not_suspend(&self) -> bool {
        (std::thread::panicking() || self.waits_for.get().is_some()) && !self.stands_for_thread()
    }

    /// Whether this header, the caller's, stands for a plain thread: such a header is never in the
    /// current slot.
    #[inline]
    fn stands_for_thread(&self) -> bool {
        !ptr::eq(current::current(), self)
    }

    /// Says that the fiber registers itself for a wait, if it is `Some`, and gives back what was. A
    /// registered fiber may be resumed at any time, and that resume must not end another wait, one
    /// that foreign code begins in the middle of the registration.
    #[inline]
    pub(crate) fn register_for(&self, waits_for: Option<WaitsFor>) -> Option<WaitsFor> {
        self.waits_for.replace(waits_for)
    }
}

/// The slots of the tree and of families.
impl Fiber {
    #[inline]
    pub(crate) fn family(&self) -> FamilyId {
        self.family
    }

    #[inline]
    pub(crate) fn context(&self) -> *const ContextHead {
        self.context.get()
    }

    /// Makes `context` the innermost one and returns the one before.
    ///
    /// # Safety
    /// The context is null, or in place until the fiber has entered another one.
    #[inline]
    pub(crate) unsafe fn enter_context(&self, context: *const ContextHead) -> *const ContextHead {
        // One that has ended may have lain there, and `expose` would keep the pointer to that.
        if !context.is_null() && ptr::eq(self.waits_in.load(Ordering::Relaxed), context) {
            self.renew_waits_in(context.cast_mut());
        }
        self.context.replace(context)
    }

    #[cold]
    fn renew_waits_in(&self, context: *mut ContextHead) {
        if self.waits_for.get().is_none() {
            self.waits_in.store(context, Ordering::Relaxed);
        } else {
            // In the middle of a registration a claimer may write it as well, and that stays.
            let _ = self.waits_in.compare_exchange(context, context, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the context that the fiber is in was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: a fiber is in a context only while that is alive.
        unsafe { self.context.get().as_ref() }.is_some_and(ContextHead::is_cancelled)
    }
}
