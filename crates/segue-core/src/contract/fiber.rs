//! Fibers and schedulers: the two sides of the contract.
//!
//! A [`Scheduler`] suspends and continues fibers: a worker, a plain thread, a bridge. Structures
//! call schedulers, and applications never do.
//!
//! A [`Fiber`] is the header of a computation that can wait: the fiber's scheduler, its present
//! wait, and slots for the rooms above (`slots.rs`). Every scheduler embeds a header in the object
//! that it switches. The header knows nothing of stacks: plain threads that wait have headers, too.
//!
//! `id`, `name`, `family` and `host` are fixed before the fiber runs. `scheduler` changes only by
//! `set_scheduler` (`tree/membership.rs`): the running fiber moves to another one of its thread,
//! and is a member of no context then, so that no other thread looks. Wakers read `scheduler` and
//! `host`; claimers read and write `waits_in`; the lock of the context in `member_of` guards
//! `links`. All else belongs to the thread that the fiber runs on.
#![allow(unsafe_code)] // Soundness rests on the contract, and headers are reached by address.

use crate::contract::clock::Clock;
use crate::contract::job::{Identity, Job, JobHeader, Name};
use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::atomic::{AtomicPtr, Ordering};
use crate::primitives::list::Links;
use crate::primitives::marks::Marks;
use crate::primitives::record::Record;
use crate::primitives::shown::Shown;
use crate::primitives::switch::Switch;
use crate::primitives::waits_for::WaitsOn;
use std::cell::{Cell, OnceCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Suspends and continues fibers.
///
/// # Safety
/// An implementation keeps every clause of `docs/contract.md`. Memory safety rests on these:
///
/// 1. `suspend` returns after exactly one `wake(.., Resume)` that was called since its beginning or
///    is still unconsumed, or after [`Fiber::interrupted`] has answered `true` for this fiber, and
///    not before.
/// 2. A fiber runs on one OS thread from its start to its end.
/// 3. While a fiber runs, the current slot of its thread (`current.rs`) has that fiber, and the
///    fiber before is current again when this one is suspended. On a plain thread the slot is null.
/// 4. A fiber's header stays in place until its job has returned and no `wake` is under way.
pub unsafe trait Scheduler {
    /// Suspends the calling fiber until its resume: in the call, and then the answer is `None`; or
    /// by the [`Switch`] in the answer, which `segue_fiber::begin_suspend` yields.
    ///
    /// # Safety
    /// `fiber` is the calling one and belongs to this scheduler. To this call belongs one
    /// [`Wake::Resume`], sent before or later, or else one `true` of [`Fiber::interrupted`], never
    /// both. The caller makes the switch at once.
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch>;

    /// Makes a fiber ready, or has its thread look for a cancellation. Never waits; any thread.
    ///
    /// For [`Wake::Interrupt`] the scheduler calls [`Fiber::interrupted`] on the fiber's own thread
    /// some time later, and makes the fiber ready if that answers `true`. Interrupts may be merged.
    ///
    /// # Safety
    /// For [`Wake::Resume`]: the caller has won the right to resume this suspension, once. For
    /// [`Wake::Interrupt`]: the caller holds the lock of a context that the fiber is a member of.
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake);

    /// Lets other ready fibers run first: in the call, or by the switch in the answer.
    ///
    /// # Safety
    /// `fiber` is the calling one, of this scheduler. The caller makes the switch at once.
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch>;

    /// The spawner of the jobs that its fibers spawn.
    fn spawner(&self) -> &dyn Spawn;

    /// The timers that fibers of this scheduler wait on: also its clock.
    fn timers(&self) -> &dyn Clock;

    /// Makes a ready fiber of `job`, on this thread, as the work need not be `Send`; or gives `job`
    /// back, and the caller runs `job` (25).
    fn start_here(&self, job: Job) -> Result<(), Job> {
        Err(job)
    }

    /// Whether the family is this runtime's, and outlasts the scheduler's fibers and jobs (26).
    fn keeps(&self, _family: FamilyId) -> bool {
        false
    }

    /// Whether this thread idles in its park and nowhere else, so that a request to the kernel that
    /// is left there, and the reply, are seen soon. Asked by the running fiber (27).
    fn leave_to_park(&self) -> bool {
        false
    }
}

