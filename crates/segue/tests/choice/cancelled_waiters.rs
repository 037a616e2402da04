//! What `cancel` has marked is served no more, although its own worker has had no time to look: the
//! waiter behind it is.
#![cfg(feature = "sched")]

use segue::channel::broadcast;
use segue::core::Outcome;
use segue::sync::{Condvar, Latch, MVar, Mutex, Notify, RwLock, Semaphore, promise};
use segue::testing::Sim;
use segue::{CancelToken, JoinError, after, scope, shield, timeout, yield_now};
use std::sync::mpsc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// What became of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Served,
    Cancelled,
}
use Seen::{Cancelled, Served};

fn seen<T, E>(result: &Result<T, E>) -> Seen {
    if result.is_ok() { Served } else { Cancelled }
}

/// Runs `body` where the one worker is kept busy by whoever runs, so that it can't look: in a
/// simulation, and on a worker.
fn on_one_worker(body: impl Fn() + Send + Sync) {
    Sim::new(0).run(&body).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    segue::runtime().workers(1).run(&body).unwrap();
}

/// Lets everybody else run until they wait.
fn settle() {
    (0..16).for_each(|_| yield_now().unwrap());
}

/// Two fibers wait, one behind the other; the first is cancelled, and then `serve` serves one, on
/// this thread or on another, while the worker of both is busy. Answers what they saw.
fn cancelled_and_behind(
    elsewhere: bool,
    first: impl Fn() -> Seen + Sync,
    second: impl Fn() -> Seen + Sync,
    serve: impl FnOnce() + Send,
) -> [Seen; 2] {
    scope(|s| {
        let token = CancelToken::new();
        let cancelled = s.spawn({
            let (token, first) = (token.clone(), &first);
            move || token.run(first)
        });
        settle();
        // It would wait for ever if the first one were served.
        let behind = s.spawn(|| timeout(LONG, &second));
        settle();
        token.cancel();
        if elsewhere {
            std::thread::scope(|t| t.spawn(serve).join().unwrap());
        } else {
            serve();
        }
        [cancelled.join().unwrap(), behind.join().unwrap()]
    })
}

/// Both ways, on both schedulers, with what `make` makes.
fn check<S: Sync>(
    make: impl Fn() -> S + Send + Sync,
    wait: impl Fn(&S) -> Seen + Send + Sync,
    serve: impl Fn(&S) + Send + Sync,
) {
    check_two(make, &wait, &wait, serve);
}

fn check_two<S: Sync>(
    make: impl Fn() -> S + Send + Sync,
    first: impl Fn(&S) -> Seen + Send + Sync,
    second: impl Fn(&S) -> Seen + Send + Sync,
    serve: impl Fn(&S) + Send + Sync,
) {
    on_one_worker(|| {
        for elsewhere in [false, true] {
            let on = make();
            let saw = cancelled_and_behind(elsewhere, || first(&on), || second(&on), || serve(&on));
            assert_eq!(saw, [Cancelled, Served], "served elsewhere: {elsewhere}");
        }
    });
}

#[test]
fn a_value_goes_to_the_taker_behind() {
    check(MVar::<u32>::empty, |cell| seen(&cell.take()), |cell| cell.try_put(9).unwrap());
}

#[test]
fn room_goes_to_the_putter_behind() {
    let put = |value| move |cell: &MVar<u32>| cell.put(value).map_or(Cancelled, |()| Served);
    check_two(
        || MVar::new(0),
        put(1),
        put(2),
        |cell| {
            assert_eq!(cell.try_take(), Some(0));
            assert_eq!(cell.try_take(), Some(2), "the value of the one behind");
        },
    );
}

#[test]
fn room_in_a_broadcast_goes_to_the_sender_behind() {
    let send = |value| {
        move |(sender, _): &(broadcast::Sender<u32, broadcast::Waits>, Mutex<broadcast::Receiver<u32>>)| {
            seen(&sender.send(value))
        }
    };
    check_two(
        || {
            let (sender, receiver) = broadcast::lossless(1);
            sender.send(0).unwrap();
            (sender, Mutex::new(receiver))
        },
        send(1),
        send(2),
        |(_, receiver)| {
            let mut receiver = receiver.try_lock().unwrap();
            assert_eq!(receiver.try_recv(), Some(Ok(0)));
            assert_eq!(receiver.try_recv(), Some(Ok(2)), "the message of the one behind");
        },
    );
}

