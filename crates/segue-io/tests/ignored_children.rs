//! A process that ignores SIGCHLD, so that the kernel keeps no status of its children and no
//! zombie: starting children here changes none of that. In a program of its own, as what is ignored
//! is the whole process's.
#![cfg(pidfds)]
#![allow(unsafe_code)] // What this process ignores, and a child that ends before it is executed.

mod common;

use common::{BACKENDS, on_one_worker, until};
use segue_io::process::{self, Child, Command, Stdio};
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::sync::Once;

/// Has this process ignore the ends of its children.
fn ignore() {
    static IGNORED: Once = Once::new();
    // SAFETY: no handler is replaced that anybody has installed.
    IGNORED.call_once(|| _ = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) });
}

fn is_ignored() -> bool {
    // SAFETY: it is filled with zeros, which is a value of it, and then written by the kernel.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: nothing is changed.
    assert_eq!(unsafe { libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut action) }, 0);
    action.sa_sigaction == libc::SIG_IGN
}

fn exists(id: u32) -> bool {
    std::fs::exists(format!("/proc/{id}")).unwrap()
}

/// A child that is gone, and its number with it, before [`process::spawn`] can look at it: it
/// leaves the program to a child of its own, which begins only then.
fn gone_at_once() -> Child {
    let mut command = Command::new("true");
    let leave = || {
        // SAFETY: plain system calls, in a process that has one thread.
        unsafe {
            let child = libc::getpid();
            match libc::fork() {
                -1 => return Err(std::io::Error::last_os_error()),
                0 => {
                    // Of a zombie the number would stay.
                    libc::alarm(10);
                    while libc::kill(child, 0) == 0 {}
                }
                _ => libc::_exit(0),
            }
        }
        Ok(())
    };
    // SAFETY: it makes only system calls, as it has to between fork and exec.
    process::spawn(unsafe { command.pre_exec(leave) }).unwrap()
}

fn lost<T: std::fmt::Debug>(waited: std::io::Result<T>) {
    let error = waited.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("SIGCHLD is ignored"), "{error}");
}

#[test]
fn a_child_that_is_gone_before_it_is_looked_at_changes_nothing_for_others() {
    ignore();
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let mut child = gone_at_once();
            assert!(is_ignored(), "a handler was installed: other children of this process become zombies");
            lost(child.wait());
            lost(child.try_wait());
            lost(child.exit_source().wait().unwrap());
            child.kill().unwrap();
            drop(child);
            // One of the program's own, for which nobody waits.
            let own = Command::new("true").spawn().unwrap().id();
            until(|| !exists(own));
        });
    }
}

#[test]
fn the_end_of_a_child_is_waited_for_and_then_its_status_is_lost() {
    ignore();
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let mut command = Command::new("cat");
            let mut child = process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
            assert_eq!(child.try_wait().unwrap(), None);
            (&mut child.stdin.as_ref().unwrap()).write_all(b"to the cat").unwrap();
            let id = child.id();
            lost(child.wait());
            assert!(!exists(id), "it has not ended");
            lost(child.wait());
            // One that is dropped while it runs, and killed.
            let child = process::spawn(Command::new("sleep").arg("1000")).unwrap().kill_on_drop(true);
            let id = child.id();
            drop(child);
            until(|| !exists(id));
            assert!(is_ignored());
        });
    }
}
