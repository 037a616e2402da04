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
        && error.raw_os_error() != Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NetworkUnreachable, TimedOut};
    use segue_core::{Waitable, after, timeout};
    use segue_sched::Sim;
    use std::cell::RefCell;
    use std::rc::Rc;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// The fate of an attempt: after so long, this.
    #[derive(Clone, Copy)]
    enum Fate {
        Answers(u64, Result<u32, io::ErrorKind>),
        FailsAtOnce(io::ErrorKind),
    }
    use Fate::{Answers, FailsAtOnce};

    /// Notes its own drop, where a socket would be closed.
    struct Open(usize, Rc<RefCell<Vec<usize>>>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }

    /// The outcome of a race, its time, the beginning of each attempt, and the order in which they
    /// were dropped. In virtual time.
    #[derive(Debug)]
    struct Course {
        end: Result<u32, io::ErrorKind>,
        took: Duration,
        begun: Vec<Duration>,
        closed: Vec<usize>,
    }

    fn run(fates: &[Fate]) -> Course {
        let start = now();
        let (begun, closed) = (RefCell::new(Vec::new()), Rc::default());
        let begin = |(index, fate): (usize, &Fate)| {
            begun.borrow_mut().push(now() - start);
            match *fate {
                FailsAtOnce(kind) => Err(kind.into()),
                Answers(time, end) => {
                    let open = Open(index, Rc::clone(&closed));
                    let ended = after(MS(time)).map(move |()| {
                        let _ = &open;
                        end.map_err(io::Error::from)
                    });
                    Ok(Waitable::into_source(ended))
                }
            }
        };
        let end = first(fates.iter().enumerate(), HEAD_START, begin).map_err(|error| error.kind());
        let took = now() - start;
        Course { end, took, begun: begun.into_inner(), closed: closed.take() }
    }

    fn simulated(fates: &[Fate]) -> Course {
        Sim::new(7).run(|| run(fates)).unwrap()
    }

    #[test]
    fn the_first_address_has_a_head_start() {
        let ran = simulated(&[Answers(249, Ok(1)), Answers(0, Ok(2))]);
        assert_eq!((ran.end, ran.took, ran.begun), (Ok(1), MS(249), vec![MS(0)]));
    }

    #[test]
    fn an_answer_when_the_head_start_is_over_begins_no_other_attempt() {
        let ran = simulated(&[Answers(250, Ok(1)), Answers(0, Ok(2))]);
        assert_eq!((ran.end, ran.begun), (Ok(1), vec![MS(0)]));
    }

    #[test]
    fn an_address_that_does_not_answer_costs_its_head_start_alone() {
        let never = Answers(1_000_000, Err(TimedOut));
        let ran = simulated(&[never, never, Answers(30, Ok(3)), Answers(0, Ok(4))]);
        assert_eq!((ran.end, ran.took), (Ok(3), MS(530)));
        assert_eq!(ran.begun, [MS(0), MS(250), MS(500)]);
        assert_eq!(ran.closed, [0, 1, 2], "an attempt is still open");
    }

    #[test]
    fn one_that_is_slow_still_wins_against_one_that_is_slower() {
        let ran = simulated(&[Answers(400, Ok(1)), Answers(900, Ok(2))]);
        assert_eq!((ran.end, ran.took, ran.begun), (Ok(1), MS(400), vec![MS(0), MS(250)]));
    }

    #[test]
    fn a_failure_has_the_next_one_begin_at_once() {
        let ran = simulated(&[Answers(10, Err(ConnectionRefused)), FailsAtOnce(TimedOut), Answers(5, Ok(3))]);
        assert_eq!((ran.end, ran.took, ran.begun), (Ok(3), MS(15), vec![MS(0), MS(10), MS(10)]));
    }

    #[test]
    fn a_failure_of_an_older_attempt_has_the_next_one_begin_too() {
        let fates = [Answers(300, Err(ConnectionRefused)), Answers(900, Ok(2)), Answers(5, Ok(3))];
        let ran = simulated(&fates);
        assert_eq!((ran.end, ran.took, ran.begun), (Ok(3), MS(305), vec![MS(0), MS(250), MS(300)]));
    }

    #[test]
    fn the_last_error_counts_unless_it_is_about_this_machine() {
        let (refused, nowhere) = (Answers(1, Err(ConnectionRefused)), FailsAtOnce(NetworkUnreachable));
        assert_eq!(simulated(&[refused, nowhere]).end, Err(ConnectionRefused));
        assert_eq!(simulated(&[nowhere, refused]).end, Err(ConnectionRefused));
        assert_eq!(simulated(&[refused, Answers(1, Err(TimedOut))]).end, Err(TimedOut));
        assert_eq!(simulated(&[nowhere, nowhere]).end, Err(NetworkUnreachable));
        assert_eq!(simulated(&[]).end, Err(InvalidInput));
    }

    #[test]
    fn a_cancellation_ends_the_race_and_closes_all() {
        let closed = Sim::new(1).run(|| {
            let closed = Rc::new(RefCell::new(Vec::new()));
            let begin = |index| {
                let open = Open(index, Rc::clone(&closed));
                Ok(after(MS(1_000_000)).map(move |()| Ok(open.0)).into_source())
            };
            let start = now();
            let ended = timeout(MS(600), || first(0..9, HEAD_START, begin));
            assert!(Cancelled::caused(&ended.unwrap_err()));
            assert_eq!(now() - start, MS(600));
            closed.take()
        });
        assert_eq!(closed.unwrap(), [0, 1, 2]);
    }

    #[test]
    fn a_plain_thread_races_as_well() {
        let ran = run(&[Answers(1_000_000, Ok(1)), FailsAtOnce(TimedOut), Answers(1, Ok(3))]);
        assert_eq!(ran.end, Ok(3));
        assert!(ran.took >= HEAD_START);
    }

    #[test]
    fn families_take_turns_in_the_order_that_they_came_in() {
        let row = |text: &str| -> Vec<String> {
            let addrs = text.split(' ').map(|addr| addr.parse().unwrap());
            interleaved(addrs).iter().map(SocketAddr::to_string).collect()
        };
        let mixed = row("[::1]:1 [::1]:2 [::1]:3 1.1.1.1:1 1.1.1.1:2");
        assert_eq!(mixed, ["[::1]:1", "1.1.1.1:1", "[::1]:2", "1.1.1.1:2", "[::1]:3"]);
        assert_eq!(row("1.1.1.1:1 1.1.1.1:2 [::1]:3"), ["1.1.1.1:1", "[::1]:3", "1.1.1.1:2"]);
        assert!(interleaved([]).is_empty());
    }
}
