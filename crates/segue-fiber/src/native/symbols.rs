//! Printed backtraces: the names of functions, and places in the source.
//!
//! Used by [`Backtrace`](crate::Backtrace). The names are the platform's (`Program`), which takes
//! no lock and allocates nothing; where the platform knows none, addresses are printed.
//!
//! With the feature `lines` a printed backtrace also has files, lines and inlined calls, from the
//! debug information in the same file, read by the crate `addr2line`. That allocates, and takes
//! no lock either: the parsed parts are kept for one trace. Files have the names that the compiler
//! was given, which are those of panics and of places in reports: without the directory of the
//! compilation, in every place of a run.

use std::fmt;

use crate::backtrace::{StackOwner, StackTrace};
use crate::platform::program::{Program, write_name};

/// Part of the name of each function with which a user's code begins on a fiber, or on a thread.
const BEGIN: &str = "__rust_begin_short_backtrace";

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
        let begins = |address: &usize| {
            let name = self.program.in_file(*address).and_then(|address| self.program.function(address));
            name.is_some_and(is_begin)
        };
        addresses.iter().position(begins).map_or(addresses.len(), |begin| begin + 1)
    }

    /// Writes the call at an address, and the inlined ones there; answers whether something is
    /// known.
    fn write(&self, f: &mut fmt::Formatter<'_>, number: usize, address: usize) -> Result<bool, fmt::Error> {
        let Some(address) = self.program.in_file(address) else { return Ok(false) };
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
