//! Processes by std's names do what std's do: each case runs with `std` itself, and with
//! `segue_std` on a plain thread and on fibers of one worker and of two. And what std has no word
//! for: cancellation.

mod on_std {
    use std as like;
    include!("process_cases.rs");
}

mod on_fibers {
    use segue_std as like;
    include!("process_cases.rs");
}

use segue_std::process::Command;
use segue::{Cancelled, timeout};
use std::os::unix::process::CommandExt;
use std::time::Duration;

/// Where processes can be waited for: a simulation has none.
fn everywhere(f: impl Fn() + Send + Sync) {
    f();
    for workers in [1, 2] {
        segue::sched::Builder::new().workers(workers).run(&f).unwrap();
        segue::runtime().workers(workers).run(&f).unwrap();
    }
}

cases! {
    output_is_collected_where_nothing_else_was_said,
    one_child_reads_what_another_writes,
    arguments_environment_and_directory_are_handed_on,
    a_child_is_killed_asked_for_and_not_there,
}

#[test]
fn a_wait_for_a_child_is_cut_short_and_the_child_ends() {
    everywhere(|| {
        let cut = timeout(Duration::from_millis(5), || Command::new("sleep").arg("1000").status());
        assert!(Cancelled::caused(&cut.unwrap_err()));
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let cut = timeout(Duration::from_millis(5), || child.wait());
        assert!(Cancelled::caused(&cut.unwrap_err()));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    });
}

#[test]
fn a_program_that_is_cut_short_takes_its_group_along() {
    use segue_std::io::Read;
    everywhere(|| {
        // The one that it has started has the pipe, too: as long as it runs, that has no end.
        let (mut reader, writer) = segue::pipe::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & exit 0"]).stderr(writer).process_group(0);
        let cut = timeout(Duration::from_millis(5), || command.output());
        assert!(Cancelled::caused(&cut.unwrap_err()));
        drop(command);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn what_stds_command_has_besides_is_reached_through_it() {
    let mut command = Command::from(std::process::Command::new("sh"));
    command.args(["-c", "echo $0"]).as_std_mut().arg0("named");
    assert!(command.output().unwrap().status.success());
    assert!(command.status().unwrap().success());
}
