//! The stack of the caller, and what of it is given back to the system.
//!
//! The core knows nothing of stacks. A crate that makes them, as `segue-fiber` does, says how one
//! is trimmed; on any other stack nothing happens.

use std::sync::OnceLock;

static TRIMMER: OnceLock<fn()> = OnceLock::new();

/// Says how the caller's stack is trimmed: for a crate that makes stacks. The first call counts.
///
/// `trim` finds out by itself whether the caller is on one of its stacks.
pub fn set_stack_trimmer(trim: fn()) {
    let _ = TRIMMER.set(trim);
}

/// Gives the memory of the calling fiber's stack that lies below its frames back to the system.
///
/// A fiber keeps each page of its stack that it has ever touched. One that is about to wait for
/// long, as an idle connection does, can do with the pages of the frames that wait. Costs a system
/// call, and a page fault for each page that is touched again: nothing for every turn of a loop.
///
/// Not to be called on a stack that foreign code has made inside of a frame of a fiber's
/// (`docs/soundness.md`, S17).
///
/// Without effect on a plain thread, and on the host with a thread for each fiber.
///
/// ```
/// fn deep(n: u32) -> u64 {
///     let numbers = std::hint::black_box([u64::from(n); 1000]);
///     numbers[0] + if n == 0 { 0 } else { deep(n - 1) }
/// }
/// // In a fiber:
/// assert_eq!(deep(2), 3);
/// segue_core::trim_stack();
/// // It waits here.
/// ```
pub fn trim_stack() {
    if let Some(trim) = TRIMMER.get() {
        trim();
    }
}
