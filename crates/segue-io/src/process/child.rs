//! A child, with its pipes.
//!
//! Used by programs. `exit` has the wait for its end, `reaper` the wait for abandoned ones.

use super::exit::{Ends, Exit};
use super::reaper;
use crate::descriptor::pipe::{PipeReader, PipeWriter};
use crate::driver::op::Op;
use crate::driver::run::{run, source};
use crate::signal::Signal;
use rustix::process::Pid;
use segue_core::{Either, Source, Waitable, WaitsFor};
use std::io::{self, ErrorKind, Read};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;

/// The room of a pipe on Linux.
const PIECE: usize = 64 << 10;

/// A process that this one has started.
///
/// # Its end
///
/// A child ends with its process, and not when its pipes are closed; one that is stopped has
/// not ended. Its status is kept: every wait yields the same, also for a child that has died before
/// anybody waited.
///
/// # Drop
///
/// The process goes on, unless the child was told [otherwise](Self::kill_on_drop). In either case
/// no zombie stays: a thread of the library's, which lives as long as there are such children,
/// waits for its end. Pipes that are still in the child are closed.
///
/// # Its children
///
/// Processes that a child has started itself go on after its end, however that comes. Those of a
/// shell's script, for one, can be ended together if they are a *process group*: std's
/// [`process_group(0)`](std::os::unix::process::CommandExt::process_group) of the `Command` has the
/// child lead one, to which they belong unless they leave it. Then [`kill_group`](Self::kill_group)
/// and [`send_to_group`](Self::send_to_group) reach all of them, also those that are left when the
/// child has ended; and where [dropping](Self::kill_on_drop) or a cancelled [`output`] kills the
/// child, the group is killed. A group of its own gets no Ctrl-C from the terminal.
///
/// So that its number stays that of this group, the zombie of such a child stays until this is
/// dropped.
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
/// With an ignored `SIGCHLD` a wait still lasts until the end; and a group without its leader
/// can't be told from others any more, so that no signal reaches the group.
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
    /// The child's input, if the `Command` says [`Stdio::piped`].
    pub stdin: Option<PipeWriter>,
    /// The child's output, likewise.
    pub stdout: Option<PipeReader>,
    /// Its errors, likewise.
    pub stderr: Option<PipeReader>,
    exit: Arc<Exit>,
    kills: bool,
}

/// Starts a child, as [`Command::spawn`] does. Never waits for other fibers; but the start blocks
/// the worker until the child's program is executed, for about a millisecond if its file is at
/// hand. Whether the caller was cancelled is not looked at.
///
/// # Errors
/// Those of [`Command::spawn`]. If there is no descriptor left to wait by, the child is killed.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    segue_core::preemption_point();
    let mut child = command.spawn()?;
    Child::adopt(&mut child).inspect_err(|_| {
        // The child has just been started, and nobody else knows it.
        let _ = child.kill();
        let _ = child.wait();
    })
}

/// Runs a child to its end. Streams that the `Command` doesn't name are inherited, as with
/// [`Command::status`].
///
/// # Cancellation
/// *May already have happened*: the child was started; the child is killed, with [its
/// group](Child#its-children) if there is one.
///
/// # Errors
/// Those of [`spawn`] and [`Child::wait`].
#[track_caller]
pub fn status(command: &mut Command) -> io::Result<ExitStatus> {
    segue_core::check()?;
    spawn(command)?.kill_on_drop(true).wait()
}

