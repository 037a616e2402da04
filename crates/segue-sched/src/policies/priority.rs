//! Strict priorities, by an attribute.
//!
//! For programs in which some work must not wait behind other work, however much of that there is.

use super::Ordered;
use crate::worker::policy::{Goes, Policy, Task, Why};
use segue_core::Attribute;
use segue_core::scheduling::Job;
use std::num::NonZero;

/// How urgent a fiber is: the higher runs first. 0 for those that carry none. Children inherit the
/// priority.
///
/// The value counts from the next time that the fiber becomes ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub i32);

impl Attribute for Priority {
    #[inline]
    fn to_bits(self) -> u64 {
        self.0.cast_unsigned().into()
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
    fn from_bits(bits: u64) -> Self {
        Self((bits as u32).cast_signed())
    }
}

/// The highest [`Priority`] first; among equals first in, first out.
///
/// Each worker runs next the highest priority of all that is ready there, new closures, started
/// fibers and arrivals from outside alike. A closure runs on the worker of its spawner, one from
/// outside on the first worker that sees that closure, unless another worker has nothing to do:
/// that gets the most urgent one. So urgent work waits for the turn that is under way, and for
/// fibers that are at least as urgent. Priorities of different workers are not compared as long as
/// all are busy, and nobody is interrupted: a long computation should
/// [check](segue_core::yield_now) now and then.
///
/// # Starvation
/// A less urgent fiber starves as long as its worker always has a more urgent one. With
/// [`relief`](ByPriority::relief) of n every n-th turn goes to the fiber that has been ready the
/// longest, with any priority: a fiber behind k others waits for n·(k + 1) turns at most. Urgent
/// work then waits for one turn more, at every n-th.
///
/// # Priority inheritance
/// There is none. A mutex, like each structure, works for fibers of any scheduler, for threads and
/// for tasks, and does not know its holder (a guard can be sent on), and the holder may be nothing
/// that has a priority. So a fiber that waits for a lock with a less urgent holder waits until that
/// holder had its turns. Help: no wait with a lock held that urgent work needs; to raise the holder
/// for that long, through its [`Attributes`](segue_core::Attributes); or relief, which bounds the
/// wait.
///
/// # Examples
///
/// ```
/// use segue_core::{Builder, spawn, yield_now};
/// use segue_sched::{ByPriority, Priority};
/// use std::sync::mpsc;
///
/// let (say, said) = mpsc::channel();
/// segue_sched::Runtime::new().workers(1).run_with(ByPriority::strict, move || {
///     let fibers = [1, 3, 2].map(|n| {
///         let say = say.clone();
///         Builder::new().attribute(Priority(n)).spawn(move || say.send(n).unwrap())
///     });
///     fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
/// }).unwrap();
/// assert_eq!(said.iter().collect::<Vec<_>>(), [3, 2, 1]);
/// ```
#[derive(Debug, Default)]
pub struct ByPriority {
    /// By how far they are below the highest priority.
    ready: Ordered<u64>,
    relief: Option<NonZero<u32>>,
    turns: u32,
}

impl ByPriority {
    /// Nothing less urgent gets a turn while something more urgent is ready.
    #[must_use]
    pub fn strict() -> Self {
        Self::default()
    }

    /// Every `n`-th turn goes to the fiber that has been ready the longest.
    #[must_use]
    pub fn relief(n: NonZero<u32>) -> Self {
        Self { relief: Some(n), ..Self::default() }
    }
}

impl Policy for ByPriority {
    #[inline]
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        let Priority(priority) = task.attribute().unwrap_or_default();
        self.ready.push(i32::MAX.abs_diff(priority).into(), task);
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.turns = self.turns.wrapping_add(1);
        match self.relief {
            Some(n) if self.turns.is_multiple_of(n.get()) => self.ready.pop_oldest(),
            _ => self.ready.pop(),
        }
    }

    fn spare(&mut self) -> Option<Job> {
        self.ready.spare()
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}
