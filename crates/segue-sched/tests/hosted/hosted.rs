//! Hosted fibers by hand: polls, wakes, cancellation and drops in every order. The bridge crate has
//! the tests under real executors; these are small enough for Miri.
#![allow(unsafe_code)] // A waker by hand.

use crate::common::{Counted, scaled};
use segue_core::{
    CancelToken, Outcome, Trigger, WaitsFor, after, any_of, check, no_suspend, shield, shield_for, sleep, wait_future,
    yield_now,
};
use segue_sched::{Hosted, hosted};
use std::cell::Cell;
use std::future::{Future, pending};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counting() -> (Arc<Counts>, Waker) {
    let counts = Arc::new(Counts::default());
    (Arc::clone(&counts), Waker::from(counts))
}

fn poll<T: 'static>(fiber: &mut Hosted<T>, waker: &Waker) -> Option<T> {
    match Pin::new(fiber).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(result) => Some(result.unwrap()),
        Poll::Pending => None,
    }
}

/// A fiber that waits for a trigger, and that trigger.
fn waiting() -> (Hosted<Outcome>, Arc<Trigger>) {
    let trigger = Arc::new(Trigger::new());
    let inside = Arc::clone(&trigger);
    (hosted(move || inside.wait(WaitsFor::new("a test"))), trigger)
}

#[test]
fn it_goes_from_wait_to_wait() {
    let (first, second) = (Arc::new(Trigger::new()), Arc::new(Trigger::new()));
    let inside = (Arc::clone(&first), Arc::clone(&second));
    let mut fiber = hosted(move || {
        let arms = [inside.0.wait(WaitsFor::new("one")), inside.1.wait(WaitsFor::new("two"))];
        yield_now().unwrap();
        arms
    });
    let (counts, waker) = counting();
    assert!(poll(&mut fiber, &waker).is_none());
    assert!(first.signal(1));
    assert_eq!(counts.0.load(SeqCst), 1);
    assert!(poll(&mut fiber, &waker).is_none());
    assert!(poll(&mut fiber, Waker::noop()).is_none());
    assert!(poll(&mut fiber, &waker).is_none());
    assert!(second.signal(2));
    // The yield wakes its task as well.
    assert!(poll(&mut fiber, &waker).is_none());
    assert_eq!(counts.0.load(SeqCst), 3);
    assert_eq!(poll(&mut fiber, &waker), Some([Outcome::Taken(1), Outcome::Taken(2)]));
}

#[test]
fn threads_wake_it_while_it_is_polled() {
    for round in 0..scaled(2000, 20) {
        let (mut fiber, trigger) = waiting();
        thread::scope(|s| {
            let signaller = s.spawn(|| assert!(trigger.signal(round)));
            let mut wakers = [Waker::noop().clone(), counting().1].into_iter().cycle();
            loop {
                if let Some(outcome) = poll(&mut fiber, &wakers.next().unwrap()) {
                    assert_eq!(outcome, Outcome::Taken(round));
                    break;
                }
                thread::yield_now();
            }
            signaller.join().unwrap();
        });
    }
}

#[test]
fn cancelled_and_signalled_while_it_is_polled() {
    let (mut taken, mut cancelled) = (0, 0);
    for round in 0..scaled(2000, 20) {
        let token = CancelToken::new();
        let trigger = Arc::new(Trigger::new());
        let inside = (token.clone(), Arc::clone(&trigger));
        let mut fiber = hosted(move || inside.0.run(|| inside.1.wait(WaitsFor::new("a test"))));
        thread::scope(|s| {
            let signaller = s.spawn(|| trigger.signal(0));
            let canceller = s.spawn(|| {
                (0..round % 50).for_each(|_| std::hint::spin_loop());
                token.cancel();
            });
            let (_, waker) = counting();
            let outcome = loop {
                if let Some(outcome) = poll(&mut fiber, &waker) {
                    break outcome;
                }
                thread::yield_now();
            };
            assert_eq!(signaller.join().unwrap(), outcome == Outcome::Taken(0));
            canceller.join().unwrap();
            match outcome {
                Outcome::Taken(_) => taken += 1,
                Outcome::Cancelled => cancelled += 1,
            }
        });
    }
    assert!(
        crate::common::STAND_IN || cfg!(miri) || (taken > 0 && cancelled > 0),
        "{taken} taken, {cancelled} cancelled"
    );
}

#[test]
fn dropped_in_every_state() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    // New, in a wait, in a wait whose signal is on its way, in a future, after a yield, ended.
    for state in 0..6 {
        let before = DROPS.load(SeqCst);
        let trigger = Arc::new(Trigger::new());
        let inside = Arc::clone(&trigger);
        let held = Counted(&DROPS);
        let mut fiber = hosted(move || {
            let _held = held;
            match state {
                1 => assert_eq!(inside.wait(WaitsFor::new("a test")), Outcome::Cancelled),
                2 => assert_eq!(inside.wait(WaitsFor::new("a test")), Outcome::Taken(7)),
                3 => assert!(wait_future(pending::<()>()).is_err()),
                4 => yield_now().unwrap(),
                _ => return,
            }
            assert!(check().is_err());
            assert!(sleep(Duration::MAX).is_err());
        });
        if state > 0 {
            assert_eq!(poll(&mut fiber, Waker::noop()).is_some(), state == 5);
        }
        if state == 2 {
            assert!(trigger.signal(7));
        }
        assert_eq!(DROPS.load(SeqCst) - before, usize::from(state == 5));
        drop(fiber);
        assert_eq!(DROPS.load(SeqCst) - before, 1);
        assert_eq!(trigger.signal(0), !matches!(state, 1 | 2));
    }
    assert_eq!(segue_fiber::leaked_stacks(), 0);
}

