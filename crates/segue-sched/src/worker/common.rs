//! The part of a worker that does not depend on its policy.
//!
//! [`Local`](crate::worker::local::Local) begins with this; all code that finds the worker of its
//! thread uses this part: fork-join, moves, checkpoints. Only the worker's thread touches this;
//! wakes from other threads go through `group/remote.rs`.
#![allow(unsafe_code)] // Workers and fibers are reached by their addresses.

use crate::recorder::Pen;
use crate::worker::ebb::{KEPT, ebb};
use crate::worker::forks::Forks;
use crate::worker::group::{Group, Remote};
use crate::worker::header::{Coroutine, Header, RESUME};
use crate::worker::placing::Placing;
use crate::worker::roll::Roll;
use crate::worker::slice::Slice;
use crate::worker::snapshot::Residence;
use crate::worker::stuck::Stuck;
use segue_core::Fiber;
use segue_core::scheduling::{Job, Scheduler, Spawn};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

segue_core::plain_thread_local! {
    /// The worker that runs on this thread: the innermost, if one runs inside a fiber of another.
    static WORKER: Cell<*const Common> = Cell::new(ptr::null());
}

/// The worker that runs on this thread, or null.
#[inline]
pub(crate) fn worker() -> *const Common {
    WORKER.with(Cell::get)
}

/// Calls `f` with the worker that runs on this thread and the running fiber, if that is one of the
/// worker's, and not of another scheduler that runs in one of these. For code of ours: nothing is
/// captured inside of `f`.
#[inline(always)]
pub(crate) fn with_caller<R>(f: impl FnOnce(Option<(&Common, &Fiber)>) -> R) -> R {
    // SAFETY: the slot of the worker is null, or has one that stays until another is set, in this
    // frame or around it (`set_worker`); the fiber that is current runs `f`, and stays for longer
    // (clauses 3 and 4).
    let caller = unsafe { worker().as_ref().zip(segue_core::scheduling::current().as_ref()) };
    f(caller.filter(|(common, fiber)| common.has(fiber)))
}

/// The first worker of `group`, if there is one, of these: the worker that runs on this thread, the
/// outer worker if a fiber of that one runs this worker, and so on outwards. All of them stay as
/// long as the caller runs.
pub(crate) fn around_of(group: &Arc<Group>) -> Option<NonNull<Common>> {
    let mut at = worker();
    // SAFETY: the argument of `set_worker` is in place, and so is an outer worker while a guest
    // runs in one of its fibers.
    while let Some(worker) = unsafe { at.as_ref() } {
        if Arc::ptr_eq(&worker.group, group) {
            return NonNull::new(at.cast_mut());
        }
        at = worker.outer.get();
    }
    None
}

/// Every fiber of this thread's worker that is suspended, but for the one with this number.
pub(crate) fn suspended(but: Option<u64>) -> Vec<Stuck> {
    // SAFETY: a worker is in place during its run on this thread.
    unsafe { worker().as_ref() }.map(|worker| worker.report(but)).unwrap_or_default()
}

/// Makes `worker` the one that runs on this thread, and gives back the former one.
///
/// # Safety
/// The pointer is null, or the head of a `Local` on this thread that stays until another is set.
#[inline]
pub(crate) unsafe fn set_worker(worker: *const Common) -> *const Common {
    WORKER.with(|slot| slot.replace(worker))
}

/// Runs `f` as if there were no worker on this thread.
pub(crate) fn without_worker<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(*const Common);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the worker was in place before, and stays as long as its running code, which
            // is this.
            unsafe { set_worker(self.0) };
        }
    }
    // SAFETY: null is always allowed.
    let _restore = Restore(unsafe { set_worker(ptr::null()) });
    f()
}

