//! Where stacks come from: slots of one reservation, numbered, handed out in chunks and taken back.
//!
//! Used by [`StackPool`](crate::StackPool), which a worker holds; a [`Stack`] that is dropped
//! anywhere else returns here.
//!
//! A slot is in exactly one place: never used yet (its number is at least `fresh`), in `warm`
//! (given back with its memory), in `cold` (given back, its memory returned to the kernel), or
//! owned by one [`Stack`]. Everything here is bookkeeping over numbers under one lock, taken once
//! for a chunk; the place of a number in memory is the business of the host's `Region`.

#![allow(unsafe_code)] // A stack is an address.

use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::{Layout, StackConfig};
use crate::host::{self, Region};

/// A reservation of address space in slots of one size, each a stack with its guard.
///
/// Made once and shared by the pools of all workers. The arena lives as long as any of its stacks;
/// a stack that is leaked by a coroutine (see [`leaked_stacks`](crate::leaked_stacks)) therefore
/// keeps its arena for ever.
pub struct StackArena {
    region: Region,
    pub(crate) layout: Layout,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// The lowest number that was never handed out.
    fresh: u32,
    warm: Vec<u32>,
    cold: Vec<u32>,
}

impl StackArena {
    /// Reserves the address space.
    ///
    /// # Errors
    ///
    /// `InvalidInput` names the fault of the configuration; otherwise the reservation was refused,
    /// and the error says how large that was.
    pub fn new(config: StackConfig) -> io::Result<Arc<StackArena>> {
        let mut layout = config.layout(host::page_size())?;
        let region = Region::reserve(&mut layout)?;
        Ok(Arc::new(StackArena { region, layout, slots: Mutex::default() }))
    }

    /// Address space per stack in bytes, guard pages included.
    pub fn slot_size(&self) -> usize {
        self.layout.slot_size()
    }

    /// The bytes of a stack that a function can use; coroutine and header take a few hundred of
    /// them.
    pub fn usable_size(&self) -> usize {
        self.layout.usable()
    }

    /// How many stacks there may be at once.
    pub fn max_slots(&self) -> usize {
        self.layout.max_slots as usize
    }

    /// How many stacks are out of the arena at the moment: in use, leaked, or idle in a pool.
    pub fn outstanding(&self) -> usize {
        let slots = self.slots();
        slots.fresh as usize - slots.warm.len() - slots.cold.len()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // Nothing panics under this lock save a failing allocation, before which all is consistent.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds between one and `want` stacks to `out`, those that were used before first.
    pub(crate) fn grant(self: &Arc<Self>, want: usize, out: &mut Vec<Stack>) -> io::Result<()> {
        out.reserve(want);
        let mut slots = self.slots();
        let Slots { fresh, warm, cold } = &mut *slots;
        let known = want.min(warm.len() + cold.len());
        if known > 0 {
            // The pool takes from the end, so warm slots go there.
            let of_warm = known.min(warm.len());
            let of_cold = known - of_warm;
            let numbers = cold.drain(cold.len() - of_cold..).chain(warm.drain(warm.len() - of_warm..));
            out.extend(numbers.map(|number| self.own(number)));
            return Ok(());
        }
        let left = self.layout.max_slots - *fresh;
        if left == 0 {
            let max = self.layout.max_slots;
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("all {max} stacks of the arena are in use: raise StackConfig::max_slots or run fewer fibers"),
            ));
        }
        let first = *fresh;
        // SAFETY: no stack has one of these numbers yet: under this lock they leave `fresh`.
        let made = unsafe { self.region.prepare(first, left.min(want as u32))? };
        *fresh += made;
        out.extend((first..first + made).rev().map(|number| self.own(number)));
        Ok(())
    }

    /// The one place where a `Stack` comes into being: its number has just left the lists above.
    fn own(self: &Arc<Self>, number: u32) -> Stack {
        Stack { top: self.region.top(number), arena: Arc::clone(self) }
    }

    /// Takes back stacks; their memory goes to the kernel.
    pub(crate) fn take_back_cold(&self, stacks: impl Iterator<Item = Stack>) {
        let numbers: Vec<u32> = stacks.map(Stack::into_number).collect();
        // Without the lock: this is the slow part.
        // SAFETY: the stacks were owned, and are gone: nobody else knows their numbers.
        unsafe { self.region.release(&numbers) };
        self.slots().cold.extend(numbers);
    }

    /// Takes back one stack with its memory; when these become many, the oldest half loses its
    /// memory.
    fn take_back_warm(&self, number: u32) {
        let mut slots = self.slots();
        slots.warm.push(number);
        let many = slots.warm.len();
        if many > self.layout.keep_warm.max(64) {
            let old: Vec<u32> = slots.warm.drain(..many / 2).collect();
            drop(slots);
            // SAFETY: the numbers have left the list, and nobody else knows them.
            unsafe { self.region.release(&old) };
            self.slots().cold.extend(old);
        }
    }
}

impl fmt::Debug for StackArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StackArena")
            .field("slot_size", &self.slot_size())
            .field("max_slots", &self.max_slots())
            .field("outstanding", &self.outstanding())
            .finish()
    }
}

/// One stack: the sole owner of its slot. Dropped, the slot returns to the arena.
pub struct Stack {
    /// The coloured top of its slot, which identifies the slot: the new coroutine needs that at
    /// once.
    top: NonNull<u8>,
    arena: Arc<StackArena>,
}

// SAFETY: the address is that of memory which the stack owns, and does not change; the memory is
// the region's, which may be shared.
unsafe impl Send for Stack {}
// SAFETY: as above; nothing is written through a shared stack.
unsafe impl Sync for Stack {}

impl Stack {
    /// The number of its slot, which no other stack of the arena has meanwhile.
    pub fn number(&self) -> usize {
        self.slot() as usize
    }

    /// The arena of this stack.
    pub fn arena(&self) -> &Arc<StackArena> {
        &self.arena
    }

    /// The addresses a function may use, guard excluded; nothing where a coroutine is a thread. On
    /// Windows the kernel makes them accessible from the top down, as frames reach them.
    pub fn bounds(&self) -> Option<Range<usize>> {
        self.arena.region.bounds(self.slot())
    }

    fn slot(&self) -> u32 {
        self.arena.region.number(self.top)
    }

    /// Where the memory of a function begins, downwards. Good for the slot's memory.
    #[cfg_attr(threads, allow(dead_code))] // There is none.
    #[inline]
    pub(crate) fn top(&self) -> NonNull<u8> {
        self.top
    }

    /// Dissolves the stack without giving its slot back.
    fn into_number(self) -> u32 {
        let number = self.slot();
        let this = ManuallyDrop::new(self);
        // SAFETY: the field is moved out once, as nobody sees `this` any more.
        drop(unsafe { ptr::read(&raw const this.arena) });
        number
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.arena.take_back_warm(self.slot());
    }
}

segue_core::impl_debug!([] Stack, |it| number: it.number());
