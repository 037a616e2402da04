//! How schedulers end: within the grace, by cancellation, or not before the deadline. In virtual
//! time where that is what it is about; by real threads where it is about those.

use crate::common::{Meet, STAND_IN, in_child, scaled};
use segue_core::{
    Builder, CancelToken, Cancelled, Either, after, blocking, check, finishing_source, is_cancelled, is_finishing, now,
    scope, shield, sleep, spawn, spawn_task, yield_now,
};
use segue_sched::{Fifo, Handle, Pool, Runtime, Shutdown, Sim, Survivors, blocking_here, move_to};
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Some time, where the real one is waited for.
const MOMENT: Duration = Duration::from_millis(5);

#[track_caller]
fn never() -> Result<(), Cancelled> {
    after(Duration::MAX).wait()
}

/// Serves until it is asked to finish, and then says goodbye, which takes a second.
fn serve() -> Result<u32, Cancelled> {
    let mut served = 0;
    loop {
        match after(SECOND).or(finishing_source()).wait()? {
            Either::Left(()) => served += 1,
            Either::Right(()) => break sleep(SECOND).map(|()| served),
        }
    }
}

/// Runs `body` in simulations that end in this way, each with another schedule.
#[track_caller]
fn simulated<T>(shutdown: &Shutdown, body: impl Fn() -> T, look: impl Fn(T)) {
    for seed in 0..20 {
        let run = Sim::new(seed).shutdown(shutdown.clone()).run(&body);
        look(run.unwrap_or_else(|deadlock| panic!("{deadlock}")));
    }
}

/// What a shutdown reports; each report lets those go on that wait for one.
#[derive(Clone)]
struct Reports(Arc<(Mutex<Vec<Survivors>>, Meet<()>)>);

impl Reports {
    fn new() -> Self {
        Self(Arc::new((Mutex::default(), Meet::new())))
    }

    fn of(&self, shutdown: Shutdown) -> Shutdown {
        let reports = self.clone();
        shutdown.on_survivors(move |survivors| {
            reports.0.0.lock().unwrap().push(survivors.clone());
            reports.0.1.put(());
        })
    }

    fn wait(&self) {
        shield(|| self.0.1.wait()).unwrap();
    }

    fn count(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }

    /// The only report that there was.
    #[track_caller]
    fn only(&self) -> Survivors {
        let reports = self.0.0.lock().unwrap();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports[0].clone()
    }
}