/// Runs a child to its end and collects its output and its errors, also if the `Command` has
/// others for these. The child's input is that of the `Command`, and inherited if the `Command` has
/// none; with [`Command::output`] the input would be empty then.
///
/// [`Child::wait_with_output`] collects from the streams that were piped, and
/// [`Child::wait_with_output_into`] keeps the bytes that come before a time limit.
///
/// # Cancellation
/// *May already have happened*: the child was started; the child is killed, with [its
/// group](Child#its-children) if there is one.
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

    /// Says whether the process is killed when this is dropped before its end was told of, by a
    /// wait or [`try_wait`](Self::try_wait). If the child leads a process group, that is killed;
    /// otherwise processes that the child has started itself are not. See [its
    /// children](Self#its-children).
    pub fn kill_on_drop(mut self, kills: bool) -> Self {
        self.kills = kills;
        self
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.exit.pid().as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for the child's end. Its standard input is closed first, if that is still here.
    ///
    /// # Cancellation
    /// *No effect*, but that its input is closed.
    ///
    /// # Errors
    /// That of a cancelled caller; that the status is [lost](Self#errors).
    #[track_caller]
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        run(self.exit.socket(), Ends(&self.exit), None)
    }

    /// The status, if the child has ended. Never waits.
    ///
    /// # Errors
    /// That the status is [lost](Self#errors).
    pub fn try_wait(&self) -> io::Result<Option<ExitStatus>> {
        segue_core::preemption_point();
        self.exit.look()
    }

    /// [`wait`](Self::wait) for tasks and choices, which closes nothing.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// Yields that the status is [lost](Self#errors).
    #[track_caller]
    pub fn exit_source(&self) -> Waitable<impl Source<Output = io::Result<ExitStatus>>> {
        source(self.exit.socket(), Ends(&self.exit), WaitsFor::new(Ends::WAITS_FOR))
    }

    /// Collects the child's output from the streams that are piped, both at once, and waits for the
    /// end. The child's standard input is closed first, if that is still here.
    ///
    /// The output of processes that the child has started belongs to the child's: this waits until
    /// the last of them has closed the streams.
    ///
    /// # Cancellation
    /// *May already have happened*: the bytes that were read are lost with the child, which is
    /// dropped. [`wait_with_output_into`](Self::wait_with_output_into) loses nothing.
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
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = self.wait_with_output_into(&mut stdout, &mut stderr)?;
        Ok(Output { status, stdout, stderr })
    }

    /// [`wait_with_output`](Self::wait_with_output) into buffers of the caller's, to which bytes
    /// are appended as they come: so these stay also if this fails, and another call goes on from
    /// there.
    ///
    /// A stream that is not piped, or has come to its end, leaves its buffer alone; one that has
    /// come to its end is closed.
    ///
    /// # Cancellation
    /// *No effect* but that the input is closed: bytes that were read are in the buffers, the rest
    /// in the streams, and the child goes on.
    ///
    /// # Errors
    /// Those of reads and of [`wait`](Self::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::timeout;
    /// use segue_io::process::{self, Command, Stdio};
    /// use std::io::ErrorKind;
    /// use std::time::Duration;
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "echo begun; exec sleep 60"]).stdout(Stdio::piped());
    /// let mut child = process::spawn(&mut command)?.kill_on_drop(true);
    /// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    /// while stdout.is_empty() {
    ///     let limit = Duration::from_millis(1);
    ///     let ended = timeout(limit, || child.wait_with_output_into(&mut stdout, &mut stderr));
    ///     assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
    /// }
    /// assert_eq!(stdout, b"begun\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn wait_with_output_into(&mut self, stdout: &mut Vec<u8>, stderr: &mut Vec<u8>) -> io::Result<ExitStatus> {
        self.stdin = None;
        let mut piece = Vec::new();
        while let (Some(first), Some(second)) = (&self.stdout, &self.stderr) {
            piece.resize(PIECE, 0);
            let (ready, from, to) = match first.readable_source().or(second.readable_source()).wait()? {
                Either::Left(ready) => (ready, &mut self.stdout, &mut *stdout),
                Either::Right(ready) => (ready, &mut self.stderr, &mut *stderr),
            };
            ready?;
            take_some(from, &mut piece, to)?;
        }
        for (from, to) in [(&mut self.stdout, stdout), (&mut self.stderr, stderr)] {
            if let Some(rest) = from {
                rest.read_to_end(to)?;
                *from = None;
            }
        }
        self.wait()
    }

    /// Kills the process, which is not asked. The process has ended only after a wait. No effect on
    /// one that has ended. Never waits.
    ///
    /// # Errors
    /// The kernel's error: `PermissionDenied` if the process has become another user's.
    pub fn kill(&self) -> io::Result<()> {
        self.send(Signal::KILL)
    }

    /// Sends a signal to the process. No effect on one that has ended. Never waits.
    ///
    /// Real-time signals have no names, and the C library keeps some of them for itself: this does
    /// not send them. `libc::kill(child.id(), number)` does, as long as nobody has waited for the
    /// child: before that its number is nobody else's.
    ///
    /// # Errors
    /// As for [`kill`](Self::kill); `InvalidInput` for a number that is no signal with a name, a
    /// real-time signal for instance.
    pub fn send(&self, signal: Signal) -> io::Result<()> {
        segue_core::preemption_point();
        self.exit.send(signal)
    }

    /// Kills the process and all others of the [group](Self#its-children) of this leader, which are
    /// not asked; also after the leader's end. No effect on an empty group. Never waits.
    ///
    /// # Errors
    /// As for [`send_to_group`](Self::send_to_group).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::process::{self, Command, Stdio};
    /// use std::io::Read;
    /// use std::os::unix::process::CommandExt;
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "sleep 60 & exit 3"]).stdout(Stdio::piped()).process_group(0);
    /// let mut child = process::spawn(&mut command)?;
    /// assert_eq!(child.wait()?.code(), Some(3));
    /// child.kill_group()?;
    /// // The one that was left has gone, too, so its output has come to an end.
    /// assert_eq!(child.stdout.take().unwrap().read(&mut [0])?, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn kill_group(&self) -> io::Result<()> {
        self.send_to_group(Signal::KILL)
    }

    /// Sends a signal to the process and all others of the [group](Self#its-children) of this
    /// leader, also after the leader's end. Never waits.
    ///
    /// # Errors
    /// `InvalidInput` for a child that leads no group, and for a number that is no signal with a
    /// name; that the status is [lost](Self#errors), and the group with it; the kernel's error:
    /// `PermissionDenied` if all of the group have become another user's.
    pub fn send_to_group(&self, signal: Signal) -> io::Result<()> {
        segue_core::preemption_point();
        self.exit.send_to_group(signal)
    }
}

/// Reads the bytes that are there, and drops the pipe at its end.
fn take_some(from: &mut Option<PipeReader>, piece: &mut [u8], to: &mut Vec<u8>) -> io::Result<()> {
    match from.as_ref().map_or(Ok(0), |from| from.try_read(piece)) {
        Ok(0) => *from = None,
        Ok(count) => to.extend_from_slice(&piece[..count]),
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.kills {
            self.exit.kill_untold();
        }
        if self.exit.runs() {
            reaper::adopt(Arc::clone(&self.exit));
        }
    }
}

segue_core::impl_debug!([] Child, |it| id: it.id());
