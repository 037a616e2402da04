//! A table that never gives out a key twice: a key is a slot's number together with how often the
//! slot was used.
//!
//! Used by the reactor, which gives the key to the kernel. An event may still be on its way when
//! its socket is closed and the slot serves another; the key that it carries then fits nothing.
//!
//! The generation wraps around after 2^32 uses of one slot (2^16 on 32-bit machines). An event
//! would have to stay on its way that long, and would then cause a retry of an op and nothing else.

/// How many bits of a key are the slot's number; the rest is the generation.
const INDEX_BITS: u32 = usize::BITS / 2;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
/// The largest generation is left out, so that no key is `usize::MAX`, which selectors use
/// themselves.
const GENERATIONS: usize = INDEX_MASK;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: usize,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Stores a value and gives out a key for it; `None` if there is no key left.
    pub(crate) fn insert(&mut self, value: T) -> Option<usize> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() <= INDEX_MASK => {
                self.slots.push(Slot { generation: 0, value: None });
                self.slots.len() - 1
            }
            None => return None,
        };
        let slot = &mut self.slots[index];
        slot.value = Some(value);
        Some(slot.generation << INDEX_BITS | index)
    }

    pub(crate) fn get(&self, key: usize) -> Option<&T> {
        let slot = self.slots.get(key & INDEX_MASK)?;
        slot.value.as_ref().filter(|_| slot.generation == key >> INDEX_BITS)
    }

    /// Takes the value out. The key fits nothing from now on.
    pub(crate) fn remove(&mut self, key: usize) -> Option<T> {
        let index = key & INDEX_MASK;
        let slot = self.slots.get_mut(index).filter(|slot| slot.generation == key >> INDEX_BITS)?;
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(index);
        Some(value)
    }

    /// How many slots there are, used or free.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_a_reused_slot_fits_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert('a').unwrap();
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').unwrap();
        assert_eq!(first & INDEX_MASK, second & INDEX_MASK, "the slot was not reused: nothing is tested");
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
    }

    #[test]
    fn generations_wrap_before_the_key_that_selectors_use() {
        let mut slab = Slab::new();
        let key = slab.insert(()).unwrap();
        slab.remove(key);
        slab.slots[0].generation = GENERATIONS - 1;
        let last = slab.insert(()).unwrap();
        slab.remove(last);
        assert_eq!(slab.insert(()), Some(0));
        const { assert!(((GENERATIONS - 1) << INDEX_BITS | INDEX_MASK) < usize::MAX) };
    }
}
