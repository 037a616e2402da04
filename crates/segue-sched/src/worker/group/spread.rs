//! Which worker a closure is to start on, by the numbers of the workers' fibers.
//!
//! Used by `placing.rs`, and by policies that spread closures.

use super::{Group, Remote};
use segue_core::scheduling::Job;
use std::collections::VecDeque;

impl Group {
    /// The worker with the fewest fibers, counting closures that wait there: `index`, if no other
    /// has fewer.
    pub(crate) fn fewest_fibers(&self, index: usize) -> usize {
        let others = (0..self.workers.len()).filter(|other| *other != index && self.workers[*other].takes_some());
        let of = |worker: usize| (self.workers[worker].load(), worker != index, worker);
        others.chain([index]).map(of).min().map_or(index, |(_, _, worker)| worker)
    }

    /// Finds a place for a closure that worker `index` would start: the worker with the fewest
    /// fibers, and how many closures are to go there so that both have the same; `None` if they
    /// differ by no more than `uneven` or by no more than a fifth. Of worker `only`, to which some
    /// have just gone, the first of these counts.
    pub(crate) fn find_place(&self, index: usize, only: Option<usize>, uneven: usize) -> Option<(usize, usize)> {
        let suits = |other: usize| other != index && only.is_none_or(|only| only == other);
        let others = self.workers.iter().enumerate().filter(|(other, worker)| suits(*other) && worker.takes_some());
        let (least, place) = others.map(|(other, worker)| (worker.load(), other)).min()?;
        let mine = self.workers[index].load() + 1;
        let uneven = if only.is_some() { uneven } else { uneven.max(mine / 5) };
        (mine > least + uneven && !self.is_stopping()).then(|| (place, (mine - least) / 2))
    }

    /// Moves the `number` oldest closures on the shelf of worker `index` to that of worker `place`,
    /// or `job` if there are none; then wakes worker `place`, or another sleeper if that one is
    /// awake.
    ///
    /// Answers how many were moved, and with the closure if there were others to give.
    pub(crate) fn move_to(&self, index: usize, place: usize, number: usize, job: Job) -> (usize, Option<Job>) {
        let mut moved = self.workers[index].shelf.with(|jobs| {
            let number = number.min(jobs.len());
            jobs.drain(..number).collect::<VecDeque<_>>()
        });
        let kept = if moved.is_empty() {
            moved.push_back(job);
            None
        } else {
            Some(job)
        };
        let (worker, number) = (&self.workers[place], moved.len());
        worker.shelf.with(|jobs| jobs.append(&mut moved));
        if !worker.rouse() {
            self.wake_for(place);
        }
        (number, kept)
    }

    /// How many fibers of the workers other than `index` have not ended in their first turn, since
    /// the beginning; `None` while closures wait to be started there.
    pub(crate) fn settled_elsewhere(&self, index: usize) -> Option<usize> {
        let settled = |other: &Remote| (!other.shelf.seems_to_hold()).then(|| other.beat.settled());
        self.others(index).try_fold(0, |sum: usize, other| Some(sum.wrapping_add(settled(other)?)))
    }
}
