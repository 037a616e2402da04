//! A whole buffer or stream, read or written in as many pieces as it takes: what std's traits
//! provide, with the caller's place in it.
//!
//! Used by every stream and file. std's own would be named where a report says who waits, as it is
//! std's function that calls `read` and `write` there.

use std::io::{self, ErrorKind, Read, Write};

/// As [`Read::read_exact`].
#[track_caller]
pub(crate) fn read(from: &mut (impl Read + ?Sized), mut buf: &mut [u8]) -> io::Result<()> {
    while !buf.is_empty() {
        match from.read(buf) {
            // std's error for it.
            Ok(0) => return io::empty().read_exact(buf),
            Ok(count) => buf = &mut buf[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What a stream is read in first, if nobody knows how long it is.
const PIECE: usize = 8 * 1024;

/// What a stream is read in at most: the worker fills the room for a piece with zeros first.
const LARGEST: usize = 1024 * 1024;

/// As [`Read::read_to_end`], of a stream from which probably so much comes up to the end. The bytes
/// before an error stay.
#[track_caller]
pub(crate) fn read_to_end(from: &mut (impl Read + ?Sized), probably: usize, to: &mut Vec<u8>) -> io::Result<usize> {
    let begin = to.len();
    to.try_reserve(probably)?;
    let mut piece = if probably == 0 { PIECE } else { probably.min(LARGEST) };
    // Where the room is used up this is often the end, and there is no need for more.
    let mut small = [0; 32];
    loop {
        let (length, is_full) = (to.len(), to.capacity() == to.len());
        let room = if is_full { small.len() } else { piece.min(to.capacity() - length) };
        let read = if is_full {
            from.read(&mut small)
        } else {
            to.resize(length + room, 0);
            let read = from.read(&mut to[length..]);
            to.truncate(length + *read.as_ref().unwrap_or(&0));
            read
        };
        match read {
            Ok(0) => return Ok(length - begin),
            Ok(count) if is_full => {
                to.try_reserve(count.max(piece))?;
                to.extend_from_slice(&small[..count]);
            }
            Ok(count) if count == room => piece = LARGEST.min(piece * 2),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// As [`Read::read_to_string`]. What has come before an error stays, if it is text.
#[track_caller]
pub(crate) fn read_to_string(from: &mut (impl Read + ?Sized), to: &mut String) -> io::Result<usize> {
    let mut bytes = Vec::new();
    let read = from.read_to_end(&mut bytes);
    match (read, String::from_utf8(bytes)) {
        (read, Ok(text)) if to.is_empty() => {
            *to = text;
            read
        }
        (read, Ok(text)) => {
            to.push_str(&text);
            read
        }
        (Err(error), Err(_)) => Err(error),
        (Ok(_), Err(_)) => Err(io::Error::new(ErrorKind::InvalidData, "stream did not contain valid UTF-8")),
    }
}

/// As [`Write::write_all`].
#[track_caller]
pub(crate) fn write(to: &mut (impl Write + ?Sized), mut buf: &[u8]) -> io::Result<()> {
    while !buf.is_empty() {
        match to.write(buf) {
            // Likewise.
            Ok(0) => return [].as_mut_slice().write_all(buf),
            Ok(count) => buf = &buf[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `read_exact` of an `impl Read`.
macro_rules! read_exact {
    () => {
        #[track_caller]
        fn read_exact(&mut self, buf: &mut [u8]) -> std::io::Result<()> {
            $crate::system::whole::read(self, buf)
        }
    };
}

/// What an `impl Read` has of whole buffers and streams.
macro_rules! read_whole {
    () => {
        $crate::system::whole::read_exact!();

        #[track_caller]
        fn read_to_end(&mut self, buf: &mut Vec<u8>) -> std::io::Result<usize> {
            $crate::system::whole::read_to_end(self, 0, buf)
        }

        #[track_caller]
        fn read_to_string(&mut self, buf: &mut String) -> std::io::Result<usize> {
            $crate::system::whole::read_to_string(self, buf)
        }
    };
}

/// `write_all` of an `impl Write`.
macro_rules! write_all {
    () => {
        #[track_caller]
        fn write_all(&mut self, buf: &[u8]) -> std::io::Result<()> {
            $crate::system::whole::write(self, buf)
        }
    };
}

/// `Read` for a type, by the methods of the same names of a part of it.
macro_rules! reads {
    ([$($generics:tt)*] $name:ty, |$it:ident| $part:expr) => {
        /// See the type's section on cancellation.
        impl<$($generics)*> std::io::Read for $name {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                let $it = self;
                $part.read(buf)
            }

            #[track_caller]
            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                let $it = self;
                $part.read_vectored(bufs)
            }

            $crate::system::whole::read_whole!();
        }
    };
}

/// `Write` for a type, likewise.
macro_rules! writes {
    ([$($generics:tt)*] $name:ty, |$it:ident| $part:expr) => {
        /// See the type's section on cancellation. There is no buffer, and so a flush does nothing.
        impl<$($generics)*> std::io::Write for $name {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                let $it = self;
                $part.write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                let $it = self;
                $part.write_vectored(bufs)
            }

            $crate::system::whole::write_all!();

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

/// `AsFd` for a type, by a part of it.
macro_rules! as_fd {
    ([$($generics:tt)*] $name:ty, |$it:ident| $part:expr) => {
        impl<$($generics)*> std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                let $it = self;
                std::os::fd::AsFd::as_fd($part)
            }
        }
    };
}

/// `AsFd` and `AsRawFd`, likewise.
macro_rules! as_raw_fd {
    ([$($generics:tt)*] $name:ty, |$it:ident| $part:expr) => {
        $crate::system::whole::as_fd!([$($generics)*] $name, |$it| $part);

        impl<$($generics)*> std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(self))
            }
        }
    };
}

pub(crate) use {as_fd, as_raw_fd, read_exact, read_whole, reads, write_all, writes};

#[cfg(test)]
#[path = "../../tests/units/whole.rs"]
mod tests;
