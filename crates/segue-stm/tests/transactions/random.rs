//! Random transactions: whatever they read, in attempts that commit and in all others, is explained
//! by one order of the commits, in which none comes before one that had ended when it began.
use segue::sched::{Explore, Sim};
use segue_stm::{Stop, TVar, Tx, atomically};
use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The content of a variable is the attempt that has written it; 0 in the beginning.
type Vars = Vec<TVar<usize>>;

#[derive(Clone, Copy)]
enum Step {
    Read(usize),
    Write(usize),
    /// A write in a nested transaction that is given up.
    GivenUp(usize),
    /// A write in the left branch of a choice, which asks for a retry; then a read on the right.
    Left(usize, usize),
    /// A write in a transaction inside of the body.
    Inside(usize),
}

/// What an attempt has seen: the variable, and the attempt that had written it.
#[derive(Default)]
struct Attempt {
    number: usize,
    begin: usize,
    end: usize,
    reads: Vec<(usize, usize)>,
    writes: Vec<(usize, usize)>,
}

/// A world: its clock counts the beginnings and ends of attempts.
struct World {
    vars: Vars,
    clock: AtomicUsize,
    numbers: AtomicUsize,
    history: Mutex<Vec<Attempt>>,
}

impl World {
    fn new(count: usize) -> Self {
        let vars = (0..count).map(|_| TVar::new(0)).collect();
        Self { vars, clock: AtomicUsize::new(0), numbers: AtomicUsize::new(0), history: Mutex::default() }
    }

    fn read(&self, tx: &Tx<'_>, attempt: &mut Attempt, var: usize) -> Result<(), Stop> {
        let seen = *tx.read(&self.vars[var])?;
        let own = attempt.writes.iter().any(|write| write.0 == var);
        if own {
            assert_eq!(seen, attempt.number, "an own write is not seen");
        } else {
            let before = attempt.reads.iter().find(|read| read.0 == var);
            assert!(before.is_none_or(|read| read.1 == seen), "a second read differs");
            attempt.reads.push((var, seen));
        }
        Ok(())
    }

    fn write(&self, tx: &Tx<'_>, attempt: &mut Attempt, var: usize) -> Result<(), Stop> {
        self.read(tx, attempt, var)?;
        tx.write(&self.vars[var], attempt.number)?;
        if !attempt.writes.iter().any(|write| write.0 == var) {
            let before = attempt.reads.iter().find(|read| read.0 == var).expect("it was read");
            attempt.writes.push((var, before.1));
        }
        Ok(())
    }

    fn step(&self, tx: &Tx<'_>, attempt: &mut Attempt, step: Step) -> Result<(), Stop> {
        let given_up = |tx: &Tx<'_>, attempt: &mut Attempt, var| {
            let writes = attempt.writes.len();
            self.write(tx, attempt, var)?;
            self.read(tx, attempt, var)?;
            attempt.writes.truncate(writes);
            Ok(())
        };
        match step {
            Step::Read(var) => self.read(tx, attempt, var),
            Step::Write(var) => self.write(tx, attempt, var),
            Step::GivenUp(var) => {
                let outcome = tx.catch(|tx| given_up(tx, attempt, var).map(|()| Err::<(), _>(())))?;
                assert_eq!(outcome, Err(()));
                self.read(tx, attempt, var)
            }
            Step::Left(left, right) => {
                let attempt = RefCell::new(attempt);
                tx.or_else(
                    |tx| given_up(tx, &mut attempt.borrow_mut(), left).and_then(|()| tx.retry()),
                    |tx| self.read(tx, &mut attempt.borrow_mut(), right),
                )?;
                self.read(tx, &mut attempt.borrow_mut(), left)
            }
            Step::Inside(var) => {
                let attempt = RefCell::new(attempt);
                atomically(|tx| self.write(tx, &mut attempt.borrow_mut(), var)).map_err(Stop::from)
            }
        }
    }

    /// Runs a transaction, and notes all its attempts.
    fn transaction(&self, steps: &[Step]) {
        let attempts = RefCell::new(Vec::new());
        // An attempt has its snapshot before the body begins: its time begins with the call, or
        // with the end of the attempt before.
        let begin = Cell::new(self.clock.fetch_add(1, SeqCst));
        atomically(|tx| {
            let mut attempt = Attempt { number: self.numbers.fetch_add(1, SeqCst) + 1, ..Attempt::default() };
            attempt.begin = begin.get();
            let outcome = steps.iter().try_for_each(|step| self.step(tx, &mut attempt, *step));
            attempt.end = self.clock.fetch_add(1, SeqCst);
            begin.set(attempt.end);
            attempts.borrow_mut().push(attempt);
            outcome
        })
        .unwrap();
        let mut attempts = attempts.into_inner();
        // Only the last one has committed, and this is its end.
        let last = attempts.len() - 1;
        attempts[..last].iter_mut().for_each(|attempt| attempt.writes.clear());
        attempts[last].end = self.clock.fetch_add(1, SeqCst);
        self.history.lock().unwrap().append(&mut attempts);
    }

    /// Looks for an order. Answers how many reads, and how many attempts in vain, there were.
    fn check(&self) -> (usize, usize) {
        let history = std::mem::take(&mut *self.history.lock().unwrap());
        let attempts = self.numbers.load(SeqCst) + 1;
        let times = self.clock.load(SeqCst);
        // The nodes are attempts, by number, and instants.
        let mut edges = vec![Vec::new(); attempts + times];
        // The attempt that has replaced this version of this variable.
        let mut next = std::collections::HashMap::new();
        for attempt in &history {
            for (var, before) in &attempt.writes {
                let other = next.insert((*var, *before), attempt.number);
                assert_eq!(other, None, "an update was lost");
            }
        }
        let mut reads = 0;
        for attempt in &history {
            reads += attempt.reads.len();
            for read in &attempt.reads {
                edges[read.1].push(attempt.number);
                let replaced = next.get(read).filter(|by| **by != attempt.number);
                replaced.inspect(|by| edges[attempt.number].push(**by));
            }
            edges[attempts + attempt.begin].push(attempt.number);
            edges[attempt.number].push(attempts + attempt.end);
        }
        (1..times).for_each(|time| edges[attempts + time - 1].push(attempts + time));
        let mut before = vec![0; edges.len()];
        edges.iter().flatten().for_each(|to| before[*to] += 1);
        let mut free: Vec<_> = (0..edges.len()).filter(|node| before[*node] == 0).collect();
        let mut ordered = 0;
        while let Some(node) = free.pop() {
            ordered += 1;
            for to in &edges[node] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        assert_eq!(ordered, edges.len(), "the attempts have no order");
        (reads, history.iter().filter(|attempt| attempt.writes.is_empty()).count())
    }
}

