//! Points in time in their order: a hierarchy of wheels, each of which is made where somebody looks
//! for the first of many.
//!
//! Used by `mod.rs`, under a lock.
//!
//! # The idea
//!
//! A deadline is a number of eleven digits of six bits. A *wheel* has 64 slots, one for each value
//! of a digit; all its entries have the same digits above. A slot is empty, or *closed*: a list of
//! entries in the order in which they came; or *open*: a finer wheel. The outermost slot is for all
//! deadlines, and closed at first.
//!
//! | | from here |
//! | --- | --- |
//! | empty | an entry comes: closed |
//! | closed | the last entry leaves: empty. The first of more than [`FEW`] is looked for: open |
//! | open | the wheel inside becomes empty: empty. A deadline comes with other digits above than those of the wheel inside: open, with another wheel between |
//!
//! An entry goes through open slots to a closed one, and to the end of the list there. To leave
//! takes two links, since the list's ends lead to the slot. The first of all is in the first slot
//! that is not empty, by the wheels' words of occupied slots; a list of few is searched; a list of
//! many is opened, by the highest digit in which two of its deadlines differ. So each entry moves
//! inwards only, at most eleven times and mostly three or four, and the way to each entry is a few
//! steps. A slot of the last digit has one deadline, and is never opened.
//!
//! The usual hierarchy opens a slot when the clock reaches it: such a hierarchy rounds, or has to
//! sort the last slot, and can't say when the next entry is due without a walk through a slot that
//! may have a million. Here nothing depends on the clock. The clock may stand, or jump; a deadline
//! may have passed.
//!
//! **Order.** Entries with one deadline are in one slot, in any shape, and a list keeps their order
//! at its opening: so the order is exact, by deadline and then by registration.
//!
//! **Nothing is left behind**: a wheel that becomes empty is given back, and its slot is empty. The
//! memory of entries and wheels stays at its high-water mark. A wheel has been made for more than
//! [`FEW`] entries, and may have one left.

use super::slab::{Entry, Key, Place, Slab};

/// Up to how many entries of a list are looked at to find the first one.
const FEW: u32 = 8;

/// A link that leads to a slot, and not to an entry.
const SLOT: u32 = 1 << 31;
/// In place of a last entry: a slot is open.
const OPEN: u32 = u32::MAX;
/// The slot for all deadlines: the first slot of the first wheel, which has no others.
const OUTERMOST: u32 = 0;

const BITS: u32 = 6;
const SLOTS: u32 = 1 << BITS;

/// The entries in order of time.
pub(super) struct Wheels {
    slab: Slab,
    wheels: Vec<Wheel>,
    /// The first wheel that was given back.
    spare: u32,
}

struct Wheel {
    /// Which slots are not empty.
    occupied: u64,
    /// One of its deadlines, for the digits above.
    within: u64,
    /// The digit of this wheel; 0 is the last one.
    level: u32,
    /// The slot of this wheel. Of a wheel that was given back: the next one.
    around: u32,
    slots: [Slot; SLOTS as usize],
}

/// The ends of a list; or the number of a wheel, and [`OPEN`]. Without a meaning in an empty slot.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

impl Wheel {
    /// Whether a deadline has the digits above.
    #[inline]
    fn has(&self, deadline: u64) -> bool {
        (deadline ^ self.within) >> (BITS * self.level) < u64::from(SLOTS)
    }

    #[inline]
    fn digit(&self, deadline: u64) -> u32 {
        (deadline >> (BITS * self.level)) as u32 % SLOTS
    }
}

/// The highest digit in which two deadlines differ.
#[inline]
fn level(different: u64) -> u32 {
    different.checked_ilog2().unwrap_or(0) / BITS
}

