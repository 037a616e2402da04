//! Lazies and cells under every scheduler and between them: concurrent forces, recursion,
//! initialisers that fail, panic and are cancelled.

use crate::meet;

use crate::counts;

use counts::{Cause, Count, Counted, DAY, pauses};
use meet::{Task, block_on, everywhere, mixed, pool, simulated};
use segue::sync::{Entry, ForceError, Lazy, OnceCell, Recursive, promise};
use segue::testing::Sim;
use segue::{CancelToken, Cancelled, check, scope, sleep, spawn};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

// The thesis' examples.

#[test]
fn a_lazy_is_computed_at_the_first_force_and_remembered() {
    // Figure 1.4: `lazy (10 + (print_endline "Hello"; 20))`.
    everywhere(|| {
        let hello = Count::new();
        let v = Lazy::new(|| {
            10 + {
                hello.up();
                20
            }
        });
        assert_eq!((hello.get(), v.get()), (0, None));
        assert_eq!((v.force(), hello.get()), (Ok(&30), 1));
        assert_eq!((v.force(), hello.get()), (Ok(&30), 1));
        assert_eq!(v.get(), Some(&30));
    });
}

#[test]
fn a_lazy_that_forces_itself_is_told_so() {
    // Section 1.1.5: `let rec l = lazy (Lazy.force l) in Lazy.force l`.
    static KNOT: Lazy<u32, fn() -> Result<u32, ForceError>> =
        Lazy::named("KNOT", || Err(KNOT.force_fallible().unwrap_err().recursive().into()));
    fn recursive() -> Recursive {
        let Err(ForceError::Failed(ForceError::Recursive(recursive))) = KNOT.force_fallible() else { unreachable!() };
        recursive
    }
    everywhere(|| {
        let (here, error) = (line!(), recursive());
        let text = error.to_string();
        assert_eq!(error.what(), "KNOT");
        assert!(here > error.since().line() && error.since().line() > error.at().line(), "{text}");
        assert_eq!(text.matches("lazies.rs:").count(), 3, "made, forced, running: {text}");
        assert!(text.starts_with("KNOT (made at ") && text.contains("from inside of its own initialiser"), "{text}");
        // The right was handed back: again the same, and not a wait for ever.
        assert_eq!(recursive(), error);
        assert!(KNOT.get().is_none());
    });
    // As a task: inside of one poll.
    let Some(Err(ForceError::Failed(ForceError::Recursive(error)))) = Task::new(KNOT.force_fallible_source()).poll()
    else {
        unreachable!()
    };
    assert_eq!(error.what(), "KNOT");
}

#[test]
fn concurrent_forces_compute_once_and_all_get_the_value() {
    everywhere(|| {
        let computed = Count::new();
        let lazy = Lazy::new(|| {
            pauses(3).unwrap();
            computed.up()
        });
        scope(|s| {
            let forces: Vec<_> = (0..8)
                .map(|n| {
                    let lazy = &lazy;
                    s.spawn(move || match n % 2 {
                        0 => *lazy.force().unwrap(),
                        _ => *block_on(lazy.force_source()).unwrap(),
                    })
                })
                .collect();
            forces.into_iter().for_each(|force| assert_eq!(force.join().unwrap(), 1));
        });
        assert_eq!(computed.get(), 1);
    });
}

#[test]
fn a_failed_computation_is_the_failure_of_the_one_who_ran_it() {
    // Section 5.2 keeps the exception for all; here the next one tries.
    everywhere(|| {
        let tries = Count::new();
        let lazy = Lazy::new(|| {
            pauses(2).unwrap();
            match tries.up() {
                n @ 1..=3 => Err(n),
                n => Ok(n),
            }
        });
        let outcomes = Mutex::new(Vec::new());
        scope(|s| {
            for n in 0..6 {
                let (lazy, outcomes) = (&lazy, &outcomes);
                drop(s.spawn(move || {
                    let outcome = match n % 2 {
                        0 => lazy.force_fallible(),
                        _ => block_on(lazy.force_fallible_source()),
                    };
                    outcomes.lock().unwrap().push(outcome.copied());
                }));
            }
        });
        let outcomes = outcomes.into_inner().unwrap();
        let failed = outcomes.iter().filter(|outcome| matches!(outcome, Err(ForceError::Failed(1..=3)))).count();
        let got = outcomes.iter().filter(|outcome| **outcome == Ok(4)).count();
        assert_eq!((failed, got, tries.get()), (3, 3, 4), "{outcomes:?}");
    });
}

