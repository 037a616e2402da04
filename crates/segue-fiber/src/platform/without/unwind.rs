//! Where no tables are read: of each stack, the place of its innermost code is known.
//!
//! Used by `native/segments.rs`.

use crate::platform::Registers;
use segue_core::switch;

/// The innermost call, and whether these are all.
pub(crate) fn unwind(registers: &Registers, _read: impl Fn(usize) -> Option<usize>) -> (Vec<usize>, bool) {
    if switch::is_in_root(registers.instruction) { (Vec::new(), true) } else { (vec![registers.instruction], false) }
}
