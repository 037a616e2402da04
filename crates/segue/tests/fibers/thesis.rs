//! The examples of the thesis, "Effectively Composing Concurrency Libraries": what it says of its
//! structures holds of these.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, block_on, everywhere, pool};
use segue::sched::Fifo;
use segue::sync::{Condvar, Entry, MVar, Mutex, Notify, OnceCell, RwLock, Semaphore, promise};
use segue::{CancelToken, Cancelled, Pool, scope, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A structure with one of something, which the main task has at first.
struct One<'a> {
    /// The thesis' `lu`: waits for it, and gives it back.
    enter: &'a (dyn Fn() -> Result<(), Cancelled> + Sync),
    /// The main task gives it back.
    release: &'a (dyn Fn() + Sync),
}

impl One<'_> {
    /// Section 3.1. The main task has the lock. `t1` waits for it and is cancelled, `t2` waits
    /// behind. The main task unlocks. With a lock that does not know of cancellation, it goes to
    /// `t1`, and `t2` waits for ever. Here there may be others before, and the cancellation come at
    /// any time. Answers whether `t1` was cancelled in its wait.
    fn is_not_stuck(&self, others_before: usize, cancel: When) -> bool {
        let (token, entered, cancelled) = (CancelToken::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let let_them_wait = || (0..4).for_each(|_| yield_now().unwrap());
        scope(|s| {
            let goes_on = || {
                (self.enter)().unwrap();
                entered.fetch_add(1, SeqCst);
            };
            for _ in 0..others_before {
                s.spawn(goes_on);
            }
            let_them_wait();
            let t1 = s.spawn(|| match token.run(self.enter) {
                Ok(()) => drop(entered.fetch_add(1, SeqCst)),
                Err(_) => drop(cancelled.fetch_add(1, SeqCst)),
            });
            let_them_wait();
            if cancel == When::BeforeTheNextWaits {
                token.cancel();
            }
            let t2 = s.spawn(goes_on);
            let_them_wait();
            if cancel == When::BeforeTheUnlock {
                token.cancel();
            }
            (self.release)();
            if cancel == When::AfterTheUnlock {
                token.cancel();
            }
            t1.join().unwrap();
            t2.join().unwrap();
        });
        let (entered, cancelled) = (entered.into_inner(), cancelled.into_inner());
        assert!(entered > others_before && entered + cancelled == others_before + 2);
        // On several threads a lock that comes at the same time as the cancellation is taken: then
        // `t1` has it, and gives it back.
        cancelled == 1
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    BeforeTheNextWaits,
    BeforeTheUnlock,
    AfterTheUnlock,
}

/// Tries it in each of the cases, each time anew, on every scheduler.
fn in_each_case(with_one: impl Fn(&dyn Fn(One<'_>)) + Send + Sync) {
    let outcomes: [AtomicUsize; 2] = Default::default();
    everywhere(|| {
        for cancel in [When::BeforeTheNextWaits, When::BeforeTheUnlock, When::AfterTheUnlock] {
            for others_before in 0..3 {
                with_one(&|one| {
                    let cancelled = one.is_not_stuck(others_before, cancel);
                    outcomes[usize::from(cancelled)].fetch_add(1, SeqCst);
                });
            }
        }
    });
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
}

#[test]
fn section_3_1_a_cancelled_waiter_does_not_take_the_mutex_along() {
    in_each_case(|try_it| {
        let mutex = Mutex::new(0);
        let guard = std::sync::Mutex::new(Some(mutex.lock().unwrap()));
        let enter = || mutex.lock().map(|mut inside| *inside += 1);
        try_it(One { enter: &enter, release: &|| drop(guard.lock().unwrap().take()) });
        assert!(mutex.try_lock().is_some_and(|entered| *entered > 0));
    });
}

#[test]
fn section_3_1_nor_a_permit_nor_the_turn_to_write() {
    in_each_case(|try_it| {
        let semaphore = Semaphore::new(0);
        try_it(One { enter: &|| Ok(semaphore.acquire().map(drop)?), release: &|| semaphore.add_permits(1) });
        assert_eq!(semaphore.available_permits(), 1);
    });
    in_each_case(|try_it| {
        let lock = RwLock::new(());
        let guard = std::sync::Mutex::new(Some(lock.write().unwrap()));
        try_it(One { enter: &|| lock.write().map(drop), release: &|| drop(guard.lock().unwrap().take()) });
        assert!(lock.try_write().is_some());
    });
    in_each_case(|try_it| {
        let lock = RwLock::new(());
        let guard = std::sync::Mutex::new(Some(lock.write().unwrap()));
        // Readers behind a writer that is cancelled: every second one reads.
        let turn = AtomicUsize::new(0);
        let enter = || match turn.fetch_add(1, SeqCst) % 2 {
            0 => lock.write().map(drop),
            _ => lock.read().map(drop),
        };
        try_it(One { enter: &enter, release: &|| drop(guard.lock().unwrap().take()) });
        assert!(lock.try_write().is_some());
    });
}

#[test]
fn section_3_1_nor_a_value() {
    in_each_case(|try_it| {
        let place = MVar::empty();
        let enter = || {
            let value = place.take()?;
            place.try_put(value).expect("nobody else has one");
            Ok(())
        };
        try_it(One { enter: &enter, release: &|| place.try_put(7).unwrap() });
        assert_eq!(place.try_take(), Some(7));
    });
    in_each_case(|try_it| {
        let place = MVar::new(0);
        let loan = std::sync::Mutex::new(Some(place.borrow().unwrap()));
        let enter = || place.modify(|entered| *entered += 1);
        try_it(One { enter: &enter, release: &|| drop(loan.lock().unwrap().take()) });
        assert!(place.try_take().is_some_and(|entered| entered > 0));
    });
    // And those who have one each, and wait for room.
    in_each_case(|try_it| {
        let place = MVar::new(0);
        let enter = || {
            place.put(1)?;
            assert_eq!(place.try_take(), Some(1));
            Ok(())
        };
        try_it(One { enter: &enter, release: &|| assert_eq!(place.try_take(), Some(0)) });
        assert!(place.is_empty());
    });
}

#[test]
fn section_3_1_nor_a_notification_nor_the_turn_to_initialise() {
    in_each_case(|try_it| {
        let notify = Notify::new();
        let enter = || notify.wait().map(|()| notify.notify_one());
        try_it(One { enter: &enter, release: &|| notify.notify_one() });
        assert!(notify.try_wait());
    });
    in_each_case(|try_it| {
        let (changed, free) = (Condvar::new(), Mutex::new(false));
        let enter = || {
            let mut guard = changed.wait_while(free.lock()?, |free| !*free)?;
            *guard = false;
            drop(guard);
            // Its turn is over.
            *segue::shield(|| free.lock())? = true;
            changed.notify_one();
            Ok(())
        };
        let release = || {
            *free.lock().unwrap() = true;
            changed.notify_one();
        };
        try_it(One { enter: &enter, release: &release });
        assert_eq!(free.try_lock().map(|free| *free), Some(true));
    });
    in_each_case(|try_it| {
        let cell = OnceCell::<u8>::new();
        let Some(Entry::Empty(initializer)) = cell.try_entry() else { unreachable!("it is empty") };
        let initializer = std::sync::Mutex::new(Some(initializer));
        // Each gives up, so that the right goes on.
        let enter = || cell.entry_source().wait().map(drop);
        try_it(One { enter: &enter, release: &|| drop(initializer.lock().unwrap().take()) });
        assert_eq!(cell.try_set(1), Ok(()));
    });
}

#[test]
fn section_3_1_in_monadic_style_a_task_between_two_others_is_dropped() {
    everywhere(|| {
        let (mutex, place, notify) = (Mutex::new(()), MVar::empty(), Notify::new());
        let guard = mutex.lock().unwrap();
        let [mut first, second, mut third] = [(); 3].map(|()| Task::waiting(mutex.lock_source().map(drop)));
        drop(second);
        drop(guard);
        assert_eq!((first.poll(), third.poll()), (Some(()), Some(())));
        let [mut first, second, mut third] = [(); 3].map(|()| Task::waiting(place.take_source()));
        place.put(1).unwrap();
        drop(second);
        place.put(2).unwrap();
        assert_eq!((first.poll(), third.poll()), (Some(1), Some(2)));
        let [mut first, second, mut third] = [(); 3].map(|()| Task::waiting(notify.wait_source()));
        notify.notify_one();
        notify.notify_one();
        // Dropped after it was told.
        drop(second);
        assert_eq!((first.poll(), third.poll()), (Some(()), Some(())));
    });
}

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

/// Sections 2.1 and 2.6: requests that come to a FIFO scheduler of one worker are computed on a
/// pool. The requests overlap: the computation of the first ends only after the last one has begun,
/// so a handler that blocked its worker would hang.
fn requests_are_pipelined(handler: impl Fn(&Pool, u64, &Semaphore) -> u64 + Send + Sync) {
    const REQUESTS: u64 = 20;
    let computes = pool(2);
    let begun = Semaphore::new(0);
    let answers = segue::sched::Runtime::new().workers(1).run_with(Fifo::default, || {
        scope(|s| {
            let (handler, computes, begun) = (&handler, &computes, &begun);
            let requests: Vec<_> = (0..REQUESTS)
                .map(|n| {
                    s.spawn(move || {
                        begun.add_permits(1);
                        handler(computes, n, begun)
                    })
                })
                .collect();
            requests.into_iter().map(|request| request.join().unwrap()).collect::<Vec<_>>()
        })
    });
    assert!(answers.unwrap().into_iter().eq((0..REQUESTS).map(fib)));
}

/// Returns when so many requests have begun.
fn all_have_begun(begun: &Semaphore) {
    drop(begun.acquire_many(20).unwrap());
}

#[test]
fn section_2_6_the_fibonacci_server_with_promises_is_pipelined() {
    requests_are_pipelined(|computes, n, begun| {
        let (resolver, promised) = promise();
        let answer = computes.spawn(move || resolver.fill(fib(n)).unwrap());
        all_have_begun(begun);
        answer.join().unwrap();
        promised.take().unwrap()
    });
}

#[test]
fn section_6_2_the_fibonacci_server_with_mvars_is_pipelined() {
    requests_are_pipelined(|computes, n, begun| {
        let place = std::sync::Arc::new(MVar::empty());
        let computed = std::sync::Arc::clone(&place);
        drop(computes.spawn(move || computed.put(fib(n)).unwrap()));
        all_have_begun(begun);
        place.take().unwrap()
    });
}

#[test]
fn section_6_1_a_producer_and_a_consumer_on_one_worker_and_on_two() {
    const MESSAGES: u64 = 2000;
    let produce = |place: &MVar<u64>| (0..MESSAGES).for_each(|n| place.put(n).unwrap());
    let consume = |place: &MVar<u64>| (0..MESSAGES).for_each(|n| assert_eq!(place.take(), Ok(n)));
    let place = MVar::empty();
    everywhere(|| {
        scope(|s| {
            let place = std::sync::Arc::new(MVar::empty());
            let there = std::sync::Arc::clone(&place);
            s.spawn(move || (0..100).for_each(|n| there.put(n).unwrap()));
            s.spawn(move || (0..100).for_each(|n| assert_eq!(place.take(), Ok(n))));
        });
    });
    let (a, b) = (pool(1), pool(1));
    std::thread::scope(|t| {
        t.spawn(|| a.run(|| produce(&place)).unwrap());
        t.spawn(|| b.run(|| consume(&place)).unwrap());
    });
    // And chapter 4: one of them in monadic style.
    std::thread::scope(|t| {
        t.spawn(|| a.run(|| produce(&place)).unwrap());
        t.spawn(|| {
            block_on(async {
                for n in 0..MESSAGES {
                    assert_eq!(place.take_source().await, n);
                }
            });
        });
    });
    assert!(place.is_empty());
}

/// Section 6.3: producers on one scheduler share items with consumers on another, a part of the
/// fibers is cancelled, and all items arrive in the end. Answers how many were cancelled.
fn items_arrive_although_some_are_cancelled(producers: usize, consumers: usize, percent: usize) -> usize {
    const ITEMS: usize = 1500;
    let (place, made, received, sum) = (MVar::empty(), AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let cancelled = AtomicUsize::new(0);
    // Each fiber is under a token of its own; the first one of each side is never cancelled.
    let side = |count: usize, work: &(dyn Fn() -> Result<(), Cancelled> + Sync)| {
        scope(|s| {
            let tokens: Vec<_> = (0..count).map(|_| CancelToken::new()).collect();
            for token in &tokens {
                let (token, cancelled) = (token.clone(), &cancelled);
                s.spawn(move || {
                    if token.run(work).is_err() {
                        cancelled.fetch_add(1, SeqCst);
                    }
                });
            }
            let _ = yield_now();
            tokens.iter().skip(1).take(count * percent / 100).for_each(CancelToken::cancel);
        });
    };
    let produce = || {
        loop {
            let item = made.fetch_add(1, SeqCst);
            if item >= ITEMS {
                return Ok(());
            }
            if let Err(error) = place.put(item) {
                // The work stays the same: another one sends it.
                segue::shield(|| place.put(error.value)).unwrap();
                return Err(error.error);
            }
        }
    };
    let consume = || {
        loop {
            let item = place.take()?;
            if item == usize::MAX {
                // The end, for the next one.
                segue::shield(|| place.put(item)).unwrap();
                return Ok(());
            }
            sum.fetch_add(item, SeqCst);
            if received.fetch_add(1, SeqCst) + 1 == ITEMS {
                segue::shield(|| place.put(usize::MAX)).unwrap();
            }
        }
    };
    let (a, b) = (pool(1), pool(1));
    std::thread::scope(|t| {
        t.spawn(|| a.run(|| side(producers, &produce)).unwrap());
        t.spawn(|| b.run(|| side(consumers, &consume)).unwrap());
    });
    assert_eq!((received.into_inner(), sum.into_inner()), (ITEMS, (0..ITEMS).sum()));
    assert_eq!((place.try_take(), place.try_take()), (Some(usize::MAX), None));
    cancelled.into_inner()
}

#[test]
fn section_6_3_all_items_arrive_although_producers_and_consumers_are_cancelled() {
    let sides = [(1, 300), (300, 1), (150, 150)];
    let cancelled = |percent| {
        sides.map(|(p, c)| items_arrive_although_some_are_cancelled(p, c, percent)).into_iter().sum::<usize>()
    };
    assert_eq!(cancelled(0), 0);
    assert!([10, 20, 30].into_iter().map(cancelled).sum::<usize>() > 0);
}
