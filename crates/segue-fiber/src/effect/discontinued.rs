//! The error of a perform that takes its discontinuation as a value.
//!
//! Used by `perform_result`.

#![allow(unsafe_code)] // An error has to be `Sync`, and the payload of a panic is not.

use std::any::Any;
use std::fmt;
use std::panic::resume_unwind;

use super::Dropped;
use super::request::Payload;

/// The end of a [`perform_result`](super::perform_result) without an answer: its handler has
/// discontinued the computation, or dropped its continuation.
///
/// The computation is to clean up, and to end. Its result takes the way of its value: to the
/// handler's case for a value, and from there to the code that has discontinued the computation. If
/// the continuation was dropped, nobody looks at that result.
///
/// A computation that performs again instead may be discontinued again, from below its handler's
/// clause: one that does so until a success uses up its resumer's stack, if the handler never
/// answers.
///
/// Where programs abort on panics, a computation is not run on after the drop of its continuation,
/// and never sees this: its stack is leaked, and counted by
/// [`leaked_stacks`](crate::leaked_stacks), or the process ends for a computation that borrows.
///
/// # Examples
///
/// ```
/// use segue_fiber::effect::{Discontinued, Effect, Handler, perform_result};
///
/// struct NextLine;
/// impl Effect for NextLine {
///     type Output = String;
/// }
///
/// struct Eof;
///
/// fn shout() -> Result<usize, Discontinued> {
///     let mut lines = 0;
///     loop {
///         let _line = perform_result(NextLine)?;
///         lines += 1;
///     }
/// }
///
/// let end = Handler::new().on(|NextLine, k| k.discontinue(Eof)).handle(shout);
/// assert!(end.unwrap_err().is::<Eof>());
/// ```
pub struct Discontinued(pub(super) Payload);

// SAFETY: a shared reference tells the type of the payload, which is not in the payload; the
// payload itself takes the whole value.
unsafe impl Sync for Discontinued {}

impl Discontinued {
    /// Whether the computation was discontinued with [`Dropped`]: as a rule, since its continuation
    /// was dropped.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.is::<Dropped>()
    }

    /// Whether the handler has [discontinued](super::Continuation::discontinue) the computation
    /// with a value of this type.
    #[must_use]
    pub fn is<T: Any>(&self) -> bool {
        self.0.is::<T>()
    }

    /// The handler's payload; [`Dropped`] after the drop of the continuation.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0
    }

    /// Unwinds with this payload, without a message, as [`perform`](super::perform) does.
    pub fn raise(self) -> ! {
        resume_unwind(self.0)
    }
}

segue_core::impl_debug!([] Discontinued, |it| is_dropped: it.is_dropped());

impl fmt::Display for Discontinued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_dropped() {
            "the handler of an effect has dropped the computation"
        } else {
            "the handler of an effect has discontinued the computation"
        })
    }
}

impl std::error::Error for Discontinued {}
