//! Calls that depend on another party: what lasts as long as the other side of a terminal or pipe
//! likes, the server of a file system, or another program's memory. A table of kinds and of calls,
//! on both drivers: another fiber of the worker ticks meanwhile, a deadline ends the call, and
//! `run` returns although a fiber is in the call.
#![cfg(target_os = "linux")]

mod cells;
mod fuse;
mod losses;

use cells::cell;
use fuse::Fuse;
use segue_core::{Cancelled, scope, timeout};
use segue_io::{Backend, DriverPark};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(linux)]
const DRIVERS: [Backend; 2] = [Backend::Ring, Backend::Native];
#[cfg(not(linux))]
const DRIVERS: [Backend; 2] = [Backend::Native, Backend::PollingOneShot];

const DEADLINE: Duration = Duration::from_millis(100);

/// A machine with much to do may take its time; what hangs is told by its name.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Terminal,
    Master,
    Pipe,
    Fifo,
    Socket,
    Eventfd,
    Inotify,
    Timerfd,
    Server,
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Op {
    Read,
    Write,
    Vectored,
    Open,
    ReadDir,
    Copy,
}

const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Vectored, Op::Open, Op::ReadDir, Op::Copy];

/// A call that waits for ever, with a name for it.
type Call = (String, Box<dyn FnMut() -> io::Result<()> + Send>);

enum Cell {
    Calls(Vec<Call>),
    /// There is no such call, or it waits for nobody.
    None(&'static str),
}

/// Runs a test on one worker, which idles in this driver.
fn on_one_worker<T>(driver: Backend, test: impl FnOnce() -> T) -> T {
    segue_sched::Runtime::new().workers(1).park(move || DriverPark::with(driver)).run(test).unwrap()
}

/// A deadline ends the call, and another fiber of the worker ticks meanwhile.
fn ends_at_its_deadline(what: &str, call: &mut Call) {
    let (ticks, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let error = scope(|s| {
        let _ticker = s.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                segue_core::sleep(Duration::from_millis(1)).unwrap();
                ticks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let error = timeout(DEADLINE, &mut call.1).err();
        is_over.store(true, Ordering::Relaxed);
        error
    });
    let error = error.unwrap_or_else(|| panic!("{what}: it has not waited"));
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{what}: {error}");
    let (took, ticks) = (begun.elapsed(), ticks.into_inner());
    assert!(took >= DEADLINE && took < LONGEST, "{what}: the deadline of {DEADLINE:?} ended it after {took:?}");
    assert!(ticks > 0, "{what}: {ticks} ticks of another fiber in {took:?}");
}

/// `run` returns while a fiber is in the call.
fn run_returns(driver: Backend, what: &str, call: Call) {
    let begun = Instant::now();
    let (ended, name) = (Arc::new(AtomicBool::new(false)), what.to_owned());
    let told = Arc::clone(&ended);
    on_one_worker(driver, move || {
        let (_, mut call) = call;
        let waits = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&waits);
        drop(segue_core::spawn(move || {
            begins.store(true, Ordering::Relaxed);
            let error = call().expect_err(&name);
            assert!(Cancelled::caused(&error), "{name}: {error}");
            told.store(true, Ordering::Relaxed);
        }));
        while !waits.load(Ordering::Relaxed) {
            segue_core::yield_now().unwrap();
        }
        segue_core::sleep(Duration::from_millis(10)).unwrap();
    });
    assert!(ended.load(Ordering::Relaxed), "{what}: `run` has returned, and its fiber has not");
    assert!(begun.elapsed() < LONGEST, "{what}: `run` has returned after {:?}", begun.elapsed());
}

/// A call that hangs must fail its test and not hang it. The file systems go first: a process whose
/// server is silent does not even end.
fn guarded(what: String, test: impl FnOnce()) {
    let (done, watch) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if watch.recv_timeout(10 * LONGEST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what}: nothing more happens");
            fuse::unmount_all();
            std::process::abort();
        }
    });
    test();
    drop(done);
}

/// A child has this process's files, of which some may be a silent server's. So tests with servers
/// run one after the other.
fn alone() -> impl Drop {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A row of the table: each cell is run on both drivers, or says why there is none.
fn row(kind: Kind) {
    let _alone = matches!(kind, Kind::Server | Kind::Kernel).then(alone);
    let mut done = BTreeSet::new();
    for (op, driver) in OPS.into_iter().flat_map(|op| DRIVERS.map(|driver| (op, driver))) {
        let of = |name: &str| format!("{kind:?}, {op:?}, {driver:?}: {name}");
        guarded(of("in time"), || {
            let Some((cell, keeps)) = cell(kind, op) else { return };
            let calls = match cell {
                Cell::None(why) => {
                    assert!(!why.is_empty());
                    done.insert((op, format!("{driver:?}")));
                    return;
                }
                Cell::Calls(calls) => calls,
            };
            assert!(!calls.is_empty(), "{}", of("the cell is empty"));
            for mut call in calls {
                let what = of(&call.0);
                eprintln!("{what}");
                on_one_worker(driver, || ends_at_its_deadline(&what, &mut call));
                run_returns(driver, &what, call);
            }
            drop(keeps);
            done.insert((op, format!("{driver:?}")));
        });
    }
    let is_there = !matches!(kind, Kind::Server | Kind::Kernel) || Fuse::new().is_some();
    assert!(done.len() == OPS.len() * DRIVERS.len() || !is_there, "{kind:?}: cells that were run: {done:?}");
}

macro_rules! rows {
    ($($name:ident: $kind:ident;)*) => {$(
        #[test]
        fn $name() {
            row(Kind::$kind);
        }
    )*};
}

rows! {
    calls_of_a_terminal_wait_for_its_other_side_alone: Terminal;
    calls_of_a_terminals_controlling_side_wait_for_the_terminal_alone: Master;
    calls_of_a_pipe_wait_for_its_other_end_alone: Pipe;
    calls_of_a_named_pipe_wait_for_its_other_end_alone: Fifo;
    calls_of_a_socket_as_a_file_wait_for_its_peer_alone: Socket;
    calls_of_a_counter_wait_for_its_users_alone: Eventfd;
    calls_of_a_watch_of_files_wait_for_changes_alone: Inotify;
    calls_of_a_clock_wait_for_it_alone: Timerfd;
    calls_of_a_servers_file_wait_for_the_server_alone: Server;
    calls_of_the_kernels_own_files_wait_for_others_alone: Kernel;
}
