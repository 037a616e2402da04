//! Text for the standard error, from a signal handler: without a lock, without an allocation.
//!
//! Used by the report of an overflow and by its trace.

use std::fmt::{self, Write};

use super::faults::write;

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
            match write(rest) {
                0 => break,
                written => rest = &rest[written..],
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
