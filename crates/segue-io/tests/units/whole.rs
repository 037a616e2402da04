//! Whole reads and writes do as those of std, over readers that answer in pieces. Part of
//! `system/whole.rs`.

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

/// Gives out pieces of a text that are so long, each after an interruption; then an error, if
/// there is to be one, or the end.
struct Text<'a>(&'a [u8], usize, bool, bool);

impl Read for Text<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.2 = !self.2;
        match (self.2, self.0.is_empty() && self.3) {
            (true, _) => Err(ErrorKind::Interrupted.into()),
            (false, true) => Err(ErrorKind::TimedOut.into()),
            (false, false) => {
                let length = self.1.min(self.0.len()).min(buf.len());
                self.0.read(&mut buf[..length])
            }
        }
    }
}

#[test]
fn what_is_read_to_the_end_is_what_it_is_to_std() {
    let long: Vec<u8> = (0..3 * LARGEST + 5).map(|n| b'a' + (n % 23) as u8).collect();
    let texts: [&[u8]; 6] = [b"", b"x", b"some text", b"caf\xc3\xa9", b"no text \xff", &long];
    for text in texts {
        for (piece, fails, before) in
            [(1, false, ""), (7, true, ""), (1 << 20, false, "before"), (usize::MAX, true, "before")]
        {
            if piece < 8 && text.len() > LARGEST {
                continue;
            }
            let of = || Text(text, piece, false, fails);
            for probably in [0, 1, text.len(), 2 * text.len() + 64] {
                let (mut ours, mut std) = (before.as_bytes().to_vec(), before.as_bytes().to_vec());
                let (a, b) = (read_to_end(&mut of(), probably, &mut ours), of().read_to_end(&mut std));
                assert_eq!(format!("{a:?}"), format!("{b:?}"));
                assert!(ours == std, "{piece} {fails} {probably}");
            }
            let (mut ours, mut std) = (before.to_owned(), before.to_owned());
            let (a, b) = (read_to_string(&mut of(), &mut ours), of().read_to_string(&mut std));
            assert_eq!((a.is_err(), a.ok()), (b.is_err(), b.ok()));
            assert!(ours == std, "{piece} {fails}");
        }
    }
}
