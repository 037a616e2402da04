//! The memory behind an arena: one reservation in fixed slots, their guards, and giving memory
//! back.
//!
//! Used by [`StackArena`](crate::StackArena) alone, which keeps the numbers of slots and calls this
//! for chunks of them.
//!
//! # How
//!
//! All of the reservation starts inaccessible. A chunk of slots that is handed out for the first
//! time becomes readable and writable with one `mprotect`, which extends the accessible part of the
//! mapping, so that there are two mappings however many slots there are; then one `process_madvise`
//! marks all of the chunk's guards as guard regions (Linux 6.13), which split no mapping either.
//! Guards stay for the life of the reservation, also when memory is given back.
//!
//! Where the kernel has no guard regions (`EINVAL`: an older kernel, or a mapping locked in
//! memory), guards are simply never made accessible. Each then splits the mapping. A process may
//! have 65,530 mappings, and near that limit everything fails in odd ways, such as a panic that
//! cannot map its backtrace; so such slots are limited to 28,000 in the process, with an error that
//! explains that.
//!
//! Windows counts memory when that is made accessible, and so grows stacks page by page, as
//! `platform/windows` says.
//!
//! Huge pages are off: one would turn a fiber of one page into one of 512.

#![allow(unsafe_code)] // Maps and unmaps memory, computes addresses in it.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::registry::{Entry, colour};
use crate::config::Layout;
use crate::platform::{memory, system};

/// How many slots of the process may be guarded by `mprotect`.
const MPROTECT_LIMIT: usize = 28_000;

/// How many of them there are.
static MPROTECTED: AtomicUsize = AtomicUsize::new(0);

/// A smaller reservation than this is not worth shrinking to.
const LEAST_RESERVATION: usize = 16 << 20;

pub(crate) struct Region {
    /// The lowest address of slot 0. Never changes.
    start: NonNull<u8>,
    layout: Layout,
    entry: &'static Entry,
    /// Guard by `mprotect` from now on.
    mprotect: AtomicBool,
    /// How many slots of this region are counted in `MPROTECTED`.
    mprotected: AtomicUsize,
}

