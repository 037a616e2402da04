//! Where the behaviour tests run: on plain threads, and on fibers over each backend.
#![allow(dead_code, reason = "each test file uses a part")]

#[cfg(target_os = "linux")]
pub mod descriptors;
pub mod talk;

use segue_core::scheduling::WaitPark;
use segue_io::net::{TcpListener, TcpStream};
use segue_io::{Backend, DriverPark};
use segue_sched::{Fifo, Runtime};
use std::fmt::Debug;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::Duration;

#[cfg(linux)]
pub const BACKENDS: [Backend; 5] =
    [Backend::Ring, Backend::RingOf(2), Backend::Native, Backend::Polling, Backend::PollingOneShot];
#[cfg(not(linux))]
pub const BACKENDS: [Backend; 3] = [Backend::Native, Backend::Polling, Backend::PollingOneShot];

/// The best that there is here.
#[cfg(linux)]
pub const BEST: Backend = Backend::Ring;
#[cfg(not(linux))]
pub const BEST: Backend = Backend::Native;

/// Whether ops of fibers fly in a ring over this backend.
#[cfg(linux)]
pub fn is_ring(backend: Backend) -> bool {
    matches!(backend, Backend::Ring | Backend::RingOf(_))
}
#[cfg(not(linux))]
pub fn is_ring(_backend: Backend) -> bool {
    false
}

/// Longer than a test takes on a machine that has other things to do: only what hangs does.
const PATIENCE: Duration = Duration::from_secs(300);

/// A wait that is lost must fail its test and not hang it.
pub fn guarded<T>(what: impl Debug, test: impl FnOnce() -> T) -> T {
    let what = format!("{what:?}");
    let (done, watch) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if watch.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{what}: nothing more happens; a wake-up was lost");
            std::process::abort();
        }
    });
    let result = test();
    drop(done);
    result
}

/// Runs a test on one worker that idles in a driver over `backend`.
pub fn on_one_worker<T>(backend: Backend, test: impl FnOnce() -> T) -> T {
    guarded(("one worker", backend), || {
        Runtime::new().workers(1).park(move || DriverPark::with(backend)).run_with(Fifo::default, test).unwrap()
    })
}

/// Runs a test on two workers, each of which idles in a driver over `backend`.
pub fn on_two_workers<T>(backend: Backend, test: impl FnOnce() -> T) -> T {
    guarded(("two workers", backend), || {
        Runtime::new().workers(2).park(move || DriverPark::with(backend)).run(test).unwrap()
    })
}

/// Runs a test on plain threads, on fibers whose workers have no driver, and on fibers over each
/// backend.
pub fn everywhere(test: impl Fn()) {
    everywhere_by(&test);
}

/// Compiled once, whatever the closures of a test program.
fn everywhere_by(test: &dyn Fn()) {
    guarded("plain threads", test);
    guarded("fibers without a driver", || {
        Runtime::new().workers(1).park(|| Ok(WaitPark::new())).run(test).unwrap();
    });
    for backend in BACKENDS {
        on_one_worker(backend, test);
        on_two_workers(backend, test);
    }
}

/// Two ends of a connection.
pub fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    (client, server)
}

/// Registers a stream with the caller's driver, by a read that has to wait.
pub fn enlist(stream: &TcpStream) {
    stream.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
    let error = (&*stream).read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    stream.set_read_timeout(None).unwrap();
}

/// Lets others run until the kernel watches this descriptor, which an op asks for just before it
/// waits. The op of a fiber may be in a ring, of which the kernel does not say whom it waits for:
/// so a fiber lets others run for some turns, and long enough for another worker to have begun.
pub fn until_watched(fd: &impl AsRawFd) {
    let (turns, begun) = (std::cell::Cell::new(0), std::time::Instant::now());
    until(|| {
        turns.set(turns.get() + 1);
        let had_time = turns.get() > 300 && begun.elapsed() > Duration::from_millis(20);
        (had_time && segue_core::in_fiber() && has_ring()) || (turns.get() % 16 == 1 && watched(fd.as_raw_fd()))
    });
}

/// Whether this process has a ring.
fn has_ring() -> bool {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    open.flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("io_uring")))
}

/// Lets others run until something holds.
pub fn until(condition: impl Fn() -> bool) {
    while !condition() {
        segue_core::yield_now().unwrap();
    }
}

fn watched(fd: i32) -> bool {
    let Ok(infos) = std::fs::read_dir("/proc/self/fdinfo") else { return true };
    infos.flatten().filter_map(|info| std::fs::read_to_string(info.path()).ok()).any(|info| {
        info.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("tfd:") && words.next() == Some(&fd.to_string())
        })
    })
}
