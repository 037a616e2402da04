//! Rings in processes of their own: where the system denies them, after a fork, among signals.
//!
//! Each test starts this executable again, for itself alone, and looks at what that said.
#![cfg(linux)]
#![allow(unsafe_code, reason = "forks, filters system calls and handles signals")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{on_one_worker, pair};
use segue_core::{scope, yield_now};
use segue_io::Backend;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

const ALONE: &str = "SEGUE_TEST_ALONE";

/// Runs `test` in a process of its own, which must succeed.
fn alone(name: &str, test: impl FnOnce()) -> Option<Output> {
    alone_in(name, 0, test)
}

/// The same, for one of several cases.
fn alone_in(name: &str, case: usize, test: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(ALONE).is_some() {
        test();
        return None;
    }
    let exe = std::env::current_exe().unwrap();
    let output = Command::new(exe)
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(ALONE, case.to_string())
        .output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {:?}\n{said}", output.status);
    Some(output)
}

/// Talks a little over loopback, by fibers.
fn talk() {
    let (client, server) = pair();
    common::talk::talk(client, server);
}

/// From now on this process is denied a system call, with this error.
fn deny(call: libc::c_long, error: i32) {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives for the call, and the kernel copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn where_rings_are_denied_one_line_says_so_and_all_goes_on() {
    for (index, error) in [libc::EPERM, libc::ENOSYS, libc::ENOMEM].into_iter().enumerate() {
        let output = alone_in("where_rings_are_denied_one_line_says_so_and_all_goes_on", index, || {
            let index: usize = std::env::var(ALONE).unwrap().parse().unwrap();
            deny(libc::SYS_io_uring_setup, [libc::EPERM, libc::ENOSYS, libc::ENOMEM][index]);
            for backend in [Backend::Ring, Backend::RingOf(4)] {
                on_one_worker(backend, talk);
                common::on_two_workers(backend, talk);
            }
        });
        let Some(output) = output else { return };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.matches("no io_uring can be had").count(), 1, "case {index}, error {error}:\n{said}");
    }
}

#[test]
fn the_child_of_a_fork_gets_an_error_and_the_parents_ring_stays_whole() {
    alone("the_child_of_a_fork_gets_an_error_and_the_parents_ring_stays_whole", || {
        for backend in [Backend::Ring, Backend::Native] {
            on_one_worker(backend, || {
                let (mut client, mut server) = pair();
                let waits = std::sync::Arc::new(AtomicUsize::new(0));
                scope(|s| {
                    let other = pair();
                    let (near, far) = other;
                    let told = std::sync::Arc::clone(&waits);
                    s.spawn(move || {
                        (&far).read_exact(&mut [0; 2]).unwrap();
                        told.store(1, Ordering::Relaxed);
                    });
                    // One op flies meanwhile.
                    for _ in 0..100 {
                        yield_now().unwrap();
                    }
                    // SAFETY: the child does little, and ends by `exec` or `_exit`.
                    let child = unsafe { libc::fork() };
                    assert!(child >= 0);
                    if child == 0 {
                        for _ in 0..1000 {
                            // Its worker looks for events meanwhile.
                            yield_now().unwrap();
                        }
                        let error = server.read(&mut [0; 4]).unwrap_err();
                        let is_told = error.to_string().contains("child of a fork");
                        if !is_told {
                            eprintln!("the child was told: {error}");
                            // SAFETY: ends the child at once.
                            unsafe { libc::_exit(3) };
                        }
                        let failed = Command::new("/bin/true").exec();
                        eprintln!("the child can't exec: {failed}");
                        // SAFETY: as above.
                        unsafe { libc::_exit(4) };
                    }
                    let mut status = 0;
                    // SAFETY: it is this process's child.
                    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{backend:?}: {status:#x}");
                    (&near).write_all(b"ok").unwrap();
                    while waits.load(Ordering::Relaxed) == 0 {
                        yield_now().unwrap();
                    }
                });
                client.write_all(b"four").unwrap();
                server.read_exact(&mut [0; 4]).unwrap();
                talk();
            });
        }
    });
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_storm_of_signals_that_interrupt_every_call_loses_nothing() {
    alone("a_storm_of_signals_that_interrupt_every_call_loses_nothing", || {
        // SAFETY: the handler adds to an atomic; without SA_RESTART each call is interrupted.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count as extern "C" fn(i32) as usize;
            assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
            let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
            let timer = libc::itimerval { it_interval: every, it_value: every };
            assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
        }
        for backend in common::BACKENDS {
            let before = SIGNALS.load(Ordering::Relaxed);
            while SIGNALS.load(Ordering::Relaxed) < before + 200 {
                on_one_worker(backend, talk);
            }
        }
    });
}

#[test]
fn a_name_that_is_no_drivers_is_an_error_that_names_those_that_are() {
    alone("a_name_that_is_no_drivers_is_an_error_that_names_those_that_are", || {
        // SAFETY: this process has one thread but for the test's.
        unsafe { std::env::set_var("SEGUE_IO", "rings") };
        let error = segue_io::DriverPark::new().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("`ring`") && error.to_string().contains("rings"), "{error}");
        // SAFETY: as above.
        unsafe { std::env::set_var("SEGUE_IO", OsStr::from_bytes(b"epoll\xff")) };
        assert_eq!(segue_io::DriverPark::new().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        for name in ["ring", "epoll", "native", ""] {
            // SAFETY: as above.
            unsafe { std::env::set_var("SEGUE_IO", name) };
            segue_io::DriverPark::new().unwrap();
        }
    });
}

#[test]
fn a_name_that_is_no_rule_for_sends_is_an_error_where_there_is_a_ring() {
    alone("a_name_that_is_no_rule_for_sends_is_an_error_where_there_is_a_ring", || {
        // SAFETY: this process has one thread but for the test's.
        unsafe { std::env::set_var("SEGUE_SENDS", "later") };
        for backend in [Backend::Ring, Backend::RingOf(2)] {
            let error = segue_io::DriverPark::with(backend).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("`now`") && error.to_string().contains("later"), "{error}");
        }
        segue_io::DriverPark::with(Backend::Native).unwrap();
        for name in ["fly", "now", "turns", "auto", ""] {
            // SAFETY: as above.
            unsafe { std::env::set_var("SEGUE_SENDS", name) };
            for backend in [Backend::Ring, Backend::RingOf(2)] {
                on_one_worker(backend, talk);
                common::on_two_workers(backend, talk);
            }
        }
    });
}

