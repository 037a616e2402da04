//! Model of the workers' sleep protocol as it ships (`src/worker/group/mod.rs`): an offer meets a
//! worker that lies down, and no closure stays on a shelf while everybody sleeps; what is sent,
//! handed over or shared is run once or given back, also at the end. Workers park without a
//! time-out, so that a lost wake-up is a deadlock that the checker reports.
#![cfg(loom)]
#![allow(unsafe_code, dead_code, unused_imports)] // Jobs are made by hand; the models use a part of the file.

#[path = "../../src/worker/ebb.rs"]
mod ebb;
#[path = "../../src/worker/group/mod.rs"]
mod group;
#[path = "../../src/worker/inbox.rs"]
mod inbox;

/// What the group expects of its neighbours: a header that can be posted,
mod header {
    use super::inbox::{Letter, Post};

    pub(crate) struct Header {
        letter: Letter<Header>,
    }

    // SAFETY: it answers with the one field.
    unsafe impl Post for Header {
        fn letter(&self) -> &Letter<Self> {
            &self.letter
        }
    }
}

/// a fiber in a report, which it only names,
mod stuck {
    pub(crate) struct Stuck;
}

/// a seat, which nobody asks,
mod seat {
    pub(crate) struct Seat;

    impl Seat {
        pub(crate) fn new() -> Self {
            Self
        }
    }
}

/// and a guard against unwinding.
mod no_unwind {
    use segue_core::unwind::NoUnwind;

    pub(crate) fn no_unwind() -> NoUnwind {
        NoUnwind::new("unwound")
    }
}

use group::{Group, Modest, Rest};
use loom::thread;
use segue_core::scheduling::{Job, JobHeader, Place, Unpark, Work};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A closure that does nothing; its owner counts the runs.
#[repr(C)]
struct Nothing {
    header: JobHeader,
}

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
    unsafe { Job::from_raw(NonNull::from(Box::leak(Box::new(Nothing { header }))).cast()) }
}

/// A park that remembers. The checker's own forgets an unpark that meets a thread which is blocked
/// on a mutex.
#[derive(Default)]
struct Token {
    unparked: loom::sync::Mutex<bool>,
    changed: loom::sync::Condvar,
}

impl Token {
    fn park(&self) {
        let mut unparked = self.unparked.lock().unwrap();
        while !std::mem::take(&mut *unparked) {
            unparked = self.changed.wait(unparked).unwrap();
        }
    }
}

