//! std's traits for an open file: streams, positions, descriptors.
//!
//! Used by programs. `file.rs` has what they do.

use super::File;
use crate::fs::place::Place;
use std::io::{self, IoSlice, IoSliceMut, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// std's trait, for what has no position. See the type's section on cancellation.
impl FileExt for File {
    #[track_caller]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_from(Place::At(offset), buf)
    }

    #[track_caller]
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.write_to(Place::At(offset), buf)
    }
}

/// The position of a handle that others may have, too.
const SHARED: Place = Place::Cursor { alone: false };

/// Each of std's traits, for a handle that is borrowed for writing and for one that is not: with
/// the position that each may use.
macro_rules! streams {
    ($($name:ty, $file:ident => $place:expr;)*) => {$(
        /// See the type's section on cancellation.
        impl io::Read for $name {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_from(place, buf)
            }

            #[track_caller]
            fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_several_from(place, bufs)
            }

            crate::system::whole::read_exact!();

            #[track_caller]
            fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_rest(place, buf)
            }

            #[track_caller]
            fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.read_rest_to_string(place, buf)
            }
        }

        /// See the type's section on cancellation. There is no buffer, and so a flush does nothing.
        impl io::Write for $name {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.write_to(place, buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                let $file = self;
                let place = $place;
                $file.write_several_to(place, bufs)
            }

            crate::system::whole::write_all!();

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        /// See the type's section on cancellation.
        impl Seek for $name {
            #[track_caller]
            fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
                self.seek_to(pos)
            }
        }
    )*};
}

streams! {
    File, file => file.cursor();
    &File, file => SHARED;
}

/// Others can have the position from now on.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.share();
        self.borrowed()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.share();
        self.borrowed().as_raw_fd()
    }
}

impl IntoRawFd for File {
    fn into_raw_fd(self) -> RawFd {
        self.held.into_owned().into_raw_fd()
    }
}

/// Takes a descriptor over as it is.
impl From<OwnedFd> for File {
    fn from(fd: OwnedFd) -> Self {
        Self::shared(fd)
    }
}

impl From<File> for OwnedFd {
    fn from(file: File) -> Self {
        file.held.into_owned()
    }
}

impl From<std::fs::File> for File {
    fn from(file: std::fs::File) -> Self {
        Self::from_std(file)
    }
}

impl From<File> for std::fs::File {
    fn from(file: File) -> Self {
        file.into_std()
    }
}

/// A child to be reads or writes the file.
impl From<File> for std::process::Stdio {
    fn from(file: File) -> Self {
        file.held.into_owned().into()
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("fd", &self.borrowed().as_raw_fd()).finish()
    }
}
