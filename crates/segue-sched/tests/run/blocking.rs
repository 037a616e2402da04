//! Calls that block their thread: on other threads or in place, with what they borrow; cancelled,
//! panicking, too many, waiting for each other, left behind by the process.
//!
//! What depends on the limits, which are the process', runs in a process of its own.
#![cfg(not(miri))]

#[path = "../common/mod.rs"]
mod common;

use common::{Meet, in_child, on_real_schedulers, pool, scaled, threads};
use segue_core::{
    Blocking, CancelToken, blocking, check, in_fiber, scope, set_blocking_idle, set_blocking_limit, shield, spawn,
    yield_now,
};
use segue_fiber::StackConfig;
use segue_sched::{Fifo, Goes, Policy, Runtime, Seat, Sim, Task, Why, blocking_here};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::current;
use std::time::{Duration, Instant};

/// Lets others run until `flag` is set.
fn until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        shield(yield_now).unwrap();
    }
}

#[test]
fn a_call_borrows_runs_elsewhere_and_lets_others_run() {
    let body = || {
        let (send, receive) = mpsc::channel();
        let mut numbers = vec![1];
        scope(|s| {
            let numbers = &mut numbers;
            let caller = s.spawn(move || {
                let mine = current().id();
                blocking(move || {
                    assert!(!in_fiber());
                    assert_ne!(current().id(), mine);
                    // On one worker nobody could send this if the worker were blocked.
                    numbers.push(receive.recv().unwrap());
                    numbers.len()
                })
            });
            yield_now().unwrap();
            send.send(2).unwrap();
            assert_eq!(caller.join().unwrap(), Ok(2));
        });
        assert_eq!(numbers, [1, 2]);
    };
    on_real_schedulers(body);
    Sim::new(1).open().run(body).unwrap();
}

#[test]
fn on_a_plain_thread_it_runs_in_place() {
    let mine = current().id();
    assert_eq!(blocking(|| current().id()), Ok(mine));
    assert_eq!(Blocking::new().run(|| current().id()), Ok(mine));
    assert_eq!(blocking_here(|| current().id()), mine);
    // With a hook and somebody who can cancel, it can't: it has to wait for that.
    let elsewhere = CancelToken::new().run(|| Blocking::new().on_cancel(|| unreachable!()).run(|| current().id()));
    assert_ne!(elsewhere, Ok(mine));
}

#[test]
fn panics_come_out_at_the_call() {
    on_real_schedulers(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| blocking(|| -> () { panic_any(5_u8) })));
        assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 5);
        let caught = catch_unwind(AssertUnwindSafe(|| Blocking::new().run(|| -> () { panic_any(6_u8) })));
        assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 6);
        let caught = catch_unwind(AssertUnwindSafe(|| blocking_here(|| -> () { panic_any(7_u8) })));
        assert_eq!(*caught.unwrap_err().downcast::<u8>().unwrap(), 7);
        // The thread lives on, and the worker is back.
        assert_eq!((blocking(|| 1), blocking_here(|| 1)), (Ok(1), 1));
        assert!(in_fiber());
    });
}

#[test]
fn a_call_in_a_drop_during_a_panic_runs_in_place() {
    struct Calls(Arc<AtomicBool>);
    impl Drop for Calls {
        fn drop(&mut self) {
            let mine = current().id();
            self.0.store(blocking(|| current().id()) == Ok(mine), SeqCst);
        }
    }
    Runtime::new()
        .workers(1)
        .run(|| {
            let same = Arc::new(AtomicBool::new(false));
            let calls = Calls(Arc::clone(&same));
            let panics = move || {
                let _calls = calls;
                panic_any(1_u8)
            };
            assert!(catch_unwind(AssertUnwindSafe(|| -> () { panics() })).is_err());
            assert!(same.load(SeqCst));
        })
        .unwrap();
}

/// Runs `call` in a fiber that is cancelled when the closure says that it is inside.
fn cancelled_inside<T: Send>(call: impl FnOnce(&AtomicBool) -> T + Send) -> T {
    let inside = AtomicBool::new(false);
    scope(|s| {
        let caller = s.spawn(|| call(&inside));
        until(&inside);
        s.cancel();
        shield(|| caller.join()).unwrap()
    })
}

