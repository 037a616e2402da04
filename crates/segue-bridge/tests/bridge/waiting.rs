//! `wait(future)`: in fibers of every scheduler and in plain threads, with wakers that come early,
//! late, often and from anywhere.

use crate::common;

use common::{Counted, Flag, fifo, stealing};
use segue::sync::promise;
use segue_bridge::wait;
use segue_core::{CancelToken, check, scope, shield, spawn, yield_now};
use segue_sched::{Fifo, Pool, Runtime, Sim};
use std::cell::Cell;
use std::future::{Future, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Runs `body` as the first fiber of every scheduler, and on a plain thread.
fn everywhere(body: impl Fn() + Send + Sync) {
    for seed in 0..20 {
        Sim::new(seed).run(&body).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
    for workers in [1, 2] {
        Runtime::new().workers(workers).run_with(Fifo::default, &body).unwrap();
        Runtime::new().workers(workers).run(&body).unwrap();
    }
    body();
}

/// Pending until it was polled `polls` times; wakes itself each time.
fn busy(mut polls: u32) -> impl Future<Output = u32> {
    let mut seen = 0;
    poll_fn(move |cx| {
        seen += 1;
        if polls == 0 {
            return Poll::Ready(seen);
        }
        polls -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

#[test]
fn a_future_that_is_ready_needs_no_wait() {
    everywhere(|| {
        assert_eq!(wait(ready(42)), Ok(42));
        assert_eq!(wait(async { String::from("moved") }), Ok(String::from("moved")));
    });
}

#[test]
fn a_future_that_wakes_itself_in_its_poll_is_polled_again() {
    everywhere(|| assert_eq!(wait(busy(100)), Ok(101)));
}

#[test]
fn a_fiber_is_woken_by_another() {
    everywhere(|| {
        for _ in 0..100 {
            let flag = Flag::new();
            let setter = spawn({
                let flag = flag.clone();
                move || flag.set()
            });
            assert_eq!(wait(flag), Ok(()));
            setter.join().unwrap();
        }
    });
}

#[test]
fn sources_are_awaited_inside_of_the_future() {
    everywhere(|| {
        let (resolver, promised) = promise();
        let filler = spawn(move || {
            let _ = yield_now();
            resolver.fill(1).unwrap();
        });
        let sum = wait(async { promised.wait_source().await.unwrap() + promised.wait_source().await.unwrap() });
        assert_eq!(sum, Ok(2));
        filler.join().unwrap();
    });
}

#[test]
fn a_poll_may_itself_wait() {
    everywhere(|| {
        let (resolver, promised) = promise();
        let filler = spawn(move || resolver.fill(20).unwrap());
        let sum = wait(async { promised.wait().unwrap() + wait(busy(3)).unwrap() + busy(17).await });
        assert_eq!(sum, Ok(42));
        filler.join().unwrap();
    });
}

#[test]
fn a_cancelled_caller_does_not_poll() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel();
        let polled = Cell::new(false);
        assert!(token.run(|| wait(async { polled.set(true) })).is_err());
        assert!(!polled.get());
        assert_eq!(token.run(|| shield(|| wait(ready(1)))), Ok(1));
    });
}

#[test]
fn cancellation_drops_the_future_and_what_it_held() {
    everywhere(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let token = CancelToken::new();
        let waiter = spawn({
            let (token, held) = (token.clone(), Counted(Arc::clone(&drops)));
            move || {
                token.run(|| {
                    wait(async move {
                        let _held = held;
                        pending::<()>().await;
                    })
                })
            }
        });
        let _ = yield_now();
        token.cancel();
        assert!(waiter.join().unwrap().is_err());
        assert_eq!(drops.load(SeqCst), 1);
        check().unwrap();
    });
}

#[test]
fn a_future_cancelled_in_a_queue_leaves_it() {
    everywhere(|| {
        let (resolver, promised) = promise();
        scope(|s| {
            let waiter = s.spawn(|| wait(promised.wait_source()));
            let _ = yield_now();
            s.cancel();
            drop(shield(|| waiter.join()));
        });
        resolver.fill(5).unwrap();
        assert_eq!(wait(promised.wait_source()), Ok(Ok(&5)));
    });
}

#[test]
fn a_panic_of_a_poll_passes_and_leaves_everything_usable() {
    everywhere(|| {
        for first in [false, true] {
            let mut polls = 0;
            let panicking = poll_fn(|cx| -> Poll<()> {
                polls += 1;
                if first || polls == 2 {
                    std::panic::resume_unwind(Box::new("planted"));
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            });
            let payload = catch_unwind(AssertUnwindSafe(|| wait(panicking))).unwrap_err();
            assert_eq!(payload.downcast_ref(), Some(&"planted"));
            assert_eq!(wait(busy(3)), Ok(4));
        }
    });
}

#[test]
fn a_fiber_that_panics_does_not_wait() {
    struct WaitsInDrop(Arc<Mutex<Vec<bool>>>);
    impl Drop for WaitsInDrop {
        fn drop(&mut self) {
            let outcomes = [wait(ready(())).is_ok(), wait(pending::<()>()).is_ok()];
            self.0.lock().unwrap().extend(outcomes);
        }
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let guard = WaitsInDrop(Arc::clone(&seen));
    let fiber = fifo().spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("planted"));
    });
    assert!(fiber.join().is_err());
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}

