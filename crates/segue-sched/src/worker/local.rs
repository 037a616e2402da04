//! A worker's own state, and the scheduler contract that its fibers see.
//!
//! Used by its owner, the worker loop, and through the contract by every fiber of the worker. Only
//! the worker's thread touches this; wakes from other threads go through `group/remote.rs`.
//!
//! # Passing the turn on
//!
//! A fiber that waits or yields need not switch to the loop for the loop to switch to the next
//! fiber: the fiber asks the policy itself, and switches to that one. This happens if the loop has
//! nothing to do in between. The loop is entered to start a fiber and to end one, to read mail, to
//! start arrivals from others, to give away, and to look around when the window's turns are over:
//! all of that happens in the same turn as if no turn were passed on. A turn that is passed on is
//! counted as the loop counts one, and the policy is asked in no fiber, as by the loop, if on a
//! fiber's stack. (A guest's loop runs in a fiber. There no turn is passed on.)
//!
//! The loop has switched to one fiber and may be switched back to by another: `runs` says which. A
//! closure that the policy gives out instead of a fiber waits in `next` for the loop, which starts
//! that before anything else; until then no other fiber asks the policy.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::worker::common::{Common, Header, INTERRUPT, RESUME, Whole, set_worker, with_caller, worker};
use crate::worker::group::Group;
use crate::worker::inbox::Letter;
use crate::worker::policy::{Coroutine, Goes, Idle, Policy, Seat, Started, Task, Why};
use crate::worker::report::Stuck;
use segue_core::chain::{self, barrier};
use segue_core::scheduling::{Family, Job, Scheduler, Spawn, Timers, Wake};
use segue_core::switch::Switch;
use segue_core::unwind::NoUnwind;
use segue_core::{Fiber, WaitsFor};
use segue_fiber::{Stack, StackPool, thread_stacks};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Up to so many fibers are taken to be in reach of the translation caches, so that fetching more
/// than a line of each pays off.
const FEW: usize = 2048;

/// How many turns ahead a fiber's header is fetched. Measured with 1,000 and 100,000 fibers: 4 and
/// 8 were best, 16 and more lost.
const AHEAD: usize = 4;

