//! Planted deadlocks of each kind are found, with all their waiters; and what is none is not.

use crate::dump_until;
use segue::sched::{Cycle, Dump, Runtime, Sim, settle};
use segue::sync::{Barrier, Mutex, OnceCell, RwLock, promise};
use segue::{Builder, CancelToken, after, scope};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The names of the waiters of the one deadlock, in order of the alphabet.
#[track_caller]
fn names(dump: &Dump) -> Vec<String> {
    let [cycle] = &*dump.deadlocks else { panic!("there is not one deadlock:\n{dump}") };
    names_of(cycle)
}

fn names_of(cycle: &Cycle) -> Vec<String> {
    let name = |name: &str| name.split('`').nth(1).unwrap_or(name).to_owned();
    let mut names: Vec<_> = cycle.waiters.iter().map(|waiter| name(&waiter.name)).collect();
    names.sort();
    names
}

/// Runs `f` in a simulation, in a token that is cancelled by a fiber that has looked at a dump
/// after everybody waits.
#[track_caller]
fn finds(expected: &[&str], f: impl Fn() + Send + Sync + 'static) {
    let expected: Vec<String> = expected.iter().map(|&name| name.to_owned()).collect();
    let run = Sim::new(1).run(move || {
        let token = CancelToken::new();
        let under = token.clone();
        let f = Arc::new(f);
        let all = segue::spawn(move || under.run(|| f()));
        settle().unwrap();
        let dump = segue::dump();
        token.cancel();
        all.join().unwrap();
        if expected.is_empty() {
            assert_eq!(dump.deadlocks, [], "{dump}");
        } else {
            assert_eq!(names(&dump), expected, "{dump}");
        }
    });
    assert_eq!(run, Ok(()));
}

#[test]
fn two_mutexes_crosswise() {
    let _alone = crate::alone();
    finds(&["left", "right"], || {
        let (a, b, both) = (Mutex::new(0), Mutex::new(0), Barrier::new(2));
        scope(|s| {
            for (name, first, second) in [("left", &a, &b), ("right", &b, &a)] {
                let both = &both;
                Builder::new().name(name).within(s).spawn(move || {
                    let _first = first.lock()?;
                    both.wait()?;
                    second.lock().map(drop)
                });
            }
        });
    });
}

#[test]
fn three_locks_of_three_kinds_in_a_ring() {
    let _alone = crate::alone();
    finds(&["cell", "mutex", "write"], || {
        let (mutex, lock, cell) = (Mutex::new(0), RwLock::new(0), OnceCell::<u32>::new());
        let all = Barrier::new(3);
        scope(|s| {
            Builder::new().name("mutex").within(s).spawn(|| {
                let _guard = mutex.lock()?;
                all.wait()?;
                lock.read().map(drop)
            });
            Builder::new().name("write").within(s).spawn(|| {
                let _guard = lock.write()?;
                all.wait()?;
                let _ = cell.get_or_init(|| 1);
                segue::check()
            });
            Builder::new().name("cell").within(s).spawn(|| {
                let _ = cell.get_or_init(|| {
                    let _ = all.wait();
                    mutex.lock().map_or(0, |value| *value)
                });
            });
        });
    });
}

#[test]
fn a_fiber_that_locks_its_own_mutex_again() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let again = Builder::new().name("again").cancellable().spawn(|| {
            let mutex = Mutex::new(0);
            let _guard = mutex.lock()?;
            mutex.lock().map(drop)
        });
        settle().unwrap();
        let dump = segue::dump();
        assert_eq!(names(&dump), ["again"], "{dump}");
        // Both lines are named, in a debug build.
        let waiter = &dump.deadlocks[0].waiters[0];
        let lines = waiter.locked_at.map(|locked_at| (locked_at.line() + 1, waiter.waits_for.at.line()));
        assert_eq!(lines.is_some(), cfg!(debug_assertions), "{dump}");
        assert!(lines.is_none_or(|(locked, waits)| locked == waits), "{dump}");
        again.cancel();
    });
    assert_eq!(run, Ok(()));
}

#[test]
fn a_join_of_a_fiber_that_waits_for_the_joiners_lock() {
    let _alone = crate::alone();
    finds(&["joined", "joins"], || {
        let mutex = Arc::new(Mutex::new(0));
        scope(|s| {
            Builder::new().name("joins").within(s).spawn(|| {
                let guard = mutex.lock()?;
                let of = Arc::clone(&mutex);
                let joined = Builder::new().name("joined").spawn(move || of.lock().map(drop));
                let _ = joined.join();
                drop(guard);
                segue::check()
            });
        });
    });
}

