//! Wakers, which are called by whatever wakes: what calls one goes on, and so do the wakers behind
//! it.
#![allow(unsafe_code, reason = "a task's family is completed by hand")]

use crate::table::{
    ActsAtDrop, Counts, LONG, Must::*, RIGHT, Row, act, arm, disarm, fiber, in_hosted, poll, thread, waker, waker_with,
    was_apart,
};
use segue_core::drivers::{LazyTimer, Limit, TimeLimited};
use segue_core::scheduling::{Family, Job, Spawn, Timers, wake_task};
use segue_core::{
    CancelToken, Guard, JoinHandle, Operation, Scope, SourceFuture, Trigger, WaitQueue, Waitable, WaitsFor, after, at,
    check, deadline, is_cancelled, now, scope, shield, spawn, timeout, wait_future, yield_now,
};
use segue_sched::{Driven, Hosted, Runtime, hosted, move_to};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

const WAKER: &str = "a waker, a drop or other code";
const NAME: &str = "what the tasks of this table wait for";
const MS: Duration = Duration::from_millis(1);

/// Of all of these operations. Under the lock, and whoever was not served joins next.
static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);

type Queue = WaitQueue<bool, u64>;

/// Waits to be handed something. What leaves the queue has the next one told, as with a semaphore's
/// permits.
struct Handed;

impl Operation<bool, u64> for Handed {
    type Output = u64;

    fn attempt(&mut self, queue: &mut Guard<'_, bool, u64>) -> Option<u64> {
        ATTEMPTS.fetch_add(1, SeqCst);
        std::mem::take(queue.state()).then_some(RIGHT)
    }

    fn is_ready(&mut self, queue: &mut Guard<'_, bool, u64>) -> bool {
        *queue.peek()
    }

    fn retract(&mut self, _offered: Option<u64>, queue: &mut Guard<'_, bool, u64>) {
        while queue.notify_one(0) {}
    }

    fn commit(&mut self, slot: Option<u64>) -> Option<u64> {
        slot
    }

    fn give_back(&mut self, slot: Option<u64>, queue: &mut Guard<'_, bool, u64>) -> Option<u64> {
        queue.hand_over(0, slot?).err()
    }
}

fn handed(queue: &Queue) -> Pin<Box<SourceFuture<segue_core::Waiting<'_, Handed, bool, u64>>>> {
    Box::pin(Waitable::new(queue.operation(WaitsFor::new(NAME), Handed)).into_future())
}

/// Has two tasks wait, the first of which has a waker that acts; the second one's counts.
fn with_two(wakes: impl FnOnce(&Queue)) -> u64 {
    let (queue, behind) = (Queue::new(false), Arc::new(Counts::default()));
    let (mut first, mut second) = (handed(&queue), handed(&queue));
    assert_eq!(poll(first.as_mut(), &waker()), None);
    assert_eq!(poll(second.as_mut(), &behind.waker()), None);
    wakes(&queue);
    assert_eq!(behind.get(), 1, "the waker behind was called before the operation was over");
    drop((first, second));
    RIGHT
}

fn hand_over_twice(queue: &Queue) {
    let mut guard = queue.lock();
    assert_eq!((guard.hand_over(0, 1), guard.hand_over(0, 2)), (Ok(()), Ok(())));
}

/// A fiber that waits in front of both, and is cancelled: to leave wakes them.
fn cancelled_in_front() -> u64 {
    let (queue, behind, token) = (Queue::new(false), Arc::new(Counts::default()), CancelToken::new());
    let (mut first, mut second) = (handed(&queue), handed(&queue));
    let cancelled = scope(|s| {
        assert_eq!(poll(first.as_mut(), &waker()), None);
        assert_eq!(poll(second.as_mut(), &behind.waker()), None);
        let before = ATTEMPTS.load(SeqCst);
        let token = &token;
        let queue = &queue;
        s.spawn(move || {
            until(|| ATTEMPTS.load(SeqCst) > before);
            // It has joined the queue when this has the lock.
            drop(queue.lock());
            token.cancel();
        });
        token.run(|| Waitable::new(queue.operation(WaitsFor::new(NAME), Handed)).wait())
    });
    assert_eq!((cancelled.is_err(), behind.get()), (true, 1));
    drop((first, second));
    RIGHT
}

