//! The loops around a call: until the call does not block, or until all bytes are moved.
//!
//! Used by the functions for one descriptor. Each loop waits by [`Patience`] where the call says
//! that it would block.

use crate::call::{Outcome, admit};
use crate::descriptor::{self, Half};
use crate::patience::Patience;
use std::ffi::c_int;

/// Makes a call until the call does not say any more that it would block, and waits in between. For
/// one descriptor; `attempt` gets the number that the descriptor has at the moment.
#[track_caller]
pub(crate) fn until_done(fd: c_int, half: Half, mut attempt: impl FnMut(c_int) -> Outcome) -> Outcome {
    admit()?;
    let mut patience = Patience::new(fd);
    loop {
        match attempt(patience.fd()) {
            Err(libc::EAGAIN) => patience.wait(half)?,
            Err(libc::EINTR) => {}
            done => return done,
        }
    }
}

/// Makes a transfer, and goes on with the rest of it, until all is moved, the end has come, or the
/// call fails. The bytes that were moved before an error are the result, as in the kernel.
///
/// `attempt` gets the number that the descriptor has at the moment, and how much was moved; `total`
/// is asked when something was.
#[track_caller]
pub(crate) fn all(
    fd: c_int,
    half: Half,
    total: impl Fn() -> usize,
    attempt: impl FnMut(c_int, usize) -> Outcome,
) -> Outcome {
    admit()?;
    go_on(&mut Patience::new(fd), half, 0, total, attempt)
}

/// Goes on with a transfer of which so much was moved.
#[track_caller]
pub(crate) fn go_on(
    patience: &mut Patience,
    half: Half,
    moved: usize,
    total: impl Fn() -> usize,
    mut attempt: impl FnMut(c_int, usize) -> Outcome,
) -> Outcome {
    let attempt = |patience: &mut Patience, moved| {
        let count = attempt(patience.fd(), moved)?;
        segue_core::drivers::charge(count.cast_unsigned() / 4096);
        Ok(count)
    };
    until_enough(patience, half, moved, |moved| moved >= total(), attempt)
}

/// Moves bytes or messages, some at a time, until `is_enough` says so of all that were moved, the
/// end has come, or the call fails. Those that were moved before an error are the result.
#[track_caller]
pub(crate) fn until_enough(
    patience: &mut Patience,
    half: Half,
    mut moved: usize,
    is_enough: impl Fn(usize) -> bool,
    mut attempt: impl FnMut(&mut Patience, usize) -> Outcome,
) -> Outcome {
    let failed = loop {
        match attempt(patience, moved) {
            Ok(count) => {
                patience.moved();
                moved += count.cast_unsigned();
                if count == 0 || is_enough(moved) {
                    return Ok(moved.cast_signed());
                }
            }
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => match patience.wait(half) {
                // The error is for the next call.
                Ok(()) if moved > 0 && descriptor::has_failed(patience.fd()) => return Ok(moved.cast_signed()),
                Ok(()) => {}
                Err(error) => break error,
            },
            Err(error) => break error,
        }
    };
    if moved > 0 { Ok(moved.cast_signed()) } else { Err(failed) }
}
