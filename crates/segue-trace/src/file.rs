//! Files of the recorder's events: at a call, and at a panic.
//!
//! Used by applications.

use crate::perfetto::perfetto;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Writes the last events of all workers, by [`snapshot`](segue_sched::recorder::snapshot), into a
/// file for <https://ui.perfetto.dev>. A file of that name is replaced.
///
/// The file is whole, or not there: the content goes into a file beside that, which then takes the
/// name. This blocks the thread, and stops no worker.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// Those of the file system. A disk that is full leaves no file behind.
pub fn write(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let content = perfetto(&segue_sched::recorder::snapshot());
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}-{number}.new", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    let written = file.write_all(&content);
    drop(file);
    written.and_then(|()| fs::rename(&beside, path)).inspect_err(|_| _ = fs::remove_file(&beside))
}

/// At the first panic of the process from now on, [writes](write()) the last events into this file:
/// after the panic hook that there is, which goes on to be called for each.
///
/// That includes panics that are caught. An error is printed to standard error.
///
/// # Examples
///
/// ```
/// let path = std::env::temp_dir().join(format!("segue-panic-{}.pftrace", std::process::id()));
/// segue_trace::write_on_panic(&path);
/// segue_sched::Runtime::new().workers(1).run(|| {
///     assert!(segue_core::spawn(|| panic!("expected")).join().is_err());
/// })?;
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_on_panic(path: impl Into<PathBuf>) {
    let path = path.into();
    let first = AtomicBool::new(true);
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        before(info);
        if first.swap(false, Ordering::Relaxed)
            && let Err(error) = write(&path)
        {
            // A panic hook must not panic, which `eprintln` does if nobody reads.
            let _ = writeln!(io::stderr(), "segue: no trace in {}: {error}", path.display());
        }
    }));
}
