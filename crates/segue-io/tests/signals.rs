//! Signals as sources: before and during the wait, for several at once, beside other handlers. The
//! tests send signals to their own process, each another one.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // A handler that is not ours.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{everywhere, until};
use rustix::process::{Signal as Kernels, getpid, kill_process};
use segue_core::{CancelToken, Cancelled, Either, after, any_of, scope, wait_future};
use segue_io::signal::{Signal, Signals, ctrl_c};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn raise(signal: Kernels) {
    kill_process(getpid(), signal).unwrap();
}

#[test]
fn a_signal_before_the_wait_is_kept_and_many_are_one() {
    everywhere(|| {
        let signals = Signals::new(Signal::USR1).unwrap();
        assert!(!signals.try_recv());
        for _ in 0..5 {
            raise(Kernels::USR1);
        }
        signals.recv().unwrap();
        // The kernel may deliver to another thread a moment later; but not five times.
        let more = std::iter::from_fn(|| signals.try_recv().then_some(())).count();
        assert!(more < 4, "{more}");
    });
}

#[test]
fn a_signal_during_the_wait_ends_it() {
    everywhere(|| {
        let signals = Signals::new(Signal::USR2).unwrap();
        scope(|s| {
            let waits = s.spawn(|| signals.recv());
            for _ in 0..20 {
                segue_core::yield_now().unwrap();
            }
            raise(Kernels::USR2);
            waits.join().unwrap().unwrap();
        });
    });
}

#[test]
fn each_of_several_sees_the_signal_and_so_does_a_handler_of_before() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn others(_: i32) {
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: the handler adds to a number.
    unsafe { libc::signal(libc::SIGALRM, others as *const () as libc::sighandler_t) };
    everywhere(|| {
        let seen = SEEN.load(Ordering::SeqCst);
        let (first, second) = (Signals::new(Signal::ALRM).unwrap(), Signals::new(Signal::ALRM).unwrap());
        let task = async { second.recv_source().await };
        raise(Kernels::ALARM);
        first.recv().unwrap();
        wait_future(task).unwrap().unwrap();
        until(|| SEEN.load(Ordering::SeqCst) == seen + 1);
        // One that goes takes nothing from the other.
        drop(first);
        raise(Kernels::ALARM);
        second.recv().unwrap();
        // It is called after the signal was received, so perhaps later.
        until(|| SEEN.load(Ordering::SeqCst) == seen + 2);
    });
}

#[test]
fn a_choice_among_signals_takes_the_one_that_came() {
    everywhere(|| {
        let all = [Signal::HUP, Signal::QUIT, Signal::WINCH].map(|signal| Signals::new(signal).unwrap());
        raise(Kernels::QUIT);
        let came = any_of(all.each_ref().map(Signals::recv_source)).wait().unwrap();
        assert_eq!(came.0, 1);
        let none = any_of(all.each_ref().map(Signals::recv_source)).or(after(Duration::from_millis(2)));
        assert!(matches!(none.wait().unwrap(), Either::Right(())));
    });
}

#[test]
fn a_receive_that_is_cancelled_leaves_the_signal() {
    everywhere(|| {
        let signals = Signals::new(Signal::TERM).unwrap();
        let token = CancelToken::new();
        scope(|s| {
            let waits = s.spawn(|| token.run(|| signals.recv()));
            segue_core::yield_now().unwrap();
            token.cancel();
            assert!(Cancelled::caused(&waits.join().unwrap().unwrap_err()));
        });
        raise(Kernels::TERM);
        assert!(Cancelled::caused(&token.run(|| signals.recv()).unwrap_err()));
        signals.recv().unwrap();
    });
}

#[test]
fn ctrl_c_is_one_arm_of_a_choice() {
    everywhere(|| {
        let stop = ctrl_c().unwrap();
        assert_eq!(stop.signal(), Signal::INT);
        raise(Kernels::INT);
        let first = after(Duration::from_secs(60)).or(stop.recv_source()).wait().unwrap();
        assert!(matches!(first, Either::Right(Ok(()))));
    });
}

#[test]
fn what_nobody_can_wait_for_is_an_error() {
    let of = |signals: std::io::Result<Signals>| signals.unwrap_err().kind();
    for number in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGILL, libc::SIGFPE, 0, -1, 100, 1000] {
        let signal = Signal::from_raw(number);
        assert_eq!([of(Signals::new(signal)), of(Signals::once(signal))], [ErrorKind::InvalidInput; 2], "{number}");
    }
}

/// In the environment of a program that has one of these roles.
const ROLE: &str = "SEGUE_TEST_ROLE";

