//! The header of a fiber (identity, name, context, what it waits for), and the way to the current
//! one.
//!
//! Used by every scheduler, which embeds a [`Fiber`] in whatever it switches, and by triggers. The
//! header knows nothing of stacks: a plain thread that waits gets one for the length of the wait.
//!
//! The fields fall in two groups. `id` and `name` are fixed before the fiber runs; `host` and
//! `scheduler` are, too, with one exception: a fiber that moves to another scheduler of its thread
//! changes them. It does so while it runs and is a member of no context, so that no other thread
//! looks. The cells are touched only by the thread that the fiber runs on, except `links`, which
//! belong to the lock of the context in `member_of`.
// Headers are reached by address, from the current-fiber slot and from other threads.
#![allow(unsafe_code)]

use crate::contract::attributes::{Attribute, Attributes};
use crate::contract::deferred_wakers;
use crate::contract::job::{Identity, Job, Name};
use crate::contract::scheduler::{Executor, Scheduler, Wake};
use crate::contract::thread;
use crate::contract::tree::cancelled::Cancelled;
use crate::contract::tree::context::Context;
use crate::contract::tree::family::Family;
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::{AtomicPtr, Ordering, local};
use crate::primitives::list::{Linked, Links};
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::ptr::{self, NonNull};

local!(static MARKS: Cell<u64> = Cell::new(0));

/// What a suspended fiber waits for, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsFor {
    /// The kind of thing: "a promise".
    pub what: &'static str,
    /// Where the wait was called.
    pub at: &'static Location<'static>,
}

impl WaitsFor {
    /// A wait for `what`, called from here; in a `#[track_caller]` operation, from where that is.
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn new(what: &'static str) -> Self {
        Self { what, at: Location::caller() }
    }
}

impl std::fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

/// How many operations that need not wait a fiber may begin in one turn.
const OPERATIONS: u8 = 128;

/// What a fiber says in place of what it waits for while it is [not to](crate::no_suspend) wait.
pub(crate) static NO_SUSPEND: &str = "nothing: it must not be suspended";

/// The header of something that runs and can wait.
///
/// What a turn or a waker on another thread touches comes first, on few cache lines.
#[repr(C)]
pub struct Fiber {
    scheduler: Cell<NonNull<dyn Scheduler>>,
    /// The context that its wait can be cancelled by, null if none can; or [`REFUSED`]. See
    /// `trigger.rs`, "What cancel has marked".
    waits_in: AtomicPtr<Context>,
    context: Cell<*const Context>,
    host: Cell<*const ()>,
    /// See [`draws`](Fiber::draws).
    draws: Cell<u32>,
    /// How many operations it may still begin in this turn.
    budget: Cell<u8>,
    /// Whether its trigger is waited for again if this wait is cancelled.
    retreats: Cell<bool>,
    /// Whether a [`KernelWait`](crate::drivers::KernelWait) is held, in a simulation.
    waits_for_kernel: Cell<bool>,
    waits_for: Cell<Option<WaitsFor>>,
    trigger: Cell<*const Trigger>,
    member_of: Cell<*const Context>,
    links: Links<Fiber>,
    /// What runs it, if it is a task.
    executor: Cell<Option<&'static &'static dyn Executor>>,
    family: *const Family,
    id: u64,
    /// See [`mark`](Fiber::mark).
    mark: Cell<u64>,
    name: Option<Box<Name>>,
    attributes: OnceCell<Attributes>,
}

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

/// In place of a context: the wait is over, as its claimer found it cancelled.
const REFUSED: *mut Context = ptr::without_provenance_mut(1);

