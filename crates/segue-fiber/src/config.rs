//! How large stacks are and how many there may be: the builder, its checks, and the checked result.
//!
//! Used to make a [`StackArena`](crate::StackArena), by a scheduler's builder or a test.

use crate::host;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The least that may remain of a slot once its guard pages are taken off.
const LEAST_USABLE: usize = 16 * 1024;

/// The largest slot: beyond that a reservation for even a few stacks becomes unreasonable.
const LARGEST_SLOT: usize = 1 << 30;

/// The largest reservation, half of a process's address space on the smallest 64-bit layout we
/// support.
const LARGEST_RESERVATION: usize = 1 << 46;

/// The slot size if nobody says anything.
const DEFAULT_SLOT: usize = 256 * 1024;

/// The process's setting; 0 without one. A number by itself: relaxed.
static CHOSEN_SLOT: AtomicUsize = AtomicUsize::new(0);

/// The variable for a program's user.
const VARIABLE: &str = "SEGUE_STACK_SIZE";

/// The reservation when nobody said how many slots are wanted. Address space, not memory.
const DEFAULT_RESERVATION: usize = 256 << 30;

/// The size, number and guarding of stacks; a builder for
/// [`StackArena::new`](crate::StackArena::new).
///
/// A stack is a *slot*: a power of two of address space with guard pages at its bottom. Address
/// space is not memory: a slot costs the pages which were touched, usually one or two.
///
/// ```
/// use segue_fiber::{StackArena, StackConfig};
///
/// // A million fibers that do little: 64 KiB of address space each.
/// let arena = StackArena::new(StackConfig::new().slot_size(64 * 1024).max_slots(1_000_000)).unwrap();
/// assert_eq!(arena.slot_size(), 64 * 1024);
///
/// // A size that makes no sense is an error that says what would.
/// let error = StackArena::new(StackConfig::new().slot_size(100_000)).unwrap_err();
/// assert!(error.to_string().contains("131072"));
/// ```
#[derive(Clone, Debug)]
pub struct StackConfig {
    pub(crate) slot_size: usize,
    max_slots: Option<usize>,
    guard_pages: usize,
    keep_warm: usize,
    mprotect_guards: bool,
}

impl Default for StackConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl StackConfig {
    /// Slots of the process' [default size](Self::set_default_slot_size) with four guard pages, as
    /// many as fit into 256 GiB of address space.
    ///
    /// # Panics
    ///
    /// If the environment variable `SEGUE_STACK_SIZE` is set to anything but a size.
    pub fn new() -> Self {
        Self { slot_size: default_slot(), max_slots: None, guard_pages: 4, keep_warm: 16, mprotect_guards: false }
    }

