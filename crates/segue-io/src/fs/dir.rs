//! Directories: their entries, fetched in batches.
//!
//! Used by `fs::read_dir`. The kernel has no opcode for entries, and can't be asked whether a call
//! would wait. A directory that lies on no disk is read on a thread that can be left.
//!
//! # The idea
//!
//! The directory is opened and its first batch read in one call: a small directory is one trip to a
//! thread for blocking calls. That thread says whether there was a sleep meanwhile. If not, the
//! next fifteen batches, of any directory, are fetched on the worker, as long as the names that
//! lead there are in memory too. So a walk through directories in memory makes one trip in sixteen;
//! and where the disk is waited for, all are trips.
//!
//! A batch is one piece of memory that its entries share; an entry is an index there.

use super::calls::c_path;
use super::elsewhere::stat_entry;
use super::kind::{Listed, Trust};
use super::metadata::{FileType, Metadata};
use super::system::{Call, Listing, is_near, noting_sleep, open_and, open_now, run};
use crate::apart::{self, Patience};
use crate::system::sys::{says, until_done};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use segue_core::drivers::charge;
use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A batch that has so many bytes of names is full.
const FULL: usize = 32 * 1024;

/// The directory, as long as somebody has an entry.
struct Dir {
    fd: Arc<OwnedFd>,
    listing: Listing,
    path: PathBuf,
    /// Whether nobody else is asked for its entries.
    is_near: bool,
}

impl Dir {
    fn new(fd: OwnedFd, path: &Path, is_near: bool) -> rustix::io::Result<Arc<Self>> {
        let listing = Listing::new(fd.as_fd())?;
        Ok(Arc::new(Self { fd: Arc::new(fd), listing, path: path.to_owned(), is_near }))
    }
}

/// Entries in the order in which the kernel names them.
struct Batch {
    dir: Arc<Dir>,
    /// One after the other, each with its NUL.
    names: Vec<u8>,
    entries: Vec<Entry>,
    /// The sequel of these entries.
    then: Then,
    trust: Trust,
}

#[derive(Clone, Copy)]
struct Entry {
    name: usize,
    length: usize,
    number: u64,
    kind: Option<FileType>,
}

enum Then {
    More,
    End,
    Error(Errno),
}

/// Opens a directory and reads its first batch.
#[track_caller]
pub(super) fn read_dir(path: &Path) -> io::Result<ReadDir> {
    let name = c_path(path)?;
    let batch = first(&name, path)?;
    Ok(ReadDir { batch: Arc::new(batch), next: 0, was_told: false, is_over: false })
}

#[track_caller]
fn first(name: &CStr, path: &Path) -> io::Result<Batch> {
    segue_core::admit()?;
    let read = |name: &CStr, path: &Path| {
        let fd = rustix::fs::open(name, FLAGS, Mode::empty())?;
        let near = is_near(fd.as_fd());
        fetch(&Dir::new(fd, path, near)?)
    };
    if !apart::is_called_for() {
        return until_done(|| read(name, path));
    }
    if segue_core::in_fiber() && WARM.spend() {
        match open_now(name, FLAGS) {
            Some(Ok(fd)) if is_near(fd.as_fd()) => return fetch_here(&Dir::new(fd, path, true)?),
            Some(Err(error)) => return Err(error),
            _ => {}
        }
    }
    match open_and(name, FLAGS, |fd| noting_warmth(|| fetch(&Dir::new(fd, path, true)?))) {
        // Something is mounted there, or a link leads elsewhere; or nobody knows.
        Some(Err(error)) if says(&error, &[Errno::XDEV]) => {}
        Some(read) => return read,
        None => {}
    }
    let (name, path) = (name.to_owned(), path.to_owned());
    apart::run(Next::WAITS_FOR, Patience::Server, move || noting_warmth(|| read(&name, &path)))
}

/// The outcome of the batches that were fetched last.
static WARM: Trust = Trust::none();

/// To name so many entries counts as one more operation.
const ENTRIES: usize = 8;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The next batch of a directory is to be read.
struct Next<'a>(&'a Arc<Dir>);

impl Call for Next<'_> {
    type Output = Batch;
    const WAITS_FOR: &'static str = "a directory";

    fn at_once(&mut self) -> Option<io::Result<Batch>> {
        (self.0.is_near && WARM.spend()).then(|| fetch_here(self.0))
    }

    fn perform(&mut self) -> rustix::io::Result<Batch> {
        noting_warmth(|| fetch(self.0))
    }
}

