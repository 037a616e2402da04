//! A worker's own state, and the scheduler contract that its fibers see.
//!
//! Used by the worker loop, which owns it, and through the contract by every fiber of the worker.
//! Only the worker's thread touches it; wakes from other threads go through `group/remote.rs`.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::worker::common::{Common, Header, INTERRUPT, RESUME, Whole, set_worker, worker};
use crate::worker::group::Group;
use crate::worker::inbox::Letter;
use crate::worker::policy::{Coroutine, Goes, Idle, Policy, Seat, Started, Task, Why};
use crate::worker::report::Stuck;
use segue_core::chain::{self, barrier};
use segue_core::scheduling::{Job, Scheduler, Spawn, Timers, Wake};
use segue_core::switch::Switch;
use segue_core::unwind::NoUnwind;
use segue_core::{Fiber, WaitsFor};
use segue_fiber::{Stack, StackPool, Step, thread_stacks};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Up to so many fibers are taken to be in reach of the translation caches, so that fetching more
/// than a line of each pays off.
const FEW: usize = 2048;

/// Ends the process if a policy, park or driver unwinds: fibers that were suspended could be
/// neither continued nor freed.
#[inline]
pub(crate) fn no_unwind() -> NoUnwind {
    NoUnwind::new("a policy, park or driver panicked on its worker; the worker's fibers can't go on")
}