    /// Sets the slot size of every configuration that this process makes from now on without saying
    /// another.
    ///
    /// So this is the size of `run`, of the default runtime behind plain threads, of generators, of
    /// handled computations and of hosted fibers, as long as none of them was started before: call
    /// this first in `main`. The environment variable `SEGUE_STACK_SIZE` (`512K`, `4M`, or bytes;
    /// rounded up to a power of two) does the same from outside, where the program leaves the size
    /// open. Without either the size is 256 KiB.
    ///
    /// # Errors
    ///
    /// As for an arena of such slots.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_fiber::{StackArena, StackConfig};
    ///
    /// StackConfig::set_default_slot_size(1 << 20)?;
    /// assert_eq!(StackArena::new(StackConfig::new())?.slot_size(), 1 << 20);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_default_slot_size(bytes: usize) -> io::Result<()> {
        Self::new().slot_size(bytes).layout(host::page_size())?;
        CHOSEN_SLOT.store(bytes, Relaxed);
        Ok(())
    }

    /// Slots in which a function can use so many bytes: the next larger size.
    pub(crate) fn of_usable(bytes: usize) -> io::Result<Self> {
        let config = Self::new();
        // Header and function lie there as well.
        let least = bytes.saturating_add(config.guard_pages * host::page_size() + 4096).max(32 * 1024);
        match least.checked_next_power_of_two() {
            Some(slot) if slot <= LARGEST_SLOT => Ok(config.slot_size(slot)),
            _ => Err(invalid(format!(
                "a stack of {bytes} bytes is too large: the limit is {LARGEST_SLOT} with its guard"
            ))),
        }
    }

    /// Address space per stack in bytes, guard pages included: a power of two. Default: 256 KiB, or
    /// the size that the process [has set](Self::set_default_slot_size).
    ///
    /// 64 KiB suits millions of small fibers, 1 MiB and more deep recursion. Memory is only taken
    /// for pages that are touched, but page tables cost 8 bytes for each 4 KiB page in the
    /// neighbourhood of a touched one.
    pub fn slot_size(self, bytes: usize) -> Self {
        Self { slot_size: bytes, ..self }
    }

    /// How many stacks there may be at once. Default: as many as fit into 256 GiB, or into the rest
    /// of the process's address space if that is less.
    pub fn max_slots(self, slots: usize) -> Self {
        Self { max_slots: Some(slots), ..self }
    }

    /// Inaccessible pages at the bottom of each slot. Default: 4, at least 1.
    ///
    /// Rust code touches each page of a large frame in order, so one page would do. Foreign code
    /// need not, and a frame larger than the guard can step over that guard.
    pub fn guard_pages(self, pages: usize) -> Self {
        Self { guard_pages: pages, ..self }
    }

    /// How many idle stacks a [`StackPool`](crate::StackPool) keeps with their memory at a trim,
    /// and how many the arena itself keeps. Default: 16.
    pub fn keep_warm(self, stacks: usize) -> Self {
        Self { keep_warm: stacks, ..self }
    }

    /// Guard by `mprotect` even where the kernel has lightweight guards. Default: no.
    ///
    /// This happens by itself on kernels before 6.13 and under `mlockall`. Each such guard splits a
    /// mapping, of which a process may have 65,530, so there can be at most 28,000 stacks in the
    /// process.
    pub fn mprotect_guards(self, yes: bool) -> Self {
        Self { mprotect_guards: yes, ..self }
    }

    /// Checks everything and computes the layout.
    pub(crate) fn layout(&self, page: usize) -> io::Result<Layout> {
        let slot = self.slot_size;
        if !slot.is_power_of_two() {
            let next = slot.checked_next_power_of_two().unwrap_or(LARGEST_SLOT).min(LARGEST_SLOT);
            return Err(invalid(format!("the stack slot size must be a power of two, not {slot} bytes: use {next}")));
        }
        if slot > LARGEST_SLOT {
            return Err(invalid(format!("a stack slot of {slot} bytes is larger than the limit of {LARGEST_SLOT}")));
        }
        if self.guard_pages == 0 {
            return Err(invalid(
                "a stack needs at least one guard page: without it an overflow would overwrite other memory".into(),
            ));
        }
        let least = LEAST_USABLE.max(page);
        let guard = self.guard_pages.checked_mul(page).filter(|guard| guard.saturating_add(least) <= slot);
        let Some(guard) = guard else {
            return Err(invalid(format!(
                "a stack slot of {slot} bytes has no room for {} guard pages of {page} bytes and {least} bytes of \
                 stack: use larger slots or fewer guard pages",
                self.guard_pages
            )));
        };
        let max_slots = match self.max_slots {
            None => (DEFAULT_RESERVATION / slot).max(1),
            Some(0) => {
                return Err(invalid("an arena of no stacks is of no use: max_slots must be at least 1".into()));
            }
            Some(slots) => slots,
        };
        let fits = max_slots.checked_mul(slot).is_some_and(|bytes| bytes <= LARGEST_RESERVATION);
        if !fits || u32::try_from(max_slots).is_err() {
            return Err(invalid(format!(
                "{max_slots} stacks of {slot} bytes are more than an arena can reserve ({LARGEST_RESERVATION} bytes \
                 in all and {} stacks): use smaller slots or fewer",
                u32::MAX
            )));
        }
        Ok(Layout {
            shift: slot.trailing_zeros(),
            stride: slot + host::page_size(),
            guard,
            max_slots: max_slots as u32,
            may_shrink: self.max_slots.is_none(),
            keep_warm: self.keep_warm,
            mprotect_guards: self.mprotect_guards,
        })
    }
}

fn default_slot() -> usize {
    static OF_USER: OnceLock<Option<usize>> = OnceLock::new();
    match CHOSEN_SLOT.load(Relaxed) {
        0 => OF_USER.get_or_init(of_user).unwrap_or(DEFAULT_SLOT),
        chosen => chosen,
    }
}

fn of_user() -> Option<usize> {
    let text = std::env::var_os(VARIABLE)?;
    let size = text.to_str().and_then(parse);
    Some(size.unwrap_or_else(|| {
        panic!("{VARIABLE}={} is no size of a stack: write 512K, 4M, or bytes, up to 1 GiB", text.display())
    }))
}

fn parse(text: &str) -> Option<usize> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let bytes = digits.parse::<usize>().ok()?.checked_mul(unit)?.max(2 * LEAST_USABLE);
    bytes.checked_next_power_of_two().filter(|slot| *slot <= LARGEST_SLOT)
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// A checked configuration. Slots are numbered from 0; slot `i` is the addresses from `i * stride`
/// within the arena's reservation, its guard lowest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Binary logarithm of the slot size.
    pub shift: u32,
    /// At least 1.
    pub max_slots: u32,
    /// From one slot to the next: a page more than the slot. With a power of two, the pages in use,
    /// one of each slot, would share a few sets of the translation cache (measured: 42 instead of
    /// 35 ns a yield among 1,000 fibers, 210 instead of 145 among 100,000).
    #[cfg_attr(threads, expect(dead_code, reason = "there a slot is a thread's stack"))]
    pub stride: usize,
    /// Bytes of guard at the bottom of each slot: at least a page, or a multiple.
    pub guard: usize,
    /// Nobody asked for this many slots: a smaller reservation will do.
    pub may_shrink: bool,
    pub keep_warm: usize,
    pub mprotect_guards: bool,
}

impl Layout {
    pub fn slot_size(&self) -> usize {
        1 << self.shift
    }

    pub fn usable(&self) -> usize {
        self.slot_size() - self.guard
    }
}
