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

use segue::{Cancelled, timeout};
use segue_std::process::{Command, Stdio};
use std::os::unix::process::CommandExt;
use std::time::Duration;

/// Where processes can be waited for: a simulation has none.
fn everywhere(f: impl Fn() + Send + Sync) {
    f();
    for workers in [1, 2] {
        segue::sched::Runtime::new().workers(workers).run(&f).unwrap();
        segue::runtime().workers(workers).run(&f).unwrap();
    }
}

cases! {
    output_is_collected_where_nothing_else_was_said,
    one_child_reads_what_another_writes,
    arguments_environment_and_directory_are_handed_on,
    a_child_is_killed_asked_for_and_not_there,
    a_child_has_the_name_that_it_is_given_and_is_prepared_by_a_closure,
    a_pipe_ends_with_its_writer,
    streams_of_one_machine_are_read_while_others_write,
    a_listener_is_made_of_its_descriptor,
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

/// The program that the next test starts, which is this one with an input.
#[test]
fn what_comes_in_is_counted() {
    if std::env::var_os("COUNT_LINES").is_none() {
        return;
    }
    use segue_std::io::{self, BufRead, Read};
    let mut first = String::new();
    io::stdin().read_line(&mut first).unwrap();
    let second = io::stdin().lock().lines().next().unwrap().unwrap();
    // Both fibers wait at the one buffer.
    let rest = segue_std::thread::spawn(|| io::stdin().lines().count());
    let none = segue_std::thread::spawn(|| io::stdin().read(&mut []).unwrap());
    assert_eq!((rest.join().unwrap(), none.join().unwrap(), io::stdin().is_terminal()), (998, 0, false));
    assert_eq!(io::stdin().read_to_string(&mut first).unwrap(), 0);
    println!("{}{second}", first.trim_end());
}

#[test]
fn the_standard_input_has_one_buffer() {
    use segue_std::io::Write;
    everywhere(|| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::what_comes_in_is_counted", "--nocapture"]).env("COUNT_LINES", "");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let writes = segue_std::thread::spawn(move || (0..1000).for_each(|n| writeln!(input, "line {n}").unwrap()));
        let output = child.wait_with_output().unwrap();
        writes.join().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains("line 0line 1"));
    });
}
