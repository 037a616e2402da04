//! A file system of the test's own: a server over `/dev/fuse` that answers, or is silent.
//!
//! It has a file of zeros and a directory with an entry. Names and metadata are answered always,
//! but for the name `slow`, and the kernel may keep them for an hour; what a silent server does not
//! answer is that name, opens, reads, writes, closes, entries and changes.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How long the file is.
pub const LENGTH: u64 = 4 << 20;

const ROOT: u64 = 1;
const FILE: u64 = 2;
const DIR: u64 = 3;
const BELOW: u64 = 4;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const UNLINK: u32 = 10;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// What the server does with requests for content.
#[derive(Default)]
pub struct Manners {
    pub is_silent: AtomicBool,
    /// Whether an interrupt ends its request.
    pub heeds_interrupts: AtomicBool,
    /// What has come while it was silent, under the lock of which it begins to speak.
    waiting: Mutex<Vec<u64>>,
}

/// The file system, mounted until this is dropped.
pub struct Fuse {
    pub manners: Arc<Manners>,
    path: PathBuf,
    device: Arc<File>,
    server: Option<JoinHandle<()>>,
}

/// Mounts a file system whose requests come by this descriptor, in a directory of its own.
pub fn mounted(device: &impl AsRawFd) -> io::Result<PathBuf> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("segue-fuse-{}-{number}", std::process::id()));
    std::fs::create_dir(&path)?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = std::ffi::CString::new(options).unwrap();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = mount("segue", &path, "fuse", flags, Some(&*options)) {
        std::fs::remove_dir(&path)?;
        return Err(error.into());
    }
    MOUNTS.lock().unwrap().push(path.clone());
    Ok(path)
}

static MOUNTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The end of all that is mounted, before the process is aborted.
pub fn unmount_all() {
    for path in MOUNTS.lock().unwrap().iter() {
        let _ = unmount(path, UnmountFlags::DETACH | UnmountFlags::FORCE);
    }
}

/// The end of what was mounted: the kernel refuses what still waits.
pub fn unmounted(path: &Path) {
    MOUNTS.lock().unwrap().retain(|mounted| mounted != path);
    unmount(path, UnmountFlags::DETACH | UnmountFlags::FORCE).unwrap();
    std::fs::remove_dir(path).unwrap();
}

/// Whether the server has no more to do: the end of the mount, or of the connection that the end of
/// the mount aborts.
pub fn is_the_end(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ECONNABORTED))
}

impl Fuse {
    /// None where this machine has none; then it says so.
    pub fn new() -> Option<Self> {
        let device = match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
            Ok(device) => Arc::new(device),
            Err(error) => return not_here(&error),
        };
        let path = match mounted(&*device) {
            Ok(path) => path,
            Err(error) => return not_here(&error),
        };
        let manners = Arc::new(Manners::default());
        let (told, requests) = (Arc::clone(&manners), Arc::clone(&device));
        let server = std::thread::spawn(move || {
            let mut room = vec![0; 1 << 20];
            loop {
                match (&*requests).read(&mut room) {
                    Ok(length) => {
                        if let Some(answer) = told.answer(&room[..length]) {
                            // The kernel has forgotten what was interrupted.
                            let _ = (&*requests).write(&answer);
                        }
                    }
                    Err(error) if is_the_end(&error) => return,
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                    Err(error) => panic!("the server's device: {error}"),
                }
            }
        });
        Some(Self { manners, path, device, server: Some(server) })
    }

    /// Is silent from now on. The kernel knows its names.
    pub fn fall_silent(&self) {
        for path in [self.file(), self.dir(), self.dir().join("entry")] {
            std::fs::metadata(path).unwrap();
        }
        self.manners.is_silent.store(true, Ordering::Relaxed);
    }

    pub fn file(&self) -> PathBuf {
        self.path.join("file")
    }

    pub fn dir(&self) -> PathBuf {
        self.path.join("dir")
    }

    /// How many requests wait for its answer.
    pub fn waiting(&self) -> usize {
        self.manners.waiting.lock().unwrap().len()
    }

    /// Answers from now on, and what it has kept.
    pub fn speak(&self) {
        let mut waiting = self.manners.waiting.lock().unwrap();
        self.manners.is_silent.store(false, Ordering::Relaxed);
        for unique in std::mem::take(&mut *waiting) {
            let _ = (&*self.device).write(&reply(unique, -libc::EIO, &[]));
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.speak();
        unmounted(&self.path);
        let ended = self.server.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the server has failed");
    }
}

