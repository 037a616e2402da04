//! Promises that are given up, and the hook by which the resolver's side hears of it.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, block_on, everywhere};
use segue::channel::oneshot;
use segue::sync::{Promise, Resolver, promise};
use segue::testing::Explore;
use segue::{CancelToken, check, scope, shield, sleep, spawn, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a hook was called, and how many of them are left.
#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

impl Calls {
    fn hook(&self) -> impl FnOnce() + Send + 'static {
        let calls = self.clone();
        move || _ = calls.0.fetch_add(1, SeqCst)
    }

    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }

    fn hooks(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

fn hooked<T: Send>() -> (Resolver<T>, Promise<T>, Calls) {
    let (resolver, promised) = promise();
    let calls = Calls::default();
    resolver.on_close(calls.hook());
    (resolver, promised, calls)
}

#[test]
fn it_is_called_once_however_the_promise_goes() {
    let gone = |how: &dyn Fn(Promise<u8>)| {
        let (resolver, promised, calls) = hooked();
        how(promised);
        assert_eq!((calls.get(), calls.hooks(), resolver.is_closed()), (1, 0, true));
        assert_eq!(resolver.fill(7).unwrap_err().value, 7);
        assert_eq!(calls.get(), 1);
    };
    everywhere(|| {
        gone(&|promised| drop(promised));
        gone(&|promised| {
            let token = CancelToken::new();
            token.cancel();
            assert!(token.run(|| promised.take()).is_err());
        });
        gone(&|promised| assert!(timeout(Duration::from_millis(1), || promised.take()).is_err()));
        gone(&|promised| {
            scope(|s| {
                drop(s.spawn(|| promised.take()));
                let _ = yield_now();
                s.cancel();
            });
        });
        gone(&|mut promised| drop(Task::waiting(Box::pin(async move { promised.take_source().await }))));
        gone(&|promised| assert!(spawn(move || promised).join().is_ok()));
        gone(&|promised| {
            let panics = || {
                let _promised = promised;
                resume_unwind(Box::new("planted"))
            };
            assert!(catch_unwind::<_, ()>(AssertUnwindSafe(panics)).is_err());
        });
    });
}

#[test]
fn it_is_dropped_uncalled_if_the_value_comes_or_never_will() {
    everywhere(|| {
        let (resolver, promised, calls) = hooked();
        resolver.fill(String::from("here")).unwrap();
        assert_eq!((calls.hooks(), promised.take().as_deref()), (0, Ok("here")));
        let (resolver, promised, broken) = hooked::<u8>();
        drop(resolver);
        assert!(broken.hooks() == 0 && promised.take().is_err());
        // The promise goes first, and then the resolver; neither of the two is used.
        let (resolver, promised, unused) = hooked::<u8>();
        drop((promised, resolver));
        assert_eq!([calls.get(), broken.get(), unused.get(), unused.hooks()], [0, 0, 1, 0]);
    });
}

#[test]
fn a_wait_by_reference_that_is_cancelled_does_not_give_the_promise_up() {
    everywhere(|| {
        let (resolver, promised, calls) = hooked();
        scope(|s| {
            let other = s.spawn(|| promised.wait().copied());
            for _ in 0..2 {
                assert!(timeout(Duration::from_millis(1), || promised.wait().copied()).is_err());
            }
            drop(Task::waiting(promised.wait_source()));
            assert!(calls.get() == 0 && !resolver.is_closed(), "another one waits, and so may this one again");
            resolver.fill(3).unwrap();
            assert_eq!(other.join().unwrap(), Ok(3));
        });
        assert_eq!((promised.wait(), calls.get()), (Ok(&3), 0));
    });
}

#[test]
fn one_that_comes_too_late_is_called_at_once_and_one_that_is_replaced_never() {
    everywhere(|| {
        let (resolver, promised, replaced) = hooked::<u8>();
        let second = Calls::default();
        resolver.on_close(second.hook());
        assert_eq!(replaced.hooks(), 0);
        drop(promised);
        let late = Calls::default();
        resolver.on_close(late.hook());
        resolver.on_close(late.hook());
        assert_eq!([replaced.get(), second.get(), late.get(), late.hooks()], [0, 1, 2, 0]);
        // A panic in the drop of one that is replaced is its replacer's, and the new one stands.
        struct Sour;
        impl Drop for Sour {
            fn drop(&mut self) {
                resume_unwind(Box::new("sour"));
            }
        }
        let (resolver, promised) = promise::<u8>();
        let sour = Sour;
        resolver.on_close(move || std::mem::forget(sour));
        let calls = Calls::default();
        assert!(catch_unwind(AssertUnwindSafe(|| resolver.on_close(calls.hook()))).is_err());
        drop(promised);
        assert_eq!(calls.get(), 1);
    });
}

#[test]
fn it_runs_after_those_who_wait_for_the_end_were_told_and_may_use_the_resolver() {
    everywhere(|| {
        let (resolver, promised) = promise::<u8>();
        let place = Arc::new(Mutex::new(Some(resolver)));
        let log = Arc::new(Mutex::new(Vec::new()));
        let (hook_place, hook_log) = (Arc::clone(&place), Arc::clone(&log));
        let on_close = move || {
            let resolver = hook_place.lock().unwrap().take().unwrap();
            // Nothing is locked: it looks, waits, adds another one, and fills.
            assert!(resolver.is_closed() && resolver.closed_source().wait().is_ok());
            let log = Arc::clone(&hook_log);
            resolver.on_close(move || log.lock().unwrap().push("a hook of the hook"));
            assert_eq!(resolver.fill(1).unwrap_err().value, 1);
            scope(|s| drop(s.spawn(|| hook_log.lock().unwrap().push("a fiber of the hook"))));
        };
        place.lock().unwrap().as_ref().unwrap().on_close(on_close);
        drop(promised);
        assert_eq!(*log.lock().unwrap(), ["a hook of the hook", "a fiber of the hook"]);
        assert!(place.lock().unwrap().is_none());

        let (resolver, promised) = promise::<u8>();
        let mut task = Task::waiting(resolver.closed_source());
        let told = Arc::new(AtomicBool::new(false));
        let hears = Arc::clone(&told);
        resolver.on_close(move || hears.store(true, SeqCst));
        drop(promised);
        assert!(told.load(SeqCst) && task.wakes() == 1 && task.poll().is_some());
    });
}

#[test]
fn it_waits_as_its_caller_does() {
    everywhere(|| {
        let waits = || {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let (resolver, promised) = promise::<u8>();
            let sees = Arc::clone(&seen);
            resolver.on_close(move || {
                let cleanup = shield(|| sleep(Duration::from_micros(1)));
                sees.lock().unwrap().extend([check().is_ok(), cleanup.is_ok()]);
            });
            (resolver, promised, move || seen.lock().unwrap().clone())
        };
        let (_resolver, promised, seen) = waits();
        drop(promised);
        assert_eq!(seen(), [true, true]);
        let ((_resolver, promised, seen), token) = (waits(), CancelToken::new());
        token.cancel();
        assert!(token.run(|| promised.take()).is_err());
        assert_eq!(seen(), [false, true], "the take drops it where it was called");
    });
}

#[test]
fn a_panic_of_it_is_that_of_the_drop_and_loses_nothing() {
    everywhere(|| {
        let sour = || {
            let (resolver, promised) = promise();
            resolver.on_close(|| resume_unwind(Box::new("sour")));
            (resolver, promised)
        };
        let (resolver, promised) = sour();
        let panic = catch_unwind(AssertUnwindSafe(|| drop(promised))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"sour"));
        assert_eq!(resolver.fill(String::from("back")).unwrap_err().value, "back");
        // That of one that is called at once is its giver's.
        let (resolver, promised) = promise::<u8>();
        drop(promised);
        let late = || resolver.on_close(|| resume_unwind(Box::new("late")));
        assert_eq!(catch_unwind(AssertUnwindSafe(late)).unwrap_err().downcast_ref(), Some(&"late"));
        // During another panic there is no second one.
        let (resolver, promised) = sour();
        let both = || {
            let _promised = promised;
            resume_unwind(Box::new("first"))
        };
        let panic = catch_unwind::<_, ()>(AssertUnwindSafe(both)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"first"));
        assert!(resolver.is_closed());
        drop(resolver);
    });
}

