//! Computations that are captured where they hold on to the fiber they run in, and what becomes of the fiber: in a context, in the middle of a wait's registration, in a poll, where it runs as a plain thread.
//!
//! Not on the host with a thread for each fiber: there a handled computation is on a thread that does not know which fiber it is part of.
#![cfg(not(feature = "threads"))]

mod common;

use common::{End, Meet, in_child};
use segue_core::{Either, WaitQueue, Waitable, WaitsFor, scope, shield, sleep, spawn, timeout, wait_future, yield_now};
use segue_fiber::effect::{Continuation, Effect, Handler, perform};
use segue_sched::{Builder, Fifo, Handle, Hosted, blocking_here, hosted, move_to};
use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

thread_local!(static KEPT: RefCell<Vec<Continuation<'static, u64, u64>>> = const { RefCell::new(vec![]) });

/// Runs `body` to its first perform, and keeps it.
fn keep(body: impl FnOnce() -> u64 + 'static) {
    let clause = |_: Ask, k| {
        KEPT.with_borrow_mut(|kept| kept.push(k));
        0
    };
    assert_eq!(Handler::stored().on(clause).handle(body), 0);
}

fn kept() -> Continuation<'static, u64, u64> {
    KEPT.with_borrow_mut(|kept| kept.pop().unwrap())
}

fn poll_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[track_caller]
fn assert_astray(end: End) {
    assert!(!end.status.is_some_and(|status| status.success()), "{end:#?}");
    assert!(end.stderr.contains("was not resumed before its surroundings were left"), "{end:#?}");
    assert!(!end.stderr.contains("too late"), "{end:#?}");
}

#[test]
fn a_fiber_does_not_end_while_what_it_left_in_a_scope_has_children() {
    assert_astray(in_child("a_fiber_does_not_end_while_what_it_left_in_a_scope_has_children", || {
        let _ = Builder::new().workers(1).run(|| {
            let fiber = spawn(|| {
                keep(|| {
                    scope(|s| {
                        // The runtime does not know that it has to outlive this child.
                        drop(s.spawn(|| {
                            while yield_now().is_ok() {}
                            eprintln!("too late");
                        }));
                        perform(Ask)
                    })
                });
                KEPT.take().into_iter().for_each(std::mem::forget);
            });
            let _ = fiber.join();
        });
    }));
}

#[test]
fn a_fiber_does_not_end_while_what_it_left_in_a_timeout_may_go_on() {
    assert_astray(in_child("a_fiber_does_not_end_while_what_it_left_in_a_timeout_may_go_on", || {
        let _ = Builder::new().workers(1).run(|| {
            let _ = spawn(|| keep(|| timeout(Duration::from_secs(1), || perform(Ask)))).join();
            eprintln!("too late");
        });
    }));
}

#[test]
fn a_hosted_fiber_at_the_address_of_another_is_another() {
    assert_astray(in_child("a_hosted_fiber_at_the_address_of_another_is_another", || {
        poll_once(hosted(|| keep(|| shield(|| perform(Ask))))).unwrap();
        eprintln!("too late");
        let _ = poll_once(hosted(|| shield(|| kept().resume(1))));
    }));
}

/// Waits for either of two queues; the second one's closure performs, when the first is registered.
fn captured_in_a_registration(gate: &Arc<WaitQueue<bool>>) -> impl FnOnce() -> u64 + 'static {
    let gate = Arc::clone(gate);
    move || {
        let foreign = WaitQueue::<u32>::new(0);
        let asked = Cell::new(false);
        let ready = |_: &u32| !asked.replace(true) && perform(Ask) == 0;
        let left = Waitable::new(gate.source(WaitsFor::new("the gate"), |open| *open, |_| ()));
        let right = Waitable::new(foreign.source(WaitsFor::new("a closure"), ready, |_| ()));
        assert_eq!(left.or(right).wait(), Ok(Either::Left(())));
        7
    }
}

fn open(gate: &WaitQueue<bool>) {
    let mut gate = gate.lock();
    *gate.state() = true;
    gate.notify_all(0);
}

#[test]
fn a_fiber_does_not_end_while_it_is_registered() {
    assert_astray(in_child("a_fiber_does_not_end_while_it_is_registered", || {
        let _ = Builder::new().workers(1).run(|| {
            let gate = Arc::new(WaitQueue::new(false));
            let inside = Arc::clone(&gate);
            let _ = spawn(move || keep(captured_in_a_registration(&inside))).join();
            eprintln!("too late");
            open(&gate);
        });
    }));
}

#[test]
fn a_thread_does_not_leave_a_context_while_a_wait_in_it_is_registered() {
    assert_astray(in_child("a_thread_does_not_leave_a_context_while_a_wait_in_it_is_registered", || {
        let gate = Arc::new(WaitQueue::new(false));
        timeout(Duration::from_secs(100), || keep(captured_in_a_registration(&gate)));
        eprintln!("too late");
    }));
}

#[test]
fn a_wait_goes_on_in_the_fiber_that_has_begun_it() {
    assert_astray(in_child("a_wait_goes_on_in_the_fiber_that_has_begun_it", || {
        let gate = Arc::new(WaitQueue::new(false));
        keep(captured_in_a_registration(&gate));
        open(&gate);
        let _ = Builder::new().workers(1).run(|| kept().resume(1));
        eprintln!("too late");
    }));
    let gate = Arc::new(WaitQueue::new(false));
    keep(captured_in_a_registration(&gate));
    open(&gate);
    assert_eq!(kept().resume(1), 7);
}

