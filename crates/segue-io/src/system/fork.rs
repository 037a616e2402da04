//! The process and its forks: memory and queues that are shared with the kernel are not to be used
//! on both sides of a fork.
//!
//! Used by reactors and rings. In the child of a fork, an event queue is still the parent's: the
//! parent is told of the sockets that the child asks for. A ring is memory that the parent goes on
//! to use.
//!
//! # The idea
//!
//! A system call before each op would tell, and cost as much as the op. So one page of the process
//! is marked: the kernel gives a child that page full of zeros. The page holds the *generation*, a
//! number that grows with each fork along a line of processes. A thread that finds zero is in a
//! child that has not asked before, and writes the next number. A thing that was born in another
//! generation is of another process.
//!
//! | word | written by |
//! | --- | --- |
//! | the page's | the first thread that asks in a process |
//! | `LAST` | the same; a child inherits its value |
//!
//! Each is a number by itself and orders nothing else: all accesses are relaxed.

use std::sync::atomic::AtomicU32;

#[cfg(linux)]
mod page {
    #![allow(unsafe_code)] // Maps a page that the kernel wipes in a child.

    use libc::{MADV_WIPEONFORK, MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_READ, PROT_WRITE, madvise, mmap};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// At least one byte, of which the kernel makes a page.
    const LENGTH: usize = 4096;

    // By libc: rustix takes a second to compile its module of memory.
    fn map() -> Option<&'static AtomicU32> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that
        // exists, and is not unmapped. The mapping is zero, aligned to a page, and long enough for
        // one word. A child has the same mapping at the same address, with zeros.
        unsafe {
            let page = mmap(std::ptr::null_mut(), LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if page == MAP_FAILED || madvise(page, LENGTH, MADV_WIPEONFORK) != 0 {
                return None;
            }
            Some(&*page.cast::<AtomicU32>())
        }
    }

    /// The word that is zero in a child.
    pub(super) fn word() -> &'static AtomicU32 {
        static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();
        // Without memory for a page, a fork is not noticed.
        static UNMARKED: AtomicU32 = AtomicU32::new(0);
        WORD.get_or_init(|| map().unwrap_or(&UNMARKED))
    }

    /// The number in the page; a child that has none yet takes the next.
    pub(super) fn generation(last: &AtomicU32) -> u32 {
        let word = word();
        let now = word.load(Ordering::Relaxed);
        if now != 0 {
            return now;
        }
        let next = last.fetch_add(1, Ordering::Relaxed) + 1;
        word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|now| now, |_| next)
    }
}

#[cfg(not(linux))]
mod page {
    use std::sync::atomic::AtomicU32;

    /// The process's own number, by a system call.
    pub(super) fn generation(_last: &AtomicU32) -> u32 {
        std::process::id()
    }
}

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth(u32);

impl Birth {
    pub(crate) fn now() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        Self(page::generation(&LAST))
    }

    /// The number of the process in its line.
    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Whether this is the same process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self == Self::now()
    }

    /// The error of an op that is begun in a child, through a driver of its parent.
    #[cold]
    pub(crate) fn foreign() -> std::io::Error {
        std::io::Error::other(
            "this process is the child of a fork, and its fiber belongs to a runtime of the parent; \
             start a runtime of its own before doing I/O, or call `exec`",
        )
    }
}
