//! A scheduler whose turns its caller makes: told when to poll, never told in vain, ended in order.
#![cfg(not(miri))]

use crate::common::{Meet, STAND_IN, in_child, on_real_schedulers, pool, scaled};
use segue_core::{CancelToken, check, scope, shield, sleep, yield_now};
use segue_sched::{Driven, Fifo, Goes, Handle, Policy, Polled, Runtime, Seat, Task, Why, move_to};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

/// A loop of somebody else's: a queue of events, of which the only one is "poll".
struct Loop {
    fibers: Driven,
    told: mpsc::Sender<()>,
    events: mpsc::Receiver<()>,
    calls: Arc<AtomicUsize>,
}

impl Loop {
    fn new() -> Self {
        let (sender, events) = mpsc::channel();
        let (calls, told) = (Arc::new(AtomicUsize::new(0)), sender.clone());
        let counter = Arc::clone(&calls);
        let wake = move || {
            counter.fetch_add(1, SeqCst);
            // The loop may be over.
            let _ = sender.send(());
        };
        Self { fibers: Runtime::new().driven(wake).unwrap(), told, events, calls }
    }

    /// Sleeps until it is told to poll, or a timer is due; for ever, if it is told too little.
    fn run_until(&mut self, over: impl Fn() -> bool) {
        let mut limit = None;
        while !over() {
            match limit {
                None => self.events.recv().unwrap(),
                Some(limit) => drop(self.events.recv_timeout(limit)),
            }
            limit = loop {
                match self.fibers.poll() {
                    Polled::Again => {}
                    Polled::Idle(limit) => break limit,
                }
            };
        }
    }
}

#[test]
fn the_caller_is_told_once_until_it_polls() {
    let mut events = Loop::new();
    assert_eq!(events.calls.load(SeqCst), 0);
    assert_eq!(events.fibers.poll(), Polled::Idle(None));
    let first = events.fibers.spawn(|| 1);
    let second = events.fibers.spawn(|| 2);
    assert_eq!(events.calls.load(SeqCst), 1);
    assert!(!first.is_finished(), "it runs in a poll and not before");
    assert_eq!(events.fibers.poll(), Polled::Idle(None));
    assert_eq!(first.join().unwrap() + second.join().unwrap(), 3);
    assert_eq!(events.fibers.poll(), Polled::Idle(None));
    assert_eq!(events.calls.load(SeqCst), 1);
    drop(events.fibers.spawn(|| ()));
    assert_eq!(events.calls.load(SeqCst), 2);
}

#[test]
fn a_poll_ends_though_its_fibers_never_do() {
    let mut events = Loop::new();
    let fiber = events.fibers.spawn(|| while yield_now().is_ok() {});
    for _ in 0..3 {
        assert_eq!(events.fibers.poll(), Polled::Again);
    }
    assert!(!fiber.is_finished());
}

#[test]
fn a_closure_that_starts_at_once_need_not_be_send() {
    let mut events = Loop::new();
    let (label, told) = (Rc::new(Cell::new(0)), Arc::new(Meet::new()));
    let fiber = {
        let (label, told) = (Rc::clone(&label), Arc::clone(&told));
        events.fibers.start(move || {
            label.set(1);
            label.set(told.wait().unwrap());
        })
    };
    assert_eq!(label.get(), 1);
    told.put(2);
    events.run_until(|| label.get() == 2);
    fiber.unwrap().join().unwrap();
    // One that does not end within a poll has the caller told.
    let endless = events.fibers.start(|| while yield_now().is_ok() {}).unwrap();
    events.events.try_recv().unwrap();
    drop(events);
    endless.join().unwrap();
}

#[test]
fn timers_say_when_to_poll_again() {
    let mut events = Loop::new();
    let fiber = events.fibers.spawn(|| sleep(Duration::from_secs(3600)));
    let Polled::Idle(Some(limit)) = events.fibers.poll() else { panic!("a timer is set") };
    assert!(limit > Duration::from_secs(3000) && limit <= Duration::from_secs(3600), "{limit:?}");
    let short = events.fibers.spawn(|| sleep(Duration::from_millis(2)));
    let Polled::Idle(Some(limit)) = events.fibers.poll() else { panic!("a timer is set") };
    assert!(limit <= Duration::from_millis(2), "{limit:?}");
    events.run_until(|| short.is_finished());
    drop(events);
    assert!(fiber.join().unwrap().is_err(), "the end cancels what sleeps");
}

