//! Where a caller's jobs go: to the scheduler of its fiber; from a plain thread to the runtime that
//! the called function names, or to a thread each.
//!
//! Used by builders and scopes, which are made with the runtime behind plain threads. No crate sets
//! this for others: the effect of a spawn depends on the function that is called, and not on
//! earlier calls.
#![allow(unsafe_code)] // A family is reached by its address.

use crate::contract::current;
use crate::contract::fiber::{Fiber, Spawn};
use crate::contract::job::{Given, Job};
use crate::sim::preemption::preemption_point;
use crate::spawn::async_task::{self, Ending};
use crate::spawn::family::Family;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::task;
use crate::thread::plain;
use crate::tree::cancelled::Cancelled;
use crate::values::locals;
use std::ptr;

/// Where the caller spawns.
pub(crate) struct Origin<'a> {
    /// `None` on a plain thread.
    fiber: Option<&'a Fiber>,
    spawner: &'a dyn Spawn,
    /// The family of fibers that the caller detaches.
    pub(crate) family: Option<&'a Family>,
    family_stays: Stays,
}

/// How long the family of a caller is in place, for fibers that the caller does not wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    /// A static family.
    Always,
    /// As long as the caller's scheduler has its jobs, if that scheduler keeps the family
    /// (`Scheduler::keeps`).
    WithScheduler,
    Unknown,
}

impl<'a> Origin<'a> {
    /// Where the caller spawns; for a plain thread, `start` says that.
    ///
    /// # Safety
    /// The origin is used in the call of its maker alone: the calling fiber and its family are in
    /// place as long.
    #[inline(always)]
    pub(crate) unsafe fn of_caller(start: StartDefault) -> Self {
        // SAFETY: the slot is null, or has the header of the fiber that runs this (clauses 3 and
        // 4), which stays until its job has returned: after the maker's call.
        let fiber: Option<&'a Fiber> = unsafe { current::current().as_ref() };
        let (spawner, family, family_stays) = match fiber {
            Some(fiber) => (fiber.scheduler().spawner(), fiber.detaches_to(), Stays::WithScheduler),
            None => match start() {
                Some((spawner, family)) => (spawner, Some(family), Stays::Always),
                // SAFETY: the family of the job that this thread runs, which outlives the job (J5).
                None => (thread_spawner(), unsafe { Family::of_id(current::family()).as_ref() }, Stays::Unknown),
            },
        };
        Self { fiber, spawner, family, family_stays }
    }

    /// The same, under another scheduler.
    pub(crate) fn on(self, spawner: &'a dyn Spawn) -> Self {
        let family_stays = if self.family_stays == Stays::Always { Stays::Always } else { Stays::Unknown };
        Self { spawner, family_stays, ..self }
    }

    /// The family of fibers that a new member of `family` detaches: the caller's, unless that may
    /// end before the member does. (A fiber of a run inside of a scope's body spawns in that
    /// scope.)
    #[inline(always)]
    fn detached(&self, family: Option<&Family>) -> *const Family {
        let own = address(self.family);
        if family.is_none_or(|family| family.is_within(own)) { own } else { self.detached_from_afar(own) }
    }

    #[cold]
    #[inline(never)]
    fn detached_from_afar(&self, own: *const Family) -> *const Family {
        let keeps = |fiber: &Fiber| self.family.is_some_and(|family| fiber.scheduler().keeps(family.id()));
        match self.family_stays {
            Stays::Always => own,
            Stays::WithScheduler if self.fiber.is_some_and(keeps) => own,
            _ => ptr::null(),
        }
    }

    /// Why the caller can't wait, if the caller is a fiber that must not, for instance in a panic.
    pub(crate) fn must_not_suspend(&self) -> Option<Cancelled> {
        self.fiber.filter(|fiber| fiber.must_not_suspend()).map(Fiber::refused)
    }

    /// Spawns a closure as a member of the caller's family, or of none. Also for a fiber that must
    /// not be suspended, in a panic for instance: nobody there has to wait for the job.
    ///
    /// # Safety
    /// The family is [completed](Family::complete) before the end of the data that the closure and
    /// its result borrow.
    #[inline(always)]
    pub(crate) unsafe fn spawn_detached<F, T>(&self, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        let (job, handle) = unsafe { self.task(self.family, given, f) };
        self.hand_over(job);
        handle
    }

