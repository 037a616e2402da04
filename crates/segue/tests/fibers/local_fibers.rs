//! Fibers of a scope that stay on their worker, and fibers of a scope on another scheduler.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{block_on, everywhere};
use segue::core::drivers::{is_unblocked, unblocked};
use segue::fiber::attribute;
use segue::sched::{Plain, Priority, hosted};
use segue::sync::MVar;
use segue::testing::{Explore, Sim};
use segue::{Builder, Cancelled, JoinError, after, fiber, scope, sleep, timeout, try_scope, yield_now};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

#[test]
fn what_is_not_send_is_shared_by_fibers_of_one_worker() {
    everywhere(|| {
        let here = thread::current().id();
        let log = Rc::new(RefCell::new(Vec::new()));
        let count = Cell::new(0);
        let joined: Rc<u32> = scope(|s| {
            for n in 0..10 {
                let (log, count) = (Rc::clone(&log), &count);
                drop(s.spawn_local(move || {
                    assert_eq!(thread::current().id(), here);
                    for _ in 0..3 {
                        count.set(count.get() + 1);
                        yield_now().unwrap();
                    }
                    log.borrow_mut().push(n);
                }));
            }
            s.spawn_local(|| Rc::new(7)).join().unwrap()
        });
        assert_eq!((*joined, count.get(), log.borrow().len()), (7, 30, 10));
    });
}

#[test]
fn on_a_fiber_it_runs_beside_its_spawner_and_on_a_thread_in_its_place() {
    everywhere(|| {
        let began = Cell::new(false);
        scope(|s| {
            drop(s.spawn_local(|| began.set(true)));
            assert_ne!(began.get(), fiber::current().is_some(), "it begins when the spawner waits");
        });
        assert!(began.get());
    });
}

#[test]
fn it_is_cancelled_with_its_scope_and_fails_it() {
    everywhere(|| {
        let error = try_scope(|s| {
            let failing = Rc::new("out of ink");
            let waits = fiber::current().map(|_| s.spawn_local(never));
            drop(s.spawn_local(move || s.fail_with(*failing)));
            if let Some(waits) = waits {
                match waits.join() {
                    Ok(waited) => assert_eq!(waited.unwrap_err().to_string(), "cancelled: out of ink"),
                    Err(unstarted) => assert!(matches!(unstarted, JoinError::NeverRan(_))),
                }
            }
            Ok::<_, Cancelled>(())
        });
        assert_eq!(error.unwrap_err().to_string(), "a part failed: out of ink");
    });
}

#[test]
fn a_panic_of_it_is_the_scope_s() {
    everywhere(|| {
        let caught = std::panic::catch_unwind(|| {
            scope(|s| {
                let rc = Rc::new(3_u8);
                drop(s.spawn_local(move || -> () { std::panic::resume_unwind(Box::new(*rc)) }));
            });
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&3_u8));
    });
}

#[test]
fn no_other_worker_takes_it_however_busy_its_own_is() {
    let pool = segue::sched::Runtime::new().workers(2).pool().unwrap();
    pool.call(|| {
        let here = thread::current().id();
        scope(|s| {
            for _ in 0..1_000 {
                drop(s.spawn_local(|| assert_eq!(thread::current().id(), here)));
            }
            // The other worker has nothing to do meanwhile.
            thread::sleep(Duration::from_millis(2));
        });
    });
}

#[test]
fn a_child_spawns_local_fibers_on_its_own_worker() {
    everywhere(|| {
        let sum = AtomicUsize::new(0);
        scope(|s| {
            for n in 0..4 {
                let sum = &sum;
                drop(s.spawn(move || {
                    let mine = Rc::new(n);
                    drop(s.spawn_local(move || sum.fetch_add(*mine, SeqCst)));
                }));
            }
        });
        assert_eq!(sum.into_inner(), 6);
    });
}

/// Runs `body` on fibers of the scheduler to read first, and on one that an executor polls.
fn on_plain_and_hosted(body: impl Fn() + Copy + 'static) {
    Plain::run(body);
    block_on(hosted(body)).unwrap();
}

