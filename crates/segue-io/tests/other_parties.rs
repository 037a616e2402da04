//! Calls that depend on another party: what lasts as long as the other side of a terminal or pipe
//! likes, the server of a file system, or another program's memory. A table of kinds and of calls,
//! on both drivers: another fiber of the worker ticks meanwhile, a deadline ends the call, and
//! `run` returns although a fiber is in the call.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // Counters and clocks as descriptors, and memory that a server has.

mod common;
#[path = "common/fuse.rs"]
mod fuse;

use fuse::Fuse;
use segue_core::{Cancelled, scope, timeout};
use segue_io::fs::{self, File};
use segue_io::pty::Pty;
use segue_io::{Backend, DriverPark};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const DRIVERS: [Backend; 2] = [Backend::Ring, Backend::Native];

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

use Cell::None as Nothing;

/// What keeps the other party, and goes after the calls.
type Keeps = Box<dyn std::any::Any + Send>;

fn call(name: impl Into<String>, call: impl FnMut() -> io::Result<()> + Send + 'static) -> Call {
    (name.into(), Box::new(call))
}

/// A handle of this descriptor in each of the states that a `File` can be in.
fn handles(fd: &impl AsFd) -> Vec<(&'static str, Arc<File>)> {
    let file = || File::from(fd.as_fd().try_clone_to_owned().unwrap());
    let (raw, borrowed, cloned) = (file(), file(), file());
    assert!(raw.as_raw_fd() > 0 && borrowed.as_fd().as_raw_fd() > 0);
    let twin = cloned.try_clone().unwrap();
    let all = [("taken over", file()), ("raw", raw), ("borrowed", borrowed), ("cloned", cloned), ("twin", twin)];
    all.into_iter().map(|(name, file)| (name, Arc::new(file))).collect()
}

fn reads(fd: &impl AsFd) -> Vec<Call> {
    let reads = handles(fd)
        .into_iter()
        .map(|(name, file)| call(format!("a read, {name}"), move || (&*file).read(&mut [0; 64]).map(drop)));
    let mut mine = File::from(fd.as_fd().try_clone_to_owned().unwrap());
    reads.chain([call("a read, alone", move || mine.read(&mut [0; 64]).map(drop))]).collect()
}

/// Writes until nothing fits.
fn writes(fd: &impl AsFd, piece: Vec<u8>) -> Vec<Call> {
    let all = handles(fd).into_iter().map(|(name, file)| {
        let piece = piece.clone();
        call(format!("a write, {name}"), move || {
            loop {
                (&*file).write_all(&piece)?;
            }
        })
    });
    all.collect()
}

fn vectored_reads(fd: &impl AsFd) -> Call {
    let file = File::from(fd.as_fd().try_clone_to_owned().unwrap());
    call("a vectored read", move || {
        let (mut one, mut other) = ([0; 16], [0; 16]);
        (&file).read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)]).map(drop)
    })
}

fn vectored_writes(fd: &impl AsFd, piece: Vec<u8>) -> Call {
    let file = File::from(fd.as_fd().try_clone_to_owned().unwrap());
    call("a vectored write", move || {
        loop {
            let (one, other) = piece.split_at(4);
            (&file).write_vectored(&[IoSlice::new(one), IoSlice::new(other)])?;
        }
    })
}