/// A worker's own state.
#[repr(C)] // The common part comes first, so that its address is the worker's.
pub(crate) struct Local<P> {
    pub(crate) common: Common,
    policy: RefCell<P>,
    /// Whether closures from outside go to the policy.
    pub(crate) takes_arrivals: bool,
    /// How many started fibers the policy has.
    held: Cell<usize>,
    /// Whether the policy may have a closure to spare: not from when it gave none until one is
    /// pushed, or the worker looks around.
    pub(crate) may_spare: Cell<bool>,
    pub(crate) timers: Timers,
    stacks: RefCell<StackPool>,
    /// Whether a closure found no stack: then this worker starts no other before it got one back,
    /// or has slept over it.
    starved: Cell<bool>,
    started: Cell<u64>,
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
            started: Cell::new(0),
        }
    }

    /// Whether the caller runs on this worker's thread, under it.
    #[inline]
    fn is_here(&self) -> bool {
        ptr::eq(worker(), &self.common)
    }

    // Where a fiber yields, wakes and spawns: a call more is felt there.
    #[inline(always)]
    fn ready(&self, task: Task, why: Why) {
        // The policy, which is foreign code, is borrowed meanwhile.
        if chain::top().is_null() { self.push(task, why) } else { self.push_behind(task, why) }
    }

    #[cold]
    #[inline(never)]
    fn push_behind(&self, task: Task, why: Why) {
        barrier(WaitsFor::new("a policy"), || self.push(task, why));
    }

    #[inline(always)]
    fn push(&self, task: Task, why: Why) {
        let no_unwind = no_unwind();
        match self.policy.try_borrow_mut() {
            Ok(mut policy) => {
                // A started fiber can't come back from the policy but by `pop`.
                let started = matches!(task, Task::Started(_));
                self.held.set(self.held.get() + usize::from(started));
                let goes = policy.push(task, why);
                drop(policy);
                match goes {
                    Goes::Here if started => {}
                    // This worker may not look at its policy again for long.
                    Goes::Here => {
                        self.may_spare.set(true);
                        self.share();
                    }
                    Goes::Anywhere(job) => self.common.offer(job),
                    Goes::To(worker, job) => {
                        if let Err(job) = self.send(worker, job) {
                            self.common.offer(job);
                        }
                    }
                }
            }
            Err(_) => self.postpone(task),
        }
        no_unwind.disarm();
    }

    /// # Safety
    /// As for [`Scheduler::wake`].
    #[inline(never)] // Else what it needs is saved by a wake-up on this thread as well.
    unsafe fn wake_by_mail(&self, header: NonNull<Header>, why: Wake) {
        let remote = self.common.remote();
        // SAFETY: the fiber's header stays until its letter was drained, and this worker until its
        // fibers have ended.
        unsafe {
            match why {
                Wake::Resume => remote.inbox.post(header, RESUME, || remote.waker()),
                Wake::Interrupt => remote.inbox.post(header, INTERRUPT, || remote.waker_after_interrupt()),
            }
        }
    }

    /// Sends a closure to a worker, or gives it back if that has ended.
    #[cold]
    fn send(&self, worker: usize, job: Job) -> Result<(), Job> {
        let workers = self.common.group.len();
        assert!(worker < workers, "a policy sent a closure to worker {worker} of {workers}");
        self.common.group.send(worker, job)
    }

    /// A closure that this worker has taken from a shelf: what is to start now.
    #[inline]
    pub(crate) fn taken(&self, job: Job) -> Option<Task> {
        if self.takes_arrivals {
            return self.let_order(job);
        }
        if self.common.is_marked() { self.common.place(job).map(Task::Fresh) } else { Some(Task::Fresh(job)) }
    }

    /// Lets the policy order a closure that was taken from a shelf.
    #[cold]
    fn let_order(&self, job: Job) -> Option<Task> {
        let goes = self.policy.borrow_mut().push(Task::Fresh(job), Why::Taken);
        match goes {
            Goes::Here => {
                self.may_spare.set(true);
                self.next()
            }
            Goes::Anywhere(job) => Some(Task::Fresh(job)),
            Goes::To(worker, job) => self.send(worker, job).err().map(Task::Fresh),
        }
    }

    /// Hands over what was sent to this worker, and what came from outside if the policy takes
    /// that. Looks at each turn, and as a rule there is nothing.
    #[inline]
    pub(crate) fn accept_closures(&self) {
        if self.common.remote().sent.seems_to_hold()
            || (self.takes_arrivals && self.common.group.outside.seems_to_hold())
        {
            self.hand_over_closures();
        }
    }

    #[cold]
    fn hand_over_closures(&self) {
        while let Some(job) = self.common.remote().sent.take_oldest() {
            self.ready(Task::Fresh(job), Why::Sent);
        }
        // One that it could not start would come back for ever.
        if self.takes_arrivals && !self.is_starved() {
            while let Some(job) = self.common.group.outside.take_oldest() {
                self.ready(Task::Fresh(job), Why::Arrived);
            }
        }
    }

    /// Offers a closure of the policy's to idle workers, if there are any.
    #[inline]
    pub(crate) fn share(&self) {
        if self.may_spare.get() && self.common.is_asked() {
            self.offer_spare(false);
        }
    }

    fn share_spare(&self, all: bool) {
        while all || !self.common.remote().shelf.seems_to_hold() {
            let Ok(mut policy) = self.policy.try_borrow_mut() else { return };
            let no_unwind = no_unwind();
            let spare = policy.spare();
            no_unwind.disarm();
            drop(policy);
            self.may_spare.set(spare.is_some());
            let Some(job) = spare else { return };
            self.common.grant(job);
            if !all {
                return;
            }
        }
    }

    /// Whether a started fiber is ready.
    pub(crate) fn holds_any(&self) -> bool {
        self.held.get() != 0
    }

    /// What the policy wants the worker to do while there is nothing to run.
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

    /// Something became ready from inside of the policy, which dropped a closure for instance: it
    /// comes by mail.
    #[cold]
    fn postpone(&self, task: Task) {
        match task {
            Task::Fresh(job) => self.common.group.inject(job),
            // SAFETY: the fiber is ready and does not run before its letter was drained; this is
            // the worker's own thread.
            Task::Started(started) => unsafe {
                self.common.remote().inbox.post(started.into_header(), RESUME, || || ());
            },
        }
    }

    #[inline]
    pub(crate) fn next(&self) -> Option<Task> {
        let mut policy = self.policy.borrow_mut();
        let task = policy.pop();
        if let Some(Task::Started(_)) = task {
            self.held.set(self.held.get().wrapping_sub(1));
        }
        if let Some(upcoming) = policy.upcoming() {
            upcoming.prefetch(self.common.remote().beat.fibers() <= FEW);
        }
        task
    }

    /// Reads the mail, if there is any.
    #[inline]
    pub(crate) fn read_mail(&self) {
        if !self.common.remote().inbox.is_empty() {
            self.drain();
        }
    }

    /// Runs a task until it suspends or ends.
    ///
    /// Inlined into the loop, as is `switch_to`: a return on the worker's side, after fibers have
    /// called and returned on theirs, is one that the processor predicts wrongly (measured: a third
    /// of a ping-pong).
    #[inline(always)]
    pub(crate) fn run(&self, task: Task) {
        match task {
            Task::Started(started) => {
                let header = started.into_header();
                // SAFETY: a fiber that is ready has not ended, so its header is in place.
                let worker = unsafe { header.as_ref() }.worker.get();
                assert!(ptr::eq(worker, &self.common), "a policy gave out a fiber of another worker");
                // SAFETY: a `Started` is the right to run that fiber, which is this worker's.
                let _ = self.switch_to(unsafe { Coroutine::from_header(header) });
            }
            Task::Fresh(job) => self.start(job),
        }
    }

    #[inline(always)]
    fn start(&self, mut job: Job) {
        let pooled = if job.stack_size().is_none() { self.stacks.borrow_mut().pop() } else { None };
        let Some(stack) = pooled.or_else(|| self.new_stack(&job)) else { return self.starve(job) };
        let number = self.started.get();
        self.started.set(number + 1);
        let scheduler = NonNull::from(self as &dyn Scheduler);
        let id = (self.common.index as u64) << 48 | number;
        let header = Header {
            // SAFETY: the worker outlives its fibers: its loop ends when none is left.
            fiber: unsafe { Fiber::for_job(scheduler, id, &mut job) },
            letter: Letter::new(),
            job: Cell::new(Some(job)),
            worker: Cell::new(ptr::from_ref(self).cast()),
            seat: Cell::new(0),
        };
        let fiber = Coroutine::new(stack, header, main);
        fiber.set_label(id, fiber.header().fiber.name());
        self.common.enrol(fiber.header(), fiber.header_ptr());
        // SAFETY: this is its scheduler, and it has not run yet.
        unsafe { fiber.header().fiber.set_host(fiber.header_ptr().as_ptr().cast()) };
        if P::simulates() {
            self.policy.borrow_mut().begins(&fiber.header().fiber);
        }
        if !self.switch_to(fiber) {
            self.common.remote().beat.settle();
        }
    }

    #[cold]
    fn new_stack(&self, job: &Job) -> Option<Stack> {
        match job.stack_size() {
            None => self.stacks.borrow_mut().take().ok(),
            size => thread_stacks::take_of(size).ok(),
        }
    }

    /// Gives the policy of a simulation all closures that lie on shelves.
    #[inline]
    pub(crate) fn adopt(&self) {
        if P::simulates() && !self.is_starved() {
            while let Some(job) = self.common.take_any() {
                self.ready(Task::Fresh(job), Why::Spawned);
            }
        }
    }

    /// Sees to it that the next fiber finds a stack.
    pub(crate) fn reserve_stack(&self) -> std::io::Result<()> {
        let mut stacks = self.stacks.borrow_mut();
        let stack = stacks.take()?;
        stacks.put(stack);
        Ok(())
    }

    /// No stack: somebody else may have one, or this worker later.
    #[cold]
    fn starve(&self, job: Job) {
        self.starved.set(true);
        self.common.group.put_back(job);
    }

    pub(crate) fn is_starved(&self) -> bool {
        self.starved.get()
    }

    /// Lets the worker try again to get a stack.
    pub(crate) fn feed(&self) {
        self.starved.set(false);
    }

    /// Answers whether the fiber has ended.
    #[inline(always)]
    fn switch_to(&self, mut fiber: Coroutine) -> bool {
        // A worker inside of one of these fibers may have left its own behind.
        // SAFETY: this worker runs on this thread, in a loop that ends by setting another. The
        // header stays in place while it is current: it ends after what was current before is set
        // again.
        let before = unsafe {
            set_worker(ptr::from_ref(self).cast());
            segue_core::scheduling::set_current(&raw const fiber.header().fiber)
        };
        // SAFETY: worker loops run outside of handlers.
        let step = unsafe { fiber.resume_outside() };
        // SAFETY: it was current until now.
        unsafe { segue_core::scheduling::set_current(before) };
        match step {
            Step::Suspended => {
                let _ = fiber.into_header();
                false
            }
            Step::Returned => {
                self.bury(fiber);
                true
            }
        }
    }

    #[inline(always)]
    fn bury(&self, fiber: Coroutine) {
        // It has left its contexts, so nobody posts it any more; but an interrupt may still be
        // under way.
        self.common.await_letter(fiber.header());
        self.common.strike(fiber.header());
        self.stacks.borrow_mut().put(fiber.into_stack());
        self.starved.set(false);
    }

    /// Gives back what idle fibers left behind.
    pub(crate) fn trim(&self) {
        while self.stacks.borrow_mut().trim() && !self.common.remote().inbox.has_mail() {}
    }
}