fn dropped_in_front() -> u64 {
    let queue = Queue::new(false);
    let mut front = handed(&queue);
    assert_eq!(poll(front.as_mut(), Waker::noop()), None);
    let (behind, mut first, mut second) = (Arc::new(Counts::default()), handed(&queue), handed(&queue));
    assert_eq!(poll(first.as_mut(), &waker()), None);
    assert_eq!(poll(second.as_mut(), &behind.waker()), None);
    drop(front);
    assert_eq!(behind.get(), 1);
    drop((first, second));
    RIGHT
}

fn given_back() -> u64 {
    let queue = Queue::new(false);
    let mut front = handed(&queue);
    assert_eq!(poll(front.as_mut(), Waker::noop()), None);
    let mut next = handed(&queue);
    assert_eq!(poll(next.as_mut(), &waker()), None);
    assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
    drop(front);
    poll(next.as_mut(), Waker::noop()).expect("it was passed on")
}

/// One waker calls the next, deeper than they are called inside of each other; the last but one
/// acts.
fn chained() -> u64 {
    struct Next(Arc<Vec<Trigger>>, usize);
    impl Wake for Next {
        fn wake(self: Arc<Self>) {
            if self.1 == DEPTH - 2 {
                act();
            }
            if let Some(next) = self.0.get(self.1 + 1) {
                assert!(next.signal(0));
            }
        }
    }
    const DEPTH: usize = 20;
    let triggers: Arc<Vec<Trigger>> = Arc::new((0..DEPTH).map(|_| Trigger::new()).collect());
    let mut fibers: Vec<Hosted<()>> = (0..DEPTH)
        .map(|index| {
            let triggers = Arc::clone(&triggers);
            hosted(move || assert_eq!(triggers[index].wait(WaitsFor::new(NAME)), segue_core::Outcome::Taken(0)))
        })
        .collect();
    for (index, fiber) in fibers.iter_mut().enumerate() {
        let waker = Waker::from(Arc::new(Next(Arc::clone(&triggers), index)));
        assert!(poll(Pin::new(fiber), &waker).is_none());
    }
    assert!(triggers[0].signal(0));
    for mut fiber in fibers {
        assert!(poll(Pin::new(&mut fiber), Waker::noop()).is_some(), "each was woken");
    }
    RIGHT
}

/// Hosted fibers that wait under a token.
fn token_cancel(cancels: impl FnOnce(CancelToken)) -> u64 {
    let (token, behind) = (CancelToken::new(), Arc::new(Counts::default()));
    let fiber = || {
        let token = token.clone();
        hosted(move || token.run(|| after(LONG).wait().is_err()))
    };
    let (mut first, mut second) = (fiber(), fiber());
    assert!(poll(Pin::new(&mut first), &waker()).is_none());
    assert!(poll(Pin::new(&mut second), &behind.waker()).is_none());
    cancels(token);
    assert_eq!(behind.get(), 1);
    assert!(poll(Pin::new(&mut first), Waker::noop()).unwrap().unwrap());
    assert!(poll(Pin::new(&mut second), Waker::noop()).unwrap().unwrap());
    RIGHT
}

thread_local!(static DRIVEN: RefCell<Option<Driven>> = const { RefCell::new(None) });

/// Two fibers of a scope visit another scheduler, which sleeps: to cancel the scope calls what
/// wakes that one. Nothing if it was cancelled before.
fn visited<T>(body: impl FnOnce(&Scope<'_, '_>) -> T) -> Option<T> {
    disarm();
    let driven = Runtime::new().workers(1).driven(act).unwrap();
    let there = driven.handle();
    DRIVEN.set(Some(driven));
    let (visitors, over) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let ends = Arc::clone(&over);
    let driver: JoinHandle<()> = spawn(move || {
        while ends.load(SeqCst) == 0 {
            DRIVEN.with_borrow_mut(|driven| _ = driven.as_mut().unwrap().poll());
            yield_now().unwrap();
        }
    });
    struct Over(Arc<AtomicUsize>);
    impl Drop for Over {
        fn drop(&mut self) {
            self.0.store(1, SeqCst);
        }
    }
    let over = Over(over);
    let result = scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let waits = || {
                    visitors.fetch_add(1, SeqCst);
                    assert!(after(LONG).wait().is_err());
                };
                let _ = move_to(&there, waits);
            });
        }
        while visitors.load(SeqCst) < 2 && !is_cancelled() {
            shield(yield_now).unwrap();
        }
        (visitors.load(SeqCst) == 2).then(|| {
            arm();
            body(s)
        })
    });
    disarm();
    drop(over);
    shield(|| driver.join()).unwrap();
    DRIVEN.take();
    result
}

