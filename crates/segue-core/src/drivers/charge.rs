//! The price of an operation that takes long.
//!
//! Used by I/O that copies. `wait/admission.rs` says how operations count.

use crate::contract::current;

/// Counts the operation that the calling fiber has just made as so many more: one that took long,
/// as a large copy does. Never waits; a plain thread pays nothing.
///
/// # Examples
///
/// ```
/// use segue_core::{admit, drivers::charge};
///
/// admit()?;
/// let copied = [0_u8; 16 * 1024];
/// charge(copied.len() / 4096);
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
pub fn charge(operations: usize) {
    current::with_running(|fiber| {
        if let Some(fiber) = fiber {
            let operations = u8::try_from(operations).unwrap_or(u8::MAX);
            fiber.budget.set(fiber.budget.get().saturating_sub(operations));
        }
    });
}