/// The names of the fibers that wait, in order.
fn names(survivors: &Survivors) -> Vec<&str> {
    let mut names: Vec<_> = survivors.fibers.iter().map(|fiber| fiber.fiber.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn what_finishes_within_the_grace_is_not_cancelled_and_ends_the_run_at_once() {
    let reports = Reports::new();
    let body = || {
        let server = spawn(serve);
        sleep(3 * SECOND + SECOND / 2).unwrap();
        assert!(!is_finishing());
        let clock = CancelToken::new();
        spawn(move || drop(clock.cancelled_source().wait()));
        let ended = spawn(|| finishing_source().wait().map(|()| now()));
        (server, ended, now())
    };
    // The one that waits for its token does not ask, and takes the whole grace.
    simulated(&reports.of(Shutdown::new().grace(5 * SECOND).deadline(HOUR)), body, |(server, ended, returned)| {
        assert_eq!(server.join().unwrap(), Ok(3), "its goodbye is said");
        assert_eq!(ended.join().unwrap(), Ok(returned));
    });
    // Nobody else is there: an endless grace takes a second.
    let body = || {
        let server = spawn(serve);
        sleep(SECOND / 2).unwrap();
        let before = now();
        spawn(move || server.join().map(|served| (served, now() - before)).ok())
    };
    simulated(&reports.of(Shutdown::new().grace(Duration::MAX).deadline(Duration::ZERO)), body, |ended| {
        assert_eq!(ended.join().unwrap(), Some((Ok(0), SECOND)));
    });
    assert_eq!(reports.count(), 0);
}

#[test]
fn what_is_not_over_after_the_grace_is_cancelled_and_named() {
    let reports = Reports::new();
    let body = || {
        let before = now();
        let deaf = |name| Builder::new().name(name).spawn(move || (never().unwrap_err().to_string(), now() - before));
        [deaf("deaf"), deaf("mute")]
    };
    simulated(&reports.of(Shutdown::new().grace(5 * SECOND).deadline(HOUR)), body, |fibers| {
        for fiber in fibers {
            let (why, after) = fiber.join().unwrap();
            assert_eq!(after, 5 * SECOND);
            let both = ["`deaf`, `mute`", "`mute`, `deaf`"];
            let text = |names| format!("cancelled: asked to finish, and not over after 5s: {names}");
            assert!(both.map(text).contains(&why), "{why}");
        }
    });
    assert_eq!(reports.count(), 0, "they have ended by then");
}

#[test]
fn what_survives_the_deadline_is_reported_with_what_it_waits_for() {
    for seed in 0..20 {
        let reports = Reports::new();
        let shutdown = reports.of(Shutdown::new().grace(5 * SECOND).deadline(7 * SECOND));
        let shields = reports.clone();
        let shielded = move || shields.wait();
        let stubborn = |reports: Reports| {
            move || {
                // It swallows each error.
                while reports.count() == 0 {
                    let _ = check();
                    shield(|| sleep(SECOND)).unwrap();
                }
            }
        };
        let run = Sim::new(seed).shutdown(shutdown).run(|| {
            Builder::new().name("shielded").spawn(shielded);
            Builder::new().name("stubborn").spawn(stubborn(reports.clone()));
            Builder::new().name("obedient").spawn(never);
            spawn_task(async { after(Duration::MAX).await });
            now()
        });
        let survivors = reports.only();
        assert_eq!(names(&survivors), ["fiber `shielded`", "fiber `stubborn`"]);
        assert_eq!((survivors.deadline, survivors.exit_status), (7 * SECOND, None));
        assert!(survivors.workers.is_empty() && survivors.others.is_empty());
        let text = survivors.to_string();
        assert!(text.starts_with("shutdown: not over 7s after everything was cancelled\n"), "{text}");
        assert!(text.contains(&format!("  fiber `shielded` waits for a meeting at {}:", file!())), "{text}");
        assert!(text.contains(&format!("  fiber `stubborn` waits for a point in time at {}:", file!())), "{text}");
        run.unwrap();
    }
}

#[test]
fn without_a_grace_everything_is_cancelled_at_once() {
    let reports = Reports::new();
    for shutdown in [Shutdown::new(), Shutdown::new().grace(Duration::ZERO).deadline(SECOND)] {
        let body = || {
            let before = now();
            let asked = spawn(move || (finishing_source().wait(), now() - before));
            yield_now().unwrap();
            asked
        };
        simulated(&reports.of(shutdown), body, |asked| {
            // Cancelled before it began, or in its wait.
            if let Ok((asked, took)) = asked.join() {
                assert!(asked.is_err() && took.is_zero());
            }
        });
    }
    assert_eq!(reports.count(), 0);
}

#[test]
fn a_deadline_of_zero_leaves_no_time_and_an_endless_one_does_not_come() {
    let reports = Reports::new();
    let shutdown = reports.of(Shutdown::new().deadline(Duration::ZERO));
    let released = reports.clone();
    Sim::new(1).shutdown(shutdown).run(|| drop(Builder::new().name("late").spawn(move || released.wait()))).unwrap();
    // Before it began it was cancelled, or it is named.
    assert!(reports.count() <= 1);

    let reports = Reports::new();
    let shutdown = reports.of(Shutdown::new().deadline(Duration::MAX));
    let body = || {
        let slow = spawn(|| shield(|| sleep(100 * HOUR)));
        yield_now().unwrap();
        slow
    };
    simulated(&shutdown, body, |slow| drop(slow.join()));
    assert_eq!(reports.count(), 0);
}

#[test]
fn a_panic_of_the_first_fiber_leaves_the_others_their_grace() {
    for seed in 0..20 {
        let kept = Mutex::new(None);
        let body = || {
            *kept.lock().unwrap() = Some([
                spawn(|| finishing_source().wait().map(|()| sleep(SECOND))),
                spawn(|| finishing_source().wait().map(|()| panic!("in its grace"))),
            ]);
            panic!("the first");
        };
        let sim = Sim::new(seed).shutdown(Shutdown::new().grace(5 * SECOND));
        let panicked = catch_unwind(AssertUnwindSafe(|| sim.run(body))).unwrap_err();
        assert_eq!(panicked.downcast_ref(), Some(&"the first"));
        let [finishes, panics] = kept.into_inner().unwrap().unwrap();
        assert_eq!(finishes.join().unwrap(), Ok(Ok(())));
        assert!(panics.join().unwrap_err().is_panic());
    }
}

#[test]
fn what_is_spawned_in_the_grace_runs_and_what_comes_after_it_does_not() {
    let body = || {
        spawn(|| {
            finishing_source().wait().unwrap();
            let here = Handle::current().unwrap();
            let in_time = spawn(|| is_finishing().then(|| shield(|| sleep(SECOND))));
            assert!(here.spawn(|| ()).join().unwrap_err().is_cancelled(), "the first fiber has ended");
            never().unwrap_err();
            let late = shield(|| spawn(|| ()).join());
            (shield(|| in_time.join()).ok(), late.map_err(|error| error.to_string()))
        })
    };
    simulated(&Shutdown::new().grace(5 * SECOND), body, |spawner| {
        let (in_time, late) = spawner.join().unwrap();
        assert_eq!(in_time, Some(Some(Ok(()))));
        let why = late.unwrap_err();
        assert!(why.contains("asked to finish, and not over after 5s"), "{why}");
    });
}

#[test]
fn a_task_is_asked_and_dropped_where_it_waits_when_the_grace_is_over() {
    let body = || {
        let asked = spawn_task(async { finishing_source().await });
        let deaf = spawn_task(async { after(Duration::MAX).await });
        yield_now().unwrap();
        (asked, deaf)
    };
    let reports = Reports::new();
    simulated(&reports.of(Shutdown::new().grace(SECOND).deadline(SECOND)), body, |(asked, deaf)| {
        asked.join().unwrap();
        assert!(deaf.join().unwrap_err().is_cancelled());
    });
    assert_eq!(reports.count(), 0);
}

#[test]
fn what_is_asked_ends_its_scope_and_with_that_the_daemons() {
    let body = || {
        let before = now();
        let scoped = spawn(move || {
            scope(|s| {
                s.spawn_daemon(never);
                s.spawn(serve).join().unwrap()
            })
            .map(|_| now() - before)
        });
        sleep(SECOND / 2).unwrap();
        scoped
    };
    simulated(&Shutdown::new().grace(Duration::MAX), body, |scoped| {
        assert_eq!(scoped.join().unwrap(), Ok(SECOND + SECOND / 2));
    });
}

#[test]
fn a_scheduler_inside_is_asked_and_cancelled_with_the_outer_one() {
    for grace in [Duration::MAX, MOMENT] {
        let builder = Runtime::new().workers(1).shutdown(Shutdown::new().grace(grace));
        let inside = builder.run(|| {
            let (begun, begins) = mpsc::channel();
            let inside = spawn(move || {
                let inner = Runtime::new().workers(1).run(|| {
                    begun.send(()).unwrap();
                    if grace == Duration::MAX { finishing_source().wait() } else { never() }
                });
                inner.unwrap()
            });
            while begins.try_recv().is_err() {
                yield_now().unwrap();
            }
            inside
        });
        assert_eq!(inside.unwrap().join().unwrap().is_ok(), grace == Duration::MAX);
    }
}

#[test]
fn a_handle_asks_the_first_fiber_too_and_cancels_it_after_the_grace() {
    let body = |deaf: bool| {
        let (here, before) = (Handle::current().unwrap(), now());
        spawn(move || {
            sleep(SECOND).unwrap();
            here.shutdown();
            // Again it has no effect.
            sleep(SECOND).unwrap();
            here.shutdown();
        });
        let waited = if deaf { never() } else { finishing_source().wait() };
        (waited.map_err(|cancelled| cancelled.to_string()), now() - before)
    };
    let shutdown = Shutdown::new().grace(5 * SECOND);
    simulated(&shutdown, || body(false), |ended| assert_eq!(ended, (Ok(()), SECOND)));
    simulated(
        &shutdown,
        || body(true),
        |(ended, after)| {
            assert_eq!(ended.unwrap_err(), "cancelled: asked to finish, and not over after 5s");
            assert_eq!(after, 6 * SECOND);
        },
    );
    // Without a shutdown that was set up it is a cancellation.
    let run = Sim::new(1).run(|| {
        Handle::current().unwrap().shutdown();
        check().is_err()
    });
    assert_eq!(run, Ok(true));
}

#[test]
fn a_first_fiber_that_stays_is_reported_as_well() {
    let reports = Reports::new();
    let run = Sim::new(1).shutdown(reports.of(Shutdown::new().deadline(SECOND))).run(|| {
        Handle::current().unwrap().shutdown();
        Builder::new().name("never begins").spawn(|| ());
        reports.wait();
        is_cancelled()
    });
    assert_eq!(run, Ok(true));
    assert_eq!(names(&reports.only()), ["fiber 0"]);
}

#[test]
fn a_cancelled_caller_does_not_wait_for_the_grace() {
    let stop = CancelToken::new();
    let ended = stop.run(|| {
        let reports = Reports::new();
        let sim = Sim::new(1).shutdown(reports.of(Shutdown::new().grace(Duration::MAX).deadline(SECOND)));
        sim.run(|| {
            let before = now();
            let stop = stop.clone();
            let canceller = spawn(move || {
                finishing_source().wait().unwrap();
                sleep(SECOND).unwrap();
                stop.cancel_with("from outside");
            });
            (spawn(move || (never().unwrap_err().to_string(), now() - before)), canceller)
        })
    });
    let (ended, canceller) = ended.unwrap();
    canceller.join().unwrap();
    assert_eq!(ended.join().unwrap(), ("cancelled: from outside".to_owned(), SECOND));
}

/// Runs `body` as the first fiber of schedulers on real threads that end in this way: of runs, of
/// pools, and of one that is driven.
fn on_threads<T: Send + 'static>(
    shutdown: impl Fn() -> Shutdown,
    body: impl Fn() -> T + Clone + Send + 'static,
    look: impl Fn(T),
) {
    for workers in [1, 2] {
        let builder = || Runtime::new().workers(workers).shutdown(shutdown());
        look(builder().run(&body).unwrap());
        look(builder().run_with(Fifo::default, &body).unwrap());
        let pool = builder().pool().unwrap();
        let result = pool.spawn(body.clone());
        let result = result.join().unwrap();
        drop(pool);
        look(result);
        // In a fiber of another one.
        look(Runtime::new().workers(workers).run(|| builder().run(&body).unwrap()).unwrap());
    }
    let mut driven = Runtime::new().shutdown(shutdown()).driven(|| ()).unwrap();
    let result = driven.start(body).unwrap();
    while !result.is_finished() {
        let _ = driven.poll();
    }
    drop(driven);
    look(result.join().unwrap());
}

#[test]
fn every_scheduler_has_the_two_stages() {
    let asks = || spawn(|| finishing_source().wait().map(|()| sleep(MOMENT)));
    on_threads(|| Shutdown::new().grace(Duration::MAX), asks, |asked| assert_eq!(asked.join().unwrap(), Ok(Ok(()))));
    let deaf = || Builder::new().name("deaf").spawn(|| never().unwrap_err().to_string());
    on_threads(
        || Shutdown::new().grace(MOMENT),
        deaf,
        |deaf| match deaf.join() {
            Ok(why) => assert_eq!(why, "cancelled: asked to finish, and not over after 5ms: `deaf`"),
            Err(never_ran) => assert!(never_ran.is_cancelled()),
        },
    );
}

#[test]
fn every_scheduler_reports_who_is_left() {
    // The fiber has said that it has begun.
    let shielded = |reports: Reports| {
        move || {
            let (reports, (begun, begins)) = (reports.clone(), mpsc::channel());
            let fiber = Builder::new().name("shielded").spawn(move || {
                begun.send(()).unwrap();
                reports.wait();
            });
            while begins.try_recv().is_err() {
                yield_now().unwrap();
            }
            fiber
        }
    };
    // Each run has reports of its own.
    let runs = Arc::new(Mutex::new(Vec::new()));
    let (all, latest) = (Arc::clone(&runs), Arc::clone(&runs));
    let shutdown = move || {
        let reports = Reports::new();
        all.lock().unwrap().push(reports.clone());
        reports.of(Shutdown::new().grace(MOMENT).deadline(MOMENT))
    };
    let body = move || {
        let reports = latest.lock().unwrap().last().unwrap().clone();
        shielded(reports)()
    };
    on_threads(shutdown, body, |fiber| fiber.join().unwrap());
    let runs = runs.lock().unwrap();
    assert_eq!(runs.len(), 9);
    runs.iter().for_each(|reports| assert_eq!(names(&reports.only()), ["fiber `shielded`"]));
}

#[test]
fn a_pool_that_its_own_fiber_drops_gives_the_grace_too() {
    let pool = Runtime::new().workers(2).shutdown(Shutdown::new().grace(Duration::MAX)).pool().unwrap();
    let (tell, told) = mpsc::channel();
    let server = pool.spawn(move || {
        tell.send(()).unwrap();
        finishing_source().wait().map(|()| sleep(MOMENT))
    });
    told.recv().unwrap();
    let handle = pool.handle();
    let pool = Arc::new(pool);
    let dropper = Arc::clone(&pool);
    handle.spawn(move || drop(dropper)).join().unwrap();
    drop(pool);
    assert_eq!(server.join().unwrap(), Ok(Ok(())));
}

#[test]
fn a_pool_that_is_shut_down_asks_what_comes_later_and_then_cancels_it() {
    let pool = Runtime::new().workers(1).shutdown(Shutdown::new().grace(MOMENT)).pool().unwrap();
    let deaf = pool.spawn(never);
    pool.handle().shutdown();
    assert_ne!(pool.spawn(is_finishing).join().ok(), Some(false));
    let _ = deaf.join();
    // The grace is over by now.
    assert!(pool.spawn(|| ()).join().unwrap_err().is_cancelled());
    assert_eq!(pool.run(|| 42), Ok(42), "that belongs to the caller");
}

#[test]
fn a_fiber_of_somebody_elses_scope_is_reported_by_the_pool_that_it_is_on() {
    for workers in [1, 2] {
        let reports = Reports::new();
        let shutdown = reports.of(Shutdown::new().grace(MOMENT).deadline(MOMENT));
        let pool = Runtime::new().workers(workers).shutdown(shutdown).pool().unwrap();
        scope(|s| {
            let (begun, begins) = mpsc::channel();
            let waits = reports.clone();
            Builder::new().within(s).on(&pool).spawn(move || {
                begun.send(()).unwrap();
                waits.wait();
            });
            begins.recv().unwrap();
            // It is no member: the pool does not cancel it.
            drop(pool);
        });
        let survivors = reports.only();
        assert_eq!((survivors.fibers.len(), survivors.workers.len()), (1, 0), "{survivors}");
    }
}

#[test]
fn a_blocking_call_that_does_not_return_is_reported() {
    let reports = Reports::new();
    let (release, released) = mpsc::channel::<()>();
    let release = Mutex::new(Some(release));
    let shutdown = {
        let reports = reports.clone();
        reports.of(Shutdown::new().grace(MOMENT).deadline(MOMENT))
    };
    let watcher = reports.clone();
    thread::scope(|threads| {
        threads.spawn(|| {
            watcher.wait();
            drop(release.lock().unwrap().take());
        });
        let run = Runtime::new().workers(2).shutdown(shutdown).run(|| {
            let (begun, begins) = mpsc::channel();
            Builder::new().name("calls").spawn(move || {
                let call = move || {
                    begun.send(()).unwrap();
                    released.recv().is_err()
                };
                blocking(call)
            });
            blocking(move || begins.recv().unwrap()).unwrap();
        });
        run.unwrap();
    });
    let survivors = reports.only();
    assert_eq!(names(&survivors), ["fiber `calls`"]);
    let text = survivors.to_string();
    assert!(
        text.contains(&format!("  fiber `calls` waits for a blocking call that was cancelled at {}:", file!())),
        "{text}"
    );
}

#[test]
fn a_fiber_that_blocks_its_worker_is_reported_at_once_and_where_it_has_called_that() {
    let mut least = Duration::MAX;
    for (workers, name) in [(1, None), (2, None), (1, Some("calls"))] {
        let reports = Reports::new();
        let shutdown = reports.of(Shutdown::new().deadline(MOMENT));
        let (waits, began) = (reports.clone(), now());
        let run = Runtime::new().workers(workers).shutdown(shutdown).run(|| {
            // Where there is one worker, it can't see that it is cancelled.
            Builder::new().name("sleeper").spawn(never);
            yield_now().unwrap();
            let here = Handle::current().unwrap();
            let fiber = name.map_or_else(Builder::new, |name| Builder::new().name(name));
            let calls = fiber.spawn(move || {
                here.shutdown();
                blocking_here(|| waits.wait());
            });
            shield(|| calls.join()).unwrap();
        });
        run.unwrap();
        least = least.min(now() - began);
        let survivors = reports.only();
        let text = survivors.to_string();
        assert!(text.contains(&format!(" waits for a call that blocks its worker at {}:", file!())), "{text}");
        assert_eq!(names(&survivors).contains(&"fiber `calls`"), name.is_some(), "{text}");
        assert!(workers > 1 || survivors.others == ["sleeper"], "{text}");
    }
    assert!(least < Duration::from_millis(900), "nobody waits for the answer of a worker that is away: {least:?}");
}

#[test]
fn a_fiber_that_waits_for_another_scheduler_is_reported_where_it_has_called_it() {
    type Call = fn(&Pool, &mut (dyn FnMut() + Send));
    let calls: [(&str, Call); 3] = [
        ("a pool", |pool, f| pool.run(f).unwrap()),
        ("a pool", |pool, f| pool.call(f)),
        ("another scheduler", |pool, f| move_to(&pool.handle(), f).unwrap()),
    ];
    let pool = Arc::new(Runtime::new().workers(1).pool().unwrap());
    for (what, call) in calls {
        let reports = Reports::new();
        let shutdown = reports.of(Shutdown::new().grace(MOMENT).deadline(MOMENT));
        let (waits, pool) = (reports.clone(), Arc::clone(&pool));
        let run = Runtime::new().workers(1).shutdown(shutdown).run(|| {
            let (begun, begins) = mpsc::channel();
            let calls = move || {
                call(&pool, &mut || {
                    begun.send(()).unwrap();
                    waits.wait();
                });
            };
            Builder::new().name("calls").spawn(calls);
            blocking(move || begins.recv().unwrap()).unwrap();
        });
        run.unwrap();
        let text = reports.only().to_string();
        assert!(text.contains(&format!("  fiber `calls` waits for {what} at {}:", file!())), "{text}");
    }
}

/// Computes until somebody says that it is enough, without a wait, a check or a yield.
#[inline(never)]
fn compute_until(enough: &AtomicBool) {
    while !enough.load(SeqCst) {
        spin_loop();
    }
}

#[test]
fn a_fiber_that_computes_is_reported_with_its_worker_and_what_else_is_left_by_name() {
    for workers in [1, 2] {
        let enough = Arc::new(AtomicBool::new(false));
        let (reports, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&enough));
        let kept = Arc::clone(&reports);
        let shutdown = Shutdown::new().grace(MOMENT).deadline(MOMENT).on_survivors(move |survivors| {
            kept.lock().unwrap().push(survivors.clone());
            stop.store(true, SeqCst);
        });
        let run = Runtime::new().workers(workers).shutdown(shutdown).run(|| {
            Builder::new().name("sleeper").spawn(never);
            yield_now().unwrap();
            let (here, enough) = (Handle::current().unwrap(), Arc::clone(&enough));
            Builder::new().name("grinder").spawn(move || {
                here.shutdown();
                compute_until(&enough);
            });
            never()
        });
        assert!(run.unwrap().is_err());
        let reports = reports.lock().unwrap();
        let [survivors] = &reports[..] else { panic!("{reports:?}") };
        let grinder = &survivors.workers[0];
        assert!(survivors.workers.len() == 1 && grinder.held >= Duration::from_millis(900), "{survivors}");
        if !STAND_IN {
            assert_eq!(grinder.fiber.as_deref(), Some("fiber `grinder`"), "{survivors}");
            assert!(survivors.to_string().contains("compute_until"), "{survivors}");
        }
        if workers == 1 {
            assert_eq!(survivors.others, ["sleeper"], "its worker does not answer");
            assert!(survivors.to_string().contains("  fiber `sleeper` is left with a worker that does not answer\n"));
        }
    }
}

