//! A socket with its two directions and its place in a reactor.
//!
//! Owned by the listeners and streams of `net` (clones share a socket); known to its reactor,
//! weakly.
//!
//! # Its place
//!
//! A socket has no place until an op must wait for the first time: then the socket registers with
//! the driver of that op's caller, once, for reading; for writing as well from the first op on that
//! has to wait for room. The socket stays there until its drop, or until an op finds that reactor
//! closed and moves the socket. A wait there from elsewhere is an outsider (`outsiders.rs`).
//!
//! With a selector that reports once per question, `armed` are the directions that ops have asked
//! for. The kernel forgets all of a socket's questions with each report, so the report asks for
//! the rest again. Questions are put under the lock of the place, in which `armed` is kept: so the
//! last question put names every direction that is armed. A report takes its directions out of
//! `armed` first and adds to the ticks second; an op that armed in between is told by that tick,
//! and asks again.

use super::looks::Outsider;
use super::reactor::{Reactor, Watched};
use super::readiness::{Direction, Half};
use super::settled::Settled;
use super::workers;
#[cfg(linux)]
use crate::ring::{self, Limited};
use crate::selector::{Interest, Ready};
use segue_core::drivers::{LazyTimer, TimeLimited};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

pub(crate) struct Socket {
    io: socket2::Socket,
    place: Mutex<Option<Place>>,
    settled: Settled,
    /// Which worker's reactor the place is in: its address; zero for the shared one, or none.
    home: AtomicUsize,
    /// Whether the place's selector tells the end of a stream from data; false without a place.
    tells_end: AtomicBool,
    /// By the number of the half, and so are the time-outs.
    directions: [Direction; 2],
    timeouts: [Timeout; 2],
    /// The flights that have the time limits of the directions.
    #[cfg(linux)]
    limited: [Limited; 2],
    /// Whether the last completion said that there was more to read.
    #[cfg(linux)]
    expects_data: AtomicBool,
}

struct Place {
    reactor: Arc<Reactor>,
    key: usize,
    armed: Interest,
}

impl Socket {
    /// Takes over a socket that does not block.
    pub(crate) fn new(io: socket2::Socket) -> Arc<Self> {
        Arc::new(Self {
            io,
            place: Mutex::new(None),
            settled: Settled::default(),
            home: AtomicUsize::new(0),
            tells_end: AtomicBool::new(false),
            directions: [Direction::new(), Direction::new()],
            timeouts: [Timeout::default(), Timeout::default()],
            #[cfg(linux)]
            limited: [Limited::default(), Limited::default()],
            #[cfg(linux)]
            expects_data: AtomicBool::new(false),
        })
    }

    #[inline]
    pub(crate) fn io(&self) -> &socket2::Socket {
        &self.io
    }

    #[inline]
    pub(crate) fn direction(&self, half: Half) -> &Direction {
        &self.directions[half as usize]
    }

    #[inline]
    pub(crate) fn timeout(&self, half: Half) -> &Timeout {
        &self.timeouts[half as usize]
    }

    #[cfg(linux)]
    #[inline]
    pub(crate) fn limited(&self, half: Half) -> &Limited {
        &self.limited[half as usize]
    }

    /// A guess, which orders nothing.
    #[cfg(linux)]
    #[inline]
    pub(crate) fn expects_data(&self) -> bool {
        self.expects_data.load(Ordering::Relaxed)
    }

    #[cfg(linux)]
    #[inline]
    pub(crate) fn expect_data(&self, expects: bool) {
        if self.expects_data() != expects {
            self.expects_data.store(expects, Ordering::Relaxed);
        }
    }

    /// Relaxed: the word is set before the socket is known to a reactor, and the reactor's reports
    /// order the word (see `readiness`); earlier than that, nothing is reported and `false` is
    /// right.
    #[inline]
    pub(crate) fn tells_end(&self) -> bool {
        self.tells_end.load(Ordering::Relaxed)
    }

    /// Has edges of these directions reported. The caller has read its tick
    /// before.
    #[inline]
    pub(crate) fn enlist(self: &Arc<Self>, interest: Interest) -> io::Result<()> {
        if self.settled.has(interest) { Ok(()) } else { self.ask(interest) }
    }

