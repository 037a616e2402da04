//! The part of a worker that does not depend on its policy, and what lies at the top of a fiber's stack.
//!
//! Used by `local`, whose [`Local`](crate::local::Local) begins with it, and by everything that finds the worker of its thread: fork-join, moves, checkpoints.
//! All of it is touched by the worker's thread alone, except [`Remote`], which wakes from other threads go through.
#![allow(unsafe_code)] // Workers and fibers are reached by their addresses.

use crate::checkpoint::Slice;
use crate::fork::Forks;
use crate::group::{Group, Remote, reclaim};
use crate::inbox::{Letter, Post};
use crate::policy::Switch;
use crate::report::Stuck;
use segue_core::{Fiber, Job, JobHeader, Scheduler};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

thread_local! {
    /// The worker that runs on this thread: the innermost, if one runs inside a fiber of another.
    static WORKER: Cell<*const Common> = const { Cell::new(ptr::null()) };
}

/// The worker that runs on this thread, or null.
#[inline]
pub(crate) fn worker() -> *const Common {
    WORKER.with(Cell::get)
}

/// The worker that runs on this thread, the one in whose fiber it runs, and so on outwards. For use on the spot.
pub(crate) fn around<'a>() -> impl Iterator<Item = &'a Common> {
    let mut at = worker();
    std::iter::from_fn(move || {
        // SAFETY: the worker that runs on this thread is in place, and so is the one in whose fiber it runs.
        let worker = unsafe { at.as_ref() }?;
        at = worker.outer.get();
        Some(worker)
    })
}

/// Makes `worker` the one that runs on this thread, and gives back what was.
#[inline]
pub(crate) fn set_worker(worker: *const Common) -> *const Common {
    WORKER.with(|slot| slot.replace(worker))
}

pub(crate) const RESUME: u8 = 1;
pub(crate) const INTERRUPT: u8 = 2;

/// What lies at the top of a fiber's stack.
///
/// The fiber's host pointer leads here.
pub(crate) struct Header {
    pub(crate) fiber: Fiber,
    pub(crate) letter: Letter<Header>,
    pub(crate) job: Cell<Option<Job>>,
    pub(crate) worker: Cell<*const Common>,
    /// Where it stands in its worker's list of the living.
    pub(crate) seat: Cell<usize>,
}

// SAFETY: it answers with the one field.
unsafe impl Post for Header {
    #[inline]
    fn letter(&self) -> &Letter<Self> {
        &self.letter
    }
}

/// The part of a worker that does not depend on its policy.
pub(crate) struct Common {
    pub(crate) group: Arc<Group>,
    pub(crate) index: usize,
    pub(crate) forks: Forks,
    remote: NonNull<Remote>,
    pub(crate) calls: &'static Calls,
    /// The whole worker, once it stays in its place.
    pub(crate) scheduler: Cell<Option<NonNull<dyn Scheduler>>>,
    pub(crate) living: RefCell<Vec<NonNull<Header>>>,
    /// How many of its fibers are with other workers of this thread, and will come back.
    pub(crate) away: Cell<usize>,
    /// Whether reports have backtraces.
    pub(crate) backtraces: Cell<bool>,
    /// Counts the turns.
    pub(crate) turns: Cell<usize>,
    pub(crate) slice: Slice,
    /// How many turns are left until the worker looks around: at its park and its timers.
    pub(crate) until_look: Cell<u32>,
    /// Whether the running fiber yields because of work from outside.
    pub(crate) displaced: Cell<bool>,
    /// The worker in whose fiber this one runs, or null.
    pub(crate) outer: Cell<*const Common>,
    /// The shelf of a worker that has the group for itself.
    alone: Option<RefCell<VecDeque<Job>>>,
}

/// What depends on the policy all the same. Each is called with the head of a `Local<P>`, on whose thread this is.
pub(crate) struct Calls {
    /// Tells the policy that the running fiber gives up its turn.
    pub(crate) yields: unsafe fn(NonNull<Common>, &Fiber),
    /// Reads the mail.
    pub(crate) read_mail: unsafe fn(NonNull<Common>),
    /// Hands a closure to the policy: the next poll of a task.
    pub(crate) accept: unsafe fn(NonNull<Common>, Job),
    /// Offers a closure of the policy's, if it gives one.
    pub(crate) shares: unsafe fn(NonNull<Common>, bool),
    /// Reads the mail and accepts closures.
    pub(crate) lets_in: unsafe fn(NonNull<Common>),
}

impl Common {
    pub(crate) fn new(group: Arc<Group>, index: usize, calls: &'static Calls) -> Self {
        let alone = (group.len() == 1).then(RefCell::default);
        Self {
            forks: Forks::new(),
            remote: NonNull::from(group.remote(index)),
            group,
            index,
            alone,
            calls,
            scheduler: Cell::new(None),
            living: RefCell::new(Vec::new()),
            away: Cell::new(0),
            backtraces: Cell::new(false),
            turns: Cell::new(0),
            slice: Slice::new(),
            outer: Cell::new(ptr::null()),
            displaced: Cell::new(false),
            until_look: Cell::new(1),
        }
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        // SAFETY: it points into the group, which this worker owns a share of.
        unsafe { self.remote.as_ref() }
    }

    /// The worker's address, for what leads back to the whole `Local`: a reference to its head is good for the head alone. Null until it has settled down.
    #[inline]
    pub(crate) fn at(&self) -> *const Self {
        self.scheduler.get().map_or(ptr::null(), |scheduler| scheduler.as_ptr().cast_const().cast())
    }

