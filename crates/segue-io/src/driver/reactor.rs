//! The readiness driver: a table of sockets, a selector that tells which are ready, and the turn
//! that passes the reports on.
//!
//! A `DriverPark` has one, and the process shares one more; a socket registers when an op on it
//! has to wait.
//!
//! # References
//!
//! A socket holds its reactor, and the reactor's table only a weak reference to the socket, under
//! the key that the kernel has been given. So a socket that is dropped takes itself out of the
//! kernel and the table before its descriptor is closed, and an event that is still on its way
//! finds nothing, or the socket that has got the key since. That socket has one edge more: its ops
//! try again, and wait on. If the last handle of a socket is dropped during a report, the turn
//! drops the socket.
//!
//! # Locks
//!
//! A socket's place is locked before a reactor's table, never after. A turn locks the table to look
//! sockets up, releases it, and then reports: a report runs other people's code.
//!
//! # Open and closed
//!
//! A reactor is *open* while somebody takes its turns. One that is closed accepts nobody, and tells
//! all sockets in it to try again; their ops find the reactor closed and go to another.
//!
//! **The race to fear**: a socket that enters, or an op that waits, just after the close has told
//! everybody. This cannot happen: to enter and to close take the table's lock, so the socket is
//! told or turned away. An op that waits has read its tick before its look at `closed`; if that
//! look saw an open reactor, then the close tells the op later, and so the tick has changed.
//!
//! `closed` is stored (release) under the lock and loaded (acquire) without; a socket that enters
//! is ordered by the lock.

use super::outsiders::Outsiders;
use super::presence::Presence;
use crate::selector::{Backend, Interest, Ready, Selector};
use crate::system::fork::Birth;
use slab::Slab;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often in a row a look takes reports from a reactor that has more of them.
const TURNS: u32 = 64;

/// A socket, as its reactor sees the socket.
pub(crate) trait Watched: Send + Sync {
    /// The kernel says that directions have become ready. For the turn of the reactor.
    fn report(&self, ready: Ready);

    /// The reactor is closed: all waiters are to look for another.
    fn report_closed(&self);
}

pub(crate) struct Reactor {
    selector: Box<dyn Selector>,
    sockets: Mutex<Slab<Weak<dyn Watched>>>,
    /// How many there are, for a look without the lock.
    len: AtomicUsize,
    closed: AtomicBool,
    /// Where the worker is that takes its turns.
    pub(super) presence: Arc<Presence>,
    pub(super) outsiders: Outsiders,
    /// Whether this is the reactor of the process, with a thread that does nothing else.
    is_shared: bool,
    /// The process that has made the event queue.
    birth: Birth,
}

/// The findings of a turn, kept between turns for their memory.
#[derive(Default)]
pub(crate) struct Found {
    ready: Vec<Ready>,
    sockets: Vec<(Arc<dyn Watched>, Ready)>,
}

impl Reactor {
    /// A reactor that is closed as yet.
    pub(crate) fn new(backend: Backend) -> io::Result<Self> {
        Ok(Self {
            selector: backend.selector()?,
            sockets: Mutex::new(Slab::new()),
            len: AtomicUsize::new(0),
            closed: AtomicBool::new(true),
            presence: Arc::default(),
            outsiders: Outsiders::default(),
            is_shared: false,
            birth: Birth::now(),
        })
    }

    /// The same for one that the process shares.
    pub(crate) fn shared() -> io::Result<Self> {
        Ok(Self { is_shared: true, ..Self::new(Backend::Native)? })
    }

    /// The name of a worker's reactor, as long as the reactor exists: its address. Zero for a
    /// shared reactor.
    pub(crate) fn home(self: &Arc<Self>) -> usize {
        if self.is_shared { 0 } else { Arc::as_ptr(self).addr() }
    }

