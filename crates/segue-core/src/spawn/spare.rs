//! The legacy of a task that has ended for the next one of its thread: its membership of a family,
//! and its memory.
//!
//! Used by [`Family`] and by tasks, and by worker loops, which switch this on.
//!
//! # Memberships
//!
//! To enter and to leave a family are atomic additions to one counter, and most fibers of a runtime
//! are made and end on the same worker. So a task that ends may leave its membership behind, in a
//! slot of the thread, and the next that is spawned there takes that over: the counter still counts
//! a member, but not which one. The slot holds one membership. This saves two of the four locked
//! instructions of a fiber that is joined.
//!
//! A kept membership keeps its owner waiting. So a thread keeps them only between
//! [`keep_spares`]`(true)` and `(false)`, and gives one up by [`settle`] whenever there is nothing
//! else to do. Until then it runs members themselves, or work for which the owner waits; or else
//! fibers of another runtime that came here to spawn: so a thread that is never idle settles now
//! and then. Only memberships of runtimes' families are kept: their owners wait for the runtime to
//! run dry. A scope's owner goes on as soon as its last fiber has ended.
//!
//! Invariant: the slot has a family's address only while that family counts this thread once more
//! than there are members. So the family is in place, and a task that finds its address there has
//! found that family and not another one in the same place.
//!
//! Ordering: the next task is made by the thread on which the last one ended, so its leaving
//! releases that one's work, too.
//!
//! # Memory
//!
//! Tasks of up to [`BLOCK`] bytes take blocks of that size, and a worker keeps those that were
//! freed on it, up to [`KEPT`]: 192 KiB. That saves 8 of the 65 ns of a fiber that is spawned and
//! joined; and 27 of 123, and a third of the instructions, where a thousand are spawned before the
//! first ends, as allocators keep few blocks of a size at hand. Which thread has allocated a block
//! does not matter.
//!
//! Larger tasks, of futures above all, take as many bytes as they have. A worker keeps those that
//! were freed on it for tasks of the same size, of one size at a time and up to [`KEPT_BYTES`]: a
//! program that spawns such tasks often spawns many of a kind. A task of another size that ends
//! takes the place of a kept one.
#![allow(unsafe_code)] // A family is left by its address; blocks are raw memory.

use crate::primitives::atomic::local;
use crate::spawn::family::Family;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// A task of a small closure with a small result.
const BLOCK: Layout = match Layout::from_size_align(192, 16) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

/// How many blocks a thread keeps: as many as the fibers that a program spawns in a go.
const KEPT: usize = 1024;

/// How many bytes of larger tasks a thread keeps.
const KEPT_BYTES: usize = 1 << 17;

/// No larger task is kept.
const LARGEST: usize = 2048;

/// In the slot: nothing is kept, and nothing will be.
const OFF: *const Family = ptr::without_provenance(1);

local!(static SPARE: Cell<*const Family> = Cell::new(OFF));

/// A block that is kept, and the number of those that are, this one included.
struct Block {
    next: *mut Block,
    number: usize,
}

local!(static BLOCKS: Cell<*mut Block> = Cell::new(ptr::null_mut()));

// Of larger tasks, all of one size; and that size.
local!(static LARGE: Cell<(*mut Block, usize)> = Cell::new((ptr::null_mut(), 0)));

/// Memory of this layout.
///
/// # Safety
/// The layout has a size.
#[inline(always)] // Most of this is known where the layout is.
pub(crate) unsafe fn allocate(own: Layout) -> NonNull<u8> {
    let layout = if fits(own) {
        if let Some(block) = NonNull::new(BLOCKS.with(Cell::get)) {
            // SAFETY: a kept block is one that nobody uses.
            let next = unsafe { (*block.as_ptr()).next };
            BLOCKS.with(|blocks| blocks.set(next));
            return block.cast();
        }
        BLOCK
    } else {
        if is_large(own)
            && let (Some(block), size) = LARGE.with(|large| (NonNull::new(large.get().0), large.get().1))
            && size == own.size()
        {
            // SAFETY: a kept block is one that nobody uses.
            let next = unsafe { (*block.as_ptr()).next };
            LARGE.with(|large| large.set((next, size)));
            return block.cast();
        }
        layout_of(own)
    };
    // SAFETY: the layout has a size, by the contract, and a block has one.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives back the memory when this is dropped.
pub(crate) struct Memory(NonNull<u8>, Layout);

impl Memory {
    /// # Safety
    /// The memory came from [`allocate`] for this layout, on any thread, and nobody uses the memory
    /// when this is dropped.
    #[inline(always)]
    pub(crate) unsafe fn of(memory: NonNull<u8>, own: Layout) -> Self {
        Self(memory, own)
    }
}

impl Drop for Memory {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: as the maker of this has promised.
        unsafe { release(self.0, self.1) };
    }
}

