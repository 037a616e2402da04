//! Where closures start that may start anywhere: on the worker that has found them, or on one that
//! has fewer fibers.
//!
//! Used by the worker loop, just before the start of a closure.
//!
//! # The idea
//!
//! A fiber stays in the place of its start, so a worker that starts one takes on its later work,
//! too. To leave that to chance is to leave the choice to the worker that is awake: a fiber that
//! spawns one child in a millisecond, and sleeps in between, has all of them on its own worker,
//! since the others need longer to wake up than that one to start a closure.
//!
//! So a worker counts its fibers, and looks at the numbers of the others before taking on another
//! one. If there are more than on the worker with the fewest, half of the difference goes there:
//! closures from its shelf, or the one about to start and those that follow, until both have the
//! same. So closures go in runs, and closures that were spawned by turns lie together: a chain of a
//! thousand fibers has some thirty of its links between two workers, and not five hundred. The more
//! fibers there are, the longer the runs: a difference counts from a fifth of the worker's fibers.
//! And while fibers talk across workers the runs are longer: a worker counts the resumes that it
//! sends to others of its group between two looks around. Connections of a server talk to their
//! clients, and lie on all workers alike.
//!
//! The closures go onto the other one's shelf, where any worker can take them, and that worker is
//! woken. A worker with more fibers leaves them there for a moment (such a worker is *modest*); if
//! they are still there then, their worker is busy, and any idle worker takes them.
//!
//! # Off the hot path
//!
//! To look at other workers' numbers costs cache misses, and to move a closure a system call. A
//! fiber that spawns a child and joins the child, any number of times, is not to pay for that. So
//! the worker compares one number of its own, that of its fibers, with a *mark*, and looks only
//! when that is reached:
//!
//! | when | the mark | closures go when the numbers differ by |
//! | --- | --- | --- |
//! | after a sleep | 0 | more than 2, if the closure is alone: its spawner has gone on to wait |
//! | in work | some fibers | more than 12, or 48 while fibers talk across workers |
//! | giving closures away | unchanged | more than 1 |
//! | after a look in vain | as many more fibers as may make a difference | |
//!
//! Children that end in their first turn are better kept. Whether they do shows afterwards: each
//! worker counts the fibers that have not. If fewer of them have come up
//! elsewhere than half of the closures that were moved there, the worker keeps its closures for a
//! while, which doubles each time.
//!
//! A simulation, a driven scheduler, and any other with one worker have a mark that is never
//! reached.

use crate::worker::group::{Group, Modest};
use segue_core::scheduling::Job;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The mark after a sleep: for the first closure the question is whether it is alone.
const AFTER_SLEEP: usize = 0;
/// How much workers may differ while they are busy.
const UNEVEN: usize = 12;
/// And if fibers of theirs talk to each other.
const UNEVEN_IN_TALK: usize = 48;
/// So many resumes of other workers' fibers between two looks around are talk. Each costs about a
/// microsecond: together some hundredths of the time.
const TALK: u32 = 8;
/// The closures that are moved before the outcome is asked for.
const SAMPLE: usize = 8;
/// How many looks around a worker keeps its closures, at most.
const LONGEST_KEEP: u32 = 1024;
/// For how long a worker leaves a closure to one that has fewer fibers.
pub(crate) const MODESTY: Duration = Duration::from_millis(1);
/// And for a woken worker that the operating system has wait for a processor.
const LONGEST_MODESTY: Duration = Duration::from_millis(20);
const NEVER: usize = usize::MAX;

/// The worker's memory of this.
pub(crate) struct Placing {
    is_alone: bool,
    /// The number of fibers from which it looks at the others.
    mark: Cell<usize>,
    /// The time since which it has left closures to workers with fewer fibers.
    modest: Cell<Option<Instant>>,
    /// How many closures were moved since the count of those that have settled elsewhere.
    moved: Cell<usize>,
    settled: Cell<usize>,
    /// The worker that gets closures until both have the same number.
    gives_to: Cell<Option<usize>>,
    /// The looks around for which it keeps its closures, now and the next time.
    keep: Cell<u32>,
    next_keep: Cell<u32>,
    /// The resumes that it has sent to other workers since the last look around.
    crossed: Cell<u32>,
    /// The difference that workers may have, from the last look around of a busy worker.
    uneven: Cell<usize>,
}

