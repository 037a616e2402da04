//! A zoo of planted bugs, each of a kind of its own: every one is found by the policies that can
//! find it, and its sound sibling passes.
//!
//! The table of how many schedules each took is printed by `cargo test -p segue --test zoo --
//! --nocapture`, and is in docs/testing.md.

#![cfg(feature = "sched")]

use segue::sched::{Cause, Explore, Failure};
use segue::sync::{Condvar, Mutex, Notify, OnceCell, Semaphore, promise};
use segue::{check, scope};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// A program, and the kind of failure that its fault leads to.
struct Exhibit {
    name: &'static str,
    /// The faulty program for `true`, the sound one for `false`.
    program: fn(bool) -> Result<(), String>,
    kind: fn(&Cause) -> bool,
}

fn is_error(cause: &Cause) -> bool {
    matches!(cause, Cause::Failed(_))
}

fn is_deadlock(cause: &Cause) -> bool {
    matches!(cause, Cause::Deadlock(_))
}

fn wrong<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found:?} and not {expected:?}")) }
}

/// Read and written under the lock, but not under the same hold of it.
fn lost_update(faulty: bool) -> Result<(), String> {
    let number = Mutex::new(0);
    let add = || {
        if faulty {
            let seen = *number.lock()?;
            *number.lock()? = seen + 1;
        } else {
            *number.lock()? += 1;
        }
        Ok::<_, segue::Cancelled>(())
    };
    scope(|s| drop((s.spawn(add), s.spawn(add))));
    wrong(number.into_inner(), 2)
}

/// Two locks, taken in two orders.
fn lock_order(faulty: bool) -> Result<(), String> {
    let (a, b) = (Mutex::new(0), Mutex::new(0));
    let both = |first: &Mutex<u32>, second: &Mutex<u32>| {
        let first = first.lock()?;
        *second.lock()? += *first;
        Ok::<_, segue::Cancelled>(())
    };
    scope(|s| {
        drop(s.spawn(|| both(&a, &b)));
        drop(s.spawn(|| if faulty { both(&b, &a) } else { both(&a, &b) }));
    });
    Ok(())
}

/// Philosophers: as above, but it takes all of them at once.
fn philosophers(faulty: bool) -> Result<(), String> {
    let forks: [Semaphore; 3] = [const { Semaphore::new(1) }; 3];
    scope(|s| {
        for n in 0..3 {
            let (left, right) = (&forks[n], &forks[(n + 1) % 3]);
            let (first, second) = if faulty || n != 2 { (left, right) } else { (right, left) };
            drop(s.spawn(move || {
                let _first = first.acquire()?;
                second.acquire().map(drop)
            }));
        }
    });
    Ok(())
}

/// Looks whether a ticket is left, and takes one a step later.
fn check_then_act(faulty: bool) -> Result<(), String> {
    let (left, sold) = (Mutex::new(1), AtomicU32::new(0));
    let buy = || {
        let mut tickets = left.lock()?;
        if *tickets == 0 {
            return Ok(());
        }
        if faulty {
            drop(tickets);
            tickets = left.lock()?;
        }
        *tickets -= 1;
        sold.fetch_add(1, SeqCst);
        Ok::<_, segue::Cancelled>(())
    };
    scope(|s| drop((s.spawn(buy), s.spawn(buy))));
    wrong(sold.into_inner(), 1)
}

/// Two fields that belong together are read one after the other.
fn torn_read(faulty: bool) -> Result<(), String> {
    let (low, high) = (Mutex::new(0), Mutex::new(0));
    let lock = Mutex::new(());
    let mut seen = (0, 0);
    scope(|s| {
        drop(s.spawn(|| {
            let _all = (!faulty).then(|| lock.lock()).transpose()?;
            *low.lock()? = 1;
            *high.lock()? = 1;
            Ok::<_, segue::Cancelled>(())
        }));
        drop(s.spawn(|| {
            let _all = (!faulty).then(|| lock.lock()).transpose()?;
            seen = (*low.lock()?, *high.lock()?);
            Ok::<_, segue::Cancelled>(())
        }));
    });
    wrong(seen.0 == seen.1, true)
}

/// Takes it for granted that the other one has begun.
fn order_violation(faulty: bool) -> Result<(), String> {
    let config = OnceCell::new();
    let mut read = None;
    scope(|s| {
        drop(s.spawn(|| config.try_set(7)));
        drop(s.spawn(|| read = if faulty { config.get().copied() } else { config.wait().ok().copied() }));
    });
    wrong(read, Some(7))
}

/// A flag is looked at outside of the lock under which the condition is waited for.
fn missed_notification(faulty: bool) -> Result<(), String> {
    let (ready, mutex, condition) = (AtomicBool::new(false), Mutex::new(()), Condvar::new());
    scope(|s| {
        drop(s.spawn(|| {
            if faulty {
                if !ready.load(SeqCst) {
                    drop(condition.wait(mutex.lock()?)?);
                }
            } else {
                drop(condition.wait_while(mutex.lock()?, |()| !ready.load(SeqCst))?);
            }
            Ok::<_, segue::Cancelled>(())
        }));
        drop(s.spawn(|| {
            let held = if faulty { None } else { mutex.lock().ok() };
            ready.store(true, SeqCst);
            condition.notify_one();
            drop(held);
        }));
    });
    Ok(())
}

