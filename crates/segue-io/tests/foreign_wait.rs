//! Somebody else in this process waits for whatever child ends, or wants to hear of none; alone in
//! its program, for it takes the children of all.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // A signal is ignored.

mod common;

use common::{everywhere, until};
use rustix::process::{WaitOptions, wait, waitpid};
use segue_io::process::{self, Command, Stdio};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: each takes the children of the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_status_that_somebody_else_has_taken_is_a_clear_error() {
    let _alone = alone();
    everywhere(|| {
        let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap().kill_on_drop(true);
        let id = child.id();
        drop(child.stdin.take());
        let (taken, _) = waitpid(None, WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(taken.as_raw_nonzero().get().cast_unsigned(), id);

        let error = child.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("other code in this process has waited for it"), "{error}");
        assert_eq!(child.try_wait().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(child.exit_source().wait().unwrap().unwrap_err().kind(), ErrorKind::NotFound);
        // Nobody else has its number by chance: nobody is hit.
        child.kill().unwrap();
    });
}

#[test]
fn a_group_whose_leader_somebody_else_has_taken_is_lost_also_after_its_end_was_told_of() {
    let _alone = alone();
    everywhere(|| {
        for is_told in [true, false] {
            let mut command = Command::new("true");
            let mut child = process::spawn(command.process_group(0)).unwrap().kill_on_drop(true);
            let id = child.id();
            if is_told {
                assert!(child.wait().unwrap().success());
            } else {
                // A signal looks at it, too, and tells nobody.
                until(|| std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap().contains(") Z"));
                child.kill().unwrap();
            }
            let (taken, _) = wait(WaitOptions::empty()).unwrap().unwrap();
            assert_eq!(taken.as_raw_nonzero().get().cast_unsigned(), id);

            // From now on its number may be another group's.
            assert_eq!(child.kill_group().unwrap_err().kind(), ErrorKind::NotFound);
            assert!(child.wait().unwrap().success(), "the status is kept");
        }
    });
}

/// By a pidfd: else there is a handler, which is the end of ignoring.
#[test]
#[cfg(pidfds)]
fn where_ends_are_ignored_the_wait_still_ends_and_says_so() {
    let _alone = alone();
    // SAFETY: no handler runs.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    everywhere(|| {
        let mut child = process::spawn(Command::new("cat").stdin(Stdio::piped())).unwrap();
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(child.wait().unwrap_err().kind(), ErrorKind::NotFound);
    });
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}