/// The next poll of an async task goes to the worker that wakes the task, if one of these, else to
/// any free one.
impl Spawn for Group {
    fn spawn(&self, job: Job) {
        // SAFETY: the worker that runs on this thread is in place.
        match unsafe { worker().as_ref() } {
            Some(worker) if ptr::eq(&raw const *worker.group, self) => worker.whole().accept(job),
            _ => self.inject(job),
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        self.me.upgrade().expect("a group lies in an `Arc`")
    }
}

/// The turns of a busy worker before it passes the requests that fibers have left on to its park.
/// More would let one fiber's read wait for long beside others that compute; fewer would be more
/// system calls where there are many connections.
const UNTIL_POLL: u32 = 32;

/// The part of a worker that does not depend on its policy.
pub(crate) struct Common {
    pub(crate) group: Arc<Group>,
    pub(crate) index: usize,
    pub(crate) forks: Forks,
    remote: NonNull<Remote>,
    /// The whole worker, once in its final place.
    whole: Cell<Option<NonNull<dyn Whole>>>,
    /// The living fibers, and the coarse time in [`TICK`]s since the worker began.
    pub(crate) residence: Residence,
    /// How many of its fibers are with other workers of this thread, and will come back.
    pub(crate) away: Cell<usize>,
    /// In a simulation: whether the running fiber, when it yields next, goes on only when nothing
    /// else is ready.
    pub(crate) settles: OnceCell<Rc<Cell<bool>>>,
    /// How many turns were taken off `until_look`, for a poll of the park in between.
    pub(crate) deferred_look: Cell<u32>,
    /// See [`Scheduler::leave_to_park`].
    pub(crate) idles_in_park: Cell<bool>,
    /// Whether reports have backtraces.
    pub(crate) backtraces: Cell<bool>,
    /// Counts the turns.
    pub(crate) turns: Cell<usize>,
    pub(crate) slice: Slice,
    /// How many turns are left until the worker looks around: at its park and its timers.
    pub(crate) until_look: Cell<u32>,
    /// Whether the running fiber yields because of work from outside.
    pub(crate) displaced: Cell<bool>,
    /// The worker that this one is a guest of, or null.
    pub(crate) outer: Cell<*const Common>,
    /// Whether the worker starts closures itself or finds them another place.
    pub(crate) placing: Placing,
    /// Writes down the events of the worker.
    pub(crate) pen: Pen,
    /// The shelf of a worker that has the group for itself.
    pub(super) alone: Option<RefCell<VecDeque<Job>>>,
}

/// The unit of a worker's coarse time: 2^32 of these are 497 days.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Once in so many turns, a power of two, a worker starts the oldest closure that it has offered,
/// so that none waits for ever behind a chain of spawns.
pub(crate) const OLDEST: usize = 64;

/// The parts that depend on the policy all the same. For the worker's thread.
pub(crate) trait Whole: Scheduler {
    /// Tells the policy that the running fiber gives up its turn.
    ///
    /// # Safety
    /// The header is the running fiber's, which leaves at once.
    unsafe fn yields(&self, header: NonNull<Header>);
    /// Takes the letters out of the mail.
    fn drain(&self);
    /// Reads the mail and accepts closures, so that arrivals from others are ready before the
    /// running fiber yields.
    fn let_in(&self);
    /// Hands a closure to the policy: the next poll of a task.
    fn accept(&self, job: Job);
    /// Offers a closure of the policy's to idle workers, if the policy gives one: they get the next
    /// when that was taken. Or `all` that the policy gives.
    fn offer_spare(&self, all: bool);
    /// Whether a policy that simulates takes the turn away from the running fiber.
    fn preempts(&self) -> bool;
}

impl Common {
    /// Whether the caller is a fiber of this worker's; and neither a fiber of another scheduler
    /// that runs in one of these, nor code that runs there as on a plain thread.
    #[inline(always)]
    pub(crate) fn runs_caller(&self) -> bool {
        // SAFETY: the fiber that is current stays for longer than this call (clauses 3 and 4).
        let fiber = unsafe { segue_core::scheduling::current().as_ref() };
        fiber.is_some_and(|fiber| self.has(fiber))
    }

    /// Whether the fiber is this worker's.
    #[inline(always)]
    fn has(&self, fiber: &Fiber) -> bool {
        ptr::addr_eq(fiber.scheduler(), self)
    }

