//! A race between the addresses of a host, after RFC 8305 (Happy Eyeballs, version 2).
//!
//! Used by [`TcpStream::connect`](super::TcpStream::connect). The race knows of no network: an
//! attempt is begun by `begin`, and is a source of its outcome.
//!
//! # The idea
//!
//! A host has addresses of both families, and one of the two may lead nowhere, where only a
//! time-out would tell. So an attempt is given a head start and not a monopoly: the next one begins
//! when the head start is over, or as soon as one fails. The first that succeeds wins.
//!
//! All attempts are sources, which one caller waits for. So there is no fiber for each of them, and
//! the race is the same on a plain thread, in a simulation with its virtual time, and everywhere.
//!
//! ```text
//!              its turn            succeeds first
//!   in the row ---------> under way ------------> won: the others are dropped, begun or not
//!                             |  fails
//!                             +----------> failed: its error is noted, the next one's turn
//! ```
//!
//! | state of the race | the effect of a cancellation |
//! | --- | --- |
//! | a wait | all attempts are dropped, which closes their sockets |
//! | an attempt has succeeded | none: the cancellation shows at the next operation |
//!
//! **The race to fear**: the head start is over in the moment in which an attempt succeeds. Then
//! the attempts are looked at once more, and no other one begins.
//!
//! # Left out
//!
//! The RFC begins to connect when the first family has been resolved. Here a host's addresses come
//! at once, in the resolver's order, which the system makes by RFC 6724.

use crate::system::sys::says;
use segue_core::{Cancelled, Either, Merge, Source, at, now};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The head start of each attempt: the recommendation of RFC 8305 (section 5).
pub(super) const HEAD_START: Duration = Duration::from_millis(250);

/// Begins one attempt after the other, each after the head start of the one before, until one has
/// succeeded. All others are dropped.
#[track_caller]
pub(super) fn first<A, S, T>(
    addrs: impl IntoIterator<Item = A>,
    head_start: Duration,
    mut begin: impl FnMut(A) -> io::Result<S>,
) -> io::Result<T>
where
    S: Source<Output = io::Result<T>>,
{
    let mut addrs = addrs.into_iter().fuse();
    let mut attempts = Merge::new();
    let mut tries = Tries::default();
    loop {
        let next = addrs.next();
        let over = next.as_ref().and_then(|_| now().checked_add(head_start));
        match next.map(&mut begin) {
            Some(Ok(attempt)) => _ = attempts.push(attempt),
            Some(Err(error)) => {
                tries.note::<T>(Err(error))?;
                continue;
            }
            None if attempts.is_empty() => return tries.fail(),
            None => {}
        }
        let ended = match attempts.next_source().or_else(at(over)).wait()? {
            Either::Left(ended) => Some(ended),
            Either::Right(()) => attempts.try_next(),
        };
        if let Some((index, ended)) = ended {
            if let Some(value) = tries.note(ended)? {
                return Ok(value);
            }
            attempts.remove(index);
        }
    }
}

/// The addresses with the families by turns, beginning with that of the first (section 4). Within a
/// family they stay in order.
pub(super) fn interleaved(addrs: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let addrs: Vec<_> = addrs.into_iter().collect();
    let preferred = addrs.first().is_some_and(SocketAddr::is_ipv6);
    let (some, others): (Vec<_>, Vec<_>) = addrs.iter().copied().partition(|addr| addr.is_ipv6() == preferred);
    let (mut some, mut others) = (some.into_iter(), others.into_iter());
    let mut row = Vec::with_capacity(addrs.len());
    while row.len() < addrs.len() {
        row.extend(some.next());
        row.extend(others.next());
    }
    row
}

/// Attempts that have failed: the last error counts, but an error that only blames this machine
/// counts less than any other. A cancellation ends the attempts at once.
#[derive(Default)]
pub(super) struct Tries(Option<io::Error>);

impl Tries {
    /// The outcome at one address: the success, or nothing if the next is to be tried.
    pub(super) fn note<T>(&mut self, tried: io::Result<T>) -> io::Result<Option<T>> {
        match tried {
            Err(error) if Cancelled::caused(&error) => Err(error),
            Err(error) => {
                if is_telling(&error) || !self.0.as_ref().is_some_and(is_telling) {
                    self.0 = Some(error);
                }
                Ok(None)
            }
            Ok(value) => Ok(Some(value)),
        }
    }

    /// The first success of an attempt at each of these.
    pub(super) fn first<A, T>(
        all: impl Iterator<Item = A>,
        mut attempt: impl FnMut(A) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut tries = Self::default();
        for one in all {
            if let Some(value) = tries.note(attempt(one))? {
                return Ok(value);
            }
        }
        tries.fail()
    }

    /// None has succeeded.
    pub(super) fn fail<T>(self) -> io::Result<T> {
        let nothing = || io::Error::new(io::ErrorKind::InvalidInput, "could not resolve to any addresses");
        Err(self.0.unwrap_or_else(nothing))
    }
}

/// Whether somebody else has a part in an error. Else a machine without the one family would say so
/// of a host that has refused the other.
fn is_telling(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable)
        && !says(error, &[rustix::io::Errno::AFNOSUPPORT])
}

#[cfg(test)]
#[path = "../../tests/units/race.rs"]
mod tests;