impl<P: Policy> Whole for Local<P> {
    #[inline]
    fn yields(&self, header: NonNull<Header>) {
        // First, since it may unpark another worker, which is foreign code: that must not find a
        // fiber that is ready and runs.
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        let displaced = self.common.displaced.replace(false);
        if displaced {
            // What it gives way to comes first.
            self.accept_closures();
        }
        let why = if displaced { Why::Displaced } else { Why::Yielded };
        self.ready(Task::Started(Started::new(header)), why);
    }

    #[cold]
    fn drain(&self) {
        self.common.remote().inbox.drain(|header, bits| {
            // SAFETY: a fiber with a letter under way has not been taken down: `bury` waits for it.
            let at = unsafe { header.as_ref() };
            if bits & RESUME == 0 && !at.fiber.interrupted() {
                return;
            }
            let worker = at.worker.get();
            if ptr::eq(worker, &self.common) {
                self.ready(Task::Started(Started::new(header)), Why::Resumed);
            } else {
                // SAFETY: it has left for a worker of this thread, which has it in its list, and is
                // suspended by now; its one resume was for us to pass on.
                unsafe { (*worker).resume_by_mail(header) };
            }
        });
    }

    fn let_in(&self) {
        self.read_mail();
        self.accept_closures();
    }

    fn accept(&self, job: Job) {
        self.ready(Task::Fresh(job), Why::Resumed);
    }