/// Keeps every waker that it has seen, and is ready when told.
#[derive(Clone, Default)]
struct Hoard(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Future for Hoard {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        for _ in 0..3 {
            state.1.push(cx.waker().clone());
        }
        if state.0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[test]
fn wakers_outlive_the_wait_the_fiber_and_the_scheduler() {
    let hoard = Hoard::default();
    let mut late = Vec::new();
    for round in 0..100 {
        hoard.0.lock().unwrap().0 = false;
        let waiting = hoard.clone();
        let body = move || {
            let waiter = spawn(move || wait(waiting).unwrap());
            waiter.join().unwrap();
        };
        let runner = std::thread::spawn(move || Runtime::new().workers(1 + round % 2).run(body).unwrap());
        while hoard.0.lock().unwrap().1.is_empty() {
            std::thread::yield_now();
        }
        let wakers = {
            let mut state = hoard.0.lock().unwrap();
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        // By reference and by value, in part before the end and in part after it.
        wakers.iter().for_each(Waker::wake_by_ref);
        runner.join().unwrap();
        wakers.iter().for_each(Waker::wake_by_ref);
        let (now, later) = wakers.split_at(1);
        now.iter().cloned().for_each(Waker::wake);
        late.extend(later.to_vec());
        hoard.0.lock().unwrap().1.clear();
    }
    // The rest from other threads, at once.
    std::thread::scope(|s| {
        for chunk in late.chunks(late.len() / 4) {
            s.spawn(|| chunk.iter().cloned().for_each(Waker::wake));
        }
    });
}

#[test]
fn late_wakers_at_most_poll_a_later_wait_once_more() {
    everywhere(|| {
        let hoard = Hoard::default();
        hoard.0.lock().unwrap().0 = true;
        wait(hoard.clone()).unwrap();
        let stale = std::mem::take(&mut hoard.0.lock().unwrap().1);
        let flag = Flag::new();
        let waiter = spawn({
            let flag = flag.clone();
            move || wait(flag).unwrap()
        });
        for waker in stale {
            waker.wake_by_ref();
            let _ = yield_now();
            waker.wake();
        }
        flag.set();
        waiter.join().unwrap();
    });
}

#[test]
fn wakers_are_cloned_and_dropped_on_other_threads_than_they_come_from() {
    let clones = AtomicUsize::new(0);
    for round in 0..1000 {
        let hoard = Hoard::default();
        let waiter = fifo().spawn({
            let hoard = hoard.clone();
            move || {
                wait(hoard.clone()).unwrap();
                // What others have cloned is dropped here, after the wait.
                hoard.0.lock().unwrap().1.clear();
            }
        });
        while hoard.0.lock().unwrap().1.is_empty() {
            std::thread::yield_now();
        }
        let mine = {
            let mut state = hoard.0.lock().unwrap();
            state.0 = true;
            let mine: Vec<Waker> = state.1.drain(..).collect();
            // Cloned here, dropped there.
            state.1.extend(mine.iter().cloned());
            mine
        };
        clones.fetch_add(mine.len(), SeqCst);
        let (a, b) = mine.split_at(round % mine.len());
        drop(a.to_vec());
        b.iter().for_each(Waker::wake_by_ref);
        a.iter().for_each(Waker::wake_by_ref);
        waiter.join().unwrap();
    }
    assert!(clones.load(SeqCst) >= 3000);
}

#[test]
fn wake_against_cancel_conservation() {
    let pools: [&Pool; 2] = [fifo(), stealing()];
    let (mut woken, mut cancelled) = (0, 0);
    for round in 0..10_000_u32 {
        let (flag, token) = (Flag::new(), CancelToken::new());
        let drops = Arc::new(AtomicUsize::new(0));
        let waiter = pools[round as usize % 2].spawn({
            let (flag, token, held) = (flag.clone(), token.clone(), Counted(Arc::clone(&drops)));
            move || {
                token.run(|| {
                    wait(async move {
                        let _held = held;
                        flag.await;
                    })
                })
            }
        });
        let both = || {
            for _ in 0..(round % 7) * 20 {
                std::hint::spin_loop();
            }
        };
        if round % 3 == 0 {
            while !flag.is_awaited() {
                std::thread::yield_now();
            }
        }
        if round % 2 == 0 {
            fifo().spawn({
                let flag = flag.clone();
                move || flag.set()
            });
            both();
            token.cancel();
        } else {
            fifo().spawn({
                let token = token.clone();
                move || token.cancel()
            });
            both();
            flag.set();
        }
        match waiter.join().unwrap() {
            Ok(()) => woken += 1,
            Err(_) => cancelled += 1,
        }
        assert_eq!(drops.load(SeqCst), 1);
    }
    println!("{woken} woken, {cancelled} cancelled");
    assert!(woken > 0 && cancelled > 0);
}

#[test]
fn every_seed_wakes_or_cancels() {
    let (mut woken, mut cancelled) = (0, 0);
    for seed in 0..500 {
        let outcome = Sim::new(seed).run(|| {
            let (flag, token) = (Flag::new(), CancelToken::new());
            let waiter = spawn({
                let (flag, token) = (flag.clone(), token.clone());
                move || token.run(|| wait(flag))
            });
            let setter = spawn(move || flag.set());
            let canceller = spawn(move || token.cancel());
            setter.join().unwrap();
            canceller.join().unwrap();
            waiter.join().unwrap()
        });
        match outcome.unwrap() {
            Ok(()) => woken += 1,
            Err(_) => cancelled += 1,
        }
    }
    assert!(woken > 0 && cancelled > 0);
}

#[test]
fn many_wait_at_once_and_all_are_woken_from_other_threads() {
    for pool in [fifo(), stealing()] {
        let flags: Vec<Flag> = (0..2000).map(|_| Flag::new()).collect();
        let waiters: Vec<_> = flags.iter().cloned().map(|flag| pool.spawn(move || wait(flag).unwrap())).collect();
        std::thread::scope(|s| {
            for chunk in flags.chunks(500) {
                s.spawn(|| chunk.iter().for_each(Flag::set));
            }
        });
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    }
}

#[test]
fn a_deadline_ends_a_wait() {
    everywhere(|| {
        let ended = segue_core::timeout(Duration::from_millis(2), || wait(pending::<()>()));
        assert!(ended.is_err_and(|cancelled| cancelled.timed_out()));
    });
}

#[test]
fn the_end_of_a_thread_ends_its_bells() {
    // In a destructor of a thread's local variable, after the pool of bells has gone or before.
    struct Late(Arc<AtomicBool>);
    impl Drop for Late {
        fn drop(&mut self) {
            self.0.store(wait(busy(3)) == Ok(4), SeqCst);
        }
    }
    thread_local!(static LATE: Cell<Option<Late>> = const { Cell::new(None) });
    for first in [false, true] {
        let waited = Arc::new(AtomicBool::new(false));
        let late = Late(Arc::clone(&waited));
        std::thread::spawn(move || {
            if first {
                LATE.set(Some(late));
                wait(busy(1)).unwrap();
            } else {
                wait(busy(1)).unwrap();
                LATE.set(Some(late));
            }
        })
        .join()
        .unwrap();
        assert!(waited.load(SeqCst));
    }
}