#[test]
fn the_closure_is_in_the_callers_context() {
    on_real_schedulers(|| {
        let seen = cancelled_inside(|inside| {
            blocking(|| {
                check().unwrap();
                inside.store(true, SeqCst);
                (Meet::<()>::new().wait().is_err(), check().is_err())
            })
        });
        assert_eq!(seen, Ok((true, true)));
        // The same in place. Only another worker can cancel it.
        let token = CancelToken::new();
        token.cancel();
        assert!(token.run(|| blocking_here(check)).is_err());
        assert!(blocking_here(check).is_ok());
    });
}

#[test]
fn the_hook_is_called_once_by_the_caller_and_the_result_is_kept() {
    on_real_schedulers(|| {
        let calls = AtomicUsize::new(0);
        let result = cancelled_inside(|inside| {
            let (stop, stopped) = mpsc::channel();
            let mine = current().id();
            let hook = || {
                assert_eq!(current().id(), mine);
                calls.fetch_add(1, SeqCst);
                stop.send(9).unwrap();
            };
            Blocking::new().on_cancel(hook).run(move || {
                inside.store(true, SeqCst);
                stopped.recv().unwrap()
            })
        });
        assert_eq!((result, calls.into_inner()), (Ok(9), 1));
        // Not cancelled: it is not called.
        assert_eq!(Blocking::new().on_cancel(|| unreachable!()).run(|| 3), Ok(3));
    });
}

#[test]
fn a_hook_that_panics_does_so_when_the_closure_has_ended() {
    on_real_schedulers(|| {
        let ended = AtomicBool::new(false);
        let payload = cancelled_inside(|inside| {
            let (stop, stopped) = mpsc::channel::<()>();
            let ended = &ended;
            let run = || {
                Blocking::new().on_cancel(move || panic_any((4_u8, drop(stop)))).run(move || {
                    inside.store(true, SeqCst);
                    let _ = stopped.recv();
                    ended.store(true, SeqCst);
                })
            };
            catch_unwind(AssertUnwindSafe(run)).unwrap_err()
        });
        assert_eq!(payload.downcast::<(u8, ())>().unwrap().0, 4);
        assert!(ended.into_inner());
    });
}

#[test]
fn on_a_plain_thread_the_hook_is_called_by_the_caller() {
    let (token, inside) = (CancelToken::new(), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            while !inside.load(SeqCst) {
                std::thread::yield_now();
            }
            token.cancel();
        });
        let (stop, stopped) = mpsc::channel();
        let inside = &inside;
        let call = || {
            Blocking::new().on_cancel(move || stop.send(2).unwrap()).run(move || {
                inside.store(true, SeqCst);
                stopped.recv().unwrap()
            })
        };
        assert_eq!(token.run(call), Ok(2));
    });
}

#[test]
fn one_that_is_cancelled_already_does_not_begin() {
    on_real_schedulers(|| {
        let token = CancelToken::new();
        token.cancel();
        assert!(token.run(|| Blocking::new().run(|| unreachable!())).is_err());
        assert!(token.run(|| blocking(|| unreachable!())).is_err());
        assert_eq!(token.run(|| shield(|| blocking(|| 5))), Ok(5));
    });
}

#[test]
fn a_run_ends_after_its_calls() {
    for _ in 0..scaled(200, 20) {
        let ended = Arc::new(AtomicBool::new(false));
        let inside = Arc::new(AtomicBool::new(false));
        Runtime::new()
            .workers(1)
            .run(|| {
                let (ended, entered) = (Arc::clone(&ended), Arc::clone(&inside));
                drop(spawn(move || {
                    blocking(|| {
                        entered.store(true, SeqCst);
                        let _cancelled = Meet::<()>::new().wait();
                        ended.store(true, SeqCst);
                    })
                    .unwrap();
                }));
                until(&inside);
            })
            .unwrap();
        assert!(ended.load(SeqCst));
    }
}