fn steps(random: &mut fastrand::Rng, vars: usize) -> Vec<Step> {
    let only_reads = random.u8(..3) == 0;
    (0..random.usize(2..10))
        .map(|_| match random.u8(..if only_reads { 4 } else { 8 }) {
            0..4 => Step::Read(random.usize(..vars)),
            4 => Step::GivenUp(random.usize(..vars)),
            5 => Step::Left(random.usize(..vars), random.usize(..vars)),
            6 => Step::Inside(random.usize(..vars)),
            _ => Step::Write(random.usize(..vars)),
        })
        .collect()
}

/// 10^6; by hand once 10^9, with `SEGUE_STM_READS=1000000000`.
fn reads_to_check() -> usize {
    std::env::var("SEGUE_STM_READS").map_or(1_000_000, |reads| reads.parse().expect("a number"))
}

#[test]
fn threads_have_an_order() {
    let (mut reads, mut in_vain, mut seed) = (0, 0, 0);
    while reads < reads_to_check() {
        let world = World::new(4 + seed as usize % 5 * 3);
        std::thread::scope(|s| {
            for thread in 0..3 {
                let world = &world;
                s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed * 3 + thread);
                    (0..2_000).for_each(|_| world.transaction(&steps(&mut random, world.vars.len())));
                });
            }
        });
        let checked = world.check();
        (reads, in_vain, seed) = (reads + checked.0, in_vain + checked.1, seed + 1);
    }
    println!("{reads} reads, {in_vain} attempts in vain or without a write");
    assert!(in_vain > 0);
}

fn fibers(seed: u64, transactions: usize) -> (usize, usize) {
    let world = World::new(4);
    segue::scope(|s| {
        for fiber in 0..4 {
            let world = &world;
            s.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed * 4 + fiber);
                (0..transactions).for_each(|_| world.transaction(&steps(&mut random, world.vars.len())));
            });
        }
    });
    world.check()
}

/// The simulator interrupts bodies at each read and write.
#[test]
fn fibers_that_are_interrupted_in_their_bodies_have_an_order() {
    let in_vain = AtomicUsize::new(0);
    let seed = AtomicUsize::new(0);
    Explore::random(300).check(|| {
        let seed = seed.fetch_add(1, SeqCst) as u64;
        in_vain.fetch_add(fibers(seed, 8).1, SeqCst);
    });
    Explore::pct(3, 300).check(|| {
        let seed = seed.fetch_add(1, SeqCst) as u64;
        in_vain.fetch_add(fibers(seed, 8).1, SeqCst);
    });
    assert!(in_vain.load(SeqCst) > 0);
}

#[test]
fn a_simulation_is_the_same_again() {
    let run = || Sim::new(7).run(|| fibers(7, 20)).unwrap();
    assert_eq!(run(), run());
}
