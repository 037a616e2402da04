//! The names of the program's functions, out of its own file.
//!
//! Used by `trace`, and by `native/symbols.rs` for printed backtraces.
//!
//! The file is mapped and read in place: no memory is allocated and no lock is taken. So a monitor
//! can print where a thread is that is stuck in the allocator, or holds any lock, and a signal
//! handler can name functions. Each read is checked against the file's length, so that a file that
//! is no ELF has no names and nothing worse. (If the file is cut off while the program runs, that
//! is a SIGBUS, here as everywhere.)

#![allow(unsafe_code)] // Maps the program's file.

use std::fmt::{self, Write};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::ptr;
use std::slice;

use super::objects::image;

const SYMBOLS: u32 = 2;
const NO_BITS: u32 = 8;
const DYNAMIC_SYMBOLS: u32 = 11;
const FUNCTION: u8 = 2;

/// The program's file, mapped.
pub(crate) struct Program(&'static [u8]);

/// A section of the file.
#[derive(Clone, Copy)]
struct Section {
    #[cfg_attr(not(feature = "lines"), allow(dead_code))]
    name: u32,
    kind: u32,
    start: usize,
    size: usize,
    link: u32,
    #[cfg_attr(not(feature = "lines"), allow(dead_code))]
    compressed: bool,
}

impl Program {
    /// Async-signal-safe: std opens a file with so short a name without allocating.
    pub(crate) fn open() -> Option<Program> {
        let mut file = File::open("/proc/self/exe").ok()?;
        let size = file.seek(SeekFrom::End(0)).ok()? as usize;
        // SAFETY: a new mapping where the kernel likes, for reading, which stays without the file.
        let map = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        // SAFETY: the mapping has that size, and stays until the drop. A program that runs is not
        // written to.
        (map != libc::MAP_FAILED).then(|| Program(unsafe { slice::from_raw_parts(map.cast(), size) }))
    }

    /// The address in the program's file of one in memory, if that is the program's code.
    pub(crate) fn in_file(&self, address: usize) -> Option<usize> {
        let image = image();
        image.code.contains(&address).then(|| address - image.base)
    }

    /// The name of the function at an address of the file, by the linker's name. Async-signal-safe.
    pub(crate) fn function(&self, address: usize) -> Option<&[u8]> {
        let is_in =
            |(start, size, _): &(u64, u64, _)| (*start..start.saturating_add(*size)).contains(&(address as u64));
        self.functions()?.find(is_in)?.2
    }

    /// The functions that the linker knows: where each starts, its size, and its name.
    fn functions(&self) -> Option<impl Iterator<Item = (u64, u64, Option<&[u8]>)>> {
        let of_kind = |kind| self.sections().find(|section| section.kind == kind);
        let symbols = of_kind(SYMBOLS).or_else(|| of_kind(DYNAMIC_SYMBOLS))?;
        let names = self.bytes(self.section(symbols.link as usize)?)?;
        let entries = self.bytes(symbols)?.chunks_exact(24).filter(|entry| entry[4] & 0xf == FUNCTION);
        Some(entries.map(|entry| {
            let name = entry[..4].try_into().map_or(0, u32::from_ne_bytes);
            (word(entry, 8), word(entry, 16), text(names, name))
        }))
    }

    /// Where the `main` function of a Rust program is.
    #[cfg(feature = "lines")]
    pub(crate) fn main(&self) -> Option<u64> {
        let is_main = |(start, _, name): (u64, u64, Option<&[u8]>)| {
            let name = name.filter(|name| name.windows(5).any(|part| part == b"4main"))?;
            let name = format!("{:#}", rustc_demangle::demangle(std::str::from_utf8(name).ok()?));
            (name.ends_with("::main") && name.matches("::").count() == 1).then_some(start)
        };
        self.functions()?.find_map(is_main)
    }

    /// The bytes of the section of this name, if the section is there unchanged.
    #[cfg(feature = "lines")]
    pub(crate) fn named(&self, name: &str) -> Option<&[u8]> {
        let index = u16::from_ne_bytes(self.0.get(62..64)?.try_into().ok()?);
        let names = self.bytes(self.section(index.into())?)?;
        let is_it = |section: &Section| !section.compressed && text(names, section.name) == Some(name.as_bytes());
        self.sections().find(is_it).and_then(|section| self.bytes(section))
    }

    fn sections(&self) -> impl Iterator<Item = Section> {
        let count = self.0.get(60..62).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
        (0..count.into()).filter_map(|index| self.section(index))
    }

    fn section(&self, index: usize) -> Option<Section> {
        // A 64-bit file of this machine's byte order.
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        if self.0.get(..6)? != [0x7f, b'E', b'L', b'F', 2, order] {
            return None;
        }
        let start = (word(self.0.get(..64)?, 40) as usize).checked_add(index.checked_mul(64)?)?;
        let header = self.0.get(start..start.checked_add(64)?)?;
        let half = |at: usize| header[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        Some(Section {
            name: half(0),
            kind: half(4),
            start: word(header, 24) as usize,
            size: word(header, 32) as usize,
            link: half(40),
            compressed: word(header, 8) & 0x800 != 0,
        })
    }

    fn bytes(&self, section: Section) -> Option<&[u8]> {
        let Section { start, size, kind, .. } = section;
        (kind != NO_BITS).then(|| self.0.get(start..start.checked_add(size)?)).flatten()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nobody has a part of the mapping any more: `self` lends all
        // parts.
        unsafe { libc::munmap(self.0.as_ptr().cast_mut().cast(), self.0.len()) };
    }
}

/// The eight bytes at a place, of which there must be that many.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

/// The bytes from a place to the next zero.
fn text(bytes: &[u8], start: u32) -> Option<&[u8]> {
    let rest = bytes.get(start as usize..)?;
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

/// Writes a name in the form of the source. Allocates nothing.
pub(crate) fn write_name(out: &mut dyn Write, name: &[u8]) -> fmt::Result {
    match std::str::from_utf8(name) {
        Ok(name) => write!(out, "{:#}", rustc_demangle::demangle(name)),
        Err(_) => out.write_str("?"),
    }
}
