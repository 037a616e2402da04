//! What both hosts share about how a coroutine ends: the result of a resume, the count of leaks,
//! the abort.
//!
//! Used by the coroutines of either host; [`Step`] and [`leaked_stacks`] are public.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Why [`Coroutine::resume`](crate::Coroutine::resume) came back.
#[must_use = "a coroutine that returned must not be resumed again"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The coroutine was suspended and can be resumed.
    Suspended,
    /// Its function returned: [`Coroutine::finish`](crate::Coroutine::finish) gives back header and
    /// stack.
    Returned,
}

static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// How many coroutines of this process were dropped while suspended, and so keep their stacks for
/// ever.
///
/// Schedulers drive every coroutine to its end, so this stays 0 unless one of them has a fault. A
/// coroutine with its handle on a leaked stack is itself beyond reach and is not counted.
pub fn leaked_stacks() -> usize {
    LEAKED.load(Relaxed)
}

/// Counts one more leak.
#[cold]
pub(crate) fn count_leak() {
    // Relaxed: a statistic that orders nothing.
    LEAKED.fetch_add(1, Relaxed);
}

/// Ends the process, and says why on the standard error if anybody reads it. It never unwinds, as
/// `eprintln!` does when the other end of a pipe is closed.
#[cold]
#[inline(never)]
pub(crate) fn abort(why: &str) -> ! {
    let _ = writeln!(io::stderr(), "{why}");
    std::process::abort();
}

/// Aborts the process if it is dropped, which only an unwind does: a panic must not leave a
/// coroutine.
pub(crate) struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    #[cold]
    fn drop(&mut self) {
        abort(
            "a panic left the main function of a coroutine, which has no caller to go on to: the function must \
             catch it; aborting",
        );
    }
}
