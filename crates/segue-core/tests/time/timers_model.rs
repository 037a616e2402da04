//! The timers against an ordered map: at random things are registered, withdrawn and fired, and
//! what comes up, in which order, and what is next is what the map says.
#![allow(unsafe_code)] // Some waits are driven by hand.

use crate::common;

use common::{Host, Jobs};
use segue_core::drivers::{LazyTimer, Limit, TimeLimited};
use segue_core::scheduling::Timers;
use segue_core::{Alarm, Deadline, Outcome, Source, Trigger, at};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

/// What came up, in order.
type Log = Arc<Mutex<Vec<u64>>>;

struct Task(u64, Log);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

struct One {
    timer: LazyTimer,
    number: u64,
    log: Log,
}

impl TimeLimited for One {
    fn timer(&self, _number: usize) -> &LazyTimer {
        &self.timer
    }

    fn expire(&self, _number: usize) {
        self.log.lock().unwrap().push(self.number);
    }
}

struct ByHand {
    source: Deadline,
    slot: Alarm,
    trigger: Trigger,
}

/// What is registered. The order of the first two kinds is seen.
enum Timer {
    Task(#[expect(dead_code, reason = "dropping it withdraws")] Pin<Box<dyn Future<Output = ()>>>),
    Limit(#[expect(dead_code, reason = "dropping it withdraws")] Arc<One>),
    ByHand(Box<ByHand>),
}

/// What happened how often.
#[derive(Debug, Default)]
struct Counts {
    registered: usize,
    equal: usize,
    past: usize,
    at_once: usize,
    withdrawn: usize,
    withdrawn_late: usize,
    withdrawn_stale: usize,
    woken: usize,
    expired: usize,
    signalled: usize,
    refused: usize,
    most_at_once: usize,
    jumps: usize,
    most: usize,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Short ones and long ones are as likely.
    fn time(&mut self) -> Duration {
        let bits = self.below(48);
        Duration::from_nanos(self.next() & ((1 << bits) - 1))
    }
}

struct World<'a> {
    random: Random,
    timers: &'a Timers,
    /// Those that have not come up, in the order in which they do, and whether that is seen.
    pending: BTreeMap<(Instant, u64), bool>,
    /// With the time and number of each; some have come up.
    all: Vec<(Timer, Instant, u64)>,
    woken: Log,
    expired: Log,
    numbers: u64,
    began: Instant,
    counts: Counts,
}

impl World<'_> {
    fn register(&mut self) {
        let now = self.timers.now();
        let (mut until, number) = (now + self.random.time(), self.numbers);
        if self.random.below(4) == 0
            && let Some(((other, _), _)) = self.pending.range((until, 0)..).next()
        {
            until = *other;
            self.counts.equal += 1;
        }
        self.numbers += 1;
        let timer = match self.random.below(4) {
            0 => {
                if self.random.below(4) == 0 {
                    until = now.checked_sub(self.random.time()).unwrap_or(now).max(self.began);
                }
                self.counts.past += usize::from(until < now);
                let one = One { timer: LazyTimer::new(), number, log: self.expired.clone() };
                let one = Arc::new(one);
                std::mem::forget(Limit::set_among(self.timers, &one, 0, until).expect("it has none"));
                Timer::Limit(one)
            }
            1 if until > now => {
                let (source, slot) = (at(Some(until)).into_source(), Alarm::default());
                let mut by_hand = Box::new(ByHand { source, slot, trigger: Trigger::new() });
                let ByHand { source, slot, trigger } = &mut *by_hand;
                // SAFETY: it stays in its box until it was withdrawn or signalled.
                let registered = unsafe {
                    source.prepare(slot);
                    source.register(slot, trigger, number as usize % 1000)
                };
                assert!(registered.is_ok());
                Timer::ByHand(by_hand)
            }
            _ => {
                let waker = Waker::from(Arc::new(Task(number, self.woken.clone())));
                let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(at(Some(until)).into_future());
                let mut ready = || future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
                let mut is_ready = ready();
                if !take(&self.woken).is_empty() {
                    // It has let others run first, as any does now and then.
                    is_ready = ready();
                }
                assert_eq!(is_ready, until <= now, "{number}");
                if is_ready {
                    self.counts.at_once += 1;
                    return;
                }
                Timer::Task(future)
            }
        };
        self.counts.registered += 1;
        let is_seen = !matches!(timer, Timer::ByHand(_));
        assert!(self.pending.insert((until, number), is_seen).is_none());
        self.all.push((timer, until, number));
    }

    fn withdraw(&mut self) {
        if self.all.is_empty() {
            return;
        }
        let index = self.random.below(self.all.len() as u64) as usize;
        if self.random.below(4) == 0
            && let (Timer::ByHand(by_hand), ..) = &mut self.all[index]
        {
            // It leaves its wait, and withdraws later.
            let _ = by_hand.trigger.cancel();
            return;
        }
        let (timer, until, number) = self.all.swap_remove(index);
        let was_pending = self.pending.remove(&(until, number)).is_some();
        *if was_pending { &mut self.counts.withdrawn } else { &mut self.counts.withdrawn_late } += 1;
        if let Timer::ByHand(mut by_hand) = timer {
            let ByHand { source, slot, trigger } = &mut *by_hand;
            match trigger.outcome() {
                Some(Outcome::Taken(arm)) => {
                    assert!(!was_pending && arm == number as usize % 1000);
                    self.counts.signalled += 1;
                    // SAFETY: it was taken through this arm.
                    assert_eq!(unsafe { source.commit(slot, arm) }, Some(()));
                }
                outcome => {
                    assert!(was_pending || outcome.is_some(), "{number} was not signalled");
                    self.counts.withdrawn_stale += usize::from(!was_pending);
                    // SAFETY: it was not taken.
                    unsafe { source.withdraw(slot) };
                }
            }
        }
    }