#[test]
fn beyond_the_limit_calls_begin_in_order_and_can_be_taken_back() {
    in_child("beyond_the_limit_calls_begin_in_order_and_can_be_taken_back", || {
        set_blocking_limit(1);
        let order = Mutex::new(Vec::new());
        let (go, gone) = mpsc::channel::<()>();
        let gone = Mutex::new(gone);
        let run = Runtime::new().workers(1).run_with(Fifo::default, || {
            scope(|s| {
                let entered = AtomicBool::new(false);
                scope(|first| {
                    first.spawn(|| {
                        blocking(|| {
                            entered.store(true, SeqCst);
                            gone.lock().unwrap().recv().unwrap();
                        })
                        .unwrap();
                    });
                    until(&entered);
                    for n in 0..10 {
                        let order = &order;
                        s.spawn(move || blocking(|| order.lock().unwrap().push(n)));
                    }
                    // This one waits in the queue, and is cancelled there.
                    let token = CancelToken::new();
                    let late = s.spawn({
                        let token = token.clone();
                        move || token.run(|| Blocking::new().on_cancel(|| unreachable!()).run(|| unreachable!()))
                    });
                    yield_now().unwrap();
                    yield_now().unwrap();
                    token.cancel();
                    let taken_back: Result<(), _> = late.join().unwrap();
                    assert!(taken_back.is_err());
                    assert!(order.lock().unwrap().is_empty());
                    go.send(()).unwrap();
                });
            });
        });
        run.unwrap();
        assert_eq!(order.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
    })
    .assert_passed();
}

/// Takes all threads there may be, one, then makes `calls` in as many fibers, and cancels them last
/// in first out.
fn cancelled_in_the_queue(calls: usize) {
    set_blocking_limit(1);
    let stacks = StackConfig::new().slot_size(64 * 1024);
    let (entered, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    let end = std::sync::Barrier::new(2);
    let tokens: Vec<_> = (0..calls).map(|_| CancelToken::new()).collect();
    let run = Runtime::new().workers(1).stacks(stacks).run_with(Fifo::default, || {
        let started = &started;
        scope(|s| {
            let first = s.spawn(|| {
                blocking(|| {
                    entered.store(true, SeqCst);
                    end.wait();
                })
            });
            until(&entered);
            let late: Vec<_> = tokens
                .iter()
                .map(|token| s.spawn(move || token.run(|| blocking(|| started.fetch_add(1, SeqCst)))))
                .collect();
            // All are in the queue.
            yield_now().unwrap();
            yield_now().unwrap();
            tokens.iter().rev().for_each(CancelToken::cancel);
            for late in late {
                assert!(late.join().unwrap().is_err());
            }
            end.wait();
            first.join().unwrap().unwrap();
            // What was taken back is not behind it either.
            blocking(|| assert_eq!(started.load(SeqCst), 0)).unwrap();
        });
    });
    run.unwrap();
}

#[test]
fn a_call_that_is_cancelled_in_the_queue_never_starts() {
    in_child("a_call_that_is_cancelled_in_the_queue_never_starts", || cancelled_in_the_queue(3)).assert_passed();
}

#[test]
fn cancelled_calls_leave_the_queue_without_a_search() {
    in_child("cancelled_calls_leave_the_queue_without_a_search", || {
        let time = |calls| {
            let began = Instant::now();
            cancelled_in_the_queue(calls);
            began.elapsed()
        };
        // With a search for each, ten times as many took sixty times as long.
        let all: Vec<_> = (0..3).map(|_| (time(scaled(5_000, 50)), time(scaled(50_000, 500)))).collect();
        // Another program's moments make a time longer, and none shorter.
        let [few, many] = [all.iter().map(|of| of.0).min(), all.iter().map(|of| of.1).min()];
        assert!(many < few.map(|few| 30 * few), "{all:?}");
    })
    .assert_passed();
}

#[test]
fn calls_that_wait_for_each_other_do_not_count_against_the_limit() {
    in_child("calls_that_wait_for_each_other_do_not_count_against_the_limit", || {
        set_blocking_limit(1);
        let run = Runtime::new().workers(1).run(|| {
            let meets: Vec<_> = (0..=20).map(|_| Meet::new()).collect();
            scope(|s| {
                for (n, pair) in meets.windows(2).enumerate() {
                    // Each waits for the next one, which is behind it in the queue.
                    s.spawn(move || blocking(|| pair[0].put(pair[1].wait().unwrap() + n)));
                }
                s.spawn(|| blocking(|| meets[20].put(0)));
                assert_eq!(meets[0].wait(), Ok((0..20).sum()));
            });
        });
        run.unwrap();
    })
    .assert_passed();
}

#[test]
fn idle_threads_end() {
    in_child("idle_threads_end", || {
        set_blocking_idle(Duration::from_millis(1));
        let before = threads();
        for _ in 0..10 {
            let together = std::sync::Barrier::new(10);
            Runtime::new()
                .workers(1)
                .run(|| scope(|s| (0..10).for_each(|_| drop(s.spawn(|| blocking(|| together.wait()))))))
                .unwrap();
        }
        while threads() > before {
            std::thread::yield_now();
        }
    })
    .assert_passed();
}

#[test]
fn a_process_that_exits_does_not_wait_for_calls() {
    in_child("a_process_that_exits_does_not_wait_for_calls", || {
        let (entered, inside) = mpsc::channel();
        let pool = pool(1);
        drop(pool.spawn(move || {
            blocking(move || {
                entered.send(()).unwrap();
                loop {
                    std::thread::park();
                }
            })
        }));
        inside.recv().unwrap();
        std::mem::forget(pool);
    })
    .assert_passed();
}

#[test]
fn many_calls_from_many_fibers() {
    let sum = AtomicUsize::new(0);
    let (fibers, calls) = (scaled(100, 10), 50);
    Runtime::new()
        .workers(2)
        .run(|| {
            scope(|s| {
                for n in 0..fibers {
                    let sum = &sum;
                    s.spawn(move || (0..calls).for_each(|_| assert!(blocking(|| sum.fetch_add(n, SeqCst)).is_ok())));
                }
            });
        })
        .unwrap();
    assert_eq!(sum.into_inner(), calls * fibers * (fibers - 1) / 2);
}

#[test]
fn calls_meet_cancellation_at_every_step() {
    let (kept, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..scaled(2000, 100) {
        Runtime::new()
            .workers(1)
            .run(|| {
                let token = CancelToken::new();
                std::thread::scope(|threads| {
                    threads.spawn(|| {
                        (0..round % 100 * 20).for_each(|_| std::hint::spin_loop());
                        token.cancel();
                    });
                    let hooked = AtomicBool::new(false);
                    let hook = || hooked.store(true, SeqCst);
                    match token.run(|| Blocking::new().on_cancel(hook).run(|| round)) {
                        Ok(value) => {
                            assert_eq!(value, round);
                            kept.fetch_add(1, SeqCst);
                        }
                        Err(_) => {
                            assert!(!hooked.load(SeqCst), "a call without effect has called its hook");
                            dropped.fetch_add(1, SeqCst);
                        }
                    }
                });
            })
            .unwrap();
    }
    println!("{kept:?} were run, {dropped:?} were not");
    assert!(kept.into_inner() > 0);
}

#[test]
fn in_place_the_closure_need_not_be_send_and_others_take_over() {
    for round in 0..scaled(100, 10) {
        let run = Runtime::new().workers(2).run(|| {
            let (send, receive) = mpsc::channel();
            let receive = Rc::new(receive);
            let child = spawn(move || send.send(round).unwrap());
            // The child is on this worker's shelf: the other one has to take it.
            let got = blocking_here(|| {
                assert!(!in_fiber());
                receive.recv().unwrap()
            });
            assert_eq!(got, round);
            child.join().unwrap();
        });
        run.unwrap();
    }
}

#[test]
fn in_place_forks_go_to_others() {
    for _ in 0..scaled(100, 10) {
        let run = Runtime::new().workers(2).run(|| {
            let (send, receive) = mpsc::channel();
            let receive = Mutex::new(receive);
            segue_sched::join(|| blocking_here(|| receive.lock().unwrap().recv().unwrap()), || send.send(1).unwrap());
        });
        run.unwrap();
    }
}

/// Sends every new closure to one worker, and keeps what was sent.
struct ToTheFirst {
    seat: Option<Seat>,
    ready: Vec<Task>,
}

impl Policy for ToTheFirst {
    fn seated(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) if why != Why::Sent => return Goes::To(0, job),
            task => self.ready.push(task),
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        self.ready.pop()
    }
}

#[test]
fn what_is_sent_to_a_worker_that_is_away_goes_to_others() {
    for round in 0..scaled(100, 10) {
        let policy = || ToTheFirst { seat: None, ready: Vec::new() };
        let run = Runtime::new().workers(2).run_with(policy, || {
            let (send, receive) = mpsc::channel();
            // Sent before, to this very worker.
            let child = spawn(move || send.send(round).unwrap());
            let got = blocking_here(|| receive.recv().unwrap());
            assert_eq!(got, round);
            child.join().unwrap();
        });
        run.unwrap();
    }
}

#[test]
fn a_simulation_waits_for_its_calls() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let (told, tell) = std::sync::mpsc::channel();
            segue_core::scope(|s| {
                // Without the work outside the clock would jump to the hour.
                let late = s.spawn(|| segue_core::timeout(Duration::from_secs(3600), segue_core::check));
                let call = s.spawn(move || segue_core::blocking(move || tell.recv().unwrap()));
                s.spawn(move || told.send(7).unwrap());
                late.join().unwrap().unwrap();
                call.join().unwrap()
            })
        });
        assert_eq!(run, Ok(Ok(7)));
    }
}
