//! std's names do what std's do: each case runs with `std` itself, and with `segue_std` on every
//! scheduler. And what std has no word for: cancellation.

#[path = "../../../segue/tests/common/meet.rs"]
mod meet;

/// Each case as a test, with std's names and with ours.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            on_std::$name();
            everywhere(on_fibers::$name);
        }
    )*};
}

mod places;
mod processes;

mod on_std {
    use std as like;
    include!("cases.rs");
    pub mod unwinding {
        use super::like;
        include!("unwinding.rs");
    }
}

mod on_fibers {
    use segue_std as like;
    include!("cases.rs");
    pub mod unwinding {
        use super::like;
        include!("unwinding.rs");
    }
}

use meet::{AtDrop, everywhere, pool};
use segue::sync::Notify;
use segue::{CancelToken, Cancelled};
use segue_std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, PoisonError, RwLock, mpsc};
use segue_std::thread;
use segue_std::time::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

cases! {
    a_mutex_lets_one_in_at_a_time,
    a_lock_is_poisoned_by_an_owner_that_panics,
    a_lock_that_was_locked_during_a_panic_is_not_poisoned_by_it,
    readers_share_and_writers_do_not,
    a_condition_hands_over,
    a_condition_waits_no_longer_than_it_is_told,
    one_of_each_round_leads,
    what_is_done_once_is_waited_for,
    who_only_waits_is_told_of_the_end,
    who_waits_for_a_closure_that_panics_does_as_well,
    a_lazy_value_is_looked_at_and_changed,
    a_writer_goes_on_as_a_reader,
    a_channel_ends_with_its_senders_and_its_receiver,
    a_bounded_channel_waits_for_room,
    a_join_has_the_result_or_the_panic,
    a_scope_waits_and_lends,
    a_scope_tells_of_a_panic_that_nobody_has_joined,
    a_token_is_taken_by_one_park,
}

/// What `f` unwinds with, when it runs under a token that is cancelled while it waits.
fn cancelled_in(f: impl FnOnce() + Send) {
    let token = CancelToken::new();
    segue::scope(|s| {
        let ended = s.spawn(|| catch_unwind(AssertUnwindSafe(|| token.run(f))));
        segue::sleep(Duration::from_millis(1)).unwrap();
        token.cancel_with("no longer wanted");
        let payload = ended.join().unwrap().expect_err("it came back");
        assert_eq!(payload.downcast_ref::<Cancelled>().unwrap().to_string(), "cancelled: no longer wanted");
    });
}

#[test]
fn a_wait_without_an_error_unwinds_when_it_is_cancelled() {
    everywhere(|| {
        let (mutex, lock, never) = (Mutex::new(()), RwLock::new(()), Condvar::new());
        let (held, written) = (mutex.lock().unwrap(), lock.write().unwrap());
        cancelled_in(|| drop(mutex.lock()));
        cancelled_in(|| drop(lock.read()));
        cancelled_in(|| drop(lock.write()));
        drop((held, written));
        cancelled_in(|| drop(never.wait(mutex.lock().unwrap())));
        cancelled_in(|| drop(never.wait_timeout(mutex.lock().unwrap(), Duration::MAX)));
        assert!(!mutex.is_poisoned() && mutex.try_lock().is_ok(), "a cancelled wait has left its mutex in order");
        cancelled_in(|| assert!(Barrier::new(2).wait().is_leader()));
        // Until it is cancelled.
        cancelled_in(|| thread::sleep(Duration::MAX));
        cancelled_in(thread::park);
        cancelled_in(|| thread::park_timeout(Duration::MAX));
        // Somebody is at it, until he is told.
        let (once, begun, told) = (Once::new(), Notify::new(), Notify::new());
        segue::scope(|s| {
            s.spawn(|| {
                once.call_once(|| {
                    begun.notify_one();
                    told.wait().unwrap();
                });
            });
            begun.wait().unwrap();
            cancelled_in(|| once.call_once(|| unreachable!("somebody is at it")));
            cancelled_in(|| once.call_once_force(|_| unreachable!("somebody is at it")));
            cancelled_in(|| once.wait());
            cancelled_in(|| once.wait_force());
            cancelled_in(|| _ = OnceLock::<u32>::new().wait());
            told.notify_one();
        });
        assert!(once.is_completed());
    });
}

