//! A hint to the processor: memory that is used soon.
//!
//! Used where something is known to be next and was not touched for long: timers that fire, and
//! tasks that were woken.
#![allow(unsafe_code)] // An instruction of the processor's.

/// How many bytes a hint is for.
const LINE: usize = 64;

/// Starts to fetch the cache line at an address. A hint, without effect on what a program does: the
/// address may be any.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// Starts to fetch so many bytes from an address on, as [`prefetch`].
#[inline]
pub(crate) fn prefetch_bytes<T>(from: *const T, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        prefetch(from.wrapping_byte_add(at));
    }
}