#[test]
fn a_panicking_computation_is_run_again_by_the_next() {
    everywhere(|| {
        let tries = Count::new();
        let lazy = Lazy::new(|| {
            let n = tries.up();
            pauses(2).unwrap();
            if n <= 2 {
                std::panic::panic_any("planted");
            }
            n
        });
        let (values, panics) = (Count::new(), Count::new());
        scope(|s| {
            for n in 0..5 {
                let (lazy, values, panics) = (&lazy, &values, &panics);
                drop(s.spawn(move || {
                    let force = || match n % 2 {
                        0 => lazy.force(),
                        _ => block_on(lazy.force_source()),
                    };
                    match catch_unwind(AssertUnwindSafe(force)) {
                        Ok(value) => assert_eq!((value, values.up() > 0), (Ok(&3), true)),
                        Err(_) => drop(panics.up()),
                    }
                }));
            }
        });
        assert_eq!((values.get(), panics.get(), tries.get()), (3, 2, 3));
    });
}

// Who meets at it.

#[test]
fn a_static_is_forced_by_fibers_of_two_pools_by_threads_and_by_tasks_at_once() {
    static COMPUTED: Count = Count::new();
    static SHARED: Lazy<String> = Lazy::named("SHARED", || {
        // It waits, for a fiber of the default runtime.
        let (resolver, promised) = promise();
        let fiber = spawn(move || resolver.fill("made elsewhere").unwrap());
        fiber.join().unwrap();
        COMPUTED.up();
        promised.take().unwrap().to_owned()
    });
    let (a, b) = (pool(1), pool(2));
    let start = std::sync::Barrier::new(4);
    std::thread::scope(|threads| {
        for kind in 0..4 {
            let (a, b, start) = (&a, &b, &start);
            threads.spawn(move || {
                start.wait();
                let value = match kind {
                    0 => a.run(|| SHARED.force().unwrap()).unwrap(),
                    1 => b.run(|| block_on(SHARED.force_source()).unwrap()).unwrap(),
                    2 => SHARED.force().unwrap(),
                    _ => block_on(SHARED.force_source()).unwrap(),
                };
                assert_eq!(value, "made elsewhere");
            });
        }
    });
    assert_eq!(COMPUTED.get(), 1);
}

#[test]
fn cells_meet_everybody_many_times_over() {
    for _ in 0..100 {
        let (cell, computed, agreed) = (OnceCell::new(), Count::new(), Count::new());
        mixed(6, |n| {
            let make = || {
                pauses(2).unwrap();
                computed.up();
                n
            };
            let value = if n < 3 { cell.get_or_init(make) } else { block_on(cell.get_or_init_source(make)) };
            assert_eq!(value.unwrap(), cell.get().unwrap());
            agreed.up();
        });
        assert_eq!((computed.get(), agreed.get()), (1, 6));
    }
}

#[test]
fn plain_threads_alone_read_what_one_of_them_has_made() {
    // Small, so that Miri can look for missing orderings.
    let (cell, lazy, tries) = (OnceCell::new(), Lazy::new(|| vec![String::from("lazy")]), Count::new());
    std::thread::scope(|s| {
        for n in 0..4 {
            let (cell, lazy, tries) = (&cell, &lazy, &tries);
            s.spawn(move || {
                let make = || if tries.up() == 1 { Err(()) } else { Ok(vec![n]) };
                let made =
                    if n % 2 == 0 { cell.get_or_try_init(make) } else { block_on(cell.get_or_try_init_source(make)) };
                assert!(made == Err(ForceError::Failed(())) || made.unwrap()[0] < 4);
                drop(Task::new(cell.wait_source()).poll());
                assert_eq!(lazy.force().unwrap()[0], "lazy");
            });
        }
        s.spawn(|| {
            while cell.get().is_none_or(|made| made[0] > 3) {
                std::thread::yield_now();
            }
        });
    });
    assert!(tries.get() == 2 && cell.get().is_some());
}

#[test]
fn an_initialiser_may_sleep_while_others_wait_on_virtual_time() {
    simulated(50, |_| {
        let lazy: Lazy<_, _> = Lazy::new(|| sleep(DAY).map(|()| segue::now()));
        let start = segue::now();
        scope(|s| {
            for n in 0..4 {
                let lazy = &lazy;
                drop(s.spawn(move || {
                    let woken = match n % 2 {
                        0 => lazy.force_fallible(),
                        _ => block_on(lazy.force_fallible_source()),
                    };
                    assert_eq!(woken.unwrap().duration_since(start), DAY);
                }));
            }
        });
        assert_eq!(segue::now().duration_since(start), DAY, "one has slept");
    });
}

