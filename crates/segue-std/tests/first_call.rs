//! What a call starts on a plain thread depends on the function that is called, and not on the
//! functions that were called before.

use segue::core::build::{DefaultRuntime, Threads};
use segue::core::{self, in_fiber};
use segue::par::prelude::*;
use std::io::{Read, Write};
use std::process::Command;

/// Where a closure runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A thread that was started for the closure, or for the task.
    Thread,
    /// A worker of the default runtime.
    Default,
}

use Place::{Default, Thread};

fn place() -> Place {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name.starts_with("segue-default-") => {
            assert!(in_fiber());
            Default
        }
        Some("segue") if !in_fiber() => Thread,
        other => panic!("a closure runs on the thread {other:?}"),
    }
}

/// A call on a plain thread, and where its closure has to run.
type Call = (&'static str, Place, fn() -> Place);

const CALLS: &[Call] = &[
    ("core::spawn", Thread, || core::spawn(place).join().unwrap()),
    ("core::spawn_task", Thread, || core::spawn_task(async { place() }).join().unwrap()),
    ("core::scope", Thread, || core::scope(|s| s.spawn(place).join().unwrap())),
    ("core::try_scope", Thread, || core::try_scope(|s| s.spawn(place).join()).unwrap()),
    ("core::Builder", Thread, || core::Builder::new().cancellable().spawn(place).join().unwrap()),
    ("core::Builder, within segue::scope", Default, || {
        segue::scope(|s| core::Builder::new().within(s).spawn(place).join().unwrap())
    }),
    ("scope_over", Thread, || core::scheduling::scope_over(Threads::start, |s| s.spawn(place).join().unwrap())),
    ("spawn", Default, || segue::spawn(place).join().unwrap()),
    ("spawn_task", Default, || segue::spawn_task(async { place() }).join().unwrap()),
    ("scope", Default, || segue::scope(|s| s.spawn(place).join().unwrap())),
    ("Scope::spawn_daemon", Default, || segue::scope(|s| s.spawn_daemon(place).join().unwrap())),
    ("Scope::spawn_task", Default, || segue::scope(|s| s.spawn_task(async { place() }).join().unwrap())),
    ("try_scope", Default, || segue::try_scope(|s| s.spawn(place).join()).unwrap()),
    ("Builder", Default, || segue::Builder::new().name("named").spawn(place).join().unwrap()),
    ("Builder::after", Default, || segue::Builder::new().after(std::time::Duration::ZERO).spawn(place).join().unwrap()),
    ("Builder, within core::scope", Thread, || {
        core::scope(|s| segue::Builder::new().within(s).spawn(place).join().unwrap())
    }),
    ("Builder, on the default pool", Default, || {
        core::Builder::new().on(segue::sched::default_pool()).spawn(place).join().unwrap()
    }),
    ("default_pool", Default, || segue::sched::default_pool().run(place).unwrap()),
    ("join", Default, || segue::join(place, || ()).0),
    ("a parallel loop", Default, || (0..1).into_par_iter().map(|_| place()).collect::<Vec<_>>()[0]),
    ("concurrent::join_all", Default, || segue::concurrent::join_all([place]).unwrap()[0]),
    ("std::thread::spawn", Default, || segue_std::thread::spawn(place).join().unwrap()),
    ("std::thread::scope", Default, || segue_std::thread::scope(|s| s.spawn(place).join().unwrap())),
    ("a spawn of a hosted fiber", Default, || {
        let hosted = segue::sched::hosted(|| core::spawn(place).join().unwrap());
        segue::wait_future(hosted).unwrap().unwrap()
    }),
];

/// A connection of two fibers.
fn talk() {
    let listener = segue::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    segue::scope(|s| {
        s.spawn(|| listener.accept().unwrap().0.write_all(b"!").unwrap());
        assert_eq!(segue::net::TcpStream::connect(address).unwrap().read(&mut [0; 2]).unwrap(), 1);
    });
}

/// Whether the process has a thread that waits for sockets, as workers without a driver need one.
#[cfg(target_os = "linux")]
fn has_io_thread() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap());
    names.any(|name| name.trim() == "segue-io")
}

const FIRST: &str = "SEGUE_TEST_FIRST";

#[test]
#[ignore = "one process for each first call: run by the other test"]
fn one_call_and_then_all() {
    let Ok(first) = std::env::var(FIRST) else { return };
    let first = CALLS.iter().find(|(name, ..)| *name == first).unwrap();
    // Each other call comes after the first one, and is the first one in another process: so both
    // orders of any two are tried.
    for (name, expected, call) in [first].into_iter().chain(CALLS) {
        // A test's thread may be no plain one.
        let found = std::thread::spawn(call).join().unwrap();
        assert_eq!(found, *expected, "{name}, after {}", first.0);
    }
    segue::sched::default_pool().run(talk).unwrap();
    #[cfg(target_os = "linux")]
    assert!(!has_io_thread(), "the default runtime has no driver, after {}", first.0);
    segue::sched::Runtime::new().workers(1).run(talk).unwrap();
    #[cfg(target_os = "linux")]
    assert!(has_io_thread(), "that runtime has none");
}

#[test]
fn the_order_of_first_calls_makes_no_difference() {
    for (first, ..) in CALLS {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["one_call_and_then_all", "--exact", "--ignored", "--test-threads=1"]).env(FIRST, first);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{first}: {said}");
    }
}
