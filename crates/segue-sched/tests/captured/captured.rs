//! Computations that are captured inside of contexts, which they take along; and in the middle of
//! operations, across which nothing is captured.
//!
//! Not on the host with a thread for each fiber: there a handled computation is on a thread that
//! does not know which fiber it is part of.
#![cfg(not(feature = "threads"))]

use crate::common::{End, Meet, in_child};
use segue_core::{Either, WaitQueue, Waitable, WaitsFor, scope, shield, spawn, timeout, wait_future, yield_now};
use segue_fiber::effect::{Continuation, Effect, Handler, Unhandled, perform};
use segue_sched::{Fifo, Handle, Hosted, Runtime, blocking_here, hosted, move_to};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
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

/// The process has ended with this message of an effect that found no handler.
#[track_caller]
fn assert_barred(end: &End, by: &str) {
    assert!(!end.status.is_some_and(|status| status.success()), "{end:#?}");
    assert!(end.stderr.contains(&format!("in the middle of an operation, {by}")), "{end:#?}");
    assert!(!end.stderr.contains("too late"), "{end:#?}");
}

/// What a perform that finds no handler because of an operation panics with.
#[track_caller]
fn assert_unhandled(payload: &(dyn std::any::Any + Send), by: &str) {
    let unhandled = payload.downcast_ref::<Unhandled>().expect("an effect had no handler");
    assert!(unhandled.to_string().contains(&format!("in the middle of an operation, {by}")), "{unhandled}");
}

#[test]
fn fibers_of_a_scope_that_was_captured_and_forgotten_end_with_their_scheduler() {
    let seen = Arc::new(AtomicUsize::new(0));
    let child = Arc::clone(&seen);
    let run = Runtime::new().workers(1).run(|| {
        let fiber = spawn(|| {
            keep(move || {
                scope(|s| {
                    let started = Arc::clone(&child);
                    drop(s.spawn(move || {
                        child.store(1, SeqCst);
                        while yield_now().is_ok() {}
                        child.store(2, SeqCst);
                    }));
                    while started.load(SeqCst) == 0 {
                        yield_now().unwrap();
                    }
                    perform(Ask)
                })
            });
            KEPT.take().into_iter().for_each(std::mem::forget);
        });
        fiber.join().unwrap();
    });
    run.unwrap();
    assert_eq!(seen.load(SeqCst), 2);
}

#[test]
fn what_was_captured_in_a_timeout_goes_on_in_another_fiber() {
    let answer = Runtime::new().workers(1).run(|| {
        spawn(|| keep(|| timeout(Duration::from_secs(1000), || perform(Ask)))).join().unwrap();
        spawn(|| kept().resume(7)).join().unwrap()
    });
    assert_eq!(answer.unwrap(), 7);
}

#[test]
fn what_was_captured_under_a_shield_is_shielded_in_a_fiber_at_the_same_address() {
    poll_once(hosted(|| keep(|| shield(|| perform(Ask))))).unwrap();
    assert_eq!(poll_once(hosted(|| shield(|| kept().resume(1)))).unwrap(), 1);
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

#[test]
fn nothing_is_captured_in_a_registration() {
    // A panic there ends the process: other arms may be registered.
    let end = in_child("nothing_is_captured_in_a_registration", || {
        let gate = Arc::new(WaitQueue::new(false));
        keep(captured_in_a_registration(&gate));
        eprintln!("too late");
    });
    assert_barred(&end, "a closure at ");
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
    assert_eq!(Runtime::new().workers(1).run(|| [kept().resume(1), kept().resume(1)]).unwrap(), [0, 3]);
    poll_once(hosted(move || keep(waits))).unwrap();
    assert_eq!([kept().resume(1), kept().resume(1)], [0, 3]);
}

#[test]
fn nothing_is_captured_where_a_fiber_runs_as_a_plain_thread() {
    let run = Runtime::new().workers(1).run(|| {
        let captured = catch_unwind(|| keep(|| blocking_here(|| perform(Ask))));
        assert_unhandled(&*captured.unwrap_err(), "a call that ");
    });
    run.unwrap();
}

#[test]
fn nothing_is_captured_on_a_visit_to_another_scheduler() {
    let run = Runtime::new().workers(1).run_with(Fifo::default, || {
        let (inner, over) = (Meet::new(), Meet::<()>::new());
        scope(|s| {
            s.spawn(|| {
                let nested = Runtime::new().workers(1).run_with(Fifo::default, || {
                    inner.put(Handle::current().unwrap());
                    let _ = over.wait();
                });
                nested.unwrap();
            });
            let inner = inner.wait().unwrap();
            let captured = catch_unwind(AssertUnwindSafe(|| keep(move || move_to(&inner, || perform(Ask)).unwrap())));
            assert_unhandled(&*captured.unwrap_err(), "a visit to another scheduler");
            over.put(());
        });
    });
    run.unwrap();
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

/// Waits for a future that does something in the middle of its first poll, and is ready at the
/// third; in between it leaves its waker.
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
        here.borrow_mut().push(segue_core::scheduling::current());
        keep(waits);
    });
    assert!(poll(&mut fiber, &first).is_some());
    let here = Rc::clone(&addresses);
    let mut fiber = hosted(move || {
        here.borrow_mut().push(segue_core::scheduling::current());
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
        let fibers = Runtime::new().driven(|| _ = perform(Ask)).unwrap();
        keep(move || {
            drop(fibers.spawn(|| ()));
            1
        });
        eprintln!("too late");
    });
    end.assert_aborted("a policy, park or driver panicked");
    assert!(!end.stderr.contains("too late"), "{end:#?}");
}
