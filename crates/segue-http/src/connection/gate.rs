//! Counts the connections of a server; when there are too many, the gate ends idle ones to make
//! room for newcomers. Used by the accept loops, and by each connection, which tells the gate of
//! its idle times.
//!
//! # Which connection has to go
//!
//! A newcomer at a full gate ends the connection that has been idle longest among those that have
//! had no request yet, or that only linger; those that were accepted just now are spared, since
//! their requests may be on their way. Without such a connection the newcomer asks the next
//! response to end its connection, so that a client that asks all the time loses no request. After
//! a moment the newcomer ends the longest idle one of those that were idle all through that moment.
//!
//! # The word of a seat
//!
//! | value | meaning | set by |
//! | --- | --- | --- |
//! | 0 | busy | the connection, when something has arrived |
//! | a number | idle since the gate counted so far; with [`USED`] if there was a request before | the connection |
//! | [`EVICTED`] | the connection has to go | the acceptor, in exchange for the number seen before |
//!
//! A connection that finds itself evicted, and a request that has arrived all the same, answers
//! that one and ends then; so the newcomer does not wait for one connection alone. The numbers
//! order the idle ones and carry nothing else, so all of them are relaxed; the token's cancellation
//! wakes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use segue_core::{CancelToken, Cancelled, Outcome, Trigger, WaitsFor};
use slab::Slab;

/// The time for which a connection is left alone when new, or idle since its last request.
const GRACE: Duration = Duration::from_millis(50);
/// How many idle connections one look at all seats finds.
const BATCH: usize = 64;

const BUSY: u64 = 0;
const USED: u64 = 1 << 62;
const EVICTED: u64 = u64::MAX;

/// A limit on how many connections there are at a time. The acceptors of all listeners wait there.
pub(crate) struct Gate {
    limit: usize,
    /// How often a connection has become idle.
    count: AtomicU64,
    /// An acceptor waits for a connection to end with its next response.
    wanted: AtomicBool,
    /// Never held across a wait.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seats: Slab<Arc<Seat>>,
    /// The acceptors that wait, the longest waiting first.
    waiting: VecDeque<Arc<Trigger>>,
    /// The seats that were idle at the last look at all of them, the longest idle first.
    idle: VecDeque<(u64, Arc<Seat>)>,
}

struct Seat {
    /// See the table above.
    idle: AtomicU64,
    /// The time at which the place was taken.
    since: Instant,
    token: CancelToken,
}

/// One place inside of the gate; its drop lets the next one in.
pub(crate) struct Place<'g> {
    gate: &'g Gate,
    number: usize,
    seat: Arc<Seat>,
}

impl Gate {
    pub(crate) fn new(limit: usize) -> Gate {
        Gate { limit, count: AtomicU64::new(1), wanted: AtomicBool::new(false), state: Mutex::default() }
    }

    /// Waits for a place; an idle connection may have to give up its own.
    pub(crate) fn enter(&self) -> Result<Place<'_>, Cancelled> {
        // At first only those that have had no request have to go.
        let mut before = USED;
        loop {
            let trigger = match self.take() {
                Ok(place) => return Ok(place),
                Err(trigger) => trigger,
            };
            if !self.evict(before) {
                self.wanted.store(true, Ordering::Relaxed);
            }
            before = USED | self.count.load(Ordering::Relaxed);
            let wait = || trigger.wait(WaitsFor::new("the end of a connection"));
            match segue_core::timeout(GRACE, wait) {
                Outcome::Taken(_) => {}
                // By the caller's cancellation, or by the end of the moment.
                Outcome::Cancelled => {
                    self.state().waiting.retain(|other| !Arc::ptr_eq(other, &trigger));
                    segue_core::check()?;
                }
            }
        }
    }

    /// Takes a place; if there is none, the trigger that says when to try again.
    fn take(&self) -> Result<Place<'_>, Arc<Trigger>> {
        let mut state = self.state();
        if state.seats.len() >= self.limit {
            let trigger = Arc::new(Trigger::new());
            state.waiting.push_back(Arc::clone(&trigger));
            return Err(trigger);
        }
        self.wanted.store(false, Ordering::Relaxed);
        let seat = Seat { idle: AtomicU64::new(BUSY), since: segue_core::now(), token: CancelToken::new() };
        let seat = Arc::new(seat);
        let number = state.seats.insert(Arc::clone(&seat));
        Ok(Place { gate: self, number, seat })
    }

    /// Ends the longest idle connection of those that became idle before a number. Answers whether
    /// there was one.
    fn evict(&self, before: u64) -> bool {
        let evicted = self.state().evict(before);
        // Cancelling calls schedulers, so not under the lock.
        evicted.map(|seat| seat.token.cancel()).is_some()
    }

    /// Ends all connections that are at rest, or will be. After the last one has entered.
    pub(crate) fn close(&self) {
        let seats: Vec<_> = self.state().seats.iter().map(|(_, seat)| Arc::clone(seat)).collect();
        seats.iter().for_each(|seat| seat.token.cancel());
    }

    fn next_waiting(&self) -> Option<Arc<Trigger>> {
        self.state().waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn evict(&mut self, before: u64) -> Option<Arc<Seat>> {
        let now = segue_core::now();
        let may_go = |(since, seat): &(u64, Arc<Seat>)| {
            *since < before && (*since >= USED || now.saturating_duration_since(seat.since) >= GRACE)
        };
        let mut looked = false;
        loop {
            if let Some((since, seat)) = self.idle.iter().position(may_go).and_then(|at| self.idle.remove(at)) {
                // The connection may have become busy, or have ended.
                if seat.idle.compare_exchange(since, EVICTED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                    return Some(seat);
                }
            } else if looked {
                return None;
            } else {
                self.look();
                looked = true;
            }
        }
    }

    /// Lists the idle connections.
    fn look(&mut self) {
        let mut idle: Vec<(u64, &Arc<Seat>)> = self
            .seats
            .iter()
            .map(|(_, seat)| (seat.idle.load(Ordering::Relaxed), seat))
            .filter(|(since, _)| *since != BUSY && *since != EVICTED)
            .collect();
        if idle.len() > BATCH {
            idle.select_nth_unstable_by_key(BATCH, |(since, _)| *since);
            idle.truncate(BATCH);
        }
        idle.sort_unstable_by_key(|(since, _)| *since);
        self.idle = idle.into_iter().map(|(since, seat)| (since, Arc::clone(seat))).collect();
    }
}

impl Place<'_> {
    /// The token that cancels a connection at rest.
    pub(crate) fn token(&self) -> &CancelToken {
        &self.seat.token
    }

    /// The connection is idle from now on, after a request or without one.
    pub(crate) fn rest(&self, used: bool) {
        let count = self.gate.count.fetch_add(1, Ordering::Relaxed);
        self.seat.idle.store(if used { count | USED } else { count }, Ordering::Relaxed);
    }

    /// The connection is busy from now on. Answers whether the connection goes on afterwards.
    pub(crate) fn rise(&self) -> bool {
        self.seat.idle.swap(BUSY, Ordering::Relaxed) != EVICTED
    }

    /// Whether this connection is to end with its next response, for one that waits.
    pub(crate) fn is_wanted(&self) -> bool {
        let wanted = &self.gate.wanted;
        wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Nobody looks for this connection from now on.
        self.seat.idle.store(BUSY, Ordering::Relaxed);
        self.gate.state().seats.remove(self.number);
        // After a cancellation, or the end of the moment, an acceptor does not take the signal.
        while let Some(trigger) = self.gate.next_waiting() {
            if trigger.signal(0) {
                break;
            }
        }
    }
}
