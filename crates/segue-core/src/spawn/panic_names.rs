//! Writes the name of the fiber in front of a panic's message, which names only the thread.
//!
//! Used by applications, once, at their start; in debug builds by the umbrella crate's runtimes and
//! by explorations.
//!
//! A hook that a program sets later may call the earlier one, or not. So a program that asks for
//! the names gets a hook of its own, whatever a debug build has installed; of several the outermost
//! writes the line.

use crate::contract::current;
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::plain_thread_local;
use std::cell::Cell;
use std::io::{self, Write};
use std::panic;
use std::sync::Once;

plain_thread_local! {
    /// Whether the thread is in a hook that has named its fiber.
    static NAMED: Cell<bool> = Cell::new(false);
}

/// Has the message of a panic in a fiber begin with a line that names the fiber: the message alone
/// names the thread, a worker that many fibers share. In debug builds `segue::run`, `runtime`,
/// `default_pool` and explorations call this function; a program that wants the names in release
/// builds calls it too.
///
/// The function installs a panic hook, which writes the line and then calls the hook that was
/// installed before. So call it after everything else that sets a hook: a hook that is set later
/// may replace this one. Further calls have no effect.
///
/// # Panics
/// If the calling thread is panicking.
///
/// # Examples
///
/// ```
/// segue_core::name_fibers_in_panics();
/// // Prints "segue: in fiber `printer`:" and then the message.
/// let fiber = segue_core::Builder::new().name("printer").spawn(|| panic!("out of ink"));
/// assert!(fiber.join().is_err());
/// ```
pub fn name_fibers_in_panics() {
    static ASKED_FOR: Once = Once::new();
    ASKED_FOR.call_once(install);
}

/// The same in a debug build, unless the thread is panicking.
pub fn name_fibers_in_debug_builds() {
    static INSTALLED: Once = Once::new();
    if cfg!(debug_assertions) && !std::thread::panicking() {
        INSTALLED.call_once(install);
    }
}

fn install() {
    let others = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let before = NAMED.replace(true);
        let _restore = at_end(|| NAMED.set(before));
        current::with_running(|fiber| {
            if let Some(fiber) = fiber.filter(|_| !before) {
                // A hook must not panic, as `eprintln` does if nobody can read it.
                let _ = writeln!(io::stderr(), "segue: in {fiber}:");
            }
        });
        others(info);
    }));
}
