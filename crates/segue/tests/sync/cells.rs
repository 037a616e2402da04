//! Cells and lazies: their shape, recursion that is told, what is dropped when, and who may read.

use crate::meet;

use crate::counts;

use counts::{Count, Counted, DAY, pauses};
use meet::{block_on, everywhere, pool};
use segue::sync::{Entry, ForceError, Lazy, Once, OnceCell, SetError};
use segue::testing::Sim;
use segue::{Builder, CancelToken, Either, Rejected, after, scope, shield, sleep};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

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
            assert!(matches!(empty.entry(), Err(ForceError::Cancelled(_))));
            assert!(matches!(empty.set(2), Err(Rejected { value: 2, error: SetError::Cancelled(_) })));
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
            assert!(matches!(cell.entry(), Err(ForceError::Recursive(_))));
            assert!(matches!(cell.set(0), Err(Rejected { value: 0, error: SetError::Recursive(_) })));
            assert!(matches!(block_on(cell.get_or_init_source(|| 0)), Err(ForceError::Recursive(_))));
            let first = cell.wait_source().or(after(DAY)).wait();
            assert!(matches!(first, Ok(Either::Left(Err(ForceError::Recursive(_))))));
            let second = after(DAY).or(cell.wait_source()).wait();
            assert!(matches!(second, Ok(Either::Right(Err(ForceError::Recursive(_))))));
            assert_eq!(cell.try_set(0), Err(Rejected { value: 0, error: SetError::Busy }));
            assert!(cell.try_entry().is_none() && cell.get().is_none());
            // Its scope waits for it: `recursion.rs` has the rest.
            scope(|s| {
                let inside = s.spawn(|| cell.wait_source().or(after(Duration::from_millis(1))).wait());
                assert!(matches!(inside.join().unwrap(), Ok(Either::Left(Err(ForceError::Recursive(_))))));
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
        text.contains("OnceCell<alloc::vec::Vec<u8>> was forced at ") && text.matches("cells.rs:").count() == 2,
        "{text}"
    );
    let once = Once::new();
    let mut text = String::new();
    once.call_once(|| text = once.call_once(|| ()).unwrap_err().to_string()).unwrap();
    assert!(text.contains("Once was forced at ") && text.matches("cells.rs:").count() == 2, "{text}");
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
                let one = Builder::new().name("one").within(s).spawn(|| LEFT.force_fallible().unwrap_err().to_string());
                let two =
                    Builder::new().name("two").within(s).spawn(|| RIGHT.force_fallible().unwrap_err().to_string());
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
                        line.contains(&format!("waits for {waits_for} at ")) && line.contains("cells.rs:"),
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
        Ok(inner.join().map(u32::from)?)
    });
    let text = Sim::new(3).run(|| OUTER.force_fallible().is_ok()).unwrap_err().to_string();
    println!("{text}");
    assert!(text.contains("fiber `inner` waits for OUTER at ") && text.contains("cells.rs:"), "{text}");
    assert!(text.contains("deadlock: 2 wait for each other"), "{text}");
    assert_eq!(text.lines().count(), 6, "the seed, both, and both again in the cycle: {text}");
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
                            *addresses.lock().unwrap().entry(segue::core::scheduling::current().addr()).or_insert(0) +=
                                1;
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
    assert!(
        matches!(cell.set(String::from("again")), Err(Rejected { value, error: SetError::Full }) if value == "again")
    );
    assert_eq!(
        cell.try_set(String::from("again")),
        Err(Rejected { value: String::from("again"), error: SetError::Full })
    );
    assert_eq!(format!("{cell:?}"), "OnceCell(\"set\")");
    assert!(cell.clone() == cell);
    cell.get_mut().unwrap().push('!');
    assert_eq!(cell.take().as_deref(), Some("set!"));
    assert_eq!(block_on(cell.set_source(String::from("anew"))), Ok(()));
    assert!(matches!(block_on(cell.set_source(String::from("again"))), Err(Rejected { error: SetError::Full, .. })));
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
            let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!() };
            let set = s.spawn(|| cell.set(1));
            pauses(2).unwrap();
            assert_eq!(cell.try_set(2), Err(Rejected { value: 2, error: SetError::Busy }));
            initializer.fill(3);
            assert_eq!(set.join().unwrap().map_err(|rejected| rejected.value), Err(1));
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
        let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!() };
        let none = cell.get_or_init_source(|| 1).or(after(Duration::from_millis(1))).wait();
        assert_eq!(none, Ok(Either::Right(())));
        drop(initializer);
        // Not chosen though it is ready: the cell stays empty.
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
                let entry = if place < 2 { cell.try_entry() } else { None };
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
                    // At once, or after a wait, when it is handed the right; alone, or as one of
                    // two.
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
                    drop(entry);
                    forced.join().unwrap()
                });
                assert_eq!((outcome, tries.get()), ((!fails).then_some(Ok(7)), 1));
                // A panic has handed the right back.
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
        let entry = busy.try_entry();
        for cell in [&empty, &full, &busy] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _forces = Forces(cell, &outcomes);
                std::panic::panic_any("planted");
            }));
            assert!(panicked.is_err());
        }
        drop(entry);
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
    drop(sent(cell.entry_source().into_future()));
    drop(sent(cell.try_entry()));
}
