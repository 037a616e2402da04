//! A child, with its pipes.
//!
//! Used by programs. `exit` says how its end is waited for, `reaper` who waits when nobody does.

use super::exit::{Ends, Exit};
use super::reaper;
use crate::driver;
use crate::op::Op;
use crate::pipe::{PipeReader, PipeWriter};
use crate::signal::Signal;
use rustix::process::Pid;
use segue_core::{Either, Source, Waitable, WaitsFor};
use std::io::{self, ErrorKind, Read};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;

/// What a pipe holds on Linux.
const PIECE: usize = 64 << 10;

/// A process that this one has started.
///
/// # Its end
///
/// A child ends when its process does, and not when it closes its pipes; one that is stopped has
/// not ended. Its status is kept: every wait yields the same, also for a child that has died before
/// anybody waited.
///
/// # Dropping it
///
/// The process goes on, unless the child was told [otherwise](Self::kill_on_drop). In either case
/// no zombie stays: a thread of the library's, which lives as long as there are such children,
/// waits for its end. Pipes that are still in the child are closed.
///
/// # Cancellation
///
/// A wait of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. The process goes on,
/// and can be waited for again.
///
/// # Errors
///
/// If other code in this process waits for children of any number, as `waitpid(-1)` does, or
/// ignores `SIGCHLD`, then the status may be lost: every wait fails with `NotFound` and a message
/// that says so.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after};
/// use segue_io::process::{self, Command};
/// use std::time::Duration;
///
/// let mut child = process::spawn(Command::new("sleep").arg("60"))?.kill_on_drop(true);
/// let first = child.exit_source().or(after(Duration::from_millis(1))).wait().unwrap();
/// assert!(matches!(first, Either::Right(())));
/// child.kill()?;
/// assert!(!child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "the process goes on without it; `process::status` waits for its end"]
pub struct Child {
    /// What it reads, if its `Command` says [`Stdio::piped`].
    pub stdin: Option<PipeWriter>,
    /// What it writes, likewise.
    pub stdout: Option<PipeReader>,
    /// Its errors, likewise.
    pub stderr: Option<PipeReader>,
    exit: Arc<Exit>,
    kills: bool,
}

/// Starts a child, as [`Command::spawn`] does. Never waits for other fibers; but it blocks the
/// worker until the child's program is executed, for about a millisecond if its file is at hand.
/// Whether the caller was cancelled is not looked at.
///
/// # Errors
/// Those of [`Command::spawn`]. If there is no descriptor left to wait by, the child is killed.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    segue_core::preemption_point();
    let mut child = command.spawn()?;
    Child::adopt(&mut child).inspect_err(|_| {
        // It has just been started, and nobody else knows of it.
        let _ = child.kill();
        let _ = child.wait();
    })
}

/// Runs a child to its end. It inherits what its `Command` doesn't say, as with
/// [`Command::status`].
///
/// # Cancellation
/// *May already have happened*: the child was started; it is killed.
///
/// # Errors
/// Those of [`spawn`] and [`Child::wait`].
#[track_caller]
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    segue_core::check()?;
    spawn(command)?.kill_on_drop(true).wait()
}

/// Runs a child to its end and collects what it writes to its output and its errors, whatever the
/// `Command` says of these. Its input is what the `Command` says, and inherited if that says
/// nothing; with [`Command::output`] it would be empty then.
///
/// [`Child::wait_with_output`] collects from the streams that were piped.
///
/// # Cancellation
/// *May already have happened*: the child was started; it is killed.
///
/// # Errors
/// Those of [`spawn`] and [`Child::wait_with_output`].
#[track_caller]
pub fn output(command: &mut Command) -> io::Result<Output> {
    segue_core::check()?;
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command)?.kill_on_drop(true).wait_with_output()
}

impl Child {
    fn adopt(child: &mut std::process::Child) -> io::Result<Self> {
        let exit = Arc::new(Exit::new(Pid::from_child(child))?);
        Ok(Self {
            stdin: child.stdin.take().map(TryInto::try_into).transpose()?,
            stdout: child.stdout.take().map(TryInto::try_into).transpose()?,
            stderr: child.stderr.take().map(TryInto::try_into).transpose()?,
            exit,
            kills: false,
        })
    }

