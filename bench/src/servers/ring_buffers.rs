//! Buffers that a ring's kernel side picks from when data is there, and the loop gives back.

#![allow(unsafe_code)] // The kernel gets addresses of buffers, and reads a ring of them.

use io_uring::IoUring;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering};

/// How many there are.
const COUNT: u16 = 4096;
/// The size of one: several requests.
const SIZE: usize = 256;
const GROUP: u16 = 0;

/// For as long as the process lives.
pub struct Buffers {
    memory: &'static mut [[u8; SIZE]],
    ring: &'static mut [BufRingEntry],
    tail: u16,
}

/// The kernel wants it to begin at a page.
#[repr(align(4096))]
struct Ring([BufRingEntry; COUNT as usize]);

impl Buffers {
    /// Gives all of them to the kernel.
    pub fn register(to: &IoUring) -> io::Result<Self> {
        // SAFETY: an entry is three numbers, for which zero is a value.
        let ring: Box<Ring> = unsafe { Box::<Ring>::new_zeroed().assume_init() };
        let (ring, memory) = (&mut Box::leak(ring).0, vec![[0; SIZE]; usize::from(COUNT)].leak());
        // SAFETY: both were leaked: they stay. The kernel reads entries up to the tail that is
        // published, and writes to buffers that are in them, which `get` does not lend.
        unsafe { to.submitter().register_buf_ring_with_flags(ring.as_ptr() as u64, COUNT, GROUP, 0)? };
        let mut buffers = Self { memory, ring, tail: 0 };
        (0..COUNT).for_each(|id| buffers.give_back(id));
        buffers.publish();
        Ok(buffers)
    }

    /// For receives.
    pub fn group(&self) -> u16 {
        GROUP
    }

    /// One that a completion has named, until it is given back.
    pub fn get(&self, id: u16) -> &[u8] {
        &self.memory[usize::from(id)]
    }

    /// The kernel has it again from the next `publish` on.
    pub fn give_back(&mut self, id: u16) {
        let buffer = &mut self.memory[usize::from(id)];
        let entry = &mut self.ring[usize::from(self.tail % COUNT)];
        entry.set_addr(buffer.as_mut_ptr() as u64);
        entry.set_len(SIZE as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Tells the kernel of all that were given back.
    pub fn publish(&mut self) {
        // SAFETY: the tail lies in the first entry, in a field that `give_back` does not write; the
        // kernel only reads it.
        let tail = unsafe { &*BufRingEntry::tail(self.ring.as_ptr()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}