impl Unpark for Token {
    fn unpark(&self) {
        *self.unparked.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// What one execution of a model is about.
struct World {
    group: Arc<Group>,
    /// How many closures have still to be run; whoever runs the last one stops the group, as the
    /// first fiber of a run does.
    left: loom::sync::atomic::AtomicUsize,
    slept: AtomicUsize,
    napped: AtomicUsize,
}

impl World {
    fn new(workers: usize, closures: usize) -> Arc<Self> {
        let left = loom::sync::atomic::AtomicUsize::new(closures);
        Arc::new(Self { group: Group::new(workers), left, slept: AtomicUsize::new(0), napped: AtomicUsize::new(0) })
    }

    fn start(self: &Arc<Self>, index: usize) -> thread::JoinHandle<usize> {
        let world = Arc::clone(self);
        thread::spawn(move || work(&world, index))
    }
}

/// A worker's loop, down to what concerns sleep: takes closures until the group stops.
fn work(world: &World, index: usize) -> usize {
    let group = &world.group;
    let mut ran = 0;
    let token = Arc::new(Token::default());
    group.remote(index).set_unparker(Arc::<Token>::clone(&token));
    let mut modest = Modest::ToAll;
    loop {
        let own = group.remote(index).sent.take_oldest().or_else(|| group.remote(index).shelf.take_newest());
        let found = own.or_else(|| group.outside.take_oldest()).or_else(|| group.take_from_others(index, modest, true));
        if let Some(job) = found {
            group.wake_if_busy();
            job.run();
            ran += 1;
            if world.left.fetch_sub(1, SeqCst) == 1 {
                group.stop();
            }
        } else if group.is_stopping() {
            return ran;
        } else {
            match group.lie_down(index, false, false, modest) {
                Rest::Long => {
                    modest = Modest::ToAll;
                    world.slept.fetch_add(1, SeqCst);
                    token.park();
                }
                // The moment is over at once.
                Rest::Short => {
                    modest = Modest::No;
                    world.napped.fetch_add(1, SeqCst);
                }
                Rest::No => {}
            }
            group.got_up(index);
        }
    }
}

fn check(name: &str, slept: &AtomicUsize, awake: &AtomicUsize) {
    assert!(slept.load(SeqCst) > 0, "{name}: the worker slept in no execution");
    assert!(awake.load(SeqCst) > 0, "{name}: the worker slept in every execution");
}

/// The bound on preemptions that keeps a model of three threads to seconds.
fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_closure_from_outside_meets_a_worker_that_lies_down() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let world = World::new(1, 1);
        let worker = world.start(0);
        world.group.inject(job());
        assert_eq!(worker.join().unwrap(), 1);
        if world.slept.load(SeqCst) > 0 { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("outside", &SLEPT, &AWAKE);
}

#[test]
fn two_offers_meet_one_worker_that_lies_down() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let world = World::new(2, 2);
        let worker = world.start(1);
        // This thread stands for worker 0, which is busy and offers what it cannot run now.
        world.group.offer(0, job());
        world.group.offer(0, job());
        assert_eq!(worker.join().unwrap(), 2);
        if world.slept.load(SeqCst) > 0 { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("offers", &SLEPT, &AWAKE);
}

#[test]
fn two_closures_meet_two_workers_that_lie_down() {
    static BOTH: AtomicUsize = AtomicUsize::new(0);
    static ONE: AtomicUsize = AtomicUsize::new(0);
    bounded(1, || {
        let world = World::new(2, 2);
        let workers = [0, 1].map(|index| world.start(index));
        world.group.inject(job());
        world.group.inject(job());
        let ran = workers.map(|worker| worker.join().unwrap());
        assert_eq!(ran[0] + ran[1], 2);
        if ran == [1, 1] { &BOTH } else { &ONE }.fetch_add(1, SeqCst);
    });
    assert!(BOTH.load(SeqCst) > 0, "each worker took one in no execution");
    assert!(ONE.load(SeqCst) > 0, "one worker took both in no execution");
}

/// This thread stands for worker 0, which has many fibers and finds another place for what it would
/// start.
fn find_another_place(group: &Group) -> Option<Job> {
    group.remote(0).beat.set_fibers(3);
    let (place, number) = group.find_place(0, None, 1).expect("the other worker has no fibers");
    group.move_to(0, place, number, job()).1
}

#[test]
fn a_closure_that_gets_another_place_meets_a_worker_that_lies_down() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(2, || {
        let world = World::new(2, 2);
        let worker = world.start(1);
        assert!(find_another_place(&world.group).is_none());
        assert!(find_another_place(&world.group).is_none());
        assert_eq!(worker.join().unwrap(), 2);
        if world.slept.load(SeqCst) > 0 { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("moved", &SLEPT, &AWAKE);
}

/// The worker that has been given closures is busy and takes none; the other one, which has more
/// fibers, leaves them to it for a moment, and then runs them, also if it was asleep for long.
#[test]
fn closures_that_are_left_to_a_busy_worker_are_taken_after_a_moment() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static NAPPED: AtomicUsize = AtomicUsize::new(0);
    bounded(2, || {
        let world = World::new(2, 2);
        world.group.remote(0).beat.set_fibers(3);
        world.group.remote(1).beat.set(1);
        let worker = world.start(0);
        // This thread stands for worker 1.
        world.group.offer(1, job());
        world.group.offer(1, job());
        assert_eq!(worker.join().unwrap(), 2);
        SLEPT.fetch_add(world.slept.load(SeqCst), SeqCst);
        NAPPED.fetch_add(world.napped.load(SeqCst), SeqCst);
    });
    check("left to a busy one", &SLEPT, &NAPPED);
}

/// A busy worker exposes a child of a fork and takes it back, both perhaps before the worker that
/// wished for it has lain down: that one is awake, or has a wish at the busy one.
#[test]
fn a_worker_that_sleeps_has_a_wish_at_a_busy_one() {
    static ASLEEP: AtomicUsize = AtomicUsize::new(0);
    static ROUSED: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let group = Group::new(2);
        group.beg(1);
        let idle = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                group.remote(1).set_unparker(Arc::new(Token::default()));
                group.lie_down(1, false, true, Modest::ToAll) == Rest::Long
            })
        };
        // This thread stands for worker 0, which forks.
        if group.remote(0).is_wanted() {
            group.remote(0).set_wanted(false);
            let child = job();
            let header = child.as_raw();
            group.offer(0, child);
            group.remote(0).shelf.take_back(header).map(Job::run);
        }
        let slept = idle.join().unwrap();
        // Nobody is there to take what the idle worker has found.
        group.remote(0).shelf.take_newest().map(Job::run);
        let roused = !group.remote(1).inbox.is_asleep();
        assert!(!slept || roused || group.remote(0).is_wanted(), "it sleeps, and nobody knows what it wants");
        match (slept, roused) {
            (true, false) => &ASLEEP,
            (true, true) => &ROUSED,
            (false, _) => &AWAKE,
        }
        .fetch_add(1, SeqCst);
    });
    check("wish", &ASLEEP, &AWAKE);
    assert!(ROUSED.load(SeqCst) > 0, "it was roused in no execution");
}

