//! Where nobody knows the program's code: a report of an overflow has no calls.
//!
//! Used by `native/overflow.rs`.

#![allow(unsafe_code)] // The contract is that of the others.

use std::ops::Range;

use crate::platform::{Registers, Writer};

/// There is nothing to look up.
pub(crate) fn prepare() {}

/// Prints nothing.
///
/// # Safety
///
/// None, here.
pub(crate) unsafe fn print(_stack: Range<usize>, _registers: &Registers, _out: &mut Writer) {}
