//! The end of a child: the wait, and the zombie and the group that stay behind.
//!
//! Used by `child` and by the reaper, which share one [`Exit`] for each child.
//!
//! # The idea
//!
//! A child that has ended is a *zombie* until its parent asks for its status, once; then its number
//! may be given to another process. Here the first look asks, and keeps the answer.
//!
//! ```text
//!   running ---the kernel---> zombie ---look: waitid says the status---> ended
//!      |  ^                     \---somebody else has asked------------> lost
//!      v  |
//!    stopped
//! ```
//!
//! | | with a pidfd | without |
//! | --- | --- | --- |
//! | the wait | the pidfd becomes readable when the process ends | `SIGCHLD` rings a bell of the child's own |
//! | the look | `waitid` by the pidfd | `waitid` by the number |
//! | a signal | by the pidfd | by the number, under the lock and only before the end |
//! | one to its group | by the number, under the lock and while the child is running or a zombie | the same |
//!
//! A pidfd stands for that process also when its number has gone to another: so if somebody else in
//! this process waits for children of any number, or `SIGCHLD` is ignored, nobody wrong is waited
//! for or killed. The status is lost then, and each wait says so.
//!
//! # A group
//!
//! has the number of its leader, and may outlive the leader: the members that the leader has
//! started. The kernel gives that number to nobody else as long as there is a member, or the leader
//! has not been asked for its status. So a leader's status is only looked at (`WNOWAIT`), and its
//! zombie stays until this is dropped: till then the number stands for this group or for none, and
//! a signal can hit nobody else. If somebody else has taken the zombie, the look before a signal
//! says so, and the group is lost. A child leads a group if so at its spawn.
//!
//! # `SIGCHLD` that is ignored
//!
//! is a setting of the whole program, by which the kernel keeps no zombie of any child. A handler
//! would end that for good, also for children that this library knows nothing of. So none is
//! installed where there are pidfds: such a child is waited for by its pidfd, which becomes
//! readable, and then its status is lost; with it goes the number of a group. A child that has
//! ended, and lost its number, before its pidfd was opened is lost from the beginning, and needs
//! nothing to wait by. Without pidfds (an old kernel, a filter of system calls) there is only the
//! handler.
//!
//! **Commit point**: the look that finds the status, which is kept for every later wait.
//! **Cancellation**: a wait that ends early has taken nothing. **The race to fear**: the end comes
//! between a look in vain and the wait. The ticks of `readiness` cover that, as for data; and the
//! bell is heard *before* the look, so that an end which the look has missed rings the bell again.
//! The look that finds the end has heard the bell for all that wait: it rings again, for good.

use crate::driver::bell::Bell;
use crate::driver::op::Op;
use crate::driver::readiness::Half;
use crate::driver::socket::Socket;
use crate::signal::{Signal, Signals};
use crate::system::whole::as_fd;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Exit {
    pid: Pid,
    way: Way,
    /// Whether the child leads a process group.
    leads: bool,
    state: Mutex<State>,
}

enum Way {
    #[cfg(pidfds)]
    Pidfd(Arc<Socket>),
    Signals(Signals),
    /// Lost before any watch. The bell never rings: each look tells.
    #[cfg(pidfds)]
    Gone(Bell),
}

/// The state of a child, as far as known.
#[derive(Clone, Copy)]
enum State {
    Runs,
    /// The owner of the child may have been told, or not.
    Ended {
        status: ExitStatus,
        told: bool,
    },
    /// Somebody else has asked for the status, or nobody keeps that.
    Lost,
}

