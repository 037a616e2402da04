//! The bank of `examples/bank.rs` as a test: the planted race is found and replayed, and without it
//! every schedule passes.

#![cfg(feature = "sched")]

#[allow(dead_code, unreachable_pub)] // Its `main` is the example's.
#[path = "../../../examples/bank.rs"]
mod bank;

use bank::{Care, a_busy_day};
use segue::sched::{Cause, Explore};

#[segue::test(policy = exhaustive(100_000))]
fn a_careful_bank_passes_every_schedule() -> Result<(), String> {
    a_busy_day(Care::Careful)
}

#[segue::test(policy = pct(2))]
#[should_panic(expected = "an account is overdrawn")]
fn a_careless_bank_is_found_out() {
    a_busy_day(Care::Careless).unwrap();
}

#[test]
fn every_policy_finds_it_and_replays_it() {
    let careless = || a_busy_day(Care::Careless);
    for explore in [Explore::random(1_000), Explore::pct(2, 1_000), Explore::exhaustive(10_000)] {
        let found = explore.run(careless).unwrap_err();
        assert!(matches!(&found.cause, Cause::Failed(why) if why.contains("overdrawn")), "{found}");
        let replayed = explore.replay(&found.schedule, careless).unwrap_err();
        assert_eq!((&replayed.cause, &replayed.schedule), (&found.cause, &found.schedule));
        // The customer is served by one teller up to the look, and by the other to the end: one
        // departure from first come, first served.
        let shrunk = found.shrunk.map_or(0, |shrunk| shrunk.departures.0);
        assert!(shrunk <= 2, "{shrunk} departures");
    }
}

/// The one command that a report prints, tried: in a process of its own, with the environment that
/// it says.
#[test]
fn the_printed_command_replays() {
    let test = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["broken::it_fails", "--exact", "--ignored", "--nocapture"]);
        command.env_remove("SEGUE_SEED").env_remove("SEGUE_SCHEDULES").envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passed, report) = test(&[]);
    assert!(!passed && report.contains("the seventh"), "{report}");
    let printed = report.split("to replay it: SEGUE_SEED=").nth(1).expect("a command");
    let (schedule, command) = printed.lines().next().unwrap().split_once(' ').unwrap();
    assert_eq!(command, "cargo test -p segue broken::it_fails -- --exact --ignored");

    let (passed, again) = test(&[("SEGUE_SEED", schedule)]);
    assert!(!passed && again.contains(&format!("schedule {schedule} (number 1) failed: ")), "{again}");
    assert!(again.contains("panicked: the seventh"), "{again}");

    // A schedule that passes, fewer schedules, a seed alone, and nonsense.
    assert!(test(&[("SEGUE_SEED", "choices-")]).0);
    assert!(test(&[("SEGUE_SCHEDULES", "1"), ("SEGUE_SEED", "choices-")]).0);
    let (_, one) = test(&[("SEGUE_SEED", "0"), ("SEGUE_SCHEDULES", "1000")]);
    assert!(one.contains("the seventh"), "{one}");
    let (passed, nonsense) = test(&[("SEGUE_SEED", "nonsense")]);
    assert!(!passed && nonsense.contains("SEGUE_SEED: `nonsense` names no schedule"), "{nonsense}");
    let (passed, nonsense) = test(&[("SEGUE_SCHEDULES", "many")]);
    assert!(!passed && nonsense.contains("SEGUE_SCHEDULES=many can't be understood"), "{nonsense}");
}

mod broken {
    /// Fails where the second of two fibers begins before the first.
    #[segue::test(schedules = 100)]
    #[ignore = "it fails; another test runs it"]
    fn it_fails() {
        let order = segue::sync::Mutex::new(0);
        segue::scope(|s| {
            s.spawn(|| *order.lock().unwrap() += 1);
            s.spawn(|| *order.lock().unwrap() *= 7);
        });
        assert!(order.into_inner() != 1, "the seventh");
    }
}