#[test]
fn a_poll_that_goes_on_in_another_fiber_is_repeated_there() {
    let waits = || {
        let mut polls = 0;
        let future = std::future::poll_fn(move |task| {
            polls += 1;
            if polls < 3 {
                // The first waker is that of a fiber which is over.
                perform(Ask);
                task.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(polls)
        });
        wait_future(future).unwrap()
    };
    // To a fiber of a worker, and to a plain thread.
    poll_once(hosted(move || keep(waits))).unwrap();
    assert_eq!(Builder::new().workers(1).run(|| [kept().resume(1), kept().resume(1)]).unwrap(), [0, 3]);
    poll_once(hosted(move || keep(waits))).unwrap();
    assert_eq!([kept().resume(1), kept().resume(1)], [0, 3]);
}

#[test]
fn a_fiber_does_not_end_while_it_runs_as_a_plain_thread() {
    assert_astray(in_child("a_fiber_does_not_end_while_it_runs_as_a_plain_thread", || {
        let _ = Builder::new().workers(1).run(|| {
            scope(|s| {
                let fiber = s.spawn(|| {
                    // It is a member of the scope's context from now on.
                    sleep(Duration::from_millis(1)).unwrap();
                    keep(|| blocking_here(|| perform(Ask)))
                });
                let _ = fiber.join();
            });
            eprintln!("too late");
        });
    }));
}

#[test]
fn what_runs_as_a_plain_thread_goes_on_as_one() {
    assert_astray(in_child("what_runs_as_a_plain_thread_goes_on_as_one", || {
        let _ = Builder::new().workers(1).run(|| {
            keep(|| blocking_here(|| perform(Ask)));
            let _ = Builder::new().workers(1).run(|| kept().resume(1));
            eprintln!("too late");
        });
    }));
    let answered = Builder::new().workers(1).run(|| {
        keep(|| blocking_here(|| perform(Ask)));
        kept().resume(7)
    });
    assert_eq!(answered.unwrap(), 7);
}

#[test]
fn a_fiber_does_not_come_home_while_it_is_registered() {
    assert_astray(in_child("a_fiber_does_not_come_home_while_it_is_registered", || {
        let _ = Builder::new().workers(1).run_with(Fifo::default, || {
            let (inner, over) = (Meet::new(), Meet::<()>::new());
            scope(|s| {
                s.spawn(|| {
                    let nested = Builder::new().workers(1).run_with(Fifo::default, || {
                        inner.put(Handle::current().unwrap());
                        let _ = over.wait();
                    });
                    nested.unwrap();
                });
                let gate = Arc::new(WaitQueue::new(false));
                let _ = move_to(&inner.wait().unwrap(), || keep(captured_in_a_registration(&gate)));
                eprintln!("too late");
                // A second resume of a fiber that has been resumed by its move.
                open(&gate);
                over.put(());
            });
        });
    }));
}

#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<T: 'static>(fiber: &mut Hosted<T>, counts: &Arc<Counts>) -> Option<T> {
    let waker = Waker::from(Arc::clone(counts));
    match Pin::new(fiber).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(result) => Some(result.unwrap()),
        Poll::Pending => None,
    }
}

/// Waits for a future that does something in the middle of its first poll, and is ready at the third; in between it leaves its waker.
fn ready_at_the_third_poll(
    left: &Rc<Cell<Option<Waker>>>,
    in_the_first: impl Fn() + 'static,
) -> impl FnOnce() -> u64 + 'static {
    let left = Rc::clone(left);
    let mut polls = 0;
    let future = std::future::poll_fn(move |task| {
        polls += 1;
        if polls == 1 {
            in_the_first();
        }
        left.set(Some(task.waker().clone()));
        if polls < 3 { Poll::Pending } else { Poll::Ready(polls) }
    });
    move || wait_future(future).unwrap()
}

#[test]
fn a_poll_that_goes_on_in_a_fiber_at_the_same_address_is_repeated_there() {
    let (first, second, left) = (Arc::new(Counts::default()), Arc::new(Counts::default()), Rc::default());
    let addresses = Rc::new(RefCell::new(vec![]));
    let here = Rc::clone(&addresses);
    let waits = ready_at_the_third_poll(&left, || _ = perform(Ask));
    let mut fiber = hosted(move || {
        here.borrow_mut().push(segue_core::current());
        keep(waits);
    });
    assert!(poll(&mut fiber, &first).is_some());
    let here = Rc::clone(&addresses);
    let mut fiber = hosted(move || {
        here.borrow_mut().push(segue_core::current());
        kept().resume(1)
    });
    assert!(poll(&mut fiber, &second).is_none());
    assert_eq!(addresses.borrow()[0], addresses.borrow()[1], "else this is another test");
    left.take().unwrap().wake();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    assert_eq!(poll(&mut fiber, &second), Some(3));
}

#[test]
fn a_poll_that_goes_on_in_another_poll_of_the_task_knows_its_waker() {
    let (first, second, left) = (Arc::new(Counts::default()), Arc::new(Counts::default()), Rc::default());
    // The yield wakes the task of the first poll.
    let mut fiber = hosted(ready_at_the_third_poll(&left, || yield_now().unwrap()));
    assert!(poll(&mut fiber, &first).is_none());
    assert!(poll(&mut fiber, &second).is_none());
    left.take().unwrap().wake();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 1));
    assert_eq!(poll(&mut fiber, &second), Some(3));
}

#[test]
fn what_wakes_a_worker_is_not_captured() {
    let end = in_child("what_wakes_a_worker_is_not_captured", || {
        let fibers = Builder::new().driven(|| _ = perform(Ask)).unwrap();
        keep(move || {
            drop(fibers.spawn(|| ()));
            1
        });
        eprintln!("too late");
    });
    end.assert_aborted("a policy, park or driver panicked");
    assert!(!end.stderr.contains("too late"), "{end:#?}");
}
