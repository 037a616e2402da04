//! The names of the program's functions, out of its own file.
//!
//! Used by `overflow`'s report and by printed backtraces.
//!
//! The file is mapped and read in place: no memory is allocated and no lock is taken. So a monitor
//! can print where a thread is that is stuck in the allocator, or holds any lock, and a signal
//! handler can name functions. Each read is checked against the file's length, so that a file that
//! is no ELF has no names and nothing worse. (If the file is cut off while the program runs, that
//! is a SIGBUS, here as everywhere.)
//!
//! With the feature `lines` a printed backtrace also has files, lines and inlined calls, from the
//! debug information in the same mapping, read by the crate `addr2line`. That allocates, and takes
//! no lock either: the parsed parts are kept for one trace. Files have the names that the compiler
//! was given, which are those of panics and of places in reports: without the directory of the
//! compilation, in every place of a run.

#![allow(unsafe_code)] // Maps the program's file.

use std::fmt::{self, Write};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::ptr;
use std::slice;

use super::objects::image;
use crate::backtrace::{StackOwner, StackTrace};

const SYMBOLS: u32 = 2;
const NO_BITS: u32 = 8;
const DYNAMIC_SYMBOLS: u32 = 11;
const FUNCTION: u8 = 2;

/// Part of the name of each function with which a user's code begins on a fiber, or on a thread.
const BEGIN: &str = "__rust_begin_short_backtrace";

