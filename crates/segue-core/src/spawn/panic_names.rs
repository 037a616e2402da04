//! Names the fiber in front of a panic's message, which knows only threads.
//!
//! Used by applications, once, at their start; in debug builds by the umbrella crate's runtimes and
//! by explorations.
//!
//! A hook that is set later may call the one that was there, or not. So a program that asks for the
//! names gets a hook of its own, whatever a debug build has installed; of several the outermost
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

/// From now on the message of a panic in a fiber has a line before it that names the fiber: the
/// panic hook knows only the thread, which is a worker that many fibers share. In debug builds
/// `segue::run`, `runtime` and `default_pool` see to it, and explorations do; in release builds it
/// has to be asked for.
///
/// It puts a panic hook before the one that is installed, which does what it did. So call it after
/// those that replace the hook; a hook that is set later replaces this one as well. Again it has no
/// effect.
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
