//! The carrier takes a state of the thread off wherever a fiber leaves the thread, or its place on
//! the thread, to others, and puts it back.
//!
//! The process has one carrier: its state is a number of each fiber's, zero for nothing.
#![cfg(not(miri))]

use segue_core::scheduling::{Crossing, carry, set_carrier};
use segue_core::{WaitsFor, after, fiber_local, registered, scope, yield_now};
use segue_sched::recorder::{Event, snapshot};
use segue_sched::{Fifo, Handle, Runtime, move_to};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fiber_local! {
    static NUMBER: Cell<u32> = Cell::new(0);
}

thread_local! {
    /// The state.
    static STATE: Cell<u32> = const { Cell::new(0) };
    /// How often it was taken off.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    /// Whether the carrier tries to wait, and how often such a wait has failed, or has not.
    static TRIES: Cell<bool> = const { Cell::new(false) };
    static TRIED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

fn carrier(crossing: Crossing) {
    match crossing {
        Crossing::Leaves => {
            LEFT.set(LEFT.get() + 1);
            STATE.set(0);
        }
        Crossing::Returns => STATE.set(NUMBER.with(Cell::get)),
    }
    if TRIES.get() {
        for failed in [yield_now().is_err(), after(Duration::from_secs(60)).wait().is_err()] {
            let (yes, no) = TRIED.get();
            TRIED.set(if failed { (yes + 1, no) } else { (yes, no + 1) });
        }
    }
}

/// Held by the case that runs, on its thread.
fn begin() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = set_carrier(carrier);
    one
}

fn set(number: u32) {
    NUMBER.with(|own| own.set(number));
    STATE.set(number);
    carry(number != 0);
}

/// Where a wait would be refused, a spawn runs in place.
#[test]
fn around_a_job_that_runs_in_its_callers_place() {
    let _one = begin();
    let run = Runtime::new().workers(1).run_with(Fifo::default, || {
        set(7);
        scope(|s| {
            let handle = registered(WaitsFor::new("a test"), || {
                s.spawn(|| {
                    let found = STATE.get();
                    set(9);
                    set(0);
                    found
                })
            });
            assert_eq!(handle.join().unwrap(), 0, "the job sees its caller's state");
            assert_eq!(STATE.get(), 7);
            // The caller carries still.
            let other = s.spawn(|| STATE.get());
            assert_eq!(other.join().unwrap(), 0);
            assert_eq!(STATE.get(), 7);
        });
        set(0);
    });
    run.unwrap();
}

#[test]
fn around_a_move_to_another_scheduler_of_the_thread() {
    let _one = begin();
    let run = Runtime::new().workers(1).name("around").run_with(Fifo::default, || {
        let outer = Handle::current().unwrap();
        let inner = Runtime::new().workers(1).name("inside").run_with(Fifo::default, || {
            set(7);
            let others = scope(|s| {
                let other = s.spawn(|| STATE.get());
                let before = LEFT.get();
                assert_eq!(move_to(&outer, || STATE.get()), Ok(7));
                assert_eq!(STATE.get(), 7);
                assert!(LEFT.get() >= before + 2, "it was not taken off, to and fro");
                other.join().unwrap()
            });
            assert_eq!(others, 0, "another fiber sees the state");
            set(0);
            let recording = snapshot();
            let track = recording.tracks.iter().find(|track| track.scheduler == "inside").unwrap();
            assert!(track.entries.iter().any(|entry| matches!(entry.event, Event::Yield { .. })), "{recording}");
        });
        inner.unwrap();
    });
    run.unwrap();
}

#[test]
fn a_wait_of_the_carrier_fails_wherever_that_is_called() {
    let _one = begin();
    let run = Runtime::new().workers(1).run_with(Fifo::default, || {
        set(7);
        TRIES.set(true);
        yield_now().unwrap();
        assert_eq!(TRIED.get(), (4, 0), "at a yield");
        after(Duration::from_millis(1)).wait().unwrap();
        assert_eq!(TRIED.get(), (8, 0), "at a wait");
        TRIES.set(false);
        assert_eq!(STATE.get(), 7);
        set(0);
    });
    run.unwrap();
}
