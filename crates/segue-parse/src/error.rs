//! Errors: the small one that parsers hand on, positions, and the report for people.
//!
//! Used by `input`, and by parsers of any kind.

use std::error::Error as StdError;
use std::{fmt, io};

/// The failure of a parser: small, so that a success costs nothing for it.
///
/// An error names the offset from the input's begin. [`Input::report`](crate::Input::report) adds
/// line and column, the byte that was found, and all that was expected there.
///
/// The first three and [`OutOfRange`](Self::OutOfRange) are about the bytes: an alternative that
/// fails so leaves room for the next one.
///
/// # Examples
///
/// ```
/// use segue_parse::{Error, Input};
///
/// let mut input = Input::of(b"300");
/// assert!(matches!(input.integer::<u8>(), Err(Error::OutOfRange { at: 0 })));
/// assert_eq!(input.integer::<u16>().unwrap(), 300);
/// assert!(matches!(input.literal("!"), Err(Error::End { at: 3 })));
/// ```
#[derive(Debug)]
pub enum Error {
    /// Another byte than those that could stand there.
    Unexpected {
        /// The offset of the byte.
        at: u64,
    },
    /// The input ends too early.
    End {
        /// The length of the input.
        at: u64,
    },
    /// A number is too large for its type, or too small.
    OutOfRange {
        /// The offset of the number.
        at: u64,
    },
    /// More bytes would have to be kept than the [limit](crate::Input::limit) allows.
    TooLong {
        /// The offset of the first byte that is kept: the commit point.
        at: u64,
    },
    /// [`nested`](crate::Input::nested) parsers beyond the [limit](crate::Input::depth).
    TooDeep {
        /// The offset where the first one too many begins.
        at: u64,
    },
    /// The error of the reader, unchanged.
    Io(io::Error),
}

impl Error {
    /// The offset; none of an error of the reader.
    #[must_use]
    pub fn at(&self) -> Option<u64> {
        match *self {
            Self::Unexpected { at }
            | Self::End { at }
            | Self::OutOfRange { at }
            | Self::TooLong { at }
            | Self::TooDeep { at } => Some(at),
            Self::Io(_) => None,
        }
    }

    /// Whether another alternative may do with these bytes.
    pub(crate) fn leaves_alternatives(&self) -> bool {
        matches!(self, Self::Unexpected { .. } | Self::End { .. } | Self::OutOfRange { .. })
    }

    /// Without the offset.
    fn summary(&self) -> &'static str {
        match self {
            Self::Unexpected { .. } => "unexpected input",
            Self::End { .. } => "unexpected end of the input",
            Self::OutOfRange { .. } => "a number is out of range",
            Self::TooLong { .. } => "a token is longer than the limit",
            Self::TooDeep { .. } => "nested more deeply than the limit",
            Self::Io(_) => "the input can't be read",
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::End { .. } => io::ErrorKind::UnexpectedEof,
            Self::Io(error) => error.kind(),
            _ => io::ErrorKind::InvalidData,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            _ => write!(f, "{} at byte {}", self.summary(), self.at().unwrap_or_default()),
        }
    }
}

impl StdError for Error {
    /// Of the reader's error its source: the error itself is in the message.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Error> for io::Error {
    /// The reader's error itself; else of kind `UnexpectedEof` at the end of the input and
    /// `InvalidData` before that.
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error,
            _ => Self::new(error.kind(), error),
        }
    }
}

/// A place in the input.
///
/// # Examples
///
/// ```
/// use segue_parse::Input;
///
/// let mut input = Input::of(b"two\nlines");
/// input.literal("two\nli").unwrap();
/// let place = input.position();
/// assert_eq!((place.offset, place.line, place.column), (6, 2, 3));
/// assert_eq!(place.to_string(), "line 2, column 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of bytes before this place.
    pub offset: u64,
    /// The number of the line, from 1. A line ends in `\n`.
    pub line: u64,
    /// The number of the byte in its line, from 1.
    pub column: u64,
}

