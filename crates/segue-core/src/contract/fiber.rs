//! Fibers and schedulers: the two sides of the contract.
//!
//! A [`Scheduler`] is what can suspend a fiber: a worker, a plain thread, a bridge. Structures call
//! it, and applications never do. `docs/contract.md` has the numbered clauses.
//!
//! A [`Fiber`] is the header of something that runs and can wait: its scheduler, the wait that it
//! is in, and slots for the rooms above (`slots.rs`). Every scheduler embeds a header in whatever it
//! switches. The header knows nothing of stacks: a plain thread that waits gets a header for the
//! length of the wait.
//!
//! The fields of a header fall in two groups. `id` and `name` are fixed before the fiber runs;
//! `host` and `scheduler` are, too, with one exception: a fiber that moves to another scheduler of
//! its thread changes them. The fiber does so while it runs and is a member of no context, so that
//! no other thread looks. The cells are touched only by the thread that the fiber runs on, except
//! `links`, which belong to the lock of the context in `member_of`.
// The contract is what every structure's soundness rests on, hence unsafe to implement; and headers
// are reached by address, also from other threads.
#![allow(unsafe_code)]

use crate::contract::clock::Clock;
use crate::contract::job::{Identity, Job, Name};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::atomic::{AtomicPtr, Ordering};
use crate::primitives::list::Links;
use crate::primitives::record::Record;
use crate::primitives::shown::Shown;
use crate::primitives::switch::Switch;
use std::cell::{Cell, OnceCell};
use std::fmt::{self, Display, Formatter};
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Suspends and continues fibers.
///
/// # Safety
/// An implementation keeps every clause of `docs/contract.md`. Memory safety rests on these:
///
/// 1. `suspend` returns after exactly one `wake(.., Resume)` that was called since it was entered
///    or is still unconsumed, or after [`Fiber::interrupted`] has answered `true` for it, and not
///    before.
/// 2. A fiber runs on one OS thread from its start to its end.
/// 3. While a fiber runs, [`with_current`](crate::with_current) on its thread yields that
///    fiber, and what was current before is current again when it is suspended. On a plain thread
///    there is none.
/// 4. A fiber's header stays in place until the job that it runs has returned and no `wake` is
///    under way.
pub unsafe trait Scheduler {
    /// Suspends the calling fiber until it is resumed. It does so in the call, and answers `None`;
    /// or it answers with the [`Switch`] that does so.
    ///
    /// # Safety
    /// `fiber` is the calling one, it belongs to this scheduler, and exactly one [`Wake::Resume`]
    /// will be sent for this call. The caller makes the switch at once.
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch>;

    /// Makes a fiber ready, or its thread look whether it was cancelled. Never waits; any thread.
    ///
    /// For [`Wake::Interrupt`] the scheduler calls [`Fiber::interrupted`] on the fiber's own thread
    /// some time later, and makes the fiber ready if that answers `true`. Interrupts may be merged.
    ///
    /// # Safety
    /// For [`Wake::Resume`]: the caller has won the right to resume this suspension, once. For
    /// [`Wake::Interrupt`]: the caller holds the lock of a context that the fiber is a member of.
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake);

    /// Lets other ready fibers run before the calling one goes on: in the call, or by the switch
    /// that it answers with.
    ///
    /// # Safety
    /// `fiber` is the calling one, of this scheduler. The caller makes the switch at once.
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch>;

    /// What accepts the jobs that its fibers spawn.
    fn spawner(&self) -> &dyn Spawn;

    /// The timers that fibers of this scheduler wait on: also its clock.
    fn timers(&self) -> &dyn Clock;

    /// Makes a ready fiber of a job at once, on a stack of the calling thread, or gives the job
    /// back, to be run in the call: what is behind it need not be `Send` (25).
    fn start_here(&self, job: Job) -> Result<(), Job> {
        Err(job)
    }

    /// Whether this is its runtime's family, which is in place while it has fibers or jobs (26).
    fn keeps(&self, _family: FamilyId) -> bool {
        false
    }

    /// The running fiber would leave something to its thread's park that it must wait for. Answers
    /// whether the thread idles there and nowhere else; then the park is polled soon.
    fn leave_to_park(&self) -> bool {
        false
    }
}

/// Accepts jobs for a scheduler.
pub trait Spawn {
    /// Accepts a job, to be started some time later. Never waits, never runs the job itself, and
    /// does not unwind.
    ///
    /// A spawner that can't have the job started drops it: then its joiner is told.
    fn spawn(&self, job: Job);

    /// A spawner that any thread may use, for as long as it keeps it. An async task hands its next
    /// poll to this one when it is woken.
    ///
    /// A scheduler that takes no jobs from other threads shares the
    /// [default runtime's](crate::scheduling::default_spawner).
    fn share(&self) -> Arc<dyn Spawn + Send + Sync>;
}

/// Why a fiber is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// What it waited for has come.
    Resume,
    /// Its context was cancelled: look.
    Interrupt,
}

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

impl Display for WaitsFor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

/// How many operations that need not wait a fiber may begin in one turn.
pub(crate) const OPERATIONS: u8 = 128;

/// The header of something that runs and can wait.
///
/// What a waker on another thread reads comes first: it is hardly ever written, so that the waker
/// finds it in its own cache. Then what each turn of the fiber writes; last what is seldom touched.
#[repr(C)]
pub struct Fiber {
    scheduler: Cell<NonNull<dyn Scheduler>>,
    /// The context that its wait can be cancelled by, null if none can: see
    /// `refusal.rs`.
    pub(super) waits_in: AtomicPtr<ContextHead>,
    context: Cell<*const ContextHead>,
    pub(crate) member_of: Cell<*const ContextHead>,
    host: Cell<*const ()>,
    family: FamilyId,

    pub(crate) draws: Cell<u32>,
    /// How many operations the fiber may still begin in this turn.
    pub(crate) budget: Cell<u8>,
    /// Whether the trigger is waited for again if this wait is cancelled.
    pub(super) retreats: Cell<bool>,
    pub(crate) kernel_waits: Cell<u8>,
    pub(crate) unblocked: Cell<bool>,
    pub(super) waits_for: Shown<Option<WaitsFor>>,
    /// Where the trigger of its wait is, if it is suspended.
    pub(super) trigger: Cell<*const ()>,
    pub(crate) task: Cell<*const ()>,

    id: u64,
    pub(crate) mark: Cell<u64>,
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
            waits_for: Shown::new(None),
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

    /// The number that its scheduler gave it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that its spawner gave it.
    #[inline]
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| &***name)
    }

    /// Keeps the job that the fiber is for until it [begins](Fiber::begin).
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs.
    #[inline]
    pub unsafe fn keep_job(&self, job: Job) {
        self.locals.set(job.into_raw().as_ptr().cast());
    }

    /// Takes the job, to run it.
    ///
    /// # Safety
    /// For the fiber itself, once, after [`keep_job`](Fiber::keep_job).
    #[inline]
    pub unsafe fn begin(&self) -> Job {
        let job = self.locals.replace(ptr::null_mut()).cast();
        // SAFETY: `keep_job` has put it there.
        unsafe { Job::from_raw(NonNull::new_unchecked(job)) }
    }

    /// What it waits for, if it is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }

    /// Its turn is over: a new one begins, with as many operations that need not wait.
    #[inline]
    pub(crate) fn refill(&self) {
        self.budget.set(OPERATIONS);
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

impl Display for Fiber {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "fiber `{name}`"),
            None => write!(f, "fiber {}", self.id),
        }
    }
}
