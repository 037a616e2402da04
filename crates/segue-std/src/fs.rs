//! std's names for files: those of [`segue::fs`]. Names that this crate lacks are std's.
//!
//! ```
//! use segue_std::fs::{self, File};
//! use segue_std::io::{Read, Write};
//!
//! let path = std::env::temp_dir().join(format!("segue-std-{}", std::process::id()));
//! File::create(&path)?.write_all(b"hello")?;
//! let mut text = String::new();
//! File::open(&path)?.read_to_string(&mut text)?;
//! assert_eq!((&*text, fs::metadata(&path)?.len()), ("hello", 5));
//! fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub use segue::fs::{
    DirBuilder, DirEntry, File, FileTimes, FileType, Metadata, OpenOptions, Permissions, ReadDir, TryLockError,
    canonicalize, copy, create_dir, create_dir_all, exists, hard_link, metadata, read, read_dir, read_link,
    read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions, symlink_metadata, write,
};
#[doc(no_inline)]
pub use std::fs::*;
