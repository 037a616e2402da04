//! `direct_local`: fibers that executors host, on tokio's LocalSet, futures' LocalPool, and in
//! fibers of Segue; their ends and their drops.

use crate::common;

use common::{Counted, CountingWaker, Flag, fifo};
use segue::incremental::{Fed, Feed, push};
use segue::sync::promise;
use segue_bridge::{Hosted, direct_local, wait};
use segue_core::{
    CancelToken, Cancelled, JoinError, Outcome, Trigger, WaitsFor, check, in_fiber, scope, shield, sleep, yield_now,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::io::BufRead;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Runs a task on every executor that stays on one thread.
fn on_each_executor<F: Future<Output = ()> + 'static>(task: impl Fn() -> F + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, task());
    futures::executor::LocalPool::new().run_until(task());
    futures::executor::block_on(task());
    smol::block_on(smol::LocalExecutor::new().run(task()));
    wait(task()).unwrap();
    fifo().run(|| wait(task()).unwrap()).unwrap();
    // A fiber that is hosted hosts another.
    futures::executor::block_on(direct_local(move || wait(task()).unwrap())).unwrap();
}

fn poll_once<T>(hosted: &mut Hosted<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(hosted).poll(&mut Context::from_waker(waker))
}

#[test]
fn it_runs_and_yields_its_result() {
    on_each_executor(|| async {
        let local = Rc::new(Cell::new(1));
        let inside = Rc::clone(&local);
        let result = direct_local(move || {
            assert!(in_fiber());
            inside.set(2);
            inside
        });
        assert_eq!(result.await.unwrap().get(), 2);
        assert_eq!(local.get(), 2);
    });
}

#[test]
fn its_panic_is_an_error() {
    on_each_executor(|| async {
        let result = direct_local(|| std::panic::resume_unwind(Box::new("planted")));
        let result: Result<(), JoinError> = result.await;
        assert_eq!(result.unwrap_err().into_panic().unwrap().downcast_ref(), Some(&"planted"));
    });
}

#[test]
fn it_waits_for_threads_fibers_timers_and_futures() {
    on_each_executor(|| async {
        let result = direct_local(|| {
            let (resolver, promised) = promise();
            std::thread::spawn(move || resolver.fill(1));
            let (second, also) = promise();
            fifo().spawn(move || second.fill(2));
            sleep(Duration::from_millis(1)).unwrap();
            let flag = Flag::new();
            let setter = flag.clone();
            std::thread::spawn(move || setter.set());
            wait(flag).unwrap();
            promised.take().unwrap() + also.take().unwrap()
        });
        assert_eq!(result.await.unwrap(), 3);
    });
}

#[test]
fn fibers_of_one_thread_take_turns() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let run = |name: u8| {
            let log = Rc::clone(&log);
            tokio::task::spawn_local(direct_local(move || {
                for _ in 0..3 {
                    log.borrow_mut().push(name);
                    yield_now().unwrap();
                }
            }))
        };
        let (a, b) = (run(1), run(2));
        a.await.unwrap().unwrap();
        b.await.unwrap().unwrap();
        assert_eq!(*log.borrow(), [1, 2, 1, 2, 1, 2]);
    });
}

#[test]
fn fibers_and_tasks_of_one_thread_meet_at_a_promise() {
    on_each_executor(|| async {
        let (there, promised) = promise();
        let (back, mut answer) = promise();
        let fiber = direct_local(move || back.fill(promised.take().unwrap() + 1).unwrap());
        let task = async {
            there.fill(1).unwrap();
            assert_eq!(answer.take_source().await, Ok(2));
        };
        let (result, ()) = futures::join!(fiber, task);
        result.unwrap();
    });
}

#[test]
fn scopes_and_spawns_inside_run_elsewhere() {
    on_each_executor(|| async {
        let result = direct_local(|| {
            let words = ["straight", "line"];
            let lengths = scope(|s| {
                let halves = words.map(|word| s.spawn(move || word.len()));
                halves.map(|half| half.join().unwrap()).iter().sum::<usize>()
            });
            let (a, b) = segue::join(|| 1, || 2);
            lengths + segue_core::spawn(|| 30).join().unwrap() + a + b
        });
        assert_eq!(result.await.unwrap(), 45);
    });
}

