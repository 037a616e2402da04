//! Child processes, with std's names. Only the fiber waits for a child.
//!
//! ```
//! use segue_std::io::Read;
//! use segue_std::process::{Command, Stdio};
//!
//! let echo = Command::new("echo").arg("hello").output()?;
//! assert_eq!(echo.stdout, b"hello\n");
//!
//! let mut first = Command::new("printf").arg("b\na\n").stdout(Stdio::piped()).spawn()?;
//! let mut sort = Command::new("sort").stdin(first.stdout.take().unwrap()).stdout(Stdio::piped()).spawn()?;
//! let mut sorted = String::new();
//! sort.stdout.take().unwrap().read_to_string(&mut sorted)?;
//! assert_eq!(sorted, "a\nb\n");
//! assert!(first.wait()?.success() && sort.wait()?.success());
//! # Ok::<(), std::io::Error>(())
//! ```

pub use segue::pipe::{PipeReader as ChildStderr, PipeReader as ChildStdout, PipeWriter as ChildStdin};
pub use segue::process::Child;
#[doc(no_inline)]
pub use std::process::*;

use segue::pipe::{PipeReader, PipeWriter};
use segue::process;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;

/// A source or target of a child's streams, as [`std::process::Stdio`], with conversions both ways.
///
/// A stream of another child becomes one by a descriptor of its own. If none is left,
/// [`Command::spawn`] and its like fail with that.
pub struct Stdio(io::Result<std::process::Stdio>);

impl Stdio {
    /// A new pipe, with its other end at the [`Child`].
    #[must_use]
    pub fn piped() -> Self {
        std::process::Stdio::piped().into()
    }

    /// The stream of this process.
    #[must_use]
    pub fn inherit() -> Self {
        std::process::Stdio::inherit().into()
    }

    /// Nothing: reads are at the end, and writes go nowhere.
    #[must_use]
    pub fn null() -> Self {
        std::process::Stdio::null().into()
    }
}

macro_rules! of_std {
    ($($name:ty),*) => {$(
        impl From<$name> for Stdio {
            fn from(stream: $name) -> Self {
                Self(Ok(stream.into()))
            }
        }
    )*};
}

of_std!(
    std::process::Stdio,
    std::fs::File,
    segue::fs::File,
    OwnedFd,
    io::PipeReader,
    io::PipeWriter,
    io::Stdout,
    io::Stderr
);

impl From<PipeReader> for Stdio {
    fn from(stream: PipeReader) -> Self {
        Self(stream.into_stdio())
    }
}

impl From<PipeWriter> for Stdio {
    fn from(stream: PipeWriter) -> Self {
        Self(stream.into_stdio())
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stdio").field(&self.0).finish()
    }
}

/// A child process to be, as [`std::process::Command`]; a wait for its end suspends the fiber.
///
/// The trait `CommandExt` of `std::os::unix::process` is
/// [here](crate::os::unix::process::CommandExt), too.
///
/// # Examples
///
/// ```
/// use segue_std::process::Command;
///
/// let status = Command::new("sh").args(["-c", "exit 3"]).status()?;
/// assert_eq!(status.code(), Some(3));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Command {
    command: std::process::Command,
    /// Whether input, output and errors were said.
    said: [bool; 3],
    /// Which of them could not be had, and why.
    failed: Option<(usize, io::Error)>,
}

/// The methods that are handed on to std's; std's documentation has them.
macro_rules! handed_on {
    ($($(#[$doc:meta])* fn $name:ident$(<$($kind:ident: $bound:path),*>)?($($argument:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        pub fn $name$(<$($kind: $bound),*>)?(&mut self, $($argument: $type),*) -> &mut Self {
            self.command.$name($($argument),*);
            self
        }
    )*};
}

