//! Files and directories, in std's names and shapes.
//!
//! Only the fiber waits for the disk; on a plain thread, the thread. Types and functions
//! are those of [`std::fs`], and std's traits of `std::os::unix::fs` work with them; in addition
//! there are [temporary files](temp_file).
//!
//! | | |
//! | --- | --- |
//! | [`File`], [`OpenOptions`] | an open file |
//! | [`read`], [`write()`], [`copy`] | whole files |
//! | [`read_dir`], [`create_dir_all`], [`remove_dir_all`] | directories |
//! | [`rename`], [`remove_file`], [`hard_link`], [`symlink`] | names |
//! | [`metadata`], [`exists`], [`set_permissions`] | metadata of a file |
//! | [`temp_file`], [`NamedTempFile`] | files that go by themselves |
//!
//! Under them lie the calls, in `calls` and `transfers`, and the two systems: `linux` and `posix`.
//! In each, `call` is the seam between a request and the wait for it, `opening` opens files, and
//! `local` knows which file systems ask nobody else; `in_memory` has data that need no wait.
//! `elsewhere` has the calls to other parties.
//!
//! # Where the work is done
//!
//! On Linux. Files and directories of a disk, that is of a file system in a list of those that ask
//! nobody:
//!
//! | | on a fiber |
//! | --- | --- |
//! | a read of up to 128 KiB that is in the page cache; metadata that the kernel has in memory; the opening of a file in memory | at once, on the worker. Of a directory's entries one in sixteen is looked up with care, and the next are taken to be in memory like that one; so are the directories after one that a thread has read without waiting |
//! | other reads, writes, opens, metadata; names, `sync_all`, `set_len` | in the worker's io_uring, if there is one, and the kernel has an opcode |
//! | a file that is [sent](File::send_to) to a socket | the bytes in memory: at once, without a copy; others by a thread for blocking calls, up to 128 KiB at a time. From elsewhere they are read, and written |
//! | other directories, copies, permissions, times, links that are read; everything, without a ring | on a thread for [blocking calls](segue_core::blocking) |
//!
//! A call that depends on another party is never made on a worker, nor by the threads above:
//!
//! | | on a fiber |
//! | --- | --- |
//! | files and directories of a server (FUSE, NFS, CIFS, 9p, virtiofs), and of unknown file systems; the content of `/proc`, `/sys` and the like; files behind a name that is not in memory, if its directory is not | on a thread that can be interrupted, and left |
//! | pipes, terminals, sockets, counters, devices | by readiness. Where the kernel has no call that does not block, on such a thread, once ready |
//! | the other end of a named pipe, a lease | asked for again and again, up to 16 ms apart |
//!
//! On other Unix systems no call on a file is made on a worker, but to close one of a disk and to
//! remove the name of a temporary one there; and more calls are taken for those that another party
//! may delay:
//!
//! | | on a fiber |
//! | --- | --- |
//! | an open file or directory of a disk, that is of a file system that the system calls local | on a thread for blocking calls |
//! | other files; names, opens and metadata of all files; the other end of a named pipe, and a lease | on a thread that can be interrupted, and left |
//! | pipes, terminals, sockets, devices | by readiness, and then on such a thread |
//!
//! There a copy is made by reads and writes, and a temporary file has a name for a moment.
//!
//! On plain threads that nothing cancels everything is done in place. A simulated program's files
//! are real.
//!
//! # Cancellation
//!
//! All operations that can wait fail at once for a cancelled caller, with an error that
//! [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. A call that the
//! kernel has begun on a file of a disk is not broken off, but waited for, and its result is
//! returned, so that nothing is lost. Only functions of several steps *may already have happened*
//! in part; they say so.
//!
//! A call to another party is interrupted, by a signal to its thread. Waits of streams end so, with
//! *no effect*, and so does a request to a server that listens to interrupts. Another request is
//! left after some 30 ms: the request *may already have happened*, or happen later, and a read or
//! write at a position that others share moves that. A thread that was left ends when the server
//! answers.
//!
//! # Fork
//!
//! In the child of a fork the parent's fibers make their calls in place.
//!
//! # Examples
//!
//! ```
//! use segue_io::fs;
//!
//! let dir = std::env::temp_dir().join(format!("segue-fs-{}", std::process::id()));
//! fs::create_dir_all(dir.join("below"))?;
//! fs::write(dir.join("below/hello"), "hello")?;
//! let sizes = fs::read_dir(dir.join("below"))?.map(|entry| Ok(entry?.metadata()?.len()));
//! assert_eq!(sizes.sum::<std::io::Result<u64>>()?, 5);
//! fs::remove_dir_all(&dir)?;
//! assert!(!fs::exists(&dir)?);
//! # Ok::<(), std::io::Error>(())
//! ```

mod below;
mod calls;
mod copy;
mod dir;
mod elsewhere;
mod fifo;
mod file;
mod held;
mod kind;
#[cfg(linux)]
mod linux;
#[cfg(linux)]
use linux as system;
mod metadata;
mod options;
mod path;
mod place;
#[cfg(not(linux))]
mod posix;
#[cfg(not(linux))]
use posix as system;
mod sending;
mod steps;
mod temporary;
mod transfers;

pub use dir::{DirEntry, ReadDir};
pub use file::File;
pub use metadata::{FileTimes, FileType, Metadata};
pub use options::OpenOptions;
pub use path::{
    DirBuilder, canonicalize, copy, create_dir, create_dir_all, exists, hard_link, metadata, read, read_dir, read_link,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata, write,
};
pub use std::fs::{Permissions, TryLockError};
pub use temporary::{NamedTempFile, temp_file, temp_file_in};