#[test]
fn dropped_while_threads_wake_it() {
    for round in 0..scaled(2000, 20) {
        let (mut fiber, trigger) = waiting();
        assert!(poll(&mut fiber, Waker::noop()).is_none());
        thread::scope(|s| {
            s.spawn(|| {
                (0..round % 50).for_each(|_| std::hint::spin_loop());
                trigger.signal(0);
            });
            drop(fiber);
        });
    }
    assert_eq!(segue_fiber::leaked_stacks(), 0);
}

#[test]
fn wakers_that_panic_are_contained() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("planted"));
        }
    }
    let (mut fiber, trigger) = waiting();
    assert!(poll(&mut fiber, &Waker::from(Arc::new(Panics))).is_none());
    assert!(trigger.signal(3));
    assert_eq!(poll(&mut fiber, Waker::noop()), Some(Outcome::Taken(3)));
}

#[test]
fn fibers_that_choose_once_each_do_not_all_choose_the_same() {
    let choose = || any_of([after(Duration::ZERO), after(Duration::ZERO)]).wait().unwrap().0;
    let second = (0..100).filter(|_| wait_future(hosted(choose)).unwrap().unwrap() == 1).count();
    assert!((20..=80).contains(&second), "{second}");
}

#[test]
fn a_fiber_that_is_dropped_ends_first_also_where_waits_fail() {
    /// Suspended in a wait that a cancellation ends, with another one behind it that none does.
    fn suspended() -> (Hosted<()>, Rc<Cell<bool>>) {
        let ended = Rc::new(Cell::new(false));
        let ends = Rc::clone(&ended);
        let mut fiber = hosted(move || {
            sleep(Duration::MAX).unwrap_err();
            shield(|| sleep(Duration::from_millis(5))).unwrap();
            ends.set(true);
        });
        assert!(poll(&mut fiber, Waker::noop()).is_none());
        (fiber, ended)
    }
    let over_budget = || {
        let (fiber, ended) = suspended();
        shield_for(Duration::from_millis(1), || {
            sleep(Duration::MAX).unwrap_err();
            drop(fiber);
        });
        assert!(ended.get());
    };
    over_budget();
    let one = segue_sched::Runtime::new().workers(1);
    one.run(|| {
        over_budget();
        let (fiber, ended) = suspended();
        no_suspend(|| drop(fiber));
        assert!(ended.get());
    })
    .unwrap();
}

#[test]
fn one_hosts_another_and_the_current_fiber_is_set_right() {
    let outer = Rc::new(Cell::new(std::ptr::null()));
    let inside = Rc::clone(&outer);
    let result = wait_future(hosted(move || {
        let here = segue_core::scheduling::current();
        inside.set(here);
        let mut inner = hosted(move || {
            assert!(!std::ptr::eq(segue_core::scheduling::current(), here));
            yield_now().unwrap();
            1
        });
        assert!(poll(&mut inner, Waker::noop()).is_none());
        assert!(std::ptr::eq(segue_core::scheduling::current(), here));
        let one = wait_future(inner).unwrap().unwrap();
        assert!(std::ptr::eq(segue_core::scheduling::current(), here));
        one + 1
    }));
    assert_eq!(result.unwrap().unwrap(), 2);
    assert!(segue_core::scheduling::current().is_null());
    assert!(!outer.get().is_null());
}

/// Wakers that lie in a frame of their executor's; their clones have addresses of their own.
static IN_FRAME: RawWakerVTable = {
    fn counts<'a>(data: *const ()) -> &'a Arc<Counts> {
        // SAFETY: `in_frame` has made it of a reference, which outlives the waker, and the clones
        // do not come here.
        unsafe { &*data.cast() }
    }
    RawWakerVTable::new(
        |data| {
            let waker = ManuallyDrop::new(Waker::from(Arc::clone(counts(data))));
            RawWaker::new(waker.data(), waker.vtable())
        },
        |data| counts(data).wake_by_ref(),
        |data| counts(data).wake_by_ref(),
        |_| (),
    )
};

fn poll_in_frame<T: 'static>(fiber: &mut Hosted<T>, counts: &Arc<Counts>) -> Option<T> {
    // SAFETY: the waker is gone before `counts` is, and the functions of the table keep the
    // contract.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(counts).cast(), &IN_FRAME)) };
    poll(fiber, &waker)
}

#[test]
fn a_waker_at_the_address_of_another_is_another() {
    let (mut fiber, trigger) = waiting();
    let (first, second) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
    let mut here = Arc::clone(&first);
    assert!(poll_in_frame(&mut fiber, &here).is_none());
    here.clone_from(&second);
    assert!(poll_in_frame(&mut fiber, &here).is_none());
    assert!(trigger.signal(1));
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
    assert_eq!(poll_in_frame(&mut fiber, &here), Some(Outcome::Taken(1)));
}

#[test]
fn a_future_polled_with_wakers_that_know_none_of_their_clones_is_polled_once_for_each_poll() {
    let polls = Rc::new(Cell::new(0));
    let inside = Rc::clone(&polls);
    let mut fiber = hosted(move || {
        let future = std::future::poll_fn(|_| {
            inside.set(inside.get() + 1);
            if inside.get() < 3 { Poll::Pending } else { Poll::Ready(()) }
        });
        wait_future(future).unwrap();
    });
    let counts = Arc::new(Counts::default());
    assert!(poll_in_frame(&mut fiber, &counts).is_none());
    assert!(poll_in_frame(&mut fiber, &counts).is_none());
    assert_eq!(polls.get(), 2);
    assert!(poll_in_frame(&mut fiber, &counts).is_some());
}