    fn advance(&mut self) {
        let by = match self.random.below(8) {
            0..4 => self.random.time() / 1000,
            4..6 => self.timers.until_next().unwrap_or_default(),
            6 => Duration::ZERO,
            _ if self.random.below(100) == 0 && self.counts.jumps < 100 => {
                self.counts.jumps += 1;
                Duration::from_secs(365 * 24 * 3600)
            }
            _ => self.random.time(),
        };
        self.timers.advance(by);
        let later = self.pending.split_off(&(self.timers.now() + Duration::from_nanos(1), 0));
        let due = std::mem::replace(&mut self.pending, later);
        let cancelled = |world: &Self, number: u64| {
            world.all.iter().any(|(timer, _, its)| {
                *its == number && matches!(timer, Timer::ByHand(it) if it.trigger.outcome() == Some(Outcome::Cancelled))
            })
        };
        // A walk through all: only where there are few.
        let refused = (self.all.len() < 100).then(|| due.keys().filter(|(_, number)| cancelled(self, *number)).count());
        let fired = self.timers.fire();
        if let Some(refused) = refused {
            assert_eq!(fired, due.len() - refused, "how many took it");
            self.counts.refused += refused;
        }
        self.counts.most_at_once = self.counts.most_at_once.max(due.len());
        // Those by hand are looked at when they are withdrawn.
        let (woken, expired) = (take(&self.woken), take(&self.expired));
        self.counts.woken += woken.len();
        self.counts.expired += expired.len();
        assert!(fired >= woken.len() + expired.len());
        let (mut woken, mut expired) = (woken.into_iter().peekable(), expired.into_iter().peekable());
        for ((_, number), _) in due.into_iter().filter(|(_, is_seen)| *is_seen) {
            let next = woken.next_if_eq(&number).or_else(|| expired.next_if_eq(&number));
            assert_eq!(next, Some(number), "it did not come up, or out of order");
        }
        assert_eq!((woken.next(), expired.next()), (None, None), "not due");
    }

    fn check(&self) {
        let now = self.timers.now();
        let next = self.pending.first_key_value().map(|((until, _), _)| until.saturating_duration_since(now));
        assert_eq!(self.timers.until_next(), next);
        assert_eq!(self.timers.is_empty(), self.pending.is_empty());
    }
}

fn take(log: &Log) -> Vec<u64> {
    std::mem::take(&mut *log.lock().unwrap())
}

#[test]
fn timers_are_an_ordered_map() {
    let steps = match (cfg!(miri), cfg!(debug_assertions)) {
        (true, _) => 2000,
        (_, true) => 400_000,
        (_, false) => 6_000_000,
    };
    // Limits are counted from the first one that was ever set: before the clock.
    let first = Arc::new(One { timer: LazyTimer::new(), number: 0, log: Log::default() });
    drop(Limit::set_among(&Timers::simulated(), &first, 0, Instant::now()));
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        let timers = host.timers();
        let mut world = World {
            random: Random(steps),
            timers,
            pending: BTreeMap::new(),
            all: Vec::new(),
            woken: Log::default(),
            expired: Log::default(),
            numbers: 0,
            began: timers.now(),
            counts: Counts::default(),
        };
        for step in 0..steps {
            // Few, more, and many at a time.
            let size = [20, 2000, 50_000][(step / (steps / 12).max(1) % 3) as usize];
            match world.random.below(16) {
                0..8 if world.all.len() < size => world.register(),
                8..12 => world.withdraw(),
                12 if world.random.below(size as u64) < 100 => world.advance(),
                _ if world.all.len() >= size => world.withdraw(),
                _ => world.register(),
            }
            // Not each time: what is next is not always known.
            if world.random.below(size as u64) < 20 {
                world.check();
            }
            world.counts.most = world.counts.most.max(world.pending.len());
        }
        while !world.all.is_empty() {
            world.withdraw();
        }
        world.check();
        assert!(timers.is_empty());
        println!("{:?}", world.counts);
        let Counts { most, most_at_once, jumps, registered, .. } = world.counts;
        let reached = world.counts;
        let each = [
            reached.equal,
            reached.past,
            reached.at_once,
            reached.withdrawn,
            reached.withdrawn_late,
            reached.withdrawn_stale,
            reached.woken,
            reached.expired,
            reached.signalled,
            reached.refused,
        ];
        assert!(each.iter().all(|&count| count > 0), "something did not happen");
        if !cfg!(miri) {
            assert!(each.iter().all(|&count| count > 50), "something happened too rarely: {each:?}");
            assert!(registered > steps as usize / 4 && most > 10_000 && most_at_once > 500 && jumps > 1);
        }
    });
}