/// A worker with more fibers leaves closures to a busy one for a moment, and children of forks not.
#[test]
fn children_of_forks_are_left_to_nobody() {
    loom::model(|| {
        let group = Group::new(2);
        group.remote(0).beat.set_fibers(3);
        group.remote(1).beat.set(1);
        for (forks, rest) in [(false, Rest::Short), (true, Rest::No)] {
            group.remote(1).set_forks(forks);
            group.offer(1, job());
            assert_eq!(group.lie_down(0, false, true, Modest::ToAll), rest);
            group.got_up(0);
            group.remote(1).shelf.take_newest().map(Job::run).expect("nobody took it");
        }
    });
}

/// A worker that has come in vain too often leaves a few closures to a worker that is in a turn.
#[test]
fn a_shy_worker_naps_unless_there_is_a_crowd_or_nobody_works() {
    loom::model(|| {
        let group = Group::new(2);
        let lies_down = |number: usize, is_busy: bool| {
            group.remote(1).beat.set(usize::from(is_busy));
            (0..number).for_each(|_| group.offer(1, job()));
            group.remote(0).set_shy(true);
            let rest = group.lie_down(0, false, true, Modest::ToAll);
            group.got_up(0);
            while let Some(job) = group.remote(1).shelf.take_newest() {
                job.run();
            }
            rest
        };
        assert_eq!(lies_down(0, true), Rest::Short);
        assert_eq!(lies_down(1, true), Rest::Short);
        assert_eq!(lies_down(13, true), Rest::No);
        assert_eq!(lies_down(1, false), Rest::No);
    });
}

#[test]
fn a_shy_worker_sleeps_for_a_moment_only_and_is_told_of_what_it_has_missed() {
    static MISSED: AtomicUsize = AtomicUsize::new(0);
    static EARLY_OR_LATE: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let group = Group::new(2);
        group.remote(1).beat.set(1);
        let busy = {
            let group = Arc::clone(&group);
            thread::spawn(move || group.offer(1, job()))
        };
        group.remote(0).set_shy(true);
        assert_eq!(group.lie_down(0, false, false, Modest::ToAll), Rest::Short);
        // The moment is over at once.
        let missed = group.remote(0).set_shy(false);
        group.got_up(0);
        busy.join().unwrap();
        let closure = group.take_from_others(0, Modest::ToAll, true).expect("it leaves nothing any more");
        closure.run();
        if missed { &MISSED } else { &EARLY_OR_LATE }.fetch_add(1, SeqCst);
    });
    check("shy", &MISSED, &EARLY_OR_LATE);
}

#[test]
fn a_closure_that_gets_another_place_while_the_group_stops_is_run_once() {
    static THERE: AtomicUsize = AtomicUsize::new(0);
    static HERE: AtomicUsize = AtomicUsize::new(0);
    bounded(2, || {
        // More than there are: the group is stopped by somebody else.
        let world = World::new(2, 9);
        let worker = world.start(1);
        let stopper = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.group.stop())
        };
        let kept = match world.group.find_place(0, None, 0) {
            Some((place, number)) => world.group.move_to(0, place, number, job()).1,
            None => Some(job()),
        };
        stopper.join().unwrap();
        // As worker 0 does before it ends.
        let mut here = kept.into_iter().map(Job::run).count();
        here += world.group.take_from_others(0, Modest::ToAll, true).into_iter().map(Job::run).count();
        let there = worker.join().unwrap();
        assert_eq!(here + there, 1);
        THERE.fetch_add(there, SeqCst);
        HERE.fetch_add(here, SeqCst);
    });
    check("moved at the end", &THERE, &HERE);
}