#[test]
fn a_runtime_inside_of_a_hosted_fiber_suspends_it() {
    on_each_executor(|| async {
        let (resolver, promised) = promise();
        let fiber =
            direct_local(|| segue_sched::Runtime::new().workers(1).run(move || promised.take().unwrap()).unwrap());
        // Polled after the fiber, which has suspended by then.
        let (result, ()) = futures::join!(fiber, async { resolver.fill(7).unwrap() });
        assert_eq!(result.unwrap(), 7);
    });
}

#[test]
fn dropped_before_its_first_poll_it_drops_the_closure() {
    let drops = Arc::new(AtomicUsize::new(0));
    let held = Counted(Arc::clone(&drops));
    let ran = Rc::new(Cell::new(false));
    let inside = Rc::clone(&ran);
    drop(direct_local(move || {
        let _held = held;
        inside.set(true);
    }));
    assert_eq!((drops.load(SeqCst), ran.get()), (1, false));
}

#[test]
fn dropped_while_suspended_it_is_cancelled_and_runs_to_its_end() {
    // In a wait for a promise, a future, a timer; and having given up its turn.
    for kind in 0..4 {
        let drops = Arc::new(AtomicUsize::new(0));
        let outcomes = Rc::new(RefCell::new(Vec::new()));
        let (held, seen) = (Counted(Arc::clone(&drops)), Rc::clone(&outcomes));
        let (resolver, promised) = promise::<()>();
        let mut fiber = direct_local(move || {
            let _held = held;
            let outcome = match kind {
                0 => promised.wait().is_err(),
                1 => wait(pending::<()>()).is_err(),
                2 => sleep(Duration::MAX).is_err(),
                _ => yield_now().is_ok(),
            };
            // Cancellation sticks.
            seen.borrow_mut().extend([outcome, sleep(Duration::MAX).is_err(), yield_now().is_err(), check().is_err()]);
        });
        assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
        assert_eq!(drops.load(SeqCst), 0);
        drop(fiber);
        assert_eq!(drops.load(SeqCst), 1);
        assert_eq!(*outcomes.borrow(), [true; 4]);
        drop(resolver);
    }
    assert_eq!(segue_fiber::leaked_stacks(), 0);
}

#[test]
fn a_shielded_wait_holds_up_the_drop() {
    // The resolver comes before the drop, or finds it waiting.
    for round in 0..100 {
        let body = || {
            let (resolver, promised) = promise();
            let finished = Arc::new(AtomicUsize::new(0));
            let inside = Arc::clone(&finished);
            let mut fiber = direct_local(move || {
                shield(|| {
                    assert_eq!(promised.take(), Ok(1));
                    inside.fetch_add(1, SeqCst);
                });
            });
            assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
            std::thread::spawn(move || {
                (0..round).for_each(|_| std::thread::yield_now());
                resolver.fill(1).unwrap();
            });
            drop(fiber);
            assert_eq!(finished.load(SeqCst), 1);
        };
        body();
        fifo().run(body).unwrap();
        // On the one worker the resolver runs only when the drop waits.
        let behind = || {
            let (resolver, promised) = promise();
            let mut fiber = direct_local(move || shield(|| promised.take()));
            assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
            let filled = Arc::new(AtomicUsize::new(0));
            let inside = Arc::clone(&filled);
            drop(segue_core::spawn(move || {
                inside.fetch_add(1, SeqCst);
                resolver.fill(1).unwrap();
            }));
            assert_eq!(filled.load(SeqCst), 0);
            drop(fiber);
            assert_eq!(filled.load(SeqCst), 1);
        };
        fifo().run(behind).unwrap();
    }
}

#[test]
fn dropped_while_a_panic_unwinds() {
    for in_a_fiber in [false, true] {
        let finished = Arc::new(AtomicUsize::new(0));
        let inside = Arc::clone(&finished);
        let body = move || {
            let (resolver, promised) = promise();
            let mut fiber = direct_local(move || {
                let ended = wait(pending::<()>());
                assert!(ended.is_err());
                // The thread is panicking: what would suspend fails, what guards memory does not.
                assert!(sleep(Duration::MAX).is_err());
                scope(|s| drop(s.spawn(|| ())));
                inside.fetch_add(1, SeqCst);
                drop(promised.wait());
            });
            assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
            resolver.fill(1).unwrap();
            let _fiber = fiber;
            std::panic::resume_unwind(Box::new("planted"));
        };
        let outcome = if in_a_fiber {
            fifo().spawn(body).join().map_err(|_| ())
        } else {
            std::thread::spawn(body).join().map_err(|_| ())
        };
        assert!(outcome.is_err());
        assert_eq!(finished.load(SeqCst), 1);
    }
}