    pub(crate) fn new(group: Arc<Group>, index: usize) -> Self {
        let alone = (group.len() == 1).then(RefCell::default);
        let placing = Placing::new(group.len() == 1);
        Self {
            forks: Forks::new(),
            remote: NonNull::from(group.remote(index)),
            group,
            index,
            alone,
            whole: Cell::new(None),
            residence: Residence { living: Roll::new(), time: Cell::new(0), began: Cell::new(None) },
            away: Cell::new(0),
            settles: OnceCell::new(),
            deferred_look: Cell::new(0),
            idles_in_park: Cell::new(false),
            backtraces: Cell::new(false),
            turns: Cell::new(0),
            slice: Slice::new(),
            outer: Cell::new(ptr::null()),
            displaced: Cell::new(false),
            placing,
            until_look: Cell::new(1),
            pen: Pen::new(),
        }
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        // SAFETY: the pointer leads into the group, which this worker owns a share of.
        unsafe { self.remote.as_ref() }
    }

    /// Has the worker poll its park within some turns: see [`Scheduler::leave_to_park`].
    #[inline]
    pub(crate) fn poll_soon(&self) -> bool {
        let left = self.until_look.get();
        if left > UNTIL_POLL {
            self.deferred_look.set(self.deferred_look.get() + (left - UNTIL_POLL));
            self.until_look.set(UNTIL_POLL);
        }
        true
    }

    /// The worker is in its final place.
    ///
    /// # Safety
    /// That is the worker which has this as its head, and stays there as long as its head is found.
    pub(crate) unsafe fn settle_down(&self, whole: NonNull<dyn Whole>) {
        self.whole.set(Some(whole));
    }

    /// The worker's address, for the way back to the whole `Local`: a reference to its head is good
    /// for the head alone. Null before the worker has settled down.
    #[inline]
    pub(crate) fn at(&self) -> *const Self {
        self.whole.get().map_or(ptr::null(), |whole| whole.as_ptr().cast_const().cast())
    }

    /// The whole worker, which has settled down, before its first fiber runs.
    #[inline]
    pub(crate) fn whole(&self) -> &dyn Whole {
        // SAFETY: the pointer was set before anybody could find this worker, and its target is in
        // place as long as its head is.
        unsafe { self.whole.get().unwrap_unchecked().as_ref() }
    }

    /// The same, for a fiber's header.
    pub(crate) fn scheduler(&self) -> NonNull<dyn Scheduler> {
        self.whole.get().expect("a worker with fibers has settled down")
    }

    /// Runs `f`, the worker's loop, while the thread is this worker's.
    pub(crate) fn here<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the worker is borrowed until the other, outer one is set again.
        let outer = unsafe { set_worker(self.at()) };
        let before = self.outer.replace(outer);
        let result = f();
        self.outer.set(before);
        // SAFETY: as above.
        unsafe { set_worker(outer) };
        result
    }

