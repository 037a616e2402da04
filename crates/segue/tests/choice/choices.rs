//! Choices across structures: the arm that is chosen takes effect, the others have none, in fibers,
//! threads and tasks.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, block_on, everywhere, mixed, pool, simulated};
use segue::core::Source;
use segue::sync::{Latch, MVar, Mutex, MutexGuard, Notify, Permit, Promise, RwLock, Semaphore, promise};
use segue::{CancelToken, Either, Waitable, after, scope, shield, sleep, timeout, yield_now};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// One of each, none of them ready.
struct Structures {
    place: MVar<u32>,
    full: MVar<u32>,
    semaphore: Semaphore,
    mutex: Mutex<u32>,
    lock: RwLock<u32>,
    notify: Notify,
    promised: Promise<u32>,
}

/// What was chosen, and what it has yielded.
enum Chosen<'a> {
    Taken(u32),
    Put,
    Permit(Permit<'a>),
    Locked(MutexGuard<'a, u32>),
    Read(u32),
    Notified,
    Promised(u32),
    Late,
}

impl Chosen<'_> {
    fn number(&self) -> usize {
        match self {
            Chosen::Taken(7) => 0,
            Chosen::Put => 1,
            Chosen::Permit(permit) if permit.count() == 1 => 2,
            Chosen::Locked(guard) if **guard == 4 => 3,
            Chosen::Read(6) => 4,
            Chosen::Notified => 5,
            Chosen::Promised(5) => 6,
            Chosen::Late => 7,
            _ => unreachable!("something else was yielded"),
        }
    }
}

fn either<T>(either: Either<T, T>) -> T {
    match either {
        Either::Left(value) | Either::Right(value) => value,
    }
}

impl Structures {
    /// Not the left arms of the left arms alone: a tree.
    fn choice(&self, late: Duration) -> Waitable<impl Source<Output = Chosen<'_>>> {
        let place = self.place.take_source().map(Chosen::Taken);
        let full = self.full.put_source(8).map(|()| Chosen::Put);
        let permit = self.semaphore.acquire_source().map(|permit| Chosen::Permit(permit.unwrap()));
        let mutex = self.mutex.lock_source().map(Chosen::Locked);
        let lock = self.lock.read_source().map(|guard| Chosen::Read(*guard));
        let notify = self.notify.wait_source().map(|()| Chosen::Notified);
        let promised = self.promised.wait_source().map(|value| Chosen::Promised(*value.unwrap()));
        let left = place.or(full).map(either).or(permit.or(mutex).map(either)).map(either);
        let right = lock.or(notify.or(promised).map(either)).map(either);
        left.or(right.or(after(late).map(|()| Chosen::Late)).map(either)).map(either)
    }
}

const ARMS: usize = 7;

/// Makes ready those arms that `ready` says, of new structures, meanwhile or before; one is to be
/// chosen, and the others are to be as if nobody had asked.
fn choose_one_of(ready: &[usize], before: bool, awaited: bool) {
    let (resolver, promised) = promise();
    let all = Structures {
        place: MVar::empty(),
        full: MVar::new(1),
        semaphore: Semaphore::new(0),
        mutex: Mutex::new(4),
        lock: RwLock::new(0),
        notify: Notify::new(),
        promised,
    };
    let (mutex, mut lock) = (all.mutex.try_lock().unwrap(), all.lock.try_write().unwrap());
    *lock = 6;
    let (mut mutex, mut lock, mut resolver) = (Some(mutex), Some(lock), Some(resolver));
    let mut serve = || {
        for arm in ready {
            match arm {
                0 => all.place.try_put(7).unwrap(),
                1 => assert_eq!(all.full.try_take(), Some(1)),
                2 => all.semaphore.add_permits(1),
                3 => drop(mutex.take()),
                4 => drop(lock.take()),
                5 => all.notify.notify_one(),
                _ => resolver.take().unwrap().fill(5).unwrap(),
            }
        }
    };
    let wait = || {
        let choice = all.choice(if ready.is_empty() { MILLI } else { HOUR });
        if awaited { block_on(choice) } else { choice.wait().unwrap() }.number()
    };
    let chosen = if before {
        serve();
        wait()
    } else {
        scope(|s| {
            let waits = s.spawn(wait);
            let _ = yield_now();
            serve();
            waits.join().unwrap()
        })
    };
    if ready.is_empty() {
        assert_eq!(chosen, ARMS);
    } else {
        assert!(ready.contains(&chosen));
    }
    // What was made ready and not chosen still is; what was not made ready serves others, and
    // nobody stands before them.
    let left = |arm: usize| ready.contains(&arm) && chosen != arm;
    assert_eq!(all.place.try_take(), left(0).then_some(7));
    let full = if ready.contains(&1) { (chosen == 1).then_some(8) } else { Some(1) };
    assert_eq!((all.full.try_take(), all.full.is_empty()), (full, true));
    assert_eq!(all.semaphore.available_permits(), usize::from(ready.contains(&2)), "given back by the chosen one");
    drop((mutex, lock));
    assert!(all.mutex.try_lock().is_some() && all.lock.try_write().is_some());
    assert_eq!(all.notify.try_wait(), left(5));
    assert_eq!(all.promised.try_get().is_some(), ready.contains(&6));
    assert!(all.place.try_put(9) == Ok(()) && all.place.try_take() == Some(9));
}

