//! A policy with a table that its workers share: gangs, groups of fibers that run at the same time,
//! each on a worker of its own, or not at all.
//!
//! For computations in steps, with parts that talk to each other at each step: a part that runs
//! while another one does not would only wait for it. The tests of `segue-sched` run this policy,
//! too.
//!
//! # The idea
//!
//! The policies of all workers share a table of gangs, behind a lock. Member k of a gang is sent to
//! the k-th worker from some first one on. The table decides by *rounds* which closure a worker may
//! give out: a round begins when every member is there and none is running, and lets all ready
//! members go. A member's closure holds a guard, which reports the member's end.
//!
//! # States of a member
//!
//! ```text
//!   awaited --comes to its worker--> ready --a round begins--> let go --its worker is free--> running
//!                                      ^                         ^                            |  |  |
//!                                      '------- it yields -------|----------------------------'  |  '--> over
//!                                      ^                         |                               |
//!                                      '-- resumed, between -----+-- resumed, in a round --- suspended
//! ```
//!
//! The table counts, for each gang, the `awaited`, the `ready`, and those that are `out`: let go or
//! running. A round begins, in one step under the lock, when nobody is awaited, nobody is out, and
//! somebody is ready. A member that waits for something does not hold up the others, since the wait
//! may be for one of them; a resume while others are out lets the member go along.
//!
//! The policy sees that a member has suspended or ended when asked for the next task and the member
//! has not come back. A member that is over without having come to a worker, since its closure was
//! dropped, is no longer awaited: its guard says so.
//!
//! **The race to fear**: a worker sleeps while a round has begun that lets its member go. The round
//! is in the table before [`Seat::wake`] is called, for every worker, and a worker that holds
//! members answers [`Idle::Hold`]. **Cancellation** does nothing here: a cancelled member is let go
//! as any other and sees the cancellation, or is dropped by its fiber if it had not started. **When
//! idle**: nobody of any gang is out; a gang with members that are ready has some that are awaited.
#![allow(dead_code)] // `main` and the tests use a part each.

use segue_core::scheduling::Job;
use segue_core::{Attribute, Builder, JoinHandle, Scope, scope};
use segue_sched::{Goes, Idle, Ordered, Policy, Seat, Task, Why};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

/// The gangs of one scheduler: makes its workers' policies, and new gangs.
///
/// # Order
/// Fibers of no gang are first in, first out on the worker of their spawner, unless an idle worker
/// takes them, and take turns with members that are let go; these come in the order in which their
/// rounds began, which is the same on all workers. So the members of a round start within a turn or
/// two of each other, if the workers are at hand.
///
/// No member starts before all are ready, each on a worker of its own. One that gives up its turn
/// gets another when all others of its gang have yielded, wait or are over. A member that waited
/// goes on as soon as possible while others run.
///
/// # Starvation
/// None between members and others. A gang never runs if a member of it is kept and never spawned:
/// its other members wait for as long, and so do their joiners, also at the end of the scheduler.
#[derive(Clone, Debug, Default)]
pub struct Gangs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// How many rounds have begun. Written under the lock, read without: Release when a round
    /// begins, Acquire in `pop`, which takes the lock after a change.
    rounds: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    seat: Option<Seat>,
    gangs: HashMap<u64, State>,
}

#[derive(Debug)]
struct State {
    /// Whether each member is awaited no more.
    came: Vec<bool>,
    awaited: usize,
    ready: usize,
    out: usize,
    /// Members that are not over.
    live: usize,
    /// The number of the last round that has begun: members that were ready before that are let go.
    round: u64,
}

/// A gang did not fit: the gang has more members than the scheduler has workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangTooLarge {
    /// The number of its members.
    pub members: usize,
    /// How many workers there are; none before the scheduler has started.
    pub workers: usize,
}

impl std::fmt::Display for GangTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { members, workers } = self;
        write!(
            f,
            "a gang of {members} needs as many workers, and there are {workers}: start more, or divide the work among fewer members"
        )
    }
}

impl std::error::Error for GangTooLarge {}

/// How many bits of an attribute say which member of its gang a fiber is.
const INDEX_BITS: u32 = 16;

/// Which member of which gang a fiber is. Its children are members of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Member {
    gang: u64,
    index: usize,
}

impl Attribute for Member {
    const INHERITED: bool = false;

    fn to_bits(self) -> u64 {
        self.gang << INDEX_BITS | self.index as u64
    }

    fn from_bits(bits: u64) -> Self {
        Self { gang: bits >> INDEX_BITS, index: (bits & ((1 << INDEX_BITS) - 1)) as usize }
    }
}

