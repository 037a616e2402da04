//! Lists of buffers, as vectored calls have them, and the room that a buffer has.
//!
//! Used by all calls that move bytes.
#![allow(unsafe_code)] // The C library ends the program.

use std::ffi::c_int;

pub(crate) type Slice = libc::iovec;

/// What the kernel takes at most.
pub(crate) const MAX_SLICES: c_int = 1024;

unsafe extern "C" {
    /// The C library's end of a program whose buffer would overflow.
    #[cfg(target_env = "gnu")]
    fn __chk_fail() -> !;
}

/// Ends the program if a call would write past its buffer, as the fortified forms promise.
pub(crate) fn check_room(asked: usize, room: usize) {
    if asked > room {
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes nothing, and does not return.
        unsafe {
            __chk_fail()
        }
        #[cfg(not(target_env = "gnu"))]
        std::process::abort()
    }
}

/// What is left of a list when so many bytes are gone.
pub(crate) fn rest(list: &[Slice], mut moved: usize) -> Vec<Slice> {
    let left = list.iter().filter_map(|slice| {
        let skipped = moved.min(slice.iov_len);
        moved -= skipped;
        let (base, length) = (slice.iov_base.wrapping_byte_add(skipped), slice.iov_len - skipped);
        (length > 0).then_some(Slice { iov_base: base, iov_len: length })
    });
    left.collect()
}

/// How many bytes are in a list.
pub(crate) fn total(list: &[Slice]) -> usize {
    list.iter().map(|slice| slice.iov_len).fold(0, usize::saturating_add)
}