#[test]
fn whichever_arm_is_ready_is_chosen_and_the_others_have_no_effect() {
    everywhere(|| {
        for awaited in [false, true] {
            for before in [false, true] {
                (0..ARMS).for_each(|arm| choose_one_of(&[arm], before, awaited));
                choose_one_of(&[], before, awaited);
            }
        }
    });
}

#[test]
fn of_several_that_are_ready_one_is_chosen_and_what_the_others_had_stays() {
    everywhere(|| {
        for first in 0..ARMS {
            for second in first + 1..ARMS {
                for (before, awaited) in [(true, false), (true, true), (false, false), (false, true)] {
                    choose_one_of(&[first, second], before, awaited);
                }
            }
        }
        choose_one_of(&[0, 1, 2, 3, 4, 5, 6], false, false);
    });
}

#[test]
fn a_task_that_was_served_through_one_arm_and_is_dropped_gives_that_back() {
    everywhere(|| {
        let (place, semaphore, mutex, notify) = (MVar::empty(), Semaphore::new(0), Mutex::new(()), Notify::new());
        for arm in 0..4 {
            let guard = mutex.try_lock().expect("given back");
            let left = place.take_source().or(semaphore.acquire_source());
            let task = Task::waiting(left.or(mutex.lock_source().or(notify.wait_source())).map(drop));
            match arm {
                0 => place.put(1).unwrap(),
                1 => semaphore.add_permits(1),
                2 => drop(guard),
                _ => notify.notify_one(),
            }
            assert_eq!(task.wakes(), 1);
            // What comes later finds the choice made.
            assert!(arm == 0 || place.try_put(2) == Ok(()) && place.try_take() == Some(2));
            drop(task);
            assert_eq!(place.try_take().is_some(), arm == 0);
            assert_eq!(semaphore.try_acquire().map(Permit::forget).is_some(), arm == 1);
            assert_eq!(notify.try_wait(), arm == 3);
        }
        assert!(mutex.try_lock().is_some());
    });
}

#[test]
fn two_arms_at_one_structure_take_one_value() {
    everywhere(|| {
        let place = MVar::empty();
        scope(|s| {
            let taken = s.spawn(|| place.take_source().or(place.take_source()).map(either).wait());
            let _ = yield_now();
            place.put(1).unwrap();
            place.put(2).unwrap();
            assert_eq!((taken.join().unwrap(), place.try_take()), (Ok(1), Some(2)));
        });
        // To put and to take at one place: it does not hand to itself.
        let both = || place.take_source().map(Some).or(place.put_source(3).map(|()| None)).map(either);
        assert_eq!((both().wait(), both().wait(), place.is_empty()), (Ok(None), Ok(Some(3)), true));
    });
}

