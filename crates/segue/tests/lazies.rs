//! Lazies and cells under every scheduler and between them: concurrent forces, recursion, initialisers that fail, panic and are cancelled.
#![cfg(feature = "sched")]

#[path = "common/meet.rs"]
mod meet;

use meet::{Task, block_on, everywhere, mixed, pool, simulated};
use segue::sync::{ForceError, Lazy, Once, OnceCell, Recursive, SetError, Turn, promise};
use segue::{Builder, CancelToken, Cancelled, Either, Sim};
use segue::{after, check, scope, shield, sleep, spawn, yield_now};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn pauses(n: u64) -> Result<(), Cancelled> {
    (0..n).try_for_each(|_| yield_now())
}

/// How often something happened.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn up(&self) -> usize {
        self.0.fetch_add(1, SeqCst) + 1
    }

    fn get(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Counts its drops.
struct Counted<'a>(&'a Count);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.up();
    }
}

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
        // The turn was handed back: again the same, and not a wait for ever.
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

trait Cause {
    fn recursive(self) -> Recursive;
}

impl<E: std::fmt::Debug> Cause for ForceError<E> {
    fn recursive(self) -> Recursive {
        match self {
            ForceError::Recursive(recursive) => recursive,
            other => panic!("{other:?}"),
        }
    }
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
        let fiber = spawn(move || resolver.fill("made elsewhere"));
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
            // A turn that fails passes them by.
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
                Err(_) => "cancelled before its turn",
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
                    // Its initialiser fails at about the time at which those behind it are cancelled.
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
                            // Who gets the turn fails as well: its initialiser is cancelled.
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
        let Ok(Turn::Yours(turn)) = cell.turn() else { unreachable!() };
        let mut tasks: Vec<_> =
            (0..3).map(|n| Task::waiting(cell.get_or_try_init_source(move || Err::<u32, _>(n)))).collect();
        drop(turn);
        assert_eq!(tasks.iter().map(Task::wakes).collect::<Vec<_>>(), [1, 0, 0]);
        // Handed to the first; each that is dropped hands it to the one behind.
        drop(tasks.drain(..dropped));
        if let Some(first) = tasks.first_mut() {
            assert!(cell.try_turn().is_none(), "somebody has it");
            assert_eq!((first.wakes(), first.poll()), (1, Some(Err(ForceError::Failed(dropped)))));
        }
        drop(tasks);
        assert!(matches!(cell.try_turn(), Some(Turn::Yours(_))), "it came back");
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
        // Whatever has happened, the turn is there.
        match cell.try_turn() {
            Some(Turn::Full(_)) => {}
            Some(Turn::Yours(turn)) => drop(turn.fill({
                made.up();
                Counted(&dropped)
            })),
            None => panic!("the turn was lost"),
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
    // What the tests above would see if a turn were lost: a leaked one is.
    let lost = Sim::new(1).run(|| {
        let cell = OnceCell::new();
        let Ok(Turn::Yours(turn)) = cell.turn() else { unreachable!() };
        std::mem::forget(turn);
        cell.get_or_init(|| 1).copied()
    });
    let report = lost.unwrap_err().to_string();
    assert!(report.contains("OnceCell<i32> at ") && report.contains("lazies.rs:"), "{report}");
}

#[test]
fn a_full_cell_is_read_by_the_cancelled_and_an_empty_one_is_not() {
    everywhere(|| {
        let (full, empty) = (OnceCell::from(1), OnceCell::new());
        let token = CancelToken::new();
        token.cancel();
        token.run(|| {
            assert_eq!(full.get_or_init(|| unreachable!()), Ok(&1));
            assert_eq!(full.wait(), Ok(&1));
            assert!(matches!(empty.get_or_init(|| 2), Err(ForceError::Cancelled(_))));
            assert!(matches!(empty.wait(), Err(ForceError::Cancelled(_))));
            assert!(matches!(empty.turn(), Err(ForceError::Cancelled(_))));
            assert!(matches!(empty.set(2), Err(SetError::Cancelled(2, _))));
            assert_eq!(shield(|| empty.get_or_init(|| 3)), Ok(&3));
        });
    });
}

// Recursion.

#[test]
fn recursion_is_told_to_every_call_and_does_not_hang() {
    everywhere(|| {
        let cell = OnceCell::new();
        let value = cell.get_or_init(|| {
            assert!(matches!(cell.get_or_init(|| 0), Err(ForceError::Recursive(_))));
            assert!(matches!(cell.wait(), Err(ForceError::Recursive(_))));
            assert!(matches!(cell.turn(), Err(ForceError::Recursive(_))));
            assert!(matches!(cell.set(0), Err(SetError::Recursive(0, _))));
            assert!(matches!(block_on(cell.get_or_init_source(|| 0)), Err(ForceError::Recursive(_))));
            let first = cell.wait_source().or(after(DAY)).wait();
            assert!(matches!(first, Ok(Either::Left(Err(ForceError::Recursive(_))))));
            let second = after(DAY).or(cell.wait_source()).wait();
            assert!(matches!(second, Ok(Either::Right(Err(ForceError::Recursive(_))))));
            assert_eq!(cell.try_set(0), Err(0));
            assert!(cell.try_turn().is_none() && cell.get().is_none());
            // Somebody else's force is not a recursion: it waits.
            scope(|s| {
                let other = s.spawn(|| cell.wait_source().or(after(Duration::from_millis(1))).wait());
                assert_eq!(other.join().unwrap(), Ok(Either::Right(())));
            });
            7
        });
        assert_eq!(value, Ok(&7));
    });
}

#[test]
fn an_error_without_a_name_has_the_type_and_the_places() {
    let cell: OnceCell<Vec<u8>> = OnceCell::new();
    let Err(ForceError::Failed(error)) = cell.get_or_try_init(|| cell.wait().cloned()) else { unreachable!() };
    let text = error.to_string();
    assert!(
        text.contains("OnceCell<alloc::vec::Vec<u8>> was forced at ") && text.matches("lazies.rs:").count() == 2,
        "{text}"
    );
    let once = Once::new();
    let mut text = String::new();
    once.call_once(|| text = once.call_once(|| ()).unwrap_err().to_string()).unwrap();
    assert!(text.contains("Once was forced at ") && text.matches("lazies.rs:").count() == 2, "{text}");
}

#[test]
fn recursion_through_two_fibers_is_a_deadlock_that_names_both() {
    type Knot = Lazy<u32, fn() -> Result<u32, Box<dyn std::error::Error + Send + Sync>>>;
    static LEFT: Knot = Lazy::named("LEFT", || {
        pauses(1)?;
        Ok(*RIGHT.force_fallible()?)
    });
    static RIGHT: Knot = Lazy::named("RIGHT", || {
        pauses(1)?;
        Ok(*LEFT.force_fallible()?)
    });
    let (mut deadlocks, mut recursions) = (0, 0);
    for seed in 0..100 {
        let run = Sim::new(seed).run(|| {
            scope(|s| {
                let one = Builder::new().name("one").spawn_in(s, || LEFT.force_fallible().unwrap_err().to_string());
                let two = Builder::new().name("two").spawn_in(s, || RIGHT.force_fallible().unwrap_err().to_string());
                (one.join(), two.join())
            })
        });
        match run {
            // One has run both of them before the other came.
            Ok((one, two)) => {
                let texts = one.unwrap() + &two.unwrap();
                assert!(texts.contains("from inside of its own initialiser"), "{texts}");
                recursions += 1;
            }
            Err(deadlock) => {
                let text = deadlock.to_string();
                if deadlocks == 0 {
                    println!("{text}");
                }
                deadlocks += 1;
                for (fiber, waits_for) in [("one", "RIGHT"), ("two", "LEFT")] {
                    let line = text.lines().find(|line| line.contains(&format!("fiber `{fiber}`"))).expect(&text);
                    assert!(
                        line.contains(&format!("waits for {waits_for} at ")) && line.contains("lazies.rs:"),
                        "{line}"
                    );
                }
            }
        }
        assert!(LEFT.get().is_none() && RIGHT.get().is_none());
    }
    println!("{deadlocks} deadlocks, {recursions} recursions");
    assert!(deadlocks > 0 && recursions > 0);
}

#[test]
fn an_initialiser_that_joins_a_fiber_that_forces_it_is_a_deadlock_that_names_it() {
    static OUTER: Lazy<u32, fn() -> Result<u32, segue::JoinError>> = Lazy::named("OUTER", || {
        let inner = Builder::new().name("inner").spawn(|| OUTER.force_fallible().is_ok());
        inner.join().map(u32::from)
    });
    let text = Sim::new(3).run(|| OUTER.force_fallible().is_ok()).unwrap_err().to_string();
    println!("{text}");
    assert!(text.contains("fiber `inner` waits for OUTER at ") && text.contains("lazies.rs:"), "{text}");
    assert_eq!(text.lines().count(), 3, "both, and the seed: {text}");
}

#[test]
fn the_address_of_a_fiber_that_is_used_again_is_not_taken_for_a_recursion() {
    let mut used_again = 0;
    for seed in 0..100 {
        used_again += Sim::new(seed)
            .run(|| {
                let (cell, addresses) = (OnceCell::new(), Mutex::new(HashMap::new()));
                scope(|s| {
                    for round in 0..30 {
                        let (cell, addresses) = (&cell, &addresses);
                        let fiber = s.spawn(move || {
                            *addresses.lock().unwrap().entry(segue::core::current().addr()).or_insert(0) += 1;
                            let outcome = cell.get_or_try_init(|| {
                                pauses(round % 3).unwrap();
                                Err::<u32, _>(())
                            });
                            assert_eq!(outcome, Err(ForceError::Failed(())));
                        });
                        if round % 3 == 0 {
                            fiber.join().unwrap();
                        }
                    }
                });
                addresses.into_inner().unwrap().into_values().filter(|uses| *uses > 1).count()
            })
            .unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
    assert!(used_again > 100, "{used_again}");
}

// The rest of the shape.

#[test]
fn cells_have_the_shape_of_std() {
    let mut cell = OnceCell::new();
    assert_eq!(format!("{cell:?}"), "OnceCell(<uninit>)");
    assert!(cell.clone().get().is_none() && cell == OnceCell::default());
    cell.set(String::from("set")).unwrap();
    assert!(matches!(cell.set(String::from("again")), Err(SetError::Full(value)) if value == "again"));
    assert_eq!(cell.try_set(String::from("again")), Err(String::from("again")));
    assert_eq!(format!("{cell:?}"), "OnceCell(\"set\")");
    assert!(cell.clone() == cell);
    cell.get_mut().unwrap().push('!');
    assert_eq!(cell.take().as_deref(), Some("set!"));
    assert_eq!(block_on(cell.set_source(String::from("anew"))), Ok(()));
    assert!(matches!(block_on(cell.set_source(String::from("again"))), Err(SetError::Full(_))));
    assert_eq!(cell.into_inner().as_deref(), Some("anew"));
    let lazy: Lazy<u32, _> = Lazy::named("NAME", || 1);
    assert_eq!(format!("{lazy:?}"), "NAME(<unforced>)");
    assert!(lazy.into_inner().is_err());
    let mut lazy = Lazy::new(|| 1);
    lazy.force().unwrap();
    *lazy.get_mut().unwrap() += 1;
    assert_eq!(format!("{lazy:?}"), "Lazy(2)");
    assert_eq!(lazy.into_inner().ok(), Some(2));
}

#[test]
fn a_set_waits_for_the_initialiser_and_gives_its_value_back() {
    everywhere(|| {
        let cell = OnceCell::new();
        scope(|s| {
            let Ok(Turn::Yours(turn)) = cell.turn() else { unreachable!() };
            let set = s.spawn(|| cell.set(1));
            pauses(2).unwrap();
            assert!(cell.try_set(2).is_err());
            turn.fill(3);
            assert_eq!(set.join().unwrap().map_err(SetError::into_value), Err(1));
            assert_eq!(cell.get(), Some(&3));
        });
    });
}

#[test]
fn values_and_closures_are_dropped_once() {
    everywhere(|| {
        let (values, closures) = (Count::new(), Count::new());
        let make = || {
            let closure = Counted(&closures);
            let values = &values;
            Lazy::new(move || {
                let _keep = &closure;
                Counted(values)
            })
        };
        let lazy = make();
        assert!(lazy.force().is_ok());
        assert_eq!((values.get(), closures.get()), (0, 1), "the closure goes when it is not needed any more");
        drop(lazy);
        assert_eq!((values.get(), closures.get()), (1, 1));
        drop(make());
        assert_eq!((values.get(), closures.get()), (1, 2));
        assert!(block_on(make().force_source()).is_ok());
        assert_eq!((values.get(), closures.get()), (2, 3));
        let mut cell = OnceCell::from(Counted(&values));
        drop(cell.take());
        assert!(cell.set(Counted(&values)).is_ok() && cell.set(Counted(&values)).is_err());
        assert_eq!(values.get(), 4);
        drop(cell.into_inner());
        assert_eq!(values.get(), 5);
    });
}

#[test]
fn a_force_is_chosen_among_others_and_has_no_effect_if_it_is_not() {
    everywhere(|| {
        let cell = OnceCell::new();
        let Ok(Turn::Yours(turn)) = cell.turn() else { unreachable!() };
        let none = cell.get_or_init_source(|| 1).or(after(Duration::from_millis(1))).wait();
        assert_eq!(none, Ok(Either::Right(())));
        drop(turn);
        // Not chosen though it is ready: the turn stays.
        assert_eq!(after(Duration::ZERO).or(cell.get_or_init_source(|| 1)).wait(), Ok(Either::Left(())));
        assert!(cell.get().is_none());
        let some = after(DAY).or(cell.get_or_init_source(|| 1)).wait();
        assert_eq!(some, Ok(Either::Right(Ok(&1))));
    });
}

#[test]
fn the_initialiser_of_a_source_may_wait_and_panic_wherever_it_is_run() {
    everywhere(|| {
        for fails in [false, true] {
            for place in 0..4 {
                let cell = OnceCell::new();
                let turn = if place < 2 { cell.try_turn() } else { None };
                let tries = Count::new();
                let force = cell.get_or_init_source(|| {
                    tries.up();
                    sleep(Duration::from_micros(1)).unwrap();
                    if fails {
                        std::panic::panic_any("planted");
                    }
                    7
                });
                let outcome = scope(|s| {
                    // At once, or after a wait, when it is handed the turn; alone, or as one of two.
                    let forced = s.spawn(move || {
                        catch_unwind(AssertUnwindSafe(|| match place % 2 {
                            0 => force.wait().unwrap().copied(),
                            _ => match force.or(after(DAY)).wait().unwrap() {
                                Either::Left(value) => value.copied(),
                                Either::Right(()) => unreachable!("a day has not passed"),
                            },
                        }))
                        .ok()
                    });
                    pauses(2).unwrap();
                    drop(turn);
                    forced.join().unwrap()
                });
                assert_eq!((outcome, tries.get()), ((!fails).then_some(Ok(7)), 1));
                // A panic has handed the turn back.
                assert_eq!(cell.get_or_init(|| 8), Ok(if fails { &8 } else { &7 }));
            }
        }
    });
}

#[test]
fn a_once_is_called_once() {
    everywhere(|| {
        let (once, calls) = (Once::new(), Count::new());
        scope(|s| {
            drop(s.spawn(|| assert_eq!((once.wait(), calls.get()), (Ok(()), 1))));
            for n in 0..6 {
                let (once, calls) = (&once, &calls);
                let call = move || {
                    pauses(2).unwrap();
                    calls.up();
                };
                drop(s.spawn(move || {
                    let done = if n % 2 == 0 { once.call_once(call) } else { block_on(once.call_once_source(call)) };
                    assert_eq!((done, once.is_completed(), calls.get()), (Ok(()), true, 1));
                }));
            }
        });
    });
}

#[test]
fn a_force_while_panicking_does_not_wait() {
    struct Forces<'a>(&'a OnceCell<u32>, &'a Mutex<Vec<Result<u32, ForceError>>>);
    impl Drop for Forces<'_> {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0.get_or_init(|| 5).copied());
        }
    }
    let outcomes = Mutex::new(Vec::new());
    let run = pool(1).run(|| {
        let (empty, full, busy) = (OnceCell::new(), OnceCell::from(6), OnceCell::new());
        let turn = busy.try_turn();
        for cell in [&empty, &full, &busy] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _forces = Forces(cell, &outcomes);
                std::panic::panic_any("planted");
            }));
            assert!(panicked.is_err());
        }
        drop(turn);
    });
    assert_eq!(run, Ok(()));
    let outcomes = outcomes.into_inner().unwrap();
    assert!(matches!(outcomes[..], [Ok(5), Ok(6), Err(ForceError::Cancelled(_))]), "{outcomes:?}");
}

#[test]
fn lazies_of_closures_that_are_not_shared_can_be_shared() {
    fn shared<T: Sync + Send>(value: T) -> T {
        value
    }
    fn sent<T: Send>(value: T) -> T {
        value
    }
    let cell = std::cell::Cell::new(1);
    let lazy = shared(Lazy::new(move || cell.replace(2)));
    assert_eq!(block_on(sent(lazy.force_source().into_future())), Ok(&1));
    let cell = shared(OnceCell::<u32>::new());
    drop(sent(cell.turn_source().into_future()));
    drop(sent(cell.try_turn()));
}
