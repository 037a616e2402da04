//! Use after free, made visible: every freed block is overwritten, so that whoever still reads one
//! finds neither state nor result.
#![allow(unsafe_code)] // A global allocator.

#[path = "../common/mod.rs"]
mod common;

use common::{Meet, everywhere_and_on_threads, in_child, pool, scaled};
use segue_core::{scope, shield, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Sim, join};
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;

struct Poisons;

// SAFETY: the system's allocator, which gets back what it gave; the block is the caller's until
// then.
unsafe impl GlobalAlloc for Poisons {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; an even pattern, which no final state of a trigger is.
        unsafe {
            block.write_bytes(0x5A, layout.size());
            // The optimiser may not drop the write because the block is freed next.
            std::hint::black_box(block);
            System.dealloc(block, layout);
        }
    }
}

#[global_allocator]
static POISONS: Poisons = Poisons;

#[test]
fn a_join_that_its_own_target_cancels() {
    let end = in_child("a_join_that_its_own_target_cancels", || {
        everywhere_and_on_threads(|| {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                scope(|s| {
                    // Its panic cancels the scope, and so this very join; then it ends, before the
                    // joiner has run.
                    let bad = s.spawn(|| -> () { panic_any("planted") });
                    let _ = bad.join();
                });
            }));
            assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "planted");
        });
    });
    end.assert_passed();
}

#[test]
fn a_join_that_is_cancelled_just_before_its_target_ends() {
    let end = in_child("a_join_that_is_cancelled_just_before_its_target_ends", || {
        let round = || {
            let gate = Arc::new(Meet::new());
            let held = Arc::clone(&gate);
            let target = spawn(move || held.wait());
            scope(|s| {
                let joiner = s.spawn(move || target.join().is_ok());
                for _ in 0..3 {
                    let _ = yield_now();
                }
                // The joiner is ready, with its wait cancelled; the target ends first, or after it.
                s.cancel();
                gate.put(1);
                let _ = shield(|| joiner.join());
            });
        };
        for seed in 0..200 {
            Sim::new(seed).run(round).unwrap();
        }
        for workers in [1, 2] {
            Runtime::new().workers(workers).run(|| (0..scaled(1000, 20)).for_each(|_| round())).unwrap();
            Runtime::new()
                .workers(workers)
                .run_with(Fifo::default, || (0..scaled(1000, 20)).for_each(|_| round()))
                .unwrap();
        }
    });
    end.assert_passed();
}

#[test]
fn cancelling_twice_while_a_join_that_was_cancelled_is_ready() {
    let end = in_child("cancelling_twice_while_a_join_that_was_cancelled_is_ready", || {
        for seed in 0..200 {
            let run = Sim::new(seed).run(|| {
                scope(|outer| {
                    let target = outer.spawn(|| {
                        let _ = yield_now();
                    });
                    let joiner = outer.spawn(move || {
                        scope(|inner| {
                            drop(inner.spawn(|| inner.cancel()));
                            let _ = target.join();
                        });
                    });
                    let _ = yield_now();
                    outer.cancel();
                    let _ = shield(|| joiner.join());
                });
            });
            run.unwrap();
        }
    });
    end.assert_passed();
}

#[test]
fn pools_joins_and_scopes_that_end_in_every_order() {
    let end = in_child("pools_joins_and_scopes_that_end_in_every_order", || {
        everywhere_and_on_threads(|| {
            let meet = Meet::new();
            let (a, ()) = join(|| scope(|s| s.spawn(|| yield_now().is_ok()).join().is_ok()), || meet.put(1));
            assert!(a);
        });
        for round in 0..scaled(200, 20) {
            let pool = pool(1 + round % 2);
            let handles: Vec<_> = (0..4).map(|_| pool.spawn(|| spawn(yield_now).join().is_ok())).collect();
            if round % 3 == 0 {
                drop(pool);
            }
            handles.into_iter().for_each(|handle| drop(handle.join()));
        }
    });
    end.assert_passed();
}