    #[cold]
    fn offer_spare(&self, all: bool) {
        barrier(WaitsFor::new("a policy"), || self.share_spare(all));
    }

    fn preempts(&self) -> bool {
        let ask = || {
            self.policy.try_borrow().is_ok_and(|policy| policy.may_preempt()) && {
                // The other halves of its joins may run instead of it.
                self.common.expose_forks();
                self.adopt();
                self.policy.borrow_mut().preempts()
            }
        };
        P::simulates() && barrier(WaitsFor::new("a policy"), ask)
    }
}

/// The header around a fiber.
///
/// # Safety
/// It is a fiber of a worker of this crate's, and has run.
#[inline]
pub(crate) unsafe fn header_of(fiber: &Fiber) -> NonNull<Header> {
    // SAFETY: `start` sets the host to the address of the header before the fiber runs.
    unsafe { NonNull::new_unchecked(fiber.host().cast_mut().cast()) }
}

/// Every fiber of this thread's worker that is suspended.
pub(crate) fn suspended() -> Vec<Stuck> {
    // SAFETY: a worker is in place while it runs on this thread.
    unsafe { worker().as_ref() }.map(Common::report).unwrap_or_default()
}

/// What a [preemption point](segue_core::preemption_point) does in a simulation: the policy may
/// take the turn away from the running fiber.
fn preempt() {
    with_caller(|caller| {
        if let Some((common, fiber)) = caller
            && common.whole().preempts()
        {
            // SAFETY: it is the calling one, and this scheduler is its own (14).
            if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
                // SAFETY: at once.
                unsafe { switch.make() };
            }
        }
    });
}