fn overdue(look: fn() -> bool) -> u64 {
    let mut limit = 4 * MS;
    loop {
        let end = now() + limit;
        let looked = deadline(Some(end), || {
            visited(|_| {
                // Without a wait, so that nobody but this sees that it has passed.
                let is_open = now() < end;
                while now() < end {
                    std::hint::spin_loop();
                }
                is_open.then(look)
            })
        });
        match looked.flatten() {
            Some(late) => {
                assert!(late);
                if !was_apart() {
                    return RIGHT;
                }
                // This thread was away for so long that the timers' thread has cancelled.
            }
            // The machine was busy, and the end has passed before.
            None => limit *= 4,
        }
    }
}

fn panicking_body() -> u64 {
    let result = std::panic::catch_unwind(|| visited(|_| panic!("expected")));
    assert!(result.is_err());
    if DRIVEN.take().is_some() {
        disarm();
    }
    RIGHT
}

/// Until the callback has been called, from elsewhere.
fn until(called: impl Fn() -> bool) {
    while !called() {
        yield_now().unwrap();
    }
}

/// A waker that acts, and then says so.
fn waker_and_count() -> (Waker, Arc<Counts>) {
    struct Both(Arc<Counts>);
    impl Wake for Both {
        fn wake(self: Arc<Self>) {
            act();
            self.0.0.fetch_add(1, SeqCst);
        }
    }
    let counts = Arc::new(Counts::default());
    (Waker::from(Arc::new(Both(Arc::clone(&counts)))), counts)
}

fn join_source() -> u64 {
    let (waker, called) = waker_and_count();
    let mut joined = pin!(spawn(|| RIGHT).into_future());
    if let Some(result) = poll(joined.as_mut(), &waker) {
        // It was over before. So nothing is to be seen here, but by the next.
        drop(result);
        return join_source();
    }
    until(|| called.get() == 1);
    poll(joined.as_mut(), &waker).unwrap().unwrap()
}

fn timer() -> u64 {
    let (waker, called) = waker_and_count();
    let mut passed = pin!(after(MS).into_future());
    if poll(passed.as_mut(), &waker).is_some() {
        return timer();
    }
    until(|| called.get() == 1);
    poll(passed.as_mut(), &waker).map_or(0, |()| RIGHT)
}

fn fired_timeout() -> u64 {
    let (waker, called) = waker_and_count();
    let mut fiber = hosted(|| timeout(MS, || after(LONG).wait().is_err()));
    if poll(Pin::new(&mut fiber), &waker).is_some() {
        return fired_timeout();
    }
    until(|| called.get() == 1);
    assert!(poll(Pin::new(&mut fiber), &waker).unwrap().unwrap());
    RIGHT
}

/// The timers of a scheduler that ends tell those who wait for them.
fn closed_timers() -> u64 {
    let mut future = None;
    let run = Runtime::new().workers(1).run(|| {
        let mut waits = Box::pin(at(Some(now() + LONG)).into_future());
        assert!(poll(waits.as_mut(), &waker()).is_none());
        future = Some(waits);
    });
    run.unwrap();
    drop(future);
    RIGHT
}

fn poll_with(at_clone: bool, again: bool) -> u64 {
    let queue = Queue::new(false);
    let mut future = handed(&queue);
    let (first, second) =
        if at_clone { (Waker::noop(), &waker_with(true)) } else { (&waker_with(false), Waker::noop()) };
    if again {
        disarm();
        assert_eq!(poll(future.as_mut(), first), None);
        arm();
    }
    assert_eq!(poll(future.as_mut(), second), None);
    disarm();
    let woken = Arc::new(Counts::default());
    assert_eq!(poll(future.as_mut(), &woken.waker()), None);
    assert_eq!(queue.lock().hand_over(0, RIGHT), Ok(()));
    assert_eq!(woken.get(), 1);
    poll(future.as_mut(), &woken.waker()).unwrap()
}

