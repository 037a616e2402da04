//! The cells of the table: for each kind and call, what waits for ever, or why nothing does.
#![allow(unsafe_code)] // Counters and clocks as descriptors, and memory that a server has.

use crate::fuse::Fuse;
use crate::{Call, Cell, Kind, Op};
use Cell::None as Nothing;
use segue_io::fs::{self, File};
use segue_io::pty::Pty;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What keeps the other party, and goes after the calls.
pub type Keeps = Box<dyn std::any::Any + Send>;

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
            let count = (&file).write_vectored(&[IoSlice::new(one), IoSlice::new(other)])?;
            assert!(count > 0);
        }
    })
}

fn of_raw(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: it was made this moment, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A directory of its own.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("segue-parties-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn fifo(&self) -> PathBuf {
        let path = self.path("fifo");
        // No program is started for it: that would close a silent server's files.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        path
    }

    /// A file of a disk with so many bytes.
    pub fn file(&self, length: usize) -> PathBuf {
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
pub const LOTS: usize = 100_000;

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

pub fn cell(kind: Kind, op: Op) -> Option<(Cell, Keeps)> {
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
        Kind::Kernel if op == Op::Open => (Nothing("the kernel opens its own files at once"), Box::new(())),
        Kind::Kernel if op == Op::ReadDir => (Nothing("the kernel makes up its entries at once"), Box::new(())),
        Kind::Kernel if op == Op::Copy => (Nothing("a copy begins at address zero, where nothing is"), Box::new(())),
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
                Op::Open | Op::ReadDir | Op::Copy => unreachable!("there is no such call"),
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
                libc::raise(libc::SIGSTOP);
                libc::_exit(1);
            }
            assert_eq!(libc::waitpid(process, std::ptr::null_mut(), libc::WUNTRACED), process);
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
pub fn open_master() -> (OwnedFd, OwnedFd) {
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