// SAFETY: the pointer is an address that does not change; the arena decides on the access to each
// slot.
unsafe impl Send for Region {}
// SAFETY: as above; the methods only read fields, or change atomic ones.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves address space for all slots, or for fewer if that is too much and the layout allows
    /// that.
    pub fn reserve(layout: &mut Layout) -> io::Result<Region> {
        segue_core::scheduling::set_stack_trimmer(super::trim::trim);
        loop {
            let size = layout.max_slots as usize * layout.stride;
            match memory::reserve(size) {
                Ok(start) => {
                    let entry = Entry::publish(start.addr().get(), *layout);
                    return Ok(Region {
                        start,
                        layout: *layout,
                        entry,
                        mprotect: AtomicBool::new(layout.mprotect_guards),
                        mprotected: AtomicUsize::new(0),
                    });
                }
                Err(_) if layout.may_shrink && layout.max_slots > 1 && size > LEAST_RESERVATION => {
                    layout.max_slots /= 2;
                }
                Err(error) => {
                    return Err(explain(
                        error,
                        &format!(
                            "cannot reserve {size} bytes of address space for stacks (lower StackConfig::max_slots, or raise \
                             the limit on address space)"
                        ),
                    ));
                }
            }
        }
    }

    /// Start of a slot, as an address.
    fn slot(&self, number: u32) -> usize {
        debug_assert!(number < self.layout.max_slots);
        self.start.addr().get() + number as usize * self.layout.stride
    }

    /// The coloured top of a slot.
    pub fn top(&self, number: u32) -> NonNull<u8> {
        let above = number as usize * self.layout.stride + self.layout.slot_size() - colour(number);
        // SAFETY: the slot lies in the reservation; the colour is far less than a slot.
        unsafe { self.start.byte_add(above) }
    }

    /// The slot with this top.
    pub fn number(&self, top: NonNull<u8>) -> u32 {
        // The colour is far less than a slot.
        ((top.addr().get() - self.start.addr().get()) / self.layout.stride) as u32
    }

    pub fn bounds(&self, number: u32) -> Option<Range<usize>> {
        Some(self.guard_and_stack(number).1)
    }

    fn guard_and_stack(&self, number: u32) -> (Range<usize>, Range<usize>) {
        let start = self.slot(number);
        let bottom = start + self.layout.guard;
        (start..bottom, bottom..start + self.layout.slot_size())
    }

    /// Makes slots accessible that were never used, from `first` on; at least one and at most
    /// `count`. Returns how many.
    ///
    /// Called under the arena's lock. After an error nothing is lost: the same slots are prepared
    /// again later.
    ///
    /// # Safety
    /// These slots were never used, and nobody uses them before this returns.
    pub unsafe fn prepare(&self, first: u32, count: u32) -> io::Result<u32> {
        // SAFETY: nobody uses these slots, as the contract says.
        let made = unsafe { self.make_usable(first, count)? };
        self.entry.prepared.store(first + made, Relaxed);
        Ok(made)
    }

    /// # Safety
    /// As for [`prepare`](Region::prepare).
    unsafe fn make_usable(&self, first: u32, count: u32) -> io::Result<u32> {
        if !self.mprotect.load(Relaxed) {
            let start = self.slot(first);
            let all = start..start + count as usize * self.layout.stride;
            let mut stacks = (first..first + count).map(|number| self.guard_and_stack(number));
            // SAFETY: the slots lie in the reservation, and nobody uses them: so nobody relies on
            // their guards yet.
            match unsafe { system::make_stacks(all, &mut stacks) } {
                Ok(0) => self.mprotect.store(true, Relaxed),
                Ok(made) => return Ok(made as u32),
                Err(error) => return Err(explain(error, "cannot make memory for stacks accessible, and guard it")),
            }
        }
        // SAFETY: as above, nobody uses these slots.
        unsafe { self.prepare_by_mprotect(first, count) }
    }

    /// # Safety
    /// As for [`prepare`](Region::prepare).
    unsafe fn prepare_by_mprotect(&self, first: u32, count: u32) -> io::Result<u32> {
        let mut granted = 0;
        let counted = MPROTECTED.try_update(Relaxed, Relaxed, |used| {
            granted = MPROTECT_LIMIT.saturating_sub(used).min(count as usize);
            (granted > 0).then_some(used + granted)
        });
        if counted.is_err() {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!(
                    "this process has {MPROTECT_LIMIT} stacks whose guards split a mapping, which is the limit (the kernel \
                     allows 65530 mappings): run fewer fibers at once, or run on Linux 6.13 or later without mlockall, where \
                     guards are lightweight"
                ),
            ));
        }
        for done in 0..granted {
            let slot = self.bounds(first + done as u32).expect("a native stack has bounds");
            // SAFETY: the bounds of a slot leave out the guard, and nobody uses the slot.
            if let Err(error) = unsafe { memory::make_accessible(slot) } {
                MPROTECTED.fetch_sub(granted - done, Relaxed);
                self.mprotected.fetch_add(done, Relaxed);
                if done > 0 {
                    return Ok(done as u32);
                }
                return Err(explain(
                    error,
                    "cannot make memory for a stack accessible (the limit on mappings may be reached)",
                ));
            }
        }
        self.mprotected.fetch_add(granted, Relaxed);
        Ok(granted as u32)
    }

    /// Gives the memory of these slots back to the kernel. Nobody may count on
    /// what is read there afterwards.
    ///
    /// # Safety
    /// The slots are prepared, and nobody uses them until this has returned.
    pub unsafe fn release(&self, slots: &[u32]) {
        let mut ranges = slots.iter().map(|&number| self.bounds(number).expect("a native stack has bounds"));
        // A failure leaves memory where it is, which is no fault: memory is only ever read after a
        // write.
        // SAFETY: the slots lie in the reservation, and nobody uses them, as the contract says.
        let _ = unsafe { system::discard(&mut ranges) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.entry.retire();
        // SAFETY: it is the range that was reserved. All stacks are back, since each holds the
        // arena, so that nobody uses the memory.
        unsafe { memory::unmap(self.start, self.layout.max_slots as usize * self.layout.stride) };
        MPROTECTED.fetch_sub(*self.mprotected.get_mut(), Relaxed);
    }
}

fn explain(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