#[test]
fn no_call_is_lost_between_a_poll_and_the_sleep_after_it() {
    let mut events = Loop::new();
    let rounds = scaled(20_000, 200);
    let (there, back) = (Arc::new(Meet::new()), mpsc::channel::<Arc<Meet<usize>>>());
    let (sender, receiver) = back;
    let stranger = thread::spawn(move || receiver.into_iter().enumerate().for_each(|(round, meet)| meet.put(round)));
    let told = Arc::clone(&there);
    let fiber = events.fibers.spawn(move || {
        for round in 0..rounds {
            let meet = Arc::new(Meet::new());
            sender.send(Arc::clone(&meet)).unwrap();
            assert_eq!(meet.wait(), Ok(round));
        }
        told.put(());
    });
    events.run_until(|| fiber.is_finished());
    fiber.join().unwrap();
    stranger.join().unwrap();
    // Threads that stand in for fibers are so slow that the stranger may always be there before the
    // poll is over.
    assert!(STAND_IN || events.calls.load(SeqCst) > 1);
}

#[test]
fn its_end_cancels_its_fibers_and_runs_them_to_theirs() {
    let ended = Arc::new(AtomicUsize::new(0));
    let mut events = Loop::new();
    for _ in 0..10 {
        let ended = Arc::clone(&ended);
        let never = Meet::<()>::new();
        drop(events.fibers.spawn(move || {
            assert!(never.wait().is_err());
            // What must be finished is finished, and may wait.
            shield(|| sleep(Duration::from_millis(1))).unwrap();
            ended.fetch_add(1, SeqCst);
        }));
    }
    let unstarted = {
        let _ = events.fibers.poll();
        events.fibers.spawn(|| ())
    };
    drop(events);
    assert_eq!(ended.load(SeqCst), 10);
    assert!(unstarted.join().is_err(), "what was cancelled before it started does not run");
}

#[test]
fn one_that_is_dropped_by_a_panic_leaks_its_fibers_and_refuses_others() {
    let handle = thread::spawn(|| {
        let mut events = Loop::new();
        let never = Meet::<()>::new();
        drop(events.fibers.spawn(move || never.wait()));
        let _ = events.fibers.poll();
        let handle = events.fibers.handle();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _events = events;
            panic!("planted");
        }));
        assert!(panicked.is_err());
        assert!(move_to(&handle, || ()).is_err());
        handle
    });
    let handle = handle.join().unwrap();
    assert!(move_to(&handle, || ()).unwrap_err().reason().is_some());
}

#[test]
fn it_can_be_dropped_with_its_thread() {
    let end = in_child("it_can_be_dropped_with_its_thread", || {
        thread_local!(static KEPT: Cell<Option<Driven>> = const { Cell::new(None) });
        let thread = thread::spawn(|| {
            let mut fibers = Runtime::new().driven(|| ()).unwrap();
            let never = Meet::<()>::new();
            drop(fibers.spawn(move || never.wait()));
            let _ = fibers.poll();
            KEPT.set(Some(fibers));
        });
        thread.join().unwrap();
    });
    end.assert_passed();
}

