//! [`Word`]: the unit of the recorder, 64 bits that say what they are.
//!
//! Written by the pen, read by snapshots. An event is one word, or several in a row.
//!
//! The lowest eight bits are the kind, the others its content. A word is written and read by one
//! access, so there are no torn words; and a snapshot that begins in the middle of an event passes
//! over the words that belong to the event before.
#![allow(unsafe_code)] // Texts and places of the program lie in words by their addresses.

use segue_core::WaitsFor;
use std::panic::Location;
use std::{ptr, slice, str};

/// A word of the ring: one of those that the functions below make, or zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

/// The kinds of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The time of the events after this, in nanoseconds.
    Time = 1,
    Run,
    End,
    Yield,
    Suspend,
    /// After `Suspend`: the object of the wait, and the place of its call.
    What,
    At,
    Spawn,
    /// Then come the closure, and the name if there is one.
    Start,
    Closure,
    Name,
    Resume,
    Mail,
    Cancel,
    Steal,
    Flight,
    Park,
    Unpark,
    Unrecorded,
}

const KINDS: [Kind; 19] = [
    Kind::Time,
    Kind::Run,
    Kind::End,
    Kind::Yield,
    Kind::Suspend,
    Kind::What,
    Kind::At,
    Kind::Spawn,
    Kind::Start,
    Kind::Closure,
    Kind::Name,
    Kind::Resume,
    Kind::Mail,
    Kind::Cancel,
    Kind::Steal,
    Kind::Flight,
    Kind::Park,
    Kind::Unpark,
    Kind::Unrecorded,
];

/// A fiber's number has 48 bits for itself, of which 40 are kept, and 16 for its worker.
const NUMBER: u32 = 40;
const NUMBERS: u64 = (1 << NUMBER) - 1;

/// How many bytes of a name there are in a word, and how many words of them.
const BYTES: usize = 7;
const NAMES: usize = 5;

impl Word {
    /// A word with a number, of which 56 bits are kept. Not for addresses that are to be followed.
    #[inline]
    pub(crate) fn new(kind: Kind, content: u64) -> Self {
        assert!(!matches!(kind, Kind::What | Kind::At), "an address comes from a reference");
        Self(content << 8 | kind as u64)
    }

    /// A word about the fiber with this number.
    #[inline]
    pub(crate) fn of_fiber(kind: Kind, id: u64) -> Self {
        Self::new(kind, (id & NUMBERS) | id >> 48 << NUMBER)
    }

    /// The words of a wait's object. There are none if its text or an address is too long.
    pub(crate) fn of_wait(waits_for: WaitsFor) -> Option<[Self; 2]> {
        let WaitsFor { what, at } = waits_for;
        let text = u64::try_from(what.as_ptr().expose_provenance()).ok()?;
        let place = u64::try_from(ptr::from_ref(at).expose_provenance()).ok()?;
        let length = u8::try_from(what.len()).ok()?;
        if (text | place) >> 48 != 0 {
            return None;
        }
        Some([Self(text << 16 | u64::from(length) << 8 | Kind::What as u64), Self(place << 8 | Kind::At as u64)])
    }

    /// The words of a name, or of its beginning.
    pub(crate) fn of_name(name: &str) -> impl Iterator<Item = Self> {
        let cut = name.floor_char_boundary(BYTES * NAMES);
        name.as_bytes()[..cut].chunks(BYTES).map(|bytes| {
            let content = bytes.iter().rev().fold(0, |content, byte| content << 8 | u64::from(*byte));
            Self::new(Kind::Name, content)
        })
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The word that was made with these bits, or zero.
    ///
    /// # Safety
    /// They are zero, or those of a word.
    pub(crate) unsafe fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The kind; `None` of zero.
    pub(crate) fn kind(self) -> Option<Kind> {
        let at = usize::from(self.0 as u8).checked_sub(1)?;
        KINDS.get(at).copied()
    }

    pub(crate) fn content(self) -> u64 {
        self.0 >> 8
    }

    pub(crate) fn fiber(self) -> u64 {
        (self.content() & NUMBERS) | self.content() >> NUMBER << 48
    }

    /// The text of a word of the kind `What`.
    pub(crate) fn what(self) -> Option<&'static str> {
        if self.kind() != Some(Kind::What) {
            return None;
        }
        let (address, length) = (self.0 >> 16, usize::from((self.0 >> 8) as u8));
        // SAFETY: a word of this kind was made by `of_wait` alone, as `new` refuses the kind, and
        // has all bits of the address and the length of a `&'static str`, which was exposed there.
        // On this machine an address that was a `usize` is one again.
        Some(unsafe {
            let bytes = slice::from_raw_parts(ptr::with_exposed_provenance(address as usize), length);
            str::from_utf8_unchecked(bytes)
        })
    }

    /// The place of a word of the kind `At`.
    pub(crate) fn at(self) -> Option<&'static Location<'static>> {
        if self.kind() != Some(Kind::At) {
            return None;
        }
        // SAFETY: as in `what`: the word was made from a `&'static Location`, by `of_wait`.
        Some(unsafe { &*ptr::with_exposed_provenance(self.content() as usize) })
    }

    /// The bytes of a word of the kind `Name`.
    pub(crate) fn bytes(self) -> impl Iterator<Item = u8> {
        self.content().to_le_bytes().into_iter().take(BYTES).filter(|byte| *byte != 0)
    }
}
