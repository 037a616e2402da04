//! Cases that look like deadlocks at some instant, and are none.

use segue::sched::{Dump, Fifo, Runtime, Sim, settle};
use segue::sync::{Mutex, OnceCell};
use segue::{Builder, after, scope};
use std::cell::Cell;
use std::time::Duration;

/// How many deadlocks there are of this file's fibers: other tests plant some meanwhile.
fn deadlocks(dump: &Dump) -> usize {
    let is_here = |at: &std::panic::Location<'_>| at.file().ends_with("none.rs");
    dump.deadlocks.iter().filter(|cycle| cycle.waiters.iter().any(|waiter| is_here(waiter.waits_for.at))).count()
}

/// The waiter is told, and has not run since: until then it counts as waiting.
#[test]
fn a_cell_that_was_filled_has_no_owner() {
    let _alone = crate::alone();
    let dumps = Runtime::new().workers(1).run_with(Fifo::default, || {
        let (cell, mutex) = (OnceCell::<u32>::new(), Mutex::new(0));
        let (waits, is_over, dumps) = (Cell::new(false), Cell::new(false), Cell::new(0));
        scope(|s| {
            s.spawn_local(|| {
                let value = *cell
                    .get_or_init(|| {
                        while !waits.get() {
                            segue::yield_now().unwrap();
                        }
                        // The waiter's turn, in which it begins to wait.
                        segue::yield_now().unwrap();
                        7
                    })
                    .unwrap();
                *mutex.lock().unwrap() += value;
                is_over.set(true);
            });
            s.spawn_local(|| {
                let mut guard = mutex.lock().unwrap();
                waits.set(true);
                *guard += *cell.get_or_init(|| unreachable!("somebody else has the right")).unwrap();
            });
            while !is_over.get() {
                let dump = segue::dump();
                assert_eq!(deadlocks(&dump), 0, "{dump}");
                dumps.set(dumps.get() + 1);
                segue::yield_now().unwrap();
            }
        });
        dumps.get()
    });
    assert!(dumps.unwrap() > 2);
}

#[test]
fn a_scope_does_not_wait_for_its_daemons() {
    let _alone = crate::alone();
    let run = Sim::new(1).run(|| {
        let mutex = Mutex::new(0);
        scope(|s| {
            Builder::new().name("keeps the lock").within(s).spawn(|| {
                let _guard = mutex.lock();
                scope(|inner| {
                    inner.spawn_daemon(|| mutex.lock().map(drop));
                    inner.spawn(|| after(Duration::from_secs(1)).wait());
                });
            });
            settle().unwrap();
            let dump = segue::dump();
            assert_eq!(deadlocks(&dump), 0, "{dump}");
        });
    });
    assert_eq!(run, Ok(()));
}
