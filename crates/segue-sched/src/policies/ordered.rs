//! A collection for policies: what is ready, in the order of a key and, among equals, of arrival.
//!
//! Used by `priority`, `deadline` and `fair`, and for policies of users.

use crate::policy::{Started, Task};
use segue_core::Job;
use std::collections::BTreeMap;
use std::ops::Bound;

/// What is ready, lowest key first, and among equals first in, first out.
///
/// Everything takes O(log n). Closures can be taken out apart from started fibers, for [`spare`](crate::Policy::spare).
///
/// # Examples
///
/// Shortest job first, as far as the spawners know how long theirs take:
///
/// ```
/// use segue_sched::{Goes, Ordered, Policy, Task, Why};
/// # use segue_core::Attribute;
/// # #[derive(Clone, Copy)]
/// # struct Cost(u64);
/// # impl Attribute for Cost {
/// #     fn to_bits(self) -> u64 { self.0 }
/// #     fn from_bits(bits: u64) -> Self { Self(bits) }
/// # }
///
/// #[derive(Default)]
/// struct ShortestFirst(Ordered<u64>);
///
/// impl Policy for ShortestFirst {
///     fn push(&mut self, task: Task, _why: Why) -> Goes {
///         let cost = task.attribute::<Cost>().map_or(0, |cost| cost.0);
///         self.0.push(cost, task);
///         Goes::Here
///     }
///
///     fn pop(&mut self) -> Option<Task> {
///         self.0.pop()
///     }
/// }
/// # let fibers = || (0..10).map(|n| segue_core::spawn(move || n)).collect::<Vec<_>>();
/// # let sum = || fibers().into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>();
/// # assert_eq!(segue_sched::Builder::new().run_with(ShortestFirst::default, sum).unwrap(), 45);
/// ```
#[derive(Debug)]
pub struct Ordered<K> {
    fresh: BTreeMap<(K, u64), Job>,
    started: BTreeMap<(K, u64), Started>,
    tickets: u64,
}

impl<K> Default for Ordered<K> {
    fn default() -> Self {
        Self { fresh: BTreeMap::new(), started: BTreeMap::new(), tickets: 0 }
    }
}

impl<K: Ord + Copy> Ordered<K> {
    /// Puts something that is ready behind all with the same key or a lower one.
    #[inline]
    pub fn push(&mut self, key: K, task: Task) {
        self.tickets += 1;
        let at = (key, self.tickets);
        match task {
            Task::Fresh(job) => drop(self.fresh.insert(at, job)),
            Task::Started(started) => drop(self.started.insert(at, started)),
        }
    }

    /// Takes out the first.
    #[inline]
    pub fn pop(&mut self) -> Option<Task> {
        match (self.fresh.first_key_value(), self.started.first_key_value()) {
            (Some((fresh, _)), Some((started, _))) if fresh < started => self.spare().map(Task::Fresh),
            (_, Some(_)) => self.started.pop_first().map(|(_, started)| Task::Started(started)),
            (_, None) => self.spare().map(Task::Fresh),
        }
    }

    /// Takes out the first closure that has not started.
    #[inline]
    pub fn spare(&mut self) -> Option<Job> {
        self.fresh.pop_first().map(|(_, job)| job)
    }

    /// Takes out what has been here the longest, whatever its key. Takes O(k log n) for k different keys.
    pub fn pop_oldest(&mut self) -> Option<Task> {
        let (fresh, started) = (oldest(&self.fresh), oldest(&self.started));
        match (fresh, started) {
            (Some(fresh), started) if started.is_none_or(|started| fresh.1 < started.1) => {
                self.fresh.remove(&fresh).map(Task::Fresh)
            }
            (_, started) => self.started.remove(&started?).map(Task::Started),
        }
    }

    /// How much is ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fresh.len() + self.started.len()
    }

    /// Whether nothing is ready.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.started.is_empty()
    }
}

/// Where the oldest stands: the first of its key.
fn oldest<K: Ord + Copy, T>(all: &BTreeMap<(K, u64), T>) -> Option<(K, u64)> {
    let first = |(at, _): (&(K, u64), &T)| *at;
    let next = |(key, _): &(K, u64)| all.range((Bound::Excluded((*key, u64::MAX)), Bound::Unbounded)).next().map(first);
    std::iter::successors(all.first_key_value().map(first), next).min_by_key(|(_, ticket)| *ticket)
}