#[test]
fn it_has_one_worker() {
    let error = Runtime::new().workers(2).driven(|| ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    assert!(Runtime::new().workers(1).driven(|| ()).is_ok());
}

#[test]
fn fibers_of_others_move_to_the_callers_thread() {
    let mut events = Loop::new();
    let there = pool(1);
    let (handle, here, over) = (events.fibers.handle(), thread::current().id(), events.told.clone());
    let finished = Arc::new(AtomicUsize::new(0));
    let done = Arc::clone(&finished);
    let fiber = there.spawn(move || {
        let home = Handle::current().unwrap();
        for _ in 0..scaled(1000, 20) {
            let thread = move_to(&handle, || {
                yield_now().unwrap();
                move_to(&home, || assert_ne!(thread::current().id(), here)).unwrap();
                thread::current().id()
            });
            assert!(STAND_IN || thread == Ok(here));
        }
        done.store(1, SeqCst);
        over.send(()).unwrap();
    });
    events.run_until(|| finished.load(SeqCst) == 1);
    fiber.join().unwrap();
}

#[test]
fn it_can_be_polled_in_a_fiber_of_another_scheduler() {
    on_real_schedulers(|| {
        let mut fibers = Runtime::new().driven_with(Fifo::default(), || ()).unwrap();
        let outer = Handle::current().unwrap();
        let visitor = fibers.spawn(move || {
            for _ in 0..10 {
                move_to(&outer, || yield_now().unwrap()).unwrap();
            }
        });
        while !visitor.is_finished() {
            let _ = fibers.poll();
            yield_now().unwrap();
        }
        // The last one is cancelled while its scheduler is dropped, in a fiber.
        drop(fibers.spawn(|| while check().is_ok() && yield_now().is_ok() {}));
        let _ = fibers.poll();
    });
}

thread_local!(static KEPT: RefCell<Option<Driven>> = const { RefCell::new(None) });

#[test]
fn a_call_of_wake_that_polls_or_drops_it_meets_no_fiber_that_still_runs() {
    // `wake` finds the fibers in a variable of their thread.
    if STAND_IN {
        return;
    }
    let end = in_child("a_call_of_wake_that_polls_or_drops_it_meets_no_fiber_that_still_runs", || {
        for drops in [false, true] {
            // Against the docs, but safe code.
            let wake = move || {
                let kept = KEPT.with(|kept| kept.try_borrow_mut().ok().and_then(|mut kept| kept.take()));
                if let Some(mut fibers) = kept.filter(|_| !drops) {
                    let _ = fibers.poll();
                    KEPT.set(Some(fibers));
                }
            };
            let run = Runtime::new().workers(1).run_with(Fifo::default, || {
                let fibers = Runtime::new().driven(wake).unwrap();
                let handle = fibers.handle();
                KEPT.set(Some(fibers));
                let moved = move_to(&handle, || {
                    let _ = check();
                    Handle::current().unwrap()
                });
                assert_eq!(moved, Ok(handle));
                assert!(drops == KEPT.take().is_none());
            });
            run.unwrap();
        }
    });
    end.assert_passed();
}

#[test]
fn a_call_of_wake_comes_under_no_lock() {
    let end = in_child("a_call_of_wake_comes_under_no_lock", || {
        let token = Arc::new(Mutex::new(None::<CancelToken>));
        let cancel = {
            let token = Arc::clone(&token);
            move || {
                let token = token.lock().unwrap().clone();
                token.inspect(CancelToken::cancel);
            }
        };
        let mut fibers = Runtime::new().driven(cancel.clone()).unwrap();
        let inside = Arc::clone(&token);
        let body = move || {
            scope(|s| {
                *inside.lock().unwrap() = Some(s.token());
                sleep(Duration::MAX)
            })
        };
        let fiber = fibers.start(body).unwrap();
        // The fiber is interrupted under the lock of its context, which who is told of that takes,
        // too.
        cancel();
        while !fiber.is_finished() {
            let _ = fibers.poll();
        }
        assert!(fiber.join().unwrap().is_err());
    });
    end.assert_passed();
}

#[test]
fn a_policy_that_asks_for_a_turn_at_birth_has_its_caller_told() {
    struct Eager(Fifo);
    impl Policy for Eager {
        fn seated(&mut self, seat: Seat) {
            seat.wake(seat.index());
        }

        fn push(&mut self, task: Task, why: Why) -> Goes {
            self.0.push(task, why)
        }

        fn pop(&mut self) -> Option<Task> {
            self.0.pop()
        }
    }
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let wake = move || _ = counter.fetch_add(1, SeqCst);
    let mut fibers = Runtime::new().driven_with(Eager(Fifo::default()), wake).unwrap();
    assert_eq!(calls.load(SeqCst), 1);
    let fiber = fibers.spawn(|| 1);
    assert_eq!((fibers.poll(), calls.load(SeqCst)), (Polled::Idle(None), 1));
    assert_eq!(fiber.join().unwrap(), 1);
    drop(fibers.spawn(|| 2));
    assert_eq!(calls.load(SeqCst), 2);
}

#[test]
fn a_move_to_one_that_leaks_what_it_has_not_begun_is_an_error() {
    let (handle, under_way) = (Meet::new(), AtomicBool::new(false));
    thread::scope(|threads| {
        threads.spawn(|| {
            let (told, calls) = mpsc::channel();
            let fibers = Runtime::new().driven(move || told.send(()).unwrap()).unwrap();
            handle.put(fibers.handle());
            // The closure has come.
            calls.recv().unwrap();
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _fibers = fibers;
                panic!("planted");
            }));
            assert!(panicked.is_err());
        });
        let moved = move_to(&handle.wait().unwrap(), || under_way.store(true, SeqCst));
        assert!(moved.unwrap_err().reason().is_some());
    });
    assert!(!under_way.load(SeqCst));
}
