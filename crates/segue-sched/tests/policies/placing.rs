//! The interface of policies: where closures go, how a worker idles that holds fibers back, who
//! orders what comes from outside. All waits are infinite: a wake-up that is lost shows as a hang.
#![cfg(not(miri))]

use crate::common::{Counted, Meet, STAND_IN, in_child, scaled};
use segue_core::scheduling::Job;
use segue_core::{Attribute, Builder, scope, spawn, yield_now};
use segue_sched::{ByPriority, Fifo, Goes, Idle, Policy, Priority, Runtime, Seat, Task, Why, join};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// To which worker a closure is to go.
#[derive(Clone, Copy)]
struct To(usize);

impl Attribute for To {
    fn to_bits(self) -> u64 {
        self.0 as u64
    }

    fn from_bits(bits: u64) -> Self {
        Self(bits as usize)
    }
}

/// Sends closures where they want to go; else first in, first out.
#[derive(Default)]
struct Sends(Fifo);

impl Policy for Sends {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match (task.attribute(), task) {
            (Some(To(worker)), Task::Fresh(job)) if why == Why::Spawned => Goes::To(worker, job),
            (_, task) => self.0.push(task, why),
        }
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }
}

#[test]
fn a_policy_that_forgets_a_fiber_ends_the_process() {
    #[derive(Default)]
    struct Forgets(Fifo);
    impl Policy for Forgets {
        fn push(&mut self, task: Task, why: Why) -> Goes {
            if why == Why::Yielded {
                std::mem::forget(task);
                return Goes::Here;
            }
            self.0.push(task, why)
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }
    }
    let end = in_child("a_policy_that_forgets_a_fiber_ends_the_process", || {
        let _ = Runtime::new().workers(1).run_with(Forgets::default, yield_now);
    });
    end.assert_aborted("it forgot them");
}

#[test]
fn a_policy_that_sends_to_a_worker_that_is_not_there_ends_the_process() {
    let end = in_child("a_policy_that_sends_to_a_worker_that_is_not_there_ends_the_process", || {
        let _ =
            Runtime::new().workers(2).run_with(Sends::default, || Builder::new().attribute(To(2)).spawn(|| ()).join());
    });
    end.assert_aborted("to worker 2 of 2");
}

#[test]
fn every_worker_can_send_to_every_worker() {
    const WORKERS: usize = 3;
    let run = Runtime::new().workers(WORKERS).run_with(Sends::default, || {
        let place = || thread::current().id();
        let go = |worker| Builder::new().attribute(To(worker));
        let places: Vec<_> = (0..WORKERS).map(|worker| go(worker).spawn(place).join().unwrap()).collect();
        for from in 0..WORKERS {
            for (to, place_of) in places.iter().enumerate() {
                // Often, so that the other one sleeps, or just goes to sleep, or is awake.
                for n in 0..scaled(300, 20) {
                    let there = go(from).spawn(move || {
                        (0..n % 3).for_each(|_| yield_now().unwrap());
                        go(to).spawn(place).join().unwrap()
                    });
                    let there = there.join().unwrap();
                    assert!(STAND_IN || there == *place_of);
                }
            }
        }
        assert_eq!(places.iter().collect::<std::collections::HashSet<_>>().len(), WORKERS);
    });
    run.unwrap();
}

#[test]
fn a_closure_that_is_sent_to_a_worker_which_forks_gets_a_turn() {
    fn deep(n: u32, until: &AtomicBool) {
        if n > 0 && !until.load(SeqCst) {
            join(|| deep(n - 1, until), || deep(n - 1, until));
        }
    }
    let run = Runtime::new().workers(2).run_with(Sends::default, || {
        let (started, came) = (AtomicBool::new(false), AtomicBool::new(false));
        scope(|s| {
            Builder::new().attribute(To(1)).within(s).spawn(|| {
                started.store(true, SeqCst);
                // For ever, if nobody came.
                while !came.load(SeqCst) {
                    deep(10, &came);
                }
            });
            while !started.load(SeqCst) {
                yield_now().unwrap();
            }
            Builder::new().attribute(To(1)).within(s).spawn(|| came.store(true, SeqCst));
        });
    });
    run.unwrap();
}

#[test]
fn what_was_sent_is_run_or_dropped_when_a_scheduler_ends() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let ran = Arc::new(AtomicUsize::new(0));
    let (mut made, mut cut) = (0, 0);
    for round in 0..scaled(300, 20) {
        let pool = Runtime::new().workers(2).pool_with(Sends::default).unwrap();
        let before = ran.load(SeqCst);
        pool.run(|| {
            for n in 0..20 {
                let (counted, ran) = (Counted(&DROPPED), Arc::clone(&ran));
                made += 1;
                Builder::new().attribute(To(n % 2)).spawn(move || {
                    let _counted = counted;
                    ran.fetch_add(1, SeqCst);
                });
            }
            (0..round % 4).for_each(|_| yield_now().unwrap());
        })
        .unwrap();
        drop(pool);
        assert_eq!(DROPPED.load(SeqCst), made);
        cut += usize::from(ran.load(SeqCst) - before < 20);
    }
    println!("{} of {made} ran; {cut} of the schedulers ended before all had", ran.load(SeqCst));
}