/// Calls `f` with the worker that runs on this thread and the running fiber, if that is one of the
/// worker's. For code of ours: nothing is captured inside of `f`.
#[inline(always)]
pub(crate) fn with_caller<R>(f: impl FnOnce(Option<(&Common, &Fiber)>) -> R) -> R {
    // SAFETY: the slot of the worker is null, or has one that stays until another is set, in this
    // frame or around it (`set_worker`); the fiber that is current stays for longer than this call
    // (clauses 3 and 4).
    let caller = unsafe { worker().as_ref().zip(segue_core::scheduling::current().as_ref()) };
    f(caller.filter(|(common, fiber)| ptr::addr_eq(fiber.scheduler(), *common)))
}

/// What a fiber's stack begins with.
#[inline]
fn main(header: &Header) {
    // On the thread-backed host each fiber has thread-local variables of its own.
    // SAFETY: worker and header are in place until the fiber has ended, and the worker sets what
    // was current before.
    unsafe {
        set_worker(header.worker.get());
        segue_core::scheduling::set_current(&raw const header.fiber);
    }
    header.job.take().expect("a fiber starts once").run();
}

// SAFETY: 1: `suspend` switches to the worker loop, which switches back only to what `ready` was
// called with: after a resume, or after a yield, which does not come through `suspend`, or after
// `interrupted` won a cancellation. A resume that comes before the switch, from this thread or
// another, waits in the policy or the inbox until the loop looks, which is after the switch. 2:
// headers and policies never leave the thread. 3: `switch_to`. 4: `bury` is called after the job
// has returned, and waits for letters under way; the last access of a resume is the exchange that
// posts the letter, or the push into this thread's policy.
unsafe impl<P: Policy> Scheduler for Local<P> {
    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        // SAFETY: the caller is the running fiber.
        unsafe { segue_fiber::begin_suspend(header_of(fiber)) }
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the fiber has not ended: it waits to be resumed, or is a member of a context, as
        // it is of none before it has run (C2).
        let header = unsafe { header_of(fiber.as_ref()) };
        // An interrupt comes under the lock of a context, where a policy, which is foreign code, is
        // not called (clause 12).
        if why == Wake::Resume && self.is_here() {
            // It runs within a few turns, and its stack may be cold.
            segue_fiber::prefetch(header, true);
            self.ready(Task::Started(Started::new(header)), Why::Resumed);
            return;
        }
        // SAFETY: as above.
        unsafe { self.wake_by_mail(header, why) };
    }

    #[inline]
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: the caller is the running fiber; it is in the policy when it suspends, to be
        // switched to once.
        unsafe {
            self.yields(header_of(fiber));
            self.suspend(fiber)
        }
    }

    #[inline]
    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &Timers {
        &self.timers
    }
}

impl<P: Policy> Spawn for Local<P> {
    #[inline]
    fn spawn(&self, job: Job) {
        if self.is_here() {
            self.ready(Task::Fresh(job), Why::Spawned);
        } else {
            self.common.group.inject(job);
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::<Group>::clone(&self.common.group)
    }
}