fn hosted_poll(waker: &Waker) -> u64 {
    let mut fiber = hosted(|| yield_now().map(|()| RIGHT).unwrap());
    assert!(poll(Pin::new(&mut fiber), waker).is_none());
    disarm();
    poll(Pin::new(&mut fiber), Waker::noop()).unwrap().unwrap()
}

/// Ready at its second poll.
fn twice() -> impl Future<Output = u64> {
    let mut polled = false;
    std::future::poll_fn(move |task| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(RIGHT);
        }
        task.waker().wake_by_ref();
        Poll::Pending
    })
}

/// What is dropped is the waker of an earlier poll.
fn dropped_at_the_next_wait() -> u64 {
    wait_future(twice()).unwrap();
    yield_now().unwrap();
    arm();
    wait_future(twice()).unwrap()
}

/// The waker of a task, whose jobs somebody else accepts.
fn accepted() -> u64 {
    #[derive(Default)]
    struct Jobs(Mutex<Vec<Job>>);
    impl Spawn for Jobs {
        fn spawn(&self, job: Job) {
            act();
            self.0.lock().unwrap().push(job);
        }

        fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
            unreachable!("the task has its own")
        }
    }
    let (jobs, kept) = (Arc::new(Jobs::default()), Arc::new(Mutex::new(None::<Waker>)));
    let family = Family::detached();
    let inside = Arc::clone(&kept);
    let mut polled = false;
    let future = poll_fn(move |task| {
        *inside.lock().unwrap() = Some(task.waker().clone());
        if std::mem::replace(&mut polled, true) { Poll::Ready(RIGHT) } else { Poll::Pending }
    });
    let spawner = Arc::<Jobs>::clone(&jobs);
    // SAFETY: the family is completed below, and the future borrows nothing.
    let (job, handle) = unsafe { family.async_job(segue_core::Builder::new(), future, spawner) };
    family.enter_context(|| job.run());
    kept.lock().unwrap().take().expect("it was polled").wake();
    let job = jobs.0.lock().unwrap().pop().expect("it was accepted");
    family.enter_context(|| job.run());
    // SAFETY: by its owner, once.
    unsafe { family.complete() };
    handle.join().unwrap()
}

/// What has a limit, and acts when it is asked for that, or when it is over.
struct Limited {
    timer: LazyTimer,
    asked: bool,
}

impl Limited {
    fn new(asked: bool) -> Arc<Self> {
        Arc::new(Self { timer: LazyTimer::new(), asked })
    }
}

impl TimeLimited for Limited {
    fn timer(&self, _number: usize) -> &LazyTimer {
        if self.asked {
            act();
        }
        &self.timer
    }

    fn expire(&self, _number: usize) {
        act();
    }
}

fn limited() -> u64 {
    drop(Limit::set(&Limited::new(true), 0, now() + LONG));
    RIGHT
}

fn expires() -> u64 {
    let (timers, owner) = (Timers::real(), Limited::new(false));
    let limit = Limit::set_among(&timers, &owner, 0, now() + MS).expect("it is the only one");
    while !limit.is_over() {
        timers.fire();
    }
    RIGHT
}

