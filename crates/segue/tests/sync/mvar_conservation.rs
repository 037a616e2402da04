//! MVars: each value is in one place, whoever is cancelled, dropped or late when; and a place that
//! loses values is found out.

use crate::meet;

use meet::{pool, simulated};
use segue::core::{WaitQueue, WaitsFor};
use segue::sync::MVar;
use segue::{CancelToken, Cancelled, scope, shield, timeout, yield_now};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// A place that values are put into and taken out of, and of which it is to be shown that it loses
/// and doubles none.
trait Keeps: Sync {
    fn put(&self, value: usize) -> Result<(), usize>;
    fn take(&self) -> Result<usize, Cancelled>;
    fn taking(&self) -> impl Future<Output = usize> + Send;
    fn try_take(&self) -> Option<usize>;
    /// Changes nothing, with the value in hand.
    fn touch(&self) -> Result<(), Cancelled>;
    fn touching(&self) -> impl Future<Output = ()> + Send;
}

impl Keeps for MVar<usize> {
    fn put(&self, value: usize) -> Result<(), usize> {
        MVar::put(self, value).map_err(|error| error.value)
    }

    fn take(&self) -> Result<usize, Cancelled> {
        MVar::take(self)
    }

    fn taking(&self) -> impl Future<Output = usize> + Send {
        self.take_source().into_future()
    }

    fn try_take(&self) -> Option<usize> {
        MVar::try_take(self)
    }

    fn touch(&self) -> Result<(), Cancelled> {
        self.modify(|_| drop(yield_now()))
    }

    fn touching(&self) -> impl Future<Output = ()> + Send {
        self.borrow_source().map(drop).into_future()
    }
}

/// The planted fault: a bag whose takers do not give back what they were handed.
struct Forgetful(WaitQueue<Vec<usize>, usize>);

impl Keeps for Forgetful {
    fn put(&self, value: usize) -> Result<(), usize> {
        let mut queue = self.0.lock();
        if let Err(value) = queue.hand_over(0, value) {
            queue.state().push(value);
        }
        Ok(())
    }

    fn take(&self) -> Result<usize, Cancelled> {
        self.0.wait(WaitsFor::new("a value"), |bag| !bag.is_empty(), |bag| bag.pop().expect("there is one"))
    }

    fn taking(&self) -> impl Future<Output = usize> + Send {
        let source = self.0.source(WaitsFor::new("a value"), |bag| !bag.is_empty(), |bag| bag.pop().expect("one"));
        segue::Waitable::new(source).into_future()
    }

    fn try_take(&self) -> Option<usize> {
        self.0.lock().state().pop()
    }

    fn touch(&self) -> Result<(), Cancelled> {
        self.take().map(|value| self.put(value).expect("there is always room"))
    }

    async fn touching(&self) {
        let value = self.taking().await;
        self.put(value).expect("there is always room");
    }
}

/// What became of the values, and how often each thing happened.
#[derive(Default)]
struct Ledger {
    /// By value: how often it was put, less how often it was taken.
    balance: Mutex<BTreeMap<usize, isize>>,
    /// By value: when the last attempt to put it began.
    begun: Mutex<BTreeMap<usize, usize>>,
    clock: AtomicUsize,
    outcomes: [AtomicUsize; OUTCOMES.len()],
}

const OUTCOMES: [&str; 9] = [
    "put",
    "put refused",
    "taken",
    "take cancelled",
    "touched",
    "touch cancelled",
    "awaited",
    "dropped",
    "touch dropped",
];

impl Ledger {
    fn count(&self, outcome: &str) {
        let outcome = OUTCOMES.iter().position(|known| *known == outcome).expect("a known outcome");
        self.outcomes[outcome].fetch_add(1, SeqCst);
    }

    fn enter(&self, value: usize, by: isize) {
        *self.balance.lock().unwrap().entry(value).or_default() += by;
    }

    fn put(&self, place: &impl Keeps, value: usize) -> bool {
        self.enter(value, 1);
        self.begun.lock().unwrap().insert(value, self.now());
        match place.put(value) {
            Ok(()) => self.count("put"),
            Err(value) => {
                self.enter(value, -1);
                self.count("put refused");
                return false;
            }
        }
        true
    }

