//! What goes where, by numbers alone: no threads, so nothing depends on how busy a machine is. A
//! part of `worker/placing.rs`, which it sees from inside.
#![allow(unsafe_code)] // Closures are made by hand.

use super::*;
use segue_core::scheduling::{JobHeader, Place, Work};
use std::ptr::NonNull;
use std::sync::Arc;

/// A closure that nobody runs.
#[repr(C)]
struct Nothing(JobHeader);

// SAFETY: the header comes first, and nothing is carried.
unsafe impl Work for Nothing {
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: made by `job`, and this is its one end.
        drop(unsafe { Box::from_raw(this.as_ptr()) });
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`.
        unsafe { Self::run(this) };
    }
}

fn job() -> Job {
    // SAFETY: there is no family, and the place is the root's.
    let header = unsafe { JobHeader::of::<Nothing>(Place::here(), None) };
    // SAFETY: the header is the first field, and this is the one job for it.
    unsafe { Job::from_raw(NonNull::from(Box::leak(Box::new(Nothing(header)))).cast()) }
}

/// Workers without threads.
struct World {
    group: Arc<Group>,
    workers: Vec<(Placing, usize)>,
}

impl World {
    fn new(workers: usize) -> Self {
        let worker = |_| (Placing::new(workers == 1), 0);
        Self { group: Group::new(workers), workers: (0..workers).map(worker).collect() }
    }

    fn has_fibers(&mut self, worker: usize, fibers: usize) {
        self.workers[worker].1 = fibers;
        self.group.remote(worker).beat.set_fibers(fibers);
    }

    /// A fiber of the worker's spawns one, and the worker comes to it. Answers whether that
    /// started there.
    fn spawn(&mut self, worker: usize) -> bool {
        self.group.offer(worker, job());
        let before = self.workers[worker].1;
        self.start(worker);
        self.workers[worker].1 > before
    }

    /// The worker starts the newest closure of its shelf, if there is one. It goes on to wait.
    fn start(&mut self, worker: usize) -> bool {
        let Some(job) = self.group.remote(worker).shelf.take_newest() else { return false };
        let (placing, fibers) = &self.workers[worker];
        let placed =
            if placing.is_reached(*fibers) { placing.place(&self.group, worker, *fibers, job) } else { Some(job) };
        if placed.is_some() {
            self.has_fibers(worker, self.workers[worker].1 + 1);
            self.group.remote(worker).beat.settle();
        }
        true
    }

    /// All workers start what is on their shelves.
    fn settle(&mut self) {
        while (0..self.workers.len()).any(|worker| self.start(worker)) {}
    }

    /// How many times its share the worker with the most has.
    fn busiest(&self) -> f64 {
        let counts = || self.workers.iter().map(|(_, fibers)| *fibers);
        counts().max().unwrap() as f64 * self.workers.len() as f64 / counts().sum::<usize>() as f64
    }
}

#[test]
fn what_trickles_in_lies_on_all_workers_alike_however_often_their_spawner_sleeps() {
    for workers in 2..=8 {
        for (sleeps, looks) in [(1, 1000), (2, 7), (3, 1000), (10, 3), (1000, 5), (1000, 1000)] {
            let mut world = World::new(workers);
            for number in 1..=50 * workers {
                if number % sleeps == 0 {
                    world.workers[0].0.look_around(true);
                } else if number % looks == 0 {
                    world.workers[0].0.look_around(false);
                }
                world.spawn(0);
                world.settle();
            }
            let busiest = world.busiest();
            assert!(busiest <= 1.3, "on {workers} workers one has {busiest:.2} times its share");
        }
    }
}

#[test]
fn what_comes_all_at_once_lies_on_all_workers_alike_whoever_is_slow() {
    for workers in 2..=8 {
        for early in [0, 1, 10, 100 * workers] {
            let mut world = World::new(workers);
            (0..100 * workers).for_each(|_| world.group.offer(0, job()));
            // The others have not got up yet.
            (0..early).for_each(|_| _ = world.start(0));
            world.settle();
            let busiest = world.busiest();
            assert!(busiest <= 1.3, "on {workers} workers one has {busiest:.2} times its share");
        }
    }
}

/// What is spawned together mostly talks to each other. The last of it is alone on its shelf, as
/// what trickles in is.
#[test]
fn what_is_spawned_together_after_a_sleep_stays_together() {
    for together in 2..=10 {
        let mut world = World::new(2);
        world.has_fibers(0, 1);
        world.workers[0].0.look_around(true);
        (0..together).for_each(|_| world.group.offer(0, job()));
        world.settle();
        assert_eq!((world.workers[0].1, world.workers[1].1), (1 + together, 0));
        // One alone, after another sleep, goes to the worker that has none.
        world.workers[0].0.look_around(true);
        world.spawn(0);
        world.settle();
        assert_eq!(world.workers[1].1, 1);
    }
}

/// One worker has many fibers and the other none, and children that end at once come and go:
/// they go nowhere, but for a few.
#[test]
fn children_that_end_at_once_stay_however_uneven_the_workers_are() {
    const CHILDREN: usize = 100_000;
    let moved = |sleeps: usize| {
        let mut world = World::new(2);
        world.has_fibers(0, 200);
        let mut moved = 0;
        for child in 1..=CHILDREN {
            if child % 100 == 0 {
                world.workers[0].0.look_around(child % sleeps == 0);
            }
            if world.spawn(0) {
                world.has_fibers(0, 200);
            } else {
                moved += 1;
                // The other one runs it to its end in one turn.
                drop(world.group.remote(1).shelf.take_newest().expect("it is there"));
            }
        }
        moved
    };
    for sleeps in [100, 1_000, CHILDREN + 1] {
        let moved = moved(sleeps);
        assert!((1..=CHILDREN / 100).contains(&moved), "{moved} of {CHILDREN} went elsewhere");
    }
}

/// A busy worker starts one fiber after the other, of which each talks to the one before it.
/// Answers how many links between workers there are, and how many times its share the busiest has.
fn chain(length: usize, crossings: u32) -> (usize, f64) {
    let mut world = World::new(2);
    let places: Vec<bool> = (0..length)
        .map(|_| {
            (0..crossings).for_each(|_| world.workers[0].0.cross());
            world.workers[0].0.look_around(false);
            let is_here = world.spawn(0);
            world.settle();
            is_here
        })
        .collect();
    (places.windows(2).filter(|pair| pair[0] != pair[1]).count(), world.busiest())
}

#[test]
fn workers_may_differ_by_more_while_fibers_talk_across_them() {
    for length in [100, 300, 1000] {
        let ((links, busiest), (fewer, in_talk)) = (chain(length, TALK - 1), chain(length, TALK));
        assert!(fewer < links, "{fewer} and {links} links of {length}");
        assert!(busiest <= 1.3 && in_talk <= 1.0 + (UNEVEN_IN_TALK as f64 / length as f64).max(0.3));
    }
    // It ends with the talk.
    let placing = Placing::new(false);
    (0..TALK).for_each(|_| placing.cross());
    placing.look_around(false);
    assert!(placing.is_reached(UNEVEN_IN_TALK) && !placing.is_reached(UNEVEN));
    placing.look_around(false);
    assert!(placing.is_reached(UNEVEN));
}

/// Each waits for the one before it, so a link between two workers costs more than one on one.
#[test]
fn a_chain_has_few_links_between_workers() {
    for (workers, most) in [(2, 80), (4, 160)] {
        let mut world = World::new(workers);
        let place = |world: &mut World| {
            let before: Vec<usize> = world.workers.iter().map(|(_, fibers)| *fibers).collect();
            world.workers[0].0.look_around(true);
            world.spawn(0);
            world.settle();
            (0..workers).find(|&worker| world.workers[worker].1 > before[worker]).expect("it has started")
        };
        let places: Vec<usize> = (0..1000).map(|_| place(&mut world)).collect();
        let links = places.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((1..=most).contains(&links), "{links} links are between two of {workers} workers");
        assert!(world.busiest() <= 1.3);
    }
}