impl Position {
    pub(crate) const START: Self = Self { offset: 0, line: 1, column: 1 };

    /// The place behind these bytes.
    pub(crate) fn behind(self, bytes: &[u8]) -> Self {
        // This loop counts in vectors of the processor.
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        let column = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) if lines > 0 => bytes.len() - last,
            _ => bytes.len() + self.column as usize,
        };
        Self { offset: self.offset + bytes.len() as u64, line: self.line + lines as u64, column: column as u64 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Something that could stand at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// These bytes.
    Literal(&'static str),
    /// Something that is called so.
    Named(&'static str),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(text) => write!(f, "`{}`", text.escape_debug()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// All that could have stood at the farthest place where a parser has failed.
#[derive(Debug, Default)]
pub(crate) struct Farthest {
    pub(crate) at: u64,
    pub(crate) expected: Vec<Expected>,
}

impl Farthest {
    /// Notes a failure, unless that is before the farthest one.
    pub(crate) fn note(&mut self, at: u64, expected: Expected) {
        if at > self.at {
            self.at = at;
            self.expected.clear();
        }
        if at == self.at && !self.expected.contains(&expected) {
            self.expected.push(expected);
        }
    }
}

/// An [`Error`] for people: with line and column, the byte there, and all that was expected.
/// Made by [`Input::report`](crate::Input::report).
///
/// As an [`io::Error`] the reader's error stays unchanged, so a cancelled wait is still known for
/// one.
///
/// # Examples
///
/// ```
/// use segue_parse::{Error, Input};
///
/// let mut input = Input::of(b"[1\n;");
/// let parsed = input.literal("[").and_then(|()| {
///     let digits = input.take_while(|byte| byte.is_ascii_digit())?.len();
///     input.skip_while(|byte| byte == b'\n')?;
///     if input.accept(",")? { Ok(digits) } else { input.literal("]").map(|()| digits) }
/// });
/// let report = input.report(parsed.unwrap_err());
/// assert_eq!(report.to_string(), "line 2, column 1: expected `,` or `]`, found `;`");
/// assert_eq!((report.found(), report.position().offset), (Some(b';'), 3));
/// assert!(matches!(report.error(), Error::Unexpected { at: 3 }));
/// ```
#[derive(Debug)]
pub struct Report {
    pub(crate) error: Error,
    pub(crate) position: Position,
    pub(crate) found: Option<u8>,
    pub(crate) expected: Vec<Expected>,
}

impl Report {
    /// The error. Of several alternatives that have failed, the one that came farthest.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The place of the error; where the parser was when the reader failed.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The byte at that place, unless the input ends there or has let go of that byte.
    #[must_use]
    pub fn found(&self) -> Option<u8> {
        self.found
    }

    /// The names of all that could have stood there; literals are in back-quotes.
    pub fn expected(&self) -> impl ExactSizeIterator<Item = String> {
        self.expected.iter().map(ToString::to_string)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.position)?;
        match &self.error {
            Error::Unexpected { .. } | Error::End { .. } if !self.expected.is_empty() => {
                let last = self.expected.len() - 1;
                for (number, expected) in self.expected.iter().enumerate() {
                    let before = if number == 0 {
                        "expected "
                    } else if number == last {
                        " or "
                    } else {
                        ", "
                    };
                    write!(f, "{before}{expected}")?;
                }
                match (self.found, &self.error) {
                    (Some(byte), _) => write!(f, ", found `{}`", byte.escape_ascii()),
                    (None, Error::End { .. }) => f.write_str(", found the end of the input"),
                    (None, _) => Ok(()),
                }
            }
            Error::Io(error) => error.fmt(f),
            error => f.write_str(error.summary()),
        }
    }
}

impl StdError for Report {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

impl From<Report> for io::Error {
    /// The reader's error itself; else of kind `UnexpectedEof` at the end of the input and
    /// `InvalidData` before that, with the report inside.
    fn from(report: Report) -> Self {
        match report.error {
            Error::Io(error) => error,
            _ => Self::new(report.error.kind(), report),
        }
    }
}
