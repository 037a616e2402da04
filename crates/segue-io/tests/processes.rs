//! Children: how their ends are waited for, whatever they do before, and what is left of them.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{BACKENDS, everywhere, on_one_worker, until};
use segue_core::{CancelToken, Cancelled, Either, after, scope, timeout};
use segue_io::process::{self, Child, Command, Stdio};
use segue_io::signal::Signal;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::time::Duration;

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The letter that the kernel has for the state of a process; none if there is no such process.
fn state(id: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Whether a process has ended. If its parent has, it may be nobody's to wait for.
fn has_ended(id: u32) -> bool {
    state(id).is_none_or(|state| state == 'Z')
}

/// A shell that leads a group, and one that it has started, which has its output too. The shell
/// then does what it is told.
fn group(then: &str) -> (Child, u32) {
    let mut command = sh(&format!("sleep 1000 & echo $!; {then}"));
    let mut child = process::spawn(command.stdout(Stdio::piped()).process_group(0)).unwrap();
    let other = line(child.stdout.as_mut().unwrap()).parse().unwrap();
    (child, other)
}

/// The next line, and no more of what is there.
fn line(from: &mut impl Read) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    while from.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0].into());
    }
    line
}

fn reads_lines(child: &mut Child) -> impl Iterator<Item = String> {
    let stdout = child.stdout.take().unwrap();
    std::io::BufRead::lines(std::io::BufReader::new(stdout)).map(Result::unwrap)
}

