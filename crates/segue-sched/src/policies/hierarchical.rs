//! A policy made of policies, each with its share of the worker's time.
//!
//! For programs with parts that want to be scheduled in different ways.

use super::{Clock, Meter, Used};
use crate::worker::common::OLDEST;
use crate::worker::ebb::ebb;
use crate::worker::policy::{Goes, Idle, Policy, Seat, Task, Why};
use segue_core::Attribute;
use segue_core::scheduling::Job;
use std::collections::VecDeque;
use std::num::NonZero;
use std::time::Instant;

/// Which child of a [`Hierarchical`] policy a fiber belongs to, in the order in which they were
/// added, from 0. Children of a fiber inherit the number. A fiber without a number, or with one
/// that there is not, belongs to the first.
///
/// The value counts from the next time that the fiber becomes ready. One hierarchy inside of
/// another reads the same attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Class(pub u32);

impl Attribute for Class {
    #[inline]
    fn to_bits(self) -> u64 {
        self.0.into()
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
}

/// Policies as children of a policy. Each gets a share of the worker's time and orders its own
/// fibers.
///
/// The child gives out next that has used the least time in relation to its share, of those that
/// have anything to give out; one that had nothing has saved nothing up. Closures that a child
/// wants to have [anywhere](Goes::Anywhere) are kept beside the child: idle workers get the oldest
/// of them, and they take turns with the child's own, newest first, but at every 64th turn of the
/// child the oldest. Closures that a child sends to another worker go to the same child there.
/// Everything that comes from elsewhere goes through the children.
///
/// # Starvation
/// Between children there is none: as for [`Fair`](crate::Fair), with a child for a group. Within a
/// child the order is that child's business.
///
/// # Examples
///
/// A computation gets a quarter of the time, with any number of fibers, and the time that the rest
/// does not need:
///
/// ```
/// use segue_core::{Builder, spawn};
/// use segue_sched::{ByPriority, Class, Hierarchical, Stealing};
///
/// let policy = || Hierarchical::new().child(3, ByPriority::strict()).child(1, Stealing::default());
/// let sum = segue_sched::Runtime::new().run_with(policy, || {
///     let computation = Builder::new().attribute(Class(1)).spawn(|| (1..=100).sum::<u32>());
///     computation.join().unwrap() + spawn(|| 1).join().unwrap()
/// });
/// assert_eq!(sum.unwrap(), 5051);
/// ```
#[derive(Debug)]
pub struct Hierarchical {
    children: Vec<Child>,
    /// The children, those that have used the least first, as of the last turn.
    order: Vec<usize>,
    /// The used time of the child that ran last: nobody begins with less.
    floor: Used,
    meter: Meter<usize>,
}

struct Child {
    policy: Box<dyn Policy>,
    share: NonZero<u32>,
    used: Used,
    /// The closures that may go anywhere.
    shelf: VecDeque<Job>,
    /// The number of questions: it decides about the shelf's turn, and the oldest's.
    turns: usize,
}

segue_core::impl_debug!([] Child, |it| share: it.share, used: it.used);

impl Child {
    fn pop(&mut self) -> Option<Task> {
        self.turns = self.turns.wrapping_add(1);
        let old = self.turns.is_multiple_of(OLDEST);
        let from_shelf = |shelf: &mut VecDeque<Job>| {
            let job = if old { shelf.pop_front() } else { shelf.pop_back() };
            job.map(Task::Fresh)
        };
        match self.turns.is_multiple_of(2) {
            true => from_shelf(&mut self.shelf).or_else(|| self.policy.pop()),
            false => self.policy.pop().or_else(|| from_shelf(&mut self.shelf)),
        }
    }
}

impl Hierarchical {
    /// Without children: add at least one.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Instant::now)
    }

    /// With a clock other than the real one.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> Instant + 'static) -> Self {
        Self { children: Vec::new(), order: Vec::new(), floor: Used::default(), meter: Meter::new(Clock::new(clock)) }
    }

    /// Adds a child with its share, in relation to those of the others.
    ///
    /// # Panics
    /// For a share of zero.
    #[must_use]
    pub fn child(mut self, share: u32, policy: impl Policy) -> Self {
        let share = NonZero::new(share).expect("a child's share is at least 1");
        let policy = Box::new(policy);
        self.children.push(Child { policy, share, used: self.floor, shelf: VecDeque::new(), turns: 0 });
        self.order.push(self.order.len());
        self
    }
}

impl Default for Hierarchical {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Hierarchical {
    fn seated(&mut self, seat: Seat) {
        assert!(!self.children.is_empty(), "a hierarchical policy needs a child: add one with `Hierarchical::child`");
        self.children.iter_mut().for_each(|child| child.policy.seated(seat.clone()));
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        let Class(class) = task.attribute().unwrap_or_default();
        let class = if (class as usize) < self.children.len() { class as usize } else { 0 };
        let child = &mut self.children[class];
        match child.policy.push(task, why) {
            Goes::Anywhere(job) => {
                child.shelf.push_back(job);
                Goes::Here
            }
            goes => goes,
        }
    }

    fn pop(&mut self) -> Option<Task> {
        if let Some((child, nanoseconds)) = self.meter.stop() {
            let child = &mut self.children[child];
            child.used.charge(nanoseconds, child.share);
        }
        self.order.sort_unstable_by_key(|&index| (self.children[index].used, index));
        let (index, used, task) = self.order.iter().find_map(|&index| {
            let child = &mut self.children[index];
            Some((index, child.used, child.pop()?))
        })?;
        self.floor = self.floor.max(used);
        // A child that has used less had nothing to run.
        self.children.iter_mut().for_each(|child| child.used = child.used.max(self.floor));
        self.meter.start(index);
        Some(task)
    }

    fn spare(&mut self) -> Option<Job> {
        self.order.iter().find_map(|&index| {
            let child = &mut self.children[index];
            child.shelf.pop_front().or_else(|| child.policy.spare())
        })
    }

    fn takes_arrivals(&self) -> bool {
        true
    }

    fn paced(&mut self, turns: u32) {
        self.children.iter_mut().for_each(|child| child.policy.paced(turns));
    }

    fn idle(&mut self) -> Idle {
        let idle = |child: &mut Child| {
            drop(ebb(&mut child.shelf));
            child.policy.idle()
        };
        self.children.iter_mut().map(idle).fold(Idle::Sleep, both)
    }
}

/// The lines that are right for both.
fn both(a: Idle, b: Idle) -> Idle {
    match (a, b) {
        (Idle::Spin, _) | (_, Idle::Spin) => Idle::Spin,
        (Idle::Hold(Some(a)), Idle::Hold(Some(b))) => Idle::Hold(Some(a.min(b))),
        (Idle::Hold(a), Idle::Hold(b)) => Idle::Hold(a.or(b)),
        (Idle::Hold(a), Idle::Sleep) | (Idle::Sleep, Idle::Hold(a)) => Idle::Hold(a),
        (Idle::Sleep, Idle::Sleep) => Idle::Sleep,
    }
}