#[test]
fn a_choice_that_is_cancelled_or_late_has_left_every_queue() {
    everywhere(|| {
        let (place, semaphore, mutex) = (MVar::<u8>::empty(), Semaphore::new(0), Mutex::new(()));
        let guard = mutex.lock().unwrap();
        let choice = || place.take_source().or(semaphore.acquire_source()).or(mutex.lock_source()).map(drop);
        scope(|s| {
            let waits = s.spawn(|| assert!(choice().wait().is_err()));
            let _ = yield_now();
            s.cancel();
            let _ = shield(|| waits.join());
        });
        assert!(timeout(MILLI, || choice().wait()).is_err_and(|cancelled| cancelled.timed_out()));
        assert!(matches!(choice().or(after(MILLI)).wait(), Ok(Either::Right(()))));
        let token = CancelToken::new();
        token.cancel();
        drop(guard);
        assert!(token.run(|| choice().wait()).is_err(), "also when it need not have waited");
        place.put(1).unwrap();
        semaphore.add_permits(1);
        assert!(place.try_take().is_some() && semaphore.try_acquire().is_some() && mutex.try_lock().is_some());
    });
}

/// Two that meet at two places crosswise: one takes from `a` or puts into `b`, the other the
/// reverse. Answers how often each arm was chosen.
fn crosswise(rounds: usize, cancels: bool) -> [usize; 4] {
    let (a, b, over) = (MVar::empty(), MVar::empty(), Latch::new(1));
    let (ended, counts) = (AtomicBool::new(false), <[AtomicUsize; 4]>::default());
    let (put, taken) = (std::sync::Mutex::new(BTreeSet::new()), std::sync::Mutex::new(Vec::new()));
    let go = |side: usize, mine: &MVar<usize>, other: &MVar<usize>| {
        for round in 0..rounds {
            let value = 2 * round + side;
            let choice = mine.take_source().map(Some).or(other.put_source(value).map(|()| None)).map(either);
            let choice = choice.or(over.wait_source());
            let chosen = if round % 4 == 3 {
                Ok(block_on(choice))
            } else if cancels && round % 4 == 2 {
                timeout(Duration::from_nanos(1 + round as u64 % 3000), || choice.wait())
            } else {
                choice.wait()
            };
            match chosen {
                Ok(Either::Left(Some(value))) => {
                    taken.lock().unwrap().push(value);
                    counts[2 * side].fetch_add(1, SeqCst);
                }
                Ok(Either::Left(None)) => {
                    put.lock().unwrap().insert(value);
                    counts[2 * side + 1].fetch_add(1, SeqCst);
                }
                Ok(Either::Right(())) => break,
                Err(cancelled) => assert!(cancels && cancelled.timed_out()),
            }
        }
        // The other one may be the only one left.
        if !ended.swap(true, SeqCst) {
            over.count_down(1);
        }
    };
    scope(|s| {
        s.spawn(|| go(0, &a, &b));
        s.spawn(|| go(1, &b, &a));
    });
    let mut put = put.into_inner().unwrap();
    for value in taken.into_inner().unwrap().into_iter().chain(a.try_take()).chain(b.try_take()) {
        assert!(put.remove(&value), "{value} was taken twice, or never put");
    }
    assert!(put.is_empty() && a.is_empty() && b.is_empty(), "lost: {put:?}");
    counts.map(AtomicUsize::into_inner)
}

