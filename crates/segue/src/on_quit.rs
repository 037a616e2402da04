//! A dump at each SIGQUIT.
//!
//! Used by programs that are to say what they do when they hang, by Ctrl-\ or `kill -QUIT`.

use crate::signal::{Signal, Signals};
use segue_sched::dump;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::thread;

/// Has the process write a [`dump`] to its standard error at each SIGQUIT (Ctrl-\, `kill -QUIT`),
/// in place of its end by that signal.
///
/// A thread of its own waits for the signal and writes the dump, so that one is written also if no
/// fiber of any scheduler can run. The dump ends with the line "segue: end of the dump". A second
/// call has no further effect but a second dump. Never waits.
///
/// # Errors
/// The kernel's, if there is no descriptor or thread left.
///
/// # Examples
///
/// ```
/// segue::dump_on_quit()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn dump_on_quit() -> io::Result<()> {
    let quits = Signals::new(Signal::QUIT)?;
    let write = move || {
        while quits.recv().is_ok() {
            let text = format!("{}segue: end of the dump\n", dump());
            // Not by the lock of the standard error: a fiber may hold that, and hang.
            let own = io::stderr().as_fd().try_clone_to_owned();
            // Nobody can be told of an error.
            let _ = own.and_then(|own| File::from(own).write_all(text.as_bytes()));
        }
    };
    thread::Builder::new().name("segue-dump".to_owned()).spawn(write)?;
    Ok(())
}
