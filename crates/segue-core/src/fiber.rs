//! Who is running: the header of a fiber (identity, name, context, what it waits for), and the way to the current one.
//!
//! Used by every scheduler, which embeds a [`Fiber`] in whatever it switches, and by triggers. The header knows nothing of
//! stacks: a plain thread that waits gets one for the length of the wait.
//!
//! The fields fall in two groups. `id` and `name` are fixed before the fiber runs; `host` and `scheduler` are, too, but for a fiber that moves to another scheduler of its thread, which it does while it runs and
//! is a member of no context, so that nobody looks. The cells are touched only by the thread that the
//! fiber runs on, except `links`, which belong to the lock of the context in `member_of`.
#![allow(unsafe_code)] // Headers are reached by address, from the current-fiber slot and from other threads.

use crate::atomic::local;
use crate::attributes::{Attribute, Attributes};
use crate::budget::OPERATIONS;
use crate::cancel::{CancelToken, Cancelled};
use crate::context::{self, Context};
use crate::family::Family;
use crate::job::{Identity, Job, Name};
use crate::list::{Linked, Links};
use crate::scheduler::{Scheduler, Wake};
use crate::thread;
use crate::trigger::Trigger;
use std::cell::{Cell, OnceCell};
use std::panic::Location;
use std::ptr::{self, NonNull};

local!(static CURRENT: Cell<*const Fiber> = Cell::new(ptr::null()));
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
    /// A wait for `what`, called from here.
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

/// The header of something that runs and can wait.
pub struct Fiber {
    scheduler: Cell<NonNull<dyn Scheduler>>,
    host: Cell<*const ()>,
    id: u64,
    name: Option<Name>,
    attributes: OnceCell<Attributes>,
    family: *const Family,
    context: Cell<*const Context>,
    member_of: Cell<*const Context>,
    links: Links<Fiber>,
    /// See [`mark`](Fiber::mark).
    mark: Cell<u64>,
    trigger: Cell<*const Trigger>,
    waits_for: Cell<Option<WaitsFor>>,
    /// How many operations it may still begin in this turn.
    budget: Cell<u32>,
}

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

    /// The header for a fiber that runs without a job: under `token`, and in no family.
    ///
    /// # Safety
    /// `scheduler` outlives the header, and some clone of `token` does.
    #[inline]
    pub unsafe fn under(scheduler: NonNull<dyn Scheduler>, id: u64, token: &CancelToken) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::new(scheduler, id, Identity::in_context(token.context())) }
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
            waits_for: Cell::new(None),
            budget: Cell::new(OPERATIONS),
        }
    }

    /// The number that its scheduler gave it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that its spawner gave it.
    #[inline]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// A number that no other fiber of its thread ever has; the address and `id` of one that has ended come again. Never zero.
    #[inline]
    pub(crate) fn mark(&self) -> u64 {
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

    /// What it waits for, if it is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }

    /// The scheduler that it belongs to.
    #[inline]
    pub fn scheduler(&self) -> &dyn Scheduler {
        // SAFETY: `new`'s caller keeps the scheduler alive as long as the header.
        unsafe { self.scheduler.get().as_ref() }
    }

    /// Makes it a fiber of another scheduler on the same thread. It leaves its contexts first, so that nobody wakes it meanwhile, and joins
    /// them again at its next wait; an interrupt may still be under way to the scheduler that it had.
    ///
    /// # Safety
    /// For the two schedulers, by the running fiber. `scheduler` outlives the header, or the fiber moves on before it ends.
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
        // SAFETY: the scheduler outlives the header, and the caller has the right that `wake` asks for.
        unsafe { scheduler.as_ref().wake(fiber, why) };
    }

    /// To be called by the scheduler on the fiber's own thread after an interrupt.
    ///
    /// Answers whether the fiber was suspended and its wait is now cancelled: then the scheduler makes it ready,
    /// as for a resume.
    #[must_use]
    #[inline]
    pub fn interrupted(&self) -> bool {
        // SAFETY: the trigger is set while its frame waits, by this thread.
        match unsafe { self.trigger.get().as_ref() } {
            Some(trigger) if self.is_cancelled() && trigger.withdraw().is_some() => {
                // Whoever shares the trigger may free it from now on, before this fiber has run again.
                self.trigger.set(ptr::null());
                true
            }
            _ => false,
        }
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

    /// Whether to switch stacks now would carry this thread's panic count into another fiber, or would use up the resume of a wait
    /// that is being registered. For schedulers with ways to suspend of their own, about the running fiber.
    #[must_use]
    #[inline]
    pub fn must_not_suspend(&self) -> bool {
        (std::thread::panicking() || self.waits_for.get().is_some()) && !thread::is_thread(self)
    }

    /// Ends the process if the running fiber, which is this one, has left a computation behind that is captured in the middle of a wait's registration, or of what runs as a plain thread. For
    /// schedulers that suspend it where they can't refuse to.
    pub fn assert_whole(&self) {
        if self.registers() || !ptr::eq(current(), self) {
            context::astray();
        }
    }

    /// What a wait fails with that [must not](Fiber::must_not_suspend) suspend.
    #[cold]
    pub(crate) fn refused(&self) -> Cancelled {
        if std::thread::panicking() { Cancelled::while_panicking() } else { Cancelled::while_registering() }
    }

    /// Whether the fiber is in the middle of registering itself for a wait.
    #[inline]
    pub(crate) fn registers(&self) -> bool {
        self.waits_for.get().is_some()
    }

    /// Says that the fiber registers itself for a wait, if it is `Some`, and gives back what was. Whoever is registered may be resumed at any time, and
    /// that resume must not end another wait, of which foreign code may think in the middle of the registration.
    #[inline]
    pub(crate) fn register_for(&self, waits_for: Option<WaitsFor>) -> Option<WaitsFor> {
        self.waits_for.replace(waits_for)
    }

    /// Makes `context` the innermost one and gives back what was.
    #[inline]
    pub(crate) fn enter_context(&self, context: *const Context) -> *const Context {
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
    }

    /// Answers whether the trigger was taken; if not, an interrupt has cancelled it, and it may be gone.
    #[inline]
    #[must_use]
    pub(crate) fn end_wait(&self) -> bool {
        self.refill();
        self.waits_for.set(None);
        !self.trigger.replace(ptr::null()).is_null()
    }

    /// Takes one operation off what it may begin in this turn; answers whether there was one left.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left != 0
    }

    /// It has given up its turn: a new one begins, with as many operations that need not wait. For schedulers with ways of their own to yield.
    #[inline]
    pub fn refill(&self) {
        self.budget.set(OPERATIONS);
    }

    /// Becomes a member of its innermost context, so that its cancellation finds the fiber. Done on the first wait in a
    /// context and not at spawn: a fiber that never waits costs the tree nothing.
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
        // SAFETY: a fiber leaves a context before that ends, so both are alive; the links belong to the lock of
        // `from`, and to that of `to` once it has left.
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