#[test]
fn a_choice_is_refused_in_each_of_its_arms() {
    let take = |cell: &MVar<u32>| seen(&cell.take_source().or(after(Duration::MAX)).wait());
    check(MVar::<u32>::empty, take, |cell| cell.try_put(9).unwrap());
}

#[test]
fn a_promise_is_refused_and_kept_for_the_others() {
    on_one_worker(|| {
        let (resolver, promise) = promise::<u32>();
        let wait = || seen(&promise.wait());
        assert_eq!(cancelled_and_behind(false, wait, wait, || resolver.fill(1).unwrap()), [Cancelled, Served]);
    });
}

#[test]
fn a_permit_goes_to_the_one_behind() {
    check(
        || Semaphore::new(0),
        |semaphore| seen(&semaphore.acquire().map(|permit| permit.forget())),
        |semaphore| semaphore.add_permits(1),
    );
}

#[test]
fn a_request_that_is_too_large_holds_nobody_off_once_it_is_cancelled() {
    check_two(
        || Semaphore::new(0),
        |semaphore| seen(&semaphore.acquire_many(5)),
        |semaphore| seen(&semaphore.acquire()),
        |semaphore| semaphore.add_permits(1),
    );
    on_one_worker(|| {
        let (semaphore, token) = (Semaphore::new(1), CancelToken::new());
        scope(|s| {
            let large = s.spawn(|| token.run(|| seen(&semaphore.acquire_many(5))));
            settle();
            assert!(semaphore.try_acquire().is_none(), "it is in line");
            token.cancel();
            assert!(semaphore.try_acquire().is_some(), "it is not any more");
            assert_eq!(large.join().unwrap(), Cancelled);
        });
    });
}

#[test]
fn a_lock_goes_to_the_one_behind() {
    on_one_worker(|| {
        let lock = Mutex::new(0);
        let held = lock.lock().unwrap();
        let wait = || seen(&lock.lock());
        assert_eq!(cancelled_and_behind(false, wait, wait, || drop(held)), [Cancelled, Served]);

        let lock = RwLock::new(0);
        let held = lock.write().unwrap();
        let saw = cancelled_and_behind(false, || seen(&lock.write()), || seen(&lock.read()), || drop(held));
        assert_eq!(saw, [Cancelled, Served]);
        let held = lock.write().unwrap();
        let saw = cancelled_and_behind(false, || seen(&lock.read()), || seen(&lock.write()), || drop(held));
        assert_eq!(saw, [Cancelled, Served]);
    });
}

#[test]
fn a_writer_that_is_cancelled_holds_no_reader_off() {
    on_one_worker(|| {
        let (lock, token) = (RwLock::new(0), CancelToken::new());
        let reads = lock.read().unwrap();
        scope(|s| {
            let writer = s.spawn(|| token.run(|| seen(&lock.write())));
            settle();
            let reader = s.spawn(|| seen(&lock.read()));
            settle();
            assert!(lock.try_read().is_none(), "a writer waits");
            token.cancel();
            assert!(lock.try_read().is_some(), "none any more");
            assert_eq!([writer.join().unwrap(), reader.join().unwrap()], [Cancelled, Served]);
        });
        drop(reads);
    });
}

#[test]
fn a_notification_goes_to_the_one_behind() {
    check(Notify::new, |notify| seen(&notify.wait()), Notify::notify_one);
}

#[test]
fn a_notified_condition_goes_to_the_one_behind() {
    let wait = |(lock, condition): &(Mutex<u32>, Condvar)| seen(&condition.wait(lock.lock().unwrap()));
    check(|| (Mutex::new(0), Condvar::new()), wait, |(_, condition)| condition.notify_one());
}

#[test]
fn who_waits_for_an_end_that_comes_for_all_is_refused() {
    check(|| Latch::new(1), |latch| seen(&latch.wait()), |latch| latch.count_down(1));
}