#[test]
fn a_shutdown_is_called_off_when_all_ends_while_workers_are_asked() {
    // The grinder ends by itself, about when the deadline comes: it is reported or not, and the run
    // ends.
    for round in 0..scaled(50, 5) {
        let shutdown = Shutdown::new().deadline(Duration::from_micros(round as u64 * 20)).on_survivors(|_| ());
        let run = Runtime::new().workers(2).shutdown(shutdown).run(|| {
            let began = now();
            spawn(move || while now() - began < Duration::from_micros(500) {});
        });
        run.unwrap();
    }
}

#[test]
fn the_process_ends_with_the_status_that_was_asked_for() {
    let end = in_child("the_process_ends_with_the_status_that_was_asked_for", || {
        let shutdown = Shutdown::new().grace(MOMENT).deadline(MOMENT).exit_status(3);
        let _ = Runtime::new().workers(1).shutdown(shutdown).run(|| {
            Builder::new().name("shielded").spawn(|| shield(never));
            yield_now().unwrap();
        });
    });
    assert_eq!(end.status.and_then(|status| status.code()), Some(3), "{end:#?}");
    let said = "segue: shutdown: not over 5ms after everything was cancelled; the process ends with status 3\n";
    assert!(end.stderr.contains(said), "{end:#?}");
    assert!(end.stderr.contains("  fiber `shielded` waits for a point in time at "), "{end:#?}");
}