    /// Asks for edges, at the socket's place or at a new one.
    fn ask(self: &Arc<Self>, interest: Interest) -> io::Result<()> {
        let mut slot = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.settled.before();
        if let Some(closed) = slot.take_if(|place| place.reactor.is_closed()) {
            closed.reactor.deregister(closed.key, self.io.as_fd());
        }
        let place = match &mut *slot {
            Some(place) => {
                place.reactor.check()?;
                place
            }
            empty => {
                let reactor = workers::of_caller()?;
                reactor.check()?;
                let place = match self.enter(reactor, interest)? {
                    Some(place) => place,
                    // Closed this moment. The shared one never is.
                    None => self.enter(workers::shared()?, interest)?.ok_or(io::ErrorKind::Unsupported)?,
                };
                empty.insert(place)
            }
        };
        let selector = place.reactor.selector();
        if selector.one_shot() {
            place.armed.read |= interest.read;
            place.armed.write |= interest.write;
            selector.arm(self.io.as_fd(), place.key, place.armed)?;
        } else if interest.write && !place.armed.write {
            // From now on for good: a socket that was full once may be so again.
            place.armed.write = true;
            selector.arm(self.io.as_fd(), place.key, place.armed)?;
        }
        if !selector.one_shot() && !place.reactor.is_closed() {
            self.settled.set(before, Interest { read: true, write: place.armed.write });
        }
        Ok(())
    }

    /// Says that the caller waits at the socket's place, until the answer is dropped; `None` if
    /// there is no need: the place is looked after at any time, or by the caller's own worker, for
    /// a fiber that `waits_here`. Relaxed: `home` is set before the direction is reported for good;
    /// and if the place has changed since, the wait is told.
    #[inline]
    pub(crate) fn visit(&self, waits_here: bool) -> Option<Outsider> {
        let home = self.home.load(Ordering::Relaxed);
        if home == 0 || (waits_here && workers::is_callers(home)) { None } else { self.visit_another() }
    }

    #[cold]
    fn visit_another(&self) -> Option<Outsider> {
        let slot = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().filter(|_| self.home.load(Ordering::Relaxed) != 0).map(|place| Outsider::new(&place.reactor))
    }

    /// Registers with a given reactor, which is open.
    #[cfg(test)]
    pub(crate) fn enlist_with(self: &Arc<Self>, reactor: &Arc<Reactor>) -> io::Result<()> {
        let place = self.enter(Arc::clone(reactor), Interest::default())?;
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        Ok(())
    }

    fn enter(self: &Arc<Self>, reactor: Arc<Reactor>, interest: Interest) -> io::Result<Option<Place>> {
        self.tells_end.store(reactor.selector().tells_end(), Ordering::Relaxed);
        self.home.store(reactor.home(), Ordering::Relaxed);
        let this: Weak<Self> = Arc::downgrade(self);
        let key = reactor.register(this, self.io.as_fd(), interest)?;
        // One that reports once has not been asked yet.
        let armed = if reactor.selector().one_shot() { Interest::default() } else { interest };
        Ok(key.map(|key| Place { reactor, key, armed }))
    }

    /// For one-shot selectors: the directions that were reported are no longer asked for, the
    /// others are asked for again.
    fn disarm(&self, ready: Ready) {
        if self.tells_end() {
            return; // Edges: the common case, without the lock.
        }
        let mut slot = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = &mut *slot else { return };
        let selector = place.reactor.selector();
        if !selector.one_shot() {
            return;
        }
        place.armed.read &= !ready.directions.read;
        place.armed.write &= !ready.directions.write;
        if place.armed != Interest::default() && selector.arm(self.io.as_fd(), place.key, place.armed).is_err() {
            // Each waiter is to see the error for itself.
            self.directions.iter().for_each(|direction| direction.report(true));
        }
    }
}

impl Watched for Socket {
    fn report(&self, ready: Ready) {
        self.disarm(ready);
        if ready.directions.read {
            self.direction(Half::Read).report(ready.unsteady);
        }
        if ready.directions.write {
            self.direction(Half::Write).report(ready.unsteady);
        }
    }

    fn report_closed(&self) {
        self.settled.end();
        self.directions.iter().for_each(|direction| direction.report(false));
    }
}

/// A timer for each direction, by the number of its half.
impl TimeLimited for Socket {
    fn timer(&self, half: usize) -> &LazyTimer {
        self.directions[half].timer()
    }

    fn expire(&self, half: usize) {
        self.directions[half].expire();
        #[cfg(linux)]
        ring::expire(&self.limited[half]);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The descriptor is closed after this, when the fields are dropped.
        if let Some(place) = self.place.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            place.reactor.deregister(place.key, self.io.as_fd());
        }
    }
}

/// The time that ops of one direction may wait, as in std's sockets.
#[derive(Debug, Default)]
pub(crate) struct Timeout {
    /// Zero is for ever.
    nanos: AtomicU64,
}

impl Timeout {
    /// A store. Durations beyond 584 years are cut to that.
    pub(crate) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        if timeout.is_some_and(|time| time.is_zero()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a time-out of zero: use None to wait for ever"));
        }
        let nanos = timeout.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        // The number carries nothing but itself.
        self.nanos.store(nanos, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<Duration> {
        match self.nanos.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/units/socket.rs"]
mod tests;
