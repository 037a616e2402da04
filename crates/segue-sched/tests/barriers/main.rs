//! The table of callbacks: what each may bring about that performs an effect, or gives to a
//! generator, where the library calls it. `common/table.rs` says what rows, columns and cells are.
//!
//! `segue/tests/barriers.rs` has those of the structures.

#[path = "../common/table.rs"]
mod table;

mod bodies;
mod listing;
mod operations;
mod schedulers;
mod wakers;

#[test]
fn bodies_are_captured_with_their_contexts() {
    table::check(bodies::ROWS, &[]);
}

#[test]
fn steps_of_operations_are_not_captured() {
    let doors = [
        "the hook of Blocking::on_cancel",
        "with_current",
        "Operation::attempt_unlocked, in a wait",
        "Operation::commit, in a choice",
    ];
    table::check(operations::ROWS, &doors);
}

#[test]
fn wakers_are_not_captured_and_keep_nobody_behind_them() {
    let doors = [
        "a waker, by a cancelled wait that serves the next",
        "what wakes a scheduler, by check() past a deadline",
        "what wakes a scheduler, by the cancel after a body's panic",
    ];
    table::check(wakers::ROWS, &doors);
}

#[test]
fn what_a_scheduler_calls_is_not_captured() {
    table::check(schedulers::ROWS, &["Park::enter, in a run", "Park::leave, in a run"]);
}
