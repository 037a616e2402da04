//! Text for the standard error, from a signal handler: without a lock, without an allocation.
//!
//! Used by the report of an overflow and by its trace.
#![allow(unsafe_code)] // A system call by the C library.

use std::fmt::{self, Write};

/// Writes to standard error from a signal handler, through a small buffer.
pub(crate) struct Writer {
    buffer: [u8; 256],
    len: usize,
}

impl Writer {
    pub fn new() -> Self {
        Self { buffer: [0; 256], len: 0 }
    }

    pub fn flush(&mut self) {
        let mut rest = &self.buffer[..self.len];
        while !rest.is_empty() {
            // SAFETY: async-signal-safe; the slice is valid.
            let written = unsafe { libc::write(2, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                _ => break,
            }
        }
        self.len = 0;
    }
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}