/// The same where somebody else is asked.
#[track_caller]
fn next_elsewhere(dir: &Arc<Dir>) -> io::Result<Batch> {
    let dir = Arc::clone(dir);
    apart::run(Next::WAITS_FOR, Patience::Server, move || fetch(&dir))
}

/// Reads entries in memory on the worker.
fn fetch_here(dir: &Arc<Dir>) -> io::Result<Batch> {
    let batch = until_done(|| fetch(dir))?;
    charge(batch.entries.len() / ENTRIES);
    Ok(batch)
}

/// Fetches something on a thread that may block.
fn noting_warmth(fetch: impl FnOnce() -> rustix::io::Result<Batch>) -> rustix::io::Result<Batch> {
    let (batch, has_slept) = noting_sleep(fetch);
    if !has_slept {
        WARM.renew();
    }
    batch
}

/// Reads the next entries of the directory. If a signal interrupts that, the entries so far are a
/// batch; without any, the caller knows whether somebody still waits.
fn fetch(dir: &Arc<Dir>) -> rustix::io::Result<Batch> {
    let mut batch = Batch {
        dir: Arc::clone(dir),
        names: Vec::new(),
        entries: Vec::new(),
        then: Then::More,
        trust: Trust::default(),
    };
    let Batch { names, entries, .. } = &mut batch;
    let read = dir.listing.read(dir.fd.as_fd(), |name, kind, number| {
        if name != c"." && name != c".." {
            let (start, length) = (names.len(), name.count_bytes());
            names.extend_from_slice(name.to_bytes_with_nul());
            entries.push(Entry { name: start, length, number, kind: FileType::of_entry(kind) });
        }
        names.len() < FULL
    });
    batch.then = match read {
        Ok(Listed::Some) => Then::More,
        // Linux says so of a directory that was removed meanwhile: there is nothing more.
        Ok(Listed::All) | Err(Errno::NOENT) => Then::End,
        Err(Errno::INTR) if batch.entries.is_empty() => return Err(Errno::INTR),
        Err(Errno::INTR) => Then::More,
        Err(error) => Then::Error(error),
    };
    Ok(batch)
}

/// The entries of a directory, as [`std::fs::ReadDir`]; without `.` and `..`.
///
/// They are fetched in batches of some hundreds. Of names that are created or removed meanwhile,
/// entries that have not been fetched may be there or not; all others are there, once.
///
/// # Cancellation
///
/// A `next` that has to fetch a batch, of a cancelled caller, yields an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows, and then `None`: *no effect* on the
/// rest, which a later `next` yields, of a caller that is not cancelled. After any other error
/// there is nothing more, nor after that one if another party has the directory: a server may have
/// given the batch to the call that was left.
///
/// # Examples
///
/// ```
/// let mut names = Vec::new();
/// for entry in segue_io::fs::read_dir(".")? {
///     names.push(entry?.file_name());
/// }
/// assert!(names.iter().any(|name| name == "Cargo.toml"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ReadDir {
    batch: Arc<Batch>,
    next: usize,
    was_told: bool,
    is_over: bool,
}

impl Iterator for ReadDir {
    type Item = io::Result<DirEntry>;

    #[track_caller]
    fn next(&mut self) -> Option<io::Result<DirEntry>> {
        while self.next == self.batch.entries.len() {
            match &self.batch.then {
                _ if self.is_over => return None,
                Then::End => return None,
                Then::Error(error) => {
                    self.is_over = true;
                    return Some(Err((*error).into()));
                }
                Then::More => {}
            }
            let dir = &self.batch.dir;
            let is_near = dir.is_near || apart::in_place();
            let batch = if is_near { run(Next(dir)) } else { next_elsewhere(dir) };
            match batch {
                Ok(batch) => self.batch = Arc::new(batch),
                // A call that was left has them, or has none.
                Err(error) if !is_near => {
                    self.is_over = true;
                    return Some(Err(error));
                }
                // A loop that skips errors must come to an end.
                Err(_) if std::mem::replace(&mut self.was_told, true) => return None,
                Err(cancelled) => return Some(Err(cancelled)),
            }
            (self.next, self.was_told) = (0, false);
        }
        self.next += 1;
        Some(Ok(DirEntry { batch: Arc::clone(&self.batch), index: self.next - 1 }))
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.batch.dir.path).finish()
    }
}

/// An entry of a directory, as [`std::fs::DirEntry`]. An entry keeps the directory open.
pub struct DirEntry {
    batch: Arc<Batch>,
    index: usize,
}