/// Makes, reads and removes a file, and looks at the directory.
fn keep_files() {
    use segue_io::fs;
    let dir = std::env::temp_dir().join(format!("segue-alone-{}", std::process::id()));
    fs::create_dir_all(dir.join("below")).unwrap();
    fs::write(dir.join("below/file"), vec![b'x'; 300_000]).unwrap();
    let mut file = fs::File::open(dir.join("below/file")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert!(content.len() == 300_000 && content.iter().all(|byte| *byte == b'x'));
    assert_eq!(fs::copy(dir.join("below/file"), dir.join("copy")).unwrap(), 300_000);
    fs::rename(dir.join("copy"), dir.join("moved")).unwrap();
    let lengths = fs::read_dir(dir.join("below")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(lengths.sum::<u64>(), 300_000);
    assert_eq!(fs::metadata(dir.join("moved")).unwrap().len(), 300_000);
    fs::temp_file_in(&dir).unwrap().write_all(b"x").unwrap();
    fs::remove_file(dir.join("moved")).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    assert!(!fs::exists(&dir).unwrap());
}

#[test]
fn files_need_no_ring_and_none_of_the_calls_that_look_at_once() {
    let cases = [
        (libc::SYS_io_uring_setup, libc::EPERM),
        (libc::SYS_openat2, libc::ENOSYS),
        (libc::SYS_openat2, libc::EPERM),
        (libc::SYS_preadv2, libc::ENOSYS),
        (libc::SYS_preadv2, libc::EOPNOTSUPP),
        (libc::SYS_copy_file_range, libc::ENOSYS),
        (libc::SYS_copy_file_range, libc::EXDEV),
    ];
    for case in 0..cases.len() {
        alone_in("files_need_no_ring_and_none_of_the_calls_that_look_at_once", case, || {
            let case: usize = std::env::var(ALONE).unwrap().parse().unwrap();
            let (call, error) = cases[case];
            deny(call, error);
            for backend in [Backend::Ring, Backend::Native] {
                on_one_worker(backend, keep_files);
            }
            keep_files();
        });
    }
}

#[test]
fn the_child_of_a_fork_goes_on_with_its_files() {
    alone("the_child_of_a_fork_goes_on_with_its_files", || {
        for backend in [Backend::Ring, Backend::Native] {
            on_one_worker(backend, || {
                keep_files();
                // SAFETY: the child has the one thread that it needs, and ends by `_exit`.
                let child = unsafe { libc::fork() };
                assert!(child >= 0);
                if child == 0 {
                    let outcome = std::panic::catch_unwind(keep_files);
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(i32::from(outcome.is_err())) };
                }
                let mut status = 0;
                // SAFETY: it is this process's child.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{backend:?}: {status:#x}");
                keep_files();
            });
        }
    });
}
