//! The loaded objects: the program and its libraries.
//!
//! Used by `unwind` for the tables of each, by `trace` and `program` for the program's code.

#![allow(unsafe_code)] // Asks the loader.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;

/// Calls `f` with each loaded object and its headers, the program first, until an answer of
/// `false`. Under the loader's lock: no object goes meanwhile.
pub(in crate::platform) fn each<F: FnMut(&libc::dl_phdr_info, &[libc::Elf64_Phdr]) -> bool>(mut f: F) {
    unsafe extern "C" fn call<F>(info: *mut libc::dl_phdr_info, _size: usize, f: *mut c_void) -> c_int
    where
        F: FnMut(&libc::dl_phdr_info, &[libc::Elf64_Phdr]) -> bool,
    {
        // SAFETY: the loader passes a valid structure, which has that many headers, and the pointer
        // given below.
        let (info, f) = unsafe { (&*info, &mut *f.cast::<F>()) };
        // SAFETY: as above.
        let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        c_int::from(!f(info, headers))
    }
    // SAFETY: the callback keeps to its signature, uses the pointer by its type, and does not
    // unwind: at its border that ends the process.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut f).cast()) };
}

/// Where a part of an object lies.
pub(in crate::platform) fn part(info: &libc::dl_phdr_info, header: &libc::Elf64_Phdr) -> Range<usize> {
    let start = info.dlpi_addr as usize + header.p_vaddr as usize;
    start..start + header.p_memsz as usize
}

/// The program's load address and its largest piece of executable code.
pub(in crate::platform) struct Image {
    pub base: usize,
    pub code: Range<usize>,
}

static IMAGE: OnceLock<Image> = OnceLock::new();

/// The program's code. To be called ahead of a signal: its first call is not async-signal-safe.
pub(in crate::platform) fn image() -> &'static Image {
    IMAGE.get_or_init(|| {
        let mut image = Image { base: 0, code: 0..0 };
        each(|info, headers| {
            let is_code =
                |header: &&libc::Elf64_Phdr| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
            let code = headers.iter().filter(is_code).map(|header| part(info, header)).max_by_key(Range::len);
            image = Image { base: info.dlpi_addr as usize, code: code.unwrap_or_default() };
            false
        });
        image
    })
}