#[test]
fn cancelled_from_outside_while_suspended_it_is_polled() {
    // The fiber is under a token of its own choice; cancelling that from elsewhere has the executor
    // poll it.
    for _ in 0..200 {
        futures::executor::block_on(async {
            let token = CancelToken::new();
            let elsewhere = token.clone();
            let fiber = direct_local(move || {
                token.run(|| {
                    std::thread::spawn(move || elsewhere.cancel());
                    let (_resolver, promised) = promise::<()>();
                    let first = promised.take().is_err();
                    (first, wait(pending::<()>()).is_err())
                })
            });
            assert_eq!(fiber.await.unwrap(), (true, true));
        });
    }
}

#[test]
fn a_waker_may_cancel_the_context_whose_cancellation_calls_it() {
    struct Cancels(CancelToken, CountingWaker);
    impl std::task::Wake for Cancels {
        fn wake(self: Arc<Self>) {
            self.0.cancel();
            self.1.0.fetch_add(1, SeqCst);
        }
    }
    let token = CancelToken::new();
    let under = token.clone();
    let mut fiber = direct_local(move || {
        under.run(|| {
            let trigger = Trigger::new();
            assert_eq!(trigger.wait(WaitsFor::new("a test")), Outcome::Cancelled);
        });
    });
    let cancels = Arc::new(Cancels(token.clone(), CountingWaker::default()));
    let waker = Waker::from(Arc::clone(&cancels));
    assert!(poll_once(&mut fiber, &waker).is_pending());
    token.cancel();
    assert_eq!(cancels.1.0.load(SeqCst), 1);
    assert!(poll_once(&mut fiber, &waker).is_ready());
}

#[test]
fn a_poll_for_no_reason_changes_nothing() {
    let counting = Arc::new(CountingWaker::default());
    let (resolver, promised) = promise();
    let mut fiber = direct_local(move || promised.take().unwrap());
    for _ in 0..5 {
        assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
        assert!(poll_once(&mut fiber, &Waker::from(Arc::clone(&counting))).is_pending());
    }
    resolver.fill(1).unwrap();
    // The last waker is the one that is called, once.
    assert_eq!(counting.0.load(SeqCst), 1);
    assert!(matches!(poll_once(&mut fiber, Waker::noop()), Poll::Ready(Ok(1))));
}

#[test]
fn a_future_in_it_may_suspend_it_in_its_poll_and_the_task_change_its_waker() {
    let (first, second) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
    let flag = Flag::new();
    let inner = flag.clone();
    let mut fiber = direct_local(move || {
        wait(async {
            // Suspends the fiber inside of the poll of the outer future, whose context stays in
            // use.
            wait(inner).unwrap();
            yield_now().unwrap();
            let mut polled = false;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            42
        })
        .unwrap()
    });
    assert!(poll_once(&mut fiber, &Waker::from(Arc::clone(&first))).is_pending());
    assert!(poll_once(&mut fiber, &Waker::from(Arc::clone(&second))).is_pending());
    flag.set();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    let third = Waker::from(Arc::new(CountingWaker::default()));
    // To the yield, then to the end. The first waker is gone by then, but for the context that
    // still has it: what is left there wakes nobody any more, so the future is polled again with
    // the third.
    assert!(poll_once(&mut fiber, &third).is_pending());
    assert!(matches!(poll_once(&mut fiber, &third), Poll::Ready(Ok(42))));
    assert_eq!(first.0.load(SeqCst), 1);
}

#[test]
fn resume_against_drop_conservation() {
    let (mut filled, mut cancelled) = (0, 0);
    for round in 0..10_000_u32 {
        let (resolver, promised) = promise();
        let drops = Arc::new(AtomicUsize::new(0));
        let outcome = Rc::new(Cell::new(None));
        let (held, inside) = (Counted(Arc::clone(&drops)), Rc::clone(&outcome));
        let mut fiber = direct_local(move || {
            let _held = held;
            inside.set(Some(promised.take()));
        });
        assert!(poll_once(&mut fiber, Waker::noop()).is_pending());
        let filler = fifo().spawn(move || resolver.fill(round).map_err(|rejected| rejected.value));
        for _ in 0..(round % 13) * 40 {
            std::hint::spin_loop();
        }
        drop(fiber);
        assert_eq!(drops.load(SeqCst), 1);
        let sent = filler.join().unwrap();
        match outcome.take().expect("it has run to its end") {
            Ok(value) => {
                assert_eq!((value, sent), (round, Ok(())));
                filled += 1;
            }
            // What nobody can take any more comes back.
            Err(_) => {
                assert!(sent == Ok(()) || sent == Err(round));
                cancelled += 1;
            }
        }
    }
    println!("{filled} filled, {cancelled} cancelled");
    assert!(filled > 0 && cancelled > 0);
    assert_eq!(segue_fiber::leaked_stacks(), 0);
}

