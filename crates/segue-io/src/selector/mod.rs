//! What tells a reactor which sockets are ready: one trait, and the kernel interfaces behind it.
//!
//! Used by the reactor alone. [`Backend`] is the public choice.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
#[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
mod polled;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The directions of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// What was found out about one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) key: usize,
    pub(crate) directions: Interest,
    /// The end of the stream, an error or urgent data was reported with it.
    pub(crate) unsteady: bool,
}

/// Watches descriptors, each under a key.
pub(crate) trait Selector: Send + Sync {
    /// Watches a descriptor, at least in these directions; it is deleted again before it is closed.
    /// One that is ready already is reported too.
    fn add(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()>;

    /// Watches it in these directions from now on; what is ready already is reported. A selector
    /// that is [`one_shot`](Selector::one_shot) makes one report of them.
    fn arm(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()>;

    /// Stops watching.
    fn delete(&self, fd: BorrowedFd<'_>);

    /// Waits for reports, for [`notify`](Selector::notify), or for `timeout`; may return early and
    /// empty-handed. One thread at a time.
    fn wait(&self, timeout: Option<Duration>, found: &mut Vec<Ready>) -> io::Result<()>;

    /// Ends the present or the next wait. From any thread.
    fn notify(&self);

    /// Whether a report has to be asked for each time.
    fn one_shot(&self) -> bool;

    /// Whether a report tells if the end of the stream, an error or urgent data is among what has
    /// arrived.
    fn tells_end(&self) -> bool;
}

/// The kernel interface that a [`DriverPark`](crate::DriverPark) waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// The best one of this system: epoll, directly, on Linux; elsewhere `Polling`.
    #[default]
    Native,
    /// Whatever the crate `polling` uses here, edge-triggered where it can. On Linux with the
    /// feature `polling`.
    #[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
    Polling,
    /// The same, where every wait asks anew for one report: what is left where there are no edges.
    #[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
    PollingOneShot,
}

impl Backend {
    pub(crate) fn selector(self) -> io::Result<Box<dyn Selector>> {
        Ok(match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Backend::Native => Box::new(epoll::Epoll::new()?),
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            Backend::Native => Box::new(polled::Polled::new(false)?),
            #[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
            Backend::Polling => Box::new(polled::Polled::new(false)?),
            #[cfg(any(feature = "polling", not(any(target_os = "linux", target_os = "android"))))]
            Backend::PollingOneShot => Box::new(polled::Polled::new(true)?),
        })
    }
}