#[test]
fn a_closure_that_is_sent_meets_a_worker_that_lies_down() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let world = World::new(2, 2);
        let worker = world.start(1);
        // This thread stands for worker 0, whose policy sends. Nobody else may take these, so each
        // must wake that very worker.
        assert!(world.group.send(1, job()).is_ok());
        assert!(world.group.send(1, job()).is_ok());
        assert_eq!(worker.join().unwrap(), 2);
        if world.slept.load(SeqCst) > 0 { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("sent", &SLEPT, &AWAKE);
}

/// What a policy shares by its own means is in place before the wake, and found by one more look.
#[test]
fn a_worker_that_is_nudged_asks_its_policy_again() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let group = Group::new(1);
        let shared = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let worker = {
            let (group, shared) = (Arc::clone(&group), Arc::clone(&shared));
            thread::spawn(move || {
                let token = Arc::new(Token::default());
                group.remote(0).set_unparker(Arc::<Token>::clone(&token));
                let mut slept = false;
                while !shared.load(std::sync::atomic::Ordering::Relaxed) {
                    if group.lie_down(0, false, false, Modest::ToAll) == Rest::Long {
                        slept = true;
                        token.park();
                    }
                    group.got_up(0);
                }
                slept
            })
        };
        shared.store(true, std::sync::atomic::Ordering::Relaxed);
        group.wake(0);
        if worker.join().unwrap() { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("nudged", &SLEPT, &AWAKE);
}

/// Ends worker `index` of a group that stops: runs what there is until it may retire.
fn end(group: &Group, index: usize) -> usize {
    let mut ran = 0;
    loop {
        if let Some(job) = group.remote(index).sent.take_oldest().or_else(|| group.outside.take_oldest()) {
            job.run();
            ran += 1;
        } else if group.retire(index) {
            return ran;
        }
    }
}

#[test]
fn what_meets_the_end_of_a_worker_is_run_or_given_back() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let group = Group::new(1);
        let last = {
            let group = Arc::clone(&group);
            thread::spawn(move || end(&group, 0))
        };
        let sender = {
            let group = Arc::clone(&group);
            thread::spawn(move || usize::from(group.send(0, job()).is_ok()))
        };
        let injected = usize::from(group.try_inject(job()).is_ok());
        let accepted = injected + sender.join().unwrap();
        assert_eq!(last.join().unwrap(), accepted);
        assert!(group.send(0, job()).is_err() && group.try_inject(job()).is_err());
        RAN.fetch_add(accepted, SeqCst);
        REFUSED.fetch_add(2 - accepted, SeqCst);
    });
    assert!(RAN.load(SeqCst) > 0 && REFUSED.load(SeqCst) > 0, "one of the outcomes was never reached");
}

#[test]
fn what_meets_the_close_of_a_group_is_dropped_or_given_back() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    loom::model(|| {
        let group = Group::new(1);
        let closer = {
            let group = Arc::clone(&group);
            thread::spawn(move || group.close())
        };
        let accepted = group.try_inject(job()).is_ok();
        closer.join().unwrap();
        // What had come before was dropped with the shelf.
        assert!(group.outside.take_oldest().is_none());
        if accepted { &DROPPED } else { &REFUSED }.fetch_add(1, SeqCst);
    });
    assert!(DROPPED.load(SeqCst) > 0 && REFUSED.load(SeqCst) > 0, "one of the outcomes was never reached");
}

#[test]
fn what_is_handed_over_while_its_worker_ends_is_run_once() {
    static HANDED: AtomicUsize = AtomicUsize::new(0);
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let group = Group::new(2);
        assert!(group.send(0, job()).is_ok());
        let monitor = {
            let group = Arc::clone(&group);
            thread::spawn(move || group.relieve(0))
        };
        let other = {
            let group = Arc::clone(&group);
            thread::spawn(move || end(&group, 1))
        };
        let own = end(&group, 0);
        monitor.join().unwrap();
        let handed = other.join().unwrap();
        assert_eq!(own + handed, 1);
        if handed == 1 { &HANDED } else { &KEPT }.fetch_add(1, SeqCst);
    });
    assert!(HANDED.load(SeqCst) > 0 && KEPT.load(SeqCst) > 0, "one of the outcomes was never reached");
}

