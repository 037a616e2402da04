//! Files and directories, in std's names and shapes. On Linux.
//!
//! What waits for the disk is only the fiber; on a plain thread, the thread. Types and functions
//! are those of [`std::fs`], and std's traits of `std::os::unix::fs` work with them; in addition
//! there are [temporary files](temp_file).
//!
//! | | |
//! | --- | --- |
//! | [`File`], [`OpenOptions`] | an open file |
//! | [`read`], [`write()`], [`copy`] | whole files |
//! | [`read_dir`], [`create_dir_all`], [`remove_dir_all`] | directories |
//! | [`rename`], [`remove_file`], [`hard_link`], [`symlink`] | names |
//! | [`metadata`], [`exists`], [`set_permissions`] | what is known of a file |
//! | [`temp_file`], [`NamedTempFile`] | what goes by itself |
//!
//! Under them lies `call`, the seam between what is asked and how it is waited for, with the calls
//! in `calls`; `in_memory` has what need not be waited for, and `local` knows which file systems
//! answer from memory.
//!
//! # Where the work is done
//!
//! | | on a fiber |
//! | --- | --- |
//! | a read of up to 128 KiB that is in the page cache; metadata of what the kernel has in memory, on a local file system; the opening of what is in memory | at once, on the worker. Of a directory's entries one in sixteen is looked up with care, and the next are taken to be in memory like that one; so are the directories after one that a thread has read without waiting |
//! | other reads, writes, opens, metadata; names, `sync_all`, `set_len` | in the worker's io_uring, if it has one and the kernel has an opcode for it |
//! | other directories, copies, permissions, times, links that are read; everything, without a ring | on a thread for [blocking calls](segue_core::blocking) |
//! | on plain threads, everything | in place |
//!
//! A simulated program's files are real.
//!
//! # Cancellation
//!
//! Whatever can wait fails at once for a cancelled caller, with an error that
//! [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. What the kernel has
//! begun to do with a file it does not break off: it is waited for, and its result is returned, so
//! that nothing is lost. Only functions of several steps *may already have happened* in part; they
//! say so.
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

mod call;
mod calls;
mod copy;
mod dir;
mod elsewhere;
mod file;
mod held;
mod in_memory;
mod local;
mod metadata;
mod options;
mod path;
mod temporary;

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
