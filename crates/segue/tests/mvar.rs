//! MVars: who gets which value in which order, and that each value is in one place, whoever leaves when.
#![cfg(feature = "sched")]

#[path = "common/meet.rs"]
mod meet;

use meet::{Task, block_on, everywhere, mixed, pool, simulated};
use segue::core::{WaitQueue, WaitsFor};
use segue::sync::MVar;
use segue::{CancelToken, Cancelled, scope, shield, timeout, yield_now};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn values_are_put_taken_swapped_read_changed_and_borrowed() {
    static PLACE: MVar<u32> = MVar::empty();
    everywhere(|| {
        assert!(PLACE.is_empty() && PLACE.try_take().is_none() && PLACE.try_borrow().is_none());
        PLACE.put(1).unwrap();
        assert_eq!((PLACE.try_put(2), PLACE.read(), PLACE.is_empty()), (Err(2), Ok(1), false));
        assert_eq!(PLACE.swap(3).unwrap(), 1);
        assert_eq!(PLACE.modify(|value| std::mem::replace(value, 4)), Ok(3));
        *PLACE.borrow().unwrap() += 1;
        *PLACE.try_borrow().unwrap() += 1;
        *block_on(PLACE.borrow_source()) += 1;
        assert_eq!((block_on(PLACE.take_source()), PLACE.try_put(8), PLACE.try_take()), (7, Ok(()), Some(8)));
        block_on(PLACE.put_source(9));
        assert_eq!(PLACE.take(), Ok(9));
    });
    assert_eq!((MVar::new(1).into_inner(), MVar::<u8>::default().into_inner()), (Some(1), None));
    let place = MVar::from(5);
    assert_eq!(format!("{place:?}"), "MVar { place: \"full\" }");
    let loan = place.borrow().unwrap();
    assert_eq!(format!("{place:?} {loan:?}"), "MVar { place: \"lent\" } 5");
    assert!(place.is_empty() && place.try_take().is_none() && place.try_borrow().is_none());
    assert_eq!(place.try_put(6), Err(6));
    drop(loan);
    assert_eq!((place.take(), format!("{place:?}").as_str()), (Ok(5), "MVar { place: \"empty\" }"));
}

#[test]
fn those_who_take_and_borrow_are_served_in_the_order_of_their_arrival() {
    everywhere(|| {
        let place = MVar::empty();
        let mut first = Task::waiting(place.take_source());
        let mut second = Task::waiting(place.borrow_source());
        let mut third = Task::waiting(place.take_source());
        let mut fourth = Task::waiting(place.borrow_source());
        place.put(1).unwrap();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [1, 0, 0]);
        place.put(2).unwrap();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], [1, 1, 0]);
        let mut loan = second.poll().expect("it was served");
        let (mut put, mut late) = (Task::waiting(place.put_source(4)), Task::waiting(place.take_source()));
        *loan = 3;
        drop(loan);
        assert_eq!((third.poll(), fourth.poll().map(|loan| *loan)), (Some(3), Some(4)));
        assert_eq!((put.poll(), late.poll(), first.poll()), (Some(()), Some(4), Some(1)));
        assert!(place.is_empty());
    });
}

#[test]
fn those_who_put_are_served_in_the_order_of_their_arrival() {
    everywhere(|| {
        let place = MVar::new(0);
        let mut putters = [1, 2, 3].map(|n| Task::waiting(place.put_source(n)));
        for n in 0..4 {
            assert_eq!(place.try_take(), Some(n));
            let gone = putters.iter_mut().filter(|putter| putter.wakes() == 1).count();
            assert_eq!(gone, 3.min(n + 1));
        }
        assert!(putters.iter_mut().all(|putter| putter.poll().is_some()) && place.is_empty());
    });
}