fn of_raw(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was made this moment, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A directory of its own.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-parties-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn fifo(&self) -> PathBuf {
        let path = self.path("fifo");
        // No program is started for it: that would close a silent server's files.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        path
    }

    /// A file of a disk with so many bytes.
    fn file(&self, length: usize) -> PathBuf {
        let path = self.path("file");
        std::fs::write(&path, vec![b'x'; length]).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// More than a terminal or a pipe takes.
const LOTS: usize = 100_000;

fn lots() -> Vec<u8> {
    vec![b'x'; LOTS]
}

/// The cells of a descriptor without a name, which is read, and written if it can be filled.
fn of_descriptor(op: Op, read: &OwnedFd, write: Option<(&OwnedFd, Vec<u8>)>) -> Cell {
    Cell::Calls(match (op, write) {
        (Op::Read, _) => reads(read),
        (Op::Write, Some((fd, piece))) => writes(fd, piece),
        (Op::Write, None) => return Nothing("there is nothing to be written to it"),
        (Op::Vectored, None) => vec![vectored_reads(read)],
        (Op::Vectored, Some((fd, piece))) => vec![vectored_reads(read), vectored_writes(fd, piece)],
        (Op::Open, _) => return Nothing("it has no path by which it could be opened"),
        (Op::ReadDir, _) => return Nothing("it is no directory"),
        (Op::Copy, _) => return Nothing("it has no path to copy from or to"),
    })
}

fn cell(kind: Kind, op: Op) -> Option<(Cell, Keeps)> {
    Some(match kind {
        Kind::Terminal => {
            let pty = Pty::open().unwrap();
            let terminal = pty.terminal().unwrap();
            let path = std::fs::read_link(format!("/proc/self/fd/{}", terminal.as_raw_fd())).unwrap();
            let scratch = Scratch::new();
            let cell = match op {
                Op::Open => Nothing("a pseudo-terminal has its carrier, which an open waits for"),
                Op::Copy => {
                    let from = scratch.file(LOTS);
                    Cell::Calls(vec![
                        call("a copy", {
                            let path = path.clone();
                            move || fs::copy(&from, &path).map(drop)
                        }),
                        call("fs::write", move || fs::write(&path, lots())),
                    ])
                }
                Op::Read => {
                    let mut calls = reads(&terminal);
                    let path = path.clone();
                    calls.push(call("fs::read_to_string", move || fs::read_to_string(&path).map(drop)));
                    let few = impatient();
                    calls.push(call("a read of more than there is", move || {
                        let (_other_side, terminal) = &few;
                        (&**terminal).read(&mut [0; 64]).map(drop)
                    }));
                    Cell::Calls(calls)
                }
                op => of_descriptor(op, &terminal, Some((&terminal, lots()))),
            };
            (cell, Box::new((pty, terminal, scratch)))
        }
        Kind::Master => {
            let (master, terminal) = open_master();
            let cell = match op {
                Op::Open => Nothing("to open it makes a terminal, at once"),
                op => of_descriptor(op, &master, Some((&master, lots()))),
            };
            (cell, Box::new((master, terminal)))
        }
        Kind::Pipe => {
            let (reader, writer) = io::pipe().unwrap();
            let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
            (of_descriptor(op, &reader, Some((&writer, lots()))), Box::new((reader, writer)))
        }
        Kind::Fifo => {
            let scratch = Scratch::new();
            let path = scratch.fifo();
            let options = || std::fs::File::options().read(true).write(true).open(&path).unwrap();
            match op {
                Op::Open => {
                    let (one, two, three) = (path.clone(), path.clone(), path.clone());
                    let calls = vec![
                        call("File::open", move || File::open(&one).map(drop)),
                        call("File::create", move || File::create(&two).map(drop)),
                        call("fs::read", move || fs::read(&three).map(drop)),
                        call("fs::write", move || fs::write(&path, "x")),
                    ];
                    (Cell::Calls(calls), Box::new(scratch))
                }
                Op::Copy => {
                    let (from, to) = (scratch.file(LOTS), path.clone());
                    let nobody = call("a copy to a pipe that nobody reads", move || fs::copy(&from, &to).map(drop));
                    let other = Scratch::new();
                    let (from, to) = (scratch.path("file"), other.fifo());
                    let held = std::fs::File::options().read(true).write(true).open(&to).unwrap();
                    let full = call("a copy to a pipe that is full", move || fs::copy(&from, &to).map(drop));
                    (Cell::Calls(vec![nobody, full]), Box::new((scratch, other, held)))
                }
                Op::Read => {
                    let held = OwnedFd::from(options());
                    let mut calls = reads(&held);
                    let (one, two) = (path.clone(), path.clone());
                    calls.push(call("fs::read_to_string", move || fs::read_to_string(&one).map(drop)));
                    calls.push(call("a read of what was opened", move || {
                        File::options().read(true).write(true).open(&two)?.read(&mut [0]).map(drop)
                    }));
                    (Cell::Calls(calls), Box::new((scratch, held)))
                }
                op => {
                    let (held, full) = (OwnedFd::from(options()), Scratch::new());
                    let path = full.fifo();
                    let full_one = std::fs::File::options().read(true).write(true).open(path).unwrap();
                    let full_one = OwnedFd::from(full_one);
                    let cell = of_descriptor(op, &held, Some((&full_one, lots())));
                    (cell, Box::new((scratch, held, full, full_one)))
                }
            }
        }
        Kind::Socket => {
            let (here, there) = UnixStream::pair().unwrap();
            let here = OwnedFd::from(here);
            (of_descriptor(op, &here, Some((&here, lots()))), Box::new((here, there)))
        }
        Kind::Eventfd => {
            // SAFETY: it makes descriptors.
            let [empty, full] = [0; 2].map(|count| of_raw(unsafe { libc::eventfd(count, 0) }));
            rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            let cell = of_descriptor(op, &empty, Some((&full, 1_u64.to_ne_bytes().to_vec())));
            (cell, Box::new((empty, full)))
        }
        Kind::Inotify => {
            // SAFETY: it makes a descriptor.
            let silent = of_raw(unsafe { libc::inotify_init1(0) });
            (of_descriptor(op, &silent, None), Box::new(silent))
        }
        Kind::Timerfd => {
            // SAFETY: it makes a descriptor.
            let silent = of_raw(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) });
            (of_descriptor(op, &silent, None), Box::new(silent))
        }
        Kind::Server => {
            let fuse = Fuse::new()?;
            let file = std::fs::File::options().read(true).write(true).open(fuse.file()).unwrap();
            let (path, dir) = (fuse.file(), fuse.dir());
            fuse.fall_silent();
            // To close it asks the server.
            let kept = OwnedFd::from(file);
            let again = || File::from(kept.try_clone().unwrap());
            let calls = match op {
                Op::Read => {
                    let mut calls = reads(&kept);
                    let file = again();
                    calls.push(call("read_at", move || file.read_at(&mut [0; 64], 1 << 20).map(drop)));
                    calls.push(call("fs::read", move || fs::read(&path).map(drop)));
                    calls
                }
                Op::Write => {
                    let mut calls = writes(&kept, vec![0; 64]);
                    let file = again();
                    calls.push(call("write_at", move || file.write_at(&[0; 64], 1 << 20).map(drop)));
                    calls.push(call("fs::write", move || fs::write(&path, "x")));
                    let file = again();
                    calls.push(call("set_len", move || file.set_len(0)));
                    calls
                }
                Op::Vectored => {
                    let file = again();
                    let mut calls = vec![vectored_reads(&kept), vectored_writes(&kept, vec![0; 64])];
                    calls.push(call("read_vectored_at", move || {
                        file.read_vectored_at(&mut [IoSliceMut::new(&mut [0; 64])], 2 << 20).map(drop)
                    }));
                    calls
                }
                Op::Open => {
                    let (one, two) = (path.clone(), dir.clone());
                    vec![
                        call("File::open", move || File::open(&one).map(drop)),
                        call("File::open of a directory", move || File::open(&two).map(drop)),
                        call("File::create", {
                            let path = path.clone();
                            move || File::create(&path).map(drop)
                        }),
                        call("remove_file", move || fs::remove_file(&path)),
                    ]
                }
                Op::ReadDir => vec![
                    call("read_dir", {
                        let dir = dir.clone();
                        move || fs::read_dir(&dir).map(drop)
                    }),
                    call("remove_dir_all", move || fs::remove_dir_all(&dir)),
                ],
                Op::Copy => {
                    let scratch = Scratch::new();
                    let (local, to) = (scratch.file(1000), scratch.path("to"));
                    let from = path.clone();
                    return Some((
                        Cell::Calls(vec![
                            call("a copy from there", move || fs::copy(&from, &to).map(drop)),
                            call("a copy to there", move || fs::copy(&local, &path).map(drop)),
                        ]),
                        Box::new((scratch, fuse, kept)),
                    ));
                }
            };
            (Cell::Calls(calls), Box::new((fuse, kept)))
        }
        // Memory of another process that the server of a file has to give.
        Kind::Kernel => {
            let fuse = Fuse::new()?;
            let file = std::fs::File::options().read(true).write(true).open(fuse.file()).unwrap();
            let (from, length, file_there) = (Mapped::new(&file), 64, file);
            fuse.fall_silent();
            let (at, path) = (from.at as u64, format!("/proc/{}/mem", from.process));
            let options = std::fs::File::options().read(true).write(true).clone();
            let memory = {
                let path = path.clone();
                move || File::from_std(options.open(&path).unwrap())
            };
            let file = memory();
            let calls = match op {
                Op::Read => vec![
                    call("read_at", move || file.read_at(&mut vec![0; length], at).map(drop)),
                    call("a read", move || {
                        let mut file = File::open(&path)?;
                        file.seek(io::SeekFrom::Start(at))?;
                        file.read(&mut vec![0; length]).map(drop)
                    }),
                    call("a read, shared", move || {
                        let file = memory();
                        (&file).seek(io::SeekFrom::Start(at))?;
                        (&file).read(&mut vec![0; length]).map(drop)
                    }),
                ],
                Op::Write => vec![call("write_at", move || file.write_at(&vec![0; length], at).map(drop))],
                Op::Vectored => {
                    let other = memory();
                    vec![
                        call("read_vectored_at", move || {
                            file.read_vectored_at(&mut [IoSliceMut::new(&mut [0; 64])], at).map(drop)
                        }),
                        call("write_vectored_at", move || {
                            other.write_vectored_at(&[IoSlice::new(&[0; 64])], at).map(drop)
                        }),
                    ]
                }
                Op::Open => {
                    return Some((Nothing("the kernel opens its own files at once"), Box::new((fuse, file_there))));
                }
                Op::ReadDir => {
                    return Some((Nothing("the kernel makes up its entries at once"), Box::new((fuse, file_there))));
                }
                Op::Copy => {
                    return Some((
                        Nothing("a copy begins at address zero, where nothing is"),
                        Box::new((fuse, file_there)),
                    ));
                }
            };
            (Cell::Calls(calls), Box::new((fuse, from, file_there)))
        }
    })
}

