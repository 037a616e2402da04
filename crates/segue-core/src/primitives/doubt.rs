//! [`Doubt`]: how many occasions pass between tries that are in vain.
//!
//! Used where only a try tells whether tries pay off: by threads that look for their mail before
//! they park, by workers that look for closures or take samples, by receivers that wait for a
//! crowd.
//!
//! After a try some occasions pass without one: 1, then 3, 7 and so on, up to `MOST`. A reward ends
//! all doubt. So tries in vain become rare, and never stop.

/// How many occasions pass without a try, `MOST` at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubt<const MOST: u16> {
    passes: u16,
    left: u16,
}

impl<const MOST: u16> Doubt<MOST> {
    /// No doubt: the next occasion is for a try.
    pub const NONE: Self = Self { passes: 0, left: 0 };

    /// Whether this occasion is for a try, which counts as one in vain until [`Doubt::NONE`] takes
    /// the place of this doubt.
    #[inline]
    pub fn tries(&mut self) -> bool {
        let tries = self.is_over();
        if tries {
            self.grow();
        }
        tries
    }

    /// Whether this occasion is for a try. The outcome of the try is told later, if at all.
    #[inline]
    pub fn is_over(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }

    /// A try was in vain: twice as many occasions pass, and one more.
    #[inline]
    pub fn grow(&mut self) {
        self.passes = self.passes.saturating_mul(2).saturating_add(1).min(MOST);
        self.again();
    }

    /// As many occasions pass as after the last try.
    #[inline]
    pub fn again(&mut self) {
        self.left = self.passes;
    }

    /// Whether a try was in vain since the last reward.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.passes > 0
    }

    /// As a word, for an atomic.
    #[must_use]
    pub fn to_bits(self) -> u32 {
        u32::from(self.passes) << 16 | u32::from(self.left)
    }

    /// From [`to_bits`](Doubt::to_bits).
    #[must_use]
    pub fn from_bits(bits: u32) -> Self {
        Self { passes: (bits >> 16) as u16, left: bits as u16 }
    }
}

#[cfg(test)]
#[path = "../../tests/units/doubt.rs"]
mod tests;
