//! Child processes: started by std, waited for by fibers.
//!
//! [`spawn`] takes a [`Command`] of std's as it is, and gives a [`Child`] whose pipes are streams
//! and whose end can be waited for. [`output`] and [`status`] run one to its end.
//!
//! # Inherited descriptors
//!
//! A child has 0, 1 and 2, as its `Command` says. Whatever this library opens is closed when
//! another program is executed: sockets, pipes, drivers, what stands for other children. Beyond
//! that a child gets what the program itself, or a foreign library, has left inheritable.
//!
//! # Examples
//!
//! ```
//! use segue_io::process::{self, Command};
//! use std::io::{Read, Write};
//! use std::process::Stdio;
//!
//! let listed = process::output(Command::new("echo").arg("hello"))?;
//! assert_eq!(listed.stdout, b"hello\n");
//!
//! let mut sort = process::spawn(Command::new("sort").stdin(Stdio::piped()).stdout(Stdio::piped()))?;
//! sort.stdin.take().unwrap().write_all(b"b\na\n")?;
//! let mut sorted = String::new();
//! sort.stdout.take().unwrap().read_to_string(&mut sorted)?;
//! assert_eq!(sorted, "a\nb\n");
//! assert!(sort.wait()?.success());
//! # Ok::<(), std::io::Error>(())
//! ```

mod child;
mod exit;
mod reaper;

pub use child::{Child, output, spawn, status};
pub use std::process::{Command, ExitStatus, Output, Stdio};