/// Accepts jobs for a scheduler.
pub trait Spawn {
    /// Accepts a job, to be started some time later; or drops a job that can't be: then its joiner
    /// is told. Never waits, never runs the job itself, and does not unwind.
    fn spawn(&self, job: Job);

    /// A spawner that any thread may keep and use: the waker of a task hands the next poll to it.
    /// A scheduler that takes no jobs from other threads shares that of [plain
    /// threads](crate::scheduling::thread_spawner), for instance.
    fn share(&self) -> Arc<dyn Spawn + Send + Sync>;
}

/// Why a fiber is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Its wait is over.
    Resume,
    /// Its context was cancelled: look.
    Interrupt,
}

/// How many operations that need not wait a fiber may begin in one turn: its `budget`.
pub(crate) const OPERATIONS: u8 = 128;

/// The header of a computation that can wait.
///
/// First come the fields that a waker on another thread reads, and finds in its cache, as hardly
/// anybody writes them; then those that each turn of the fiber writes; last the seldom touched.
#[repr(C)]
pub struct Fiber {
    pub(crate) scheduler: Cell<NonNull<dyn Scheduler>>,
    /// The context that can cancel the wait; null if none can; or REFUSED, of `refusal.rs`.
    pub(super) waits_in: AtomicPtr<ContextHead>,
    context: Cell<*const ContextHead>,
    pub(crate) member_of: Cell<*const ContextHead>,
    host: Cell<*const ()>,
    family: FamilyId,

    pub(crate) draws: Cell<u32>,
    pub(crate) budget: Cell<u8>,
    /// Whether the trigger is waited for again if this wait is cancelled.
    pub(crate) retreats: Cell<bool>,
    pub(crate) kernel_waits: Cell<u8>,
    pub(crate) marks: Marks,
    /// In the frame of the wait; null outside of waits.
    pub(crate) waits_on: Shown<*const WaitsOn>,
    /// The address of the wait's trigger, for `trigger.rs`; null outside of waits.
    pub(super) trigger: Cell<*const ()>,
    pub(crate) task: Cell<*const ()>,
    /// How many waits it has begun.
    pub(crate) waits: Cell<u32>,
    pub(crate) since: Cell<u32>,

    id: u64,
    pub(crate) mark: Cell<u64>,
    name: Option<Box<Name>>,
    // Between name and attributes: one wide load of both would wait for the spawner's two stores.
    pub(crate) links: Links<Fiber>,
    pub(crate) attributes: OnceCell<Arc<Record>>,
    /// Before the fiber runs, its job.
    pub(crate) locals: Cell<*mut ()>,
    /// Null without a job, and when that is over.
    pub(crate) job: Cell<*const JobHeader>,
}

// With one word of a scheduler's in front, a line for wakers, and one for the fiber's turns.
#[cfg(all(not(loom), target_pointer_width = "64"))]
const _: () = assert!(std::mem::offset_of!(Fiber, draws) == 56 && std::mem::offset_of!(Fiber, id) <= 120);

impl Fiber {
    /// The header for a fiber that will run `job` under `scheduler`. The scheduler has chosen `id`,
    /// which reports print for fibers without a name.
    ///
    /// # Safety
    /// `scheduler` is in place as long as this is the header's scheduler. The fiber runs this very
    /// job or drops it, and afterwards nobody asks the header for its context or family.
    #[inline]
    pub unsafe fn for_job(scheduler: NonNull<dyn Scheduler>, id: u64, job: &mut Job) -> Self {
        let identity = job.identity();
        // SAFETY: as the caller promises; until its end the job keeps context and family in place.
        let fiber = unsafe { Self::new(scheduler, id, identity) };
        fiber.job.set(job.as_raw().as_ptr());
        fiber
    }