/// The program's file, mapped.
pub(super) struct Program(&'static [u8]);

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
    pub(super) fn open() -> Option<Program> {
        let mut file = File::open("/proc/self/exe").ok()?;
        let size = file.seek(SeekFrom::End(0)).ok()? as usize;
        // SAFETY: a new mapping where the kernel likes, for reading, which stays without the file.
        let map = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        // SAFETY: the mapping has that size, and stays until the drop. A program that runs is not
        // written to.
        (map != libc::MAP_FAILED).then(|| Program(unsafe { slice::from_raw_parts(map.cast(), size) }))
    }

    /// The name of the function at an address of the file, by the linker's name. Async-signal-safe.
    pub(super) fn function(&self, address: usize) -> Option<&[u8]> {
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
    fn main(&self) -> Option<u64> {
        let is_main = |(start, _, name): (u64, u64, Option<&[u8]>)| {
            let name = name.filter(|name| name.windows(5).any(|part| part == b"4main"))?;
            let name = format!("{:#}", rustc_demangle::demangle(std::str::from_utf8(name).ok()?));
            (name.ends_with("::main") && name.matches("::").count() == 1).then_some(start)
        };
        self.functions()?.find_map(is_main)
    }

    /// The bytes of the section of this name, if the section is there unchanged.
    #[cfg(feature = "lines")]
    fn named(&self, name: &str) -> Option<&[u8]> {
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
pub(super) fn write_name(out: &mut dyn Write, name: &[u8]) -> fmt::Result {
    match std::str::from_utf8(name) {
        Ok(name) => write!(out, "{:#}", rustc_demangle::demangle(name)),
        Err(_) => out.write_str("?"),
    }
}

/// Whether a user's code begins in the function of this name.
fn is_begin(name: &[u8]) -> bool {
    name.windows(BEGIN.len()).any(|part| part == BEGIN.as_bytes())
}

/// A printed trace's knowledge of the program.
struct Symbols<'p> {
    program: &'p Program,
    #[cfg(feature = "lines")]
    lines: Option<addr2line::Context<Reader<'p>>>,
    /// Where the program was compiled.
    #[cfg(feature = "lines")]
    root: Option<String>,
}

#[cfg(feature = "lines")]
type Reader<'p> = addr2line::gimli::EndianSlice<'p, addr2line::gimli::NativeEndian>;

/// Writes the calls of each stack, as far as they are known, a fiber's down to its job.
pub(crate) fn write_stacks(f: &mut fmt::Formatter<'_>, stacks: &[StackTrace]) -> fmt::Result {
    let program = Program::open();
    let symbols = program.as_ref().map(Symbols::new);
    let mut number = 0;
    for stack in stacks {
        writeln!(f, "on the stack of {}:", stack.owner())?;
        let own = match (stack.owner(), &symbols) {
            (StackOwner::Coroutine { .. }, Some(symbols)) => symbols.own(stack.addresses()),
            _ => stack.addresses().len(),
        };
        for &address in &stack.addresses()[..own] {
            let known = symbols.as_ref().map_or(Ok(false), |symbols| symbols.write(f, number, address))?;
            if !known {
                writeln!(f, "{number:>4}: {address:#x}")?;
            }
            number += 1;
        }
        if !stack.is_whole() {
            writeln!(f, "      ... this stack goes on; it could not be followed further")?;
        }
    }
    Ok(())
}

impl Symbols<'_> {
    fn new(program: &Program) -> Symbols<'_> {
        #[cfg(feature = "lines")]
        let lines = {
            let section = |id: addr2line::gimli::SectionId| -> Result<Reader<'_>, addr2line::gimli::Error> {
                Ok(Reader::new(program.named(id.name()).unwrap_or_default(), addr2line::gimli::NativeEndian))
            };
            addr2line::gimli::Dwarf::load(section).and_then(addr2line::Context::from_dwarf).ok()
        };
        Symbols {
            program,
            #[cfg(feature = "lines")]
            root: lines.as_ref().and_then(|lines| root(program, lines)),
            #[cfg(feature = "lines")]
            lines,
        }
    }

    /// How many of a fiber's calls are its own, innermost first: further out there is only its
    /// start.
    fn own(&self, addresses: &[usize]) -> usize {
        let image = image();
        let begins = |address: &usize| {
            let name = image.code.contains(address).then(|| self.program.function(address - image.base)).flatten();
            name.is_some_and(is_begin)
        };
        addresses.iter().position(begins).map_or(addresses.len(), |begin| begin + 1)
    }

    /// Writes the call at an address, and the inlined ones there; answers whether something is
    /// known.
    fn write(&self, f: &mut fmt::Formatter<'_>, number: usize, address: usize) -> Result<bool, fmt::Error> {
        let image = image();
        if !image.code.contains(&address) {
            return Ok(false);
        }
        let address = address - image.base;
        #[cfg(feature = "lines")]
        if self.write_with_lines(f, number, address)? {
            return Ok(true);
        }
        let Some(name) = self.program.function(address) else { return Ok(false) };
        write!(f, "{number:>4}: ")?;
        write_name(f, name)?;
        writeln!(f)?;
        Ok(true)
    }

    #[cfg(feature = "lines")]
    fn write_with_lines(&self, f: &mut fmt::Formatter<'_>, number: usize, address: usize) -> Result<bool, fmt::Error> {
        let Some(lines) = &self.lines else { return Ok(false) };
        // Parts in other files stay unknown.
        let Ok(mut calls) = lines.find_frames(address as u64).skip_all_loads() else { return Ok(false) };
        let mut known = false;
        let mut next = calls.next().ok().flatten();
        while let Some(call) = next {
            next = calls.next().ok().flatten();
            let name = call.function.as_ref().and_then(|function| function.raw_name().ok());
            // The outermost has a symbol. Its name has a path also where the debug information has
            // lines alone.
            let symbol = if next.is_none() { self.program.function(address) } else { None };
            let Some(name) = symbol.or_else(|| name.as_deref().map(str::as_bytes)) else { continue };
            if is_begin(name) {
                return Ok(true);
            }
            match known {
                false => write!(f, "{number:>4}: ")?,
                true => write!(f, "      ")?,
            }
            known = true;
            write_name(f, name)?;
            writeln!(f)?;
            if let Some((file, line)) = call.location.and_then(|place| Some((place.file?, place.line?))) {
                let root = self.root.as_deref();
                let below = root.and_then(|root| file.strip_prefix(root)?.strip_prefix('/'));
                writeln!(f, "             at {}:{line}", below.unwrap_or(file))?;
            }
        }
        Ok(known)
    }
}

/// The directory that the program's own crate was compiled in, below which files have the names
/// that the compiler was given; other packages are given by whole paths.
#[cfg(feature = "lines")]
fn root(program: &Program, lines: &addr2line::Context<Reader<'_>>) -> Option<String> {
    let unit = lines.find_dwarf_and_unit(program.main()?).skip_all_loads()?;
    std::str::from_utf8(unit.comp_dir.as_ref()?.slice()).ok().map(str::to_owned)
}