/// Holds what is resumed back for a time, or until it is let go.
struct Holds {
    ready: VecDeque<Task>,
    held: Vec<(Instant, Task)>,
    seat: Option<Seat>,
    gate: Arc<Gate>,
    idle: fn(Option<Duration>) -> Idle,
}

/// When to let go what is held.
#[derive(Default)]
struct Gate {
    /// After so long, or if there is none when there is a permit.
    time: Option<Duration>,
    permits: AtomicUsize,
    seat: OnceLock<Seat>,
    held: AtomicUsize,
    asked: AtomicUsize,
}

impl Holds {
    fn new(gate: &Arc<Gate>, idle: fn(Option<Duration>) -> Idle) -> Self {
        Self { ready: VecDeque::new(), held: Vec::new(), seat: None, gate: Arc::clone(gate), idle }
    }
}

impl Policy for Holds {
    fn seated(&mut self, seat: Seat) {
        let _ = self.gate.seat.set(seat.clone());
        self.seat = Some(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        if why == Why::Resumed {
            let until = Instant::now() + self.gate.time.unwrap_or_default();
            self.held.push((until, task));
            self.gate.held.fetch_add(1, SeqCst);
        } else {
            self.ready.push_back(task);
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        let goes = match self.gate.time {
            Some(_) => self.held.iter().position(|(until, _)| *until <= Instant::now()),
            None => self.held.len().checked_sub(1).filter(|_| {
                let take = |permits: usize| permits.checked_sub(1);
                self.gate.permits.fetch_update(SeqCst, SeqCst, take).is_ok()
            }),
        };
        match goes {
            Some(at) => Some(self.held.swap_remove(at).1),
            None => self.ready.pop_front(),
        }
    }

    fn idle(&mut self) -> Idle {
        self.gate.asked.fetch_add(1, SeqCst);
        let next = self.held.iter().map(|(until, _)| *until).min();
        match next {
            Some(next) => (self.idle)(self.gate.time.map(|_| next.saturating_duration_since(Instant::now()))),
            None => Idle::Sleep,
        }
    }
}

/// Fibers that wait for each other, so that each is resumed.
fn resumed(times: usize) {
    for _ in 0..times {
        let meet = Meet::new();
        scope(|s| {
            let waiter = s.spawn(|| meet.wait().unwrap());
            yield_now().unwrap();
            meet.put(7);
            assert_eq!(waiter.join().unwrap(), 7);
        });
    }
}

#[test]
fn a_policy_can_hold_fibers_back_for_a_time() {
    for workers in [1, 2] {
        let gate = Arc::new(Gate { time: Some(Duration::from_micros(500)), ..Gate::default() });
        let make = || Holds::new(&gate, Idle::Hold);
        Runtime::new().workers(workers).run_with(make, || resumed(scaled(20, 5))).unwrap();
        assert!(gate.held.load(SeqCst) >= scaled(20, 5));
        // It slept meanwhile and did not look all the time.
        assert!(gate.asked.load(SeqCst) < 1_000, "{}", gate.asked.load(SeqCst));
    }
}

#[test]
fn a_policy_can_look_all_the_time() {
    for workers in [1, 2] {
        let gate = Arc::new(Gate { time: Some(Duration::from_micros(500)), ..Gate::default() });
        let make = || Holds::new(&gate, |_| Idle::Spin);
        Runtime::new().workers(workers).run_with(make, || resumed(scaled(20, 5))).unwrap();
        assert!(gate.asked.load(SeqCst) > gate.held.load(SeqCst));
    }
}

#[test]
fn a_worker_that_spins_inside_of_a_fiber_lets_the_others_run() {
    let gate = Arc::new(Gate::default());
    let (make, opens) = (|| Holds::new(&gate, |_| Idle::Spin), Arc::clone(&gate));
    let run = Runtime::new().workers(1).run_with(Fifo::default, || {
        scope(|s| {
            s.spawn(move || {
                // The inner scheduler holds somebody back until this has run, on the same thread.
                while opens.held.load(SeqCst) == 0 {
                    yield_now().unwrap();
                }
                opens.permits.store(usize::MAX, SeqCst);
            });
            Runtime::new().workers(1).run_with(make, || resumed(1)).unwrap();
        });
    });
    run.unwrap();
}

#[test]
fn a_wake_is_not_lost_however_it_meets_going_to_sleep() {
    for workers in [1, 2] {
        let gate = Arc::new(Gate::default());
        let make = || Holds::new(&gate, |_| Idle::Hold(None));
        let done = AtomicBool::new(false);
        thread::scope(|threads| {
            // Lets one go for each that was held, sooner or later.
            threads.spawn(|| {
                let mut given = 0;
                while !done.load(SeqCst) {
                    if gate.held.load(SeqCst) == given {
                        thread::yield_now();
                        continue;
                    }
                    (0..given % 64 * 16).for_each(|_| std::hint::spin_loop());
                    given += 1;
                    gate.permits.fetch_add(1, SeqCst);
                    let seat = gate.seat.get().unwrap();
                    (0..seat.workers()).for_each(|worker| seat.wake(worker));
                }
            });
            let _end = Finally(|| done.store(true, SeqCst));
            Runtime::new().workers(workers).run_with(make, || resumed(scaled(2_000, 50))).unwrap();
        });
    }
}

/// Calls it at the end, however that comes.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Orders what comes from outside, and notes what it was given before anything ran.
struct Arrivals {
    ready: VecDeque<Task>,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Policy for Arrivals {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        if why == Why::Arrived {
            self.log.lock().unwrap().push("arrived");
        }
        self.ready.push_back(task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        // The newest first, which a shelf for what comes from outside does not do.
        self.ready.pop_back()
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}

#[test]
fn closures_from_outside_are_all_pushed_before_anything_else_runs() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let of_policy = Arc::clone(&log);
    let make = move || Arrivals { ready: VecDeque::new(), log: Arc::clone(&of_policy) };
    let pool = Runtime::new().workers(1).pool_with(make).unwrap();
    let (busy, free) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (says, waits, forgets) = (Arc::clone(&busy), Arc::clone(&free), Arc::clone(&log));
    let first = pool.spawn(move || {
        // A worker that was about to sleep takes this closure itself: no arrival then.
        forgets.lock().unwrap().clear();
        says.store(true, SeqCst);
        while !waits.load(SeqCst) {
            thread::yield_now();
        }
    });
    while !busy.load(SeqCst) {
        thread::yield_now();
    }
    let handles = ["a", "b", "c"].map(|name| {
        let log = Arc::clone(&log);
        pool.spawn(move || log.lock().unwrap().push(name))
    });
    free.store(true, SeqCst);
    first.join().unwrap();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(*log.lock().unwrap(), ["arrived", "arrived", "arrived", "c", "b", "a"]);
}

/// Keeps all closures, counts who asks for spares, and what comes back.
#[derive(Default)]
struct Keeps {
    fresh: VecDeque<Job>,
    started: VecDeque<Task>,
    counts: Arc<Counts>,
    takes: bool,
}

#[derive(Default)]
struct Counts {
    given: AtomicUsize,
    taken: AtomicUsize,
}

impl Policy for Keeps {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) => {
                if why == Why::Taken {
                    self.counts.taken.fetch_add(1, SeqCst);
                }
                self.fresh.push_back(job);
            }
            started => self.started.push_back(started),
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.started.pop_front().or_else(|| self.fresh.pop_front().map(Task::Fresh))
    }

    fn spare(&mut self) -> Option<Job> {
        let spare = self.fresh.pop_back();
        self.counts.given.fetch_add(usize::from(spare.is_some()), SeqCst);
        spare
    }

    fn takes_arrivals(&self) -> bool {
        self.takes
    }
}

fn keeps(counts: &Arc<Counts>, takes: bool) -> impl Fn() -> Keeps + Send + Sync + use<> {
    let counts = Arc::clone(counts);
    move || Keeps { counts: Arc::clone(&counts), takes, ..Keeps::default() }
}

#[test]
fn an_idle_worker_gets_what_a_busy_one_can_spare_whenever_it_went_to_sleep() {
    for takes in [false, true] {
        let counts = Arc::new(Counts::default());
        let run = Runtime::new().workers(2).run_with(keeps(&counts, takes), || {
            for n in 0..scaled(300, 20) {
                // The other worker looks for work, or just goes to sleep, or sleeps.
                (0..(n % 10) * (n % 10) * 20).for_each(|_| std::hint::spin_loop());
                let ran = AtomicUsize::new(0);
                scope(|s| {
                    let ran = &ran;
                    for _ in 0..4 {
                        s.spawn(move || ran.fetch_add(1, SeqCst));
                    }
                    // All of them are run by the other worker: this fiber comes first here, and
                    // never waits. Each of its turns lets one go.
                    while ran.load(SeqCst) < 4 {
                        yield_now().unwrap();
                    }
                });
            }
        });
        run.unwrap();
        assert!(counts.given.load(SeqCst) >= scaled(300, 20) * 2, "{}", counts.given.load(SeqCst));
    }
}

#[test]
fn an_idle_worker_gets_closures_of_one_that_spawns_and_never_comes_to_its_loop() {
    if STAND_IN {
        return;
    }
    for takes in [false, true] {
        let counts = Arc::new(Counts::default());
        let run = Runtime::new().workers(2).run_with(keeps(&counts, takes), || {
            for _ in 0..scaled(20, 2) {
                let ran = AtomicBool::new(false);
                scope(|s| {
                    // This fiber does not yield: a closure is let go when one is pushed, or never.
                    while !ran.load(SeqCst) {
                        s.spawn(|| ran.store(true, SeqCst));
                        thread::yield_now();
                    }
                });
            }
        });
        run.unwrap();
    }
}

#[test]
fn a_spare_that_nobody_took_comes_back_to_the_policy_that_takes_arrivals() {
    let counts = Arc::new(Counts::default());
    let run = Runtime::new().workers(2).run_with(keeps(&counts, true), || {
        scope(|s| {
            for _ in 0..scaled(20_000, 200) {
                s.spawn(|| ());
            }
        });
    });
    run.unwrap();
    let (given, taken) = (counts.given.load(SeqCst), counts.taken.load(SeqCst));
    assert!(given > 0 && taken >= given, "each spare is pushed by whoever takes it: {given} were given, {taken} taken");
}

#[test]
fn what_a_policy_does_not_keep_after_all_starts_at_once() {
    /// Wants every closure to be anywhere, also what it has just taken.
    #[derive(Default)]
    struct KeepsNone(Fifo);
    impl Policy for KeepsNone {
        fn push(&mut self, task: Task, why: Why) -> Goes {
            match task {
                Task::Fresh(job) => Goes::Anywhere(job),
                started => self.0.push(started, why),
            }
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }

        fn takes_arrivals(&self) -> bool {
            true
        }
    }
    /// Wants every closure to be at the next worker, also what was sent here or taken.
    #[derive(Default)]
    struct Passes(Fifo, Option<Seat>, usize);
    impl Policy for Passes {
        fn seated(&mut self, seat: Seat) {
            self.1 = Some(seat);
        }

        fn push(&mut self, task: Task, why: Why) -> Goes {
            self.2 += 1;
            match (task, &self.1) {
                // At every fifth it rests.
                (Task::Fresh(job), Some(seat)) if !self.2.is_multiple_of(5) => {
                    Goes::To((seat.index() + 1) % seat.workers(), job)
                }
                (task, _) => self.0.push(task, why),
            }
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }

        fn takes_arrivals(&self) -> bool {
            true
        }
    }
    fn body() {
        let fibers: Vec<_> = (0..100).map(|n| spawn(move || n)).collect();
        assert_eq!(fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>(), 4950);
        assert_eq!(join(|| 1, || 2), (1, 2));
    }
    for workers in [1, 2] {
        Runtime::new().workers(workers).run_with(KeepsNone::default, body).unwrap();
        Runtime::new().workers(workers).run_with(Passes::default, body).unwrap();
        Runtime::new().workers(workers).pool_with(KeepsNone::default).unwrap().run(body).unwrap();
        Runtime::new().workers(workers).pool_with(Passes::default).unwrap().run(body).unwrap();
    }
}

#[test]
fn urgent_work_from_outside_waits_for_one_turn() {
    let pool = Runtime::new().workers(1).pool_with(ByPriority::strict).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |n: i32| {
        let order = Arc::clone(&order);
        move || order.lock().unwrap().push(n)
    };
    let urgent = note(1);
    let later: Vec<_> = (0..10).map(|_| note(0)).collect();
    let body = move || {
        for work in later {
            drop(spawn(work));
        }
        // As a request would do that comes while this runs.
        Builder::new().attribute(Priority(1)).spawn(urgent);
    };
    pool.spawn(body).join().unwrap();
    // The last that is run: it comes from outside, and is as little urgent as they are.
    pool.spawn(note(2)).join().unwrap();
    let order = order.lock().unwrap();
    assert_eq!((order[0], order[1], order[11]), (1, 0, 2));
}

#[test]
fn policies_can_be_boxed() {
    let make =
        || -> Box<dyn Policy> { if cfg!(miri) { Box::new(Fifo::default()) } else { Box::new(ByPriority::strict()) } };
    let sum = Runtime::new().workers(2).run_with(make, || {
        let fibers: Vec<_> = (0..100).map(|n| spawn(move || n)).collect();
        fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
    });
    assert_eq!(sum.unwrap(), 4950);
}
