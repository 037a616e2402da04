//! Linux's epoll, edge-triggered: a descriptor is registered once, for what can be read and for the
//! end of the stream; for room, when an op first waits for that.
//!
//! The native selector on Linux. A wait is one system call; the crate `polling` needs five, since
//! it re-arms a timer and its own wake-up descriptor each time.
//!
//! The wake-up descriptor is an eventfd that is edge-triggered too: each write to it is an edge of
//! its own, so that it never has to be read, save when its counter is full.

use super::reports::{Interest, Ready, Selector};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The key of the wake-up descriptor. The table of sockets never gives it out.
const WAKE: u64 = u64::MAX;
/// How many reports are fetched at a time: 3 KiB of them, on the worker's stack.
const EVENTS: usize = 256;
/// epoll rounds time-outs up to milliseconds. Shorter ones than this are waited for with `ppoll`,
/// which counts nanoseconds.
const COARSE: Duration = Duration::from_millis(10);
/// Longer than this is waited for in several turns.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Epoll {
    epoll: OwnedFd,
    wake: OwnedFd,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, wake })
    }
}

/// What is asked of a descriptor. It is told of its end in any case.
fn flags(interest: Interest) -> EventFlags {
    let end = EventFlags::RDHUP | EventFlags::PRI | EventFlags::ET;
    // Most sockets are never full: so a report of data is not one of room as well.
    if interest.write { end | EventFlags::IN | EventFlags::OUT } else { end | EventFlags::IN }
}

fn timespec(duration: Duration) -> Timespec {
    let duration = duration.min(LONGEST);
    // At most a day: the conversion can't fail.
    Timespec::try_from(duration).unwrap_or_default()
}

impl Selector for Epoll {
    fn add(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(key as u64), flags(interest))?)
    }

    fn arm(&self, fd: BorrowedFd<'_>, key: usize, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(key as u64), flags(interest))?)
    }

    fn delete(&self, fd: BorrowedFd<'_>) {
        // It fails only for a descriptor that is not registered, which is what was asked for.
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn wait(&self, mut timeout: Option<Duration>, found: &mut Vec<Ready>) -> io::Result<bool> {
        if let Some(fine) = timeout.filter(|time| !time.is_zero() && *time < COARSE) {
            match rustix::event::poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timespec(fine))) {
                Ok(0) | Err(Errno::INTR) => return Ok(false),
                Ok(_) => timeout = Some(Duration::ZERO),
                Err(error) => return Err(error.into()),
            }
        }
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut events[..], timeout.map(timespec).as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let is_full = events.len() == EVENTS;
        let (end, failed) = (EventFlags::RDHUP | EventFlags::PRI, EventFlags::HUP | EventFlags::ERR);
        found.extend(events.iter().filter(|event| event.data.u64() != WAKE).map(|event| {
            let flags = event.flags;
            Ready {
                key: event.data.u64() as usize,
                directions: Interest {
                    read: flags.intersects(EventFlags::IN | end | failed),
                    write: flags.intersects(EventFlags::OUT | failed),
                },
                unsteady: flags.intersects(end | failed),
            }
        }));
        Ok(is_full)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn notify(&self) {
        let one = 1_u64.to_ne_bytes();
        // It fails only when the counter is full; then it is emptied first. What was read was an
        // edge before.
        if rustix::io::write(&self.wake, &one) == Err(Errno::AGAIN) {
            let _ = rustix::io::read(&self.wake, &mut [0_u8; 8]);
            let _ = rustix::io::write(&self.wake, &one);
        }
    }

    fn one_shot(&self) -> bool {
        false
    }

    fn tells_end(&self) -> bool {
        true
    }
}