    /// # Safety
    /// `scheduler` is in place as long as this is the header's scheduler. `context` and `family`
    /// are null, or in place until the last time that anybody asks the header for them.
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
            waits_on: Shown::new(ptr::null()),
            waits: Cell::new(0),
            since: Cell::new(0),
            job: Cell::new(ptr::null()),
            budget: Cell::new(OPERATIONS),
            draws: Cell::new(id as u32),
            kernel_waits: Cell::new(0),
            marks: Marks::new(),
            retreats: Cell::new(false),
            task: Cell::new(ptr::null()),
        }
    }

    /// The pointer that its scheduler has [set](Fiber::set_host); null until then.
    #[inline]
    pub fn host(&self) -> *const () {
        self.host.get()
    }

    /// Keeps a pointer to the object that the scheduler has built around this header.
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs.
    #[inline]
    pub unsafe fn set_host(&self, host: *const ()) {
        self.host.set(host);
    }

    /// The fiber's scheduler.
    #[inline]
    pub fn scheduler(&self) -> &dyn Scheduler {
        // SAFETY: a header names a scheduler only as long as that is in place, by `new`.
        unsafe { self.scheduler.get().as_ref() }
    }

    /// Suspends the fiber, in this very frame if its scheduler leaves that to the caller.
    ///
    /// # Safety
    /// As for [`Scheduler::suspend`].
    #[inline(always)]
    pub(crate) unsafe fn suspend(&self) {
        self.marks.apart(|| {
            // SAFETY: this is its scheduler, and the caller promises the rest.
            if let Some(switch) = unsafe { self.scheduler().suspend(self) } {
                // SAFETY: the switch is made at once, as the scheduler demands.
                unsafe { switch.make() };
            }
        });
    }

    /// Wakes a fiber through its scheduler.
    ///
    /// # Safety
    /// As for [`Scheduler::wake`].
    #[inline]
    pub(crate) unsafe fn wake(fiber: NonNull<Self>, why: Wake) {
        // SAFETY: the header is in place until the wake is over (clause 4).
        let scheduler = unsafe { fiber.as_ref() }.scheduler.get();
        // SAFETY: a header's scheduler is in place, and the caller has the right to the wake.
        unsafe { scheduler.as_ref().wake(fiber, why) };
    }

    /// The number that the scheduler gave.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that the spawner gave.
    #[inline]
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| &***name)
    }

    /// Keeps the fiber's job until the fiber [begins](Fiber::begin).
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
        // SAFETY: `keep_job` has put the address of its job there, for this one use.
        unsafe { Job::from_raw(NonNull::new_unchecked(job)) }
    }

    /// The turn is over: a new one begins, with as many operations that need not wait.
    #[inline]
    pub(crate) fn refill(&self) {
        self.budget.set(OPERATIONS);
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
        // Another context may have lain there: `expose` (`refusal.rs`) would keep its pointer.
        if !context.is_null() && ptr::eq(self.waits_in.load(Ordering::Relaxed), context) {
            self.renew_waits_in(context.cast_mut());
        }
        self.context.replace(context)
    }

    #[cold]
    fn renew_waits_in(&self, context: *mut ContextHead) {
        if self.waits_on.get().is_null() {
            self.waits_in.store(context, Ordering::Relaxed);
        } else {
            // A wait has begun, or `registered` (`wait/source.rs`) runs: a claimer's write stays.
            let _ = self.waits_in.compare_exchange(context, context, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the context that the fiber is in was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: a fiber is inside of a context only while that context is alive.
        unsafe { self.context.get().as_ref() }.is_some_and(ContextHead::is_cancelled)
    }
}