#[test]
fn a_scope_whose_fiber_waits_for_its_owners_lock() {
    let _alone = crate::alone();
    finds(&["member", "owner"], || {
        let mutex = Mutex::new(0);
        scope(|s| {
            Builder::new().name("owner").within(s).spawn(|| {
                let _guard = mutex.lock();
                scope(|inner| {
                    Builder::new().name("member").within(inner).spawn(|| mutex.lock().map(drop));
                    Builder::new().name("bystander").within(inner).spawn(|| after(Duration::MAX).wait());
                });
            });
        });
    });
}

#[test]
fn no_deadlock_is_said_of_chains_choices_limits_and_locks_that_somebody_will_open() {
    let _alone = crate::alone();
    finds(&[], || {
        let (a, b, c) = (Mutex::new(0), Mutex::new(0), Mutex::new(0));
        let (_resolver, never) = promise::<()>();
        scope(|s| {
            // A chain: the last one waits for something else.
            Builder::new().name("first").within(s).spawn(|| {
                let _guard = a.lock()?;
                never.wait().map(drop)
            });
            segue::yield_now().unwrap();
            for (own, next) in [(&b, &a), (&c, &b)] {
                s.spawn(move || {
                    let _guard = own.lock()?;
                    next.lock().map(drop)
                });
            }
        });
    });
    finds(&[], || {
        let (a, b, both) = (Mutex::new(0), Mutex::new(0), Barrier::new(2));
        scope(|s| {
            for (own, next) in [(&a, &b), (&b, &a)] {
                let both = &both;
                s.spawn(move || {
                    let _guard = own.lock().unwrap();
                    both.wait()?;
                    let _ = next.lock_source().or(after(Duration::from_secs(1))).wait();
                    segue::check()
                });
            }
        });
    });
}

/// The guard that its locker waits for is a friend's, who will unlock: the dump is wrong there, and
/// says in its documentation that it may be.
#[test]
fn a_guard_that_was_sent_counts_as_its_lockers() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let mutex: &'static Mutex<u32> = Box::leak(Box::new(Mutex::new(0)));
        let (sender, receiver) = segue::channel::bounded(1);
        let friend = segue::spawn(move || {
            let guard = receiver.recv().unwrap();
            after(Duration::from_secs(1)).wait().unwrap();
            drop::<segue::sync::MutexGuard<'_, u32>>(guard);
        });
        let locker = Builder::new().name("locker").spawn(move || {
            sender.send(mutex.lock().unwrap()).unwrap();
            drop(mutex.lock().unwrap());
        });
        settle().unwrap();
        assert_eq!(names(&segue::dump()), ["locker"]);
        locker.join().unwrap();
        friend.join().unwrap();
    });
    assert_eq!(run, Ok(()));
}

#[test]
fn fibers_of_two_schedulers_and_a_plain_thread_in_one_ring() {
    let _alone = crate::alone();
    let pools = [(); 2].map(|()| Runtime::new().workers(1).pool().unwrap());
    let locks: Arc<[Mutex<u32>; 3]> = Arc::new([Mutex::new(0), Mutex::new(0), Mutex::new(0)]);
    let token = CancelToken::new();
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let take = |own: usize, next: usize| {
        let (locks, barrier, token) = (Arc::clone(&locks), Arc::clone(&barrier), token.clone());
        move || {
            token.run(|| {
                let _own = locks[own].lock().unwrap();
                barrier.wait();
                locks[next].lock().map(drop)
            })
        }
    };
    let fibers = [("zero", 0, 1), ("one", 1, 2)]
        .map(|(name, own, next)| Builder::new().name(name).on(&pools[own]).spawn(take(own, next)));
    let plain = thread::Builder::new().name("two".to_owned()).spawn(take(2, 0)).unwrap();
    let found = dump_until(|dump| dump.deadlocks.first().cloned());
    assert_eq!(names_of(&found), ["one", "two", "zero"]);
    token.cancel();
    fibers.into_iter().for_each(|fiber| assert!(fiber.join().unwrap().is_err()));
    assert!(plain.join().unwrap().is_err());
}