impl Placing {
    pub(crate) fn new(is_alone: bool) -> Self {
        Self {
            is_alone,
            mark: Cell::new(if is_alone { NEVER } else { UNEVEN }),
            modest: Cell::new(None),
            moved: Cell::new(0),
            settled: Cell::new(0),
            gives_to: Cell::new(None),
            keep: Cell::new(0),
            next_keep: Cell::new(1),
            crossed: Cell::new(0),
            uneven: Cell::new(UNEVEN),
        }
    }

    /// Whether a worker with so many fibers looks at the others before the start of another one.
    #[inline]
    pub(crate) fn is_reached(&self, fibers: usize) -> bool {
        fibers >= self.mark.get()
    }

    /// The worker to which this one leaves closures.
    pub(crate) fn modest(&self) -> Modest {
        match self.modest.get().map(|since| since.elapsed()) {
            Some(time) if time >= LONGEST_MODESTY => Modest::No,
            Some(time) if time >= MODESTY => Modest::ToSleepers,
            _ => Modest::ToAll,
        }
    }

    /// The worker lies down, and `leaves` some closures to others, or none.
    pub(crate) fn lie_down(&self, leaves: bool) {
        if leaves != self.modest.get().is_some() {
            self.modest.set(leaves.then(Instant::now));
        }
    }

    /// The worker has resumed a fiber of another one of its group.
    pub(crate) fn cross(&self) {
        self.crossed.update(|crossed| crossed.saturating_add(1));
    }

    /// The worker looks around, or, `after_sleep`, gets up.
    pub(crate) fn look_around(&self, after_sleep: bool) {
        if self.is_alone {
            return;
        }
        let crossed = self.crossed.take();
        if !after_sleep {
            self.uneven.set(if crossed < TALK { UNEVEN } else { UNEVEN_IN_TALK });
        }
        let keep = self.keep.get();
        self.keep.set(keep.saturating_sub(1));
        self.mark.set(match (keep, after_sleep) {
            (0, true) => AFTER_SLEEP,
            (0, false) => self.uneven.get(),
            _ => NEVER,
        });
    }

    /// Closures are about to be moved; answers whether those before have come to something, if that
    /// can be told.
    fn pays_off(&self, settled: Option<usize>) -> bool {
        let moved = self.moved.get();
        let Some(settled) = settled.filter(|_| moved >= SAMPLE) else { return true };
        let came_up = settled.wrapping_sub(self.settled.get());
        self.settled.set(settled);
        self.moved.set(0);
        if came_up >= moved / 2 {
            self.next_keep.set(1);
            return true;
        }
        self.keep.set(self.next_keep.get());
        self.next_keep.set((2 * self.keep.get()).min(LONGEST_KEEP));
        self.mark.set(NEVER);
        false
    }

    /// Gives a closure that is about to start, or others from the shelf, to a worker that has fewer
    /// fibers than worker `index`, which has so many. Answers with the closure that is to start
    /// here.
    pub(crate) fn place(&self, group: &Group, index: usize, fibers: usize, job: Job) -> Option<Job> {
        let has_slept = self.mark.get() == AFTER_SLEEP;
        let is_alone = has_slept && !group.remote(index).shelf.seems_to_hold();
        if has_slept && !is_alone {
            // Several were spawned together. The last of them will be alone as well, and stays.
            self.mark.set(self.uneven.get());
            return Some(job);
        }
        let to = self.gives_to.take();
        // With the closure. One that went to a worker with as few as this one had before would be
        // taken back at once: that is of no use, and says nothing about its value.
        let uneven = match to {
            Some(_) => 1,
            None if is_alone => 2,
            None => self.uneven.get(),
        };
        let Some((place, number)) = group.find_place(index, to, uneven) else {
            self.mark.set(if has_slept { self.uneven.get() } else { fibers + UNEVEN / 4 });
            return Some(job);
        };
        if !self.pays_off(group.settled_elsewhere(index)) {
            return Some(job);
        }
        self.modest.set(None);
        self.gives_to.set(Some(place));
        let (moved, kept) = group.move_to(index, place, number, job);
        self.moved.update(|before| before + moved);
        kept
    }
}

#[cfg(test)]
#[path = "../../tests/units/placing.rs"]
mod tests;