impl Command {
    /// To run this program, with the arguments, the environment and the directory of std's.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        std::process::Command::new(program).into()
    }

    handed_on! {
        /// One more argument.
        fn arg<S: AsRef<OsStr>>(arg: S);
        /// A variable of its environment.
        fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(key: K, value: V);
        /// Without this variable.
        fn env_remove<K: AsRef<OsStr>>(key: K);
        /// Without any variables.
        fn env_clear();
        /// The directory in which the child begins.
        fn current_dir<P: AsRef<Path>>(dir: P);
        /// The process group that the child joins; 0 is a new one, with the child as its leader.
        /// Then the [`Child`] can signal the whole group, and each kill of the child kills the
        /// group.
        fn process_group(group: i32);
    }

    /// More arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item: AsRef<OsStr>>) -> &mut Self {
        self.command.args(args);
        self
    }

    /// Variables of its environment.
    pub fn envs<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, vars: impl IntoIterator<Item = (K, V)>) -> &mut Self {
        self.command.envs(vars);
        self
    }

    /// The child's input. By default the input of this process, and nothing for
    /// [`output`](Command::output).
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.say(0, stream.into())
    }

    /// The child's output. By default the output of this process; for [`output`](Command::output),
    /// a new pipe.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.say(1, stream.into())
    }

    /// Where its errors go. If nothing is said, as for [`stdout`](Command::stdout).
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.say(2, stream.into())
    }

    fn say(&mut self, which: usize, stream: Stdio) -> &mut Self {
        self.said[which] = true;
        // Earlier settings of this variable count no more.
        self.failed.take_if(|(failed, _)| *failed == which);
        match stream.0 {
            Ok(stream) => self.set(which, stream),
            Err(error) => self.failed = Some((which, error)),
        }
        self
    }

    fn set(&mut self, which: usize, stream: std::process::Stdio) {
        match which {
            0 => self.command.stdin(stream),
            1 => self.command.stdout(stream),
            _ => self.command.stderr(stream),
        };
    }

    /// Starts the child. Never waits for other fibers, nor for the child's end; but the call blocks
    /// the worker until the program is executed ([`process::spawn`]).
    ///
    /// # Errors
    /// Those of [`process::spawn`]; that a stream was given for which no descriptor was left, until
    /// another one is.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.refused()?;
        process::spawn(&mut self.command)
    }

    /// Fails if a stream could not be had.
    pub(crate) fn refused(&self) -> io::Result<()> {
        match &self.failed {
            Some((_, error)) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    /// Runs the child to its end.
    ///
    /// # Cancellation
    /// *May already have happened*: the child was started; a cancellation kills the child, a leader
    /// with its group.
    ///
    /// # Errors
    /// Those of [`spawn`](Command::spawn) and [`Child::wait`].
    #[track_caller]
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        segue::check()?;
        self.spawn()?.kill_on_drop(true).wait()
    }

    /// Runs the child to its end, and collects its output from streams without another setting.
    ///
    /// # Cancellation
    /// *May already have happened*: the child was started; a cancellation kills the child, a leader
    /// with its group.
    ///
    /// # Errors
    /// Those of [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    #[track_caller]
    pub fn output(&mut self) -> io::Result<Output> {
        segue::check()?;
        self.set_unsaid(std::process::Stdio::piped);
        let child = self.spawn();
        self.set_unsaid(std::process::Stdio::inherit);
        child?.kill_on_drop(true).wait_with_output()
    }

    fn set_unsaid(&mut self, stream: fn() -> std::process::Stdio) {
        for which in 0..self.said.len() {
            if !self.said[which] {
                self.set(which, stream());
            }
        }
    }

    /// The program.
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.command.get_program()
    }

    /// The arguments, without the program.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.command.get_args()
    }

    /// The differences from this process's environment.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.command.get_envs()
    }

    /// The directory, if one was said.
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.command.get_current_dir()
    }

    /// std's command in this one, for traits of others. Streams are said here, for
    /// [`output`](Command::output) would not know of them.
    pub fn as_std_mut(&mut self) -> &mut std::process::Command {
        &mut self.command
    }
}

/// Its streams, if any were said, count as unsaid for [`output`](Command::output).
impl From<std::process::Command> for Command {
    fn from(command: std::process::Command) -> Self {
        Self { command, said: [false; 3], failed: None }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.command.fmt(f)
    }
}

#[cfg(test)]
#[path = "../tests/units/process.rs"]
mod tests;
