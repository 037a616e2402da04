//! Which addresses are stacks and guards of ours, and of which fibers: readable from a signal
//! handler.
//!
//! Used by `region`, which enters reservations, by `coroutine`, which writes labels, and by
//! `overflow`, `segments` and `watch`, which look both up. A debugger can read them too
//! (`tools/gdb/segue.py`), which is why their layout is fixed.
//!
//! The list of reservations only grows: an entry is pushed once, never unlinked and never freed, so
//! that a handler can walk the list without a lock at any instant. An arena that ends leaves its
//! entry to the next one: so there are as many as there were arenas at one time, of 56 bytes each,
//! however many schedulers start.
//!
//! ```text
//!   taken: false --claim: a new arena--> true --retire: the arena, when it is about to end--> false
//!   version: even --publish: the one that has taken it--> odd, a reservation --retire--> even
//! ```
//!
//! **The race to fear**: a lookup reads the fields of an entry while another thread reuses that
//! entry, and takes half of one reservation with half of another for one that matches. So the
//! version is read before and after the fields: a lookup believes them under one odd version, the
//! same in both reads, and passes over the entry otherwise. No second look is needed: a lookup for
//! an address on which the thread now runs concerns an arena that cannot end meanwhile, since the
//! running coroutine owns one of its stacks, and so its entry does not change; a half-read entry of
//! another arena does not match.
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the push on `HEAD`, with those before it as one release sequence | the load of `HEAD` | the entry and its successor |
//! | `retire`: `taken` | `claim`: `taken` | the even version, to the next one that writes the fields |
//! | `publish`: the odd version | a lookup's first load | the fields |
//! | `publish`: the fence before the fields | a lookup's fence after the fields | after a read of a new field, that the version is not the old one any more |

#![allow(unsafe_code)] // Reads entries of a lock-free list, and labels at computed addresses.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};

use crate::config::Layout;
use crate::platform::memory::KEPT;
use segue_core::switch::Root;

/// How many places a top may have, a cache line apart. Going round a thousand fibers takes 18 ns a
/// switch with 1, 8 with 8, 5 with 16 and 4 with 32; but all these lines come off the one page that
/// a small fiber touches.
const COLOURS: usize = 16;

const LINE: usize = 64;

/// The distance of a slot's top from its end.
#[inline]
pub(super) fn colour(number: u32) -> usize {
    (number as usize % COLOURS) * LINE + KEPT
}

const NAME: usize = 47;

/// A fiber's number and name, and the place of its root: the cache line at a slot's top, where
/// signal handlers find them in any state.
///
/// All zero bits, as in memory never used, are the label of a coroutine that was given none.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Label {
    /// The root of the coroutine on this slot.
    pub root: *mut Root,
    /// One more than its given number; 0 without one.
    id: u64,
    name: [MaybeUninit<u8>; NAME],
    len: u8,
}

impl Label {
    pub const SIZE: usize = size_of::<Label>();

    /// The label of the slot with this top.
    #[inline]
    pub fn of(top: NonNull<u8>) -> *mut Label {
        // SAFETY: a slot is larger than a label.
        unsafe { top.byte_sub(Self::SIZE) }.as_ptr().cast()
    }

    /// Makes this the label of the coroutine with this root, without number and name.
    ///
    /// # Safety
    ///
    /// `label` points to memory for a label that only this thread accesses.
    #[inline]
    pub unsafe fn clear(label: *mut Label, root: *mut Root) {
        // SAFETY: by the clause above.
        unsafe {
            (&raw mut (*label).root).write(root);
            (&raw mut (*label).len).write(0);
            (&raw mut (*label).id).write(0);
        }
    }

    /// # Safety
    ///
    /// `label` points to a label that only this thread accesses.
    #[inline]
    pub unsafe fn set(label: *mut Label, id: u64, name: Option<&str>) {
        let id = id.saturating_add(1);
        match name {
            // SAFETY: by the clause above.
            Some(name) => unsafe { Self::set_name(label, id, name) },
            // SAFETY: by the clause above; without a name the number may be any.
            None => unsafe {
                (*label).len = 0;
                (*label).id = id;
            },
        }
    }

    /// # Safety
    ///
    /// As for [`set`](Self::set).
    #[inline]
    unsafe fn set_name(label: *mut Label, id: u64, name: &str) {
        let len = name.floor_char_boundary(NAME);
        // SAFETY: by the clause above; a handler on this thread that interrupts sees no name or the
        // whole one.
        unsafe {
            (*label).len = 0;
            compiler_fence(Ordering::SeqCst);
            (*label).id = id;
            ptr::copy_nonoverlapping(name.as_ptr(), (&raw mut (*label).name).cast::<u8>(), len);
            compiler_fence(Ordering::SeqCst);
            (*label).len = len as u8;
        }
    }
}

impl Label {
    /// The given number.
    pub fn id(&self) -> Option<u64> {
        self.id.checked_sub(1)
    }

    /// The name's bytes, none if there is no name.
    pub fn name(&self) -> &[u8] {
        let len = (self.len as usize).min(NAME);
        // SAFETY: `set` wrote that many bytes before the length.
        unsafe { self.name[..len].assume_init_ref() }
    }
}

