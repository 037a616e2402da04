//! Closures and steps of operations: an operation in progress is registered somewhere, or has a
//! borrow of its fiber.

use crate::table::{Counts, LONG, Must::*, RIGHT, Row, act, fiber, poll, thread};
use segue_core::chain::barrier;
use segue_core::drivers::{not_unblocked, unblocked};
use segue_core::scheduling::{no_suspend_in_body, run_as_thread};
use segue_core::unwind::contain;
use segue_core::{
    Blocking, CancelToken, Guard, Operation, Unlocked, WaitQueue, Waitable, WaitsFor, after, any_of, any_of_biased,
    future_source, guard, no_suspend, registered, scope, with_current, with_nack, yield_now,
};
use segue_sched::blocking_here;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// With the mark, which nothing in this program heeds.
#[allow(unsafe_code, reason = "the mark is a promise")]
fn marked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: nothing heeds it.
    unsafe { unblocked(f) }
}

const UNLOCKED: u8 = 0;
const ATTEMPT: u8 = 1;
const READY: u8 = 2;
const PLACE: u8 = 3;
const OFFER: u8 = 4;
const RETRACT: u8 = 5;
const COMMIT: u8 = 6;
const GIVE_BACK: u8 = 7;
const MAYBE: u8 = 8;

type Queue = WaitQueue<bool, u64>;

/// An operation that acts in one of its steps.
struct Acts<const STEP: u8>;

fn step<const STEP: u8>(this: u8) {
    if STEP == this {
        act();
    }
}

impl<const STEP: u8> Operation<bool, u64> for Acts<STEP> {
    type Output = u64;

    fn attempt_unlocked(&mut self) -> Unlocked<u64> {
        step::<STEP>(UNLOCKED);
        Unlocked::Look
    }

    fn may_be_ready(&self) -> bool {
        step::<STEP>(MAYBE);
        true
    }

    fn attempt(&mut self, queue: &mut Guard<'_, bool, u64>) -> Option<u64> {
        step::<STEP>(ATTEMPT);
        std::mem::take(queue.state()).then_some(RIGHT)
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, bool, u64>) -> bool {
        step::<STEP>(READY);
        *queue.peek()
    }

    fn place(&self) -> (usize, bool) {
        step::<STEP>(PLACE);
        (0, false)
    }

    fn offer(&mut self) -> Option<u64> {
        step::<STEP>(OFFER);
        None
    }

    fn retract(&mut self, _offered: Option<u64>, queue: &mut Guard<'_, bool, u64>) {
        step::<STEP>(RETRACT);
        // As a semaphore does for those behind one that wants much.
        queue.notify_one(0);
    }

    fn commit(&mut self, slot: Option<u64>) -> Option<u64> {
        step::<STEP>(COMMIT);
        slot
    }

    fn give_back(&mut self, slot: Option<u64>, queue: &mut Guard<'_, bool, u64>) -> Option<u64> {
        step::<STEP>(GIVE_BACK);
        queue.hand_over(0, slot?).err()
    }
}

const NAME: &str = "an operation that acts";

fn acts<const STEP: u8>(queue: &Queue) -> Waitable<segue_core::Waiting<'_, Acts<STEP>, bool, u64>> {
    Waitable::new(queue.operation(WaitsFor::new(NAME), Acts))
}

fn until_awaited(queue: &Queue) {
    while !queue.lock().has_waiters() {
        yield_now().unwrap();
    }
}

/// Waits, and is served.
fn waits<const STEP: u8>() -> u64 {
    let queue = Queue::new(false);
    scope(|s| {
        s.spawn(|| {
            until_awaited(&queue);
            assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
        });
        acts::<STEP>(&queue).wait().unwrap()
    })
}

/// Waits, and is cancelled; what it serves then is served.
fn is_cancelled<const STEP: u8>() -> u64 {
    let (queue, token) = (Queue::new(false), CancelToken::new());
    let behind = Arc::new(Counts::default());
    scope(|s| {
        s.spawn(|| {
            until_awaited(&queue);
            token.cancel();
        });
        let waits = || {
            let mut next = pin!(acts::<ATTEMPT>(&queue).into_future());
            let cancelled = acts::<STEP>(&queue);
            // Two fibers at once would do, but a task needs no turn.
            s.spawn(|| ());
            let outcome = cancelled.wait();
            assert_eq!(poll(next.as_mut(), &behind.waker()), None);
            assert_eq!(queue.lock().hand_over(0, 1), Ok(()));
            assert_eq!(poll(next.as_mut(), &behind.waker()), Some(1));
            outcome
        };
        assert!(token.run(waits).is_err());
    });
    assert_eq!(behind.get(), 1);
    RIGHT
}

