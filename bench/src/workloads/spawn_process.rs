//! `spawn_process`: child processes are started and waited for; an operation is one of them. Wall
//! time, of which most is the kernel's: a fork, an exec, an end.
//!
//! * *One after the other*: `true`, which does nothing, is started and waited for.
//! * *32 at a time*: so many are started, and then so many are waited for.
//! * *Its output*: `echo` is started, what it writes is read, and it is waited for.
//!
//! Everybody starts children through std's `Command`; what differs is how the end is waited for,
//! and how a pipe is read. Timed is all of that. Not timed: starting the scheduler. Each has one
//! thread, and may have others of its library's.

use super::segue_run;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::process::{Command, Stdio};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "spawn_process", timed: "children are started and waited for", variants };

fn variants() -> Vec<Variant> {
    let ends = |name, at_once: u64| {
        Variant::new(name, "child", 2)
            .add(SEGUE, move |n| segue_run(1, || segue_ends(at_once, n)))
            .add("tokio", move |n| tokio(tokio_ends(at_once, n)))
            .add("smol", move |n| smol::block_on(smol_ends(at_once, n)))
            .add("std", move |n| std_ends(at_once, n))
    };
    vec![
        ends("one after the other", 1),
        ends("32 at a time", 32),
        Variant::new("its output", "child", 2)
            .add(SEGUE, |n| segue_run(1, || segue_output(n)))
            .add("tokio", |n| tokio(tokio_output(n)))
            .add("smol", |n| smol::block_on(smol_output(n)))
            .add("std", std_output),
    ]
}

fn idle() -> Command {
    Command::new("/bin/true")
}

fn echo() -> Command {
    let mut command = Command::new("/bin/echo");
    command.arg("hello").stdin(Stdio::null());
    command
}

fn check(text: &[u8]) {
    assert_eq!(text, b"hello\n");
}

fn tokio(main: impl Future<Output = Span>) -> Span {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("tokio starts").block_on(main)
}

fn segue_ends(at_once: u64, n: u64) -> Span {
    let rounds = n.div_ceil(at_once);
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let start = |_| segue::process::spawn(&mut idle()).expect("a child starts");
        let children: Vec<_> = (0..at_once).map(start).collect();
        for mut child in children {
            assert!(child.wait().expect("nobody else waits for it").success());
        }
    }
    watch.stop(rounds * at_once)
}

async fn tokio_ends(at_once: u64, n: u64) -> Span {
    let rounds = n.div_ceil(at_once);
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let start = |_| tokio::process::Command::from(idle()).spawn().expect("a child starts");
        let children: Vec<_> = (0..at_once).map(start).collect();
        for mut child in children {
            assert!(child.wait().await.expect("nobody else waits for it").success());
        }
    }
    watch.stop(rounds * at_once)
}

async fn smol_ends(at_once: u64, n: u64) -> Span {
    let rounds = n.div_ceil(at_once);
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let start = |_| smol::process::Command::from(idle()).spawn().expect("a child starts");
        let children: Vec<_> = (0..at_once).map(start).collect();
        for mut child in children {
            assert!(child.status().await.expect("nobody else waits for it").success());
        }
    }
    watch.stop(rounds * at_once)
}

fn std_ends(at_once: u64, n: u64) -> Span {
    let rounds = n.div_ceil(at_once);
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let children: Vec<_> = (0..at_once).map(|_| idle().spawn().expect("a child starts")).collect();
        for mut child in children {
            assert!(child.wait().expect("nobody else waits for it").success());
        }
    }
    watch.stop(rounds * at_once)
}

fn segue_output(n: u64) -> Span {
    let watch = Stopwatch::start();
    (0..n).for_each(|_| check(&segue::process::output(&mut echo()).expect("a child starts").stdout));
    watch.stop(n)
}

async fn tokio_output(n: u64) -> Span {
    let watch = Stopwatch::start();
    for _ in 0..n {
        check(&tokio::process::Command::from(echo()).output().await.expect("a child starts").stdout);
    }
    watch.stop(n)
}

async fn smol_output(n: u64) -> Span {
    let watch = Stopwatch::start();
    for _ in 0..n {
        check(&smol::process::Command::from(echo()).output().await.expect("a child starts").stdout);
    }
    watch.stop(n)
}

fn std_output(n: u64) -> Span {
    let watch = Stopwatch::start();
    (0..n).for_each(|_| check(&echo().output().expect("a child starts").stdout));
    watch.stop(n)
}