#[test]
fn a_scope_of_a_cancelled_fiber_unwinds_with_that() {
    everywhere(|| {
        // In a wait, and joined by nobody: that is no panic.
        cancelled_in(|| thread::scope(|s| drop(s.spawn(|| thread::sleep(Duration::MAX)))));
        // Before it began.
        let (token, ran) = (CancelToken::new(), AtomicBool::new(false));
        token.cancel_with("no longer wanted");
        let payload = catch_unwind(AssertUnwindSafe(|| {
            token.run(|| thread::scope(|s| drop(s.spawn(|| ran.store(true, SeqCst)))));
        }));
        let payload = payload.expect_err("the work is not done");
        assert_eq!(payload.downcast_ref::<Cancelled>().unwrap().to_string(), "cancelled: no longer wanted");
        assert!(!ran.into_inner());
        // By a time-out of its own, and the others go on.
        let done = AtomicBool::new(false);
        let payload = catch_unwind(AssertUnwindSafe(|| {
            thread::scope(|s| {
                // It ends by the time-out.
                s.spawn(|| segue::timeout(Duration::from_millis(1), || thread::sleep(Duration::MAX)));
                s.spawn(|| {
                    thread::yield_now();
                    done.store(true, SeqCst);
                });
            });
        }));
        assert!(payload.unwrap_err().downcast::<Cancelled>().unwrap().timed_out() && done.into_inner());
    });
}

#[test]
fn a_full_cell_is_made_without_a_wait() {
    let token = CancelToken::new();
    token.cancel();
    let full = token.run(|| OnceLock::from(1).clone());
    assert_eq!(full.into_inner(), Some(1));
}

#[test]
fn a_wait_with_an_error_returns_it_when_it_is_cancelled() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel();
        let (send, receive) = mpsc::channel::<u32>();
        let (bounded, _room) = mpsc::sync_channel(1);
        bounded.send(1).unwrap();
        token.run(|| {
            assert!(receive.recv().is_err());
            assert_eq!(receive.recv_timeout(Duration::MAX), Err(mpsc::RecvTimeoutError::Disconnected));
            assert_eq!(bounded.send(2).unwrap_err().0, 2);
            send.send(3).expect("it need not wait");
        });
        assert_eq!(receive.recv(), Ok(3));
    });
}