/// One notification for two who wait.
fn notifies_one(faulty: bool) -> Result<(), String> {
    let (closed, notify) = (AtomicBool::new(false), Notify::new());
    let wait = || {
        while !closed.load(SeqCst) {
            notify.wait()?;
            if !faulty {
                notify.notify_one();
            }
        }
        Ok::<_, segue::Cancelled>(())
    };
    scope(|s| {
        drop((s.spawn(wait), s.spawn(wait)));
        check().expect("nobody cancels");
        closed.store(true, SeqCst);
        notify.notify_one();
    });
    Ok(())
}

/// Three events in a certain order, which takes two changes of priorities.
fn third_order(faulty: bool) -> Result<(), String> {
    let (stage, answer) = (Mutex::new(0), Mutex::new(0));
    scope(|s| {
        drop(s.spawn(|| {
            *stage.lock()? = 1;
            *stage.lock()? = 2;
            let asked = *answer.lock()? == 1;
            *stage.lock()? = if asked && faulty { 9 } else { 3 };
            Ok::<_, segue::Cancelled>(())
        }));
        drop(s.spawn(|| {
            if *stage.lock()? == 1 {
                *answer.lock()? = 1;
                *answer.lock()? = 2;
            }
            Ok::<_, segue::Cancelled>(())
        }));
    });
    wrong(stage.into_inner(), 3)
}

/// The resolver is kept by whoever waits for its promise.
fn waits_for_itself(faulty: bool) -> Result<(), String> {
    let (resolver, promise) = promise();
    let give = Mutex::new(Some(resolver));
    scope(|s| {
        drop(s.spawn(|| {
            let held = give.lock()?;
            if faulty {
                // With the lock held, which the other one needs to fill the promise.
                drop(promise.wait());
            } else {
                drop(held);
                drop(promise.wait());
            }
            Ok::<_, segue::Cancelled>(())
        }));
        drop(s.spawn(|| give.lock().map(|mut resolver| resolver.take().map(|resolver| resolver.fill(())))));
    });
    Ok(())
}

const ZOO: &[Exhibit] = &[
    Exhibit { name: "lost update", program: lost_update, kind: is_error },
    Exhibit { name: "deadlock by the order of two locks", program: lock_order, kind: is_deadlock },
    Exhibit { name: "deadlock of three philosophers", program: philosophers, kind: is_deadlock },
    Exhibit { name: "atomicity: check, then act", program: check_then_act, kind: is_error },
    Exhibit { name: "atomicity: two fields, two locks", program: torn_read, kind: is_error },
    Exhibit { name: "order: read before it is set", program: order_violation, kind: is_error },
    Exhibit { name: "missed notification", program: missed_notification, kind: is_deadlock },
    Exhibit { name: "one notification for two", program: notifies_one, kind: is_deadlock },
    Exhibit { name: "three events in one order (depth 3)", program: third_order, kind: is_error },
    Exhibit { name: "waits with the lock held", program: waits_for_itself, kind: is_deadlock },
];

/// Each policy, with so many schedules at most.
fn policies(most: u64) -> [(&'static str, Explore); 5] {
    [
        ("random", Explore::random(most)),
        ("random, not preemptive", Explore::random(most).preemptive(false)),
        ("pct(2)", Explore::pct(2, most)),
        ("pct(3)", Explore::pct(3, most)),
        ("exhaustive", Explore::exhaustive(most)),
    ]
}

#[test]
fn every_planted_bug_is_found() {
    println!("| bug | {} |", policies(2_000).map(|(name, _)| name).join(" | "));
    println!("| --- | {} |", policies(2_000).map(|_| "---").join(" | "));
    for exhibit in ZOO {
        let found = policies(2_000).map(|(_, explore)| explore.run(|| (exhibit.program)(true)).err());
        for failure in found.iter().flatten() {
            assert!((exhibit.kind)(&failure.cause), "{}: {failure}", exhibit.name);
        }
        let counts = found
            .each_ref()
            .map(|found| found.as_ref().map_or("-".to_owned(), |Failure { tried, .. }| tried.to_string()));
        println!("| {} | {} |", exhibit.name, counts.join(" | "));
        // Which one finds it is not the same for all, but random preemption and priorities of the
        // right depth find each.
        for policy in [0, 3] {
            assert!(found[policy].is_some(), "{} is not found by {}", exhibit.name, policies(2_000)[policy].0);
        }
    }
}

#[test]
fn their_sound_siblings_pass() {
    for exhibit in ZOO {
        for (name, explore) in policies(500) {
            let passed = explore.run(|| (exhibit.program)(false));
            passed.unwrap_or_else(|failure| panic!("{}, {name}: {failure}", exhibit.name));
        }
    }
}

#[test]
fn what_is_found_is_replayed_and_shrunk() {
    for exhibit in ZOO {
        for (name, explore) in policies(200) {
            let Err(failure) = explore.run(|| (exhibit.program)(true)) else { continue };
            let replay = |schedule| explore.replay(schedule, || (exhibit.program)(true)).unwrap_err().cause;
            assert_eq!(replay(&failure.schedule), failure.cause, "{}, {name}", exhibit.name);
            if let Some(shrunk) = &failure.shrunk {
                assert_eq!(replay(&shrunk.schedule), shrunk.cause, "{}, {name}", exhibit.name);
                let (now, before) = shrunk.departures;
                assert!(now < before, "{}, {name}: {failure}", exhibit.name);
            }
        }
    }
}