    /// Says whether the process is killed when this is dropped before its end. Processes that it
    /// has started itself are not.
    pub fn kill_on_drop(mut self, kills: bool) -> Self {
        self.kills = kills;
        self
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.exit.pid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for its end. Its standard input is closed first, if it is still here.
    ///
    /// # Cancellation
    /// *No effect*, but that its input is closed.
    ///
    /// # Errors
    /// That of a cancelled caller; that the status is [lost](Self#errors).
    #[track_caller]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        driver::run(self.exit.socket(), Ends(&self.exit), None)
    }

    /// The status, if it has ended. Never waits.
    ///
    /// # Errors
    /// That the status is [lost](Self#errors).
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        segue_core::preemption_point();
        self.exit.look()
    }

    /// [`wait`](Self::wait) for tasks and choices; it closes nothing.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// It yields that the status is [lost](Self#errors).
    #[track_caller]
    pub fn exit_source(&self) -> Waitable<impl Source<Output = io::Result<ExitStatus>>> {
        driver::source(self.exit.socket(), Ends(&self.exit), WaitsFor::new(Ends::WAITS_FOR))
    }

    /// Collects what it writes to the streams that are piped, both at once, and waits for its end.
    /// Its standard input is closed first, if it is still here.
    ///
    /// What is written by processes that it has started belongs to it: this waits until the last of
    /// them has closed the streams.
    ///
    /// # Cancellation
    /// *May already have happened*: what was read is lost with the child, which is dropped.
    ///
    /// # Errors
    /// Those of reads and of [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::process::{self, Command, Stdio};
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "echo out; echo err >&2"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    /// let output = process::spawn(&mut command)?.wait_with_output()?;
    /// assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.stdin = None;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (self.stdout.take(), self.stderr.take());
        let mut piece = vec![0; PIECE];
        while let (Some(first), Some(second)) = (&mut out, &mut err) {
            match first.readable_source().or(second.readable_source()).wait()? {
                Either::Left(ready) => {
                    ready?;
                    if is_over(first, &mut piece, &mut stdout)? {
                        out = None;
                    }
                }
                Either::Right(ready) => {
                    ready?;
                    if is_over(second, &mut piece, &mut stderr)? {
                        err = None;
                    }
                }
            }
        }
        if let Some(mut rest) = out {
            rest.read_to_end(&mut stdout)?;
        }
        if let Some(mut rest) = err {
            rest.read_to_end(&mut stderr)?;
        }
        Ok(Output { status: self.wait()?, stdout, stderr })
    }

    /// Kills the process, which is not asked. It has ended only after a wait. No effect on one that
    /// has ended. Never waits.
    ///
    /// # Errors
    /// What the kernel says: `PermissionDenied` if the process has become another user's.
    pub fn kill(&self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    /// Sends a signal to the process. No effect on one that has ended. Never waits.
    ///
    /// # Errors
    /// As for [`kill`](Self::kill); `InvalidInput` for what is no signal with a name.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        segue_core::preemption_point();
        self.exit.send(signal)
    }
}

/// Reads once, and answers whether that was the end. Only once: the other stream may be waited for
/// by whoever fills this one.
fn is_over(from: &PipeReader, piece: &mut [u8], to: &mut Vec<u8>) -> io::Result<bool> {
    match from.try_read(piece) {
        Ok(0) => Ok(true),
        Ok(count) => {
            to.extend_from_slice(&piece[..count]);
            Ok(false)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error says that it is nobody's to wait for.
        if matches!(self.exit.look(), Ok(None)) {
            if self.kills {
                // It fails only for a process that has become another user's.
                let _ = self.exit.send(Signal::KILL);
            }
            reaper::adopt(Arc::clone(&self.exit));
        }
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).finish_non_exhaustive()
    }
}