#[test]
fn programs_that_never_end_do_so_with_their_runtime() {
    let (ended, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let run = |body: fn()| {
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let (counts, begun) = (Counts(Arc::clone(&ended)), Arc::clone(&begun));
        thread::spawn(move || {
            let _counts = counts;
            begun.fetch_add(1, SeqCst);
            body();
        });
    };
    pool(2)
        .run(|| {
            run(|| {
                loop {
                    // For ever, a little at a time.
                    thread::sleep(Duration::from_millis(1));
                }
            });
            run(|| {
                loop {
                    thread::park();
                }
            });
            run(|| {
                let (_send, receive) = mpsc::channel::<()>();
                for () in &receive {}
            });
            run(|| {
                loop {
                    thread::yield_now();
                }
            });
            while begun.load(SeqCst) < 4 {
                segue::yield_now().unwrap();
            }
        })
        .unwrap();
    assert_eq!(ended.load(SeqCst), 4);
}

#[test]
fn what_may_be_taken_into_a_catch_is_what_std_lets() {
    let (of_std, ours) = (on_std::unwinding::unwind_safety(), on_fibers::unwinding::unwind_safety());
    let differ: Vec<_> = of_std.iter().zip(&ours).filter(|(std, ours)| std != ours).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    // Both answers are there.
    assert!(of_std.iter().any(|(_, is)| is[1]) && of_std.iter().any(|(_, is)| !is[1]));
}

#[test]
fn a_lock_in_a_drop_during_a_panic_waits_with_its_thread() {
    pool(2)
        .run(|| {
            struct Locks<'a>(&'a Mutex<u32>);
            impl Drop for Locks<'_> {
                fn drop(&mut self) {
                    *self.0.lock().unwrap() += 1;
                }
            }
            let (mutex, waits) = (Mutex::new(0), AtomicBool::new(false));
            // Held by a plain thread, and not by a fiber of the worker that is to wait.
            std::thread::scope(|threads| {
                let guard = mutex.lock().unwrap();
                let panicked = threads.spawn(|| {
                    pool(1).run(|| {
                        catch_unwind(AssertUnwindSafe(|| {
                            let _locks = Locks(&mutex);
                            waits.store(true, SeqCst);
                            std::panic::panic_any("on the way out");
                        }))
                    })
                });
                while !waits.load(SeqCst) {
                    std::thread::yield_now();
                }
                drop(guard);
                assert!(panicked.join().unwrap().unwrap().is_err());
            });
            assert_eq!(*mutex.lock().unwrap(), 1);
        })
        .unwrap();
}

#[test]
fn workers_of_a_pool_that_panic_have_successors_that_wait_as_fibers() {
    /// As the sentinels of pools of threads: whoever panics starts another.
    struct Sentinel<'a>(&'a Arc<Jobs>);
    impl Drop for Sentinel<'_> {
        fn drop(&mut self) {
            if thread::panicking() {
                work(self.0);
            }
        }
    }
    type Jobs = (Mutex<mpsc::Receiver<bool>>, Barrier);
    fn work(jobs: &Arc<Jobs>) {
        let jobs = Arc::clone(jobs);
        thread::spawn(move || {
            let _sentinel = Sentinel(&jobs);
            loop {
                // The lock is held during the wait: all others wait for the lock.
                let job = jobs.0.lock().unwrap_or_else(PoisonError::into_inner).recv();
                match job {
                    Ok(panics) => assert!(!panics, "planted"),
                    Err(_) => break,
                }
            }
            jobs.1.wait();
        });
    }
    const WORKERS: usize = 3;
    for workers in 1..=2 {
        pool(workers)
            .run(|| {
                let (send, jobs) = mpsc::channel();
                let jobs = Arc::new((Mutex::new(jobs), Barrier::new(WORKERS + 1)));
                (0..WORKERS).for_each(|_| work(&jobs));
                for panics in [true, false, true, true, false] {
                    send.send(panics).unwrap();
                    thread::yield_now();
                }
                drop(send);
                // None of them is lost.
                jobs.1.wait();
            })
            .unwrap();
    }
}

/// Makes a wait in a `Drop` of a fiber that was cancelled, and of one that panics. `act` is called
/// meanwhile, by a plain thread.
fn in_a_drop(wait: impl Fn() + Sync, act: impl Fn()) {
    for panics in [false, true] {
        let (token, begun) = (CancelToken::new(), AtomicBool::new(false));
        token.cancel();
        let unwinds = || {
            let _waits = AtDrop(|| {
                begun.store(true, SeqCst);
                wait();
            });
            if panics {
                std::panic::panic_any("on the way out");
            }
            thread::yield_now();
        };
        std::thread::scope(|threads| {
            let unwound =
                threads.spawn(|| pool(1).run(|| catch_unwind(AssertUnwindSafe(|| token.run(unwinds)))).unwrap());
            while !begun.load(SeqCst) {
                std::thread::yield_now();
            }
            act();
            assert_eq!(unwound.join().unwrap().unwrap_err().is::<Cancelled>(), !panics);
        });
    }
}