#[test]
fn a_process_whose_only_worker_computes_ends_as_well() {
    let end = in_child("a_process_whose_only_worker_computes_ends_as_well", || {
        let shutdown = Shutdown::new().deadline(MOMENT).exit_status(4);
        let _ = Runtime::new().workers(1).shutdown(shutdown).run(|| {
            Handle::current().unwrap().shutdown();
            compute_until(&AtomicBool::new(false));
        });
    });
    assert_eq!(end.status.and_then(|status| status.code()), Some(4), "{end:#?}");
    assert!(end.stderr.contains("worker segue-0 has been in "), "{end:#?}");
}

#[test]
fn a_simulated_process_ends_as_well() {
    let end = in_child("a_simulated_process_ends_as_well", || {
        let shutdown = Shutdown::new().grace(HOUR).deadline(HOUR).exit_status(5);
        let _ = Sim::new(1).shutdown(shutdown).run(|| {
            spawn(|| shield(never));
            yield_now().unwrap();
        });
    });
    assert_eq!(end.status.and_then(|status| status.code()), Some(5), "{end:#?}");
}

#[test]
fn what_ends_in_time_leaves_the_status_alone() {
    let end = in_child("what_ends_in_time_leaves_the_status_alone", || {
        let shutdown = Shutdown::new().grace(MOMENT).deadline(HOUR).exit_status(6);
        let deaf = Runtime::new().workers(2).shutdown(shutdown).run(|| spawn(never)).unwrap();
        drop(deaf.join());
    });
    end.assert_passed();
}

#[test]
fn a_hook_that_panics_ends_the_process() {
    let end = in_child("a_hook_that_panics_ends_the_process", || {
        let shutdown = Shutdown::new().deadline(MOMENT).on_survivors(|_| panic!("no report"));
        let _ = Runtime::new().workers(1).shutdown(shutdown).run(|| {
            spawn(|| shield(never));
            yield_now().unwrap();
        });
    });
    end.assert_aborted("a hook of a scheduler panicked");
}