#[test]
fn conservation_in_every_schedule_the_value_is_taken_or_the_hook_called() {
    let outcomes: [AtomicUsize; 3] = Default::default();
    Explore::exhaustive(20_000).check(|| {
        let (resolver, promised) = promise();
        let calls = [Calls::default(), Calls::default()];
        let kept = scope(|s| {
            let filler = s.spawn(|| {
                resolver.on_close(calls[0].hook());
                resolver.on_close(calls[1].hook());
                resolver.fill(1)
            });
            drop(promised);
            filler.join().unwrap().is_ok()
        });
        let called = [calls[0].get(), calls[1].get()];
        assert_eq!(calls.each_ref().map(Calls::hooks), [0, 0]);
        // Called at once, twice; the first before it is replaced, and the second at once; the
        // second; or the promise is filled, and dropped full.
        let outcome = match (kept, called) {
            (false, [1, 1]) => 0,
            (false, [0, 1]) => 1,
            (true, [0, 0]) => 2,
            other => panic!("{other:?}"),
        };
        outcomes[outcome].fetch_add(1, SeqCst);
    });
    assert!(outcomes.iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
}

#[test]
fn conservation_on_threads_the_value_is_taken_or_the_hook_called() {
    let rounds: u32 = if cfg!(miri) { 20 } else { 3_000 };
    let (mut kept, mut returned) = (0, 0);
    std::thread::scope(|t| {
        let (promises, next) = std::sync::mpsc::channel::<(u32, Resolver<Box<u32>>, Calls)>();
        let (results, outcome) = std::sync::mpsc::channel();
        t.spawn(move || {
            for (round, resolver, calls) in next {
                if !round.is_multiple_of(3) {
                    resolver.on_close(calls.hook());
                }
                drop(calls);
                results.send(resolver.fill(Box::new(round)).map_err(|back| *back.value)).unwrap();
            }
        });
        for round in 0..rounds {
            let (resolver, promised) = promise();
            let calls = Calls::default();
            if round.is_multiple_of(3) {
                resolver.on_close(calls.hook());
            }
            promises.send((round, resolver, calls.clone())).unwrap();
            (0..round % 50).for_each(|_| std::hint::spin_loop());
            drop(promised);
            match outcome.recv().unwrap() {
                Ok(()) => {
                    kept += 1;
                    assert_eq!(calls.get(), 0);
                }
                Err(back) => {
                    returned += 1;
                    assert_eq!((back, calls.get()), (round, 1));
                }
            }
            assert_eq!(calls.hooks(), 0);
        }
    });
    println!("{kept} kept, {returned} returned");
    assert!(kept + returned == rounds && returned > 0);
}

#[test]
fn an_answer_channel_tells_its_sender_too() {
    everywhere(|| {
        let (sender, receiver) = oneshot::channel::<u8>();
        let calls = Calls::default();
        sender.on_close(calls.hook());
        drop(receiver);
        assert_eq!((calls.get(), sender.send(1).unwrap_err().value), (1, 1));
    });
}

/// Work outside of Segue: threads that answer by callback, and look at a flag.
struct Outside {
    running: Arc<AtomicUsize>,
}

impl Outside {
    fn ask(&self, number: u32) -> Promise<u32> {
        let (resolver, answer) = promise();
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        resolver.on_close(move || stops.store(true, SeqCst));
        let running = Arc::clone(&self.running);
        running.fetch_add(1, SeqCst);
        std::thread::spawn(move || {
            while number != 0 && !stop.load(SeqCst) {
                std::thread::yield_now();
            }
            running.fetch_sub(1, SeqCst);
            drop(resolver.fill(number + 1));
        });
        answer
    }
}

#[test]
fn outer_work_stops_when_what_waits_for_it_is_cancelled() {
    let outside = Outside { running: Arc::default() };
    for workers in [1, 2] {
        meet::pool(workers)
            .run(|| {
                assert_eq!(outside.ask(0).take(), Ok(1));
                assert!(timeout(Duration::from_millis(1), || outside.ask(1).take()).is_err());
                scope(|s| {
                    let outside = &outside;
                    (1..4).for_each(|n| drop(s.spawn(move || outside.ask(n).take().is_err())));
                    let _ = yield_now();
                    s.cancel();
                });
                // A task that is dropped, and one that chooses something else.
                drop(Task::waiting(Box::pin(async { outside.ask(1).wait_source().await.is_ok() })));
                let first = {
                    let mut answer = outside.ask(1);
                    block_on(answer.take_source().or(segue::after(Duration::from_millis(1))))
                };
                assert!(matches!(first, segue::Either::Right(())));
            })
            .unwrap();
    }
    // None runs on for ever.
    while outside.running.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
}
