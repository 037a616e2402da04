//! What a report of the explorer tells of a failing schedule: where fibers were preempted, which
//! went on, and each panic once.

#![cfg(feature = "sched")]

use segue::sync::Mutex;
use segue::testing::Explore;
use segue::{spawn, yield_now};
use std::process::{Command, Output};

/// Two additions, of which one may be lost between the unlock and the next lock.
fn adds_twice() {
    let number = Mutex::new(0);
    segue::scope(|s| {
        for name in ["anna", "bela"] {
            let add = || {
                let seen = *number.lock().unwrap();
                *number.lock().unwrap() = seen + 1;
            };
            drop(segue::Builder::new().name(name).within(s).spawn(add));
        }
    });
    assert_eq!(number.into_inner(), 2, "an addition was lost");
}

/// Runs the test `name` of this file once more, in a process of its own.
fn child(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--ignored", "--test-threads=1"]);
    command.env("RUST_BACKTRACE", "0").envs(variables.iter().copied()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_failing_schedule_names_the_places_of_its_turns_out_of_order() {
    let failure = Explore::random(200).run(adds_twice).unwrap_err();
    let report = failure.to_string();
    assert_eq!(failure.turns.len(), failure.shrunk.as_ref().map_or(1, |shrunk| shrunk.departures.0), "{report}");
    // One preemption does it: between the two locks.
    let [turn] = &failure.turns[..] else { panic!("{report}") };
    assert!(
        turn.starts_with("fiber `anna` is preempted at ") || turn.starts_with("fiber `bela` is preempted at "),
        "{turn}"
    );
    assert!(turn.contains("tests/places.rs:1") && turn.contains(" goes on"), "{turn}");
    // A function that was inlined has its name without a path.
    let operations = ["unlock of a mutex", "`Mutex::lock`", "`lock`"];
    assert!(operations.iter().any(|operation| turn.contains(operation)), "{turn}");
    assert!(report.contains(turn.as_str()), "{report}");
    // A replay tells the same, and so does no exploration that was not to run it again.
    let again = Explore::random(1).replay(failure.plainest(), adds_twice).unwrap_err();
    assert_eq!(again.turns, failure.turns);
    assert!(Explore::random(200).shrink(false).run(adds_twice).unwrap_err().turns.is_empty());
}

#[test]
fn a_turn_that_nobody_was_preempted_for_says_what_the_fiber_waits_for() {
    let program = || {
        let order = Mutex::new(Vec::new());
        segue::scope(|s| {
            for n in 0..2 {
                let order = &order;
                drop(s.spawn(move || order.lock().unwrap().push(n)));
            }
        });
        assert_eq!(order.into_inner(), [0, 1], "the second went on before the first");
    };
    let failure = Explore::random(200).preemptive(false).run(program).unwrap_err();
    let report = failure.to_string();
    let [turn, ..] = &failure.turns[..] else { panic!("{report}") };
    assert!(turn.contains("fiber 0 waits for ") && turn.contains("places.rs"), "{report}");
    assert!(turn.contains(" was ready before it"), "{report}");
}

#[test]
fn a_traced_replay_prints_every_turn() {
    let output = child("adds", &[("SEGUE_SEED", "plain"), ("SEGUE_TRACE", "1")]);
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("segue: fiber 0 waits for the fibers of a scope at "), "{text}");
    assert!(text.contains("segue: fiber `anna` has ended; fiber `bela` goes on"), "{text}");
    // Without it there is nothing to read.
    assert_eq!(stderr(&child("adds", &[("SEGUE_SEED", "plain")])), "");
}

#[segue::test]
#[ignore = "other tests call it, with variables set"]
fn adds() {
    adds_twice();
}

#[test]
fn a_panic_that_is_expected_is_printed_once() {
    let output = child("panics", &[]);
    let text = stderr(&output);
    assert!(output.status.success(), "{text}");
    assert_eq!(text.matches("this is expected").count(), 1, "{text}");
}

#[segue::test(schedules = 50)]
#[ignore = "another test calls it"]
fn panics() {
    assert!(spawn(|| panic!("this is expected")).join().is_err());
}

#[segue::test(policy = plain)]
fn the_plainest_schedule_is_first_in_first_out_and_its_time_is_simulated() {
    let order = Mutex::new(Vec::new());
    let start = segue::now();
    segue::scope(|s| {
        for n in 0..5 {
            let order = &order;
            drop(s.spawn(move || {
                order.lock().unwrap().push(n);
                yield_now().unwrap();
                order.lock().unwrap().push(n + 5);
                segue::sleep(std::time::Duration::from_secs(3600)).unwrap();
            }));
        }
    });
    assert_eq!(order.into_inner(), (0..10).collect::<Vec<_>>());
    assert_eq!(segue::now() - start, std::time::Duration::from_secs(3600));
}

#[test]
fn the_plainest_schedule_is_one_and_known_by_its_name() {
    let explored = Explore::plain().check(adds_twice);
    assert_eq!((explored.schedules, explored.complete), (1, false));
    let failure = Explore::plain().run(|| assert!(segue::check().is_err(), "always")).unwrap_err();
    assert_eq!(failure.schedule.to_string(), "plain");
}