impl Gangs {
    /// None yet, for a scheduler that is to be started.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of one worker. All workers of one scheduler have theirs from the same `Gangs`,
    /// and no other scheduler has.
    #[must_use]
    pub fn policy(&self) -> Ganged {
        let gangs = Arc::clone(&self.0);
        Ganged {
            gangs,
            seat: None,
            others: Ordered::default(),
            waiting: Vec::new(),
            let_go: Ordered::default(),
            seen: 0,
            running: None,
            turn: false,
        }
    }

    /// A gang with a member for each of these closures, which are to be spawned. One that is
    /// dropped instead counts as over.
    ///
    /// # Errors
    /// [`GangTooLarge`] if the scheduler has fewer workers than that, or has not started.
    pub fn gang<F>(&self, closures: impl IntoIterator<Item = F>) -> Result<Vec<Part<F>>, GangTooLarge> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let closures: Vec<_> = closures.into_iter().collect();
        let members = closures.len();
        let mut table = self.0.lock();
        let workers = table.seat.as_ref().map_or(0, Seat::workers);
        if members > workers.min(1 << INDEX_BITS) {
            return Err(GangTooLarge { members, workers });
        }
        let gang = NUMBERS.fetch_add(1, Ordering::Relaxed);
        if members > 0 {
            let state =
                State { came: vec![false; members], awaited: members, ready: 0, out: 0, live: members, round: 0 };
            table.gangs.insert(gang, state);
        }
        drop(table);
        let part = |(index, f)| {
            let member = Member { gang, index };
            Part { builder: Builder::new().attribute(member), guard: Guard { gangs: Arc::clone(&self.0), member }, f }
        };
        Ok(closures.into_iter().enumerate().map(part).collect())
    }
}

/// A member of a gang that is still to be spawned, by a fiber of the scheduler of its [`Gangs`].
#[must_use = "the other members wait until it was spawned or dropped"]
pub struct Part<F> {
    builder: Builder,
    guard: Guard,
    f: F,
}

impl<F> Part<F> {
    /// The name that reports give to the fiber.
    pub fn name(self, name: impl Into<Box<str>>) -> Self {
        Self { builder: self.builder.name(name), ..self }
    }

    /// As [`segue_core::spawn`].
    pub fn spawn<T>(self) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let Self { builder, guard, f } = self;
        builder.spawn(move || guard.around(f))
    }

    /// As [`Scope::spawn`].
    pub fn spawn_within<'scope, T>(self, scope: &'scope Scope<'scope, '_>) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Self { builder, guard, f } = self;
        builder.within(scope).spawn(move || guard.around(f))
    }
}

impl<F> std::fmt::Debug for Part<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a member of a gang")
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a gang's state, if there is one, and begins a round in time.
    fn change<R>(&self, gang: u64, change: impl FnOnce(&mut State) -> R) -> Option<R> {
        let mut table = self.lock();
        let state = table.gangs.get_mut(&gang)?;
        let result = change(state);
        let begins = state.awaited == 0 && state.out == 0 && state.ready > 0;
        if begins {
            state.out = std::mem::take(&mut state.ready);
            state.round = self.rounds.load(Ordering::Relaxed) + 1;
            self.rounds.store(state.round, Ordering::Release);
        }
        if state.live == 0 {
            table.gangs.remove(&gang);
        }
        let seat = table.seat.clone().filter(|_| begins);
        drop(table);
        if let Some(seat) = seat {
            (0..seat.workers()).for_each(|worker| seat.wake(worker));
        }
        Some(result)
    }
}

/// Lives in a member's closure.
struct Guard {
    gangs: Arc<Shared>,
    member: Member,
}

impl Guard {
    fn around<T>(self, f: impl FnOnce() -> T) -> T {
        let _guard = self;
        f()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.gangs.change(self.member.gang, |state| {
            state.comes(self.member.index);
            state.live -= 1;
        });
    }
}

/// The course of a member that is ready.
enum Fate {
    /// The next round with a higher number than this lets the member go.
    Waits(u64),
    /// Let go, as one of the round of this number.
    Goes(u64),
}

impl State {
    /// A member is not awaited any more. Answers whether the member was awaited.
    fn comes(&mut self, index: usize) -> bool {
        let first = !std::mem::replace(&mut self.came[index], true);
        self.awaited -= usize::from(first);
        first
    }