/// Calls `f` with the running fiber; on a plain thread, with a header that stands for the thread meanwhile.
#[inline]
pub fn with_current<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    match running() {
        Some(fiber) => f(fiber),
        None => thread::with_header(f),
    }
}

/// The running fiber's header, or null on a plain thread.
#[inline]
pub fn current() -> *const Fiber {
    CURRENT.with(Cell::get)
}

/// The running fiber; `None` on a plain thread. For use on the spot: the header stays in place while its fiber runs.
#[inline]
pub(crate) fn running<'a>() -> Option<&'a Fiber> {
    // SAFETY: the slot holds null, or a header that stays in place while it is current (clause 3).
    unsafe { current().as_ref() }
}

/// Makes `fiber` the current one on this thread and gives back what was.
///
/// # Safety
/// For schedulers. A header that is made current stays in place until another, or null, is.
#[inline]
pub unsafe fn set_current(fiber: *const Fiber) -> *const Fiber {
    CURRENT.with(|current| current.replace(fiber))
}

/// Runs `f` as if on a plain thread: a wait in it blocks the thread and suspends no fiber.
pub(crate) fn as_plain_thread<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(*const Fiber);
    impl Drop for Restore {
        fn drop(&mut self) {
            // If `f` was captured and goes on in another fiber, the one that was current may have ended.
            if in_fiber() {
                context::astray();
            }
            // SAFETY: it was current before, and its fiber has not moved on since: it is what runs this.
            unsafe { set_current(self.0) };
        }
    }
    // SAFETY: null is always allowed.
    let _restore = Restore(unsafe { set_current(ptr::null()) });
    f()
}

/// Runs `f` in place as a plain thread would, in the caller's contexts: a wait in it blocks the thread, and what it spawns goes where plain threads spawn.
///
/// # Cancellation
/// `f` sees the caller's.
pub fn run_as_thread<R>(f: impl FnOnce() -> R) -> R {
    match running() {
        Some(fiber) => {
            let (context, family) = (fiber.context(), fiber.family());
            as_plain_thread(|| thread::within(context, family, f))
        }
        None => f(),
    }
}

/// Runs `f`, which is all that the fiber does, and leaves every context. For a [`Work`](crate::Work) that its maker waits for, before it tells the maker: the contexts
/// may end then.
///
/// `f` has left the contexts that it entered, which scopes and the like see to. It has not if it ends while a computation is suspended in one, by an effect or as a generator. The process ends then, as nobody
/// could go on with that computation: it refers to the fiber and its contexts.
#[inline]
pub fn retire<R>(f: impl FnOnce() -> R) -> R {
    let result = context::whole(f);
    leave_contexts();
    result
}

/// Leaves every context.
#[inline]
pub(crate) fn leave_contexts() {
    if let Some(fiber) = running() {
        fiber.leave_context(ptr::null());
    }
    thread::enter_context(ptr::null());
}

/// Whether the caller runs on a fiber, and not on a plain thread.
#[must_use]
#[inline]
pub fn in_fiber() -> bool {
    !current().is_null()
}

/// Gives up the turn: other ready fibers of this scheduler run first.
///
/// On a plain thread it yields to the operating system.
///
/// # Cancellation
/// *No effect*: a cancelled fiber does not yield.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// segue_core::yield_now()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
pub fn yield_now() -> Result<(), Cancelled> {
    with_current(|fiber| {
        if fiber.is_cancelled() {
            return Err(fiber.cancelled());
        }
        if fiber.must_not_suspend() {
            return Err(fiber.refused());
        }
        // SAFETY: it is the calling one.
        unsafe { fiber.scheduler().yield_now(fiber) };
        fiber.refill();
        Ok(())
    })
}
