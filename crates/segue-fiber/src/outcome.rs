//! What both hosts share about how a coroutine begins and ends: its main function, the result of a
//! resume, the panic that leaves it, the count of leaks.
//!
//! Used by the coroutines of either host; [`Step`] and [`leaked_stacks`] are public.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::thread_stacks;
use segue_core::unwind::abort;

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

/// The main function of a coroutine, with the header `H`. A trait of ours, as methods can be
/// inlined always, and closures can't: each call on the way to where the coroutine suspends is a
/// return that may be predicted wrongly.
pub(crate) trait Main<H> {
    /// The same, with its closure in a box.
    type Boxed: Main<H>;
    fn boxed(self) -> Self::Boxed;
    fn run(self, header: &H);
}

impl<H, F: FnOnce(&H)> Main<H> for F {
    type Boxed = Box<F>;

    #[inline]
    fn boxed(self) -> Box<F> {
        Box::new(self)
    }

    #[inline(always)]
    fn run(self, header: &H) {
        self(header);
    }
}

/// Runs the main function of a coroutine. A panic of its ends the process: it has no caller.
#[inline(always)]
pub(crate) fn run_main(main: impl FnOnce()) {
    // A panic looks for a frame that catches it before it unwinds anything. It finds this one, and
    // so does not look further, on the resumer's stack.
    let outcome = catch_unwind(AssertUnwindSafe(main));
    if outcome.is_err() {
        abort(
            "a panic left the main function of a coroutine, which has no caller to go on to: the function must \
             catch it; aborting",
        );
    }
}

/// Whether a suspended body can be unwound; if not, it is leaked.
///
/// It can't where programs abort on panics: there what `borrows` ends the process, as it can't stay
/// either. And while the thread's local variables are dropped, what was suspended before may be in
/// the middle of a use of one; what borrows was not.
#[cold]
pub(crate) fn can_unwind(what: &str, borrows: bool, advice: &str) -> bool {
    if cfg!(panic = "abort") && borrows {
        abort(format_args!(
            "{what} was dropped halfway that may have lent out what it borrows; without unwinding it can neither end \
             nor stay: {advice}; aborting"
        ));
    }
    let can = !cfg!(panic = "abort") && (borrows || !thread_stacks::are_gone());
    if !can {
        count_leak();
    }
    can
}