impl Wheels {
    pub(super) const fn new() -> Self {
        Self { slab: Slab::new(), wheels: Vec::new(), spare: OPEN }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    /// Makes an entry.
    #[inline]
    pub(super) fn insert(&mut self, deadline: u64, entry: Entry) -> Key {
        let index = self.slab.insert(deadline, entry);
        let slot = self.slot_for(deadline);
        self.append(slot, index);
        self.slab.key(index)
    }

    /// Takes an entry out, if still there.
    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> Option<Entry> {
        let index = self.slab.find(key)?;
        self.unlink(index);
        Some(self.slab.remove(index))
    }

    /// When the next one is due.
    #[inline]
    pub(super) fn first_deadline(&mut self) -> Option<u64> {
        let first = self.first()?;
        Some(self.slab[first].deadline)
    }

    /// Which one is next.
    pub(super) fn first_key(&mut self) -> Option<Key> {
        let first = self.first()?;
        Some(self.slab.key(first))
    }

    /// Takes the next one out, if its deadline is not after this.
    #[inline]
    pub(super) fn pop(&mut self, until: u64) -> Option<(Key, Entry)> {
        let first = self.first()?;
        if self.slab[first].deadline > until {
            return None;
        }
        let key = self.slab.key(first);
        self.unlink(first);
        Some((key, self.slab.remove(first)))
    }

    /// Takes the next ones out, unless their deadline is after this: up to `most` of those that
    /// have one deadline, and a slot without others; elsewhere one. Answers how many `take`, which
    /// does not unwind, was given.
    #[inline]
    pub(super) fn pop_some(&mut self, until: u64, most: usize, mut take: impl FnMut(Key, Entry)) -> usize {
        let Some(first) = self.first() else { return 0 };
        let Place { deadline, before, .. } = self.slab[first];
        if deadline > until {
            return 0;
        }
        let slot = before & !SLOT;
        if before & SLOT == 0 || slot == OUTERMOST || self.wheel(slot).level != 0 {
            let key = self.slab.key(first);
            self.unlink(first);
            take(key, self.slab.remove(first));
            return 1;
        }
        let (mut next, mut taken) = (first, 0);
        while next & SLOT == 0 && taken < most {
            let (index, key) = (next, self.slab.key(next));
            next = self.slab[index].after;
            take(key, self.slab.remove(index));
            taken += 1;
        }
        if next & SLOT != 0 {
            self.vacate(slot);
        } else {
            self.slab[next].before = SLOT | slot;
            self.at(slot).first = next;
        }
        taken
    }

    /// Makes every deadline earlier, and none less than zero. Keeps the order, also of those that
    /// become equal.
    #[cold]
    pub(super) fn subtract(&mut self, from_each: u64) {
        let mut all = Vec::with_capacity(self.len());
        while let Some(first) = self.first() {
            self.unlink(first);
            all.push(first);
        }
        for index in all {
            let deadline = &mut self.slab[index].deadline;
            *deadline = deadline.saturating_sub(from_each);
            let slot = self.slot_for(self.slab[index].deadline);
            self.append(slot, index);
        }
    }

    #[inline]
    fn wheel(&self, slot: u32) -> &Wheel {
        &self.wheels[(slot / SLOTS) as usize]
    }

    #[inline]
    fn at(&mut self, slot: u32) -> &mut Slot {
        &mut self.wheels[(slot / SLOTS) as usize].slots[(slot % SLOTS) as usize]
    }

    #[inline]
    fn is_empty(&self, slot: u32) -> bool {
        self.wheel(slot).occupied & 1 << (slot % SLOTS) == 0
    }

    /// The wheel inside of a slot, if that is open.
    #[inline]
    fn inside(&self, slot: u32) -> Option<u32> {
        let Slot { first, last } = self.wheel(slot).slots[(slot % SLOTS) as usize];
        (last == OPEN && !self.is_empty(slot)).then_some(first)
    }

    fn set(&mut self, slot: u32, value: Slot) {
        self.wheels[(slot / SLOTS) as usize].occupied |= 1 << (slot % SLOTS);
        *self.at(slot) = value;
    }

    /// The slot, empty or closed, where an entry with this deadline is.
    #[inline]
    fn slot_for(&mut self, deadline: u64) -> u32 {
        if self.wheels.is_empty() {
            self.make(0, 0, OUTERMOST);
        }
        let mut slot = OUTERMOST;
        while let Some(number) = self.inside(slot) {
            let wheel = &self.wheels[number as usize];
            if !wheel.has(deadline) {
                return self.between(slot, number, deadline);
            }
            slot = number * SLOTS + wheel.digit(deadline);
        }
        slot
    }

    /// Puts another wheel between a slot and the wheel inside, which does not have this deadline.
    #[cold]
    fn between(&mut self, slot: u32, inside: u32, deadline: u64) -> u32 {
        let within = self.wheels[inside as usize].within;
        let number = self.make(level(within ^ deadline), deadline, slot);
        let wheel = &self.wheels[number as usize];
        let (theirs, its) = (wheel.digit(within), wheel.digit(deadline));
        let around = number * SLOTS + theirs;
        self.set(around, Slot { first: inside, last: OPEN });
        self.wheels[inside as usize].around = around;
        self.set(slot, Slot { first: number, last: OPEN });
        number * SLOTS + its
    }

    /// A wheel without entries.
    fn make(&mut self, level: u32, within: u64, around: u32) -> u32 {
        if let Some(wheel) = self.wheels.get_mut(self.spare as usize) {
            let number = std::mem::replace(&mut self.spare, wheel.around);
            (wheel.occupied, wheel.within, wheel.level, wheel.around) = (0, within, level, around);
            return number;
        }
        let slots = [Slot { first: OPEN, last: OPEN }; SLOTS as usize];
        self.wheels.push(Wheel { occupied: 0, within, level, around, slots });
        let number = (self.wheels.len() - 1) as u32;
        assert!(number < SLOT / SLOTS, "so many wheels are more than the memory holds");
        number
    }

    /// Puts an entry at the end of a slot that is not open.
    #[inline]
    fn append(&mut self, slot: u32, index: u32) {
        let last = if self.is_empty(slot) { None } else { Some(self.at(slot).last) };
        let place = &mut self.slab[index];
        (place.before, place.after) = (last.unwrap_or(SLOT | slot), SLOT | slot);
        match last {
            Some(last) => {
                self.slab[last].after = index;
                self.at(slot).last = index;
            }
            None => self.set(slot, Slot { first: index, last: index }),
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Place { before, after, .. } = self.slab[index];
        match (before & SLOT != 0, after & SLOT != 0) {
            (true, true) => return self.vacate(before & !SLOT),
            (true, false) => self.at(before & !SLOT).first = after,
            (false, _) => self.slab[before].after = after,
        }
        match after & SLOT != 0 {
            true => self.at(after & !SLOT).last = before,
            false => self.slab[after].before = before,
        }
    }

    /// The last entry has left a slot.
    #[inline]
    fn vacate(&mut self, mut slot: u32) {
        loop {
            let number = slot / SLOTS;
            let wheel = &mut self.wheels[number as usize];
            wheel.occupied &= !(1 << (slot % SLOTS));
            if wheel.occupied != 0 || slot == OUTERMOST {
                return;
            }
            slot = std::mem::replace(&mut wheel.around, self.spare);
            self.spare = number;
        }
    }

    /// The next entry: of those with the earliest deadline the one that came first.
    #[inline]
    fn first(&mut self) -> Option<u32> {
        if self.wheels.first()?.occupied == 0 {
            return None;
        }
        let mut slot = OUTERMOST;
        loop {
            while let Some(number) = self.inside(slot) {
                slot = number * SLOTS + self.wheels[number as usize].occupied.trailing_zeros();
            }
            if let Some(first) = self.first_of(slot) {
                return Some(first);
            }
            self.open(slot);
        }
    }

    /// The next entry of a closed slot, except with too many.
    #[inline]
    fn first_of(&mut self, slot: u32) -> Option<u32> {
        let mut first = self.at(slot).first;
        if self.wheel(slot).level == 0 && slot != OUTERMOST {
            return Some(first);
        }
        let mut next = self.slab[first].after;
        for _ in 1..=FEW {
            if next & SLOT != 0 {
                return Some(first);
            }
            if self.slab[next].deadline < self.slab[first].deadline {
                first = next;
            }
            next = self.slab[next].after;
        }
        None
    }

    /// Opens a closed slot.
    #[cold]
    fn open(&mut self, slot: u32) {
        let first = self.at(slot).first;
        let within = self.slab[first].deadline;
        // From both ends: each step waits for memory.
        let (mut next, mut back, mut different) = (first, self.at(slot).last, 0);
        loop {
            let (place, other) = (&self.slab[next], &self.slab[back]);
            different |= (place.deadline ^ within) | (other.deadline ^ within);
            if next == back || place.after == back {
                break;
            }
            (next, back) = (place.after, other.before);
        }
        let number = self.make(level(different), within, slot);
        let mut next = first;
        while next & SLOT == 0 {
            let Place { deadline, after, .. } = self.slab[next];
            let digit = self.wheels[number as usize].digit(deadline);
            self.append(number * SLOTS + digit, next);
            next = after;
        }
        self.set(slot, Slot { first: number, last: OPEN });
    }
}