    fn take(&self, place: &impl Keeps) -> Option<usize> {
        match place.take() {
            Ok(value) => {
                self.enter(value, -1);
                self.count("taken");
                Some(value)
            }
            Err(_) => {
                self.count("take cancelled");
                None
            }
        }
    }

    /// A number that grows with each look.
    fn now(&self) -> usize {
        self.clock.fetch_add(1, SeqCst)
    }

    /// As `take`, under a schedule in which nothing happens between the look for a cancellation and
    /// the attempt: then what was put after the caller's cancellation had returned, at `cancelled`,
    /// is never handed to the caller.
    fn take_strictly(&self, place: &impl Keeps, cancelled: &AtomicUsize) {
        if let Some(value) = self.take(place) {
            let begun = self.begun.lock().unwrap()[&value];
            assert!(begun < cancelled.load(SeqCst), "{value} was put after its taker had been cancelled");
        }
    }

    fn touch(&self, place: &impl Keeps) {
        self.count(if place.touch().is_ok() { "touched" } else { "touch cancelled" });
    }

    /// Awaits a value for so many polls, and drops the task.
    fn poll(&self, place: &impl Keeps, polls: u64) -> Option<usize> {
        let mut task = Box::pin(place.taking());
        for _ in 0..polls {
            if let Some(value) = meet::poll_once(&mut task) {
                self.enter(value, -1);
                self.count("awaited");
                return Some(value);
            }
            let _ = yield_now();
        }
        self.count("dropped");
        None
    }

    fn poll_touch(&self, place: &impl Keeps, polls: u64) {
        let mut task = Box::pin(place.touching());
        for _ in 0..polls {
            if meet::poll_once(&mut task).is_some() {
                return self.count("touched");
            }
            let _ = yield_now();
        }
        self.count("touch dropped");
    }

    /// The judgement on a place that nobody uses any more.
    fn settle(&self, place: &impl Keeps) -> Result<(), String> {
        while let Some(value) = place.try_take() {
            self.enter(value, -1);
        }
        let mut balance = self.balance.lock().unwrap();
        balance.retain(|_, balance| *balance != 0);
        if balance.is_empty() { Ok(()) } else { Err(format!("not conserved: {balance:?}")) }
    }

    fn assert_all_seen(&self, at_least: usize) {
        for (name, count) in OUTCOMES.iter().zip(&self.outcomes) {
            assert!(count.load(SeqCst) >= at_least, "{name}: {count:?} of {at_least}");
        }
    }
}

/// A number that depends on nothing but these.
fn dice(seed: u64, n: u64) -> u64 {
    let mut z =
        seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n.wrapping_mul(0xBF58_476D_1CE4_E5B9)).wrapping_add(1);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) >> 8
}

/// Puts, takes, borrows and drops, each cancelled at some step or when its time is over, under the
/// schedule of `seed`.
fn conserve_under_cancellation(place: &impl Keeps, ledger: &Ledger, seed: u64) -> Result<(), String> {
    let cancelled = [const { AtomicUsize::new(usize::MAX) }; 10];
    scope(|s| {
        for (n, cancelled) in (0..).zip(&cancelled) {
            let token = CancelToken::new();
            let canceller = token.clone();
            s.spawn(move || {
                token.run(|| {
                    for round in 0..4 {
                        let dice = |k| dice(seed, n * 64 + round * 8 + k);
                        // Nobody waits for ever, so that it comes to an end whoever was cancelled.
                        timeout(MILLI * (1 + dice(0) % 20) as u32, || match n % 5 {
                            0 | 1 => drop(ledger.put(place, (n * 4 + round) as usize)),
                            2 => ledger.take_strictly(place, cancelled),
                            3 if dice(1) % 2 == 0 => ledger.touch(place),
                            3 => ledger.poll_touch(place, dice(2) % 6),
                            _ => drop(ledger.poll(place, dice(1) % 6)),
                        });
                    }
                });
            });
            if dice(seed, n).is_multiple_of(3) {
                s.spawn(move || {
                    for _ in 0..dice(seed, n + 100) % 24 {
                        let _ = yield_now();
                    }
                    canceller.cancel();
                    cancelled.store(ledger.now(), SeqCst);
                    // In the same turn, if the schedule lets it.
                    timeout(MILLI, || ledger.put(place, 100 + n as usize));
                });
            }
        }
    });
    ledger.settle(place)
}