    /// Runs `f` while the thread is that of the worker around this one. This worker's loop makes
    /// the call.
    pub(crate) fn outside<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: `here` has found that worker, in a call that has not returned; this one is
        // borrowed.
        unsafe { set_worker(self.outer.get()) };
        let result = f();
        // SAFETY: as above.
        unsafe { set_worker(self.at()) };
        result
    }

    /// Notes the time, for the fibers that suspend from now on.
    pub(crate) fn set_time(&self, now: Instant) {
        let began = self.residence.began.get().unwrap_or(now);
        self.residence.began.set(Some(began));
        let ticks = now.saturating_duration_since(began).as_nanos() / TICK.as_nanos();
        self.residence.time.set(ticks as u32);
    }

    /// Another turn begins, which the monitor may see.
    #[inline]
    pub(crate) fn begin_turn(&self) {
        let turn = self.turns.get().wrapping_add(1);
        self.turns.set(turn);
        self.remote().beat.set(turn);
    }

    /// Whether a fiber of this worker has not ended yet.
    #[inline]
    pub(crate) fn has_fibers(&self) -> bool {
        self.away.get() != 0 || !self.residence.living.is_empty()
    }

    /// Whether the worker has so many fibers that it looks at the others before the start of
    /// another one.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.placing.is_reached(self.remote().beat.fibers())
    }

    /// Takes a fiber into the list of the living.
    ///
    /// # Safety
    /// The header is a fiber's of this thread, and stays in place until the fiber is
    /// [struck](Common::strike) off.
    #[inline]
    pub(crate) unsafe fn enrol(&self, at: NonNull<Header>) {
        // SAFETY: the header is in place, by the contract.
        let header = unsafe { at.as_ref() };
        header.seat.set(self.residence.living.push(at));
        self.remote().beat.set_fibers(self.residence.living.len());
    }

    /// Takes a fiber out of the list of the living.
    #[inline]
    pub(crate) fn strike(&self, header: &Header) {
        let seat = header.seat.get();
        let moved = self.residence.living.swap_remove(seat);
        self.remote().beat.set_fibers(self.residence.living.len());
        if let Some(moved) = moved {
            // SAFETY: the living are in place.
            unsafe { moved.as_ref() }.seat.set(seat);
        }
    }

    /// Gives up the room that bursts have left: the worker is about to sleep.
    pub(crate) fn ebb(&self) {
        drop(self.alone.as_ref().and_then(|shelf| ebb(&mut shelf.borrow_mut())));
        self.residence.living.ebb(KEPT);
    }

    /// Waits until nobody has a letter to a fiber under way, which is running and in no context.
    #[inline]
    pub(crate) fn await_letter(&self, header: &Header) {
        while header.letter.is_pending() {
            self.whole().drain();
            std::hint::spin_loop();
        }
    }

    /// Has a fiber of this worker resumed, by mail.
    ///
    /// # Safety
    /// The fiber is suspended, or will be before this thread comes to the worker's loop; this is
    /// its one resume.
    pub(crate) unsafe fn resume_by_mail(&self, header: NonNull<Header>) {
        let remote = self.remote();
        // SAFETY: the header stays until its letter was drained, and the worker is in place.
        unsafe { remote.inbox.post(header, RESUME, || remote.waker()) };
    }

    /// The fiber of this worker with this number is resumed from another thread: a worker of the
    /// group counts that.
    pub(crate) fn count_crossing(&self, id: u64) {
        // SAFETY: the worker that runs on this thread is in place.
        if let Some(sender) = unsafe { worker().as_ref() }
            && Arc::ptr_eq(&sender.group, &self.group)
        {
            sender.placing.cross();
            if sender.pen.has_room() {
                sender.pen.woke(id);
            }
        }
    }

    /// Every fiber that is suspended, but for the one with this number.
    pub(crate) fn report(&self, but: Option<u64>) -> Vec<Stuck> {
        let is_suspended = |header: &&NonNull<Header>| {
            // SAFETY: the living are in place.
            let fiber = unsafe { &header.as_ref().fiber };
            !ptr::eq(fiber, segue_core::scheduling::current()) && Some(fiber.id()) != but
        };
        let describe = |header: &NonNull<Header>| {
            // SAFETY: the living are in place.
            let fiber = unsafe { &header.as_ref().fiber };
            // SAFETY: the fiber does not run, and a fiber's handle is a pointer to its header. The
            // handle is only looked at.
            let backtrace = || unsafe { ManuallyDrop::new(Coroutine::from_header(*header)) }.backtrace();
            let waits_for = fiber.waits_for();
            // Cargo compiles a program by relative paths. `std::io::copy`, or a library, has called
            // the operation; the calls name the program's line.
            let is_foreign = waits_for.is_some_and(|waits| Path::new(waits.at.file()).is_absolute());
            Stuck {
                fiber: fiber.to_string(),
                waits_for,
                network: fiber.waits_for_kernel(),
                backtrace: (is_foreign || self.backtraces.get()).then(backtrace),
            }
        };
        self.residence.living.iter().filter(|header| is_suspended(&header)).map(|header| describe(&header)).collect()
    }
}
