//! The processor divided between groups of fibers, by weight and running time.
//!
//! For programs that serve several parties: none of them is to get more by more fibers, or longer
//! ones.

use super::{Clock, Meter, Ordered, Used};
use crate::worker::policy::{Goes, Policy, Task, Why};
use segue_core::Attribute;
use segue_core::scheduling::Job;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::time::Instant;

/// A fiber's group, and that group's weight. Children inherit the group. Those that carry none are
/// in group 0, with a weight of 1.
///
/// The value counts from the next time that the fiber becomes ready. If the fibers of a group
/// disagree about its weight, the one that was ready last is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    group: u32,
    weight: NonZero<u32>,
}

impl Share {
    /// A share in group `group`.
    ///
    /// # Panics
    /// For a weight of zero.
    #[must_use]
    pub fn new(group: u32, weight: u32) -> Self {
        Self { group, weight: NonZero::new(weight).expect("a group's weight is at least 1") }
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::new(0, 1)
    }
}

impl Attribute for Share {
    #[inline]
    fn to_bits(self) -> u64 {
        u64::from(self.group) << 32 | u64::from(self.weight.get())
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "these are the halves of the word")]
    fn from_bits(bits: u64) -> Self {
        Self::new((bits >> 32) as u32, bits as u32)
    }
}

/// How many groups are kept without a look at whether they are still in use.
const MANY: usize = 64;

/// Weighted fair shares between groups of fibers, by measured running time.
///
/// On each worker the group runs next that has used the least time there in relation to its weight;
/// within a group the order is first in, first out. A group that had nothing to run has saved
/// nothing up, and begins with the used time of the running group. A closure runs on the worker of
/// its spawner, one from outside on the first worker that sees that closure, unless another worker
/// has nothing to do.
///
/// Running time is measured from turn to turn, by two looks at a clock for each. The time of a turn
/// is charged at its end: nobody is interrupted.
///
/// # Starvation
/// None. Between two groups that always have something to run, their used times in relation to
/// their weights differ, over any span, by no more than the longest turn of each does. So if all
/// turns take the same time, a group of weight w among n others of total weight W gets a turn after
/// n + W/w turns at most. A member of a large group waits for the others of the group.
#[derive(Debug)]
pub struct Fair {
    accounts: BTreeMap<u32, Account>,
    /// The groups with something ready, those that have used the least first.
    order: BTreeSet<(Used, u32)>,
    /// The used time of the group that ran last: nobody begins with less.
    floor: Used,
    meter: Meter<u32>,
    /// At how many accounts to look for those that can be forgotten.
    many: usize,
}

#[derive(Debug)]
struct Account {
    used: Used,
    weight: NonZero<u32>,
    /// All with the same key.
    ready: Ordered<u64>,
}

impl Fair {
    /// No groups yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Instant::now)
    }

    /// With a clock other than the real one.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> Instant + 'static) -> Self {
        let meter = Meter::new(Clock::new(clock));
        Self { accounts: BTreeMap::new(), order: BTreeSet::new(), floor: Used::default(), meter, many: MANY }
    }

    /// Charges the group that has run.
    fn settle(&mut self) {
        let Some((group, nanoseconds)) = self.meter.stop() else { return };
        let account = self.accounts.get_mut(&group).expect("what runs has an account");
        self.order.remove(&(account.used, group));
        account.used.charge(nanoseconds, account.weight);
        if !account.ready.is_empty() {
            self.order.insert((account.used, group));
        }
    }

    /// Forgets groups that would begin anew all the same.
    fn sweep(&mut self) {
        let floor = self.floor;
        self.accounts.retain(|_, account| !account.ready.is_empty() || account.used > floor);
        self.many = (2 * self.accounts.len()).max(MANY);
    }
}

impl Default for Fair {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Fair {
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        let Share { group, weight } = task.attribute().unwrap_or_default();
        let account = self.accounts.entry(group).or_insert_with(|| Account {
            used: self.floor,
            weight,
            ready: Ordered::default(),
        });
        account.weight = weight;
        if account.ready.is_empty() {
            account.used = account.used.max(self.floor);
            self.order.insert((account.used, group));
        }
        account.ready.push(0, task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.settle();
        if self.accounts.len() > self.many {
            self.sweep();
        }
        let (used, group) = *self.order.first()?;
        self.floor = self.floor.max(used);
        let account = self.accounts.get_mut(&group)?;
        let task = account.ready.pop();
        if account.ready.is_empty() {
            self.order.remove(&(used, group));
        }
        self.meter.start(group);
        task
    }

    fn spare(&mut self) -> Option<Job> {
        let found = self.order.iter().find_map(|&(used, group)| {
            let account = self.accounts.get_mut(&group)?;
            let job = account.ready.spare()?;
            Some((job, account.ready.is_empty().then_some((used, group))))
        });
        let (job, empty) = found?;
        if let Some(group) = empty {
            self.order.remove(&group);
        }
        Some(job)
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}
