//! The seam between a reactor and the kernel: what is asked of a selector, and its reports.
//!
//! Implemented by `epoll` and `polled`; used by the reactor, and by sockets, which ask for reports.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The directions of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// The findings about one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) key: usize,
    pub(crate) directions: Interest,
    /// The end of the stream, an error or urgent data was reported along.
    pub(crate) unsteady: bool,
}

/// Watches descriptors, each under a key.
pub(crate) trait Selector: Send + Sync {
    /// Watches a descriptor, at least in these directions; its delete comes before its close. One
    /// that is ready already is reported too.
    fn add(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()>;

    /// Watches the descriptor in these directions from now on; ready ones are reported at once. A
    /// selector that is [`one_shot`](Selector::one_shot) makes one report of them.
    fn arm(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()>;

    /// Stops watching.
    fn delete(&self, fd: BorrowedFd<'_>);

    /// Waits for reports, for [`notify`](Selector::notify), or for `timeout`; may return early and
    /// empty-handed, without a time-out if another thread waits. Each report is made to one of
    /// them. Answers whether there may be more.
    fn wait(&self, timeout: Option<Duration>, found: &mut Vec<Ready>) -> io::Result<bool>;

    /// The descriptor that becomes readable when there are reports, if there is such a descriptor.
    #[cfg(linux)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends the present or the next wait. From any thread.
    fn notify(&self);

    /// Whether a report has to be asked for each time.
    fn one_shot(&self) -> bool;

    /// Whether a report tells if the end of the stream, an error or urgent data has arrived.
    fn tells_end(&self) -> bool;
}
