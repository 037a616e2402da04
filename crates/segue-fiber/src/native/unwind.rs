//! The calls on one stack, by the unwind tables of the program and its libraries.
//!
//! Used by `segments`, with a stack as it lies there, and by `watch`, with a copy.
//!
//! The unwinding itself is the crate `framehop`'s. It reads the stack through a closure only, which
//! refuses what is not the stack's, so that wrong tables make a wrong trace and nothing worse. What
//! it wants to know of the program is copied here: the sections `.eh_frame_hdr` and `.eh_frame` of
//! each loaded object, out of memory, where every program keeps them for its panics. They are
//! copied rather than borrowed because a library may be unloaded, and while the loader's lock is
//! held, since then it is not. The copies are made at the first trace, and again when the loader
//! says that something was loaded or unloaded since.

#![allow(unsafe_code)] // Asks the loader for the program's parts, and reads them.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::{Mutex, PoisonError};

use framehop::{CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module};
use framehop::{UnwindRegsNative, Unwinder, UnwinderNative};

use super::registers::Registers;
use super::switch;

/// Nobody reads further. It ends traces that go in circles.
const MOST_CALLS: usize = 100_000;

type Bytes = Box<[u8]>;

/// The tables of all that is loaded.
struct Tables {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    /// What was worked out for addresses that were met before.
    cache: CacheNative<MayAllocateDuringUnwind>,
    version: Version,
}

/// How often something was loaded and unloaded in the life of the process.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Version(u64, u64);

static TABLES: Mutex<Option<Tables>> = Mutex::new(None);

/// The calls on one stack, innermost first, as addresses to look up; and whether these are all,
/// down to where a coroutine or thread begins.
///
/// `read` gives the word at an address, if that lies on the stack. It must not panic or take a
/// backtrace.
pub(super) fn unwind(registers: &Registers, read: impl Fn(usize) -> Option<usize>) -> (Vec<usize>, bool) {
    if switch::is_in_root(registers.instruction) {
        return (Vec::new(), true);
    }
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let version = current_version();
    let tables = match &mut *tables {
        Some(tables) if tables.version == version => tables,
        stale => stale.insert(Tables::read()),
    };
    let mut read = |address: u64| read(address as usize).map(|word| word as u64).ok_or(());
    let start = UnwindRegsNative::new(registers.link as u64, registers.stack as u64, registers.frame as u64);
    let mut calls = tables.unwinder.iter_frames(registers.instruction as u64, start, &mut tables.cache, &mut read);
    let mut addresses = Vec::new();
    while addresses.len() < MOST_CALLS {
        match calls.next() {
            Ok(Some(FrameAddress::ReturnAddress(address))) if switch::is_root(address.get() as usize) => {
                return (addresses, true);
            }
            Ok(Some(address)) => addresses.push(address.address_for_lookup() as usize),
            Ok(None) => return (addresses, true),
            Err(_) => break,
        }
    }
    (addresses, false)
}

impl Tables {
    fn read() -> Tables {
        let mut tables =
            Tables { unwinder: UnwinderNative::new(), cache: CacheNative::new(), version: Version::default() };
        // SAFETY: `add` has the signature that is asked for, takes the pointer for what it is, and
        // does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut tables).cast()) };
        tables
    }
}

fn version_of(info: &libc::dl_phdr_info) -> Version {
    Version(info.dlpi_adds, info.dlpi_subs)
}

/// The loader's present version: it tells it with the first object.
fn current_version() -> Version {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, version: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid structure, and the pointer given below.
        unsafe { *version.cast::<Version>() = version_of(&*info) };
        1
    }

    let mut version = Version::default();
    // SAFETY: the callback keeps to its signature and takes the pointer for what it is.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut version).cast()) };
    version
}

/// Adds one loaded object. Called by the loader, under its lock.
unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, tables: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid structure, and the pointer given by `read`, which is
    // borrowed there.
    let (info, tables) = unsafe { (&*info, &mut *tables.cast::<Tables>()) };
    tables.version = version_of(info);
    // SAFETY: the loader's structure has that many headers, and a name that ends in zero if it has
    // one.
    let (headers, name) = unsafe {
        let headers = slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
        (headers, (!info.dlpi_name.is_null()).then(|| CStr::from_ptr(info.dlpi_name).to_string_lossy().into_owned()))
    };
    let base = info.dlpi_addr as usize;
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(range);
    let Some(index) = headers.iter().find(|header| header.p_type == libc::PT_GNU_EH_FRAME).map(range) else {
        return 0; // It has no tables.
    };
    let (Some(start), Some(end)) = (loaded().map(|part| part.start).min(), loaded().map(|part| part.end).max()) else {
        return 0;
    };
    // SAFETY: both ranges are within parts of an object that is loaded, and stays so while the
    // loader calls this.
    let sections = unsafe {
        table_behind(&index, loaded()).map(|table| {
            let copy = |range: &Range<usize>| Bytes::from(slice::from_raw_parts(range.start as *const u8, range.len()));
            (copy(&index), copy(&table), table)
        })
    };
    let Some((index_bytes, table_bytes, table)) = sections else { return 0 };
    let stated = |range: &Range<usize>| (range.start - base) as u64..(range.end - base) as u64;
    let sections = ExplicitModuleSectionInfo {
        eh_frame_hdr_svma: Some(stated(&index)),
        eh_frame_hdr: Some(index_bytes),
        eh_frame_svma: Some(stated(&table)),
        eh_frame: Some(table_bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    tables.unwinder.add_module(Module::new(name.unwrap_or_default(), start as u64..end as u64, base as u64, sections));
    0
}

/// Where the table lies that an index refers to.
///
/// # Safety
///
/// `index` is a `.eh_frame_hdr` section, and `loaded` yields the parts of the same object that are
/// in memory.
unsafe fn table_behind(index: &Range<usize>, mut loaded: impl Iterator<Item = Range<usize>>) -> Option<Range<usize>> {
    /// A signed distance of four bytes from where it stands.
    const RELATIVE: u8 = 0x1b;
    /// A length that says that the length follows, in eight bytes.
    const LONG: u32 = u32::MAX;
    // SAFETY: of the callers below each reads within the index, or within the part in which the
    // table lies.
    let word = |address: usize| unsafe { (address as *const u32).read_unaligned() };
    // SAFETY: as above.
    let byte = |address: usize| unsafe { *(address as *const u8) };
    // Version 1, and the one way in which linkers write where the table is.
    if index.len() < 8 || byte(index.start) != 1 || byte(index.start + 1) != RELATIVE {
        return None;
    }
    let place = index.start + 4;
    let start = place.wrapping_add_signed(word(place) as i32 as isize);
    let end = loaded.find(|part| part.contains(&start))?.end;
    // Record after record, each led by its length, to one of length 0 or the part's end.
    let mut at = start;
    while at + 4 <= end {
        let step = match word(at) {
            0 => break,
            LONG => return None,
            length => 4 + length as usize,
        };
        match at.checked_add(step) {
            Some(next) if next <= end => at = next,
            _ => break,
        }
    }
    Some(start..at)
}
