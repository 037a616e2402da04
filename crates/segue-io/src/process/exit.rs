//! The end of a child: how it is waited for, and what it leaves behind.
//!
//! Used by `child` and by the reaper, which share one [`Exit`] for each child.
//!
//! # The idea
//!
//! A child that has ended is a *zombie* until its parent asks for its status, once; then its number
//! may be given to another process. Here whoever looks first asks, and keeps the answer.
//!
//! ```text
//!   running ---the kernel---> zombie ---look: waitid says the status---> known
//!      |  ^                     \---somebody else has asked------------> lost
//!      v  |
//!    stopped
//! ```
//!
//! | | with a pidfd | without |
//! | --- | --- | --- |
//! | the wait | the pidfd becomes readable when the process ends | `SIGCHLD` rings a bell of the child's own |
//! | the look | `waitid` by the pidfd | `waitpid` by the number |
//! | a signal | by the pidfd | by the number, under the lock and only while the status isn't known |
//!
//! A pidfd stands for that process also when its number has gone to another: so if somebody else in
//! this process waits for children of any number, or `SIGCHLD` is ignored, nobody wrong is waited
//! for or killed. The status is lost then, and each wait says so.
//!
//! **Commit point**: the look that finds the status. It is kept, so every later wait has it too.
//! **Cancellation**: a wait that ends early has taken nothing. **The race to fear**: the end comes
//! between a look in vain and the wait. The ticks of `readiness` see to it, as for data; and the
//! bell is heard *before* the look, so that an end which the look has missed rings it again.

use crate::op::{Half, Op};
use crate::signal::{Signal, Signals};
use crate::socket::Socket;
use rustix::process::{Pid, WaitOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Exit {
    pid: Pid,
    way: Way,
    status: Mutex<Option<ExitStatus>>,
}

enum Way {
    #[cfg(target_os = "linux")]
    Pidfd(Arc<Socket>),
    Signals(Signals),
}

impl Exit {
    /// Of a child that nobody has waited for yet.
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        Ok(Self { pid, way: Way::best(pid)?, status: Mutex::new(None) })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    pub(super) fn socket(&self) -> &Arc<Socket> {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Pidfd(pidfd) => pidfd,
            Way::Signals(signals) => signals.bell().socket(),
        }
    }

    /// The status, if the child has ended.
    pub(super) fn look(&self) -> io::Result<Option<ExitStatus>> {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_none() {
            *status = self.way.ask(self.pid).map_err(explained)?;
        }
        Ok(*status)
    }

    /// Sends a signal. A child that has ended takes no notice.
    pub(super) fn send(&self, signal: Signal) -> io::Result<()> {
        let signal = signal.named()?;
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.is_some() {
            return Ok(());
        }
        let sent = match &self.way {
            #[cfg(target_os = "linux")]
            Way::Pidfd(pidfd) => rustix::process::pidfd_send_signal(pidfd.io(), signal),
            Way::Signals(_) => rustix::process::kill_process(self.pid, signal),
        };
        match sent {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => Ok(sent?),
        }
    }
}

impl AsFd for Exit {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().io().as_fd()
    }
}

impl Way {
    #[cfg(target_os = "linux")]
    fn best(pid: Pid) -> io::Result<Self> {
        use rustix::io::Errno;
        use rustix::process::{PidfdFlags, pidfd_open};
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Way::Pidfd(Socket::new(pidfd.into()))),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error.into()),
            // Too old, denied; or it has gone already, of which the first look will tell.
            Err(_) => Self::by_signal(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn best(_pid: Pid) -> io::Result<Self> {
        Self::by_signal()
    }

    fn by_signal() -> io::Result<Self> {
        Signals::new(Signal::CHLD).map(Way::Signals)
    }

    fn ask(&self, pid: Pid) -> rustix::io::Result<Option<ExitStatus>> {
        match self {
            #[cfg(target_os = "linux")]
            Way::Pidfd(pidfd) => {
                use rustix::process::{WaitId, WaitIdOptions, waitid};
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                Ok(waitid(WaitId::PidFd(pidfd.io().as_fd()), options)?.map(|ended| {
                    let code = ended.exit_status().map(|code| (code & 0xff) << 8);
                    let core = if ended.dumped() { 0x80 } else { 0 };
                    let raw = code.or(ended.terminating_signal().map(|signal| signal | core));
                    ExitStatus::from_raw(raw.unwrap_or_default())
                }))
            }
            Way::Signals(signals) => {
                signals.bell().hear();
                let ended = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG)?;
                Ok(ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())))
            }
        }
    }
}

#[cold]
fn explained(error: rustix::io::Errno) -> io::Error {
    if error != rustix::io::Errno::CHILD {
        return error.into();
    }
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
mod tests {
    use super::*;
    use crate::driver;
    use std::process::{Command, Stdio};

    /// As where there is no pidfd.
    fn without_pidfd(child: &std::process::Child) -> Exit {
        let pid = Pid::from_child(child);
        Exit { pid, way: Way::by_signal().unwrap(), status: Mutex::new(None) }
    }

    #[test]
    fn without_a_pidfd_the_end_comes_with_a_signal() {
        segue_sched::Builder::new()
            .workers(1)
            .park(crate::DriverPark::new)
            .run(|| {
                let mut cats: Vec<_> = (0..50)
                    .map(|_| Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
                    .collect();
                let exits: Vec<_> = cats.iter().map(without_pidfd).collect();
                segue_core::scope(|s| {
                    let waits = |exit| driver::run(Exit::socket(exit), Ends(exit), None).unwrap();
                    let all: Vec<_> = exits.iter().map(|exit| s.spawn(move || waits(exit))).collect();
                    // They wait by now; and the odd ones are killed, the even ones end.
                    segue_core::yield_now().unwrap();
                    for (number, (cat, exit)) in cats.iter_mut().zip(&exits).enumerate() {
                        assert_eq!(exit.look().unwrap(), None);
                        if number % 2 == 1 { exit.send(Signal::KILL).unwrap() } else { drop(cat.stdin.take()) }
                    }
                    for (number, ended) in all.into_iter().enumerate() {
                        let status = ended.join().unwrap();
                        assert_eq!(status.signal(), (number % 2 == 1).then_some(9));
                        assert_eq!(status.success(), number % 2 == 0);
                    }
                });
                assert!(exits.iter().all(|exit| exit.send(Signal::KILL).is_ok()), "an end is no error");
            })
            .unwrap();
    }
}