/// One reservation, or none at the moment.
#[repr(C)]
pub(super) struct Entry {
    next: AtomicPtr<Entry>,
    start: AtomicUsize,
    stride: AtomicUsize,
    guard: AtomicUsize,
    slot_size: AtomicUsize,
    max_slots: AtomicU32,
    /// Odd while there is a reservation.
    version: AtomicU32,
    /// No slot from this number on was ever used. For debuggers.
    pub prepared: AtomicU32,
    /// Whether an arena owns the entry: that arena alone may write.
    taken: AtomicBool,
}

static HEAD: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());

impl Entry {
    /// Enters a reservation, until its [retirement](Self::retire).
    pub fn publish(start: usize, layout: Layout) -> &'static Entry {
        let entry = Self::claim().unwrap_or_else(Self::push);
        // Relaxed: `claim` has acquired the last owner's writes.
        let version = entry.version.load(Ordering::Relaxed);
        // A lookup that reads one of the fields below does not find the last odd version
        // afterwards.
        fence(Ordering::Release);
        entry.start.store(start, Ordering::Relaxed);
        entry.stride.store(layout.stride, Ordering::Relaxed);
        entry.guard.store(layout.guard, Ordering::Relaxed);
        entry.slot_size.store(layout.slot_size(), Ordering::Relaxed);
        entry.max_slots.store(layout.max_slots, Ordering::Relaxed);
        entry.prepared.store(0, Ordering::Relaxed);
        entry.version.store(version.wrapping_add(1), Ordering::Release);
        entry
    }

    /// The reservation is about to end: another one may have the entry, which the caller uses no
    /// more.
    pub fn retire(&self) {
        // Only its owner writes the version. Relaxed: the next stores release.
        self.version.store(self.version.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
    }

    /// An entry that nobody has, for the caller.
    fn claim() -> Option<&'static Entry> {
        entries().find(|entry| {
            !entry.taken.load(Ordering::Relaxed)
                && entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// A new one, for the caller.
    fn push() -> &'static Entry {
        let entry = Box::leak(Box::new(Entry {
            next: AtomicPtr::new(ptr::null_mut()),
            start: AtomicUsize::new(0),
            stride: AtomicUsize::new(0),
            guard: AtomicUsize::new(0),
            slot_size: AtomicUsize::new(0),
            max_slots: AtomicU32::new(0),
            version: AtomicU32::new(0),
            prepared: AtomicU32::new(0),
            taken: AtomicBool::new(true),
        }));
        let pointer = ptr::from_mut(entry);
        let mut head = HEAD.load(Ordering::Relaxed);
        loop {
            // SAFETY: leaked above, and not shared before the exchange succeeds.
            unsafe { (*pointer).next.store(head, Ordering::Relaxed) };
            match HEAD.compare_exchange_weak(head, pointer, Ordering::Release, Ordering::Relaxed) {
                // SAFETY: an entry lives for ever, and only its atomic fields change from now on.
                Ok(_) => return unsafe { &*pointer },
                Err(now) => head = now,
            }
        }
    }
}

/// A slot.
pub(super) struct Slot {
    /// The lowest address of the slot.
    pub start: usize,
    /// The first address above the guard.
    pub bottom: usize,
    /// Where the label ends, which is all a coroutine uses.
    pub top: usize,
}

/// All entries. Async-signal-safe.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let mut next = HEAD.load(Ordering::Acquire);
    std::iter::from_fn(move || {
        // SAFETY: entries are never freed, and were published by the release that the acquire above
        // pairs with: later ones in the list were pushed before, and the compare-and-swaps on
        // `HEAD` form one release sequence.
        let entry = unsafe { next.as_ref() }?;
        next = entry.next.load(Ordering::Relaxed);
        Some(entry)
    })
}

/// Looks up the slot in which an address lies. Async-signal-safe.
pub(super) fn find(address: usize) -> Option<Slot> {
    for entry in entries() {
        let version = entry.version.load(Ordering::Acquire);
        if version % 2 == 0 {
            continue;
        }
        let first = entry.start.load(Ordering::Relaxed);
        let stride = entry.stride.load(Ordering::Relaxed);
        let guard = entry.guard.load(Ordering::Relaxed);
        let slot_size = entry.slot_size.load(Ordering::Relaxed);
        let max_slots = entry.max_slots.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let offset = address.wrapping_sub(first);
        // The version first: else the fields need not be of one reservation, nor the stride be any.
        if entry.version.load(Ordering::Relaxed) == version && offset < max_slots as usize * stride {
            let number = offset / stride;
            let start = first + number * stride;
            let top = start + slot_size - colour(number as u32);
            return (address < top).then_some(Slot { start, bottom: start + guard, top });
        }
    }
    None
}

/// The guard of the slot with this top.
pub(super) fn guard(top: NonNull<u8>) -> Option<Range<usize>> {
    find(top.addr().get() - 1).map(|slot| slot.start..slot.bottom)
}

impl Slot {
    /// The label of the coroutine. Async-signal-safe.
    ///
    /// # Safety
    ///
    /// A coroutine of the calling thread is on the slot's stack: running, perhaps interrupted, or
    /// suspended.
    pub unsafe fn label(&self) -> Label {
        let label = (self.top - Label::SIZE) as *const Label;
        // SAFETY: the slot is in use, so that its top is mapped and holds a label. Only this thread
        // writes there. All bit patterns are valid.
        unsafe { ptr::read_volatile(label) }
    }
}