#[test]
fn conservation_when_two_choices_meet_crosswise() {
    let mut seen = [0; 4];
    let mut add = |counts: [usize; 4]| (0..4).for_each(|arm| seen[arm] += counts[arm]);
    for workers in [1, 2] {
        add(pool(workers).run(|| crosswise(3000, false)).unwrap());
        add(pool(workers).run(|| crosswise(3000, true)).unwrap());
    }
    add(crosswise(3000, true));
    let simulations: [AtomicUsize; 4] = Default::default();
    simulated(50, |seed| {
        let counts = crosswise(50, seed % 2 == 0);
        (0..4).for_each(|arm| assert!(simulations[arm].fetch_add(counts[arm], SeqCst) < usize::MAX));
    });
    add(simulations.map(AtomicUsize::into_inner));
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// Everybody chooses between a value, a permit, a lock and a notification, and gives them back;
/// some are cancelled, some are dropped.
fn conserve(rounds: usize, run: impl FnOnce(&(dyn Fn(usize) + Sync)), outcomes: &[AtomicUsize; 6]) {
    let (place, semaphore, mutex, notify) = (MVar::new(7), Semaphore::new(1), Mutex::new(0), Notify::new());
    notify.notify_one();
    let choice = |turn: usize| {
        // Each arm is the first one for somebody.
        let values = place.take_source().map(|value| (Some(value), None, None));
        let permits = semaphore.acquire_source().map(|permit| (None, permit.ok(), None));
        let locks = mutex.lock_source().map(|guard| (None, None, Some(guard)));
        let told = notify.wait_source().map(|()| (None, None, None));
        let (first, second) = (values.or(permits).map(either), locks.or(told).map(either));
        match turn % 2 {
            0 => Either::Left(first.or(second).map(either)),
            _ => Either::Right(second.or(first).map(either)),
        }
    };
    run(&|n| {
        for round in 0..rounds {
            let turn = n * 7 + round;
            let chosen = match choice(turn / 4) {
                Either::Left(source) => wait_somehow(turn, source),
                Either::Right(source) => wait_somehow(turn, source),
            };
            let outcome = match chosen {
                Err(dropped) => 4 + usize::from(dropped),
                Ok((Some(value), _, _)) => {
                    let _ = yield_now();
                    place.try_put(value).expect("there is one value");
                    0
                }
                Ok((_, Some(permit), _)) => {
                    let _ = yield_now();
                    drop(permit);
                    1
                }
                Ok((_, _, Some(mut guard))) => {
                    let before = *guard;
                    let _ = yield_now();
                    *guard = before + 1;
                    2
                }
                Ok(_) => {
                    let _ = yield_now();
                    notify.notify_one();
                    3
                }
            };
            outcomes[outcome].fetch_add(1, SeqCst);
        }
    });
    assert_eq!((place.try_take(), semaphore.available_permits(), notify.try_wait()), (Some(7), 1, true));
    assert!(mutex.try_lock().is_some());
}

/// The output, or whether a task was dropped (or else it was cancelled).
fn wait_somehow<S: Source<Output: Send> + Send>(turn: usize, source: Waitable<S>) -> Result<S::Output, bool> {
    match turn % 4 {
        0 => source.wait().map_err(|_| false),
        1 => Ok(block_on(source)),
        2 => scope(|s| {
            let token = CancelToken::new();
            let canceller = token.clone();
            s.spawn(move || {
                for _ in 0..turn % 5 {
                    let _ = yield_now();
                }
                canceller.cancel();
            });
            token.run(|| source.wait()).map_err(|_| false)
        }),
        _ => {
            let mut task = Task::new(source);
            let chosen = (0..turn % 3).find_map(|_| {
                let chosen = task.poll();
                if chosen.is_none() {
                    let _ = yield_now();
                }
                chosen
            });
            chosen.ok_or(true)
        }
    }
}

#[test]
fn conservation_across_structures_whoever_is_cancelled_or_dropped() {
    let outcomes: [AtomicUsize; 6] = Default::default();
    simulated(60, |_| {
        let run = |body: &(dyn Fn(usize) + Sync)| scope(|s| (0..8).for_each(|n| drop(s.spawn(move || body(n)))));
        conserve(12, run, &outcomes);
    });
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 10), "{outcomes:?}");
    let outcomes: [AtomicUsize; 6] = Default::default();
    conserve(300, |body| mixed(9, body), &outcomes);
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
}

#[test]
fn a_choice_with_a_point_in_time_takes_what_comes_before_it() {
    simulated(20, |_| {
        let place = MVar::empty();
        scope(|s| {
            s.spawn(|| {
                sleep(2 * HOUR).unwrap();
                place.put(1).unwrap();
            });
            let begun = segue::now();
            assert_eq!(place.take_source().or(after(HOUR)).wait(), Ok(Either::Right(())));
            assert_eq!(segue::now() - begun, HOUR);
            assert_eq!(place.take_source().or(after(2 * HOUR)).wait(), Ok(Either::Left(1)));
            assert_eq!(segue::now() - begun, 2 * HOUR);
        });
    });
}
