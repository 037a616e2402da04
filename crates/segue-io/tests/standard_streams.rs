//! Standard streams of all kinds: each test runs this program again as a child, which has the
//! stream in question, once with each driver.
#![cfg(target_os = "linux")]

mod common;

use common::guarded;
use rustix::fs::OFlags;
use rustix::process::{Pid, WaitOptions, waitpid};
use segue_core::{Cancelled, scope, timeout};
use segue_io::pty::Pty;
use segue_io::{DriverPark, stdio};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROLE: &str = "SEGUE_TEST_ROLE";
const DRIVERS: [&str; 2] = ["epoll", "ring"];

/// This program in a role of those below. What it has to tell goes to its standard errors.
fn program(role: &str, driver: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "in_a_role", "--nocapture"]).env(ROLE, role).env("SEGUE_IO", driver);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn does_not_block(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn errors_of(child: &mut Child) -> BufReader<impl Read + use<>> {
    BufReader::new(child.stderr.take().unwrap())
}

/// Not a test by itself: what the others start.
#[test]
fn in_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let told = segue_sched::Runtime::new().workers(1).park(DriverPark::new).run(|| match &*role {
        "patient" => patient(),
        "reader" => text_of(&stdio::stdin().unwrap()),
        "closed" => {
            // SAFETY: nobody else in this process uses it.
            #[allow(unsafe_code)]
            drop(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(0) });
            let error = stdio::stdin().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
            "closed".to_owned()
        }
        "writer" => writer(),
        "leader" => leader(),
        "error" => format!("{:?}", (&stdio::stdin().unwrap()).read(&mut [0]).unwrap_err().raw_os_error()),
        other => panic!("there is no role {other}"),
    });
    eprintln!("{}", told.unwrap());
    std::process::exit(0);
}

fn text_of(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text.trim_end().to_owned()
}

/// Gives up once, while others run, and then reads a line.
fn patient() -> String {
    let stdin = stdio::stdin().unwrap();
    let mut others = 0;
    scope(|s| {
        let waits = s.spawn(|| timeout(Duration::from_millis(5), || (&stdin).read(&mut [0; 16])).unwrap_err());
        while !waits.is_finished() {
            others += 1;
            segue_core::yield_now().unwrap();
        }
        assert_eq!(waits.join().unwrap().kind(), io::ErrorKind::TimedOut);
    });
    assert!(others > 0, "the read kept the worker");
    eprintln!("ready");
    line(&mut BufReader::new(&stdin))
}

/// Writes until nothing fits, is cancelled, and goes on.
fn writer() -> String {
    let stdout = stdio::stdout().unwrap();
    let token = segue_core::CancelToken::new();
    let written = scope(|s| {
        let writes = s.spawn(|| {
            let mut written = 0;
            let error = token.run(|| {
                loop {
                    match (&stdout).write(&[b'x'; 10_000]) {
                        Ok(count) => written += count,
                        Err(error) => break error,
                    }
                }
            });
            assert!(Cancelled::caused(&error), "{error}");
            written
        });
        segue_core::sleep(Duration::from_millis(20)).unwrap();
        token.cancel();
        writes.join().unwrap()
    });
    eprintln!("{written}");
    (&stdout).write_all(b"the rest").unwrap();
    "done".to_owned()
}

