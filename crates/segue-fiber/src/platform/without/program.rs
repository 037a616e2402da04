//! Where the program's file is not read: functions have no names.
//!
//! Used by `native/symbols.rs`.

use std::fmt::{self, Write};

/// The program's file: never open.
pub(crate) enum Program {}

impl Program {
    pub(crate) fn open() -> Option<Program> {
        None
    }

    pub(crate) fn in_file(&self, _address: usize) -> Option<usize> {
        match *self {}
    }

    pub(crate) fn function(&self, _address: usize) -> Option<&[u8]> {
        match *self {}
    }

    #[cfg(feature = "lines")]
    pub(crate) fn main(&self) -> Option<u64> {
        match *self {}
    }

    #[cfg(feature = "lines")]
    pub(crate) fn named(&self, _name: &str) -> Option<&[u8]> {
        match *self {}
    }
}

/// Writes a name as it is.
pub(crate) fn write_name(out: &mut dyn Write, name: &[u8]) -> fmt::Result {
    write!(out, "{}", String::from_utf8_lossy(name))
}
