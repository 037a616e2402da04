//! Names the fiber in front of a panic's message, which knows only threads.
//!
//! Used by applications, once, at their start.

use crate::contract::current;
use std::io::{self, Write};
use std::panic;
use std::sync::Once;

/// From now on the message of a panic in a fiber has a line before it that names the fiber: the
/// panic hook knows only the thread, which is a worker that many fibers share.
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
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            current::with_running(|fiber| {
                if let Some(fiber) = fiber {
                    // A hook must not panic, as `eprintln` does if nobody can read it.
                    let _ = writeln!(io::stderr(), "segue: in {fiber}:");
                }
            });
            others(info);
        }));
    });
}