#[test]
fn a_join_is_refused_and_drops_what_the_fiber_has_returned() {
    struct Result(mpsc::Sender<()>);
    impl Drop for Result {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    segue::runtime()
        .workers(1)
        .run(|| {
            let (token, (dropped, drops)) = (CancelToken::new(), mpsc::channel());
            let (end, (send, handle)) = (mpsc::channel(), mpsc::channel());
            // The scope of this thread ends when its fiber has done all that it does, elsewhere.
            let elsewhere = std::thread::spawn(move || {
                scope(|s| {
                    let fiber = s.spawn(move || {
                        end.1.recv().unwrap();
                        Result(dropped)
                    });
                    send.send(fiber).unwrap();
                });
            });
            let joins = segue::spawn({
                let (token, handle) = (token.clone(), handle.recv().unwrap());
                move || token.run(|| handle.join().map(drop))
            });
            settle();
            token.cancel();
            end.0.send(()).unwrap();
            elsewhere.join().unwrap();
            assert!(matches!(joins.join().unwrap(), Err(JoinError::WaitCancelled(..))));
            drops.recv().unwrap();
        })
        .unwrap();
}

#[test]
fn a_bare_trigger_is_refused_and_says_so() {
    on_one_worker(|| {
        let (trigger, token) = (segue::core::Trigger::new(), CancelToken::new());
        scope(|s| {
            let waits = s.spawn(|| token.run(|| trigger.wait(segue::core::WaitsFor::new("a test"))));
            settle();
            token.cancel();
            assert!(!trigger.signal(0));
            assert_eq!(waits.join().unwrap(), Outcome::Cancelled);
            assert_eq!(trigger.outcome(), Some(Outcome::Cancelled));
        });
    });
}

#[test]
fn a_cancellation_reaches_those_who_wait_further_in() {
    let inside = |cell: &MVar<u32>| timeout(LONG, || scope(|_| CancelToken::new().run(|| seen(&cell.take()))));
    check_two(MVar::<u32>::empty, inside, |cell| seen(&cell.take()), |cell| cell.try_put(9).unwrap());
}

#[test]
fn a_shield_is_respected() {
    let shielded = |cell: &MVar<u32>| shield(|| seen(&cell.take()));
    let shielded_inside = |cell: &MVar<u32>| {
        let _waited_once = yield_now();
        shield(|| scope(|_| timeout(LONG, || seen(&cell.take()))))
    };
    on_one_worker(|| {
        for elsewhere in [false, true] {
            let cell = MVar::empty();
            let serve = || {
                cell.try_put(1).unwrap();
                assert!(cell.try_put(2).is_ok() && cell.is_empty(), "both are served");
            };
            let saw = cancelled_and_behind(elsewhere, || shielded(&cell), || shielded_inside(&cell), serve);
            assert_eq!(saw, [Served, Served]);
            let saw = cancelled_and_behind(elsewhere, || shielded_inside(&cell), || shielded(&cell), serve);
            assert_eq!(saw, [Served, Served]);
        }
    });
}

#[test]
fn what_was_handed_over_before_the_cancellation_is_kept() {
    on_one_worker(|| {
        let (cell, token) = (MVar::empty(), CancelToken::new());
        scope(|s| {
            let takes = s.spawn(|| token.run(|| cell.take()));
            settle();
            cell.try_put(7).unwrap();
            token.cancel();
            assert_eq!(takes.join().unwrap(), Ok(7));
        });
    });
}

#[test]
fn a_fiber_that_has_refused_waits_as_any_other_afterwards() {
    on_one_worker(|| {
        let (cell, token) = (MVar::<u32>::empty(), CancelToken::new());
        scope(|s| {
            let fiber = s.spawn(|| {
                assert!(token.run(|| cell.take()).is_err());
                // By a waker, and by a trigger.
                assert_eq!(segue::core::wait_future(async { cell.take_source().await }), Ok(2));
                assert_eq!(cell.take(), Ok(3));
            });
            settle();
            token.cancel();
            cell.try_put(1).unwrap();
            assert_eq!(cell.try_take(), Some(1), "refused");
            for value in [2, 3] {
                settle();
                cell.try_put(value).unwrap();
            }
            fiber.join().unwrap();
        });
    });
}
