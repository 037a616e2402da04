//! The program for checks by hand: what it prints, and what it says to bad arguments.

use std::process::{Command, Output};

fn semantics(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_semantics")).args(arguments).output().expect("the program was built")
}

#[test]
fn it_checks_and_says_what_was_done() {
    let output = semantics(&["--programs", "200", "--seed", "7", "--size=30"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    for wanted in ["programs agree", "EffHn", "ResumeAgain", "never resumed", "seeds 7 and on"] {
        assert!(printed.contains(wanted), "{wanted} is not in\n{printed}");
    }
}

#[test]
fn it_says_which_program_is_run_if_asked() {
    let output = semantics(&["--programs", "3", "--seed", "18446744073709551614", "--each"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    let seeds: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("seed ")).collect();
    // Seeds wrap around. Each style runs all of them.
    assert_eq!(seeds, ["18446744073709551614", "18446744073709551615", "0"].repeat(3));
}

#[test]
fn bad_arguments_are_named() {
    let cases: [(&[&str], &str); 8] = [
        (&["--programs", "many"], "\"many\""),
        (&["--programs"], "missing argument for option '--programs'"),
        (&["--programs", "0"], "--programs 0 checks nothing"),
        (&["--programs", "-5"], "\"-5\""),
        (&["--size", "0"], "--size 0 leaves no program"),
        (&["--seed", "1.5"], "\"1.5\""),
        (&["--sed", "1"], "'--sed'"),
        (&["100"], "\"100\""),
    ];
    for (arguments, wanted) in cases {
        let output = semantics(arguments);
        let printed = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(printed.starts_with("error: ") && printed.contains(wanted), "{arguments:?}: {printed}");
        assert!(printed.contains("usage: "), "{printed}");
    }
}

#[test]
fn help_is_no_error() {
    let output = semantics(&["--help"]);
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("usage: "));
}