#[test]
fn conservation_whoever_is_cancelled_dropped_or_late_at_whichever_step() {
    let ledger = Ledger::default();
    simulated(500, |seed| conserve_under_cancellation(&MVar::empty(), &ledger, seed).unwrap());
    ledger.assert_all_seen(100);
}

#[test]
fn a_structure_that_does_not_take_back_is_found_out_in_simulation() {
    let lost = AtomicUsize::new(0);
    simulated(100, |seed| {
        let planted = Forgetful(WaitQueue::new(Vec::new()));
        if conserve_under_cancellation(&planted, &Ledger::default(), seed).is_err() {
            lost.fetch_add(1, SeqCst);
        }
    });
    assert!(lost.into_inner() > 0);
}

/// Fibers of two pools that are cancelled, tasks that are dropped, and threads, all at once.
fn conserve_under_stress(place: &impl Keeps, ledger: &Ledger, rounds: usize) -> Result<(), String> {
    const END: usize = usize::MAX;
    let cancelled_at_some_time = |round: usize, f: &(dyn Fn() + Sync)| {
        scope(|s| {
            let token = CancelToken::new();
            let inner = token.clone();
            let runs = s.spawn(move || inner.run(f));
            if round.is_multiple_of(2) {
                let _ = yield_now();
            }
            if !round.is_multiple_of(3) {
                token.cancel();
            }
            shield(|| runs.join()).unwrap();
        });
    };
    let touching = AtomicUsize::new(1);
    let (touching, cancelled_at_some_time) = (&touching, &cancelled_at_some_time);
    std::thread::scope(|t| {
        let takers = [
            t.spawn(|| {
                pool(2).run(|| {
                    let ended = AtomicUsize::new(0);
                    for round in 0.. {
                        cancelled_at_some_time(round, &|| {
                            if ledger.take(place) == Some(END) {
                                ended.store(1, SeqCst);
                            }
                        });
                        if ended.load(SeqCst) == 1 {
                            break;
                        }
                    }
                })
            }),
            t.spawn(|| {
                for round in 0.. {
                    // Some of them until they are served.
                    if ledger.poll(place, if round % 16 == 15 { u64::MAX } else { round % 4 }) == Some(END) {
                        break;
                    }
                }
                Ok(())
            }),
            t.spawn(|| {
                while ledger.take(place) != Some(END) {}
                Ok(())
            }),
        ];
        let puts = |from: usize| {
            for value in from..from + rounds {
                while !ledger.put(place, value) {}
            }
        };
        let putters = [
            t.spawn(move || puts(0)),
            t.spawn(move || {
                pool(1)
                    .run(|| {
                        for value in rounds..2 * rounds {
                            let done = AtomicUsize::new(0);
                            for round in value.. {
                                cancelled_at_some_time(round, &|| {
                                    done.fetch_add(usize::from(ledger.put(place, value)), SeqCst);
                                });
                                if done.load(SeqCst) > 0 {
                                    break;
                                }
                            }
                        }
                    })
                    .unwrap();
            }),
        ];
        t.spawn(move || {
            pool(1).run(|| {
                for round in 0.. {
                    // Those that are not cancelled would wait for ever once nothing is put any
                    // more.
                    cancelled_at_some_time(3 * round + 1, &|| ledger.touch(place));
                    ledger.poll_touch(place, round as u64 % 4);
                    if touching.load(SeqCst) == 0 {
                        break;
                    }
                }
            })
        });
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        for _ in 0..takers.len() {
            assert!(ledger.put(place, END));
        }
        for taker in takers {
            taker.join().unwrap().unwrap();
        }
        touching.store(0, SeqCst);
    });
    ledger.settle(place)
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_and_dropped_tasks() {
    let (place, ledger) = (MVar::empty(), Ledger::default());
    assert!(ledger.put(&place, usize::MAX - 1));
    ledger.touch(&place);
    conserve_under_stress(&place, &ledger, 2000).unwrap();
    ledger.assert_all_seen(1);
}
