//! The program that runs, to be started once more.
//!
//! Used by tests that need a process to themselves.

use std::env;
use std::process::Command;

/// The command that starts the calling program once more, for tests that need a process of their
/// own.
///
/// Under an emulator that is a command of the emulator: the variable `SEGUE_RUNNER` has its words,
/// as Cargo's `CARGO_TARGET_<TRIPLE>_RUNNER` has.
///
/// # Panics
///
/// If the system does not know the program's path.
///
/// # Examples
///
/// ```no_run
/// // A test that runs itself, and no others, in a process of its own.
/// let mut test = segue_conformance::this_program();
/// let ended = test.args(["the_name_of_this_test", "--exact"]).env("IN_CHILD", "1").status()?;
/// # let _ = ended;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn this_program() -> Command {
    let program = env::current_exe().expect("a system that knows a program's path");
    let runner = env::var("SEGUE_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(program) };
    let mut command = Command::new(first);
    command.args(words).arg(program);
    command
}