impl DirEntry {
    fn entry(&self) -> &Entry {
        &self.batch.entries[self.index]
    }

    fn name(&self) -> &CStr {
        let Entry { name, length, .. } = *self.entry();
        CStr::from_bytes_with_nul(&self.batch.names[name..=name + length]).expect("it was put there with its NUL")
    }

    /// The path: that of the directory, as named by the caller, with the name. Never waits.
    pub fn path(&self) -> PathBuf {
        self.batch.dir.path.join(OsStr::from_bytes(self.name().to_bytes()))
    }

    /// The name. Never waits.
    pub fn file_name(&self) -> OsString {
        OsStr::from_bytes(self.name().to_bytes()).to_owned()
    }

    /// The metadata of the file now; of a symbolic link, of the link itself.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error: `NotFound`, if the file has gone.
    #[track_caller]
    pub fn metadata(&self) -> io::Result<Metadata> {
        let Batch { dir, trust, .. } = &*self.batch;
        // Something else may be mounted at a directory.
        let trust = self.entry().kind.filter(|kind| !kind.is_dir()).map(|_| trust);
        stat_entry(&dir.fd, self.name(), trust).map(Metadata::new)
    }

    /// The kind of the file. Nearly all file systems say so with the name, and then this does not
    /// wait.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`metadata`](DirEntry::metadata), if the kernel has to be asked.
    #[track_caller]
    pub fn file_type(&self) -> io::Result<FileType> {
        match self.entry().kind {
            Some(kind) => Ok(kind),
            None => self.metadata().map(|metadata| metadata.file_type()),
        }
    }
}

/// std's trait.
impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.entry().number
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

/// Removes the content of a directory, and then the directory: for a thread that may block.
///
/// Each name is looked up in a descriptor of its directory, and no link is followed: so nothing is
/// removed outside of the tree, also if parts are moved meanwhile.
/// `go_on` fails when its caller has gone.
pub(super) fn remove_tree(path: &Path, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    use rustix::fs::{AtFlags, unlinkat};
    let name = c_path(path)?;
    let kind = rustix::fs::statat(CWD, &*name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode;
    if rustix::fs::FileType::from_raw_mode(kind) == rustix::fs::FileType::Symlink {
        // The link is removed itself.
        return Ok(unlinkat(CWD, &*name, AtFlags::empty())?);
    }
    empty(CWD, &name, 0, go_on)?;
    match unlinkat(CWD, &*name, AtFlags::REMOVEDIR) {
        // Somebody else was faster.
        Err(Errno::NOENT) => Ok(()),
        gone => Ok(gone?),
    }
}

/// Makes a call again that a signal has interrupted, if there is somebody to go on for.
fn until_over<T>(go_on: &dyn Fn() -> io::Result<()>, mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => go_on()?,
            done => return Ok(done?),
        }
    }
}

/// Deeper than this a thread's stack might end.
const DEEPEST: usize = 1000;

/// Removes the content of a directory. Each level has a descriptor open, as with std.
fn empty(within: impl AsFd, name: &CStr, depth: usize, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    use rustix::fs::{AtFlags, openat, unlinkat};
    if depth > DEEPEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the tree is too deep to be removed at once"));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = until_over(go_on, || openat(&within, name, flags, Mode::empty()))?;
    let dir = Dir::new(fd, Path::new(""), false)?;
    loop {
        let batch = until_over(go_on, || fetch(&dir))?;
        for index in 0..batch.entries.len() {
            go_on()?;
            let Entry { name, length, kind, .. } = batch.entries[index];
            let name = CStr::from_bytes_with_nul(&batch.names[name..=name + length]).expect("with its NUL");
            let gone = if kind.is_some_and(|kind| kind.is_dir()) {
                Err(Errno::ISDIR)
            } else {
                unlinkat(&dir.fd, name, AtFlags::empty())
            };
            let gone = match gone {
                Err(Errno::ISDIR | Errno::PERM) if kind.is_none_or(|kind| kind.is_dir()) => {
                    match empty(&dir.fd, name, depth + 1, go_on) {
                        Ok(()) => unlinkat(&dir.fd, name, AtFlags::REMOVEDIR),
                        // Somebody else was faster.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                        Err(error) => return Err(error),
                    }
                }
                gone => gone,
            };
            match gone {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match batch.then {
            Then::More => {}
            Then::End => return Ok(()),
            Then::Error(error) => return Err(error.into()),
        }
    }
}
