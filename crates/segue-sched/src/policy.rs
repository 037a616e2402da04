//! What a policy is: a data structure that says which ready fiber runs next.
//!
//! Implemented by the files in `policies/` and by users; called by the worker loop, which does everything else.

use crate::local::Header;
use segue_core::{Fiber, Job};
use segue_fiber::Coroutine;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Decides the order in which one worker runs what is ready.
///
/// Each worker has a policy of its own, made on its thread; all methods are called there, and never while another is running, so that the
/// state needs no atomics. A policy can be unfair but not unsound: what it is given can't be copied, started
/// fibers can't be sent to other threads, and to drop one is noticed.
///
/// # Panics
/// A policy that panics, or that waits in one of its methods, ends the process: its worker's fibers could not be continued. What it makes ready
/// under its own scheduler, by dropping a closure for instance, comes to it by mail.
///
/// # Examples
///
/// Last in, first out, in ten lines:
///
/// ```
/// use segue_core::Job;
/// use segue_sched::{Policy, Task, Why};
///
/// #[derive(Default)]
/// struct Lifo(Vec<Task>);
///
/// impl Policy for Lifo {
///     fn push(&mut self, task: Task, _why: Why) -> Option<Job> {
///         self.0.push(task);
///         None
///     }
///
///     fn pop(&mut self) -> Option<Task> {
///         self.0.pop()
///     }
/// }
///
/// let sum = segue_sched::Builder::new().run_with(Lifo::default, || {
///     let fibers: Vec<_> = (0..10).map(|n| segue_core::spawn(move || n)).collect();
///     fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
/// });
/// assert_eq!(sum.unwrap(), 45);
/// ```
pub trait Policy: 'static {
    /// Accepts something that is ready.
    ///
    /// A closure that may as well run on another worker can be given back: it is then offered to whoever has nothing to do,
    /// and comes back to this worker, newest first, when [`pop`](Policy::pop) yields nothing.
    fn push(&mut self, task: Task, why: Why) -> Option<Job>;

    /// Gives out what is to run next; `None` if there is nothing.
    fn pop(&mut self) -> Option<Task>;

    /// A fiber that will run about [`AHEAD`] turns from now, if that is easy to say: its memory is fetched meanwhile. It is only a hint.
    fn upcoming(&self) -> Option<&Started> {
        None
    }

    /// Whether it simulates: then every closure that becomes ready comes to it and none is kept on a shelf, the halves of a [`join`](crate::join) and what comes from
    /// outside included; and the methods below are called. Asked when the code is generated, so that others pay nothing.
    fn simulates() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// The closure that it has given out last has become this fiber, which runs next.
    fn begins(&mut self, _fiber: &Fiber) {}

    /// Whether the next method is to be asked.
    fn may_preempt(&self) -> bool {
        false
    }

    /// Whether the running fiber is preempted, at a [point](segue_core::preemption_point) where it might go on: it is pushed then, as if it had yielded.
    fn preempts(&mut self) -> bool {
        false
    }
}

/// How many turns ahead memory is fetched. Measured with 1,000 and 100,000 fibers: 4 and 8 were best, 16 and more lost.
pub const AHEAD: usize = 4;

/// Why something is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is new.
    Spawned,
    /// What it waited for has come.
    Resumed,
    /// It gave up its turn.
    Yielded,
    /// It gave way, at a fork, to work that came from outside while every worker was busy.
    Displaced,
}

/// Something that is ready to run.
pub enum Task {
    /// A closure that has not started. It can go anywhere.
    Fresh(Job),
    /// A fiber that has started. It stays on its worker.
    Started(Started),
}

/// A started fiber that is ready. It stays on its worker's thread.
pub struct Started(NonNull<Header>);

impl Started {
    #[inline]
    pub(crate) fn new(header: NonNull<Header>) -> Self {
        Self(header)
    }

    #[inline]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// Starts to fetch the memory that it will touch first.
    #[inline]
    pub(crate) fn prefetch(&self, frames: bool) {
        segue_fiber::prefetch(self.0, frames);
    }

    /// Its identity.
    #[allow(unsafe_code)] // The header is reached by address.
    pub fn fiber(&self) -> &Fiber {
        // SAFETY: a fiber that is ready has not ended, so its header is in place.
        unsafe { &self.0.as_ref().fiber }
    }
}

impl Drop for Started {
    #[cold]
    fn drop(&mut self) {
        panic!("a policy dropped {}, which has started and must be run to its end", self.fiber());
    }
}

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.fiber())
    }
}

/// A suspended coroutine, named by its header.
pub(crate) type Switch = Coroutine<Header>;