/// Is one of two that are waited for.
fn is_chosen_from<const STEP: u8>() -> u64 {
    let (queue, other) = (Queue::new(false), Queue::new(false));
    scope(|s| {
        s.spawn(|| {
            until_awaited(&queue);
            assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
        });
        match acts::<100>(&other).or(acts::<STEP>(&queue)).wait().unwrap() {
            segue_core::Either::Left(value) | segue_core::Either::Right(value) => value,
        }
    })
}

/// Is polled in a task, and served.
fn is_polled<const STEP: u8>() -> u64 {
    let queue = Queue::new(false);
    let woken = Arc::new(Counts::default());
    let mut future = pin!(acts::<STEP>(&queue).into_future());
    assert_eq!(poll(future.as_mut(), &woken.waker()), None);
    assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
    assert_eq!(woken.get(), 1);
    poll(future.as_mut(), &woken.waker()).unwrap()
}

/// Is dropped while it waits, or when it was served: what it was given goes to the next.
fn is_dropped<const STEP: u8>() -> u64 {
    let queue = Queue::new(false);
    let woken = Arc::new(Counts::default());
    let mut future = Box::pin(acts::<STEP>(&queue).into_future());
    let mut next = pin!(acts::<100>(&queue).into_future());
    assert_eq!(poll(future.as_mut(), &woken.waker()), None);
    assert_eq!(poll(next.as_mut(), &woken.waker()), None);
    if STEP == GIVE_BACK {
        assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
        drop(future);
    } else {
        drop(future);
        // Told to try again.
        assert_eq!(poll(next.as_mut(), &woken.waker()), None);
        assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
    }
    assert_eq!(woken.get(), 2);
    poll(next.as_mut(), &woken.waker()).unwrap()
}

fn attempts<const STEP: u8>() -> u64 {
    acts::<STEP>(&Queue::new(true)).attempt().unwrap()
}

fn attempts_choice<const STEP: u8>() -> u64 {
    any_of([acts::<STEP>(&Queue::new(true))]).attempt().unwrap().1
}

/// What a wait by closures has: one that acts when it looks, or else when it takes.
fn ready_and_take(ready_acts: bool) -> (impl Fn(&u64) -> bool, impl FnMut(&mut u64) -> u64) {
    let ready = move |state: &u64| {
        if ready_acts {
            act();
        }
        *state > 0
    };
    let take = move |state: &mut u64| {
        if !ready_acts {
            act();
        }
        std::mem::take(state)
    };
    (ready, take)
}

fn closures(ready_acts: bool) -> u64 {
    let (ready, take) = ready_and_take(ready_acts);
    WaitQueue::<u64, u64>::new(RIGHT).wait(WaitsFor::new(NAME), ready, take).unwrap()
}

fn closures_until(ready_acts: bool) -> u64 {
    let (ready, take) = ready_and_take(ready_acts);
    WaitQueue::<u64, u64>::new(RIGHT).wait_until(None, WaitsFor::new(NAME), ready, take).unwrap()
}

fn closures_in_a_poll(ready_acts: bool) -> u64 {
    let (ready, take) = ready_and_take(ready_acts);
    let queue = WaitQueue::<u64, u64>::new(RIGHT);
    let mut future = pin!(Waitable::new(queue.source(WaitsFor::new(NAME), ready, take)).into_future());
    poll(future.as_mut(), std::task::Waker::noop()).unwrap()
}

/// The hook of a blocking call, which has the closure end.
fn hook() -> u64 {
    let token = CancelToken::new();
    let (release, released) = mpsc::channel();
    let canceller = token.clone();
    let hook = move || {
        act();
        release.send(RIGHT).unwrap();
    };
    let call = move || {
        canceller.cancel();
        released.recv().unwrap()
    };
    token.run(|| Blocking::new().on_cancel(hook).run(call)).unwrap()
}

