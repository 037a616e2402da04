//! Which panics of a program under test are printed: each once, not once for each schedule.
//!
//! Used by the explorer. A program may panic on purpose, and have the panic caught by a join, under
//! each of two hundred schedules.
//!
//! The hook of the process is replaced at the first exploration, for good, by one that asks the
//! thread on which the panic is. On threads without an exploration, and for what a program under
//! test does on other threads, all is as it was.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

segue_core::plain_thread_local! {
    static MODE: Cell<Mode> = Cell::new(Mode::All);
}

thread_local! {
    /// What was printed in the exploration of this thread: place and message. In destructors of
    /// other variables it may be gone: then each panic is printed.
    static PRINTED: RefCell<HashSet<String>> = RefCell::default();
}

/// Which panics are printed.
#[derive(Clone, Copy)]
pub(super) enum Mode {
    All,
    /// What the exploration has not printed before.
    OnceEach,
    /// None: they are those of the first failure once more.
    None,
}

fn is_printed(info: &PanicHookInfo<'_>) -> bool {
    match MODE.get() {
        Mode::All => true,
        Mode::None => false,
        Mode::OnceEach => {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let panic = format!("{place} {}", info.payload_as_str().unwrap_or_default());
            let note = |printed: &RefCell<HashSet<String>>| {
                printed.try_borrow_mut().is_ok_and(|mut printed| printed.insert(panic))
            };
            PRINTED.try_with(note).unwrap_or(true)
        }
    }
}

/// Runs `f`, and prints these of its panics.
pub(super) fn printing<R>(mode: Mode, f: impl FnOnce() -> R) -> R {
    struct Restore(Mode);
    impl Drop for Restore {
        fn drop(&mut self) {
            MODE.set(self.0);
        }
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // Inside of the hook that is put in now: what is not printed has no name before it.
        segue_core::scheduling::name_fibers_in_debug_builds();
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if is_printed(info) {
                others(info);
            }
        }));
    });
    let _restore = Restore(MODE.replace(mode));
    f()
}

/// An exploration begins on this thread.
pub(super) fn begin() {
    let _ = PRINTED.try_with(|printed| printed.borrow_mut().clear());
}
