//! The calls on one stack, by the unwind tables of the program and its libraries.
//!
//! Used by `native/segments.rs`, with a stack in place, and by `native/sample.rs`, with a copy.
//!
//! The unwinding itself is the crate `framehop`'s. That crate reads the stack through a closure
//! only, which refuses foreign addresses, so that wrong tables make a wrong trace and nothing
//! worse. Its knowledge of the program is copied here: the sections `.eh_frame_hdr` and `.eh_frame`
//! of each loaded object, out of memory, where every program keeps them for its panics. They are
//! copied rather than borrowed because a library may be unloaded, and copied under the loader's
//! lock, which prevents that. The copies are made at the first trace, and again when the loader
//! says that something was loaded or unloaded since.

#![allow(unsafe_code)] // Asks the loader for the program's parts, and reads them.

use std::ffi::CStr;
use std::ops::Range;
use std::slice;
use std::sync::{Mutex, PoisonError};

use framehop::{CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module};
use framehop::{UnwindRegsNative, Unwinder, UnwinderNative};

use super::objects;
use crate::platform::Registers;
use segue_core::switch;

/// Nobody reads further. The limit ends traces that go in circles.
const MOST_CALLS: usize = 100_000;

type Bytes = Box<[u8]>;

/// The tables of all that is loaded.
struct Tables {
    unwinder: UnwinderNative<Bytes, MayAllocateDuringUnwind>,
    /// The results for addresses that were met before.
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
/// `read` gives the word at an address, if that lies on the stack. `read` must not panic or take a
/// backtrace.
pub(crate) fn unwind(registers: &Registers, read: impl Fn(usize) -> Option<usize>) -> (Vec<usize>, bool) {
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
        objects::each(|info, headers| {
            tables.version = version_of(info);
            if let Some(module) = module_of(info, headers) {
                tables.unwinder.add_module(module);
            }
            true
        });
        tables
    }
}

fn version_of(info: &libc::dl_phdr_info) -> Version {
    Version(info.dlpi_adds, info.dlpi_subs)
}

/// The loader's present version: told with the first object.
fn current_version() -> Version {
    let mut version = Version::default();
    objects::each(|info, _| {
        version = version_of(info);
        false
    });
    version
}

/// A loaded object with its tables, if there are any. The object stays loaded during this call.
fn module_of(info: &libc::dl_phdr_info, headers: &[libc::Elf64_Phdr]) -> Option<Module<Bytes>> {
    let base = info.dlpi_addr as usize;
    let of_type = |kind| headers.iter().filter(move |header| header.p_type == kind).map(|it| objects::part(info, it));
    let loaded = || of_type(libc::PT_LOAD);
    let index = of_type(libc::PT_GNU_EH_FRAME).next()?;
    let (start, end) = (loaded().map(|part| part.start).min()?, loaded().map(|part| part.end).max()?);
    // SAFETY: the index is a part of an object that is loaded, and so are the copied bytes.
    let (table, copy) = unsafe {
        let copy = |range: &Range<usize>| Bytes::from(slice::from_raw_parts(range.start as *const u8, range.len()));
        (table_behind(&index, loaded())?, copy)
    };
    let stated = |range: &Range<usize>| Some((range.start - base) as u64..(range.end - base) as u64);
    let sections = ExplicitModuleSectionInfo {
        eh_frame_hdr_svma: stated(&index),
        eh_frame_hdr: Some(copy(&index)),
        eh_frame_svma: stated(&table),
        eh_frame: Some(copy(&table)),
        ..ExplicitModuleSectionInfo::default()
    };
    // SAFETY: a name that ends in zero, if there is one.
    let name = (!info.dlpi_name.is_null()).then(|| unsafe { CStr::from_ptr(info.dlpi_name) });
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    Some(Module::new(name, start as u64..end as u64, base as u64, sections))
}

/// The place of the table that an index refers to, with the rest of its part of the object: nobody
/// reads past the record in question.
///
/// # Safety
///
/// `index` is a `.eh_frame_hdr` section, and `loaded` yields the parts of the same object that are
/// in memory.
unsafe fn table_behind(index: &Range<usize>, mut loaded: impl Iterator<Item = Range<usize>>) -> Option<Range<usize>> {
    /// A signed distance of four bytes from its own place.
    const RELATIVE: u8 = 0x1b;
    if index.len() < 8 {
        return None;
    }
    // SAFETY: by the contract, of a section with eight bytes or more.
    let [version, form, _, _, distance @ ..] = unsafe { *(index.start as *const [u8; 8]) };
    // Version 1, and the one way in which linkers write where the table is.
    if version != 1 || form != RELATIVE {
        return None;
    }
    let start = (index.start + 4).wrapping_add_signed(i32::from_ne_bytes(distance) as isize);
    Some(start..loaded.find(|part| part.contains(&start))?.end)
}
