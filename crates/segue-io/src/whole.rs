//! A whole buffer, read or written in as many pieces as it takes: what std's traits provide, with
//! the caller's place in it.
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
            $crate::whole::read(self, buf)
        }
    };
}

/// `write_all` of an `impl Write`.
macro_rules! write_all {
    () => {
        #[track_caller]
        fn write_all(&mut self, buf: &[u8]) -> std::io::Result<()> {
            $crate::whole::write(self, buf)
        }
    };
}

pub(crate) use {read_exact, write_all};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    /// Answers so many bytes each time; an interruption where it says `None`.
    struct Answers<'a>(&'a [Option<usize>]);

    impl Answers<'_> {
        fn next(&mut self, most: usize) -> io::Result<usize> {
            let (first, rest) = self.0.split_first().expect("it is not asked any more");
            self.0 = rest;
            first.map(|count| count.min(most)).ok_or(ErrorKind::Interrupted.into())
        }
    }

    impl Read for Answers<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.next(buf.len())
        }
    }

    impl Write for Answers<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.next(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pieces_interruptions_and_ends_are_what_they_are_to_std() {
        fn same<T: Debug>(ours: io::Result<T>, std: io::Result<T>) {
            assert_eq!(format!("{ours:?}"), format!("{std:?}"));
        }
        let cases: [&[_]; 5] =
            [&[Some(4)], &[Some(1), None, Some(2), Some(9)], &[Some(3), Some(0)], &[Some(0)], &[None, Some(0)]];
        for answers in cases {
            same(read(&mut Answers(answers), &mut [0; 4]), Answers(answers).read_exact(&mut [0; 4]));
            same(write(&mut Answers(answers), &[0; 4]), Answers(answers).write_all(&[0; 4]));
        }
        assert!(read(&mut Answers(&[]), &mut []).is_ok() && write(&mut Answers(&[]), &[]).is_ok());
    }
}