    pub(super) fn sockets(&self) -> MutexGuard<'_, Slab<Weak<dyn Watched>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel watch a socket. `None` if this reactor is closed.
    pub(crate) fn register(
        &self,
        socket: Weak<dyn Watched>,
        fd: BorrowedFd<'_>,
        interest: Interest,
    ) -> io::Result<Option<usize>> {
        let mut sockets = self.sockets();
        if self.is_closed() {
            return Ok(None);
        }
        let key = sockets.insert(socket);
        drop(sockets);
        self.len.fetch_add(1, Ordering::Relaxed);
        match self.selector.add(fd, key, interest) {
            Ok(()) => Ok(Some(key)),
            Err(error) => {
                self.forget(key);
                Err(error)
            }
        }
    }

    /// The opposite of [`register`](Reactor::register), while the descriptor is still open.
    pub(crate) fn deregister(&self, key: usize, fd: BorrowedFd<'_>) {
        // In the child of a fork that would take the socket from the parent's queue.
        if self.birth.is_here() {
            self.selector.delete(fd);
        }
        self.forget(key);
    }

    fn forget(&self, key: usize) {
        if self.sockets().try_remove(key).is_some() {
            self.len.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The descriptor that becomes readable when a turn would find something, if there is one.
    #[cfg(linux)]
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.selector.descriptor()
    }

    /// The kernel interface, for ops that arm a direction.
    pub(crate) fn selector(&self) -> &dyn Selector {
        &*self.selector
    }

    /// Whether no socket is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Relaxed) == 0
    }

    /// An error in the child of a fork, in which the event queue is the parent's.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.birth.is_here() { Ok(()) } else { Err(Birth::foreign()) }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Somebody takes turns from now on.
    pub(crate) fn open(&self) {
        let _sockets = self.sockets();
        self.closed.store(false, Ordering::Release);
    }

    /// Nobody takes turns any more: every op that waits is to look for another reactor.
    pub(crate) fn close(&self) {
        let sockets = self.sockets();
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let told: Vec<Arc<dyn Watched>> = sockets.iter().filter_map(|(_, socket)| socket.upgrade()).collect();
        drop(sockets);
        for socket in told {
            socket.report_closed();
        }
    }

    /// Waits for the kernel, and resumes the waiters of each socket that is reported. Answers
    /// whether there may be more.
    ///
    /// # Panics
    /// As for [`take`](Reactor::take).
    #[must_use]
    pub(crate) fn turn(&self, found: &mut Found, timeout: Option<Duration>) -> bool {
        let is_full = self.take(found, timeout);
        self.report(found);
        is_full
    }

    /// The first half of a [`turn`](Reactor::turn): waits for the kernel. The second half follows,
    /// on the same thread. Several threads may take turns at once.
    ///
    /// # Panics
    /// If the kernel refuses to wait: only when somebody closed the reactor's descriptors.
    #[must_use]
    #[inline]
    pub(crate) fn take(&self, found: &mut Found, timeout: Option<Duration>) -> bool {
        self.selector.wait(timeout, &mut found.ready).unwrap_or_else(|error| {
            panic!("the kernel's event queue can't be waited on: {error}; was its descriptor closed by foreign code?")
        })
    }

    /// The second half: resumes the waiters of the sockets that were found.
    #[inline]
    pub(crate) fn report(&self, found: &mut Found) {
        if found.ready.is_empty() {
            return;
        }
        let sockets = self.sockets();
        for ready in found.ready.drain(..) {
            if let Some(socket) = sockets.get(ready.key).and_then(Weak::upgrade) {
                found.sockets.push((socket, ready));
            }
        }
        drop(sockets);
        for (socket, ready) in found.sockets.drain(..) {
            socket.report(ready);
        }
    }

    /// Takes all reports, without waiting. Answers whether that was the end of them; if not, the
    /// rest is for the next look.
    pub(super) fn empty(&self, found: &mut Found) -> bool {
        (0..TURNS).any(|_| !self.turn(found, Some(Duration::ZERO)))
    }

    /// Ends the present or the next turn's wait. From any thread.
    pub(crate) fn notify(&self) {
        self.selector.notify();
    }
}