#[test]
fn a_cancelled_put_or_swap_gives_its_value_back() {
    everywhere(|| {
        let place = MVar::new(String::from("there"));
        let token = CancelToken::new();
        token.cancel_with(std::io::Error::other("planted"));
        let ended = [
            token.run(|| place.put("mine".into())).unwrap_err(),
            token.run(|| place.swap("mine".into())).unwrap_err(),
            // In the middle of the wait.
            timeout(MILLI, || place.put("mine".into())).unwrap_err(),
            {
                let _loan = place.borrow().unwrap();
                timeout(MILLI, || place.swap("mine".into())).unwrap_err()
            },
        ];
        for (n, error) in ended.into_iter().enumerate() {
            assert_eq!((error.value.as_str(), error.cancelled.timed_out()), ("mine", n > 1));
            assert!(n > 1 || error.to_string() == "cancelled: planted");
            assert!(error.cancelled.reason().is_some() && format!("{error:?}").contains("Cancelled"));
        }
        // Also where it need not have waited.
        assert!(token.run(|| place.take()).is_err() && token.run(|| place.read()).is_err());
        assert!(token.run(|| place.modify(|_| unreachable!("it was not called"))).is_err());
        // What never waits ignores it.
        assert_eq!(token.run(|| place.try_take()).as_deref(), Some("there"));
        assert_eq!(token.run(|| place.try_put("last".into())), Ok(()));
        assert_eq!(place.into_inner().as_deref(), Some("last"));
    });
}

#[test]
fn one_whose_time_is_over_has_left_and_those_behind_it_are_served() {
    everywhere(|| {
        let place = MVar::<u32>::empty();
        assert!(timeout(MILLI, || place.take()).is_err_and(|cancelled| cancelled.timed_out()));
        assert!(timeout(MILLI, || place.read()).is_err_and(|cancelled| cancelled.timed_out()));
        place.put(1).unwrap();
        assert!(timeout(MILLI, || place.put(2)).is_err());
        assert_eq!((place.take(), place.try_take()), (Ok(1), None));
    });
}

#[test]
fn a_change_that_panics_leaves_the_value_as_it_is_and_ends_the_loan() {
    everywhere(|| {
        let place = MVar::new(vec![1]);
        let change = catch_unwind(AssertUnwindSafe(|| {
            place.modify(|values| {
                values.push(2);
                std::panic::panic_any("planted");
            })
        }));
        assert!(change.is_err());
        assert_eq!(place.take().unwrap(), [1, 2]);
    });
}

#[test]
fn a_loan_that_is_leaked_keeps_everybody_out_for_ever() {
    everywhere(|| {
        let place = MVar::new(Box::new(1));
        std::mem::forget(place.borrow().unwrap());
        let (taker, putter) = (Task::waiting(place.take_source()), Task::waiting(place.put_source(Box::new(2))));
        assert!(place.try_take().is_none() && place.try_borrow().is_none() && place.try_put(Box::new(3)).is_err());
        assert!(timeout(MILLI, || place.take()).is_err() && timeout(MILLI, || place.put(Box::new(4))).is_err());
        drop((taker, putter));
        assert!(place.into_inner().is_none());
        // A value that comes back meanwhile is not lost with it.
        let place = MVar::empty();
        let taker = Task::waiting(place.take_source());
        place.put(Box::new(1)).unwrap();
        place.put(Box::new(2)).unwrap();
        std::mem::forget(place.borrow().unwrap());
        drop(taker);
        assert_eq!(place.into_inner(), Some(Box::new(1)));
    });
}

/// Takes all that is there, and from those who wait to put.
fn drain<T>(place: &MVar<T>) -> Vec<T> {
    std::iter::from_fn(|| place.try_take()).collect()
}

#[test]
fn a_value_that_comes_back_goes_before_those_that_were_put_meanwhile() {
    everywhere(|| {
        let place = MVar::empty();
        let (first, second) = (Task::waiting(place.take_source()), Task::waiting(place.take_source()));
        for n in 1..=3 {
            place.put(n).unwrap();
        }
        let mut putter = Task::waiting(place.put_source(4));
        drop(second);
        drop(first);
        assert_eq!((place.read(), drain(&place), putter.poll()), (Ok(1), vec![1, 2, 3, 4], Some(())));
        // To one who waits.
        let (first, mut next) = (Task::waiting(place.take_source()), Task::waiting(place.take_source()));
        place.put(1).unwrap();
        drop(first);
        assert_eq!((next.poll(), place.is_empty()), (Some(1), true));
    });
}