pub static ROWS: &[Row] = &[
    fiber("a waker, by a queue's guard: handed over", Refused(WAKER), || with_two(hand_over_twice)),
    fiber("a waker, by a queue's guard: told", Refused(WAKER), || with_two(|queue| queue.lock().notify_all(0))),
    thread("a waker, by a queue's guard, on a thread", Refused(WAKER), || with_two(hand_over_twice)),
    fiber("a waker, by a cancelled wait that serves the next", Refused(WAKER), cancelled_in_front),
    thread("a waker, by a cancelled wait that serves the next, on a thread", Refused(WAKER), cancelled_in_front),
    fiber("a waker, by a dropped future that serves the next", Refused(WAKER), dropped_in_front),
    fiber("a waker, by a dropped future that gives back", Refused(WAKER), given_back),
    thread("a waker, by a dropped future that gives back, on a thread", Refused(WAKER), given_back),
    fiber("a waker, by the wakers of wakers", Refused(WAKER), chained),
    thread("a waker, by the wakers of wakers, on a thread", Refused(WAKER), chained),
    fiber("a waker, by CancelToken::cancel", Refused(WAKER), || token_cancel(|token| token.cancel())),
    thread("a waker, by CancelToken::cancel, on a thread", Refused(WAKER), || token_cancel(|token| token.cancel())),
    fiber("a waker, by CancelToken::cancel_with", Refused(WAKER), || token_cancel(|token| token.cancel_with("enough"))),
    fiber("what wakes a scheduler, by check() past a deadline", Refused("an unpark"), || overdue(|| check().is_err())),
    fiber("what wakes a scheduler, by is_cancelled() past a deadline", Refused("an unpark"), || overdue(is_cancelled)),
    fiber("what wakes a scheduler, by a wait past a deadline", Refused("an unpark"), || {
        overdue(|| after(LONG).wait().is_err())
    }),
    fiber("what wakes a scheduler, by Scope::cancel", Refused("an unpark"), || {
        visited(|s| s.cancel());
        RIGHT
    }),
    fiber("what wakes a scheduler, by the cancel after a body's panic", Refused("an unpark"), panicking_body),
    thread("Spawn::spawn, by the waker of a task, on a thread", Refused("the wake-up of a task"), accepted),
    fiber("TimeLimited::timer, by Limit::set", Refused("the limit of a wait"), limited),
    thread("TimeLimited::timer, by Limit::set, on a thread", Refused("the limit of a wait"), limited),
    fiber("TimeLimited::expire, by Timers::fire", Refused("the limit of a wait"), expires),
    thread("TimeLimited::expire, by Timers::fire, on a thread", Refused("the limit of a wait"), expires),
    fiber("wake_task", Refused(WAKER), || {
        wake_task(waker());
        RIGHT
    }),
    fiber("a waker, by the end of a fiber", Apart, join_source),
    thread("a waker, by the end of a fiber, on a thread", Apart, join_source),
    fiber("a waker, by a timer", Apart, timer),
    thread("a waker, by a timer, on a thread", Apart, timer),
    fiber("a waker, by a timeout", Apart, fired_timeout),
    thread("a waker, by a timeout, on a thread", Apart, fired_timeout),
    thread("a waker, by the timers of a scheduler that ends", Apart, closed_timers),
    fiber("a waker's clone, in a poll", Refused(NAME), || poll_with(true, false)),
    thread("a waker's clone, in a poll, on a thread", Refused(NAME), || poll_with(true, false)),
    fiber("another waker's clone, in a second poll", Refused(NAME), || poll_with(true, true)),
    fiber("a waker's drop, in a second poll", Refused(NAME), || poll_with(false, true)),
    fiber("a waker's clone, in the poll of a hosted fiber", Refused("the poll of a hosted fiber"), || {
        hosted_poll(&waker_with(true))
    }),
    thread(
        "a waker's clone, in the poll of a hosted fiber, on a thread",
        Refused("the poll of a hosted fiber"),
        || hosted_poll(&waker_with(true)),
    ),
    fiber("a waker, by a hosted fiber that yields", Refused("the poll of a hosted fiber"), || hosted_poll(&waker())),
    in_hosted("a waker's clone, in a wait of a hosted fiber", Refused("a future"), || {
        arm();
        wait_future(twice()).unwrap()
    }),
    in_hosted("a waker's drop, in a wait of a hosted fiber", Refused("a future"), dropped_at_the_next_wait),
    fiber("the closure of a hosted fiber that never started", Captured, || {
        let acts = ActsAtDrop;
        drop(hosted(move || drop(acts)));
        RIGHT
    }),
    fiber("hosted", Apart, || {
        let mut fiber = hosted(|| {
            act();
            RIGHT
        });
        poll(Pin::new(&mut fiber), Waker::noop()).unwrap().unwrap()
    }),
    fiber("the drop of a hosted fiber that waits: its own values", Apart, || {
        let mut fiber = hosted(|| {
            let _acts = ActsAtDrop;
            assert!(after(LONG).wait().is_err());
        });
        assert!(poll(Pin::new(&mut fiber), Waker::noop()).is_none());
        drop(fiber);
        RIGHT
    }),
];