#[test]
fn a_child_is_waited_for_and_its_status_is_kept() {
    everywhere(|| {
        let mut child = process::spawn(&mut sh("exit 7")).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(7));
        assert_eq!(child.exit_source().wait().unwrap().unwrap().code(), Some(7));
        child.kill().unwrap();

        assert_eq!(process::status(&mut sh("kill -USR1 $$")).unwrap().signal(), Some(10));
        let error = process::spawn(&mut Command::new("/there/is/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    });
}

#[test]
fn a_child_that_has_died_before_it_is_waited_for_is_no_different() {
    everywhere(|| {
        let mut child = process::spawn(&mut sh("exit 3")).unwrap();
        let id = child.id();
        until(|| state(id) == Some('Z'));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(state(id), None, "a zombie is left");
    });
}

#[test]
fn both_streams_are_read_at_once() {
    everywhere(|| {
        // Each is more than a pipe holds, in an order at which a reader of one first would hang.
        let script = "head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2";
        let output = process::output(&mut sh(script)).unwrap();
        assert!(output.status.success());
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 600_000));
    });
}

#[test]
fn one_stream_alone_is_collected_and_the_input_is_closed() {
    everywhere(|| {
        let mut command = Command::new("cat");
        let child = process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        (&mut child.stdin.as_ref().unwrap()).write_all(b"to the cat").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((&*output.stdout, &*output.stderr), (&b"to the cat"[..], &b""[..]));
    });
}

#[test]
fn a_child_that_is_stopped_has_not_ended() {
    everywhere(|| {
        let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
        let id = child.id();
        child.send(Signal::STOP).unwrap();
        until(|| state(id) == Some('T'));
        assert_eq!(child.try_wait().unwrap(), None);
        let first = child.exit_source().or(after(Duration::from_millis(2))).wait().unwrap();
        assert!(matches!(first, Either::Right(())));
        child.stdin = None;
        child.send(Signal::CONT).unwrap();
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn a_child_that_closes_its_pipes_lives_on() {
    everywhere(|| {
        let mut command = sh("exec >&- 2>&-; read line; exit 5");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn(&mut command).unwrap();
        assert_eq!(child.stdout.as_mut().unwrap().read(&mut [0]).unwrap(), 0);
        assert_eq!(child.stderr.as_mut().unwrap().read(&mut [0]).unwrap(), 0);
        assert_eq!(child.try_wait().unwrap(), None, "the end of a stream is not that of its process");
        child.stdin.as_mut().unwrap().write_all(b"end\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5));
    });
}

#[test]
fn all_who_wait_for_a_child_see_its_end() {
    everywhere(|| {
        let mut command = Command::new("cat");
        let mut child = process::spawn(command.stdin(Stdio::piped())).unwrap();
        let stdin = child.stdin.take();
        scope(|s| {
            let waits = || child.exit_source().wait().unwrap().unwrap().success();
            let all: Vec<_> = (0..4).map(|_| s.spawn(waits)).collect();
            drop(stdin);
            assert!(all.into_iter().all(|ended| ended.join().unwrap()));
        });
    });
}

#[test]
fn a_wait_that_is_cancelled_has_no_effect() {
    everywhere(|| {
        let mut command = Command::new("cat");
        let mut child = process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
        let (token, stdin) = (CancelToken::new(), child.stdin.take());
        scope(|s| {
            let waits = s.spawn(|| token.run(|| child.wait()));
            for _ in 0..20 {
                segue_core::yield_now().unwrap();
            }
            token.cancel();
            let error = waits.join().unwrap().unwrap_err();
            assert!(Cancelled::caused(&error), "{error}");
        });
        let read = segue_core::timeout(Duration::from_millis(2), || child.stdout.as_mut().unwrap().read(&mut [0]));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(child.try_wait().unwrap(), None);
        drop(stdin);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn what_is_dropped_leaves_no_zombie_and_is_killed_if_that_was_said() {
    everywhere(|| {
        let cat = |kills| {
            let mut command = Command::new("cat");
            let mut child = process::spawn(command.stdin(Stdio::piped())).unwrap().kill_on_drop(kills);
            (child.id(), child.stdin.take().unwrap())
        };
        let (killed, _its_stdin) = cat(true);
        until(|| state(killed).is_none());
        let (ends, its_stdin) = cat(false);
        assert_ne!(state(ends), None, "it was killed, or waited for too early");
        drop(its_stdin);
        until(|| state(ends).is_none());
        // One that has ended already.
        let child = process::spawn(&mut sh("exit 0")).unwrap();
        let id = child.id();
        until(|| state(id) == Some('Z'));
        drop(child);
        assert_eq!(state(id), None);
    });
}

#[test]
fn a_program_that_is_cancelled_is_killed() {
    everywhere(|| {
        let (mut lines, writer) = segue_io::pipe::pipe().unwrap();
        let mut command = sh("echo $$; exec sleep 1000");
        command.stdout(writer.into_stdio().unwrap());
        let token = CancelToken::new();
        let id = scope(|s| {
            let runs = s.spawn(|| token.run(|| process::status(&mut command)));
            let mut digits = [0; 16];
            let count = lines.read(&mut digits).unwrap();
            token.cancel();
            assert!(Cancelled::caused(&runs.join().unwrap().unwrap_err()));
            String::from_utf8_lossy(&digits[..count]).trim().parse::<u32>().unwrap()
        });
        until(|| state(id).is_none());
        // Who is cancelled before starts none.
        let error = token.run(|| process::output(&mut Command::new("true"))).unwrap_err();
        assert!(Cancelled::caused(&error));
    });
}

#[test]
fn a_group_is_ended_with_all_its_members() {
    everywhere(|| {
        let (mut child, other) = group("wait");
        assert!(!has_ended(other));
        child.send_to_group(Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        until(|| has_ended(other));

        let (child, other) = group("wait");
        child.kill_group().unwrap();
        assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(9), "the output has an end, too");
        until(|| has_ended(other));
    });
}

#[test]
fn a_group_can_be_ended_when_its_leader_has_and_its_number_is_kept_for_that() {
    everywhere(|| {
        let (mut child, other) = group("exit 3");
        let id = child.id();
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(3));
        assert_eq!((state(id), has_ended(other)), (Some('Z'), false), "the number is anybody's");
        child.kill_group().unwrap();
        until(|| has_ended(other));
        child.kill_group().unwrap();
        drop(child);
        assert_eq!(state(id), None, "a zombie is left");
    });
}

#[test]
fn a_dropped_group_is_killed_if_that_was_said_and_its_end_was_not_told_of() {
    everywhere(|| {
        // Its leader runs; and has ended, of which nobody knows.
        for then in ["wait", "exit 0"] {
            let (child, other) = group(then);
            let id = child.id();
            until(|| (state(id) == Some('Z')) == (then != "wait"));
            drop(child.kill_on_drop(true));
            until(|| state(id).is_none() && has_ended(other));
        }
        // Whoever knows has said nothing of the others.
        let (child, other) = group("exit 0");
        let mut child = child.kill_on_drop(true);
        assert!(child.wait().unwrap().success());
        drop(child);
        let (forgotten, another) = group("wait");
        let id = forgotten.id();
        drop(forgotten);
        assert!(!has_ended(other) && !has_ended(another) && !has_ended(id));
        // The shell ends by itself when the one that it waits for has.
        process::status(&mut sh(&format!("kill -9 {id} {other} {another}"))).unwrap();
        until(|| [other, another, id].into_iter().all(has_ended));
    });
}

#[test]
fn a_program_that_is_cancelled_is_killed_with_its_group() {
    everywhere(|| {
        let (mut numbers, writer) = segue_io::pipe::pipe().unwrap();
        // What it starts has its output: that does not end before.
        let mut command = sh("sleep 1000 & echo $! >&0; exit 0");
        command.stdin(writer.into_stdio().unwrap()).process_group(0);
        let token = CancelToken::new();
        let other = scope(|s| {
            let runs = s.spawn(|| token.run(|| process::output(&mut command)));
            let other = line(&mut numbers).parse().unwrap();
            assert!(!has_ended(other));
            token.cancel();
            assert!(Cancelled::caused(&runs.join().unwrap().unwrap_err()));
            other
        });
        until(|| has_ended(other));
    });
}

#[test]
fn a_child_that_leads_no_group_has_none_to_be_killed() {
    everywhere(|| {
        let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
        let error = child.kill_group().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(child.wait().unwrap().success());
    });
}

#[test]
fn what_came_before_a_time_limit_is_in_the_callers_buffers_and_the_rest_comes_later() {
    everywhere(|| {
        for both in [true, false] {
            let mut command =
                sh("trap 'echo three; exit 4' TERM; echo one; echo two >&2; while :; do sleep 0.01; done");
            command.stdout(Stdio::piped()).stderr(if both { Stdio::piped() } else { Stdio::null() });
            let mut child = process::spawn(&mut command).unwrap().kill_on_drop(true);
            let (mut out, mut err) = (b"before ".to_vec(), Vec::new());
            while !out.ends_with(b"one\n") || (both && err.is_empty()) {
                let ended = timeout(Duration::from_millis(2), || child.wait_with_output_into(&mut out, &mut err));
                assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
            }
            assert!(child.stdout.is_some(), "its streams are still there");
            child.send(Signal::TERM).unwrap();
            let status = child.wait_with_output_into(&mut out, &mut err).unwrap();
            assert_eq!((status.code(), child.stdout.is_some()), (Some(4), false));
            let errors: &[u8] = if both { b"two\n" } else { b"" };
            assert_eq!((&out[..], &err[..]), (&b"before one\nthree\n"[..], errors));
            // There is no more of it, and the status is kept.
            assert_eq!(child.wait_with_output_into(&mut out, &mut err).unwrap(), status);
        }
    });
}

#[test]
fn a_thousand_children_at_once() {
    for backend in [BACKENDS[0], BACKENDS[2]] {
        on_one_worker(backend, || {
            let mut children: Vec<_> = (0..1000)
                .map(|_| process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap().kill_on_drop(true))
                .collect();
            let inputs: Vec<_> = children.iter_mut().map(|child| child.stdin.take()).collect();
            scope(|s| {
                let all: Vec<_> = children.iter_mut().map(|child| s.spawn(|| child.wait().unwrap())).collect();
                segue_core::yield_now().unwrap();
                drop(inputs);
                assert!(all.into_iter().all(|ended| ended.join().unwrap().success()));
            });
        });
    }
}

#[test]
fn a_pipe_goes_from_child_to_child_and_blocks_there() {
    everywhere(|| {
        let mut first = process::spawn(sh("head -c 200000 /dev/zero").stdout(Stdio::piped())).unwrap();
        let between = first.stdout.take().unwrap();
        // Read from by us, and then handed on.
        (&between).read_exact(&mut [0; 1000]).unwrap();
        let mut second = Command::new("wc");
        second.arg("-c").stdin(between.into_stdio().unwrap()).stdout(Stdio::piped());
        let mut second = process::spawn(&mut second).unwrap();
        assert_eq!(reads_lines(&mut second).next().unwrap().trim(), "199000");
        assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    });
}

/// What a shell has open, as a child of this process: the program's own, and what this process was
/// started with.
fn inherited() -> Vec<String> {
    let output = process::output(sh("echo /proc/$$/fd/*").stdin(Stdio::null())).unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_child_inherits_nothing_of_the_library() {
    let names = |open: Vec<String>| {
        open.into_iter()
            .map(|path| path.rsplit('/').next().unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(inherited());
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let sockets = common::pair();
            common::enlist(&sockets.0);
            let _pipe = segue_io::pipe::pipe().unwrap();
            let _signals = segue_io::signal::Signals::new(Signal::USR2).unwrap();
            let _terminal = segue_io::pty::Pty::open().unwrap();
            let _other = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
            assert_eq!(names(inherited()), before);
        });
    }
}