#[test]
fn a_value_that_comes_back_to_a_place_that_is_lent_goes_before_the_loan_and_the_loan_before_the_rest() {
    everywhere(|| {
        let place = MVar::empty();
        let takers = [(); 4].map(|()| Task::waiting(place.take_source()));
        for n in 1..=5 {
            place.put(n).unwrap();
        }
        let [first, second, third, fourth] = takers;
        // 4, with 5 behind it, is in the place when it is lent; then 3 and 2 come back, and 1 to the full place.
        drop(fourth);
        let loan = place.borrow().unwrap();
        assert_eq!(*loan, 4);
        drop(third);
        drop(second);
        let mut borrower = Task::waiting(place.borrow_source());
        assert!(place.is_empty());
        drop(loan);
        // Whoever waited for the end of the loan gets what is first.
        let loan = borrower.poll().expect("the loan has ended");
        assert_eq!(*loan, 2);
        drop(first);
        drop(loan);
        assert_eq!(drain(&place), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_borrower_that_was_served_and_is_dropped_ends_its_loan() {
    everywhere(|| {
        let place = MVar::empty();
        let borrower = Task::waiting(place.borrow_source());
        let mut next = Task::waiting(place.borrow_source());
        place.put(1).unwrap();
        let mut putter = Task::waiting(place.put_source(2));
        assert_eq!((place.try_take(), next.wakes()), (None, 0));
        drop(borrower);
        *next.poll().expect("it is next") += 10;
        assert_eq!((drain(&place), putter.poll()), (vec![11, 2], Some(())));
        // And one that had been handed a value that it takes, behind a borrower.
        let (borrower, taker) = (Task::waiting(place.borrow_source()), Task::waiting(place.take_source()));
        place.put(3).unwrap();
        drop(borrower);
        assert_eq!(taker.wakes(), 1);
        drop(taker);
        assert_eq!(drain(&place), [3]);
    });
}

#[test]
fn thousands_wait_on_both_sides_while_it_is_lent_and_go_on_at_its_end() {
    const EACH: usize = 5000;
    let place = MVar::new(0);
    let loan = place.borrow().unwrap();
    let mut takers: Vec<_> = (0..=EACH).map(|_| Task::waiting(place.take_source())).collect();
    let mut putters: Vec<_> = (1..=EACH).map(|n| Task::waiting(place.put_source(n))).collect();
    drop(loan);
    for (n, taker) in takers.iter_mut().enumerate() {
        assert_eq!(taker.poll(), Some(n));
    }
    assert!(putters.iter_mut().all(|putter| putter.poll() == Some(())) && place.is_empty());
    // The same when they are dropped instead, the last first: what was handed comes back.
    let loan = {
        place.put(0).unwrap();
        place.borrow().unwrap()
    };
    let mut takers: Vec<_> = (0..=EACH).map(|_| Task::waiting(place.take_source())).collect();
    let putters: Vec<_> = (1..=EACH).map(|n| Task::waiting(place.put_source(n))).collect();
    drop(loan);
    drop(putters);
    while let Some(last) = takers.pop() {
        drop(last);
    }
    assert!(drain(&place).into_iter().eq(0..=EACH));
}

#[test]
fn as_a_lock_it_keeps_others_out_also_of_one_who_waits_inside() {
    everywhere(|| {
        let (place, inside) = (MVar::new(0), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..6 {
                let (place, inside) = (&place, &inside);
                s.spawn(move || {
                    for _ in 0..20 {
                        let change = |value: &mut usize| {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            let before = *value;
                            let _ = yield_now();
                            *value = before + 1;
                            inside.fetch_sub(1, SeqCst);
                        };
                        match n % 3 {
                            0 => place.modify(change).unwrap(),
                            1 => {
                                let mut value = place.take().unwrap();
                                change(&mut value);
                                place.put(value).unwrap();
                            }
                            _ => change(&mut block_on(place.borrow_source())),
                        }
                    }
                });
            }
        });
        assert_eq!(place.into_inner(), Some(120));
    });
}

#[test]
fn as_a_channel_of_capacity_one_it_keeps_the_order() {
    everywhere(|| {
        let (there, back) = (MVar::empty(), MVar::empty());
        scope(|s| {
            s.spawn(|| (0..100).for_each(|n| there.put(n).unwrap()));
            s.spawn(|| (0..100).for_each(|_| back.put(there.take().unwrap()).unwrap()));
            s.spawn(|| (0..100).for_each(|n| assert_eq!(block_on(back.take_source()), n)));
        });
        assert!(there.is_empty() && back.is_empty());
    });
}

#[test]
fn many_put_and_take_at_once_fibers_threads_and_tasks() {
    const EACH: usize = 200;
    let (place, sum) = (MVar::empty(), AtomicUsize::new(0));
    mixed(12, |n| {
        for round in 0..EACH {
            // By three: each kind of caller on each side, waiting in each way.
            match (n / 3 % 2, round % 2) {
                (0, 0) => place.put(round).unwrap(),
                (0, _) => block_on(place.put_source(round)),
                (_, 0) => drop(sum.fetch_add(place.take().unwrap(), SeqCst)),
                _ => drop(sum.fetch_add(block_on(place.take_source()), SeqCst)),
            }
        }
    });
    assert!(place.is_empty());
    assert_eq!(sum.into_inner(), 6 * (0..EACH).sum::<usize>());
}

#[test]
fn each_value_is_dropped_once_however_it_ends() {
    #[derive(Clone)]
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let drops = AtomicUsize::new(0);
        let dropped = || drops.swap(0, SeqCst);
        let full = || MVar::new(Counted(&drops));
        let empty = || MVar::<Counted<'_>>::empty();
        drop(full());
        assert_eq!(dropped(), 1);
        drop(full().into_inner());
        assert_eq!(dropped(), 1);
        drop((full().take(), full().try_take(), full().read()));
        assert_eq!(dropped(), 5 - 1);
        drop(full().swap(Counted(&drops)));
        assert_eq!(dropped(), 2);
        drop(full().try_put(Counted(&drops)));
        assert_eq!(dropped(), 2);
        drop(timeout(MILLI, || full().put(Counted(&drops))));
        assert_eq!(dropped(), 2);
        // A source that was never waited for, a future that was not served, one that was.
        let place = full();
        drop(place.put_source(Counted(&drops)));
        drop(Task::waiting(place.put_source(Counted(&drops))));
        assert_eq!(dropped(), 2);
        let putter = Task::waiting(place.put_source(Counted(&drops)));
        drop(place.take());
        drop(putter);
        assert_eq!(dropped(), 1);
        drop(place);
        assert_eq!(dropped(), 1);
        // Several in the place, since two came back.
        let place = empty();
        let takers = [(); 2].map(|()| Task::waiting(place.take_source()));
        for _ in 0..3 {
            place.put(Counted(&drops)).unwrap();
        }
        drop(takers);
        assert_eq!(dropped(), 0);
        drop(place);
        assert_eq!(dropped(), 3);
    });
}

// ---------------------------------------------------------------------------------------------------------------------------------------------------
// Conservation: what was put is taken once, or still there.

/// A place that values are put into and taken out of, and of which it is to be shown that it loses and doubles none.
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

/// Puts, takes, borrows and drops, each cancelled at some step or when its time is over, under the schedule of `seed`.
fn conserve_under_cancellation(place: &impl Keeps, ledger: &Ledger, seed: u64) -> Result<(), String> {
    scope(|s| {
        for n in 0..10 {
            let token = CancelToken::new();
            let canceller = token.clone();
            s.spawn(move || {
                token.run(|| {
                    for round in 0..4 {
                        let dice = |k| dice(seed, n * 64 + round * 8 + k);
                        // Nobody waits for ever, so that it comes to an end whoever was cancelled.
                        timeout(MILLI * (1 + dice(0) % 20) as u32, || match n % 5 {
                            0 | 1 => drop(ledger.put(place, (n * 4 + round) as usize)),
                            2 => drop(ledger.take(place)),
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
                    // Those that are not cancelled would wait for ever once nothing is put any more.
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