/// How many turns ahead the frames are fetched in which a fiber goes on. The header says where they
/// are, and has to be there by then.
const SOON: usize = 1;

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
    /// Whether the policy may have a closure to spare: after an answer of none, not before the next
    /// push, or the worker looks around.
    pub(crate) may_spare: Cell<bool>,
    pub(crate) timers: Timers,
    stacks: RefCell<StackPool>,
    /// Whether a closure found no stack: then this worker starts no other before a stack has come
    /// back, or a sleep has passed.
    starved: Cell<bool>,
    started: Cell<u64>,
    /// The fiber that runs, from the loop's switch to a fiber until the switch back.
    runs: Cell<NonNull<Header>>,
    /// A closure that the policy has given out to a fiber that passes its turn on: the loop starts
    /// that.
    next: Cell<Option<Job>>,
    /// Whether fibers may pass their turns on: not in a guest, since its policy is called in the
    /// outer fiber, and not while a closure waits in `next`.
    passes_on: Cell<bool>,
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
            runs: Cell::new(NonNull::dangling()),
            next: Cell::new(None),
            passes_on: Cell::new(false),
        }
    }

    /// Whether the caller runs on this worker's thread, under this worker.
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
                    goes => self.goes_on(goes),
                }
            }
            Err(_) => self.postpone(task),
        }
        no_unwind.disarm();
    }

    /// The policy has given a closure away.
    #[inline]
    fn goes_on(&self, goes: Goes) {
        match goes {
            Goes::Here => {}
            Goes::Anywhere(job) => self.common.offer(job),
            Goes::To(worker, job) => {
                if let Err(job) = self.send(worker, job) {
                    self.common.offer(job);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Scheduler::wake`].
    #[inline(never)] // Else what it needs is saved by a wake-up on this thread as well.
    unsafe fn wake_by_mail(&self, header: NonNull<Header>, why: Wake) {
        let remote = self.common.remote();
        if why == Wake::Resume {
            self.common.count_crossing();
        }
        // SAFETY: the fiber's header stays until its letter was drained, and this worker until its
        // fibers have ended.
        unsafe {
            match why {
                Wake::Resume => remote.inbox.post(header, RESUME, || remote.waker()),
                Wake::Interrupt => remote.inbox.post(header, INTERRUPT, || remote.waker_after_interrupt()),
            }
        }
    }

    /// Sends a closure to a worker, or gives that back if the worker has ended.
    #[cold]
    fn send(&self, worker: usize, job: Job) -> Result<(), Job> {
        let workers = self.common.group.len();
        assert!(worker < workers, "a policy sent a closure to worker {worker} of {workers}");
        self.common.group.send(worker, job)
    }

    /// A closure that this worker has taken from a shelf: the part that is to start now.
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

    /// Hands over the closures that were sent to this worker, and those from outside if the policy
    /// takes them. Looks at each turn, and as a rule there is nothing.
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
        // One that could not start would come back for ever.
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

    /// The policy's wish for a worker with nothing to run.
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

    /// Something became ready from inside of the policy, which dropped a closure for instance: that
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
        self.fetch_ahead(&policy);
        task
    }

    #[inline(always)]
    fn fetch_ahead(&self, policy: &P) {
        if let Some(upcoming) = policy.upcoming(AHEAD) {
            upcoming.prefetch(self.common.remote().beat.fibers() <= FEW);
            if let Some(soon) = policy.upcoming(SOON) {
                soon.prefetch_frames();
            }
        }
    }

    /// The closure that the policy has given out to a fiber that passed its turn on, and that is to
    /// start.
    #[inline]
    pub(crate) fn given_out(&self) -> Option<Task> {
        self.next.take().map(Task::Fresh)
    }

    /// Reads the mail, if there is any.
    #[inline]
    pub(crate) fn read_mail(&self) {
        if !self.common.remote().inbox.is_empty() {
            self.drain();
        }
    }

    /// Runs a task to its suspension or end.
    ///
    /// Inlined into the loop, as is `switch_to`: a return on the worker's side, after fibers have
    /// called and returned on theirs, is one that the processor predicts wrongly (measured: a third
    /// of a ping-pong).
    #[inline(always)]
    pub(crate) fn run(&self, task: Task) {
        match task {
            Task::Started(started) => {
                let header = started.into_header();
                self.check_ours(header);
                // SAFETY: a `Started` is the right to run that fiber, which is this worker's.
                let _ = self.switch_to(unsafe { Coroutine::from_header(header) });
            }
            Task::Fresh(job) => self.start(job),
        }
    }

    /// Looks at a fiber that the policy gave out.
    #[inline(always)]
    fn check_ours(&self, header: NonNull<Header>) {
        // SAFETY: a fiber that is ready has not ended, so its header is in place.
        let worker = unsafe { header.as_ref() }.worker.get();
        assert!(ptr::eq(worker, &self.common), "a policy gave out a fiber of another worker");
    }

    #[inline(always)]
    fn start(&self, job: Job) {
        let Some(stack) = self.stack_for(&job) else { return self.starve(job) };
        let fiber = self.fiber_for(stack, job);
        if P::simulates() {
            self.policy.borrow_mut().begins(&fiber.header().fiber);
        }
        if !self.switch_to(fiber) {
            self.common.remote().beat.settle();
        }
    }

    #[inline(always)]
    fn stack_for(&self, job: &Job) -> Option<Stack> {
        let pooled = if job.stack_size().is_none() { self.stacks.borrow_mut().pop() } else { None };
        pooled.or_else(|| self.new_stack(job))
    }

    /// The fiber that runs this closure, of this worker from now on.
    #[inline(always)]
    fn fiber_for(&self, stack: Stack, mut job: Job) -> Coroutine {
        let number = self.started.get();
        self.started.set(number + 1);
        let scheduler = NonNull::from(self as &dyn Scheduler);
        let id = (self.common.index as u64) << 48 | number;
        let header = Header {
            // SAFETY: the worker outlives its fibers: its loop ends when none is left.
            fiber: unsafe { Fiber::for_job(scheduler, id, &mut job) },
            letter: Letter::new(),
            worker: Cell::new(ptr::from_ref(self).cast()),
            seat: Cell::new(0),
        };
        let fiber = Coroutine::new(stack, header, main);
        fiber.set_label(id, fiber.header().fiber.name());
        self.common.enrol(fiber.header(), fiber.header_ptr());
        // SAFETY: this is its scheduler, and the fiber has not run yet.
        unsafe {
            fiber.header().fiber.set_host(fiber.header_ptr().as_ptr().cast());
            fiber.header().fiber.keep_job(job);
        }
        fiber
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

    /// Gets a stack for the next fiber.
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

    /// Whether the running fiber can pass its turn on: the loop has nothing to do before the next
    /// one, and a turn is left until the next look around.
    #[inline(always)]
    fn can_pass_on(&self) -> bool {
        let common = &self.common;
        segue_fiber::PASSES_ON
            && !P::simulates()
            && self.passes_on.get()
            && common.until_look.get() > 1
            && !common.has_business()
            && !(self.may_spare.get() && common.is_asked())
            && chain::top().is_null()
            && self.is_here()
    }

    /// The next fiber of the policy, to which the running fiber passes its turn on; a yielding one
    /// was pushed before, and may be the next itself. The returned fiber is the current one from
    /// now on.
    #[inline(always)]
    fn successor(&self, from: NonNull<Header>, yields: bool) -> Option<NonNull<Header>> {
        let no_unwind = no_unwind();
        // The policy, which is foreign code, is called in no fiber, as by the loop: this worker is
        // no guest.
        // SAFETY: null is always allowed.
        unsafe { segue_core::scheduling::set_current(ptr::null()) };
        let mut policy = self.policy.borrow_mut();
        if yields {
            let goes = policy.push(Task::Started(Started::new(from)), Why::Yielded);
            if !matches!(goes, Goes::Here) {
                self.held.set(self.held.get() + 1);
                drop(policy);
                // SAFETY: the caller's header is in place.
                unsafe { segue_core::scheduling::set_current(&raw const (*from.as_ptr()).fiber) };
                self.goes_on(goes);
                no_unwind.disarm();
                return None;
            }
        }
        let next = match policy.pop() {
            Some(Task::Started(started)) => {
                let next = started.into_header();
                if !yields {
                    self.held.set(self.held.get().wrapping_sub(1));
                }
                self.check_ours(next);
                self.fetch_ahead(&policy);
                self.common.until_look.set(self.common.until_look.get() - 1);
                self.common.begin_turn();
                Some(next)
            }
            Some(Task::Fresh(job)) => {
                self.held.set(self.held.get() + usize::from(yields));
                self.next.set(Some(job));
                self.passes_on.set(false);
                None
            }
            None => {
                self.held.set(self.held.get() + usize::from(yields));
                None
            }
        };
        drop(policy);
        // SAFETY: the headers of both are in place. The caller switches to the next one at once, or
        // else goes on.
        unsafe { segue_core::scheduling::set_current(&raw const (*next.unwrap_or(from).as_ptr()).fiber) };
        no_unwind.disarm();
        next
    }

    /// Suspends the running fiber, for the next one or for the loop.
    ///
    /// # Safety
    /// As for [`Scheduler::suspend`].
    #[inline(always)]
    unsafe fn leave(&self, from: NonNull<Header>, next: Option<NonNull<Header>>) -> Option<Switch> {
        let Some(next) = next else {
            // SAFETY: the caller's.
            return unsafe { segue_fiber::begin_suspend(from) };
        };
        if next == from {
            return None;
        }
        self.runs.set(next);
        // SAFETY: the caller's. The next one is ready, which is told once, so it rests and nobody
        // else resumes it; the fiber is this worker's, so this is its thread. No handler is in
        // place. The loop takes the fiber in `runs` for the one that comes back.
        Some(unsafe { segue_fiber::pass_on(from, next) })
    }

    /// Answers whether the fiber has ended, in this turn.
    #[inline(always)]
    fn switch_to(&self, mut fiber: Coroutine) -> bool {
        let turn = self.common.turns.get();
        self.runs.set(fiber.header_ptr());
        // A worker inside of one of these fibers may have left its own behind. SAFETY: this worker
        // runs on this thread, in a loop that ends by setting another. The header stays in place
        // while current, and ends after the former one is set again.
        let before = unsafe {
            set_worker(ptr::from_ref(self).cast());
            segue_core::scheduling::set_current(&raw const fiber.header().fiber)
        };
        // Something may wait in `next` still: a driven scheduler begins with a closure of its own,
        // before its loop looks.
        let next = self.next.take();
        self.passes_on.set(before.is_null() && next.is_none());
        self.next.set(next);
        // SAFETY: worker loops run outside of handlers.
        let _ = unsafe { fiber.resume_outside() };
        // SAFETY: the former header was current until now.
        unsafe { segue_core::scheduling::set_current(before) };
        let _ = fiber.into_header();
        // The fiber may have passed its turn on. SAFETY: the fiber that came back has a header and
        // no other handle, and rests.
        let last = unsafe { Coroutine::from_header(self.runs.get()) };
        if !last.has_returned() {
            let _ = last.into_header();
            return false;
        }
        self.bury(last);
        self.common.turns.get() == turn
    }

    #[inline(always)]
    fn bury(&self, fiber: Coroutine) {
        // The fiber has left its contexts, so nobody posts its letter any more; but an interrupt
        // may still be under way.
        self.common.await_letter(fiber.header());
        self.common.strike(fiber.header());
        self.stacks.borrow_mut().put(fiber.into_stack());
        self.starved.set(false);
    }

    /// Gives back the leftovers of idle fibers.
    pub(crate) fn trim(&self) {
        self.common.ebb();
        while self.stacks.borrow_mut().trim() && !self.common.remote().inbox.has_mail() {}
    }
}

impl<P: Policy> Whole for Local<P> {
    #[inline]
    fn yields(&self, header: NonNull<Header>) {
        // First, since this may unpark another worker, which is foreign code: that must not find a
        // fiber that is ready and runs.
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        let displaced = self.common.displaced.replace(false);
        if displaced {
            // The fibers for which it gives way come first.
            self.accept_closures();
        }
        let why = if displaced { Why::Displaced } else { Why::Yielded };
        self.ready(Task::Started(Started::new(header)), why);
    }

    #[cold]
    fn drain(&self) {
        self.common.remote().inbox.drain(|header, bits| {
            // SAFETY: a fiber with a letter under way has not been taken down: `bury` waits for
            // that.
            let at = unsafe { header.as_ref() };
            if bits & RESUME == 0 && !at.fiber.interrupted() {
                return;
            }
            let worker = at.worker.get();
            if ptr::eq(worker, &self.common) {
                self.ready(Task::Started(Started::new(header)), Why::Resumed);
            } else {
                // SAFETY: the fiber has left for a worker of this thread, which has it in its list,
                // and is suspended by now; its one resume was for us to pass on.
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
                // The other halves of its joins may run instead of this fiber.
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

/// Every fiber of this thread's worker that is suspended, but for the one with this number.
pub(crate) fn suspended(but: Option<u64>) -> Vec<Stuck> {
    // SAFETY: a worker is in place during its run on this thread.
    unsafe { worker().as_ref() }.map(|worker| worker.report(but)).unwrap_or_default()
}

/// The effect of a [preemption point](segue_core::preemption_point) in a simulation: the policy may
/// take the turn away from the running fiber.
fn preempt() {
    with_caller(|caller| {
        if let Some((common, fiber)) = caller
            && common.whole().preempts()
        {
            // SAFETY: the fiber is the calling one, and this scheduler is its own (14).
            if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
                // SAFETY: at once.
                unsafe { switch.make() };
            }
        }
    });
}

/// The beginning of a fiber's stack.
#[inline]
fn main(header: &Header) {
    // On the thread-backed host each fiber has thread-local variables of its own. SAFETY: worker
    // and header are in place until the fiber has ended, and the worker sets the former one.
    unsafe {
        set_worker(header.worker.get());
        segue_core::scheduling::set_current(&raw const header.fiber);
    }
    // SAFETY: the closure is this fiber's own, and kept there since the making.
    unsafe { header.fiber.begin() }.run();
}

// SAFETY: 1: `suspend` switches to the worker loop or to the fiber that gets the turn. Both go on
// only with fibers that the policy has given out, and so with those that `ready` or `successor` has
// pushed: after a resume, or after a yield, which does not come through `suspend`, or after
// `interrupted` won a cancellation. A resume that comes before the switch, from this thread or
// another, waits in the policy or the inbox until somebody looks: the loop, or a fiber that passes
// its turn on. A fiber that finds itself was resumed or has yielded, and goes on. 2: headers and
// policies never leave the thread. 3: `switch_to` and `successor`. 4: `bury` is called after the
// job has returned, and waits for letters under way; the last access of a resume is the exchange
// that posts the letter, or the push into this thread's policy.
unsafe impl<P: Policy> Scheduler for Local<P> {
    #[inline]
    fn leave_to_park(&self) -> bool {
        self.common.idles_in_park.get() && self.common.poll_soon()
    }

    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        // SAFETY: the caller is the running fiber, and waits.
        unsafe {
            let header = header_of(fiber);
            let next = if self.can_pass_on() { self.successor(header, false) } else { None };
            self.leave(header, next)
        }
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the fiber has not ended: the fiber waits for a resume, or is a member of a
        // context, which none is before its run (C2).
        let header = unsafe { header_of(fiber.as_ref()) };
        // An interrupt comes under the lock of a context, where a policy, which is foreign code, is
        // not called (clause 12).
        if why == Wake::Resume && self.is_here() {
            // The fiber runs within a few turns, and its stack may be cold.
            segue_fiber::prefetch(header, true);
            self.ready(Task::Started(Started::new(header)), Why::Resumed);
            return;
        }
        // SAFETY: as above.
        unsafe { self.wake_by_mail(header, why) };
    }

    #[inline]
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: the caller is the running fiber; it is in the policy at its suspension, for one
        // switch.
        unsafe {
            let header = header_of(fiber);
            let passes_on = self.can_pass_on() && self.common.forks.is_empty() && !self.common.displaced.get();
            let next = if passes_on {
                self.successor(header, true)
            } else {
                self.yields(header);
                None
            };
            self.leave(header, next)
        }
    }

    #[inline]
    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &Timers {
        &self.timers
    }

    fn keeps(&self, family: &Family) -> bool {
        self.common.group.keeps(family)
    }

    #[cold]
    fn start_here(&self, job: Job) -> Result<(), Job> {
        let Some(stack) = self.stack_for(&job) else { return Err(job) };
        let header = self.fiber_for(stack, job).into_header();
        // The fiber has not run, and rests at its beginning.
        self.ready(Task::Started(Started::new(header)), Why::Spawned);
        Ok(())
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
