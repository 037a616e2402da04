//! Each policy against its specification: random programs run on one worker under the policy, and a
//! model of a few lines says at every turn whether what was given out is right.
// The models' clock is a variable of the worker's thread.
#![cfg(not(any(miri, feature = "threads")))]

use crate::common::scaled;
use segue_core::{Attribute, Builder, attribute, attributes, yield_now};
use segue_sched::{
    ByDeadline, ByPriority, Class, Due, Fair, Fifo, Goes, Hierarchical, Lifo, Ordered, Policy, Priority, Share, Task,
    Why,
};
use std::cell::{Cell, RefCell};
use std::num::NonZero;
use std::time::{Duration, Instant};

/// Which fiber it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tag(u64);

impl Attribute for Tag {
    fn to_bits(self) -> u64 {
        self.0
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// What a model knows of something that is ready.
#[derive(Clone, Copy, Debug)]
struct Seen {
    tag: u64,
    fresh: bool,
    why: Why,
    priority: i32,
    due: Option<Due>,
    /// When it became ready, in pushes.
    at: u64,
}

/// Says which of those that are ready, in the order in which they became so, is to be given out
/// next.
type Next = fn(ready: &[Seen], turn: u32) -> Option<usize>;

/// A policy that is compared with a model at each turn. Now and then it is asked for a spare
/// closure, which then comes back.
struct Observed<P> {
    policy: P,
    next: Next,
    ready: Vec<Seen>,
    pushes: u64,
    turns: u32,
    spares: fastrand::Rng,
}

thread_local! {
    /// How many turns were given out, and spares taken, under observation.
    static COUNTS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    /// How far the clock of this thread's test has gone.
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// When the test began.
    static START: Instant = Instant::now();
    /// Who had turns, how long each: (group, nanoseconds), and which groups had something ready
    /// meanwhile.
    static TURNS: RefCell<Vec<(u32, u128, Vec<u32>)>> = const { RefCell::new(Vec::new()) };
}

fn clock() -> Instant {
    START.with(|start| *start + TIME.get())
}

impl<P> Observed<P> {
    fn new(policy: P, seed: u64, next: Next) -> Self {
        Self { policy, next, ready: Vec::new(), pushes: 0, turns: 0, spares: fastrand::Rng::with_seed(seed) }
    }
}

impl<P: Policy> Policy for Observed<P> {
    fn seated(&mut self, seat: segue_sched::Seat) {
        self.policy.seated(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.pushes += 1;
        let seen = Seen {
            tag: task.attribute::<Tag>().map_or(0, |tag| tag.0),
            fresh: matches!(task, Task::Fresh(_)),
            why,
            priority: task.attribute().map_or(0, |Priority(priority)| priority),
            due: task.attribute(),
            at: self.pushes,
        };
        self.ready.push(seen);
        self.policy.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        if self.spares.u8(..8) == 0
            && let Some(job) = self.policy.spare()
        {
            let tag = job.attribute().map_or(0, |Tag(tag)| tag);
            let fresh: Vec<_> = self.ready.iter().copied().filter(|seen| seen.fresh).collect();
            let at = self.ready.iter().position(|seen| seen.fresh && seen.tag == tag).expect("a spare that was pushed");
            if let Some(expected) = (self.next)(&fresh, 1) {
                assert_eq!(fresh[expected].tag, tag, "the spare is the closure that would be next, of {fresh:#?}");
            }
            self.ready.remove(at);
            COUNTS.set((COUNTS.get().0, COUNTS.get().1 + 1));
            assert!(matches!(self.push(Task::Fresh(job), Why::Taken), Goes::Here));
        }
        self.turns += 1;
        let task = self.policy.pop();
        let tag = task.as_ref().map(|task| task.attribute::<Tag>().map_or(0, |tag| tag.0));
        let at = tag.map(|tag| self.ready.iter().position(|seen| seen.tag == tag).expect("something that was pushed"));
        assert_eq!(at.is_none(), self.ready.is_empty(), "turn {}: {:#?}", self.turns, self.ready);
        if let Some(expected) = (self.next)(&self.ready, self.turns) {
            assert_eq!(at, Some(expected), "turn {}: {:#?}", self.turns, self.ready);
        }
        if let Some(at) = at {
            self.ready.remove(at);
            COUNTS.set((COUNTS.get().0 + 1, COUNTS.get().1));
        }
        task
    }

    fn spare(&mut self) -> Option<segue_core::scheduling::Job> {
        None
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}

/// A group without its weight, for the models.
#[derive(Clone, Copy)]
struct Group(u32);

impl Attribute for Group {
    fn to_bits(self) -> u64 {
        self.0.into()
    }

    #[expect(clippy::cast_possible_truncation, reason = "it was made of 32 bits")]
    fn from_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
}

/// The weight of a group, and the share of a class.
fn weight(group: u32) -> u32 {
    [1, 2, 5, 3][group as usize]
}

/// A program at random: fibers that yield, compute, change what they carry, spawn others and may
/// wait for them.
fn program(seed: u64) {
    fn attributed(rng: &mut fastrand::Rng) -> Builder {
        let group = rng.u32(..4);
        let builder = Builder::new()
            .attribute(Tag(rng.u64(1..)))
            .attribute(Priority(rng.i32(-2..3)))
            .attribute(Group(group))
            .attribute(Share::new(group, weight(group)))
            .attribute(Class(rng.u32(..3)));
        if rng.bool() { builder.attribute(Due::at(clock() + Duration::from_micros(rng.u64(..300)))) } else { builder }
    }
    fn wander(mut rng: fastrand::Rng, depth: u32) {
        let mut children = Vec::new();
        for _ in 0..rng.u32(2..12) {
            TIME.set(TIME.get() + Duration::from_micros(rng.u64(..20)));
            match rng.u8(..8) {
                0..=3 => yield_now().unwrap(),
                4 => attributes().unwrap().set(Priority(rng.i32(-2..3))),
                5 => drop(children.pop().map(|child: segue_core::JoinHandle<()>| child.join().unwrap())),
                _ if depth > 0 => {
                    let child = attributed(&mut rng);
                    let seeds = rng.fork();
                    children.push(child.spawn(move || wander(seeds, depth - 1)));
                }
                _ => {}
            }
        }
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let fibers: Vec<_> = (0..6)
        .map(|_| {
            let seeds = rng.fork();
            attributed(&mut rng).spawn(move || wander(seeds, 3))
        })
        .collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert_eq!(attribute::<Tag>(), None, "the first fiber carries nothing");
}

/// Runs programs at random under a policy that a model watches. On this thread, so that both share
/// its clock.
fn agrees<P: Policy>(make: impl Fn() -> P + Sync, next: Next) {
    COUNTS.set((0, 0));
    for seed in 0..scaled(60, 20) as u64 {
        println!("seed {seed}");
        let policy = || Observed::new(make(), seed, next);
        segue_sched::Runtime::new().workers(1).run_with(policy, || program(seed)).unwrap();
    }
    let (turns, spares) = COUNTS.get();
    println!("{turns} turns, {spares} spares");
    assert!(turns > 1_000, "the programs did too little: {turns} turns");
}

/// The place of the first with the least key.
fn least<K: Ord>(ready: &[Seen], key: impl Fn(&Seen) -> K) -> Option<usize> {
    (0..ready.len()).min_by_key(|&at| key(&ready[at]))
}

#[test]
fn fifo_gives_out_the_oldest() {
    agrees(Fifo::default, |ready, _| least(ready, |seen| seen.at));
}

#[test]
fn lifo_gives_out_the_newest_and_what_yielded_last_of_all() {
    fn yielded(seen: &Seen) -> bool {
        seen.why == Why::Yielded
    }
    /// Of those that yielded, in turn: who did so first is the newest of them.
    fn newest(seen: &Seen) -> (bool, u64) {
        (yielded(seen), if yielded(seen) { seen.at } else { u64::MAX - seen.at })
    }
    agrees(Lifo::strict, |ready, _| least(ready, newest));
    agrees(Lifo::default, |ready, turn| match turn % 128 {
        0 => least(ready, |seen| (!yielded(seen), seen.at)),
        64 => least(ready, |seen| (yielded(seen), seen.at)),
        _ => least(ready, newest),
    });
}

#[test]
fn strict_priorities_give_out_the_oldest_of_the_most_urgent() {
    agrees(ByPriority::strict, |ready, _| least(ready, |seen| (-seen.priority, seen.at)));
    assert!(COUNTS.get().1 > 100, "spares were to be taken: {:?}", COUNTS.get());
}

#[test]
fn every_third_turn_relieves_the_oldest() {
    let make = || ByPriority::relief(NonZero::new(3).unwrap());
    agrees(make, |ready, turn| match turn % 3 {
        0 => least(ready, |seen| seen.at),
        _ => least(ready, |seen| (-seen.priority, seen.at)),
    });
}

#[test]
fn deadlines_give_out_what_is_due_first() {
    // With such a patience, whoever carries no deadline comes after all others.
    let make = || ByDeadline::with_clock(Duration::from_secs(3600), clock);
    agrees(make, |ready, _| {
        // Two that are not due are due in the order in which they became ready, as time does not go
        // back.
        least(ready, |seen| (seen.due.is_none(), seen.due, seen.at))
    });
    assert!(COUNTS.get().1 > 100, "spares were to be taken: {:?}", COUNTS.get());
}

#[test]
fn a_collection_gives_out_the_least_key_and_the_oldest_of_it() {
    #[derive(Default)]
    struct ByTag(Ordered<u64>);
    impl Policy for ByTag {
        fn push(&mut self, task: Task, _why: Why) -> Goes {
            let key = task.attribute().map_or(0, |Tag(tag)| tag % 5);
            let before = self.0.len();
            self.0.push(key, task);
            assert_eq!(self.0.len(), before + 1);
            Goes::Here
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }

        fn spare(&mut self) -> Option<segue_core::scheduling::Job> {
            self.0.spare()
        }
    }
    agrees(ByTag::default, |ready, _| least(ready, |seen| (seen.tag % 5, seen.at)));
}

/// A policy that notes who runs how long, and who could have.
struct Timed<P> {
    policy: P,
    key: fn(&Task) -> u32,
    ready: Vec<u32>,
    running: Option<(u32, Instant)>,
}

impl<P> Timed<P> {
    fn new(policy: P, key: fn(&Task) -> u32) -> Self {
        Self { policy, key, ready: Vec::new(), running: None }
    }
}

impl<P: Policy> Policy for Timed<P> {
    fn seated(&mut self, seat: segue_sched::Seat) {
        self.policy.seated(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.ready.push((self.key)(&task));
        self.policy.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        if let Some((key, since)) = self.running.take() {
            let mut ready = self.ready.clone();
            ready.sort_unstable();
            ready.dedup();
            TURNS.with_borrow_mut(|turns| turns.push((key, (clock() - since).as_nanos(), ready)));
        }
        let task = self.policy.pop();
        if let Some(task) = &task {
            let key = (self.key)(task);
            let at = self.ready.iter().position(|ready| *ready == key).expect("something that was pushed");
            self.ready.swap_remove(at);
            self.running = Some((key, clock()));
        }
        task
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}

/// Asserts that over any span of turns in which two parties had something to run all the time, what
/// they used in relation to their weights differs by no more than the longest turn of each. Answers
/// how many turns, and in how many two had something to run.
fn divided() -> (usize, usize) {
    let turns = TURNS.take();
    let longest = |party| {
        turns.iter().filter(|(who, ..)| *who == party).map(|(_, nanoseconds, _)| *nanoseconds).max().unwrap_or(0) as f64
    };
    let mut contested = 0;
    for (a, b) in (0..4).flat_map(|a| (0..a).map(move |b| (a, b))) {
        let (unit_a, unit_b) = (f64::from(weight(a)), f64::from(weight(b)));
        // The policy charges whole nanoseconds, and one at least.
        let bound = (longest(a) / unit_a + longest(b) / unit_b) * 1.001 + 100.0;
        // How far ahead `a` is, with the extremes since both began to have something all the time.
        let (mut ahead, mut least, mut most) = (0.0_f64, 0.0_f64, 0.0_f64);
        for (who, nanoseconds, ready) in &turns {
            let has = |party| ready.contains(&party) || *who == party;
            if who == &a {
                ahead += *nanoseconds as f64 / unit_a;
            } else if who == &b {
                ahead -= *nanoseconds as f64 / unit_b;
            }
            // After a turn at whose end one of the two had nothing, a new span begins.
            if !has(a) || !has(b) || !ready.contains(&a) || !ready.contains(&b) {
                (ahead, least, most) = (0.0, 0.0, 0.0);
                continue;
            }
            contested += 1;
            (least, most) = (least.min(ahead), most.max(ahead));
            assert!(most - least <= bound, "{a} and {b} are {} apart, allowed is {bound}", most - least);
        }
    }
    (turns.len(), contested)
}

fn shares_are_kept<P: Policy>(make: impl Fn() -> P + Sync) {
    let (mut all, mut contested) = (0, 0);
    for seed in 0..scaled(40, 10) as u64 {
        println!("seed {seed}");
        TURNS.take();
        segue_sched::Runtime::new().workers(1).run_with(&make, || program(seed)).unwrap();
        let (turns, of_two) = divided();
        (all, contested) = (all + turns, contested + of_two);
    }
    assert!(all > 1_000 && contested > 1_000, "the programs did too little: {all} turns, {contested}");
}

#[test]
fn fair_shares_follow_the_weights_over_any_span() {
    let key = |task: &Task| task.attribute().map_or(0, |Group(group)| group);
    shares_are_kept(|| Timed::new(Fair::with_clock(clock), key));
}

#[test]
#[should_panic(expected = "apart, allowed is")]
fn the_check_of_shares_finds_a_policy_that_divides_nothing() {
    let key = |task: &Task| task.attribute().map_or(0, |Group(group)| group);
    shares_are_kept(|| Timed::new(ByPriority::strict(), key));
}

#[test]
fn a_hierarchy_divides_by_shares_and_its_children_keep_their_orders() {
    let key = |task: &Task| task.attribute().map_or(0, |Class(class)| class);
    shares_are_kept(|| {
        let fifo = Observed::new(Fifo::default(), 1, |ready, _| least(ready, |seen| seen.at));
        let urgent = Observed::new(ByPriority::strict(), 2, |ready, _| least(ready, |seen| (-seen.priority, seen.at)));
        let inner = Hierarchical::with_clock(clock).child(1, Fifo::default());
        let all =
            Hierarchical::with_clock(clock).child(weight(0), fifo).child(weight(1), urgent).child(weight(2), inner);
        Timed::new(all, key)
    });
}
