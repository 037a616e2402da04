//! The table of callbacks, of std's names. `segue-sched/tests/barriers` has the rest, and
//! `common/table.rs` there says what rows, columns and cells are.

#[path = "../../segue-sched/tests/common/table.rs"]
mod table;

use segue_std::sync::{Condvar, Mutex, Once, OnceLock};
use segue_std::thread;
use table::{Must::*, RIGHT, Row, act, fiber};

fn acts() -> u64 {
    act();
    RIGHT
}

/// Within a limit.
fn wait_timeout_while() -> u64 {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    let condition = |value: &mut u64| {
        act();
        *value += 1;
        *value < 1
    };
    let (guard, result) = changed.wait_timeout_while(value.lock().unwrap(), table::LONG, condition).unwrap();
    assert!(!result.timed_out());
    *guard + RIGHT - 1
}

/// Without a limit.
fn wait_while() -> u64 {
    let (value, changed) = (Mutex::new(0), Condvar::new());
    let condition = |value: &mut u64| {
        act();
        *value += 1;
        *value < 1
    };
    *changed.wait_while(value.lock().unwrap(), condition).unwrap() + RIGHT - 1
}

fn done_once() -> u64 {
    let once = Once::new();
    once.call_once_force(|_| _ = acts());
    assert!(once.is_completed());
    RIGHT
}

static ROWS: &[Row] = &[
    fiber("std: Once::call_once_force", Captured, done_once),
    fiber("std: Condvar::wait_while", Captured, wait_while),
    fiber("std: Condvar::wait_timeout_while", Captured, wait_timeout_while),
    table::thread("std: Condvar::wait_timeout_while, on a thread", Captured, wait_timeout_while),
    fiber("std: OnceLock::get_or_init", Captured, || *OnceLock::new().get_or_init(acts)),
    fiber("std: the body of a scope", Captured, || thread::scope(|_| acts())),
    fiber("std: a fiber of a scope", Apart, || thread::scope(|s| s.spawn(acts).join().unwrap())),
    fiber("std: spawn", Apart, || thread::spawn(acts).join().unwrap()),
];

#[test]
fn what_is_called_by_stds_names_is_a_body_or_is_not_captured() {
    table::check(ROWS, &[]);
}