#[test]
fn wakes_from_threads_against_polls_of_an_executor() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let fibers = (0..50).map(|_| {
            tokio::task::spawn_local(direct_local(|| {
                for round in 0..100 {
                    let (resolver, promised) = promise();
                    fifo().spawn(move || resolver.fill(round).unwrap());
                    assert_eq!(promised.take(), Ok(round));
                    let flag = Flag::new();
                    let setter = flag.clone();
                    fifo().spawn(move || setter.set());
                    wait(flag).unwrap();
                }
            }))
        });
        for fiber in fibers.collect::<Vec<_>>() {
            fiber.await.unwrap().unwrap();
        }
    });
}

#[test]
fn aborted_tasks_and_dropped_executors_end_their_fibers() {
    let drops = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let set = tokio::task::LocalSet::new();
    set.block_on(&runtime, async {
        for abort in [true, false] {
            let held = Counted(Arc::clone(&drops));
            let task = tokio::task::spawn_local(direct_local(move || {
                let _held = held;
                sleep(Duration::from_secs(3600))
            }));
            tokio::task::yield_now().await;
            if abort {
                task.abort();
                assert!(task.await.unwrap_err().is_cancelled());
                assert_eq!(drops.load(SeqCst), 1);
            }
        }
    });
    drop(set);
    assert_eq!(drops.load(SeqCst), 2);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_cancelled_fiber_that_waits_for_a_hosted_one_cancels_it() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let token = CancelToken::new();
    let waiter = fifo().spawn({
        let (token, log) = (token.clone(), Arc::clone(&log));
        move || {
            token.run(|| {
                let log = Arc::clone(&log);
                wait(direct_local(move || {
                    let outcome: Result<(), Cancelled> = wait(pending());
                    log.lock().unwrap().push(outcome.is_err());
                }))
            })
        }
    });
    fifo().run(|| ()).unwrap();
    token.cancel();
    assert!(waiter.join().unwrap().is_err());
    // Never started, or run to its end.
    assert!(log.lock().unwrap().iter().all(|cancelled| *cancelled));
}

#[test]
fn a_leaked_one_can_still_be_woken() {
    let (resolver, promised) = promise();
    let mut fiber = direct_local(move || drop(promised.take()));
    let counting = Arc::new(CountingWaker::default());
    assert!(poll_once(&mut fiber, &Waker::from(Arc::clone(&counting))).is_pending());
    std::mem::forget(fiber);
    resolver.fill(1).unwrap();
    assert_eq!(counting.0.load(SeqCst), 1);
}

#[test]
fn large_closures_and_results_and_deep_stacks() {
    let big = [7_u8; 5000];
    let result = futures::executor::block_on(direct_local(move || {
        yield_now().unwrap();
        big
    }));
    assert_eq!(result.unwrap(), [7; 5000]);
    fn deep(n: u32) -> u32 {
        if n == 0 { std::hint::black_box(0) } else { 1 + deep(std::hint::black_box(n - 1)) }
    }
    assert_eq!(futures::executor::block_on(direct_local(|| deep(1000))).unwrap(), 1000);
}

/// A push parser stays on its thread, and so is at home where tasks do.
#[test]
fn machines_are_fed_by_tasks_between_their_waits() {
    async fn fed(length: usize) -> Vec<String> {
        let mut machine = push(|input: &mut Feed| input.lines().map_while(Result::ok).collect());
        for piece in b"one\ntwo\nthree".chunks(length) {
            assert!(matches!(machine.feed(piece), Fed::NeedMore));
            smol::future::yield_now().await;
        }
        machine.finish()
    }
    on_each_executor(|| async {
        let (one, three) = futures::join!(fed(1), fed(3));
        assert_eq!((one, three), (vec!["one".to_owned(), "two".into(), "three".into()], fed(20).await));
    });
}
