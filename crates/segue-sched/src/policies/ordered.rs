//! A collection for policies: what is ready, in the order of a key and, among equals, of arrival.
//!
//! Used by `priority`, `deadline` and `fair`, and for policies of users.

use crate::worker::ebb::KEPT;
use crate::worker::policy::{Started, Task};
use segue_core::scheduling::Job;
use std::collections::{BTreeMap, VecDeque};

/// What is ready, lowest key first, and among equals first in, first out.
///
/// Everything takes O(log k) for k different keys. Closures can be taken out apart from started
/// fibers, for [`spare`](crate::Policy::spare).
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
/// # assert_eq!(segue_sched::Runtime::new().run_with(ShortestFirst::default, sum).unwrap(), 45);
/// ```
#[derive(Debug)]
pub struct Ordered<K> {
    fresh: Queues<K, Job>,
    started: Queues<K, Started>,
    tickets: u64,
}

impl<K> Default for Ordered<K> {
    fn default() -> Self {
        Self { fresh: Queues::default(), started: Queues::default(), tickets: 0 }
    }
}

impl<K: Ord + Copy> Ordered<K> {
    /// Puts something that is ready behind all with the same key or a lower one.
    #[inline]
    pub fn push(&mut self, key: K, task: Task) {
        self.tickets += 1;
        match task {
            Task::Fresh(job) => self.fresh.push(key, self.tickets, job),
            Task::Started(started) => self.started.push(key, self.tickets, started),
        }
    }

    /// Takes out the first.
    #[inline]
    pub fn pop(&mut self) -> Option<Task> {
        match (self.fresh.first(), self.started.first()) {
            (Some(fresh), Some(started)) if fresh < started => self.spare().map(Task::Fresh),
            (_, Some(_)) => self.started.pop().map(Task::Started),
            (_, None) => self.spare().map(Task::Fresh),
        }
    }

    /// Takes out the first closure that has not started.
    #[inline]
    pub fn spare(&mut self) -> Option<Job> {
        self.fresh.pop()
    }

    /// Takes out what has been here the longest, whatever its key. Takes O(k) for k different keys.
    pub fn pop_oldest(&mut self) -> Option<Task> {
        match (self.fresh.oldest(), self.started.oldest()) {
            (Some((fresh, key)), started) if started.is_none_or(|(started, _)| fresh < started) => {
                self.fresh.pop_of(key).map(Task::Fresh)
            }
            (_, started) => self.started.pop_of(started?.1).map(Task::Started),
        }
    }

    /// How much is ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fresh.len + self.started.len
    }

    /// Whether nothing is ready.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A queue for each key. An empty one is among them only if it is alone: fibers that come and go
/// with one key find it at hand.
#[derive(Debug)]
struct Queues<K, T> {
    /// Each entry with its ticket.
    by_key: BTreeMap<K, VecDeque<(u64, T)>>,
    /// Empty ones with room, for other keys.
    idle: Vec<VecDeque<(u64, T)>>,
    len: usize,
}

/// Whether a queue is to be taken out, of all that have `len` entries together. An empty one that
/// is alone stays, but not with the room for a burst.
#[inline]
fn is_over<T>(queue: &VecDeque<T>, len: usize) -> bool {
    queue.is_empty() && (len > 0 || queue.capacity() > KEPT)
}

/// How many empty queues are kept.
const IDLE: usize = 16;

impl<K, T> Default for Queues<K, T> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), idle: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Copy, T> Queues<K, T> {
    #[inline]
    fn push(&mut self, key: K, ticket: u64, task: T) {
        if self.len == 0 && self.by_key.first_key_value().is_some_and(|(empty, _)| *empty != key) {
            self.retire_first();
        }
        self.len += 1;
        let idle = &mut self.idle;
        self.by_key.entry(key).or_insert_with(|| idle.pop().unwrap_or_default()).push_back((ticket, task));
    }

    /// Key and ticket of the first.
    #[inline]
    fn first(&self) -> Option<(K, u64)> {
        let (key, queue) = self.by_key.first_key_value()?;
        queue.front().map(|(ticket, _)| (*key, *ticket))
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        let mut first = self.by_key.first_entry()?;
        let (_, task) = first.get_mut().pop_front()?;
        self.len -= 1;
        if is_over(first.get(), self.len) {
            self.retire_first();
        }
        Some(task)
    }

    /// The one with the lowest ticket, by ticket and key.
    fn oldest(&self) -> Option<(u64, K)> {
        let fronts = self.by_key.iter().filter_map(|(key, queue)| queue.front().map(|(ticket, _)| (*ticket, *key)));
        fronts.min_by_key(|(ticket, _)| *ticket)
    }

    /// The first one of this key.
    fn pop_of(&mut self, key: K) -> Option<T> {
        let queue = self.by_key.get_mut(&key)?;
        let (_, task) = queue.pop_front()?;
        self.len -= 1;
        if is_over(queue, self.len) {
            let empty = self.by_key.remove(&key);
            self.keep(empty);
        }
        Some(task)
    }

    /// Takes out the queue of the first key, which is empty.
    fn retire_first(&mut self) {
        let empty = self.by_key.pop_first().map(|(_, empty)| empty);
        self.keep(empty);
    }

    fn keep(&mut self, empty: Option<VecDeque<(u64, T)>>) {
        if self.idle.len() < IDLE {
            // Without the room for a burst.
            self.idle.extend(empty.filter(|empty| empty.capacity() <= KEPT));
        }
    }
}