/// Leads a session, with a program in the background of its terminal.
fn leader() -> String {
    let driver = std::env::var("SEGUE_IO").unwrap();
    // The signal's default action: the program is stopped, and reads when it is in the foreground.
    let mut patient = program("reader", &driver);
    let mut reader = patient.process_group(0).stdin(Stdio::inherit()).spawn().unwrap();
    let pid = Pid::from_child(&reader);
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert_eq!(status.stopping_signal(), Some(rustix::process::Signal::TTIN.as_raw()));
    rustix::termios::tcsetpgrp(io::stdin(), pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    assert!(reader.wait().unwrap().success());
    // It ignores the signal, and so sees an error.
    let mut ignores = Command::new("sh");
    ignores.args(["-c", "trap '' TTIN; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    ignores.args(["--exact", "in_a_role", "--nocapture"]).env(ROLE, "error").process_group(0);
    assert!(ignores.stdout(Stdio::null()).status().unwrap().success());
    "led".to_owned()
}

/// A read of this stream can be given up, lets others run, and its flags stay as they are.
fn can_be_given_up(stdin: OwnedFd, to: &mut impl Write) {
    for driver in DRIVERS {
        let ours = stdin.try_clone().unwrap();
        let mut command = program("patient", driver);
        let mut child = command.stdin(stdin.try_clone().unwrap()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = errors_of(&mut child);
        assert_eq!(line(&mut errors), "ready");
        assert!(!does_not_block(&ours), "{driver}: a flag of the shell's was changed");
        to.write_all(b"at last\n").unwrap();
        assert_eq!(line(&mut errors), "at last");
        assert!(child.wait().unwrap().success());
        assert!(!does_not_block(&ours), "{driver}: a flag of the shell's was changed");
    }
}

#[test]
fn a_pipe_as_input_can_be_given_up() {
    let (reader, mut writer) = io::pipe().unwrap();
    guarded("a pipe", || can_be_given_up(reader.into(), &mut writer));
}

#[test]
fn a_socket_as_input_can_be_given_up() {
    let (reader, mut writer) = UnixStream::pair().unwrap();
    guarded("a socket", || can_be_given_up(reader.into(), &mut writer));
}

#[test]
fn a_terminal_as_input_can_be_given_up() {
    let mut terminal = Pty::open().unwrap();
    guarded("a terminal", || can_be_given_up(terminal.terminal().unwrap(), &mut terminal));
}

#[test]
fn a_file_as_input_is_read_from_where_it_is() {
    let path = std::env::temp_dir().join(format!("segue-stdin-{}", std::process::id()));
    std::fs::write(&path, "skipped and read").unwrap();
    for driver in DRIVERS {
        let mut file = File::open(&path).unwrap();
        file.seek(io::SeekFrom::Start(12)).unwrap();
        let output = program("reader", driver).stdin(file).output().unwrap();
        assert_eq!(text_of(&*output.stderr), "read");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_input_that_is_closed_is_the_end_or_an_error() {
    for driver in DRIVERS {
        // Started without one.
        let without = program("reader", driver);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$0\" \"$@\" <&-"]).arg(without.get_program()).args(without.get_args());
        let output = shell.env(ROLE, "reader").env("SEGUE_IO", driver).output().unwrap();
        assert!(output.status.success());
        assert_eq!(text_of(&*output.stderr), "");
        // Closed by itself.
        assert_eq!(text_of(&*program("closed", driver).output().unwrap().stderr), "closed");
    }
}

#[test]
fn a_terminal_in_the_background_stops_its_reader_or_fails_it() {
    for driver in DRIVERS {
        guarded(driver, || {
            let mut terminal = Pty::open().unwrap();
            let mut command = program("leader", driver);
            terminal.attach(&mut command).unwrap();
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            drop(command);
            // A line, and the end of the input.
            terminal.write_all(b"typed\n\x04").unwrap();
            let mut errors = errors_of(&mut child);
            assert_eq!(line(&mut errors), "typed");
            assert_eq!(line(&mut errors), "Some(5)", "EIO");
            assert_eq!(line(&mut errors), "led");
            assert!(child.wait().unwrap().success());
        });
    }
}

#[test]
fn a_full_pipe_as_output_can_be_given_up() {
    for driver in DRIVERS {
        guarded(driver, || {
            let (mut reader, writer) = io::pipe().unwrap();
            let mut child = {
                let mut command = program("writer", driver);
                command.stdout(writer.try_clone().unwrap()).stderr(Stdio::piped()).spawn().unwrap()
            };
            let mut errors = errors_of(&mut child);
            let written: usize = line(&mut errors).parse().unwrap();
            assert!(!does_not_block(&writer), "{driver}: a flag of the shell's was changed");
            drop(writer);
            let mut text = Vec::new();
            reader.read_to_end(&mut text).unwrap();
            assert!(child.wait().unwrap().success());
            // The test's own harness has written there too, before.
            assert!(text.ends_with(b"xxthe rest"));
            assert_eq!(text.iter().filter(|byte| **byte == b'x').count(), written);
        });
    }
}