    /// What [`Calls`] are called with.
    ///
    /// # Safety
    /// The worker has settled down, as it has before its first fiber runs.
    #[inline]
    unsafe fn whole(&self) -> NonNull<Self> {
        // SAFETY: as the caller promises: then it is in place.
        unsafe { NonNull::new_unchecked(self.at().cast_mut()) }
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
        self.away.get() != 0 || !self.living.borrow().is_empty()
    }

    /// Takes a fiber into the list of the living.
    #[inline]
    pub(crate) fn enrol(&self, header: &Header, at: NonNull<Header>) {
        let mut living = self.living.borrow_mut();
        header.seat.set(living.len());
        living.push(at);
    }

    /// Takes a fiber out of the list of the living.
    #[inline]
    pub(crate) fn strike(&self, header: &Header) {
        let mut living = self.living.borrow_mut();
        let seat = header.seat.get();
        living.swap_remove(seat);
        if let Some(moved) = living.get(seat) {
            // SAFETY: the living are in place.
            unsafe { moved.as_ref() }.seat.set(seat);
        }
    }

    /// Waits until nobody has a letter to a fiber under way, which is running and in no context.
    #[inline]
    pub(crate) fn await_letter(&self, header: &Header) {
        while header.letter.is_pending() {
            // SAFETY: this is the thread of the worker, which has fibers.
            unsafe { (self.calls.read_mail)(self.whole()) };
            std::hint::spin_loop();
        }
    }

    /// Has a fiber of this worker resumed, by mail.
    ///
    /// # Safety
    /// It is suspended, or will be before this thread comes to the worker's loop; this is its one resume.
    pub(crate) unsafe fn resume_by_mail(&self, header: NonNull<Header>) {
        let remote = self.remote();
        // SAFETY: the header stays until its letter was drained, and the worker is in place.
        unsafe { remote.inbox.post(header, RESUME, || remote.waker()) };
    }

    /// Every fiber that is suspended.
    pub(crate) fn report(&self) -> Vec<Stuck> {
        let is_suspended = |header: &&NonNull<Header>| {
            // SAFETY: the living are in place.
            !ptr::eq(unsafe { &raw const header.as_ref().fiber }, segue_core::current())
        };
        let describe = |header: &NonNull<Header>| {
            // SAFETY: the living are in place.
            let fiber = unsafe { &header.as_ref().fiber };
            // SAFETY: it does not run, and a fiber's handle is a pointer to its header. It is only looked at.
            let backtrace = || unsafe { ManuallyDrop::new(Switch::from_header(*header)) }.backtrace();
            Stuck {
                fiber: fiber.to_string(),
                waits_for: fiber.waits_for(),
                backtrace: self.backtraces.get().then(backtrace),
            }
        };
        self.living.borrow().iter().filter(is_suspended).map(describe).collect()
    }

    /// Whether somebody is seen to wait for the running fiber to give up its turn, or would have some of its work.
    #[inline]
    pub(crate) fn is_called(&self) -> bool {
        let remote = self.remote();
        !remote.inbox.is_empty() || remote.is_wanted() || self.group.is_called() || remote.has_sent()
    }

    /// Gives the oldest private fork, or else a closure of the policy's, to an idle worker that has asked. For the running fiber.
    pub(crate) fn give(&self) {
        self.remote().set_wanted(false);
        match self.forks.expose_oldest() {
            Some(job) => self.offer(job),
            None => {
                self.share(false);
            }
        }
    }

    /// Offers a closure of the policy's to those who have nothing to do, if it gives one, or `all` that it gives. For the running fiber.
    pub(crate) fn share(&self, all: bool) {
        // SAFETY: this is the thread of the worker, which has fibers.
        unsafe { (self.calls.shares)(self.whole(), all) };
    }

    /// Reads the mail and accepts closures, so that what comes from others is ready before the running fiber yields. For that fiber.
    pub(crate) fn let_in(&self) {
        // SAFETY: this is the thread of the worker, which has fibers.
        unsafe { (self.calls.lets_in)(self.whole()) };
    }

    /// Offers a closure to all workers of the group.
    #[inline]
    pub(crate) fn offer(&self, job: Job) {
        match &self.alone {
            Some(shelf) => shelf.borrow_mut().push_back(job),
            None => self.group.offer(self.index, job),
        }
    }

    /// Takes back a certain closure that this worker offered, if nobody has started it.
    pub(crate) fn reclaim(&self, header: NonNull<JobHeader>) -> Option<Job> {
        match &self.alone {
            Some(shelf) => reclaim(&mut shelf.borrow_mut(), header),
            None => self.group.reclaim(self.index, header),
        }
        // It was put back among those from outside if it has found no stack.
        .or_else(|| self.group.reclaim_outside(header))
    }

    /// Takes the newest closure that this worker offered.
    #[inline]
    pub(crate) fn take_own(&self) -> Option<Job> {
        match &self.alone {
            Some(shelf) => shelf.borrow_mut().pop_back(),
            None => self.group.take_own(self.index),
        }
    }

    /// Whether another worker would have a closure, as it looks.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.alone.is_none() && (self.group.has_sleepers() || self.remote().is_wanted())
    }

    /// Whether a closure lies on this worker's shelf, as it looks.
    pub(crate) fn has_offers(&self) -> bool {
        self.group.has_offers(self.index)
    }

    /// Takes a closure from outside, else the newest that this worker offered.
    #[inline]
    pub(crate) fn take_fresh(&self) -> Option<Job> {
        self.group.take_outside().or_else(|| self.take_own())
    }

    /// Looks for a closure: its own newest, then the oldest from outside, then the oldest of another worker.
    #[inline]
    pub(crate) fn find(&self) -> Option<Job> {
        self.take_own().or_else(|| self.group.take_outside()).or_else(|| match self.alone {
            Some(_) => None,
            None => self.group.take_from_others(self.index),
        })
    }
}
