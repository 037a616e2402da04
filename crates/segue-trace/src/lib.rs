//! What runs in a program, for the tools that draw it: the flight recorder's events in Perfetto's
//! format; and, with the feature `tracing`, spans that stay with their fiber.
//!
//! The recorder is [`segue_sched::recorder`], which is on without this crate. [`write()`] makes a
//! file of it at any time, [`write_on_panic`] at the first panic. To have a file of a stall, call
//! [`write()`] where the monitor reports one:
//!
//! ```
//! use segue_sched::Runtime;
//! use std::time::Duration;
//!
//! # let path = std::env::temp_dir().join(format!("segue-stall-{}.pftrace", std::process::id()));
//! let stalled = path.clone();
//! let runtime = Runtime::new().workers(1).monitor(Duration::from_millis(20)).on_stuck(move |stuck| {
//!     eprintln!("{stuck}");
//!     if let Err(error) = segue_trace::write(&stalled) {
//!         eprintln!("the events before the stall are lost: {error}");
//!     }
//! });
//! # let waits = path.clone();
//! runtime.run(|| {
//!     // Something that blocks its worker.
//! #   while !waits.exists() { std::hint::spin_loop(); }
//! })?;
//! # std::fs::remove_file(path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Modules: `message`, the part of Perfetto's format that is used; `story`, who resumed whom;
//! `perfetto`, the file's content; `file`, the file; `spans`.

mod file;
mod message;
mod perfetto;
#[cfg(feature = "tracing")]
mod spans;
mod story;

pub use file::{write, write_on_panic};
pub use perfetto::perfetto;
#[cfg(feature = "tracing")]
pub use spans::Spans;