#[test]
#[allow(unsafe_code, reason = "nothing in the program heeds the mark")]
fn it_has_a_header_of_its_own_whatever_runs_it() {
    on_plain_and_hosted(|| {
        let me = fiber::current().unwrap().id();
        let local = || {
            let current = fiber::current().unwrap();
            assert_ne!(current.id(), me);
            (is_unblocked(), current.name().map(str::to_owned), attribute::<Priority>())
        };
        let spawns = || {
            assert!(is_unblocked());
            scope(|s| {
                let named = Builder::new().name("local").attribute(Priority(3)).within(s).local().spawn(local);
                (named.join().unwrap(), s.spawn_local(local).join().unwrap())
            })
        };
        // SAFETY: nothing heeds the mark.
        let told = unsafe { unblocked(spawns) };
        assert_eq!(told, ((false, Some("local".to_owned()), Some(Priority(3))), (false, None, None)));
    });
}

#[test]
fn it_waits_and_is_cancelled_by_itself() {
    on_plain_and_hosted(|| {
        scope(|s| {
            let waits = s.spawn_local(|| {
                let inner = timeout(Duration::from_millis(5), || never().unwrap_err());
                yield_now().unwrap();
                sleep(Duration::from_millis(1)).unwrap();
                let other = s.spawn_local(|| Rc::new(7));
                (inner.timed_out(), *other.join().unwrap())
            });
            assert_eq!(waits.join().unwrap(), (true, 7));
        });
        // The scope's cancellation ends its wait, and the caller's own does.
        let ended = timeout(Duration::from_millis(5), || scope(|s| s.spawn_local(never).join()));
        assert!(!matches!(ended, Ok(Ok(()))));
    });
}

#[test]
fn on_the_plain_scheduler_local_fibers_wait_for_each_other() {
    Plain::run(|| {
        let place = Rc::new(MVar::empty());
        let sum = scope(|s| {
            let (there, here) = (Rc::clone(&place), Rc::clone(&place));
            let takes = s.spawn_local(move || there.take().unwrap() + 1);
            s.spawn_local(move || here.put(41).unwrap());
            takes.join().unwrap()
        });
        assert_eq!(sum, 42);
    });
}

#[test]
fn an_explored_schedule_chooses_it_like_any_other_and_replays() {
    let program = || {
        let order = RefCell::new(Vec::new());
        scope(|s| {
            for n in 0..3 {
                let order = &order;
                drop(
                    Builder::new()
                        .name(format!("local {n}"))
                        .within(s)
                        .local()
                        .spawn(move || order.borrow_mut().push(n)),
                );
            }
        });
        order.into_inner()
    };
    let orders: std::collections::BTreeSet<_> = (0..50).map(|seed| Sim::new(seed).run(program).unwrap()).collect();
    assert_eq!(orders.len(), 6, "{orders:?}");
    for seed in 0..5 {
        assert_eq!(Sim::new(seed).run(program).unwrap(), Sim::new(seed).run(program).unwrap());
    }
    Explore::exhaustive(10_000).check(|| assert_eq!(program().len(), 3));
}

#[test]
fn a_fiber_of_a_scope_on_a_pool_borrows_and_is_cancelled_with_the_scope() {
    let pool = segue::sched::Runtime::new().workers(1).name("other").pool().unwrap();
    let borrows = || {
        let words = [String::from("straight"), String::from("line")];
        let lengths = scope(|s| {
            let there = || {
                assert_eq!(thread::current().name(), Some("other-0"));
                words[0].len()
            };
            let far = Builder::new().within(s).on(&pool).spawn(there);
            let near = s.spawn(|| words[1].len());
            [far.join().unwrap(), near.join().unwrap()]
        });
        assert_eq!(lengths, [8, 4]);
        scope(|s| {
            let far = Builder::new().within(s).on(&pool).spawn(never);
            s.cancel_with("enough");
            match far.join() {
                Ok(waited) => assert_eq!(waited.unwrap_err().to_string(), "cancelled: enough"),
                Err(unstarted) => assert!(unstarted.is_cancelled()),
            }
        });
    };
    segue::run(borrows);
    pool.call(borrows);
    borrows();
}