fn suits() -> u64 {
    let queue = Queue::new(false);
    let woken = Arc::new(Counts::default());
    let mut future = pin!(acts::<100>(&queue).into_future());
    assert_eq!(poll(future.as_mut(), &woken.waker()), None);
    let mut held = Some(RIGHT);
    let suits = |_: Option<&u64>| {
        act();
        true
    };
    assert!(queue.lock().exchange_if(0, &mut held, suits));
    assert_eq!(woken.get(), 1);
    poll(future.as_mut(), &woken.waker()).unwrap()
}

fn acts_then() -> u64 {
    act();
    RIGHT
}

/// Acts, and then makes the source.
fn acts_now<S>(source: S) -> S {
    act();
    source
}

const MADE: &str = "what a guard makes";

fn foreign() -> WaitsFor {
    WaitsFor::new("an operation of somebody else's")
}

pub static ROWS: &[Row] = &[
    fiber("WaitQueue::wait: ready", Refused(NAME), || closures(true)),
    fiber("WaitQueue::wait: take", Refused(NAME), || closures(false)),
    thread("WaitQueue::wait: ready, on a thread", Refused(NAME), || closures(true)),
    thread("WaitQueue::wait: take, on a thread", Refused(NAME), || closures(false)),
    fiber("WaitQueue::wait_until: ready", Refused(NAME), || closures_until(true)),
    fiber("WaitQueue::wait_until: take", Refused(NAME), || closures_until(false)),
    fiber("WaitQueue::source: ready, in a poll", Refused(NAME), || closures_in_a_poll(true)),
    fiber("WaitQueue::source: take, in a poll", Refused(NAME), || closures_in_a_poll(false)),
    fiber("Operation::attempt_unlocked, in a wait", Refused(NAME), waits::<UNLOCKED>),
    fiber("Operation::attempt, in a wait", Refused(NAME), waits::<ATTEMPT>),
    fiber("Operation::place, in a wait", Refused(NAME), waits::<PLACE>),
    fiber("Operation::offer, in a wait", Refused(NAME), waits::<OFFER>),
    fiber("Operation::commit, in a wait", Refused(NAME), waits::<COMMIT>),
    thread("Operation::attempt_unlocked, in a wait, on a thread", Refused(NAME), waits::<UNLOCKED>),
    thread("Operation::attempt, in a wait, on a thread", Refused(NAME), waits::<ATTEMPT>),
    thread("Operation::commit, in a wait, on a thread", Refused(NAME), waits::<COMMIT>),
    fiber("Operation::retract, in a wait that is cancelled", Refused(NAME), is_cancelled::<RETRACT>),
    thread("Operation::retract, in a wait that is cancelled, on a thread", Refused(NAME), is_cancelled::<RETRACT>),
    fiber("Operation::may_be_ready, in a choice", Refused(NAME), is_chosen_from::<MAYBE>),
    fiber("Operation::is_ready, in a choice", Refused(NAME), is_chosen_from::<READY>),
    fiber("Operation::place, in a choice", Refused(NAME), is_chosen_from::<PLACE>),
    fiber("Operation::offer, in a choice", Refused(NAME), is_chosen_from::<OFFER>),
    fiber("Operation::commit, in a choice", Refused(NAME), is_chosen_from::<COMMIT>),
    thread("Operation::may_be_ready, in a choice, on a thread", Refused(NAME), is_chosen_from::<MAYBE>),
    thread("Operation::is_ready, in a choice, on a thread", Refused(NAME), is_chosen_from::<READY>),
    fiber("Operation::attempt_unlocked, in a poll", Refused(NAME), is_polled::<UNLOCKED>),
    fiber("Operation::attempt, in a poll", Refused(NAME), is_polled::<ATTEMPT>),
    fiber("Operation::place, in a poll", Refused(NAME), is_polled::<PLACE>),
    fiber("Operation::offer, in a poll", Refused(NAME), is_polled::<OFFER>),
    fiber("Operation::commit, in a poll", Refused(NAME), is_polled::<COMMIT>),
    thread("Operation::commit, in a poll, on a thread", Refused(NAME), is_polled::<COMMIT>),
    fiber("Operation::retract, in the drop of a future", Refused(NAME), is_dropped::<RETRACT>),
    fiber("Operation::give_back, in the drop of a future", Refused(NAME), is_dropped::<GIVE_BACK>),
    thread("Operation::give_back, in the drop of a future, on a thread", Refused(NAME), is_dropped::<GIVE_BACK>),
    fiber("Operation::attempt_unlocked, in an attempt", Refused(NAME), attempts::<UNLOCKED>),
    fiber("Operation::attempt, in an attempt", Refused(NAME), attempts::<ATTEMPT>),
    thread("Operation::attempt, in an attempt, on a thread", Refused(NAME), attempts::<ATTEMPT>),
    fiber("Operation::may_be_ready, in an attempt of a choice", Refused(NAME), attempts_choice::<MAYBE>),
    fiber("Waitable::map, in a wait", Refused(NAME), || {
        acts::<100>(&Queue::new(true)).map(|_| acts_then()).wait().unwrap()
    }),
    fiber("Waitable::map, in a poll", Refused(NAME), || {
        let queue = Queue::new(true);
        let mut future = pin!(acts::<100>(&queue).map(|_| acts_then()).into_future());
        poll(future.as_mut(), std::task::Waker::noop()).unwrap()
    }),
    fiber("Waitable::filter_map, in a wait", Refused(NAME), || {
        acts::<100>(&Queue::new(true)).filter_map(|_| Some(acts_then())).wait().unwrap()
    }),
    fiber("guard, in a wait", Refused(MADE), || guard(|| acts_now(after(Duration::ZERO))).wait().map_or(0, |()| RIGHT)),
    fiber("guard, in a choice", Refused("the first of several"), || {
        any_of_biased((guard(|| acts_now(after(Duration::ZERO))), after(LONG))).wait().map_or(0, |_| RIGHT)
    }),
    fiber("with_nack, in a wait", Refused(MADE), || {
        with_nack(|_| acts_now(after(Duration::ZERO))).wait().map_or(0, |()| RIGHT)
    }),
    fiber("future_source, in a wait: a poll", Refused("a future"), || {
        future_source(async { acts_then() }).wait().unwrap()
    }),
    fiber("Guard::exchange_if", Refused("a look at who waits"), suits),
    thread("Guard::exchange_if, on a thread", Refused("a look at who waits"), suits),
    fiber("the hook of Blocking::on_cancel", Refused("the hook of a blocking call"), hook),
    thread("the hook of Blocking::on_cancel, on a thread", Refused("the hook of a blocking call"), hook),
    fiber("with_current", Refused("a look at the running fiber"), || {
        with_current(|fiber| {
            let id = fiber.id();
            act();
            assert_eq!((fiber.id(), fiber.name()), (id, None));
            RIGHT
        })
    }),
    thread("with_current, on a thread", Refused("a look at the running fiber"), || {
        with_current(|fiber| {
            act();
            assert_eq!(fiber.name(), None);
            RIGHT
        })
    }),
    fiber("registered", Refused(NAME), || registered(WaitsFor::new(NAME), acts_then)),
    fiber("no_suspend", Refused("it must not be suspended"), || no_suspend(acts_then)),
    fiber("no_suspend_in_body", Refused("nothing: it is in the body of a transaction"), || {
        no_suspend_in_body(acts_then)
    }),
    fiber("unblocked", Refused("code whose blocking calls suspend its fiber"), || marked(acts_then)),
    fiber("not_unblocked", Refused("code whose blocking calls suspend its fiber"), || not_unblocked(acts_then)),
    fiber("run_as_thread", Refused("a call that runs as on a plain thread"), || run_as_thread(acts_then)),
    thread("run_as_thread, on a thread: in place", Captured, || run_as_thread(acts_then)),
    fiber("blocking_here", Refused("a call that"), || blocking_here(acts_then)),
    thread("blocking_here, on a thread: in place", Captured, || blocking_here(acts_then)),
    fiber("contain", Refused("a waker, a drop or other code"), || contain(acts_then).unwrap()),
    thread("contain, on a thread", Refused("a waker, a drop or other code"), || contain(acts_then).unwrap()),
    fiber("barrier", Refused("somebody else's"), || barrier(foreign(), acts_then)),
    thread("barrier, on a thread", Refused("somebody else's"), || barrier(foreign(), acts_then)),
    fiber("a closure in a closure of a wait", Refused(NAME), || {
        let inner = Cell::new(0);
        let queue = WaitQueue::<u64, u64>::new(1);
        let take = |_: &mut u64| {
            inner.set(closures(true));
            1
        };
        let _ = queue.wait(WaitsFor::new("a wait around that"), |_| true, take);
        inner.get()
    }),
];