/// Hears Ctrl-C in this role, and tells its parent of it line by line. Ends with success when it is
/// sent USR1.
fn hear(role: &str) {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn others(_: i32) {
        SEEN.fetch_add(1, Ordering::SeqCst);
    }
    let before = match role {
        "ignored" => libc::SIG_IGN,
        "handled" => others as *const () as libc::sighandler_t,
        _ => libc::SIG_DFL,
    };
    // SAFETY: the handler adds to a number.
    unsafe { libc::signal(libc::SIGINT, before) };
    let goes_on = Signals::new(Signal::USR1).unwrap();
    let stop = ctrl_c().unwrap();
    let tell = |line: &str| eprintln!("{line}");
    match role {
        "given up" => {
            drop(stop);
            tell("ready");
        }
        "two" => {
            let another = ctrl_c().unwrap();
            tell("ready");
            [&stop, &another].map(|one| one.recv().unwrap());
            tell("first");
        }
        "again" => {
            tell("ready");
            stop.recv().unwrap();
            let again = ctrl_c().unwrap();
            tell("first");
            again.recv().unwrap();
            assert!(!stop.try_recv(), "it has heard its one");
            tell("second");
        }
        "taken" => {
            let each = Signals::new(Signal::INT).unwrap();
            tell("ready");
            [&stop, &each].map(|one| one.recv().unwrap());
            tell("first");
            each.recv().unwrap();
            assert!(!stop.try_recv(), "it has heard its one");
            tell("second");
        }
        _ => {
            tell("ready");
            stop.recv().unwrap();
            tell("first");
            if role == "handled" {
                until(|| SEEN.load(Ordering::SeqCst) == 2);
                tell("second");
            }
        }
    }
    goes_on.recv().unwrap();
}

#[test]
fn in_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    segue_sched::Runtime::new().workers(1).park(segue_io::DriverPark::new).run(|| hear(&role)).unwrap();
}

/// Sends a program in this role these signals, each when it has said what stands before them.
fn sends(role: &str, signals: &[(&str, &[Kernels])]) -> ExitStatus {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "in_a_role", "--nocapture"]).env(ROLE, role);
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let pid = rustix::process::Pid::from_child(&child);
    for (when, signals) in signals {
        assert_eq!(lines.next().as_deref(), Some(*when), "{role}");
        signals.iter().for_each(|signal| kill_process(pid, *signal).unwrap());
    }
    let status = child.wait().unwrap();
    assert_eq!(lines.next(), None, "{role}");
    status
}

#[test]
fn the_second_ctrl_c_ends_a_program_that_has_not_ended_by_itself() {
    const INT: &[Kernels] = &[Kernels::INT];
    let ended = |role, signals: &[_]| assert_eq!(sends(role, signals).signal(), Some(libc::SIGINT), "{role}");
    ended("alone", &[("ready", INT), ("first", INT)]);
    ended("given up", &[("ready", INT)]);
    ended("two", &[("ready", INT), ("first", INT)]);
    ended("again", &[("ready", INT), ("first", INT), ("second", INT)]);
}

#[test]
fn a_second_ctrl_c_ends_nothing_where_somebody_has_each_or_where_it_had_no_default_action() {
    const INT: &[Kernels] = &[Kernels::INT];
    const USR1: &[Kernels] = &[Kernels::USR1];
    let goes_on = |role, signals: &[_]| assert!(sends(role, signals).success(), "{role}");
    goes_on("taken", &[("ready", INT), ("first", INT), ("second", USR1)]);
    goes_on("handled", &[("ready", INT), ("first", INT), ("second", USR1)]);
    goes_on("ignored", &[("ready", INT), ("first", &[Kernels::INT, Kernels::USR1])]);
}

/// Nobody there hears what its parent waits for.
#[test]
fn the_child_of_a_fork_is_ended_by_a_signal_that_its_parent_waits_for_once() {
    const SIGNAL: i32 = libc::SIGVTALRM;
    let end = Signals::once(Signal::from_raw(SIGNAL)).unwrap();
    // SAFETY: the child makes two system calls and ends.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::raise(SIGNAL);
            libc::_exit(7);
        }
        child
    };
    let mut status = 0;
    // SAFETY: there is room for the status of a child of this process, which nobody else waits for.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(ExitStatus::from_raw(status).signal(), Some(SIGNAL), "the child went on");
    assert!(!end.try_recv());
    // SAFETY: the signal has a handler.
    unsafe { libc::raise(SIGNAL) };
    end.recv().unwrap();
}
