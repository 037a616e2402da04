//! The selector over the crate `polling`: kqueue on macOS and the BSDs, and others elsewhere.
//!
//! The native selector where there is no epoll. On Linux it is there to be tested, with the feature
//! `polling`: with edges, and with one shot per question.
#![allow(unsafe_code)] // `polling` is told of descriptors by number; see `add`.

use super::reports::{Interest, Ready, Selector};
use polling::{Event, Events, PollMode, Poller};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

pub(super) struct Polled {
    poller: Poller,
    events: Mutex<Events>,
    mode: PollMode,
}

impl Polled {
    pub(super) fn new(one_shot: bool) -> io::Result<Self> {
        let poller = Poller::new()?;
        let mode = if !one_shot && poller.supports_edge() { PollMode::Edge } else { PollMode::Oneshot };
        Ok(Self { poller, events: Mutex::new(Events::new()), mode })
    }
}

impl Selector for Polled {
    fn add(&self, fd: BorrowedFd<'_>, key: usize, _interest: Interest) -> io::Result<()> {
        let interest = if self.one_shot() { Event::none(key) } else { Event::all(key) };
        // SAFETY: the descriptor must be deleted before it is closed. Only `Reactor::register`
        // calls this, for the descriptor of a `Socket`. Its `Drop` has the reactor delete the
        // descriptor, and closes it only after that. If the socket is forgotten, then the
        // descriptor stays open.
        unsafe { self.poller.add_with_mode(fd.as_raw_fd(), interest, self.mode) }
    }

    fn arm(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()> {
        if !self.one_shot() {
            return Ok(()); // It watches both directions.
        }
        self.poller.modify_with_mode(fd, Event::new(key, interest.read, interest.write), self.mode)
    }

    fn delete(&self, fd: BorrowedFd<'_>) {
        // It fails only for a descriptor that is not registered, which is what was asked for.
        let _ = self.poller.delete(fd);
    }

    fn wait(&self, timeout: Option<Duration>, found: &mut Vec<Ready>) -> io::Result<bool> {
        let mut events = match (self.events.try_lock(), timeout) {
            (Ok(events), _) => events,
            (Err(TryLockError::Poisoned(events)), _) => events.into_inner(),
            // Another thread waits.
            (Err(TryLockError::WouldBlock), Some(Duration::ZERO)) => return Ok(false),
            (Err(TryLockError::WouldBlock), _) => self.events.lock().unwrap_or_else(PoisonError::into_inner),
        };
        events.clear();
        self.poller.wait(&mut events, timeout)?;
        found.extend(events.iter().map(|event| Ready {
            key: event.key,
            directions: Interest { read: event.readable, write: event.writable },
            unsteady: false,
        }));
        Ok(false)
    }

    fn notify(&self) {
        // The one error there is comes from a descriptor that this poller owns.
        let _ = self.poller.notify();
    }

    fn one_shot(&self) -> bool {
        matches!(self.mode, PollMode::Oneshot)
    }

    fn tells_end(&self) -> bool {
        false
    }
}
