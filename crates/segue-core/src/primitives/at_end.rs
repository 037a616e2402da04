//! What is to be done whichever way a function ends.
//!
//! Used wherever a call happens inside of something that must be left again, after a panic too.

/// Calls a closure when it is dropped.
#[must_use = "the closure is called at once unless this is kept"]
pub(crate) struct AtEnd<F: FnMut()>(F);

/// The guard that calls `f`, which runs while a panic passes by, too.
#[inline(always)]
pub(crate) fn at_end<F: FnMut()>(f: F) -> AtEnd<F> {
    AtEnd(f)
}

impl<F: FnMut()> Drop for AtEnd<F> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.0)();
    }
}