/// # Safety
/// As for [`Memory::of`].
#[inline(always)]
unsafe fn release(memory: NonNull<u8>, own: Layout) {
    if !fits(own) {
        // SAFETY: as the caller promises.
        return unsafe { release_large(memory, own) };
    }
    let next = BLOCKS.with(Cell::get);
    // SAFETY: a kept block is one that nobody uses.
    let number = 1 + unsafe { next.as_ref() }.map_or(0, |block| block.number);
    let block = memory.as_ptr().cast::<Block>();
    if number > KEPT || SPARE.with(Cell::get) == OFF {
        // SAFETY: a block, by the contract.
        return unsafe { dealloc(block.cast(), BLOCK) };
    }
    // SAFETY: nobody uses the block, which is large enough.
    unsafe { block.write(Block { next, number }) };
    BLOCKS.with(|blocks| blocks.set(block));
}

/// # Safety
/// As for [`Memory::of`], with a layout that does not fit a block.
#[inline]
unsafe fn release_large(memory: NonNull<u8>, own: Layout) {
    let (next, size) = LARGE.with(Cell::get);
    // SAFETY: a kept block is one that nobody uses.
    let number = 1 + unsafe { next.as_ref() }.map_or(0, |block| block.number);
    if !is_large(own) || SPARE.with(Cell::get) == OFF {
        // SAFETY: allocated with this layout, by the contract.
        return unsafe { dealloc(memory.as_ptr(), layout_of(own)) };
    }
    let block = memory.as_ptr().cast::<Block>();
    if next.is_null() || (size == own.size() && number * size <= KEPT_BYTES) {
        // SAFETY: nobody uses the block, which is large enough.
        unsafe { block.write(Block { next, number }) };
        return LARGE.with(|large| large.set((block, own.size())));
    }
    // SAFETY: allocated with this layout, by the contract. A kept block is one that nobody uses,
    // and was allocated with the size of its list.
    unsafe {
        dealloc(block.cast(), layout_of(own));
        if size != own.size() {
            LARGE.with(|large| large.set(((*next).next, size)));
            dealloc(next.cast(), large(size));
        }
    }
}

/// The layout of a larger task, of which blocks are kept.
const fn large(size: usize) -> Layout {
    match Layout::from_size_align(size, BLOCK.align()) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// Whether memory for this layout is kept for a task of the same size.
const fn is_large(own: Layout) -> bool {
    own.size() > BLOCK.size() && own.size() <= LARGEST && own.align() <= BLOCK.align()
}

/// The layout with which a task that does not fit a block is allocated.
const fn layout_of(own: Layout) -> Layout {
    if is_large(own) { large(own.size()) } else { own }
}

const fn fits(layout: Layout) -> bool {
    layout.size() != 0 && layout.size() <= BLOCK.size() && layout.align() <= BLOCK.align()
}

/// Gives all blocks back to the allocator.
fn empty() {
    let mut next = BLOCKS.with(|blocks| blocks.replace(ptr::null_mut()));
    while !next.is_null() {
        let block = next;
        // SAFETY: a kept block is one that nobody uses.
        unsafe {
            next = (*block).next;
            dealloc(block.cast(), BLOCK);
        }
    }
    let (mut next, size) = LARGE.with(|blocks| blocks.replace((ptr::null_mut(), 0)));
    while !next.is_null() {
        let block = next;
        // SAFETY: as above; blocks of this list have its size.
        unsafe {
            next = (*block).next;
            dealloc(block.cast(), large(size));
        }
    }
}

/// Takes a membership of `family`, if one is kept.
#[inline]
pub(crate) fn take(family: &Family) -> bool {
    SPARE.with(|spare| {
        let found = ptr::eq(spare.get(), family);
        if found {
            spare.set(ptr::null());
        }
        found
    })
}

/// Keeps a membership, if there is room.
///
/// # Safety
/// The family counts the caller, once for this call, and not any more if the answer is `true`.
#[inline]
pub(crate) unsafe fn keep(family: *const Family) -> bool {
    SPARE.with(|spare| {
        let room = spare.get().is_null();
        if room {
            spare.set(family);
        }
        room
    })
}

/// Gives up the spares that the thread keeps for its next fibers. Answers whether there was
/// something: then a fiber may have become ready.
///
/// For worker loops, when there is nothing to run and before they sleep; and now and then.
#[inline]
pub fn settle() -> bool {
    let kept = SPARE.with(|spare| {
        let kept = spare.get();
        if kept.is_null() || kept == OFF {
            return ptr::null();
        }
        spare.set(ptr::null());
        kept
    });
    if !kept.is_null() {
        // SAFETY: the family counts the kept membership.
        unsafe { Family::depart(kept) };
    }
    !kept.is_null()
}

/// Allows or forbids this thread to keep the spares of a fiber that has ended for the next, and
/// gives back the former setting. Either way the thread [settles](settle) first.
///
/// For worker loops: allowed at their beginning, and put back at their end. Meanwhile they call
/// [`settle`] before they sleep; otherwise the end of a runtime might never come.
pub fn keep_spares(allowed: bool) -> bool {
    settle();
    let before = SPARE.with(|spare| spare.replace(if allowed { ptr::null() } else { OFF }));
    if !allowed {
        empty();
    }
    before != OFF
}