    /// Spawns a closure as a member of a scope's family; unless the caller is a fiber that must not
    /// be suspended: the end of the scope can't wait for the job there, and so the caller runs the
    /// job.
    ///
    /// # Safety
    /// As for [`spawn_detached`](Self::spawn_detached).
    #[inline(always)] // There are two for each closure, one of which is cold.
    pub(crate) unsafe fn spawn<F, T>(&self, family: &Family, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        let (job, handle) = unsafe { self.task(Some(family), given, f) };
        match self.fiber {
            Some(fiber) if fiber.must_not_suspend() => run_in_place(job, family),
            _ => self.hand_over(job),
        }
        handle
    }

    /// # Safety
    /// As for [`spawn_detached`](Self::spawn_detached).
    #[inline(always)]
    unsafe fn task<F, T>(&self, family: Option<&Family>, given: Given, f: F) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises; `detached` sees to the other family.
        unsafe { task::new(f, given, address(family), self.detached(family), locals::inherited_from(self.fiber)) }
    }

    #[inline(always)]
    fn hand_over(&self, job: Job) {
        self.spawner.spawn(job);
        preemption_point();
    }

    /// As [`spawn`](Self::spawn), on a stack of this thread; in place if there is none.
    ///
    /// # Safety
    /// As for `spawn`.
    pub(crate) unsafe fn spawn_here<F, T>(&self, family: &Family, given: Given, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T,
    {
        // SAFETY: as in `spawn`. The job stays here: a scheduler that takes the job makes a fiber.
        let (job, handle) = unsafe {
            let detached = self.detached(Some(family));
            task::new_here(f, given, address(Some(family)), detached, locals::inherited_from(self.fiber))
        };
        self.submit_here(job, family);
        handle
    }

    fn submit_here(&self, job: Job, family: &Family) {
        let rejected = match self.fiber {
            Some(fiber) if !fiber.must_not_suspend() => fiber.scheduler().start_here(job).err(),
            _ => Some(job),
        };
        match rejected {
            Some(job) => run_in_place(job, family),
            None => preemption_point(),
        }
    }

    /// As [`spawn`](Self::spawn), for a future, which never is polled in place.
    ///
    /// # Safety
    /// As for `spawn`.
    pub(crate) unsafe fn spawn_task<F, T>(&self, family: Option<&Family>, given: Given, future: F) -> JoinHandle<T>
    where
        F: Future<Output: Ending<T>> + Send,
        T: Send,
    {
        let spawner = self.spawner;
        // SAFETY: as in `spawn`.
        let (job, handle) = unsafe {
            async_task::new(
                future,
                given,
                spawner.share(),
                address(family),
                self.detached(family),
                locals::inherited_from(self.fiber),
            )
        };
        spawner.spawn(job);
        handle
    }
}

#[cold]
#[inline(never)]
fn run_in_place(job: Job, family: &Family) {
    family.enter_context(|| job.run());
}

/// Finds the runtime behind plain threads: its spawner, and the family of fibers that plain threads
/// detach there. `None` if a plain thread starts threads.
pub type StartDefault = fn() -> Option<(&'static dyn Spawn, &'static Family)>;

/// The fibers of plain threads: [`Builder`](crate::build::Builder) and scopes ask this where a
/// plain thread calls them. On a fiber nobody asks, since a fiber's children run where that fiber
/// does.
///
/// # Examples
///
/// ```
/// use segue_core::build::{Builder, DefaultRuntime, Detached, Threads};
///
/// assert!(Threads::start().is_none());
/// let answer = Builder::<Detached<Threads>>::new().spawn(|| 42);
/// assert_eq!(answer.join().unwrap(), 42);
/// ```
pub trait DefaultRuntime: 'static {
    /// Starts the runtime, or finds the started one: its spawner, and the family of fibers that are
    /// detached there. Called at each spawn of a plain thread.
    fn start() -> Option<(&'static dyn Spawn, &'static Family)>;
}

/// No runtime behind plain threads: each of their fibers is a thread.
#[derive(Clone, Copy, Debug)]
pub struct Threads;

impl DefaultRuntime for Threads {
    fn start() -> Option<(&'static dyn Spawn, &'static Family)> {
        None
    }
}

/// The spawner of plain threads, a thread for each job: for schedulers that start nothing
/// themselves.
#[must_use]
pub fn thread_spawner() -> &'static dyn Spawn {
    plain::scheduler().spawner()
}

/// The address of a family, or null.
#[inline]
fn address(family: Option<&Family>) -> *const Family {
    family.map_or(ptr::null(), ptr::from_ref)
}
