//! `direct`: fibers on Segue's workers as futures, awaited by tasks of every executor.

use crate::common;

use common::{Counted, Flag, Host, fifo};
use segue::sync::promise;
use segue_bridge::{Direct, direct, direct_on, wait};
use segue_core::{JoinError, is_cancelled, sleep, yield_now};
use segue_sched::Runtime;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const ASYNC: [Host; 3] = [Host::TokioCurrent, Host::TokioMulti, Host::Smol];

#[test]
fn tasks_await_fibers() {
    for host in ASYNC {
        let task = async {
            let (go, gate) = promise();
            let mut answer = direct(move || {
                gate.take().unwrap();
                wait(async { 42 }).unwrap()
            });
            assert!(futures::poll!(&mut answer).is_pending());
            go.fill(()).unwrap();
            assert_eq!(answer.await.unwrap(), 42);
            let both = (direct_on(fifo(), || 1), direct_on(common::stealing(), || 2));
            assert_eq!(both.0.await.unwrap() + both.1.await.unwrap(), 3);
        };
        host.run_async(task).join();
    }
    assert_eq!(futures::executor::block_on(direct(|| 1)).unwrap(), 1);
    assert_eq!(futures::executor::LocalPool::new().run_until(direct(|| 2)).unwrap(), 2);
    // A fiber, too, may wait for it.
    assert_eq!(fifo().run(|| wait(direct(|| 3)).unwrap().unwrap()), Ok(3));
}

#[test]
fn it_is_send_and_starts_without_a_poll() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (resolver, promised) = promise();
    let fiber = is_send(direct(move || resolver.fill(1).unwrap()));
    assert_eq!(promised.take(), Ok(1));
    futures::executor::block_on(fiber).unwrap();
}

#[test]
fn a_panic_is_an_error() {
    let fiber: Direct<()> = direct(|| std::panic::resume_unwind(Box::new("planted")));
    let error = futures::executor::block_on(fiber).unwrap_err();
    assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&"planted"));
}

#[test]
fn dropping_it_cancels_the_fiber() {
    let (started, has_started) = promise();
    let (ended, has_ended) = promise();
    let fiber = direct(move || {
        started.fill(()).unwrap();
        let slept = sleep(Duration::MAX);
        ended.fill(slept.is_err() && is_cancelled()).unwrap();
    });
    has_started.wait().unwrap();
    drop(fiber);
    assert_eq!(has_ended.take(), Ok(true));
}

#[test]
fn dropped_before_it_ran_and_after_it_ended() {
    let pool = Runtime::new().workers(1).pool().unwrap();
    let drops = Arc::new(AtomicUsize::new(0));
    let (gate, opens) = promise::<()>();
    // Keeps the one worker from starting anything.
    let blocker = pool.spawn(move || {
        while opens.try_get().is_none() {
            std::thread::yield_now();
        }
    });
    let (held, result) = (Counted(Arc::clone(&drops)), Counted(Arc::clone(&drops)));
    let fiber = direct_on(&pool, move || {
        let _held = held;
        result
    });
    drop(fiber);
    gate.fill(()).unwrap();
    blocker.join().unwrap();
    pool.run(|| ()).unwrap();
    assert_eq!(drops.load(SeqCst), 2);
    let result = Counted(Arc::clone(&drops));
    let fiber = direct_on(&pool, move || result);
    pool.run(|| ()).unwrap();
    drop(fiber);
    pool.run(|| ()).unwrap();
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn the_end_of_its_pool_is_an_error_or_a_cancelled_fiber() {
    let pool = Runtime::new().workers(1).pool().unwrap();
    let running = direct_on(&pool, || sleep(Duration::MAX).is_err());
    while pool.run(yield_now).is_err() {}
    let waiting: Vec<_> = (0..10).map(|_| direct_on(&pool, || 1)).collect();
    drop(pool);
    assert!(matches!(futures::executor::block_on(running), Ok(true)));
    for fiber in waiting {
        assert!(matches!(futures::executor::block_on(fiber), Ok(1) | Err(JoinError::NeverRan(_))));
    }
}

#[test]
fn end_against_drop_conservation() {
    let drops = Arc::new(AtomicUsize::new(0));
    let (mut early, mut late) = (0, 0);
    for round in 0..10_000_u32 {
        let flag = Flag::new();
        let (setter, held) = (flag.clone(), Counted(Arc::clone(&drops)));
        let fiber = direct_on(fifo(), move || {
            let outcome = wait(flag);
            (outcome.is_ok(), held)
        });
        common::stealing().spawn(move || setter.set());
        for _ in 0..(round % 17) * 50 {
            std::hint::spin_loop();
        }
        if round % 2 == 0 {
            drop(fiber);
            early += 1;
        } else {
            assert!(wait(fiber).unwrap().unwrap().0);
            late += 1;
        }
    }
    fifo()
        .run(|| {
            while drops.load(SeqCst) < early + late {
                let _ = yield_now();
            }
        })
        .unwrap();
    assert_eq!(drops.load(SeqCst), 10_000);
}

#[test]
fn many_tasks_of_many_workers_await_many_fibers() {
    let task = async {
        let tasks: Vec<_> = (0..200_u64)
            .map(|n| {
                tokio::spawn(async move {
                    let mut sum = 0;
                    for k in 0..20 {
                        let pool = if k % 2 == 0 { fifo() } else { common::stealing() };
                        sum += direct_on(pool, move || {
                            yield_now().unwrap();
                            n * k
                        })
                        .await
                        .unwrap();
                    }
                    sum
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap(), n as u64 * 190);
        }
    };
    Host::TokioMulti.run_async(task).join();
}
