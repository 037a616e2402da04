//! The names of header lines that a thread has met, as clients write them. Used by the parser of
//! requests' heads.
//!
//! Most lines of most requests have a name that was met before. Such a name costs a comparison of
//! four words and a copy. Another one is made lower-case, is searched among the standard names, and
//! takes an allocation if it is none of these.
//!
//! The store has a fixed number of places; where both of a name are taken, the name displaces one.
//! So a client that makes up names costs others a little time, and no memory. Names are not secret:
//! a client that measures whether a name was met learns nothing of values.

use std::cell::Cell;

use http::HeaderName;
use http::header::{self, InvalidHeaderName};

use crate::message::framing::Kind;

/// How many places there are, as a power of two. Their names take some ten KiB of a thread.
const BITS: u32 = 7;
const WORDS: usize = 4;
/// The longest name that is kept.
const LONGEST: usize = WORDS * size_of::<u64>();

thread_local! {
    static NAMES: Cell<Option<Box<Names>>> = const { Cell::new(None) };
}

/// The names of a thread.
pub(super) struct Names {
    places: Box<[Known]>,
    /// The last one that is too long to be kept.
    long: Known,
}

pub(super) struct Known {
    written: Written,
    pub(super) name: HeaderName,
    pub(super) kind: Kind,
}

/// A name as it was written, upper case and lower case distinguished.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Written {
    length: usize,
    /// Together with the length these have all bytes; some are in two words.
    words: [u64; WORDS],
}

impl Written {
    /// That of no name.
    const NONE: Written = Written { length: 0, words: [0; WORDS] };

    /// `None` for a name that is too long to be kept.
    fn of(name: &[u8]) -> Option<Written> {
        let length = name.len();
        let words = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
                if length <= 16 {
                    [first, last, 0, 0]
                } else if length <= LONGEST {
                    let (second, third) = (name[8..].first_chunk()?, name[..length - 8].last_chunk()?);
                    [first, last, u64::from_le_bytes(*second), u64::from_le_bytes(*third)]
                } else {
                    return None;
                }
            }
            _ => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => {
                    [u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into(), 0, 0]
                }
                _ => [*name.first()?, name[length / 2], *name.last()?, 0].map(u64::from),
            },
        };
        Some(Written { length, words })
    }

    /// The two places that the name may have: with one each, two names of one client would
    /// displace each other time and again.
    fn places(&self) -> [usize; 2] {
        let [a, b, c, d] = self.words;
        let mixed = a ^ b.rotate_left(23) ^ c.rotate_left(41) ^ d.rotate_left(11) ^ self.length as u64;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [mixed >> (u64::BITS - BITS), (mixed >> (u64::BITS - 2 * BITS)) % (1 << BITS)].map(|at| at as usize)
    }
}

impl Names {
    /// Those of the calling thread, until they are [left](Self::leave).
    pub(super) fn take() -> Box<Names> {
        let kept = NAMES.try_with(Cell::take).ok().flatten();
        kept.unwrap_or_else(|| {
            let none = || Known { written: Written::NONE, name: header::HOST, kind: Kind::Host };
            Box::new(Names { places: (0..1 << BITS).map(|_| none()).collect(), long: none() })
        })
    }

    /// Leaves the names to the next head of this thread.
    pub(super) fn leave(self: Box<Self>) {
        // Without an effect while the thread ends.
        let _ = NAMES.try_with(|names| names.set(Some(self)));
    }

    /// The header name that is written in this way.
    pub(super) fn get(&mut self, name: &[u8]) -> Result<&Known, InvalidHeaderName> {
        let Some(written) = Written::of(name) else {
            self.long = Known::new(Written::NONE, name)?;
            return Ok(&self.long);
        };
        let [first, second] = written.places();
        for at in [first, second] {
            if self.places[at].written == written {
                return Ok(&self.places[at]);
            }
        }
        let known = Known::new(written, name)?;
        let is_free = |at: usize| self.places[at].written == Written::NONE;
        let at = if !is_free(first) && is_free(second) { second } else { first };
        self.places[at] = known;
        Ok(&self.places[at])
    }
}

impl Known {
    #[cold]
    #[inline(never)]
    fn new(written: Written, name: &[u8]) -> Result<Known, InvalidHeaderName> {
        let name = HeaderName::from_bytes(name)?;
        let kind = Kind::of(&name);
        Ok(Known { written, name, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Names, Written};
    use http::HeaderName;

    /// All beginnings of a text, and all with one byte changed, are told apart.
    #[test]
    fn names_are_told_apart_by_each_byte_and_their_length() {
        let text: Vec<u8> = (b'a'..=b'z').chain(b'0'..=b'9').cycle().take(2 * LONGEST).collect();
        for length in 1..=LONGEST {
            let name = &text[..length];
            let written = Written::of(name).expect("short enough");
            assert!(Written::of(&text[..length + 1]).is_none_or(|longer| longer != written), "{length}");
            for at in 0..length {
                let mut other = name.to_vec();
                other[at] ^= 0x20;
                assert!(Written::of(&other).expect("as long") != written, "byte {at} of {length}");
            }
        }
        assert!(Written::of(&text[..LONGEST + 1]).is_none());
        assert!(Written::of(b"").is_none());
    }

    /// More names than there are places, twice: each is the one that is asked for.
    #[test]
    fn a_name_that_was_displaced_is_found_again() {
        let mut names = Names::take();
        for round in 0..2 {
            for number in 0..1_000 {
                let written = format!("X-Name-{number}");
                let known = names.get(written.as_bytes()).expect("a name");
                assert_eq!(known.name, HeaderName::from_bytes(written.as_bytes()).expect("a name"), "round {round}");
            }
        }
        assert!(names.get(b"").is_err());
        assert!(names.get(b"no name").is_err());
    }
}