/// The pages of a file in the memory of a process, which has not touched them. In this one's own
/// memory no thread could be started while the server is silent.
struct Mapped {
    at: usize,
    process: i32,
}

impl Mapped {
    const LENGTH: usize = 1 << 20;

    fn new(file: &std::fs::File) -> Self {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping at an address of the kernel's choice touches nothing that exists; it is
        // neither read nor written here, and not known to anybody when it is unmapped. The child
        // makes system calls alone.
        unsafe {
            let at = mmap(std::ptr::null_mut(), Self::LENGTH, rights, MapFlags::PRIVATE, file, 0).unwrap();
            let process = libc::fork();
            assert!(process >= 0);
            if process == 0 {
                // Among them is the server's device.
                libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
                loop {
                    libc::pause();
                }
            }
            munmap(at, Self::LENGTH).unwrap();
            Self { at: at.addr(), process }
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is a child of this process, and ends.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

/// The controlling side of a new terminal, which blocks, and the terminal.
fn open_master() -> (OwnedFd, OwnedFd) {
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
    raw(&terminal);
    (master, terminal)
}

/// No letter of the terminal means anything.
fn raw(terminal: &OwnedFd) {
    let mut settings = rustix::termios::tcgetattr(terminal).unwrap();
    settings.make_raw();
    rustix::termios::tcsetattr(terminal, rustix::termios::OptionalActions::Now, &settings).unwrap();
}

/// A terminal that gives five letters at least, and has three.
fn impatient() -> (Pty, Arc<File>) {
    use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    let pty = Pty::open().unwrap();
    let terminal = pty.terminal().unwrap();
    raw(&terminal);
    let mut settings = tcgetattr(&terminal).unwrap();
    settings.special_codes[SpecialCodeIndex::VMIN] = 5;
    tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
    rustix::io::write(&pty, b"abc").unwrap();
    (pty, Arc::new(File::from(terminal)))
}

/// Runs a test on one worker, which idles in this driver.
fn on_one_worker<T>(driver: Backend, test: impl FnOnce() -> T) -> T {
    segue_sched::Builder::new().workers(1).park(move || DriverPark::with(driver)).run(test).unwrap()
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
    assert!(ticks > 3, "{what}: {ticks} ticks of another fiber in {took:?}");
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
        if watch.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
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
                Nothing(why) => {
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

/// Bytes that come while a read is being cancelled are there for the next: through each handle.
#[test]
fn a_read_that_was_cancelled_has_taken_nothing() {
    guarded("a read that was cancelled".to_owned(), || DRIVERS.into_iter().for_each(reads_in_vain));
}

fn reads_in_vain(driver: Backend) {
    {
        on_one_worker(driver, || {
            let scratch = Scratch::new();
            let fifo = std::fs::File::options().read(true).write(true).open(scratch.fifo()).unwrap();
            let (reader, writer) = io::pipe().unwrap();
            let (master, terminal) = open_master();
            let pairs = [
                (OwnedFd::from(reader), OwnedFd::from(writer)),
                (fifo.try_clone().unwrap().into(), fifo.into()),
                (terminal.try_clone().unwrap(), master.try_clone().unwrap()),
                (master, terminal),
            ];
            for (from, to) in pairs {
                let (mut file, mut read) = (File::from(from), Vec::new());
                scope(|s| {
                    let _writer = s.spawn(|| {
                        for byte in 0..200_u8 {
                            rustix::io::write(&to, &[byte]).unwrap();
                            segue_core::sleep(Duration::from_micros(700)).unwrap();
                        }
                    });
                    while read.len() < 200 {
                        let mut room = [0; 7];
                        match timeout(Duration::from_millis(1), || file.read(&mut room)) {
                            Ok(count) => read.extend_from_slice(&room[..count]),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                        }
                    }
                });
                assert!(read.into_iter().eq(0..200), "{driver:?}: bytes are lost, or came twice");
            }
        });
    }
}

/// A write that is cut short says how much was taken: all of that comes out, and nothing else.
#[test]
fn what_a_cancelled_write_says_is_what_was_written() {
    guarded("a write that was cancelled".to_owned(), || DRIVERS.into_iter().for_each(writes_in_part));
}

fn writes_in_part(driver: Backend) {
    {
        on_one_worker(driver, || {
            let (master, terminal) = open_master();
            let (reader, writer) = io::pipe().unwrap();
            for (to, from) in [(terminal, master), (writer.into(), OwnedFd::from(reader))] {
                let (file, content) = (File::from(to), (0..LOTS).map(|byte| byte as u8).collect::<Vec<_>>());
                let mut written = 0;
                let (from, mut came, mut room) = (File::from(from), Vec::new(), vec![0; 5000]);
                while written < LOTS {
                    match timeout(Duration::from_millis(2), || (&file).write(&content[written..])) {
                        Ok(count) => written += count,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::TimedOut);
                            let read = timeout(Duration::from_millis(2), || (&from).read(&mut room));
                            came.extend_from_slice(&room[..read.unwrap_or(0)]);
                        }
                    }
                }
                while came.len() < LOTS {
                    let count = timeout(LONGEST, || (&from).read(&mut room)).unwrap();
                    came.extend_from_slice(&room[..count]);
                }
                assert!(came == content, "{driver:?}: {} of {LOTS} bytes came, in order", came.len());
            }
        });
    }
}

/// Neither what waits by readiness nor what a silent server holds up takes the threads for blocking
/// calls; and the threads that were left make room for another server's calls.
#[test]
fn six_hundred_calls_that_wait_leave_room_for_others() {
    const MANY: usize = 600;
    let _alone = alone();
    guarded("six hundred calls".to_owned(), || {
        for driver in DRIVERS {
            let silent = Fuse::new();
            let other = Fuse::new();
            on_one_worker(driver, || {
                let (reader, _writer) = io::pipe().unwrap();
                let pipe = File::from(OwnedFd::from(reader));
                let server = silent.as_ref().map(|silent| File::open(silent.file()).unwrap());
                silent.iter().for_each(Fuse::fall_silent);
                let token = segue_core::CancelToken::new();
                scope(|s| {
                    let waits = |number: usize| {
                        let (pipe, server, token) = (&pipe, &server, &token);
                        move || {
                            let waited = token.run(|| match server {
                                Some(file) if number % 2 == 0 => file.read_at(&mut [0; 8], number as u64 * 2048),
                                _ => (&*pipe).read(&mut [0; 8]),
                            });
                            assert!(Cancelled::caused(&waited.unwrap_err()));
                        }
                    };
                    let all: Vec<_> = (0..2 * MANY).map(|number| s.spawn(waits(number))).collect();
                    segue_core::sleep(Duration::from_millis(50)).unwrap();
                    let scratch = Scratch::new();
                    assert_eq!(timeout(LONGEST, || segue_core::blocking(|| 7)).unwrap(), 7);
                    let path = scratch.file(10);
                    timeout(LONGEST, || fs::copy(&path, scratch.path("copy"))).unwrap();
                    token.cancel();
                    all.into_iter().for_each(|fiber| fiber.join().unwrap());
                });
                if let Some(other) = &other {
                    let read = timeout(LONGEST, || fs::read(other.file())).unwrap();
                    assert_eq!(read.len() as u64, fuse::LENGTH);
                }
                silent.iter().for_each(Fuse::speak);
            });
        }
    });
}

/// Its requests are answered by a fiber of the worker whose other fibers ask.
#[test]
fn a_server_on_the_same_worker_answers() {
    let _alone = alone();
    guarded("a server on the same worker".to_owned(), || {
        for driver in DRIVERS {
            if Fuse::new().is_none() {
                return;
            }
            on_one_worker(driver, || {
                let mut device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
                let path = fuse::mounted(&device).unwrap();
                let manners = fuse::Manners::default();
                scope(|s| {
                    let server = s.spawn(|| {
                        let mut room = vec![0; 1 << 20];
                        loop {
                            match device.read(&mut room) {
                                Ok(length) => {
                                    if let Some(answer) = manners.answer(&room[..length]) {
                                        let _ = device.write(&answer);
                                    }
                                }
                                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
                                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
                            }
                        }
                    });
                    for _ in 0..3 {
                        assert_eq!(fs::read(path.join("file")).unwrap().len() as u64, fuse::LENGTH);
                        let mut file = File::options().read(true).write(true).open(path.join("file")).unwrap();
                        assert_eq!(file.write(b"some").unwrap(), 4);
                        assert_eq!(file.stream_position().unwrap(), 4);
                        assert_eq!(file.read(&mut [0; 100]).unwrap(), 100);
                        assert_eq!(file.seek(io::SeekFrom::End(0)).unwrap(), fuse::LENGTH);
                        let (mut one, mut other) = ([1; 3], [1; 3]);
                        let both = &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
                        assert_eq!(file.read_vectored_at(both, 9).unwrap(), 6);
                        assert_eq!(file.metadata().unwrap().len(), fuse::LENGTH);
                        file.sync_all().unwrap();
                        drop(file);
                        let names = fs::read_dir(path.join("dir")).unwrap().map(|entry| entry.unwrap().file_name());
                        assert!(names.eq(["entry"]));
                        assert!(fs::metadata(path.join("dir/entry")).unwrap().is_dir());
                        let scratch = Scratch::new();
                        assert_eq!(fs::copy(path.join("file"), scratch.path("copy")).unwrap(), fuse::LENGTH);
                    }
                    segue_core::blocking(|| fuse::unmounted(&path)).unwrap();
                    server.join().unwrap();
                });
            });
        }
    });
}

/// A server that listens to interrupts has not done it.
#[test]
fn an_interrupted_request_is_over_when_its_caller_is_told() {
    let _alone = alone();
    guarded("an interrupted request".to_owned(), || {
        for driver in DRIVERS {
            let Some(fuse) = Fuse::new() else { return };
            on_one_worker(driver, || {
                let mut file = File::options().read(true).write(true).open(fuse.file()).unwrap();
                fuse.manners.heeds_interrupts.store(true, Ordering::Relaxed);
                fuse.fall_silent();
                let error = timeout(Duration::from_millis(20), || file.read(&mut [0; 8])).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                fuse.speak();
                assert_eq!(file.stream_position().unwrap(), 0, "the read was left, and has moved the position");
                assert_eq!(file.read(&mut [0; 8]).unwrap(), 8);
            });
        }
    });
}

/// As `VMIN` and `VTIME` say.
#[test]
fn a_terminal_that_gives_nothing_within_its_time_says_so() {
    use rustix::termios::{OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
    for driver in DRIVERS {
        on_one_worker(driver, || {
            let (_master, terminal) = open_master();
            let mut settings = tcgetattr(&terminal).unwrap();
            settings.special_codes[SpecialCodeIndex::VMIN] = 0;
            for tenths in [0, 1] {
                settings.special_codes[SpecialCodeIndex::VTIME] = tenths;
                tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
                let file = File::from(terminal.try_clone().unwrap());
                assert_eq!(timeout(LONGEST, || (&file).read(&mut [0; 8])).unwrap(), 0, "{driver:?}, {tenths}");
            }
        });
    }
}
