//! The parts of a source for the looks of a choice, and the parts that may be ready.
//!
//! Used by sources, which answer with their parts, and by choices (`any_of.rs`), which draw among
//! the parts that may be ready.

/// The parts of a source for looks: their number, and for each part whether a look may find
/// something there. A source has at most 8 parts.
///
/// # Examples
///
/// ```
/// use segue_core::Parts;
///
/// assert_eq!(Parts::one(true).count(), 1);
/// assert!(Parts::one(true).may_be_ready(0));
/// assert!(!Parts::one(false).may_be_ready(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    count: u8,
    /// A bit for each part, from the lowest on.
    ready: u8,
}

impl Parts {
    /// No source has more parts.
    pub(super) const MOST: usize = 8;

    /// Of a source that is switched off, or has no arms: one part, as each source has at least one.
    pub(super) const NONE: Self = Self::one(false);

    /// One part. `false` is certain: a look would find nothing.
    #[inline]
    #[must_use]
    pub const fn one(may_be_ready: bool) -> Self {
        Self { count: 1, ready: may_be_ready as u8 }
    }

    /// The number of parts.
    #[inline]
    #[must_use]
    pub const fn count(self) -> usize {
        self.count as usize
    }

    /// Whether a look may find something in this part. `false` is certain.
    #[inline]
    #[must_use]
    pub const fn may_be_ready(self, part: usize) -> bool {
        part < self.count() && self.ready >> part & 1 != 0
    }
}

/// The parts of all arms of a choice, up to [64](Row::MOST), with a bit for each that may be ready.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) count: usize,
    pub(super) ready: u64,
    /// A bit for the first part of each arm: an arm's parts end where those of the next arm begin.
    firsts: u64,
}

impl Row {
    /// Of a longer row the bits are not complete.
    pub(super) const MOST: usize = u64::BITS as usize;

    #[inline]
    pub(super) const fn new() -> Self {
        Self { count: 0, ready: 0, firsts: 0 }
    }

    /// Puts the parts of the next arm behind.
    #[inline]
    pub(super) fn push(&mut self, parts: Parts) {
        debug_assert!(parts.count() > 0, "a source has a part");
        let place = self.count as u32;
        self.ready |= u64::from(parts.ready).wrapping_shl(place);
        self.firsts |= 1_u64.wrapping_shl(place);
        self.count += parts.count();
    }

    /// The index of the arm that has this part, and the part's number there.
    #[inline]
    pub(super) fn place_of(self, part: usize) -> (usize, usize) {
        // The first parts up to this one.
        let firsts = self.firsts << (Self::MOST - 1 - part);
        (firsts.count_ones() as usize - 1, firsts.leading_zeros() as usize)
    }

    /// Its parts for the choice around: one part, if there are more than a source has.
    #[inline]
    pub(super) fn as_parts(self) -> Parts {
        match self.count {
            // Of a choice without arms.
            0 => Parts::NONE,
            1..=Parts::MOST => Parts { count: self.count as u8, ready: self.ready as u8 },
            _ => self.as_one_part(),
        }
    }

    #[inline]
    pub(super) fn as_one_part(self) -> Parts {
        Parts::one(self.count > Self::MOST || self.ready != 0)
    }
}