    /// A member is ready that `was_out`, or that was not.
    fn is_ready(&mut self, index: usize, was_out: bool, why: Why) -> Fate {
        let first = self.comes(index);
        if was_out && why != Why::Resumed {
            self.out = self.out.saturating_sub(1);
        } else if was_out {
            return Fate::Goes(self.round);
        } else if !first && self.out > 0 {
            self.out += 1;
            return Fate::Goes(self.round);
        }
        self.ready += 1;
        Fate::Waits(self.round)
    }
}

/// The policy of one worker of a scheduler with [`Gangs`].
#[derive(Debug)]
pub struct Ganged {
    gangs: Arc<Shared>,
    seat: Option<Seat>,
    /// All with the same key.
    others: Ordered<u64>,
    /// Members that are ready and not let go, and the round of their gang after which that was.
    waiting: Vec<(Member, u64, Task)>,
    /// Members that are let go, by round.
    let_go: Ordered<u64>,
    /// How many rounds had begun when the table was looked at last.
    seen: u64,
    /// The member that runs, or has run since the last `pop`.
    running: Option<Member>,
    /// Whether the next turn is a member's.
    turn: bool,
}

impl Ganged {
    /// Looks which of the members that wait are let go.
    fn look(&mut self) {
        let table = self.gangs.lock();
        let round = |member: &Member| table.gangs.get(&member.gang).map_or(u64::MAX, |state| state.round);
        for (member, _, task) in self.waiting.extract_if(.., |(member, after, _)| round(member) > *after) {
            self.let_go.push(round(&member), task);
        }
    }
}

impl Policy for Ganged {
    fn seated(&mut self, seat: Seat) {
        let mut table = self.gangs.lock();
        let first = table.seat.get_or_insert_with(|| seat.clone());
        assert!(first.is_beside(&seat), "a `Gangs` is for one scheduler: make another one for each");
        self.seat = Some(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        let Some(member) = task.attribute::<Member>() else {
            self.others.push(0, task);
            return Goes::Here;
        };
        let task = match (task, why, &self.seat) {
            (Task::Fresh(job), Why::Spawned | Why::Arrived, Some(seat)) => {
                let place = (member.gang as usize + member.index) % seat.workers();
                if place != seat.index() {
                    return Goes::To(place, job);
                }
                Task::Fresh(job)
            }
            (task, ..) => task,
        };
        let was_out = self.running == Some(member);
        self.running.take_if(|_| was_out);
        match self.gangs.change(member.gang, |state| state.is_ready(member.index, was_out, why)) {
            Some(Fate::Waits(after)) => self.waiting.push((member, after, task)),
            Some(Fate::Goes(round)) => self.let_go.push(round, task),
            // A gang of another scheduler, from which the fiber has come.
            None => self.others.push(0, task),
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        if let Some(member) = self.running.take() {
            // The member has suspended or ended.
            self.gangs.change(member.gang, |state| state.out = state.out.saturating_sub(1));
        }
        let rounds = self.gangs.rounds.load(Ordering::Acquire);
        if rounds != std::mem::replace(&mut self.seen, rounds) && !self.waiting.is_empty() {
            self.look();
        }
        self.turn = !self.turn;
        let other = if self.turn { None } else { self.others.pop() };
        other.or_else(|| {
            let member = self.let_go.pop();
            self.running = member.as_ref().and_then(Task::attribute);
            member.or_else(|| self.others.pop())
        })
    }

    fn spare(&mut self) -> Option<Job> {
        self.others.spare()
    }

    fn takes_arrivals(&self) -> bool {
        true
    }

    fn idle(&mut self) -> Idle {
        if self.waiting.is_empty() { Idle::Sleep } else { Idle::Hold(None) }
    }
}

/// Some gangs at once, of two members that go through a hundred steps together.
fn main() -> std::io::Result<()> {
    let gangs = Gangs::new();
    let steps = AtomicU64::new(0);
    segue_sched::Runtime::new().workers(2).run_with(
        || gangs.policy(),
        || {
            scope(|s| {
                for _ in 0..4 {
                    let together = Arc::new(Barrier::new(2));
                    let member = |_| {
                        let (together, steps) = (Arc::clone(&together), &steps);
                        move || {
                            for _ in 0..100 {
                                // Blocks the thread until the other one has come: both run, or
                                // neither.
                                together.wait();
                                steps.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    };
                    let gang = gangs.gang([0, 1].map(member)).expect("there are two workers");
                    gang.into_iter().for_each(|member| drop(member.spawn_within(s)));
                }
            });
        },
    )?;
    assert_eq!(steps.into_inner(), 800);
    println!("four gangs of two have made a hundred steps each");
    Ok(())
}