/// Nobody tells a busy worker that another sleeps: it sees that before one of its turns, and offers
/// what its policy has kept.
#[test]
fn a_worker_that_goes_on_taking_turns_sees_the_sleeper_and_shares() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static BEGGED: AtomicUsize = AtomicUsize::new(0);
    bounded(2, || {
        let world = World::new(2, 1);
        let sleeper = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.group.beg(1);
                work(&world, 1)
            })
        };
        // This thread stands for worker 0: turns of something else, with a closure to spare.
        let begged = loop {
            let begged = world.group.remote(0).is_wanted();
            if begged || world.group.has_sleepers() {
                break begged;
            }
            thread::yield_now();
        };
        world.group.offer(0, job());
        assert_eq!(sleeper.join().unwrap(), 1);
        SLEPT.fetch_add(world.slept.load(SeqCst), SeqCst);
        BEGGED.fetch_add(usize::from(begged), SeqCst);
    });
    check("shared", &SLEPT, &BEGGED);
}

#[test]
fn no_worker_gets_up_unwatched() {
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    static AWAKE: AtomicUsize = AtomicUsize::new(0);
    bounded(3, || {
        let group = Group::new(1);
        let up = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let token = Arc::new(Token::default());
        group.set_monitor(Arc::<Token>::clone(&token));
        assert_eq!(group.lie_down(0, false, false, Modest::ToAll), Rest::Long);
        let worker = {
            let (group, up) = (Arc::clone(&group), Arc::clone(&up));
            thread::spawn(move || {
                group.got_up(0);
                up.store(true, SeqCst);
            })
        };
        // The monitor: a worker that is up is not to be missed.
        let slept = group.unwatch();
        if slept {
            token.park();
            group.watch_again();
            assert!(!group.has_sleepers(), "it was woken by nobody");
        }
        worker.join().unwrap();
        assert!(up.load(SeqCst) && !group.has_sleepers() && !group.unwatch());
        if slept { &SLEPT } else { &AWAKE }.fetch_add(1, SeqCst);
    });
    check("unwatched", &SLEPT, &AWAKE);
}

/// The broken variant: the shelves are looked through before the announcement, and not after.
fn lie_down_wrongly(group: &Group, index: usize) -> bool {
    let anything_left = group.offer_to(index, Modest::No).is_some() || group.is_stopping();
    let announced = group.remote(index).inbox.doze();
    !anything_left && announced
}

#[test]
#[should_panic(expected = "deadlock")]
fn planted_a_look_before_the_announcement_loses_the_wake_up() {
    bounded(3, || {
        let group = Group::new(1);
        let worker = {
            let group = Arc::clone(&group);
            thread::spawn(move || {
                let token = Arc::new(Token::default());
                group.remote(0).set_unparker(Arc::<Token>::clone(&token));
                while group.outside.take_oldest().map(Job::run).is_none() {
                    if lie_down_wrongly(&group, 0) {
                        token.park();
                    }
                    group.remote(0).inbox.rouse();
                }
            })
        };
        group.inject(job());
        worker.join().unwrap();
    });
}

/// A worker to which closures are sent, down to what concerns its end: takes them until the group
/// stops and it may retire.
fn take_what_is_sent(group: &Group, slept: &AtomicUsize) -> usize {
    let mut ran = 0;
    let token = Arc::new(Token::default());
    group.remote(0).set_unparker(Arc::<Token>::clone(&token));
    loop {
        if let Some(job) = group.remote(0).sent.take_oldest().or_else(|| group.outside.take_oldest()) {
            job.run();
            ran += 1;
        } else if group.is_stopping() && group.retire(0) {
            return ran;
        } else {
            if group.lie_down(0, false, false, Modest::ToAll) == Rest::Long {
                slept.fetch_add(1, SeqCst);
                token.park();
            }
            group.got_up(0);
        }
    }
}

#[test]
fn a_closure_that_is_sent_to_a_worker_that_ends_runs_there_or_comes_back() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    static BACK: AtomicUsize = AtomicUsize::new(0);
    static SLEPT: AtomicUsize = AtomicUsize::new(0);
    bounded(2, || {
        let group = Group::new(1);
        let worker = {
            let group = Arc::clone(&group);
            thread::spawn(move || take_what_is_sent(&group, &SLEPT))
        };
        let first = group.send(0, job());
        group.stop();
        let last = [group.send(0, job()), group.try_inject(job())];
        let back = last.into_iter().chain([first]).filter_map(Result::err).map(Job::run).count();
        assert_eq!(worker.join().unwrap() + back, 3);
        BACK.fetch_add(back, SeqCst);
        RAN.fetch_add(3 - back, SeqCst);
    });
    for (what, times) in [("ran there", &RAN), ("came back", &BACK), ("met a sleeper", &SLEPT)] {
        assert!(times.load(SeqCst) > 0, "{what} in no execution");
    }
}