fn not_here<T>(error: &io::Error) -> Option<T> {
    eprintln!("no file system of a server can be had here: {error}");
    None
}

fn reply(unique: u64, error: i32, body: &[u8]) -> Vec<u8> {
    let mut reply = ((16 + body.len()) as u32).to_ne_bytes().to_vec();
    reply.extend(error.to_ne_bytes());
    reply.extend(unique.to_ne_bytes());
    reply.extend(body);
    reply
}

fn word(from: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(from[at..at + 4].try_into().unwrap())
}

fn long(from: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(from[at..at + 8].try_into().unwrap())
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let is_file = node == FILE;
    let size = if is_file { LENGTH } else { 0 };
    let mode = if is_file { libc::S_IFREG | 0o644 } else { libc::S_IFDIR | 0o755 };
    let mut bytes: Vec<u8> = [node, size, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].into_iter().flat_map(u32::to_ne_bytes));
    bytes
}

const HOUR: u64 = 3600;

impl Manners {
    /// The answer to a request, if it gets one.
    pub fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let (code, unique, node) = (word(request, 4), long(request, 8), long(request, 16));
        let body = &request[40..];
        let asks_for_content = matches!(code, OPEN | READ | WRITE | FLUSH | OPENDIR | READDIR | SETATTR | UNLINK);
        if asks_for_content || (code == LOOKUP && body == b"slow\0") {
            let mut waiting = self.waiting.lock().unwrap();
            if self.is_silent.load(Ordering::Relaxed) {
                waiting.push(unique);
                return None;
            }
        }
        let (error, body) = match code {
            // Version 7.31, without further wishes.
            INIT => {
                let mut body: Vec<u8> = [7, 31, 1 << 17, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
                body.extend([16_u16, 12].into_iter().flat_map(u16::to_ne_bytes));
                body.extend([1 << 17, 1].into_iter().flat_map(u32::to_ne_bytes));
                body.resize(64, 0);
                (0, body)
            }
            LOOKUP => match (node, body) {
                (ROOT, b"file\0") => (0, entry(FILE)),
                (ROOT, b"dir\0") => (0, entry(DIR)),
                (DIR, b"entry\0") => (0, entry(BELOW)),
                _ => (-libc::ENOENT, Vec::new()),
            },
            GETATTR | SETATTR => {
                let mut body: Vec<u8> = [HOUR, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
                body.extend(attributes(node));
                (0, body)
            }
            OPEN | OPENDIR => (0, vec![0; 16]),
            READ => {
                let (offset, size) = (long(body, 8), u64::from(word(body, 16)));
                (0, vec![0; LENGTH.saturating_sub(offset).min(size) as usize])
            }
            WRITE => (0, [word(body, 16), 0].into_iter().flat_map(u32::to_ne_bytes).collect()),
            READDIR => (0, if long(body, 8) == 0 { name(b"entry") } else { Vec::new() }),
            STATFS => (0, vec![0; 80]),
            FLUSH | RELEASE | RELEASEDIR | UNLINK => (0, Vec::new()),
            INTERRUPT if self.heeds_interrupts.load(Ordering::Relaxed) => {
                let ended = long(body, 0);
                let mut waiting = self.waiting.lock().unwrap();
                let at = waiting.iter().position(|unique| *unique == ended)?;
                waiting.swap_remove(at);
                return Some(reply(ended, -libc::EINTR, &[]));
            }
            INTERRUPT | FORGET | BATCH_FORGET => return None,
            _ => (-libc::ENOSYS, Vec::new()),
        };
        Some(reply(unique, error, &body))
    }
}

/// `struct fuse_entry_out`.
fn entry(node: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = [node, 0, HOUR, HOUR, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend(attributes(node));
    bytes
}

/// `struct fuse_dirent`.
fn name(name: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [BELOW, 1].into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend([name.len() as u32, 4].into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(name);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}