#[test]
fn readers_wait_for_whoever_sets_the_cell_and_do_not_take_turns() {
    everywhere(|| {
        let cell = OnceCell::new();
        scope(|s| {
            let readers: Vec<_> = (0..4)
                .map(|n| {
                    let cell = &cell;
                    s.spawn(
                        move || if n % 2 == 0 { *cell.wait().unwrap() } else { *block_on(cell.wait_source()).unwrap() },
                    )
                })
                .collect();
            pauses(2).unwrap();
            // An initialiser that fails passes them by.
            assert_eq!(cell.get_or_try_init(|| Err(())), Err(ForceError::Failed(())));
            assert!(cell.get().is_none());
            cell.set(5).unwrap();
            readers.into_iter().for_each(|reader| assert_eq!(reader.join().unwrap(), 5));
        });
    });
}

// Cancellation.

#[test]
fn conservation_a_cancelled_initialiser_hands_over_in_every_schedule() {
    let mut seen = HashMap::new();
    for seed in 0..600 {
        let run = Sim::new(seed).run(|| {
            let (cell, runs, values) = (OnceCell::new(), Count::new(), Count::new());
            let token = CancelToken::new();
            let outcome = scope(|s| {
                let cancelled = s.spawn(|| {
                    token.run(|| {
                        cell.get_or_try_init(|| {
                            runs.up();
                            pauses(seed % 5)?;
                            Ok::<_, Cancelled>(0)
                        })
                        .copied()
                    })
                });
                for n in 1..=3 {
                    let (cell, runs, values) = (&cell, &runs, &values);
                    let make = move || {
                        runs.up();
                        pauses(2).unwrap();
                        n
                    };
                    drop(s.spawn(move || {
                        let value = match n {
                            1 => block_on(cell.get_or_init_source(make)),
                            _ => cell.get_or_init(make),
                        };
                        assert_eq!(value.unwrap(), cell.get().unwrap());
                        values.up();
                    }));
                }
                pauses(seed % 7).unwrap();
                token.cancel();
                cancelled.join().unwrap()
            });
            assert_eq!(values.get(), 3, "nobody is left behind");
            let value = *cell.get().unwrap();
            match outcome {
                // Cancelled inside of its initialiser, and another one has run.
                Err(ForceError::Failed(_)) => assert_eq!((runs.get(), value > 0), (2, true)),
                Err(_) => assert_eq!((runs.get(), value > 0), (1, true)),
                Ok(got) => assert_eq!((runs.get(), got), (1, value)),
            }
            match outcome {
                Err(ForceError::Failed(_)) => "cancelled in its initialiser",
                Err(_) => "cancelled before it could try",
                Ok(0) => "done before the cancellation",
                Ok(_) => "got another's value",
            }
        });
        *seen.entry(run.unwrap_or_else(|deadlock| panic!("{deadlock}"))).or_insert(0) += 1;
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn conservation_cancelled_waiters_are_passed_by_in_every_schedule() {
    let mut refused = 0;
    for seed in 0..600 {
        refused += Sim::new(seed)
            .run(|| {
                let (cell, token, refused) = (OnceCell::new(), CancelToken::new(), Count::new());
                scope(|s| {
                    // Its initialiser fails at about the time at which those behind it are
                    // cancelled.
                    drop(s.spawn(|| {
                        let made = cell.get_or_try_init(|| {
                            pauses(seed % 4)?;
                            Err::<u32, _>(cancelled())
                        });
                        made.copied()
                    }));
                    for _ in 0..3 {
                        let (cell, token, refused) = (&cell, &token, &refused);
                        drop(s.spawn(move || {
                            // Who is handed the right fails as well: its initialiser is cancelled.
                            let outcome = token.run(|| cell.get_or_try_init(|| check().and(pauses(2)).map(|()| 1)));
                            if matches!(outcome, Err(ForceError::Cancelled(_))) {
                                refused.up();
                            }
                        }));
                    }
                    let last = s.spawn(|| cell.get_or_init(|| 2).copied());
                    pauses(seed % 6).unwrap();
                    token.cancel();
                    assert!(matches!(last.join().unwrap(), Ok(1 | 2)));
                });
                refused.get()
            })
            .unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
    assert!(refused > 100, "{refused}");
}

/// The error of a cancelled wait.
fn cancelled() -> Cancelled {
    let token = CancelToken::new();
    token.cancel();
    token.run(check).unwrap_err()
}

#[test]
fn conservation_a_dropped_future_passes_its_turn_on() {
    let cell = OnceCell::new();
    for dropped in 0..=3 {
        let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!() };
        let mut tasks: Vec<_> =
            (0..3).map(|n| Task::waiting(cell.get_or_try_init_source(move || Err::<u32, _>(n)))).collect();
        drop(initializer);
        assert_eq!(tasks.iter().map(Task::wakes).collect::<Vec<_>>(), [1, 0, 0]);
        // Handed to the first; each that is dropped hands it to the one behind.
        drop(tasks.drain(..dropped));
        if let Some(first) = tasks.first_mut() {
            assert!(cell.try_entry().is_none(), "somebody has it");
            assert_eq!((first.wakes(), first.poll()), (1, Some(Err(ForceError::Failed(dropped)))));
        }
        drop(tasks);
        assert!(matches!(cell.try_entry(), Some(Entry::Empty(_))), "it came back");
    }
}

#[test]
fn conservation_on_threads_with_failures_cancellations_panics_and_dropped_futures() {
    let (values, failures, cancels, panics, drops) =
        (Count::new(), Count::new(), Count::new(), Count::new(), Count::new());
    let (made, dropped) = (Count::new(), Count::new());
    let rng = Mutex::new(7_u64);
    let draw = |below: u64| {
        let mut state = rng.lock().unwrap();
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    };
    for _ in 0..150 {
        let (cell, tokens) = (OnceCell::new(), [const { OnceCell::<CancelToken>::new() }; 3]);
        tokens.iter().for_each(|token| token.set(CancelToken::new()).unwrap());
        mixed(9, |n| {
            let make = || {
                let (outcome, pause) = (draw(4), draw(3));
                pauses(pause).map_err(|_| ())?;
                match outcome {
                    0 => Err(()),
                    1 => std::panic::panic_any("planted"),
                    _ => {
                        made.up();
                        Ok(Counted(&dropped))
                    }
                }
            };
            let token = tokens[n % 3].get().unwrap();
            let force = || match n / 3 {
                0 => Some(token.run(|| cell.get_or_try_init(make))),
                1 => Some(block_on(cell.get_or_try_init_source(make))),
                _ => {
                    // Polled a few times, and dropped.
                    token.cancel();
                    let mut task = Task::new(cell.get_or_try_init_source(make));
                    (0..=draw(3)).find_map(|_| task.poll())
                }
            };
            match catch_unwind(AssertUnwindSafe(force)) {
                Ok(Some(Ok(_))) => assert!(cell.get().is_some() && values.up() > 0),
                Ok(Some(Err(ForceError::Failed(())))) => drop(failures.up()),
                Ok(Some(Err(ForceError::Cancelled(_)))) => drop(cancels.up()),
                Ok(Some(Err(ForceError::Recursive(error)))) => panic!("{error}"),
                Ok(None) => drop(drops.up()),
                Err(_) => drop(panics.up()),
            }
        });
        // Whatever has happened, the right is there.
        match cell.try_entry() {
            Some(Entry::Full(_)) => {}
            Some(Entry::Empty(initializer)) => drop(initializer.fill({
                made.up();
                Counted(&dropped)
            })),
            None => panic!("the right was lost"),
        }
    }
    assert_eq!((made.get(), dropped.get()), (150, 150), "one value for each cell");
    for (what, count) in
        [("values", values), ("failures", failures), ("cancels", cancels), ("panics", panics), ("drops", drops)]
    {
        println!("{what}: {}", count.get());
        assert!(count.get() > 0, "{what}");
    }
}

#[test]
fn planted_a_lost_turn_is_found() {
    // What the tests above would see if an initializer were lost: a leaked one is.
    let lost = Sim::new(1).run(|| {
        let cell = OnceCell::new();
        let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!() };
        std::mem::forget(initializer);
        cell.get_or_init(|| 1).copied()
    });
    let report = lost.unwrap_err().to_string();
    assert!(report.contains("OnceCell<i32> at ") && report.contains("lazies.rs:"), "{report}");
}