#[test]
fn any_wait_in_a_drop_during_an_unwinding_waits_with_its_thread() {
    const SOON: Duration = Duration::from_millis(1);
    let nothing = || ();
    let takes_time = |wait: &(dyn Fn() + Sync)| {
        in_a_drop(
            || {
                let begun = Instant::now();
                wait();
                assert!(begun.elapsed() >= SOON);
            },
            nothing,
        );
    };
    // The sleep is the wait.
    takes_time(&|| thread::sleep(SOON));
    takes_time(&|| thread::park_timeout(SOON));
    takes_time(&|| {
        let mutex = Mutex::new(());
        let (guard, result) = Condvar::new().wait_timeout(mutex.lock().unwrap(), SOON).unwrap();
        drop(guard);
        assert!(result.timed_out());
    });
    in_a_drop(thread::yield_now, nothing);
    let parked = Mutex::new(None);
    let park = || {
        *parked.lock().unwrap() = Some(thread::current());
        thread::park();
    };
    let unpark = || {
        loop {
            match parked.lock().unwrap().take() {
                Some(parked) => break parked.unpark(),
                None => std::thread::yield_now(),
            }
        }
    };
    in_a_drop(park, unpark);
    let barrier = Barrier::new(2);
    in_a_drop(|| _ = barrier.wait(), || _ = barrier.wait());

    let (turn, changed) = (Mutex::new(false), Condvar::new());
    let give = || {
        *turn.lock().unwrap() = true;
        changed.notify_all();
    };
    let take = || *changed.wait_while(turn.lock().unwrap(), |turn| !*turn).unwrap() = false;
    in_a_drop(take, give);
    let take_in_time = || {
        let hour = Duration::from_secs(3600);
        let (mut turn, result) = changed.wait_timeout_while(turn.lock().unwrap(), hour, |turn| !*turn).unwrap();
        assert!(!result.timed_out());
        *turn = false;
    };
    in_a_drop(take_in_time, give);

    // A join, and a scope.
    let joined: Mutex<Vec<_>> = Mutex::new((0..2).map(|_| thread::spawn(thread::park)).collect());
    let parked: Mutex<Vec<_>> = Mutex::new(joined.lock().unwrap().iter().map(|one| one.thread().clone()).collect());
    let join = || {
        let one = joined.lock().unwrap().pop().unwrap();
        one.join().unwrap();
    };
    in_a_drop(join, || parked.lock().unwrap().pop().unwrap().unpark());
    let told = Notify::new();
    let scoped = || thread::scope(|s| s.spawn(|| told.wait().unwrap()).join().unwrap());
    in_a_drop(scoped, || told.notify_one());

    let (once, cell, lazy) = (Once::new(), OnceLock::new(), LazyLock::new(|| 7));
    in_a_drop(|| once.wait(), || once.call_once(nothing));
    in_a_drop(|| once.wait_force(), nothing);
    in_a_drop(|| once.call_once(|| unreachable!("it is done")), nothing);
    in_a_drop(|| assert_eq!(*cell.wait(), 7), || _ = cell.set(7));
    in_a_drop(|| assert_eq!(*cell.get_or_init(|| 8), 7), nothing);
    in_a_drop(|| assert_eq!(cell.set(8), Err(8)), nothing);
    in_a_drop(|| assert_eq!(*lazy, 7), nothing);
}

#[test]
fn time_is_the_schedulers() {
    let begun = std::time::Instant::now();
    segue::testing::Sim::new(1)
        .run(|| {
            let begun = Instant::now();
            // In simulated time.
            thread::sleep(Duration::from_secs(24 * 3600));
            assert_eq!(begun.elapsed(), Duration::from_secs(24 * 3600));
            assert_eq!(Instant::now() - begun, begun.elapsed());
            assert_eq!(begun + begun.elapsed(), Instant::now());
        })
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3600));
}