impl Linked for Fiber {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
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
            family,
            context: Cell::new(context),
            member_of: Cell::new(ptr::null()),
            links: Links::new(),
            mark: Cell::new(0),
            trigger: Cell::new(ptr::null()),
            waits_in: AtomicPtr::new(ptr::null_mut()),
            waits_for: Cell::new(None),
            budget: Cell::new(OPERATIONS),
            draws: Cell::new(id as u32),
            waits_for_kernel: Cell::new(false),
            retreats: Cell::new(false),
            executor: Cell::new(None),
        }
    }

    /// The number that its scheduler gave it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that its spawner gave it.
    #[inline]
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| &***name)
    }

    /// A number that no other fiber of its thread ever has; the address and `id` of one that has
    /// ended come again. Never zero. For the fiber's own thread.
    #[inline]
    pub fn mark(&self) -> u64 {
        if self.mark.get() == 0 {
            self.mark.set(MARKS.with(|marks| {
                marks.set(marks.get() + 1);
                marks.get()
            }));
        }
        self.mark.get()
    }

    /// The value of this type that it carries. For policies, and for the fiber itself.
    #[inline]
    #[must_use]
    pub fn attribute<A: Attribute>(&self) -> Option<A> {
        self.attributes.get()?.get()
    }

    #[inline]
    pub(crate) fn attributes(&self) -> &OnceCell<Attributes> {
        &self.attributes
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

    /// Says that it is a task, of `executor`.
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs. The fiber is one of the executor's.
    pub unsafe fn set_executor(&self, executor: &'static &'static dyn Executor) {
        self.executor.set(Some(executor));
    }

    #[inline]
    pub(crate) fn executor(&self) -> Option<&'static dyn Executor> {
        self.executor.get().copied()
    }

    /// What it waits for, if it is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }

    /// Whether it waits for the kernel, in a simulation, which does not drive it. See
    /// [`kernel_wait`](crate::drivers::kernel_wait).
    pub fn waits_for_kernel(&self) -> bool {
        self.waits_for_kernel.get()
    }

    pub(crate) fn set_waits_for_kernel(&self, yes: bool) {
        self.waits_for_kernel.set(yes);
    }

    /// The scheduler that it belongs to.
    #[inline]
    pub fn scheduler(&self) -> &dyn Scheduler {
        // SAFETY: `new`'s caller keeps the scheduler alive as long as the header.
        unsafe { self.scheduler.get().as_ref() }
    }

    /// Makes it a fiber of another scheduler on the same thread. The fiber leaves its contexts
    /// first, so that nobody wakes it meanwhile, and joins them again at its next wait; an
    /// interrupt may still be under way to its old scheduler.
    ///
    /// # Safety
    /// For the two schedulers, by the running fiber. `scheduler` outlives the header, or the fiber
    /// moves on before it ends.
    pub unsafe fn set_scheduler(&self, scheduler: NonNull<dyn Scheduler>) {
        self.leave_context(ptr::null());
        self.scheduler.set(scheduler);
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

    /// The family that what this fiber detaches belongs to.
    #[must_use]
    #[inline]
    pub fn detaches_to(&self) -> Option<&Family> {
        // SAFETY: a family outlives its fibers.
        unsafe { self.family.as_ref() }
    }

    /// Whether the context that the fiber is in was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: a fiber is in a context only while that is alive.
        unsafe { self.context.get().as_ref() }.is_some_and(Context::is_cancelled)
    }

    /// What a wait of the fiber fails with if it is cancelled.
    #[cold]
    pub(crate) fn cancelled(&self) -> Cancelled {
        // SAFETY: as in `is_cancelled`.
        unsafe { self.context.get().as_ref() }.map_or_else(Cancelled::new, Context::error)
    }

    /// Whether to switch stacks now would carry this thread's panic count into another fiber, or
    /// would use up the resume of a wait that is being registered. For schedulers with ways to
    /// suspend of their own, about the running fiber.
    #[must_use]
    #[inline]
    pub fn must_not_suspend(&self) -> bool {
        (std::thread::panicking() || self.waits_for.get().is_some()) && !thread::is_thread(self)
    }

    /// What a wait fails with that [must not](Fiber::must_not_suspend) suspend.
    #[cold]
    pub(crate) fn refused(&self) -> Cancelled {
        let must_not = self.waits_for.get().is_some_and(|waits_for| ptr::eq(waits_for.what, NO_SUSPEND));
        Cancelled::with_reason(if std::thread::panicking() {
            "a fiber that is panicking can't wait"
        } else if must_not {
            "a fiber can't wait inside of `no_suspend`"
        } else {
            "what is called while a fiber begins to wait, a closure of a queue or a waker, can't wait itself"
        })
    }

    /// Says that the fiber registers itself for a wait, if it is `Some`, and gives back what was. A
    /// registered fiber may be resumed at any time, and that resume must not end another wait, one
    /// that foreign code begins in the middle of the registration.
    #[inline]
    pub(crate) fn register_for(&self, waits_for: Option<WaitsFor>) -> Option<WaitsFor> {
        self.waits_for.replace(waits_for)
    }

    /// Makes `context` the innermost one and returns the one before.
    ///
    /// # Safety
    /// It is null, or in place until the fiber has entered another one.
    #[inline]
    pub(crate) unsafe fn enter_context(&self, context: *const Context) -> *const Context {
        self.context.replace(context)
    }

    #[inline]
    pub(crate) fn context(&self) -> *const Context {
        self.context.get()
    }

    #[inline]
    pub(crate) fn family(&self) -> *const Family {
        self.family
    }

    #[inline]
    pub(crate) fn begin_wait(&self, trigger: &Trigger, waits_for: WaitsFor) {
        self.trigger.set(trigger);
        self.waits_for.set(Some(waits_for));
        // The fiber is registered by now: a waker that would wait is refused.
        deferred_wakers::let_go();
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

    /// Says which context can cancel the wait that begins. Before any other thread can claim it.
    #[inline]
    pub(crate) fn expose(&self) {
        self.waits_in.store(self.context.get().cast_mut(), Ordering::Relaxed);
    }

    /// Whether the wait that the fiber is in was cancelled, whether or not its own thread knows.
    ///
    /// # Safety
    /// The fiber is in a wait that it has been exposed for, and can't leave it before this returns.
    #[inline]
    pub(crate) unsafe fn is_wait_cancelled(&self) -> bool {
        let context = self.waits_in.load(Ordering::Relaxed);
        // SAFETY: the fiber is inside of the context as long as it waits, and a context ends after
        // it was left.
        context != REFUSED && unsafe { context.as_ref() }.is_some_and(Context::is_cancelled)
    }

    /// The wait was cancelled, as its claimer saw. For the claimer, before the resume.
    #[cold]
    pub(crate) fn refuse(&self) {
        self.waits_in.store(REFUSED, Ordering::Relaxed);
    }

    /// Takes one operation off what it may begin in this turn; answers whether there was one left.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left != 0
    }

    /// Whether it may begin no further operation in this turn.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.get() == 0
    }

    /// It has given up its turn: a new one begins, with as many operations that need not wait. For
    /// schedulers with ways of their own to yield.
    #[inline]
    pub fn refill(&self) {
        self.budget.set(OPERATIONS);
    }

    /// Where its series of drawn numbers is. It begins with the fiber's own number: so a simulated
    /// schedule draws the same when it is replayed.
    #[inline]
    pub(crate) fn draws(&self) -> &Cell<u32> {
        &self.draws
    }

    /// Becomes a member of its innermost context, so that its cancellation finds the fiber. Done on
    /// the first wait in a context and not at spawn: a fiber that never waits costs the tree
    /// nothing.
    #[inline]
    pub(crate) fn join_context(&self) {
        let context = self.context.get();
        if self.member_of.get() != context && !context.is_null() {
            self.change_membership(context);
        }
    }

    /// Stops being a member of `context`, or of any for null.
    #[inline]
    pub(crate) fn leave_context(&self, context: *const Context) {
        let member_of = self.member_of.get();
        if !member_of.is_null() && (context.is_null() || member_of == context) {
            self.change_membership(ptr::null());
        }
    }

    #[cold]
    fn change_membership(&self, to: *const Context) {
        let from = self.member_of.replace(to);
        let me = NonNull::from(self);
        // SAFETY: a fiber leaves a context before that ends, so both are alive; the links belong to
        // the lock of `from`, and to that of `to` once it has left.
        unsafe {
            if let Some(from) = from.as_ref() {
                from.remove_member(me);
            }
            if let Some(to) = to.as_ref() {
                to.add_member(me);
            }
        }
    }
}

impl std::fmt::Display for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "fiber `{name}`"),
            None => write!(f, "fiber {}", self.id),
        }
    }
}
