//! Pseudo-terminals: a terminal with a program on its other side, and not a screen.
//!
//! Used to run programs that behave differently on a terminal, or need one: shells, editors,
//! password prompts.
//!
//! ```
//! use segue_io::{process, pty::Pty};
//! use std::io::Read;
//! use std::process::Command;
//!
//! let mut terminal = Pty::open()?;
//! let mut command = Command::new("sh");
//! terminal.attach(command.args(["-c", "test -t 0 && echo a terminal"]))?;
//! let mut child = process::spawn(&mut command)?;
//! drop(command); // It has the terminal's other side, too.
//!
//! let mut text = String::new();
//! terminal.read_to_string(&mut text)?;
//! assert_eq!(text, "a terminal\r\n");
//! assert!(child.wait()?.success());
//! # Ok::<(), std::io::Error>(())
//! ```
#![allow(unsafe_code)] // What a child does before it executes its program.

use super::bytes::{Descriptor, is_descriptor, reads, writes};
use super::ops::Manner;
use crate::system::sys::close_on_exec;
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcgetwinsize, tcsetwinsize};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::slice;

/// The controlling side of a pseudo-terminal.
///
/// Bytes that are written here are typed at the terminal, and echoed, if the terminal does so; the
/// output of programs is read here. A read yields `Ok(0)` when the last program has
/// closed the terminal; if a program opens the terminal again, reads go on.
///
/// `&Pty` reads and writes as well. When this is dropped, the terminal hangs up: the session that
/// the terminal controls gets `SIGHUP`.
///
/// # Cancellation
///
/// Reads and writes of a cancelled caller fail with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. If the terminal took
/// some bytes or all, a write returns how many.
pub struct Pty(Descriptor);

/// How large a terminal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// In lines of text.
    pub rows: u16,
    /// In letters.
    pub columns: u16,
}

/// The signals that a terminal sends to the processes under its control, unless told otherwise.
const FROM_TERMINALS: [libc::c_int; 6] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

impl Pty {
    /// Makes a pseudo-terminal. Never waits.
    ///
    /// # Errors
    /// If there are no terminals or no descriptors left.
    pub fn open() -> io::Result<Self> {
        let fd = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | flavour::CLOEXEC)?;
        close_on_exec(slice::from_ref(&fd))?;
        rustix::pty::grantpt(&fd)?;
        rustix::pty::unlockpt(&fd)?;
        Descriptor::own(fd, Manner::Master).map(Self)
    }

    /// A descriptor of the terminal itself, which blocks, as programs expect. The terminal does not
    /// become the controlling terminal of this process. Never waits.
    ///
    /// # Errors
    /// If there is no descriptor left.
    pub fn terminal(&self) -> io::Result<OwnedFd> {
        flavour::terminal(self)
    }

    /// Has a child run on the terminal: its input, output and errors are there, the child leads a
    /// session of its own under the terminal's control, and a Ctrl-C written here interrupts it,
    /// also where this process ignores the signals of terminals.
    ///
    /// The command keeps the terminal open until its drop; reads see no end before. Never
    /// waits.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn attach(&self, command: &mut Command) -> io::Result<()> {
        let terminal = self.terminal()?;
        command.stdin(Stdio::from(terminal.try_clone()?)).stdout(Stdio::from(terminal.try_clone()?));
        command.stderr(Stdio::from(terminal.try_clone()?));
        let lead = move || {
            // A shell's background jobs ignore some of these, and an ignored signal stays so in the
            // program that is executed.
            for signal in FROM_TERMINALS {
                // SAFETY: the signals exist, and their default actions are no code of ours.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(&terminal)?;
            Ok(())
        };
        // SAFETY: between the fork and the exec the closure makes system calls alone, with a
        // descriptor of its own, and none of them allocates or takes a lock.
        unsafe { command.pre_exec(lead) };
        Ok(())
    }

    /// The terminal's size. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(self)?;
        Ok(Size { rows: size.ws_row, columns: size.ws_col })
    }

    /// Sets the terminal's size; its foreground programs are told by `SIGWINCH`. Never waits.
    ///
    /// # Errors
    /// The kernel's error.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::pty::{Pty, Size};
    ///
    /// let terminal = Pty::open()?;
    /// terminal.set_size(Size { rows: 25, columns: 80 })?;
    /// assert_eq!(terminal.size()?.columns, 80);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_size(&self, size: Size) -> io::Result<()> {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self, size)?)
    }
}

reads!(Pty);
writes!(Pty);
is_descriptor!(Pty);

#[cfg(target_os = "linux")]
mod flavour {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};
    use std::io;
    use std::os::fd::OwnedFd;

    pub(super) const CLOEXEC: OpenptFlags = OpenptFlags::CLOEXEC;

    pub(super) fn terminal(pty: &super::Pty) -> io::Result<OwnedFd> {
        Ok(ioctl_tiocgptpeer(pty, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod flavour {
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, ptsname};
    use std::io;
    use std::os::fd::OwnedFd;

    /// There is no flag: a program that is executed at the wrong moment has the descriptor too.
    pub(super) const CLOEXEC: OpenptFlags = OpenptFlags::empty();

    pub(super) fn terminal(pty: &super::Pty) -> io::Result<OwnedFd> {
        let path = ptsname(pty, Vec::new())?;
        Ok(open(path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
    }
}