impl Exit {
    /// Of a child that nobody has waited for yet.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        let leads = rustix::process::getpgid(Some(pid)) == Ok(pid);
        Ok(Self { pid, way: Way::best(pid)?, leads, state: Mutex::new(State::Runs) })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        match &self.way {
            #[cfg(pidfds)]
            Way::Pidfd(pidfd) => pidfd,
            Way::Signals(signals) => signals.bell().socket(),
            #[cfg(pidfds)]
            Way::Gone(bell) => bell.socket(),
        }
    }

    /// The status, if the child has ended, for the owner of the child.
    pub(super) fn look(&self) -> io::Result<Option<ExitStatus>> {
        match &mut *self.now()? {
            State::Runs => Ok(None),
            State::Ended { status, told } => {
                *told = true;
                Ok(Some(*status))
            }
            State::Lost => Err(lost()),
        }
    }

    /// Whether the child runs, as far as one can tell.
    pub(super) fn runs(&self) -> bool {
        self.now().is_ok_and(|state| matches!(*state, State::Runs))
    }

    /// Kills the child, with its group if there is one, unless its end was told of.
    pub(super) fn kill_untold(&self) {
        if self.now().is_ok_and(|state| matches!(*state, State::Runs | State::Ended { told: false, .. })) {
            // This fails only for a process that has become another user's.
            let _ = if self.leads { self.send_to_group(Signal::KILL) } else { self.send(Signal::KILL) };
        }
    }

    /// The state of the child, asked of the kernel while the child runs.
    fn now(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Runs = *state {
            self.way.bell().map(Bell::hear);
            match self.way.ask(self.pid, self.leads) {
                Ok(None) => {}
                Ok(Some(status)) => *state = State::Ended { status, told: false },
                Err(Errno::CHILD) => *state = State::Lost,
                Err(error) => return Err(error.into()),
            }
            if !matches!(*state, State::Runs) {
                // The others that wait see the end, too, and so does one that comes later.
                self.way.bell().inspect(|bell| bell.ring());
            }
        }
        Ok(state)
    }

    /// Sends a signal. A child that has ended takes no notice.
    pub(super) fn send(&self, signal: Signal) -> io::Result<()> {
        let signal = signal.named()?;
        let state = self.now()?;
        if !matches!(*state, State::Runs) {
            return Ok(());
        }
        let sent = match &self.way {
            #[cfg(pidfds)]
            Way::Pidfd(pidfd) => rustix::process::pidfd_send_signal(pidfd.io(), signal),
            _ => rustix::process::kill_process(self.pid, signal),
        };
        sent_if_there(sent)
    }

    /// Sends a signal to the group of this leader, also after the leader's end.
    pub(super) fn send_to_group(&self, signal: Signal) -> io::Result<()> {
        let signal = signal.named()?;
        let state = self.now()?;
        match *state {
            State::Lost => Err(lost()),
            _ if !self.leads => Err(io::Error::new(
                ErrorKind::InvalidInput,
                "this child leads no process group: `process_group(0)` of its `Command` makes one",
            )),
            // Its zombie was seen, and may have gone since.
            State::Ended { .. } if self.way.ask(self.pid, true) == Err(Errno::CHILD) => Err(lost()),
            _ => sent_if_there(rustix::process::kill_process_group(self.pid, signal)),
        }
    }
}

/// A leader's zombie goes, with the number of its group.
impl Drop for Exit {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if self.leads && matches!(state, State::Ended { .. }) {
            let _ = self.way.ask(self.pid, false);
        }
    }
}

/// A process that has ended takes no notice.
fn sent_if_there(sent: rustix::io::Result<()>) -> io::Result<()> {
    match sent {
        Err(Errno::SRCH) => Ok(()),
        sent => Ok(sent?),
    }
}

as_fd!([] Exit, |it| it.socket().io());

impl Way {
    #[cfg(pidfds)]
    fn best(pid: Pid) -> io::Result<Self> {
        use rustix::process::{PidfdFlags, pidfd_open};
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Way::Pidfd(Socket::new(pidfd.into()))),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
            Err(Errno::SRCH) => Bell::new().map(Way::Gone),
            // Too old, or denied.
            Err(_) => Self::by_signal(),
        }
    }

    #[cfg(not(pidfds))]
    fn best(_pid: Pid) -> io::Result<Self> {
        Self::by_signal()
    }

    fn by_signal() -> io::Result<Self> {
        Signals::new(Signal::CHLD).map(Way::Signals)
    }

    /// The bell that has to be heard before a look.
    fn bell(&self) -> Option<&Bell> {
        match self {
            #[cfg(pidfds)]
            Way::Pidfd(_) | Way::Gone(_) => None,
            Way::Signals(signals) => Some(signals.bell()),
        }
    }

    /// The status, if the child has ended; whether its zombie stays is said.
    fn ask(&self, pid: Pid, stays: bool) -> rustix::io::Result<Option<ExitStatus>> {
        let child = match self {
            #[cfg(pidfds)]
            Way::Pidfd(pidfd) => WaitId::PidFd(std::os::fd::AsFd::as_fd(pidfd.io())),
            Way::Signals(_) => WaitId::Pid(pid),
            #[cfg(pidfds)]
            Way::Gone(_) => return Err(Errno::CHILD),
        };
        let mut options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        options.set(WaitIdOptions::NOWAIT, stays);
        Ok(waitid(child, options)?.map(|ended| {
            let code = ended.exit_status().map(|code| (code & 0xff) << 8);
            let core = if ended.dumped() { 0x80 } else { 0 };
            let raw = code.or(ended.terminating_signal().map(|signal| signal | core));
            ExitStatus::from_raw(raw.unwrap_or_default())
        }))
    }
}

#[cold]
fn lost() -> io::Error {
    io::Error::new(
        ErrorKind::NotFound,
        "the status of this child is lost: other code in this process has waited for it (waitpid of any child), \
         or SIGCHLD is ignored",
    )
}

/// Waits for the end.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a>(pub(super) &'a Exit);

impl Op for Ends<'_> {
    type Output = ExitStatus;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "the end of a process";

    fn attempt(&mut self, _socket: &Socket) -> io::Result<ExitStatus> {
        self.0.look()?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
#[path = "../../tests/units/exit.rs"]
mod tests;
